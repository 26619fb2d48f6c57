"""Parrot, Pegasus and DIPPER on tiny models of their architectures, made here."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from tests.errors import raises_naming

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from tests.unit.attacks import tiny  # noqa: E402

from hammingmark.attacks.decoding import Decoding  # noqa: E402
from hammingmark.attacks.dipper import Dipper  # noqa: E402
from hammingmark.attacks.diverse import diverse_beams  # noqa: E402
from hammingmark.attacks.paraphrase import Parrot, Pegasus, fewest_shared, similarity_by  # noqa: E402  # noqa: E402
from hammingmark.errors import InputError  # noqa: E402
from hammingmark.pretrained import Loaded, load  # noqa: E402
from hammingmark.protocols import Attack, Splitter  # noqa: E402
from hammingmark.testing import FakeEncoder  # noqa: E402

TEXTS = [
    "The old bridge was closed. Engineers had found cracks in it. Nobody knew why.\n\n"
    "- The boats came back empty.\n\nThe rain fell on the small town.",
    "People waited for news of their friends.",
]


@pytest.fixture(scope="module")
def t5(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.t5(tmp_path_factory.mktemp("t5"))


@pytest.fixture(scope="module")
def pegasus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.pegasus(tmp_path_factory.mktemp("pegasus"))


@pytest.fixture(scope="module")
def loaded(t5: Path) -> Loaded:
    return load("AutoModelForSeq2SeqLM", t5, device="cpu")


def dice(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def without_ends(rows: list[list[int]]) -> list[list[int]]:
    return [[token for token in row if token > 1] for row in rows]


@pytest.mark.parametrize("length", [4, 9, 16])
def test_one_group_is_plain_beam_search(loaded: Loaded, length: int) -> None:
    """The library's own beam search is the reference."""
    batch = loaded.tokenizer([TEXTS[1], "the old bridge"], return_tensors="pt", padding=True)
    batch.pop("token_type_ids", None)
    decoding = Decoding(beams=4, returns=3, max_length=length)
    with torch.inference_mode():
        ours = diverse_beams(loaded, batch, decoding)
        options = decoding.options(read=0, most=None) | {"early_stopping": True}
        theirs = loaded.model.generate(**batch, **options).tolist()
    assert without_ends(ours) == without_ends(theirs)
    assert len(ours) == 6


def test_groups_avoid_each_other(loaded: Loaded) -> None:
    batch = loaded.tokenizer(["the old bridge was closed"], return_tensors="pt")

    def first_words(diversity: float) -> set[int]:
        decoding = Decoding(beams=6, returns=6, groups=6, diversity=diversity, max_length=6)
        with torch.inference_mode():
            rows = diverse_beams(loaded, batch, decoding)
        assert len(rows) == 6
        return {row[0] for row in rows}

    assert len(first_words(0.0)) == 1  # six groups of one beam find the same answer
    assert len(first_words(100.0)) == 6


def test_a_small_penalty_is_the_papers_formula(loaded: Loaded) -> None:
    """Two groups of one beam: the second takes the best of log p minus the penalty, each step."""
    batch = loaded.tokenizer(["the boats came back"], return_tensors="pt")
    decoding = Decoding(beams=2, returns=2, groups=2, diversity=0.5, max_length=7)
    with torch.inference_mode():
        found = diverse_beams(loaded, batch, decoding)
        rows: list[list[int]] = [[0], [0]]
        for _ in range(6):
            taken = None
            for row in rows:
                if row[-1] == 1:
                    continue
                ids = torch.tensor([row])
                out = loaded.model(input_ids=batch["input_ids"], decoder_input_ids=ids)
                scores = out.logits[0, -1].log_softmax(-1)
                if taken is not None:
                    scores[taken] -= 0.5
                token = int(scores.argmax())
                taken = taken if token == 1 else token
                row.append(token)
    assert sorted(found) == sorted(row[1:] for row in rows)


