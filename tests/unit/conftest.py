"""What unit tests share: a tiny encoder, and texts that a watermark has marked under it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np
import pytest
from tests.keys import hamming_key

from hammingmark.detection.detector import Detector
from hammingmark.detection.reader import SentenceReader
from hammingmark.detection.search import EveryKey
from hammingmark.keys.key import Secret
from hammingmark.protocols import FloatArray
from hammingmark.text.sentencex import SentencexSplitter
from hammingmark.watermarks.hamming import HammingMark
from hammingmark.watermarks.hamming.pairs import Alternative

DIMENSION = 32


@dataclass
class HashEncoder:
    """Each sentence has a random direction of its own, decided by its hash."""

    name: str = "hash"
    dimension: int = DIMENSION
    fingerprint: str = "ab" * 32
    asked: list[list[str]] = field(default_factory=list)

    def encode(self, sentences: Sequence[str]) -> FloatArray:
        self.asked.append(list(sentences))
        rows = np.empty((len(sentences), self.dimension), np.float32)
        for row, sentence in zip(rows, sentences, strict=True):
            seed = int.from_bytes(hashlib.sha256(sentence.encode()).digest()[:8], "little")
            row[:] = np.random.default_rng(seed).standard_normal(self.dimension)
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def watermark(seed: int, alternative: Alternative | None = None) -> HammingMark:
    key = hamming_key(
        secret=Secret(hashlib.sha256(b"key %d" % seed).digest()),
        encoder="hash",
        fingerprint="ab" * 32,
        dimension=DIMENSION,
    )
    return HammingMark(key, alternative=alternative)


def plain(count: int, *, seed: int) -> list[str]:
    """Sentences that know no key."""
    return [f"Plain sentence {i} of story {seed}." for i in range(count)]


def marked(mark: HammingMark, count: int, *, seed: int) -> list[str]:
    """Sentences of which each was accepted after the one before."""
    encoder = HashEncoder()
    chosen = [f"Marked story {seed} begins."]
    while len(chosen) < count:
        candidates = [f"Step {len(chosen)} goes way {w} in story {seed}." for w in range(200)]
        embedded = encoder.encode([chosen[-1], *candidates])
        choice = mark.choose(embedded[0], embedded[1:])
        assert choice.accepted
        chosen.append(candidates[choice.index])
    return chosen


@pytest.fixture
def make() -> SimpleNamespace:
    """Watermarks by number, sentences, and detectors."""

    def detector(*marks: HammingMark, edits: bool = False, **options: object) -> Detector:
        return Detector(
            SentenceReader(SentencexSplitter(), HashEncoder(), edits=edits),
            EveryKey(marks or (watermark(0),)),
            **options,  # type: ignore[arg-type]
        )

    def text(sentences: Sequence[str]) -> str:
        return " ".join(sentences)

    return SimpleNamespace(
        watermark=watermark,
        plain=plain,
        marked=marked,
        encoder=HashEncoder,
        detector=detector,
        text=text,
    )


@pytest.fixture
def embedded_chain() -> Callable[..., FloatArray]:
    """Marked embeddings (n, d) whose natural neighbours have cosine about ``rho``."""

    def chain(mark: HammingMark, n: int, *, rho: float, rng: np.random.Generator) -> FloatArray:
        def unit(rows: np.ndarray) -> np.ndarray:
            return rows / np.linalg.norm(rows, axis=-1, keepdims=True)

        rows = [unit(rng.standard_normal(DIMENSION)).astype(np.float32)]
        while len(rows) < n:
            noise = unit(rng.standard_normal((16, DIMENSION)))
            near = unit(rho * rows[-1] + np.sqrt(1 - rho**2) * noise).astype(np.float32)
            choice = mark.choose(rows[-1], near)
            if choice.accepted:
                rows.append(near[choice.index])
        return np.array(rows)

    return chain
