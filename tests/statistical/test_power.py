"""The power that a verdict states, against the share of marked texts that are found.

Sentences are random directions around a topic, each but the first of a text the first of 32 that
the rule accepts, as in an answer of a chat. A reworded sentence is turned so far that a bilinear
score keeps a correlation of 0.9.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from hammingmark.detection.detector import Detector
from hammingmark.detection.reader import ReadText, SentenceReader
from hammingmark.detection.search import EveryKey
from hammingmark.keys.config import EncoderId
from hammingmark.keys.key import Secret, WatermarkKey
from hammingmark.records import Verdict
from hammingmark.testing import FakeEncoder, FakeSplitter
from hammingmark.watermarks.bilinear import BilinearConfig, BilinearMark
from hammingmark.watermarks.pmark_offline import PMarkOffline, PMarkOfflineConfig
from hammingmark.watermarks.pmark_online import PMarkOnline, PMarkOnlineConfig
from hammingmark.watermarks.random_code import RandomCode, RandomCodeConfig
from hammingmark.watermarks.semstamp import SemStamp, SemStampConfig

DIMENSION, TRIES, TEXTS, LEVEL = 64, 32, 60, 0.01
Rows = NDArray[np.float32]
Mark = BilinearMark | PMarkOffline | PMarkOnline | RandomCode | SemStamp


def mark_of(method: str, number: int) -> Mark:
    secret = Secret(hashlib.sha256(b"power %d" % number).digest())
    encoder = EncoderId("fake", "ab" * 32, DIMENSION)
    if method == "semstamp":
        return SemStamp(WatermarkKey(secret, SemStampConfig(encoder=encoder, margin=0.0)))
    if method == "random-code":
        return RandomCode(WatermarkKey(secret, RandomCodeConfig(encoder=encoder)))
    if method == "pmark-offline":
        return PMarkOffline(WatermarkKey(secret, PMarkOfflineConfig(encoder=encoder, N=TRIES)))
    if method == "pmark-online":
        return PMarkOnline(WatermarkKey(secret, PMarkOnlineConfig(encoder=encoder, N=TRIES)))
    return BilinearMark(WatermarkKey(secret, BilinearConfig(encoder=encoder)))


def drawn(count: int, centre: Rows, rng: np.random.Generator) -> Rows:
    rows = rng.standard_normal((count, DIMENSION)) + centre
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def topic(method: str, rng: np.random.Generator) -> Rows:
    """The mean of a text's sentences; 0 where the method takes their medians to be 0."""
    centre = 0.2 * rng.standard_normal(DIMENSION).astype(np.float32)
    return centre * np.float32(method != "pmark-offline")


def chain(mark: Mark, n: int, *, marked: slice, centre: Rows, rng: np.random.Generator) -> Rows:
    """n sentences, of which those of a part are marked, (n, d)."""
    rows: list[Rows] = []
    for place in range(n):
        candidates = drawn(TRIES, centre, rng)
        chosen = 0
        if place in range(*marked.indices(n)):
            rule = mark.capabilities.rule_at(place)
            chosen = rule.choose(rows[-1] if rows else None, candidates).index
        rows.append(candidates[chosen])
    return np.array(rows)


def reworded(rows: Rows, rng: np.random.Generator) -> Rows:
    cosine = np.sqrt(0.9)  # of each of the two sentences of a score
    noise = drawn(len(rows), np.zeros(DIMENSION, np.float32), rng)
    noise -= (noise * rows).sum(axis=1, keepdims=True) * rows
    noise /= np.linalg.norm(noise, axis=1, keepdims=True)
    turned: Rows = (cosine * rows + np.sqrt(1.0 - cosine**2) * noise).astype(np.float32)
    return turned


def judged(
    method: str, n: int, change: Callable[[Rows, np.random.Generator], Rows] | None = None
) -> list[Verdict]:
    """Verdicts on answers of n sentences, each under a key of its own."""
    rng = np.random.default_rng(n)
    verdicts = []
    for number in range(TEXTS):
        mark = mark_of(method, number)
        centre = topic(method, rng)
        rows = chain(mark, n, marked=slice(1, None), centre=centre, rng=rng)
        samples = None
        if mark.capabilities.samples:
            samples = tuple(drawn(TRIES, centre, rng) for _ in rows[1:])
        text = ReadText(("x",) * n, change(rows, rng) if change else rows, samples=samples)
        reader = SentenceReader(FakeSplitter(), FakeEncoder())
        verdicts += Detector(reader, EveryKey([mark]), level=LEVEL).judge_read([text])
    return verdicts


