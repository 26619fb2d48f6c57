"""Keys of several methods searched as one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.errors import raises_naming

import hammingmark
from hammingmark.assembly.detection import detector
from hammingmark.assembly.keys import new_key
from hammingmark.detection.detector import Detector
from hammingmark.detection.group import DetectorGroup, rank
from hammingmark.errors import InputError
from hammingmark.generation.generate import GenerationConfig, Writer
from hammingmark.keys.key import Secret, WatermarkKey
from hammingmark.protocols import FloatArray, Splitter
from hammingmark.records import Evidence, Passage, Prompt, Verdict
from hammingmark.testing import FakeBackend, FakeEncoder
from hammingmark.testing.fakes import paragraph
from hammingmark.watermarks.bilinear import scored_text
from hammingmark.watermarks.bilinear.importance import ImportanceNull
from hammingmark.watermarks.bilinear.marked_scores import MarkedScores
from hammingmark.watermarks.hamming import HammingMark

ENCODER = FakeEncoder()


def key(number: int, method: str, **parameters: object) -> WatermarkKey:
    random_key = new_key(ENCODER, method=method, parameters=parameters)
    return replace(random_key, secret=Secret(number.to_bytes(32, "big")))


def every(*keys: WatermarkKey, level: float = 0.01) -> DetectorGroup:
    searcher = detector(keys, level=level, encoders=lambda name: ENCODER)
    assert isinstance(searcher, DetectorGroup)
    return searcher


def write(own: WatermarkKey, splitter: Splitter, *, sentences: int = 14) -> str:
    """A marked text."""
    config = GenerationConfig(max_tokens=10_000, max_sentences=sentences)
    writer = Writer(FakeBackend(), splitter, ENCODER, HammingMark(own), config)
    return writer.write(Prompt("It rained."), seed=1).text


def test_the_key_of_a_text_is_found_among_those_of_other_methods(splitter: Splitter) -> None:
    own = key(1, "hamming")
    text = write(own, splitter)
    others = [key(2, "bilinear"), key(3, "bilinear"), key(4, "hamming", bits=10)]
    alone = detector(own, encoder=ENCODER).judge(text)
    found = every(*others, own).judge(text)
    assert found.watermarked
    assert (found.key_id, found.keys, found.level) == (own.id, 4, 0.01)
    assert found.p_value == pytest.approx(min(1.0, 4 * (alone.p_value or 1.0)), rel=0.5)
    assert "at most the level 0.01" in found.reason
    assert not every(*others).judge(text).watermarked


def test_the_level_holds_over_all_keys() -> None:
    """Each of six keys of three kinds at a sixth of the level; texts know none of them."""
    texts = [paragraph(Random(number)) for number in range(15)]
    p_values = []
    for number in range(10):
        keys = [
            key(100 * number + place, method)
            for place, method in enumerate(("bilinear", "hamming", "random-code") * 2)
        ]
        p_values += [verdict.p_value for verdict in every(*keys).judge_many(texts)]
    for level in (0.05, 0.2):
        share = np.mean(np.array(p_values) <= level)
        # Texts of one key go together: four standard errors of so many texts, twice.
        assert share <= level + 8 * np.sqrt(level / len(p_values))


def test_keys_of_one_kind_need_no_group() -> None:
    searcher = detector([key(1, "hamming"), key(2, "hamming")], encoders=lambda name: ENCODER)
    assert not isinstance(searcher, DetectorGroup)
    assert searcher.keys == 2


def test_what_cannot_be_searched_is_left_out() -> None:
    mixed = [key(1, "pmark-online"), key(2, "bilinear"), key(3, "hamming")]
    assert every(*mixed).keys == 2
    edited = detector([*mixed, key(4, "semstamp")], edits=True, encoders=lambda name: ENCODER)
    assert edited.keys == 2
    with pytest.raises(InputError):
        detector(mixed[:1], encoders=lambda name: ENCODER)
    with pytest.raises(InputError):
        detector([key(4, "semstamp")], edits=True, encoders=lambda name: ENCODER)


def test_several_methods_take_no_splitter_of_one(splitter: Splitter) -> None:
    keys = [key(1, "bilinear"), key(2, "hamming")]
    with raises_naming(InputError, "splitter"):
        detector(keys, encoders=lambda name: ENCODER, splitter=splitter)
    with raises_naming(InputError, "splitter"):
        hammingmark.detect("It rained.", key=keys, language="en")


def test_a_verdict_says_how_many_keys_were_not_searched(splitter: Splitter) -> None:
    keys = [key(1, "pmark-online"), key(2, "bilinear"), key(3, "hamming")]
    verdict = every(*keys).judge(paragraph(Random(5)))
    assert "corrected for 2 keys, 1 key not searched" in str(verdict)


@pytest.mark.parametrize("exact", ["bilinear", "hamming"])
def test_keyless_keys_never_join_exact_ones(exact: str) -> None:
    """A text that satisfies a keyless rule would be called watermarked, whoever wrote it."""
    keyless = key(1, "continuous", gamma=0.001, threshold=-0.99)
    others = [key(2, exact), keyless, key(3, "simmark", gamma=0.1)]
    human = paragraph(Random(5))
    alone = detector(keyless, encoder=ENCODER).judge(human)
    assert alone.watermarked
    judge = detector(others, encoders=lambda name: ENCODER)
    verdict = judge.judge(human)
    assert (verdict.keys, verdict.method, verdict.watermarked) == (1, exact, False)
    assert {each.key_id for each in verdict.excluded} == {each.id for each in others[1:]}
    assert {each.reason for each in verdict.excluded} == {"keyless"}
    assert judge.excluded == verdict.excluded


def test_keyless_keys_may_be_searched_among_themselves() -> None:
    keys = [key(1, "continuous", gamma=0.1), key(3, "simmark", gamma=0.1)]
    assert (every(*keys).keys, every(*keys).excluded) == (2, ())


def test_a_published_rule_never_joins_a_secret_one_of_its_method() -> None:
    keys = [key(1, "semstamp"), key(2, "semstamp", constants="published")]
    judge = detector(keys, encoder=ENCODER)
    assert judge.keys == 1
    assert [each.key_id for each in judge.excluded] == [keys[1].id]


def test_a_text_with_nothing_to_judge_has_no_p_value() -> None:
    verdict = every(key(1, "hamming"), key(2, "random-code")).judge("Well.")
    assert verdict.watermarked is None
    assert verdict.keys == 2


def verdict(p_value: float | None, watermarked: bool | None, *passages: float) -> Verdict:
    return Verdict(
        watermarked=watermarked,
        p_value=p_value,
        reason="as it was",
        level=0.01,
        statistic="",
        evidence=Evidence("sentence", (), None, 1.0),
        pieces=(),
        key_id=None,
        passages=tuple(Passage(0, 2, each) for each in passages),
    )


def test_what_is_found_comes_first_then_passages_then_who_cannot_tell() -> None:
    ordered = [
        verdict(0.001, True),
        verdict(0.002, True, 0.0001),
        verdict(0.6, False, 0.001),
        verdict(0.5, None, 0.002),
        replace(verdict(0.008, None), likelihood_ratio=5.0),
        verdict(0.2, None),
        verdict(None, None),
        verdict(0.1, False),
        verdict(0.3, False),
    ]
    assert sorted(Random(5).sample(ordered, len(ordered)), key=rank) == ordered


def test_one_key_that_cannot_tell_is_enough_not_to_deny() -> None:
    """In whichever order the keys are given."""
    keys = [key(1, "hamming"), key(2, "random-code", codes=4)]
    text = "The door was open. Somebody had been here."
    alone = [detector(each, encoder=ENCODER).judge(text).watermarked for each in keys]
    assert None in alone
    for some in (keys, keys[::-1]):
        assert every(*some).judge(text).watermarked is None


def test_all_that_is_said_is_corrected_for_all_keys(splitter: Splitter) -> None:
    """As if every key had been tried by one detector."""
    text = " ".join(paragraph(Random(number)) for number in range(3))
    keyless = key(4, "simmark", gamma=0.1)
    alone = detector(keyless, encoder=ENCODER).judge(text)
    own = replace(detector(keyless, encoder=ENCODER), among=7)
    assert isinstance(own, Detector)
    assert own.keys == 1
    told = own.judge(text)
    assert told.keys == own.searched == 7
    assert told.p_value == pytest.approx(min(1.0, 7 * (alone.p_value or 0.0)))
    assert told.attainable == pytest.approx(min(1.0, 7 * alone.attainable))
    assert "no secret" in told.reason
    drawn = detector(key(1, "hamming"), encoder=ENCODER)
    long = write(key(1, "hamming"), splitter, sentences=40)
    found, shared = (each.judge(long) for each in (drawn, replace(drawn, among=3)))
    assert found.tail_estimate is not None
    assert shared.tail_estimate == pytest.approx(3 * found.tail_estimate, rel=0.5)


def test_what_nobody_waits_for_is_refused() -> None:
    many = replace(detector(key(1, "hamming"), encoder=ENCODER, level=1e-6), among=300)
    with raises_naming(InputError, 300, 1e-06, "1,200,000,000"):
        many.judge(paragraph(Random(1)))
    computed = replace(detector(key(1, "bilinear"), encoder=ENCODER, level=1e-6), among=300)
    assert computed.judge(paragraph(Random(1))).keys == 300


def test_a_secret_is_expanded_once_and_a_text_is_read_and_tested_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    expanded: Counter[str] = Counter()
    normals, encode = Secret.normals, FakeEncoder.encode

    def counted(secret: Secret, label: str, size: int, *, index: int = 0) -> NDArray[np.float32]:
        expanded[label] += 1
        return normals(secret, label, size, index=index)

    def embed(encoder: FakeEncoder, sentences: Sequence[str]) -> FloatArray:
        expanded["texts"] += 1
        return encode(encoder, sentences)

    class CountedNull(ImportanceNull):
        def __init__(self, sections: list[MarkedScores], secret: Secret) -> None:
            expanded["tests"] += 1
            super().__init__(sections, secret)

    monkeypatch.setattr(Secret, "normals", counted)
    monkeypatch.setattr(FakeEncoder, "encode", embed)
    monkeypatch.setattr(scored_text, "ImportanceNull", CountedNull)
    own, other = key(1, "bilinear"), key(2, "bilinear", rank=16)
    text = paragraph(Random(1))
    assert detector(own, encoder=ENCODER).judge(text).p_value is not None
    assert expanded == {"bilinear": 1, "beginning": 1, "texts": 1, "tests": 1}
    assert detector([own, other], encoder=ENCODER).judge(text).keys == 2
    assert expanded == {"bilinear": 2, "beginning": 2, "texts": 2, "tests": 3}
