"""Validity and power of the search among many keys, on simulated embeddings.

Sentences are random directions around a topic, so thousands of keys and texts take minutes, and no
model is needed::

    python benchmarks/search.py             # about six minutes on two cores
    python benchmarks/search.py --quick     # about one
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np

from hammingmark.detection.detector import Detector
from hammingmark.detection.reader import ReadText
from hammingmark.detection.search import EveryKey, KeySearch, RankedKeys
from hammingmark.keys.config import EncoderId
from hammingmark.keys.key import Secret, WatermarkKey
from hammingmark.records import Verdict
from hammingmark.stats.compare import compare
from hammingmark.watermarks.hamming import HammingConfig, HammingMark

DIMENSION = 96


class Rows:
    """A reader for texts that are already embeddings."""

    piece, fingerprint, edits = "sentence", "", False

    def batches(self, texts: object) -> object:
        """Texts are already embeddings, so this is not called."""
        raise NotImplementedError


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a sixth of the texts")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    scale = 6 if options.quick else 1
    print("false positives at 5 %, of unmarked texts of 12 sentences under random masters")
    for count in (1, 8, 9, 40):
        rng = np.random.default_rng([options.seed, count])
        false_positives(count, texts=1200 // scale, rng=rng)
    print("\nthe key that marked, among 200 labels, given the topic, at 1 %")
    for preset, n, topic in (("paper", 40, 1.5), ("paper", 24, 1.0), ("default", 40, 1.0)):
        rng = np.random.default_rng([options.seed, n])
        ranking(preset, n, topic, texts=24 // scale, rng=rng)
    print("\nestimated power of unmarked texts, and marked texts that were found, one key")
    for level, n in ((1e-2, 8), (1e-4, 8), (1e-4, 12), (1e-5, 12)):
        rng = np.random.default_rng([options.seed, n])
        power(level, n, texts=60 // scale, rng=rng)


def make_mark(preset: str, rng: np.random.Generator) -> HammingMark:
    encoder = EncoderId("simulated", "00" * 32, DIMENSION)
    config = HammingConfig.from_preset(preset, encoder=encoder)
    return HammingMark(WatermarkKey(Secret(rng.bytes(32)), config))


def sentences(topic: float, rng: np.random.Generator) -> Callable[[int], np.ndarray]:
    """A source of sentences around one topic."""
    centre = rng.standard_normal(DIMENSION) / np.sqrt(DIMENSION)

    def draw(count: int) -> np.ndarray:
        rows = rng.standard_normal((count, DIMENSION)) / np.sqrt(DIMENSION) + topic * centre
        unit: np.ndarray = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        return unit.astype(np.float32)

    return draw


def marked(mark: HammingMark, n: int, topic: float, rng: np.random.Generator) -> np.ndarray:
    draw = sentences(topic, rng)
    rows: list[np.ndarray] = []
    while len(rows) < n:
        candidates = draw(16)
        rows.append(candidates[mark.choose(rows[-1] if rows else None, candidates).index])
    return np.stack(rows)


def search_of(master: HammingMark, count: int) -> KeySearch:
    keys = [master.key.derive(str(number)) for number in range(count)]
    if count > 8:
        return RankedKeys(master, keys)
    return EveryKey([master.like(key) for key in keys])


def judge(search: KeySearch, text: np.ndarray, level: float) -> Verdict:
    text_detector = Detector(Rows(), search, level=level)  # type: ignore[arg-type]
    return next(text_detector.judge_read([ReadText(("x",) * len(text), text)]))


def false_positives(count: int, *, texts: int, rng: np.random.Generator) -> None:
    whole = passage = 0
    for number in range(texts):
        if number % 4 == 0:
            search = search_of(make_mark("default", rng), count)
        draw = sentences(float(rng.uniform(0.0, 1.5)), rng)
        verdict = judge(search, draw(12), 0.05)
        whole += verdict.watermarked is True
        passage += bool(verdict.passages)
    print(
        f"  {count:>3} keys: {whole / texts:.3f} whole, {passage / texts:.3f} a passage ({texts})"
    )


def ranking(preset: str, n: int, topic: float, *, texts: int, rng: np.random.Generator) -> None:
    cosine: list[float] = []
    ranked = found = possible = 0
    for _ in range(texts):
        master = make_mark(preset, rng)
        search = search_of(master, 200)
        assert isinstance(search, RankedKeys)
        mark = master.like(search.keys[100])
        text = marked(mark, n, topic, rng)
        cosine.append(float((text[1:] * text[:-1]).sum(axis=1).mean()))
        candidates = search.candidates([ReadText(("x",) * n, text)], statistic="margin")[0]
        ranked += mark.key.id in [candidate.key.id for candidate in candidates]
        verdict = judge(search, text, 0.01)
        found += verdict.watermarked is True and verdict.key_id == mark.key.id
        test = mark.read(text).test_given_topic("margin")
        possible += 200 * compare(test, limit=80_000, stop_after=20).p_value <= 0.01
    print(
        f"  {preset}, {n} sentences at a cosine of {np.mean(cosine):.2f}: tested in {ranked}, "
        f"found in {found} of {texts}; tested alone and corrected, {possible}"
    )


def power(level: float, n: int, *, texts: int, rng: np.random.Generator) -> None:
    estimates, found = [], 0
    for _ in range(texts):
        mark = make_mark("default", rng)
        search = EveryKey([mark])
        draw = sentences(0.7, rng)
        estimates.append(judge(search, draw(n), level).power_as_written or 0.0)
        verdict = judge(search, marked(mark, n, 0.7, rng), level)
        found += verdict.p_value is not None and verdict.p_value <= level
    print(f"  level {level:g}, {n} sentences: {np.median(estimates):.2f}, found {found} of {texts}")


if __name__ == "__main__":
    main()