def is_found(verdict: Verdict) -> bool:
    """Whether the level was reached, as a verdict or as weak evidence."""
    assert verdict.p_value is not None
    assert verdict.joint_p_value is not None
    return max(verdict.p_value, verdict.joint_p_value) <= LEVEL


@pytest.mark.parametrize(
    ("method", "n"),
    [
        ("bilinear", 3),
        ("bilinear", 5),
        ("bilinear", 8),
        ("random-code", 8),
        ("semstamp", 8),
        ("pmark-offline", 3),
        ("pmark-offline", 5),
        ("pmark-online", 4),
        ("pmark-online", 6),
    ],
)
def test_the_power_as_written_is_the_share_of_marked_texts_that_are_found(
    method: str, n: int
) -> None:
    """The texts are the same in every run. Stated is a little less: one sentence in twenty is taken
    as unmarked."""
    verdicts = judged(method, n)
    found = float(np.mean([is_found(verdict) for verdict in verdicts]))
    stated = float(np.mean([verdict.power_as_written or 0.0 for verdict in verdicts]))
    print(f"\n{method}, {n} sentences as written: stated {stated:.2f}, found {found:.2f}")
    assert found == pytest.approx(stated, abs=0.15)
    for verdict in verdicts:
        if (verdict.power_as_written or 0.0) < 0.5:
            assert verdict.watermarked is None
            assert is_found(verdict) <= (verdict.likelihood_ratio is not None)
        elif not is_found(verdict):
            assert verdict.watermarked is False


@pytest.mark.parametrize("n", [5, 8, 14])
def test_the_power_after_rewording_is_the_share_of_reworded_texts_that_are_found(n: int) -> None:
    verdicts = judged("bilinear", n, reworded)
    found = float(np.mean([is_found(verdict) for verdict in verdicts]))
    stated = float(np.mean([verdict.power_reworded or 0.0 for verdict in verdicts]))
    print(f"\n{n} sentences reworded: stated {stated:.2f}, found {found:.2f}")
    assert found == pytest.approx(stated, abs=0.2)


def test_a_passage_of_the_stated_length_is_found_about_half_of_the_time() -> None:
    """One of half the length is found less often, and one of twice the length nearly always."""
    rng = np.random.default_rng(3)
    reader, n = SentenceReader(FakeSplitter(), FakeEncoder()), 30
    found: dict[float, list[bool]] = {0.5: [], 1.0: [], 2.0: []}
    for number in range(24):
        mark = mark_of("bilinear", number)
        detector = Detector(reader, EveryKey([mark]), level=LEVEL)
        unmarked = chain(mark, n, marked=slice(0), centre=topic("bilinear", rng), rng=rng)
        (plain,) = detector.judge_read([ReadText(("x",) * n, unmarked)])
        assert plain.detectable_passage is not None
        for factor, outcomes in found.items():
            length = min(n, round(factor * plain.detectable_passage))
            begin = int(rng.integers(n - length + 1))
            marked, centre = slice(begin, begin + length), topic("bilinear", rng)
            rows = chain(mark, n, marked=marked, centre=centre, rng=rng)
            (verdict,) = detector.judge_read([ReadText(("x",) * n, rows)])
            outcomes.append(bool(verdict.watermarked or verdict.passages))
    shares = {factor: float(np.mean(outcomes)) for factor, outcomes in found.items()}
    print("\nfound of passages of half, once and twice the length:", shares)
    assert shares[0.5] < 0.5
    assert 0.3 < shares[1.0] < 0.97
    assert shares[2.0] > 0.9


def test_one_sentence_gets_no_verdict_and_a_p_value() -> None:
    verdicts = judged("bilinear", 1)
    assert {verdict.watermarked for verdict in verdicts} == {None}
    assert all(verdict.p_value is not None for verdict in verdicts)
    assert all(verdict.passages == () for verdict in verdicts)
    assert min(verdict.p_value or 1.0 for verdict in verdicts) <= LEVEL, "and some would have one"
