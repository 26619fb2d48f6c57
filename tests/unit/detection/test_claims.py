"""All that a verdict claims, of the whole text and of passages, holds at the level together."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import numpy as np
import pytest
from scipy import stats
from tests.keys import hamming_key

from hammingmark.detection.detector import Detector
from hammingmark.detection.reader import ReadText, SentenceReader
from hammingmark.detection.search import EveryKey
from hammingmark.keys.config import EncoderId
from hammingmark.keys.key import ReferenceKeys, Secret, WatermarkKey
from hammingmark.protocols import Watermark
from hammingmark.records import Verdict
from hammingmark.testing import FakeEncoder, FakeSplitter
from hammingmark.watermarks.bilinear import BilinearConfig, BilinearMark, importance
from hammingmark.watermarks.hamming import HammingMark
from hammingmark.watermarks.random_code import RandomCode, RandomCodeConfig

DIMENSION, SENTENCES, LEVEL = 16, 6, 0.2


@pytest.fixture(autouse=True)
def _few_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """The level holds for any number of draws."""
    monkeypatch.setattr(ReferenceKeys, "block", 200)
    monkeypatch.setattr(importance, "DRAWS", 80)


def under(method: str, number: int) -> Watermark:
    secret = Secret(hashlib.sha256(b"claims %d" % number).digest())
    encoder = EncoderId("fake", "ab" * 32, DIMENSION)
    if method == "hamming":
        return HammingMark(
            hamming_key(secret=secret, encoder="fake", fingerprint="ab" * 32, dimension=DIMENSION)
        )
    if method == "random-code":
        return RandomCode(WatermarkKey(secret, RandomCodeConfig(encoder=encoder, m=4, codes=5)))
    return BilinearMark(WatermarkKey(secret, BilinearConfig(encoder=encoder)))


def verdicts(method: str, texts: int, *, keys: int) -> Iterator[Verdict]:
    """Verdicts on texts that know no key, each under keys of its own."""
    rng = np.random.default_rng(7)
    for number in range(texts):
        marks = [under(method, keys * number + each) for each in range(keys)]
        rows = rng.standard_normal((SENTENCES, DIMENSION)) + 0.5 * rng.standard_normal(DIMENSION)
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        text = ReadText(tuple("abcdef"), rows.astype(np.float32))
        reader = SentenceReader(FakeSplitter(), FakeEncoder())
        detector = Detector(reader, EveryKey(marks), level=LEVEL, references=199)
        yield from detector.judge_read([text])


@pytest.mark.parametrize(
    ("method", "keys", "texts"),
    [("bilinear", 1, 300), ("bilinear", 3, 60), ("hamming", 1, 300), ("random-code", 2, 100)],
)
def test_a_text_is_claimed_at_all_no_more_often_than_the_level(
    method: str, keys: int, texts: int
) -> None:
    """Each text has keys of its own, so that the number of claims is binomial, whatever the texts
    are; a test fails by chance once in 10,000 runs."""
    found = list(verdicts(method, texts, keys=keys))
    claims = sum(bool(each.watermarked or each.passages) for each in found)
    assert claims <= stats.binom.isf(1e-4, texts, LEVEL)
    assert claims >= stats.binom.ppf(1e-4, texts, 0.4 * LEVEL), "and the test is not idle"
    for each in found:
        assert each.joint_p_value is not None
        assert each.p_value is not None
        assert bool(each.watermarked) is (max(each.p_value, each.joint_p_value) <= LEVEL)
    # Under two tests at the level each, more would be claimed.
    alone = [each for each in found if not each.watermarked and (each.p_value or 1.0) <= LEVEL]
    assert alone or keys > 1
    assert all("together" in each.reason for each in alone if each.watermarked is False)
