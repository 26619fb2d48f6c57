"""One text against the reference keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np
import pytest
from tests.keys import scored

from hammingmark.protocols import Alternatives, FloatArray
from hammingmark.records import Passage, Power
from hammingmark.stats.compare import compare
from hammingmark.watermarks.hamming.pairs import Alternative

INTACT = Alternative(flip=1e-3, free=1e-3, edited=0.0)  # a marked text that nobody touched


@dataclass
class FourKeys:
    """A null distribution of which every block has the same four reference keys."""

    references: np.ndarray
    words: str = "by hand"
    begun: int = 0
    computed: Closed | None = None

    def blocks(self) -> Iterator[Iterator[np.ndarray]]:
        while True:
            self.begun += 1
            yield iter([self.references[:1], self.references[1:]])


@dataclass
class ByHand:
    """Increments written down by hand."""

    increments: np.ndarray
    best: np.ndarray
    centre: np.ndarray
    null: FourKeys
    is_ratio: bool = False
    alternatives: Alternatives = field(default_factory=Alternatives)


def by_hand(increments: list[float]) -> ByHand:
    references = np.array([[0.0, 1.0, 1.0, 0.0], [0.0, 0.0, 1.0, 1.0], [0.0, 0.0, 0.0, 1.0]])
    return ByHand(np.array(increments), np.ones(3), np.full(3, 0.5), FourKeys(references))


def test_the_p_value_counts_the_keys_that_do_as_well() -> None:
    # Sums under the four keys: 0, 1, 2, 2.
    assert compare(by_hand([1.0, 1.0, 1.0]), limit=4).p_value == 1 / 5
    assert compare(by_hand([1.0, 1.0, 0.0]), limit=4).p_value == 3 / 5
    assert compare(by_hand([0.0, 0.0, 1.0]), limit=4).p_value == 4 / 5
    assert compare(by_hand([0.0, 0.0, 0.0]), limit=4).p_value == 1.0


def test_a_tie_blurred_by_rounding_is_a_tie() -> None:
    assert compare(by_hand([1.0, 1.0, 1e-6]), limit=4).p_value == 3 / 5


def test_windows_are_measured_from_the_centre_over_all_windows() -> None:
    found = compare(by_hand([0.0, 1.0, 1.0]), limit=4)
    # Best windows under the four keys: 0, 0.5, 1, 1; that of the text scores 1.
    [window] = found.windows
    assert (window.begin, window.end) == (1, 3)
    assert window.p_value == 3 / 5
    assert compare(by_hand([0.0, 0.0, 0.0]), limit=4).windows == ()


def test_the_limit_is_kept_across_blocks() -> None:
    found = compare(by_hand([1.0, 1.0, 1.0]), limit=10)
    assert found.references == 10
    assert found.p_value == 1 / 11
    # 2.5 blocks: among the first ten keys, four have a sum of 2 or more.
    assert compare(by_hand([1.0, 1.0, 0.0]), limit=10).p_value == 5 / 11


def test_a_hopeless_text_stops_early_and_a_good_one_goes_on() -> None:
    hopeless = by_hand([0.0, 0.0, 0.0])
    found = compare(hopeless, limit=4000, stop_after=8)
    assert found.p_value == 1.0
    assert found.references == 8
    assert hopeless.null.begun == 2
    good = by_hand([1.0, 1.0, 1.0])
    assert compare(good, limit=4000, stop_after=8).p_value == 1 / 4001
    assert good.null.begun == 1000


def test_a_passage_is_judged_by_what_was_drawn_before_its_own_test_stopped() -> None:
    """Two of four keys reach the window, so that the eighth comes at the sixteenth draw."""
    test = by_hand([0.0, 1.0, 1.0])
    assert compare(test, limit=4000, stop_after=8).windows[0].p_value == 8 / 16
    test.increments = np.array([1.0, 0.0, 1.0])  # two windows that half of the keys and more reach
    assert [each.p_value for each in compare(test, limit=4000, stop_after=8).windows] == [
        8 / 11,
        8 / 11,
    ]


def test_attainable_is_what_the_best_key_would_get_and_never_above_p() -> None:
    found = compare(by_hand([0.0, 0.0, 0.0]), limit=4)
    assert found.attainable == 1 / 5
    low_ceiling = by_hand([0.0, 0.0, 0.0])
    low_ceiling.best = np.array([1.0, 1.0, 0.0])
    assert compare(low_ceiling, limit=4).attainable == 3 / 5


@dataclass
class Closed(FourKeys):
    """The same with tails that are known; draws would say otherwise."""

    draws: int = 7
    attainable: float = 0.0625

    def __post_init__(self) -> None:
        self.computed = self

    def p_value(self, increments: np.ndarray) -> float:
        return 0.25

    def window_p_value(self, increments: np.ndarray, window: slice) -> float:
        return 0.3 if increments[window].sum() > 1.5 else 0.6

    def joint_p_value(self, increments: np.ndarray) -> float | None:
        return None

    def power(self, level: float) -> Power:
        return Power(10 * level)


def test_a_closed_form_takes_the_place_of_counting() -> None:
    test = by_hand([1.0, 1.0, 0.0])
    test.null = Closed(test.null.references)
    found = compare(test, limit=4)
    assert (found.p_value, found.attainable, found.power(0.02)) == (0.25, 0.0625, Power(0.2))
    assert (found.references, found.tail_estimate) == (7, None)
    assert found.windows == (Passage(0, 2, 0.3),)
    assert test.null.begun == 0, "nothing is drawn"


def test_windows_that_are_nothing_out_of_the_way_are_not_named() -> None:
    test = by_hand([1.0, 0.0, 0.0])
    test.null = Closed(test.null.references)
    assert compare(test, limit=4).windows == ()


def test_there_is_a_tail_estimate_only_where_no_key_reached_the_score() -> None:
    assert compare(by_hand([1.0, 1.0, 1.0]), limit=4).tail_estimate is not None
    assert compare(by_hand([1.0, 1.0, 0.0]), limit=4).tail_estimate is None


def test_no_more_texts_are_found_after_rewording() -> None:
    """Where the estimate from few draws says so, it is by chance."""
    test = by_hand([0.0, 1.0, 0.0])
    test.alternatives = Alternatives(
        as_written=lambda: blocks_of(0.0 * test.null.references),
        reworded=lambda: blocks_of(test.null.references),
    )
    power = compare(test, limit=4).power(0.5)
    assert power.as_written is not None
    assert power.as_written < 1.0
    assert power.reworded == power.as_written


def blocks_of(ratios: np.ndarray) -> Iterator[Iterator[np.ndarray]]:
    while True:
        yield iter([ratios])


def test_power_needs_a_likelihood_ratio() -> None:
    test = by_hand([1.0, 1.0, 1.0])
    assert compare(test, limit=4).power(0.01) == Power()
    test.is_ratio = True
    assert compare(test, limit=4).power(0.01).mean is not None


@pytest.mark.parametrize("statistic", ["likelihood", "margin"])
def test_power_is_near_nothing_for_short_texts_and_near_one_for_long(
    make: SimpleNamespace, embedded_chain: Callable[..., FloatArray], statistic: str
) -> None:
    rng = np.random.default_rng(0)
    for seed in range(5):
        mark = make.watermark(seed)
        short, long = (
            compare(
                scored(mark, embedded_chain(mark, n, rho=0.3, rng=rng), statistic),
                limit=2000,
            )
            for n in (2, 40)
        )
        for each, is_long in ((short.power(0.01), False), (long.power(0.01), True)):
            for share in (each.mean, each.as_written, each.reworded):
                assert share is not None
                assert share > 0.6 if is_long else share < 0.2
        assert long.p_value == 1 / 2001


@pytest.mark.parametrize("topic", ["given", "free"])
@pytest.mark.parametrize("n", [4, 6])
def test_power_predicts_how_often_marked_chains_are_found(
    make: SimpleNamespace, embedded_chain: Callable[..., FloatArray], topic: str, n: int
) -> None:
    rng = np.random.default_rng(n)
    predicted, found = [], []
    for seed in range(80):
        mark = make.watermark(seed, INTACT)
        text = embedded_chain(mark, n, rho=0.3, rng=rng)
        result = compare(scored(mark, text, "likelihood", topic), limit=1000)
        predicted.append(result.power(0.01).as_written)
        found.append(result.p_value <= 0.01)
    print(f"\n{topic}, {n}: predicted {np.mean(predicted):.2f}, found {np.mean(found):.2f}")
    assert np.mean(found) == pytest.approx(np.mean(predicted), abs=0.15)
