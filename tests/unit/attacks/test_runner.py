"""Results of attacks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.errors import raises_naming

from hammingmark.attacks.runner import AttackRunner
from hammingmark.errors import InputError
from hammingmark.protocols import Attack, FloatArray
from hammingmark.records import Attacked
from hammingmark.text.sentencex import SentencexSplitter

ONE, TWO, THREE = "The sun rose early.", "The dog ran home.", "Nobody saw it there."
ROWS = {
    ONE: [1.0, 0.0, 0.0],
    TWO: [0.0, 1.0, 0.0],
    THREE: [0.6, 0.8, 0.0],
    "The sun rose late.": [0.8, 0.6, 0.0],
}


class Judge:
    """An encoder with the embeddings of a few sentences."""

    name = "judge"
    dimension = 3
    fingerprint = "ef" * 32

    def __init__(self) -> None:
        self.asked: list[str] = []

    def encode(self, sentences: Sequence[str]) -> FloatArray:
        self.asked += sentences
        return np.array([ROWS.get(each, [0.0, 0.0, 1.0]) for each in sentences], np.float32)


@dataclass
class Becomes:
    """An attack that replaces every text by another."""

    text: str
    name: str = "becomes"
    min_similarity: float = 0.7

    def apply(self, texts: Sequence[str], *, rng: np.random.Generator) -> list[str]:
        return [self.text] * len(texts)


class Numbers:
    """An attack that writes numbers of its random generator."""

    name = "numbers"
    min_similarity = 0.5

    def apply(self, texts: Sequence[str], *, rng: np.random.Generator) -> list[str]:
        return [f"{text} {rng.integers(1 << 30)}" for text in texts]


def account(before: str, after: str, *, judge: Judge | None = None) -> Attacked:
    runner = AttackRunner(Becomes(after), SentencexSplitter(), judge or Judge())
    (record,) = runner.run([before])
    assert record.text == after
    return record


def test_an_untouched_text_is_the_same_and_nothing_is_embedded() -> None:
    judge = Judge()
    record = account(f"{ONE} {TWO}", f"{ONE} {TWO}", judge=judge)
    assert (record.words_changed, record.sentences_touched) == (0.0, 0.0)
    assert (record.similarity, record.kept) == (1.0, True)
    assert judge.asked == []


def test_moved_and_added_sentences_cost_no_similarity() -> None:
    record = account(f"{ONE} {TWO}", f"{TWO} {THREE} {ONE}")
    assert record.sentences_touched == 0.0
    assert record.similarity == pytest.approx(1.0)
    assert record.words_changed > 0.5


def test_equal_numbers_of_sentences_are_compared_in_order() -> None:
    record = account(f"{ONE} {TWO}", f"The sun rose late. {TWO}")
    assert record.sentences_touched == 0.5
    assert record.similarity == pytest.approx((0.8 + 1.0) / 2)
    assert record.kept is True
    assert record.words_changed == pytest.approx(1 / 8)
    # TWO would have found its like in the first sentence, had it been asked for the nearest.
    record = account(TWO, "Something else came.")
    assert record.similarity == pytest.approx(0.0)
    assert record.kept is False


def test_a_lost_sentence_is_compared_with_the_nearest() -> None:
    record = account(f"{ONE} {TWO} {THREE}", f"{ONE} {TWO}")
    assert record.sentences_touched == pytest.approx(1 / 3)
    assert record.similarity == pytest.approx((1.0 + 1.0 + 0.8) / 3)


def test_words_are_lost_only_if_there_are_fewer() -> None:
    assert account(f"{ONE} {TWO}", ONE).words_lost == pytest.approx(0.5)
    assert account(ONE, f"{TWO} {ONE}").words_lost == 0.0
    assert account(ONE, TWO).words_lost == 0.0


def test_a_sentence_is_matched_once() -> None:
    record = account(f"{ONE} {ONE}", ONE)
    assert record.sentences_touched == 0.5
    assert record.similarity == pytest.approx(1.0)  # its nearest is its equal


def test_empty_outcomes_and_empty_texts() -> None:
    gone = account(f"{ONE} {TWO}", "")
    assert (gone.similarity, gone.sentences_touched, gone.words_changed) == (0.0, 1.0, 1.0)
    assert gone.words_lost == 1.0
    assert gone.kept is False
    empty = account("", ONE)
    assert (empty.similarity, empty.kept, empty.sentences_touched) == (None, None, 0.0)
    assert empty.words_lost == 0.0


def test_without_a_judge_nothing_is_decided() -> None:
    (record,) = AttackRunner(Becomes(TWO), SentencexSplitter()).run([ONE])
    assert (record.similarity, record.kept, record.min_similarity) == (None, None, 0.7)


@given(st.integers(0, 30), st.integers(1, 9), st.integers(0, 5), st.integers(0, 3))
def test_a_run_can_begin_at_any_batch(count: int, batch: int, first: int, seed: int) -> None:
    texts = [f"Text {number}." for number in range(count)]
    runner = AttackRunner(Numbers(), SentencexSplitter(), seed=seed, batch=batch)
    whole = list(runner.run(texts))
    assert len(whole) == count
    later = [
        record for found in runner.batches(texts[first * batch :], first=first) for record in found
    ]
    assert later == whole[first * batch :]


def test_the_seed_decides() -> None:
    texts = ["One.", "Two."]

    def run(seed: int) -> list[str]:
        runner = AttackRunner(Numbers(), SentencexSplitter(), seed=seed)
        return [record.text for record in runner.run(texts)]

    assert run(1) == run(1) != run(2)


def test_invalid_settings_are_refused() -> None:
    for wrong in ({"batch": 0}, {"seed": -1}):
        with pytest.raises(InputError):
            AttackRunner(Numbers(), SentencexSplitter(), **wrong)  # type: ignore[arg-type]


def test_an_attack_that_loses_texts_is_an_error() -> None:
    class Lossy(Numbers):
        def apply(self, texts: Sequence[str], *, rng: np.random.Generator) -> list[str]:
            return list(texts)[1:]

    assert isinstance(Lossy(), Attack)
    with raises_naming(ValueError, "numbers", 1, 2):
        list(AttackRunner(Lossy(), SentencexSplitter()).run(["a", "b"]))
