"""Prose becomes passages, and no document is in both splits."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from research.training.passages import LONGEST, SHORTEST, Novelty, passages, reads_well, runs

from hammingmark.assembly.parts import load_splitter
from hammingmark.evaluation.datasets.prose import text_sections
from hammingmark.protocols import Splitter
from research.training import corpus

SYLLABLES = ("ba", "do", "ki", "lu", "me", "no", "ri", "sa", "te", "vu")


@pytest.fixture(scope="module")
def splitter() -> Splitter:
    return load_splitter()


def prose(count: int, *, seed: int = 0) -> str:
    """Sentences of nonsense words, no two alike; another seed shares no words in a row."""
    rng = np.random.default_rng(seed)
    words = rng.choice(SYLLABLES, size=(count, 9, 3))
    return " ".join(
        " ".join("".join(word) for word in sentence).capitalize() + "." for sentence in words
    )


@pytest.mark.parametrize(
    "sentence",
    [
        "This is a plain sentence.",
        '"Is this one too?" he asked.',
        "In 1990 the city had some three thousand inhabitants (most of them old).",
        "Élodie went home after the concert!",
    ],
)
def test_a_plain_sentence_reads_well(sentence: str) -> None:
    assert reads_well(sentence)


@pytest.mark.parametrize(
    "sentence",
    [
        "Too short by far.",
        "Long " * 61 + "end.",
        "this one begins with a small letter.",
        "This one has no end",
        "This is what he said to Mr.",
        "Numbers 1 2 3 4 5 6 7 8 9 10 11 12 rule.",
        "The residue of a table | stands in this one.",
        "This one has an open (bracket in the middle.",
        "You can find it at http://example.org in a minute.",
        "The Greek name is Ἀθῆναι Ἀθῆναι Ἀθῆναι Ἀθῆναι here.",
        "It was born in \ufffc and died there.",
    ],
)
def test_incomplete_sentences_do_not(sentence: str) -> None:
    assert not reads_well(sentence)


def test_a_run_ends_at_a_bad_sentence_a_heading_and_a_repetition(splitter: Splitter) -> None:
    one, two, three = (prose(2, seed=seed) for seed in range(3))
    first = three.partition(" ")[0]
    text = f"{one} Too short. {two}\n\n# Heading\n\n{three} {three}"
    found = [" ".join(run) for run in runs(text, splitter)]
    assert found[:3] == [one, two, three]
    assert not found[3].startswith(first)


def test_passages_have_8_to_16_sentences_of_one_run(splitter: Splitter) -> None:
    text = prose(400)
    rng = np.random.default_rng(0)
    found = passages([text, prose(7, seed=1)], splitter, most=99, rng=rng)
    assert {len(each) for each in found} == set(range(SHORTEST, LONGEST + 1))
    assert all(" ".join(each) in text for each in found)
    assert sum(map(len, found)) > 400 - SHORTEST
    drawn = passages([text], splitter, most=3, rng=rng)
    places = [text.index(each[0]) for each in drawn]
    assert len(drawn) == 3
    assert places == sorted(places)


def test_a_near_copy_is_not_new(splitter: Splitter) -> None:
    novelty = Novelty()
    first = runs_of(prose(12), splitter)
    assert novelty.take(first)
    assert not novelty.take([sentence.upper().replace(" ", ", ") for sentence in first])
    assert not novelty.take([*first[:11], "This sentence alone is a new one."])
    assert novelty.take([*runs_of(prose(12, seed=1), splitter), first[0]])


def runs_of(text: str, splitter: Splitter) -> list[str]:
    (run,) = runs(text, splitter)
    return run


def build_one(*, seed: int) -> list[corpus.Passage]:
    genre = corpus.Genre("plain", text_sections, share=1.0, each=2)
    documents = {f"doc {i}": prose(40, seed=i) for i in range(12)}
    # The second extra is a copy of a document that might be trained on.
    extra = {"a": prose(40, seed=99), "b": documents["doc 11"]}
    return corpus.build(
        [(genre, documents, corpus.held_out(documents, seed=seed))],
        extras={"mine": extra},
        train=15,
        heldout=3,
        splitter=load_splitter(),
        seed=seed,
    )


@pytest.fixture(scope="module")
def found() -> list[corpus.Passage]:
    return build_one(seed=1)


class TestBuild:
    def test_extras_are_held_out_and_sizes_are_kept(self, found: list[corpus.Passage]) -> None:
        counts = {
            (genre, split): sum((p.genre, p.split) == (genre, split) for p in found)
            for genre in ("plain", "mine")
            for split in ("train", "heldout")
        }
        assert counts == {
            ("plain", "train"): 15,
            ("plain", "heldout"): 3,
            ("mine", "train"): 0,
            ("mine", "heldout"): 3,
        }

    def test_no_document_is_in_both_splits(self, found: list[corpus.Passage]) -> None:
        splits: dict[str, set[str]] = {}
        for passage in found:
            splits.setdefault(passage.id.rsplit("/", 1)[0], set()).add(passage.split)
        assert all(len(each) == 1 for each in splits.values())
        assert len({passage.id for passage in found}) == len(found)

    def test_training_has_no_sentence_of_the_evaluation(self, found: list[corpus.Passage]) -> None:
        held = {s for passage in found if passage.split == "heldout" for s in passage.sentences}
        trained = {s for passage in found if passage.split == "train" for s in passage.sentences}
        assert held
        assert not held & trained

    def test_the_seed_decides(self, found: list[corpus.Passage]) -> None:
        assert build_one(seed=1) == found
        assert build_one(seed=2) != found


def test_a_tenth_is_held_out_whatever_the_order() -> None:
    titles = [f"title {i}" for i in range(101)]
    out = corpus.held_out(titles, seed=0)
    assert len(out) == 11
    assert corpus.held_out(titles[::-1], seed=0) == out
    assert corpus.held_out(titles, seed=1) != out
    assert len(corpus.held_out(["one"], seed=0)) == 1


def test_the_command_writes_json_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    genre = corpus.Genre("plain", text_sections, share=1.0, each=2)
    monkeypatch.setattr(corpus, "load_corpora", lambda seed: [(genre, {"a": prose(30)}, set())])
    extra = tmp_path / "extra.jsonl"
    extra.write_text(json.dumps({"text": prose(30, seed=1)}) + "\n")
    out = tmp_path / "sub" / "passages.jsonl"
    corpus.main(["--out", str(out), "--extra", f"mine={extra}", "--train", "2"])
    rows = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    assert {row["split"] for row in rows if row["genre"] == "mine"} == {"heldout"}
    assert {row["split"] for row in rows if row["genre"] == "plain"} == {"train"}
    assert set(rows[0]) == {"id", "genre", "split", "sentences"}
    assert "train" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        corpus.main(["--extra", "no-file"])
