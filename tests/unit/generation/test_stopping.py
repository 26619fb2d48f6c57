"""When to continue the prefix of a sentence."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
import pytest
from numpy.typing import NDArray

from hammingmark.generation import stopping
from hammingmark.generation.stopping import Stages

STRICT = NormalDist().inv_cdf(0.85)
SCORES = np.linspace(-1.0, 2.5, 15)


def costs(stages: Stages, stage: int, draws: int = 0) -> NDArray[np.float64]:
    return np.array([stages.expected_cost(stage, score, draws) for score in SCORES])


def test_stages_are_as_far_apart_as_their_tokens() -> None:
    stages = Stages(0.5, first=8, tokens=4, longest=20)
    assert [stages.tokens_at(stage) for stage in range(stages.count)] == [0, 8, 12, 16, 20]
    reached = [stages.stage_of(tokens) for tokens in (0, 7, 8, 11, 12, 20, 500)]
    assert reached == [0, 0, 1, 1, 2, 4, 4]


@pytest.mark.parametrize("threshold", [0.0, 0.5, STRICT])
def test_a_better_prefix_costs_less(threshold: float) -> None:
    stages = Stages(threshold)
    for stage in range(1, stages.count):
        for draws in (0, 3, 40):
            assert (np.diff(costs(stages, stage, draws)) <= 1e-9).all(), (stage, draws)
        assert costs(stages, stage)[0] > costs(stages, stage)[-1]
    assert np.ptp(costs(stages, 0)) < 1e-9, "before anything is drawn there is no score"


def test_a_laxer_threshold_costs_less() -> None:
    thresholds = (-0.5, 0.0, 0.5, 1.0)
    for stage in (0, 1, 5, 11):
        values = np.array([costs(Stages(threshold), stage) for threshold in thresholds])
        assert (np.diff(values, axis=0) > 0).all(), stage


def test_every_failed_draw_raises_the_cost_of_a_prefix() -> None:
    """Also beyond the draws that are distinguished, or one prefix would be continued for ever."""
    stages = Stages(STRICT)
    for stage in (0, 1, 6):
        found = [stages.expected_cost(stage, 0.8, draws) for draws in range(60)]
        assert (np.diff(found) > 0).all(), stage


def test_the_chance_to_continue_is_a_probability() -> None:
    stages = Stages(0.5)
    for stage in range(stages.count):
        for draws in (0, 5, 50):
            found = np.array([stages.p_continue(stage, score, draws) for score in SCORES])
            assert ((found >= 0.0) & (found <= 1.0)).all()
    assert stages.p_continue(4, 1.5) > stages.p_continue(4, -0.5)


def test_with_a_single_stage_sentences_are_drawn_whole() -> None:
    """As many draws as a sentence takes that is accepted with probability a.

    Draws come from a Dirichlet process with base probability a and concentration ν. The success
    rate is Beta(ν a, ν (1 - a)), whose inverse has the mean (ν - 1) / (ν a - 1): the expected
    number of draws. The tables distinguish few draws, so the case is one in which few are needed.
    """
    stages = Stages(NormalDist().inv_cdf(0.1), first=10, tokens=7, longest=0)
    assert stages.count == 2
    tokens = 2 * stages.tokens + stopping._EMBEDDING
    concentration = stopping._CONCENTRATION[1]
    # The last stage: what stands there changes once more, then it is over.
    scores = stopping._next_scores(stages, 1, is_over=True)
    passes = (scores >= stages.threshold).mean(axis=1) @ stopping._WEIGHTS
    high = np.flatnonzero(passes > 0.95)[0]
    expected = tokens * (concentration - 1.0) / (concentration * passes[high] - 1.0)
    found = stages.expected_cost(1, float(stopping._GRID[high]))
    assert found == pytest.approx(expected, rel=0.03)


class Walk:
    """A sentence by the model: scores change as in natural text, and draws repeat themselves."""

    def __init__(self, stages: Stages, rng: np.random.Generator) -> None:
        self.stages = stages
        self.rng = rng
        self.drawn = 0.0
        self.survival = [stopping._survival(stages.tokens_at(j)) for j in range(stages.count + 1)]

    def draw(
        self, stage: int, score: float, before: list[tuple[bool, float]]
    ) -> tuple[bool, float]:
        """Whether the sentence ends, and its score at its end or at the next stage."""
        stages, rng = self.stages, self.rng
        last = stage == stages.count - 1
        ends = 1.0 if last else 1.0 - self.survival[stage + 1] / self.survival[stage]
        tokens = (
            2 * stages.tokens if last else stages.tokens_at(stage + 1) - stages.tokens_at(stage)
        )
        self.drawn += tokens * (1.0 if last else 1.0 - ends / 2.0) + stopping._EMBEDDING
        if before and rng.random() >= stopping._p_novel(stage, len(before)):
            before.append(before[rng.integers(len(before))])
            return before[-1]
        ended = bool(rng.random() < ends)
        if stage == 0:
            found = float(rng.standard_normal())
        else:
            at = np.clip(stages.tokens_at(stage), stopping._CHANGES[0][0], stopping._CHANGES[0][-1])
            sixths = zip(*stopping._CHANGES[1], strict=True)
            changes = [np.interp(at, stopping._CHANGES[0], sixth) for sixth in sixths]
            share = (stopping._FINAL_SHARE if ended else 1.0) * stages.tokens / 3.0
            cosine = (1.0 - rng.choice(changes) / 2.0) ** share
            found = float(cosine * score + np.sqrt(1.0 - cosine**2) * rng.standard_normal())
        before.append((ended, found))
        return before[-1]

    def cost(self) -> float:
        """Tokens until a sentence is accepted, never going forward again from an earlier stage."""
        stages = self.stages
        way: list[tuple[float, list[tuple[bool, float]]]] = [(0.0, [])]
        while True:
            score, before = way[-1]
            stage = len(way) - 1
            ended, found = self.draw(stage, score, before)
            if ended and found >= stages.threshold:
                return self.drawn
            values = [stages.expected_cost(j, x, len(n)) for j, (x, n) in enumerate(way)]
            on = np.inf if ended else stages.expected_cost(stage + 1, found)
            if on < min(values):
                way.append((found, []))
            else:
                del way[int(np.argmin(values)) + 1 :]


@pytest.mark.parametrize("threshold", [0.3, STRICT])
def test_a_walk_by_the_policy_costs_what_it_predicts(threshold: float) -> None:
    """Within a tenth: the tables ignore returns over several stages."""
    stages = Stages(threshold)
    rng = np.random.default_rng(1)
    found = np.array([Walk(stages, rng).cost() for _ in range(1500)])
    expected = stages.expected_cost(0, 0.0)
    slack = 4 * found.std() / np.sqrt(len(found))
    print(found.mean(), expected, slack)
    assert slack < 0.15 * expected
    assert abs(found.mean() - expected) < slack + 0.1 * expected


def test_finer_stages_cost_less() -> None:
    found = [Stages(STRICT, tokens=tokens).expected_cost(0, 0.0) for tokens in (2, 3, 4, 6, 12)]
    assert found == sorted(found)
