"""Windows, against trying them all."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hammingmark.stats.passages import WindowScan, best_windows

SEQUENCES = st.lists(st.integers(-5, 5).map(float), max_size=25)


def every_window(values: list[float]) -> list[tuple[float, int, int]]:
    return [
        (sum(values[i:j]), i, j) for i in range(len(values)) for j in range(i + 1, len(values) + 1)
    ]


@given(SEQUENCES)
def test_the_first_window_is_the_best_of_all(values: list[float]) -> None:
    best = max([0.0, *(total for total, _, _ in every_window(values))])
    found = best_windows(np.array(values))
    assert (found[0][2] if found else 0.0) == pytest.approx(best)


@given(SEQUENCES)
def test_windows_are_disjoint_positive_and_cannot_be_improved(values: list[float]) -> None:
    found = best_windows(np.array(values))
    taken = sorted((begin, end) for begin, end, _ in found)
    for (_, end), (begin, _) in pairwise(taken):
        assert end <= begin
    for begin, end, total in found:
        assert total == pytest.approx(sum(values[begin:end]))
        assert total > 0
        for i in range(begin, end):
            assert sum(values[begin : i + 1]) > 0 or i == end - 1
            assert sum(values[begin:i]) >= 0
    assert [total for *_, total in found] == sorted((t for *_, t in found), reverse=True)


@given(SEQUENCES)
def test_the_scan_is_the_best_window_for_each_key(values: list[float]) -> None:
    columns = np.array([values, values[::-1], [-v for v in values]]).T.reshape(-1, 3)
    scan = WindowScan()
    scan.update(columns[:4])
    scan.update(columns[4:])
    expected = [best_windows(column) for column in columns.T]
    got = np.broadcast_to(scan.best, 3)
    np.testing.assert_allclose(got, [found[0][2] if found else 0.0 for found in expected])


def test_a_long_sequence_takes_linear_work() -> None:
    rng = np.random.default_rng(0)
    assert best_windows(rng.standard_normal(200_000) - 0.2)
    assert len(best_windows(np.ones(200_000))) == 1
    assert best_windows(-np.ones(10)) == []
