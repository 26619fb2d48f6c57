"""When to go on with the beginning of a sentence."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
import pytest
from numpy.typing import NDArray

from hammingmark.generation import stopping
from hammingmark.generation.stopping import Stages

STRICT = NormalDist().inv_cdf(0.85)
SCORES = np.linspace(-1.0, 2.5, 15)


def costs(stages: Stages, place: int, draws: int = 0) -> NDArray[np.float64]:
    return np.array([stages.cost(place, score, draws) for score in SCORES])


def test_places_lie_as_far_apart_as_asked_for() -> None:
    stages = Stages(0.5, first=8, tokens=4, longest=20)
    assert [stages.at(place) for place in range(stages.places)] == [0, 8, 12, 16, 20]
    reached = [stages.place(tokens) for tokens in (0, 7, 8, 11, 12, 20, 500)]
    assert reached == [0, 0, 1, 1, 2, 4, 4]


@pytest.mark.parametrize("threshold", [0.0, 0.5, STRICT])
def test_a_better_beginning_costs_less(threshold: float) -> None:
    stages = Stages(threshold)
    for place in range(1, stages.places):
        for draws in (0, 3, 40):
            assert (np.diff(costs(stages, place, draws)) <= 1e-9).all(), (place, draws)
        assert costs(stages, place)[0] > costs(stages, place)[-1]
    assert np.ptp(costs(stages, 0)) < 1e-9, "before anything is drawn there is no score"


def test_a_laxer_threshold_costs_less() -> None:
    thresholds = (-0.5, 0.0, 0.5, 1.0)
    for place in (0, 1, 5, 11):
        found = np.array([costs(Stages(each), place) for each in thresholds])
        assert (np.diff(found, axis=0) > 0).all(), place


def test_every_draw_in_vain_makes_a_beginning_dearer() -> None:
    """Beyond the draws that are told apart, too: else one would be drawn from without end."""
    stages = Stages(STRICT)
    for place in (0, 1, 6):
        found = [stages.cost(place, 0.8, draws) for draws in range(60)]
        assert (np.diff(found) > 0).all(), place


def test_a_chance_to_get_on_is_a_probability() -> None:
    stages = Stages(0.5)
    for place in range(stages.places):
        for draws in (0, 5, 50):
            found = np.array([stages.p_continue(place, score, draws) for score in SCORES])
            assert ((found >= 0.0) & (found <= 1.0)).all()
    assert stages.p_continue(4, 1.5) > stages.p_continue(4, -0.5)


def test_with_a_single_place_sentences_are_drawn_whole() -> None:
    """As many draws as a sentence takes that is accepted with probability a.

    The probability is that of a Dirichlet process with base a and ν draws' worth of sureness. The
    number of draws until the first success has the mean (ν - 1) / (ν a - 1): draws are from its
    mean, a Beta(ν a, ν (1 - a)), whose inverse has that mean. The tables stop telling draws apart,
    so the case is one in which few are needed.
    """
    stages = Stages(NormalDist().inv_cdf(0.1), first=10, tokens=7, longest=0)
    assert stages.places == 2
    tokens = 2 * stages.tokens + stopping._EMBEDDING
    sure = stopping._ALIKE[1]
    # The last place: what stands there changes once more, then it is over.
    ahead = stopping._following(stages, 1, stopping._TO_THE_END)
    passes = (ahead >= stages.threshold).mean(axis=1) @ stopping._WEIGHTS
    high = np.flatnonzero(passes > 0.95)[0]
    expected = tokens * (sure - 1.0) / (sure * passes[high] - 1.0)
    found = stages.cost(1, float(stopping._GRID[high]))
    assert found == pytest.approx(expected, rel=0.03)


class Walk:
    """A sentence by the model: scores change as in natural text, and draws repeat themselves."""

    def __init__(self, stages: Stages, rng: np.random.Generator) -> None:
        self.stages = stages
        self.rng = rng
        self.drawn = 0.0
        self.longer = [stopping._longer(stages.at(j)) for j in range(stages.places + 1)]

    def draw(
        self, place: int, score: float, before: list[tuple[bool, float]]
    ) -> tuple[bool, float]:
        """Whether the sentence ends, and its score then or at the next place."""
        stages, rng = self.stages, self.rng
        last = place == stages.places - 1
        ends = 1.0 if last else 1.0 - self.longer[place + 1] / self.longer[place]
        tokens = 2 * stages.tokens if last else stages.at(place + 1) - stages.at(place)
        self.drawn += tokens * (1.0 if last else 1.0 - ends / 2.0) + stopping._EMBEDDING
        if before and rng.random() >= stopping._p_novel(place, len(before)):
            before.append(before[rng.integers(len(before))])
            return before[-1]
        ended = bool(rng.random() < ends)
        if place == 0:
            found = float(rng.standard_normal())
        else:
            at = np.clip(stages.at(place), stopping._CHANGES[0][0], stopping._CHANGES[0][-1])
            sixths = zip(*stopping._CHANGES[1], strict=True)
            changes = [np.interp(at, stopping._CHANGES[0], sixth) for sixth in sixths]
            share = (stopping._TO_THE_END if ended else 1.0) * stages.tokens / 3.0
            cosine = (1.0 - rng.choice(changes) / 2.0) ** share
            found = float(cosine * score + np.sqrt(1.0 - cosine**2) * rng.standard_normal())
        before.append((ended, found))
        return before[-1]

    def cost(self) -> float:
        """Tokens until a sentence is accepted, by the policy without a way forward again."""
        stages = self.stages
        way: list[tuple[float, list[tuple[bool, float]]]] = [(0.0, [])]
        while True:
            score, before = way[-1]
            place = len(way) - 1
            ended, found = self.draw(place, score, before)
            if ended and found >= stages.threshold:
                return self.drawn
            worth = [stages.cost(j, x, len(n)) for j, (x, n) in enumerate(way)]
            on = np.inf if ended else stages.cost(place + 1, found)
            if on < min(worth):
                way.append((found, []))
            else:
                del way[int(np.argmin(worth)) + 1 :]


@pytest.mark.parametrize("threshold", [0.3, STRICT])
def test_a_walk_by_the_policy_costs_what_it_says(threshold: float) -> None:
    """By the model, within a tenth: the tables do not know of ways back over several places."""
    stages = Stages(threshold)
    rng = np.random.default_rng(1)
    found = np.array([Walk(stages, rng).cost() for _ in range(1500)])
    expected = stages.cost(0, 0.0)
    slack = 4 * found.std() / np.sqrt(len(found))
    print(found.mean(), expected, slack)
    assert slack < 0.15 * expected
    assert abs(found.mean() - expected) < slack + 0.1 * expected


def test_finer_stages_cost_less() -> None:
    found = [Stages(STRICT, tokens=tokens).cost(0, 0.0) for tokens in (2, 3, 4, 6, 12)]
    assert found == sorted(found)