@pytest.mark.parametrize("bigram", [False, True])
@pytest.mark.parametrize("kind", ["parrot", "pegasus"])
def test_paraphrasers_change_prose_and_nothing_else(
    kind: str, bigram: bool, t5: Path, pegasus: Path, splitter: Splitter
) -> None:
    judge = FakeEncoder()
    attack = (
        Parrot(t5, splitter=splitter, judge=judge, bigram=bigram, beams=4, max_length=10)
        if kind == "parrot"
        else Pegasus(pegasus, splitter=splitter, judge=judge, bigram=bigram, beams=3)
    )
    assert isinstance(attack, Attack)
    assert attack.name == kind + "-bigram" * bigram
    changed = attack.apply(TEXTS, rng=dice(1))
    assert changed == attack.apply(TEXTS, rng=dice(2))
    assert len(changed) == 2
    assert changed[0].count("\n\n") == 2
    assert "\n\n- " in changed[0]
    assert attack.tally["changed"] >= 10
    assert attack.tally.total() == 12


def test_bigrams_choose_among_all_beams(pegasus: Path, splitter: Splitter) -> None:
    sentence = "the old bridge was closed in spring and nobody knew why"
    offered = Pegasus(pegasus, splitter=splitter, beams=8)._paraphrases([sentence], dice())[0]
    assert len(offered) > 1
    seen: list[list[str]] = []

    def judge(original: str, others: Sequence[str]) -> list[float]:
        seen.append(list(others))
        return [1.0] * len(others)

    attack = Pegasus(pegasus, splitter=splitter, beams=8, bigram=True, judge=judge)
    attack.apply([sentence], rng=dice())
    assert seen == [offered]
    # Had the original been the first beam, that one would share every pair.
    assert attack._choose(offered[0], offered) in offered[1:]


def test_parrot_writes_whole_sentences(t5: Path, splitter: Splitter) -> None:
    attack = Parrot(t5, splitter=splitter, beams=4, max_length=10)
    (changed,) = attack.apply([TEXTS[1]], rng=dice())
    assert changed[0].isupper()
    assert changed.endswith((".", "?"))
    assert changed[1:].replace(" I ", "").islower()


def test_parrots_filters(t5: Path, splitter: Splitter) -> None:
    """Adequate, then fluent, then the farthest; a filter that leaves nothing is not applied."""
    far = "a very different thing"
    written = ["The cat, sat!", "a dog ran", far, "it rained", "the cat, sat"]
    adequate = {"the cat sat": 0.95, "a dog ran": 0.85, far: 0.1, "it rained": 0.2}

    def judge(sentence: str, others: Sequence[str]) -> list[float]:
        return [adequate[other] for other in others]

    def filtered(**options: object) -> list[str]:
        made = Parrot(t5, splitter=splitter, **options)  # type: ignore[arg-type]
        return made._filter("The cat sat.", written)

    assert filtered() == ["A very different thing.", "It rained.", "A dog ran.", "The cat sat."]
    assert filtered(judge=judge) == ["A dog ran.", "The cat sat."]
    assert filtered(judge=judge, adequacy=0.9) == ["The cat sat."]
    assert filtered(judge=judge, adequacy=0.99) == filtered()
    fluent = filtered(fluency=lambda texts: [float("cat" in text) for text in texts])
    assert fluent == ["The cat sat."]


def test_fewest_shared_bigrams() -> None:
    sentence = "The boats came back empty from the sea."
    near = "The boats came back empty from the ocean."
    far = "Empty from the sea came the boats back."
    off = "The rain fell."
    scores = {near: 0.95, far: 0.90, off: 0.2}

    def chosen(tolerance: float, *candidates: str) -> str:
        return fewest_shared(
            sentence,
            candidates,
            similarity=lambda _, others: [scores[other] for other in others],
            tolerance=tolerance,
        )

    assert chosen(0.0, near, far, off) == near
    assert chosen(0.1, near, far, off) == far
    assert chosen(1.0, near, far, off) == off
    scores[sentence * 2] = 1.0
    assert chosen(1.0, near, sentence * 2) == near  # too long
    assert chosen(1.0, sentence * 2) == sentence * 2  # there is no other


