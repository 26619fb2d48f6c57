"""Texts that share a header: counting it once keeps the level, and makes keys more alike."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256
from random import Random

import numpy as np
import pytest
from scipy.stats import binom

from hammingmark.assembly.keys import new_key
from hammingmark.detection.shared import SentenceCounts
from hammingmark.keys.key import Secret
from hammingmark.protocols import FloatArray, ScoredText
from hammingmark.testing import FakeEncoder
from hammingmark.testing.fakes import sentence
from hammingmark.watermarks.bilinear import BilinearMark, importance

pytestmark = pytest.mark.slow
TEXTS, KEYS, LEVEL = 8, 80, 0.1


@pytest.fixture(autouse=True)
def _few_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test is exact with any number of draws."""
    monkeypatch.setattr(importance, "DRAWS", 99)


def p_value(scored: ScoredText) -> float:
    test = scored.test("likelihood")
    assert test.null.computed
    return test.null.computed.p_value(test.increments)


def header_and_texts() -> tuple[list[FloatArray], list[np.ndarray]]:
    """The embeddings of texts with a common header, and which of their sentences are their own."""
    rng = Random(5)
    header = [sentence(rng) for _ in range(4)]
    texts = [[*header, *(sentence(rng) for _ in range(3))] for _ in range(TEXTS)]
    counts = SentenceCounts()
    for text in texts:
        counts.add(text)
    shared = counts.shared()
    return [FakeEncoder().encode(text) for text in texts], [shared.find(t) < 0 for t in texts]


def test_a_shared_header_is_counted_once() -> None:
    """The keys are the same in every run, so that chance decided once.

    The rate of each key has variance α (1 - α) / TEXTS if texts are independent, and TEXTS times
    that if they are always called watermarked together.
    """
    rows, own = header_and_texts()
    together, apart, header = np.empty((KEYS, TEXTS)), np.empty((KEYS, TEXTS)), np.empty(KEYS)
    template = new_key(FakeEncoder())
    for number in range(KEYS):
        secret = Secret(sha256(b"shared %d" % number).digest())
        mark = BilinearMark(replace(template, secret=secret))
        together[number] = [p_value(mark.read(text)) for text in rows]
        apart[number] = [p_value(mark.read_part(*part)) for part in zip(rows, own, strict=True)]
        header[number] = p_value(mark.read_part(rows[0], ~own[0]))
    counting = LEVEL * (1.0 - LEVEL) / TEXTS
    shared, own_only = (
        float((p <= LEVEL).mean(axis=1).var()) / counting for p in (together, apart)
    )
    print(f"variance between keys over that of counting: {shared:.2f}, counted once {own_only:.2f}")
    assert shared > 2.0
    assert own_only < shared / 2.0
    # One text a key, so that rejections are independent.
    for p in (together[:, 0], apart[:, 0], header):
        rejected = int((p <= LEVEL).sum())
        assert binom.ppf(1e-4, KEYS, LEVEL) <= rejected <= binom.isf(1e-4, KEYS, LEVEL)
        assert rejected > 0
