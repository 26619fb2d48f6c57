"""The bilinear rule: its scores, its null distribution and its detection."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.unit.conftest import HashEncoder, plain

from hammingmark.detection.detector import Detector
from hammingmark.detection.reader import SentenceReader, edit_hypotheses
from hammingmark.detection.search import EveryKey
from hammingmark.keys.config import EncoderId
from hammingmark.keys.key import Secret, WatermarkKey
from hammingmark.protocols import FloatArray
from hammingmark.stats.compare import TextTest, compare
from hammingmark.stats.nulls import KeyRandomization
from hammingmark.text.sentencex import SentencexSplitter
from hammingmark.watermarks.bilinear import BilinearConfig, BilinearMark
from hammingmark.watermarks.bilinear.marked_scores import MarkedScores
from hammingmark.watermarks.bilinear.scored_text import SECTION
from hammingmark.watermarks.bilinear.scores import covariance, triangular_factor

D, RANK = 32, 32


def mark_of(number: int = 0, **parameters: float) -> BilinearMark:
    config = BilinearConfig(encoder=EncoderId("hash", "ab" * 32, D), **parameters)  # type: ignore[arg-type]
    secret = Secret(hashlib.sha256(b"bilinear %d" % number).digest())
    return BilinearMark(WatermarkKey(secret, config))


def topical(n: int, rng: np.random.Generator, *, topic: float = 1.5) -> FloatArray:
    """Unit rows (n, d) with a common direction."""
    rows = rng.standard_normal((n, D)) + topic * rng.standard_normal(D)
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def marked(mark: BilinearMark, count: int, *, seed: int) -> list[str]:
    """Sentences that were each accepted after the preceding one."""
    chosen: list[str] = []
    previous = None
    for step in range(count):
        candidates = [f"Step {step} goes way {way} in story {seed}." for way in range(60)]
        rows = HashEncoder().encode(candidates)
        choice = mark.choose(previous, rows)
        assert choice.accepted
        chosen.append(candidates[choice.index])
        previous = rows[choice.index]
    return chosen


def detector(*marks: BilinearMark, edits: bool = False) -> Detector:
    reader = SentenceReader(SentencexSplitter(), HashEncoder(), edits=edits)
    return Detector(reader, EveryKey(marks))


def by_hand(mark: BilinearMark, rows: FloatArray) -> tuple[NDArray[np.float64], ...]:
    """The direction before each sentence (n, m), and the scores (n,), in plain numpy."""
    secret = mark.key.secret
    before, after = secret.normals("bilinear", 2 * RANK * D).reshape(2, RANK, D).astype(np.float64)
    start = secret.normals("beginning", RANK).astype(np.float64)
    directions = np.vstack([start, rows[:-1].astype(np.float64) @ before.T])
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    return directions, np.einsum("nm,md,nd->n", directions, after, rows.astype(np.float64))


def test_a_score_is_the_secret_form_of_two_neighbours() -> None:
    """Two roundings to single precision differ by far less than 1e-5."""
    mark, rows = mark_of(), topical(9, np.random.default_rng(1))
    directions, expected = by_hand(mark, rows)
    scores = mark.read(rows).evidence.scores
    np.testing.assert_allclose([unit.score for unit in scores], expected, atol=1e-5)
    np.testing.assert_allclose(mark.directions_before(rows), directions, atol=1e-6)
    threshold = mark.config.threshold
    assert [unit.valid for unit in scores] == [bool(each >= threshold) for each in expected]
    for place in range(9):
        previous = rows[place - 1] if place else None
        choice = mark.choose(previous, rows[place : place + 1])
        assert choice.scores[0] == scores[place].score
        assert choice.accepted is scores[place].valid


def test_the_covariance_is_that_over_keys_with_the_same_first_matrix() -> None:
    """Four standard errors: the variance of a product of two deviates is 1 + C² at most 2."""
    rng = np.random.default_rng(2)
    mark, rows, count = mark_of(), topical(8, rng), 20_000
    directions, _ = by_hand(mark, rows)
    form = np.einsum("nm,nd->nmd", directions, rows.astype(np.float64)).reshape(8, -1)
    scores = form @ rng.standard_normal((RANK * D, count))
    expected = covariance(mark.directions_before(rows), rows)
    found = scores @ scores.T / count
    assert (np.abs(found - expected) < 4 * np.sqrt((1 + expected**2) / count)).all()
    assert np.abs(expected - np.eye(8)).max() > 0.1, "otherwise the identity would do as well"


@pytest.mark.parametrize("topic", [0.0, 1.5, 4.0])
def test_the_p_value_is_the_share_of_other_second_matrices(topic: float) -> None:
    """Given R, of texts whose sentences are ever more alike; within four standard errors, and a
    fifth by which importance sampling may err."""
    rng = np.random.default_rng(3)
    mark, n, count = mark_of(), 12, 4000
    rows = topical(n, rng, topic=topic)
    test = mark.read(rows).test("likelihood")
    directions, _ = by_hand(mark, rows)
    form = np.einsum("nm,nd->nmd", directions, rows.astype(np.float64)).reshape(n, -1)
    scores = form @ rng.standard_normal((RANK * D, count))
    factor = triangular_factor(covariance(mark.directions_before(rows), rows))
    other = MarkedScores(mark.config.threshold, *factor).log_ratios(scores)
    drawn = KeyRandomization(lambda: iter([iter([other])]))
    ranked = np.argsort(-other.sum(axis=0))
    for own in (test.increments, *(other[:, ranked[place]] for place in (30, 400, 2000))):
        parts = (own, test.best, test.centre)
        p = compare(TextTest(*parts, test.null), limit=count).p_value
        by_counting = compare(TextTest(*parts, drawn), limit=count).p_value
        assert abs(p - by_counting) < 4 * np.sqrt(p * (1 - p) / count) + 0.2 * p
        assert p > 0.001, "so that counting can tell"


def test_an_unmarked_text_has_any_p_value_over_keys() -> None:
    """For very similar sentences: uniform, by the mean and two shares."""
    rows = topical(15, np.random.default_rng(4), topic=4.0)
    p = np.array(
        [compare(mark_of(k).read(rows).test("likelihood"), limit=1).p_value for k in range(300)]
    )
    assert abs(p.mean() - 0.5) < 4 * np.sqrt(1 / 12 / 300)
    for level in (0.05, 0.2):
        assert abs((p <= level).mean() - level) < 4 * np.sqrt(level * (1 - level) / 300)


def test_a_sentence_that_is_said_again_counts_once() -> None:
    mark, rows = mark_of(), topical(4, np.random.default_rng(5))
    again = np.concatenate([rows, rows, rows])
    once, thrice = mark.read(rows).test("likelihood"), mark.read(again).test("likelihood")
    np.testing.assert_allclose(thrice.increments[:4], once.increments)
    assert thrice.increments[4] != 0.0, (
        "the first sentence after the last is a transition of its own"
    )
    assert not thrice.increments[5:].any()
    assert not thrice.best[5:].any()


def test_a_marked_passage_is_found_with_its_borders() -> None:
    """To within two sentences on average, because neighbours may be valid by chance."""
    mark = mark_of(1, acceptance=0.22)
    off = []
    for seed in range(6):
        run = marked(mark, 26, seed=seed)
        text = " ".join([*plain(20, seed=seed), *run, *plain(20, seed=seed + 50)])
        verdict = detector(mark).judge(text)
        assert verdict.passages
        passage = verdict.passages[0]
        assert passage.p_value < 1e-4
        off += [abs(passage.begin - 20), abs(passage.end - 46)]
        assert not detector(mark_of(2, acceptance=0.22)).judge(text).passages
    assert np.mean(off) < 2.5


def test_a_marked_text_is_found_and_no_other() -> None:
    mark = mark_of(1)
    text = " ".join(marked(mark, 25, seed=1))
    verdict = detector(mark).judge(text)
    assert verdict.watermarked is True
    assert verdict.evidence.valid == len(verdict.evidence.scores) == 25
    assert detector(mark_of(2)).judge(text).watermarked is False
    assert detector(mark).judge(" ".join(plain(25, seed=1))).watermarked is False


def test_joined_sentences_are_found_again_by_who_allows_for_edits() -> None:
    mark = mark_of(3, acceptance=0.22)
    sentences = marked(mark, 40, seed=2)
    joined = [
        f"{first[:-1]}; {second}"
        for first, second in zip(sentences[::2], sentences[1::2], strict=True)
    ]
    text = " ".join(joined)
    assert detector(mark).judge(text).watermarked is not True
    verdict = detector(mark, edits=True).judge(text)
    assert verdict.watermarked is True
    assert verdict.edits
    assert len(verdict.pieces) == 20
    assert detector(mark_of(4, acceptance=0.22), edits=True).judge(text).watermarked is not True


def test_an_edited_text_that_stands_as_it_was_has_the_evidence_of_the_plain_one() -> None:
    mark = mark_of(3)
    edits = edit_hypotheses(marked(mark, 12, seed=3))
    rows = HashEncoder().encode(edits.texts)
    read = mark.read_edited(rows, edits)
    assert read.evidence == mark.read(rows[:12]).evidence
    test = read.test("likelihood")
    assert test.increments.shape == test.best.shape == (12,)
    assert (test.increments <= test.best + 1e-9).all()
    assert compare(test, limit=999).p_value < 0.01


def test_a_single_sentence_that_may_have_been_edited_has_a_verdict() -> None:
    for text in ("The river rose.", "The river rose; nobody slept."):
        verdict = detector(mark_of(3), edits=True).judge(text)
        assert verdict.p_value is not None
        assert verdict.watermarked is None, "too short to tell"


def test_the_true_key_is_the_first_of_two_hundred() -> None:
    mark = mark_of(5)
    texts, keys = [], [mark.key.derive(str(number)) for number in range(200)]
    for number in (0, 70, 199):
        owner = mark.like(keys[number])
        texts.append(HashEncoder().encode(marked(owner, 20, seed=number)))
    found = mark.rank(keys, texts, statistic="likelihood")
    assert [ranked[0] for ranked in found] == [0, 70, 199]
    assert all(len(set(ranked)) == len(ranked) <= 4 for ranked in found)


def test_a_key_is_ranked_by_a_passage_too() -> None:
    mark = mark_of(5)
    keys = [mark.key.derive(str(number)) for number in range(200)]
    owner = mark.like(keys[130])
    sentences = [*plain(60, seed=1), *marked(owner, 16, seed=8), *plain(60, seed=2)]
    (ranked,) = mark.rank(keys, [HashEncoder().encode(sentences)], statistic="likelihood")
    assert 130 in ranked


def test_a_text_of_one_sentence_has_one_unit() -> None:
    mark, rows = mark_of(), topical(1, np.random.default_rng(6))
    read = mark.read(rows)
    assert len(read.evidence.scores) == 1
    assert read.evidence.context_units == 1
    test = read.test("likelihood")
    lone = MarkedScores(mark.config.threshold, np.ones((1, 1)), np.ones(1, bool))
    np.testing.assert_allclose(
        test.increments, lone.log_ratios(by_hand(mark, rows)[1][None])[0], atol=1e-4
    )
    assert 0.0 < compare(test, limit=99).p_value <= 1.0
    assert mark.read(rows[:0]).evidence.scores == ()


def test_a_text_longer_than_a_section_is_tested_section_by_section() -> None:
    mark = mark_of(7)
    rows = topical(2 * SECTION + 40, np.random.default_rng(7), topic=0.5)
    assert len(rows) % 3 == 0
    read = mark.read(rows)
    own = read.test("likelihood").increments
    directions, scores = (
        mark.directions_before(rows),
        np.array([unit.score for unit in read.evidence.scores], np.float64),
    )
    length = (2 * SECTION + 40) // 3
    for first in (0, length, 2 * length):
        part = slice(first, first + length)
        factor = triangular_factor(covariance(directions[part], rows[part]))
        marked_scores = MarkedScores(float(np.float32(mark.config.threshold)), *factor)
        expected = marked_scores.log_ratios(scores[part][:, None])[:, 0]
        np.testing.assert_allclose(own[part], expected, atol=1e-12)
    assert compare(read.test("likelihood"), limit=99).p_value > 1e-4


def test_a_long_marked_text_is_found() -> None:
    mark = mark_of(8)
    sentences = marked(mark, SECTION + 44, seed=9)
    read = mark.read(HashEncoder().encode(sentences))
    assert read.evidence.valid == len(sentences)
    assert compare(read.test("likelihood"), limit=99).p_value < 1e-20


@pytest.mark.parametrize("acceptance", [0.22, 0.38, 0.5])
def test_the_rule_accepts_the_share_that_it_says(acceptance: float) -> None:
    """Over keys, of one pair of sentences; four standard errors."""
    rows, count = topical(2, np.random.default_rng(8)), 600
    found = np.mean(
        [mark_of(k, acceptance=acceptance).choose(rows[0], rows[1:]).accepted for k in range(count)]
    )
    assert abs(found - acceptance) < 4 * np.sqrt(acceptance * (1 - acceptance) / count)


@pytest.mark.parametrize(("left", "pairs"), [(0.15, 14), (0.45, 40)])
def test_a_chain_of_near_copies_has_any_p_value_over_keys(left: float, pairs: int) -> None:
    """An anchor between steps of a chain: a score that is mostly rounding must not count."""
    steps = np.eye(D, dtype=np.float64)[: min(pairs, D - 1)]
    chain = [steps[0]]
    for step in steps[1:]:
        chain.append(np.sqrt(1 - left**2) * chain[-1] + left * step)
    anchor = np.eye(D)[-1]
    rows = np.array([row for link in chain for row in (anchor, link)], np.float32)
    count = 60
    p = [
        compare(mark_of(number).read(rows).test("likelihood"), limit=1).p_value
        for number in range(count)
    ]
    assert np.mean(np.array(p) <= 0.05) < 0.05 + 4 * np.sqrt(0.05 * 0.95 / count)
    assert min(p) > 1e-6
