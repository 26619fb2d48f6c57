"""The ranking of many keys for a text."""

from __future__ import annotations

import numpy as np
from tests.keys import hamming_key

from hammingmark.keys.key import Secret
from hammingmark.stats.passages import best_windows
from hammingmark.watermarks._shared.hashing import project_in_order
from hammingmark.watermarks._shared.similarity import cosines
from hammingmark.watermarks.hamming import HammingMark, planes_of
from hammingmark.watermarks.hamming.pairs import Pairs, grid_steps
from hammingmark.watermarks.hamming.statistics import Margin

KEYS = 300


def topical(n: int, rng: np.random.Generator) -> np.ndarray:
    rows = rng.standard_normal((n, 48)) + 1.5 * rng.standard_normal(48)
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def scores(mark: HammingMark, text: np.ndarray) -> tuple[list[float], list[float]]:
    """The whole text's score and its best window's under each key, one key at a time."""
    similarity = cosines(text)
    centre = Margin(mark.rule).centre(grid_steps(similarity, rule=mark.rule))
    wholes, windows = [], []
    for number in range(KEYS):
        planes = planes_of(mark.key.derive(str(number)))
        pairs = Pairs(project_in_order(text, planes), similarity, rule=mark.rule)
        increments = Margin(mark.rule).increments(pairs)[:, 0]
        wholes.append(float(increments.sum()))
        ranked_windows = best_windows(increments - centre)
        windows.append(ranked_windows[0][2] if ranked_windows else 0.0)
    return wholes, windows


def test_the_best_of_each_look_is_among_those_tested() -> None:
    """The best keys for the text with and without its topic, as a whole and in a window."""
    rng = np.random.default_rng(8)
    mark = HammingMark(hamming_key(Secret(bytes(range(32)))))
    keys = [mark.key.derive(str(number)) for number in range(KEYS)]
    texts = [topical(20, rng) for _ in range(4)]
    apart = 0
    for text, ranked in zip(texts, mark.rank(keys, texts, statistic="margin"), strict=True):
        direction = text.mean(axis=0) / np.linalg.norm(text.mean(axis=0))
        bare = text - (text @ direction)[:, None] * direction
        bare /= np.linalg.norm(bare, axis=1, keepdims=True)
        looks = [each for rows in (text, bare) for each in scores(mark, rows)]
        for look in looks:
            assert max(range(KEYS), key=look.__getitem__) in ranked
        fourth = sorted(looks[0], reverse=True)[3]
        apart += all(
            looks[0][max(range(KEYS), key=each.__getitem__)] < fourth for each in looks[2:]
        )
        assert len(ranked) <= 10
    assert apart, "no look adds a key that another has not"
