"""The training loop, on a tiny model made on the spot."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from research.training.encoder import SentenceEncoder  # noqa: E402
from research.training.files import read_passages, write_rewrites  # noqa: E402
from research.training.finetune import Corpus, shares, train, usable  # noqa: E402
from research.training.measure import fit_common, measure  # noqa: E402
from research.training.objective import Weights  # noqa: E402
from tests.unit.attacks import tiny  # noqa: E402


def sentence(rng: np.random.Generator) -> str:
    return " ".join(rng.choice(tiny.WORDS, size=8)) + "."


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Forty passages, twelve pools, and two rewriters; the second knows only some sentences."""
    folder = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(0)
    passages = [
        {
            "id": f"p{number}",
            "genre": "tale",
            "split": "train" if number < 40 else "heldout",
            "sentences": [sentence(rng) for _ in range(5)],
        }
        for number in range(48)
    ]
    pools = [
        {
            "id": row["id"],
            "split": "train",
            "sentences": [row["sentences"][2], *(sentence(rng) for _ in range(4))],
            "next": row["sentences"][3],
        }
        for row in passages[:12]
    ]
    for name, rows in (("passages", passages), ("pools", pools)):
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / f"{name}.jsonl").write_text(text, encoding="utf-8")
    every = dict.fromkeys(each for row in [*passages, *pools] for each in row["sentences"])
    shortened = {each: each.rpartition(" ")[0] for each in every}
    shortened.pop(passages[39]["sentences"][1])  # the rewriter stopped inside the last passage
    write_rewrites(folder / "one.jsonl.gz", shortened)
    some = {each: sentence(rng) for each in list(every)[::3]} | {passages[0]["sentences"][1]: ""}
    write_rewrites(folder / "two.jsonl.gz", some)
    tiny.bert(folder / "base")
    return folder


def corpus_of(files: Path, encoder: SentenceEncoder, **options: int) -> Corpus:
    return Corpus(
        [files / "passages.jsonl"],
        [files / "pools.jsonl"],
        [files / "one.jsonl.gz", files / "two.jsonl.gz"],
        encoder,
        **options,
    )


def encoder_of(files: Path) -> SentenceEncoder:
    torch.manual_seed(0)
    made = SentenceEncoder(files / "base", rank=4, device="cpu")
    made.eval()
    return made


def test_only_passages_that_were_rewritten_as_a_whole_are_used(files: Path) -> None:
    corpus = corpus_of(files, encoder_of(files))
    assert corpus.passages == 39
    assert len(corpus.groups) == 39 + 12
    assert all(len(group) == 6 for group in corpus.groups[39:])  # five, and what came next
    assert corpus_of(files, encoder_of(files), most=7).passages == 7


def test_missing_rewrites_are_not_chosen(files: Path) -> None:
    corpus = corpus_of(files, encoder_of(files))
    sentences = np.arange(len(corpus.rows))
    assert (corpus.rows[1, 2], corpus.rows[0, 2]) == (-1, corpus.rows[0].max())
    both = shares(2, [1.0, 3.0])
    chosen = corpus.choose(sentences, both, np.random.default_rng(0))
    assert (chosen >= 0).all()
    assert (chosen[corpus.rows[:, 2] < 0] == corpus.rows[corpus.rows[:, 2] < 0, 1]).all()
    often = (chosen == corpus.rows[:, 2])[corpus.rows[:, 2] >= 0].mean()
    assert 0.5 < often < 0.95
    corpus.rows[3, 1:] = -1
    alone = corpus.choose(np.array([3]), both, np.random.default_rng(0))
    assert alone.tolist() == [corpus.rows[3, 0]]


def test_rewrites_that_change_nothing_or_never_end_are_not_used() -> None:
    assert usable("Boats came home.", "Boats came back.") == "Boats came home."
    assert usable("Boats came back.", "Boats came back.") == ""
    assert usable("Boats came " + "and came " * 6, "Boats came back.") == ""
    assert usable("", "Boats came back.") == ""


def test_rewrites_about_something_else_are_dropped(files: Path) -> None:
    encoder = encoder_of(files)
    corpus = corpus_of(files, encoder)
    before = (corpus.rows >= 0).sum()
    assert corpus.drop_strays(encoder, -1.0) == 0.0
    share = corpus.drop_strays(encoder, 0.999)
    assert share > 0.0
    assert (corpus.rows >= 0).sum() < before
    assert (corpus.rows[:, 0] >= 0).all()


def test_training_brings_rewrites_nearer_and_can_be_resumed(files: Path, tmp_path: Path) -> None:
    encoder = encoder_of(files)
    corpus = corpus_of(files, encoder)
    log = list(
        train(
            encoder,
            corpus,
            weights=Weights(),
            mixture=shares(2, [1.0, 0.0]),
            directions=2,
            epochs=8,
            batch=17,
            rate=3e-3,
            rng=np.random.default_rng(0),
        )
    )
    assert log[-1]["same"] < 0.95 * log[0]["same"]
    encoder.save(tmp_path / "additions.safetensors")
    again = encoder_of(files)
    again.load(tmp_path / "additions.safetensors")
    words = ["the old bridge was closed.", "boats came back."]
    # The same weights by the same operations, whatever the parametrisation holds.
    assert np.allclose(encoder.encode(words), again.encode(words), atol=1e-5)


def test_training_by_distance_alone_brings_rewrites_nearer(files: Path) -> None:
    encoder = encoder_of(files)
    log = list(
        train(
            encoder,
            corpus_of(files, encoder),
            weights=Weights(same=0.0, far=0.0, distance=4.0, among=4.0),
            mixture=shares(2, [1.0, 0.0]),
            directions=2,
            epochs=8,
            batch=17,
            rate=3e-3,
            rng=np.random.default_rng(0),
        )
    )
    assert log[-1]["distance"] < 0.95 * log[0]["distance"]
    assert all(np.isfinite(value) for row in log for value in row.values())


def test_the_measures_of_an_encoder(files: Path) -> None:
    encoder = encoder_of(files)
    texts = [row["sentences"] for row in read_passages(files / "passages.jsonl")]
    common = fit_common(encoder, texts[:40], count=2)
    same = {each: each for text in texts for each in text}
    pools = texts[:8]
    found = measure(encoder, common, {"tale": texts[40:]}, {"same": same}, pools)
    assert found["tale"]["same"] == {"kept": pytest.approx(1.0), "far": 0.0}
    assert found["evidence"]["same"] == pytest.approx(found["evidence"]["as written"], abs=0.02)
    assert found["cost"] > 2.0
