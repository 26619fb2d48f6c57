"""When to go on with the beginning of a sentence."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
import pytest
from numpy.typing import NDArray

from hammingmark.core import stopping
from hammingmark.core.stopping import Stages, told

STRICT = NormalDist().inv_cdf(0.85)
MEANS = np.linspace(-1.0, 2.5, 15)


def costs(stages: Stages, place: int) -> NDArray[np.float64]:
    return np.array([stages.cost(place, mean) for mean in MEANS])


def test_places_lie_as_far_apart_as_asked_for() -> None:
    assert [Stages(0.5, first=8, tokens=4).at(place) for place in range(4)] == [0, 8, 12, 16]


def test_the_beginning_tells_more_the_longer_it_is() -> None:
    found = [told(tokens) for tokens in range(60)]
    assert found[0] == 0.0
    assert found == sorted(found)
    assert 0.4 < told(8) < told(48) < 1.0


@pytest.mark.parametrize("threshold", [0.0, 0.5, STRICT])
def test_a_better_beginning_costs_less(threshold: float) -> None:
    stages = Stages(threshold)
    for place in range(stages.places):
        found = costs(stages, place)
        assert (np.diff(found) < 0).all(), place
        tries = np.array([stages.tries(place, mean) for mean in MEANS])
        assert (tries >= 1.0).all()


def test_a_laxer_threshold_costs_less() -> None:
    thresholds = (-0.5, 0.0, 0.5, 1.0)
    for place in (0, 1, 5, 11):
        found = np.array([costs(Stages(each), place) for each in thresholds])
        assert (np.diff(found, axis=0) > 0).all(), place


def test_a_token_that_is_kept_has_a_price() -> None:
    stages = Stages(0.5)
    assert stages.price(0) == 0.0
    assert stages.price(20) == 2 * stages.price(10) > 0.0


@pytest.mark.parametrize("mean", [-0.5, 0.0, 1.0])
def test_with_a_single_place_sentences_are_drawn_whole(mean: float) -> None:
    """As many tokens as a draw takes, over the probability that it is accepted.

    Half of the tokens up to the next place, which a sentence has on average when it ends before
    it, are kept and have their price.
    """
    stages = Stages(0.8, first=10, tokens=7, places=1)
    accepted = 1.0 - NormalDist(mean, stopping._LEFT**0.5).cdf(0.8)
    expected = 2.0 * stages.tokens / accepted + stages.price(10) / 2.0
    assert stages.cost(0, mean) == pytest.approx(expected, rel=1e-6)
    assert stages.tries(0, mean) == pytest.approx(1.0 / accepted, rel=1e-6)


def walk(
    stages: Stages, count: int, rng: np.random.Generator, *, judges: bool = True
) -> NDArray[np.float64]:
    """What each of so many sentences takes until it is accepted, by the model: (count,).

    Args:
        stages: the places.
        count: of sentences.
        rng: decides.
        judges: whether beginnings are judged by the policy. Otherwise each is gone on with, and a
            sentence that is refused is drawn from its first word again.
    """
    place, mean = np.zeros(count, int), np.zeros(count)
    spent, done = np.zeros(count), np.zeros(count, bool)
    kept = np.zeros(count)
    here = np.array([stages.at(j) for j in range(stages.places + 1)], float)
    longer = np.array([stopping._longer(each) for each in here])
    ends = np.append(1.0 - longer[1:-1] / longer[:-2], 1.0)
    steps = np.diff(here)
    draws = steps * (1.0 - ends / 2.0) + stopping._EMBEDDING * judges
    draws[-1] = 2.0 * stages.tokens
    spread = np.sqrt(np.diff([told(each) ** 2 for each in here]))
    for _ in range(3000):
        if done.all():
            return spent + kept
        live = ~done
        spent[live] += draws[place[live]]
        ended = rng.random(count) < ends[place]
        score = mean + stopping._LEFT**0.5 * rng.standard_normal(count)
        passed = live & ended & (score >= stages.threshold)
        kept[passed] += stages.price(1) * steps[place[passed]] / 2.0
        done |= passed
        if not judges:
            again = live & ended & ~passed
            place[again], mean[again], kept[again] = 0, 0.0, 0.0
        following = mean + spread[place] * rng.standard_normal(count)
        for i in np.flatnonzero(live & ~ended):
            j, price = int(place[i]), stages.price(1) * steps[place[i]]
            on = stages.cost(j + 1, following[i]) + price < stages.cost(j, mean[i])
            if on or not judges:
                place[i], mean[i] = j + 1, following[i]
                kept[i] += price
    raise AssertionError("some sentence is never accepted")


@pytest.mark.parametrize("threshold", [0.3, STRICT])
def test_a_walk_by_the_policy_costs_what_it_says(threshold: float) -> None:
    """Four standard errors, and 1 in 100 for the grid, whose steps are a twentieth."""
    stages = Stages(threshold, tokens=4)
    found = walk(stages, 4000, np.random.default_rng(1))
    expected = stages.cost(0, 0.0)
    slack = 4 * found.std() / np.sqrt(len(found))
    assert slack < 0.06 * expected, "so that an error of a tenth would show"
    assert abs(found.mean() - expected) < slack + 0.01 * expected


@pytest.mark.parametrize("threshold", [0.3, STRICT])
def test_stages_are_cheaper_than_whole_sentences(threshold: float) -> None:
    """Drawn by the same model; what sentences have in length is counted at its price in both."""
    stages = Stages(threshold, tokens=4)
    rng = np.random.default_rng(2)
    whole = walk(stages, 2000, rng, judges=False)
    in_stages = walk(stages, 2000, rng)
    error = np.hypot(whole.std(), in_stages.std()) / np.sqrt(2000)
    assert in_stages.mean() < whole.mean() - 4 * error