def test_an_encoder_judges_by_cosine() -> None:
    judge = FakeEncoder()
    same, other = similarity_by(judge)("It rose.", ["Rose it?", "Nobody slept."])
    assert same == pytest.approx(1.0)
    rose, slept = judge.encode(["It rose.", "Nobody slept."])
    assert other == pytest.approx(float(rose @ slept))
    assert other < 0.5


def test_bigrams_need_a_judge(t5: Path, splitter: Splitter) -> None:
    with raises_naming(InputError, "judge"):
        Pegasus(t5, splitter=splitter, bigram=True)


def spy(attack: Dipper, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """What the model is asked, call by call; it answers for itself."""
    asked: list[list[str]] = []
    write = attack._model.write

    def watched(texts: Sequence[str], **options: object) -> list[list[str]]:
        asked.append(list(texts))
        return write(texts, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(attack._model, "write", watched)
    return asked


def test_dipper_reads_what_it_has_written(
    t5: Path, splitter: Splitter, monkeypatch: pytest.MonkeyPatch
) -> None:
    attack = Dipper(
        t5,
        tokenizer=None,
        splitter=splitter,
        lexical=60,
        order=40,
        sent_interval=2,
        top_p=1.0,
        max_length=8,
    )
    asked = spy(attack, monkeypatch)
    changed = attack.apply(TEXTS, rng=dice(1))
    codes = "lexical = 40, order = 60"
    assert asked[0] == [
        f"{codes} <sent> The old bridge was closed. Engineers had found cracks in it. </sent>",
        f"{codes} <sent> People waited for news of their friends. </sent>",
    ]
    assert [len(each) for each in asked] == [2, 1, 1, 1]  # a window never spans two paragraphs
    pattern = rf"{codes} .+ <sent> Nobody knew why\. </sent>"
    assert re.fullmatch(pattern, asked[1][0])
    assert changed[0].count("\n\n") == 2
    assert attack.apply(TEXTS, rng=dice(1)) == changed
    assert attack.apply(TEXTS, rng=dice(2)) != changed


@pytest.mark.parametrize(
    ("context", "shown"), [(None, [0, 1, 2, 3, 4]), (0, [0] * 5), (2, [0, 1, 2, 2, 2])]
)
def test_dippers_context(
    context: int | None,
    shown: list[int],
    t5: Path,
    splitter: Splitter,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []

    def write(texts: Sequence[str], **options: object) -> list[list[str]]:
        asked.extend(texts)
        return [["Seen."]]

    attack = Dipper(t5, splitter=splitter, sent_interval=1, context=context, top_p=None)
    monkeypatch.setattr(attack._model, "write", write)
    attack.apply([" ".join(["The boats came back."] * 5)], rng=dice())
    assert [text.count("Seen.") for text in asked] == shown


def test_dippers_settings(t5: Path, splitter: Splitter) -> None:
    for wrong in ({"lexical": 50}, {"order": -20}, {"sent_interval": 0}, {"context": -1}):
        with raises_naming(InputError, *wrong, *wrong.values()):
            Dipper(t5, splitter=splitter, **wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("decoding", "limit"),
    [
        (Decoding(), 50),
        (Decoding(max_length=70), 70),
        (Decoding(growth=2.0), 36),
        (Decoding(growth=9.0), 50),
        (Decoding(max_length=30, growth=2.0), 30),
    ],
)
def test_the_least_limit_counts(decoding: Decoding, limit: int) -> None:
    assert decoding.options(read=10, most=50)["max_length"] == limit
    assert "max_length" not in Decoding().options(read=10, most=None)


@pytest.mark.parametrize(
    "wrong",
    [
        {"beams": 5, "groups": 2},
        {"beams": 2, "returns": 3},
        {"beams": 4, "groups": 2, "temperature": 1.0},
        {"temperature": 0.0},
    ],
)
def test_impossible_decodings_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(InputError):
        Decoding(**wrong)  # type: ignore[arg-type]
