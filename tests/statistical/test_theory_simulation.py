"""The closed forms against seeded simulation: real hyperplanes, real vectors, real rejection."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pytest

from hammingmark.watermarks.hamming import theory

Floats = npt.NDArray[np.float64]
Bits = npt.NDArray[np.bool_]

M, T, D = 8, 6, 16
TRIALS = 40_000
ERRORS = 4.5  # standard errors; the seeds are fixed, so a pass stays a pass


def assert_shares(counts: npt.ArrayLike, trials: int, expected: npt.ArrayLike) -> None:
    """Hold observed counts to the chances expected of them."""
    chance = np.asarray(expected, dtype=np.float64)
    error = np.sqrt(np.maximum(chance * (1 - chance), 1 / trials) / trials)
    assert np.all(np.abs(np.asarray(counts) / trials - chance) <= ERRORS * error)


def assert_mean(samples: Floats, expected: float) -> None:
    error = samples.std() / math.sqrt(samples.size)
    assert abs(samples.mean() - expected) <= ERRORS * error


def unit(vectors: Floats) -> Floats:
    return np.asarray(vectors / np.linalg.norm(vectors, axis=-1, keepdims=True))


def turned(vectors: Floats, angle: npt.ArrayLike, rng: np.random.Generator) -> Floats:
    """Each vector turned by its angle in a random direction."""
    theta = np.broadcast_to(np.asarray(angle, dtype=np.float64), vectors.shape[:1])[:, None]
    side = rng.standard_normal(vectors.shape)
    side -= (side * vectors).sum(axis=-1, keepdims=True) * vectors
    return np.asarray(np.cos(theta) * vectors + np.sin(theta) * unit(side))


def drawn(rng: np.random.Generator, n: int = TRIALS) -> tuple[Floats, Floats]:
    """n unit vectors (n, D), and a fresh Gaussian R for each (n, M, D)."""
    return unit(rng.standard_normal((n, D))), rng.standard_normal((n, M, D))


def codes(R: Floats, vectors: Floats) -> Bits:
    return np.asarray(np.einsum("nmd,nd->nm", R, vectors) >= 0)


def histogram(matches: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    return np.bincount(matches, minlength=M + 1)


@pytest.mark.parametrize("cosine", [-0.5, 0.0, 0.31, 0.75, 0.97])
def test_match_counts_of_gaussian_hyperplanes(cosine: float) -> None:
    rng = np.random.default_rng(1)
    e, R = drawn(rng)
    matches = (codes(R, e) == codes(R, turned(e, math.acos(cosine), rng))).sum(axis=1)
    p = theory.match_probability(cosine)
    assert_shares(histogram(matches), TRIALS, theory.match_pmf(M, p))
    assert_shares((matches >= T).sum(), TRIALS, theory.acceptance_at_cosine(M, T, cosine))


def test_uniform_angles() -> None:
    rng = np.random.default_rng(2)
    e, R = drawn(rng)
    angles = rng.uniform(0.0, math.pi, TRIALS)
    other = turned(e, angles, rng)
    accepted = (codes(R, e) == codes(R, other)).sum(axis=1) >= T
    assert_shares(accepted.sum(), TRIALS, theory.uniform_angle_acceptance(M, T))
    cosines = (e * other).sum(axis=1)
    inside = (cosines >= 0.68) & (cosines <= 0.76)
    assert_shares(inside.sum(), TRIALS, theory.cosine_interval_acceptance(0.68, 0.76))


def test_random_code_sets() -> None:
    rng = np.random.default_rng(3)
    valid, K = theory.ball_volume(M, T), 2**M
    masses = rng.dirichlet(np.full(K, 0.1))
    ranks = rng.random((TRIALS // 2, K)).argpartition(valid, axis=1)[:, :valid]
    mass = masses[ranks].sum(axis=1)
    assert_mean(mass, theory.code_share(M, T))
    squares = (mass - theory.code_share(M, T)) ** 2
    assert_mean(squares, float(theory.random_set_variance(masses, valid)))


@pytest.mark.parametrize("degrees", [5, 20, 50])
def test_codes_after_an_edit(degrees: int) -> None:
    rng = np.random.default_rng(4)
    e, R = drawn(rng)
    angle = math.radians(degrees)
    flipped = (codes(R, e) != codes(R, turned(e, angle, rng))).sum(axis=1)
    assert_shares((flipped == 0).sum(), TRIALS, theory.code_stability(M, angle))
    for b in range(M + 1):
        expected = theory.code_stability_within(M, angle, b)
        assert_shares((flipped <= b).sum(), TRIALS, expected)
    for eps in (0.1, 0.25, 0.5):
        far = np.abs(flipped / M - angle / math.pi) >= eps
        assert far.mean() <= theory.hash_deviation_bound(M, eps)


def test_edits_move_the_match_count_no_further_than_the_bound() -> None:
    rng = np.random.default_rng(5)
    e, R = drawn(rng, 5000)
    before = codes(R, e), codes(R, turned(e, 1.0, rng))
    angles = rng.uniform(0.0, math.pi, 5000)
    after = codes(R, turned(e, angles, rng)), rng.random((5000, M)) < 0.5
    moved = np.abs((before[0] == before[1]).sum(axis=1) - (after[0] == after[1]).sum(axis=1))
    d1, d2 = ((old != new).sum(axis=1) for old, new in zip(before, after, strict=True))
    bound = [theory.match_change_bound(M, int(a), int(b)) for a, b in zip(d1, d2, strict=True)]
    assert np.all(moved <= bound)


@pytest.mark.parametrize("bit_flip", [0.03, 0.15])
def test_margins_survive_flips_on_both_sides(bit_flip: float) -> None:
    rng = np.random.default_rng(6)
    expected = theory.margin_survival(M, T, bit_flip)
    for matches in range(M + 1):
        first = rng.random((TRIALS, M)) < 0.5
        second = first ^ (np.arange(M) >= matches)
        edits = rng.random((2, TRIALS, M)) < bit_flip
        valid = ((first ^ edits[0]) == (second ^ edits[1])).sum(axis=1) >= T
        assert_shares(valid.sum(), TRIALS, expected[matches])


@pytest.mark.parametrize("budget", [1, 4, 16])
def test_rejection_within_a_budget(budget: int) -> None:
    rng = np.random.default_rng(7)
    e, R = drawn(rng, 20_000)
    angle = math.acos(0.4)
    a = float(theory.acceptance_at_cosine(M, T, 0.4))
    drawn_so_far, open_ = np.zeros(20_000), np.ones(20_000, dtype=bool)
    for _ in range(budget):
        # A fresh R for each candidate: a is the chance over R, as in the closed form.
        R = rng.standard_normal((int(open_.sum()), M, D))
        here = e[open_]
        accepted = (codes(R, here) == codes(R, turned(here, angle, rng))).sum(axis=1) >= T
        drawn_so_far[open_] += 1
        open_[np.flatnonzero(open_)[accepted]] = False
    assert_shares(open_.sum(), 20_000, theory.fallback_probability(a, budget))
    if budget > 1:
        assert_mean(drawn_so_far, float(theory.expected_candidates(a, budget)))


def test_rejection_without_a_budget() -> None:
    rng = np.random.default_rng(8)
    a = float(theory.acceptance(M, T, 0.6))
    tries = (rng.binomial(M, 0.6, (TRIALS, 120)) >= T).argmax(axis=1) + 1.0
    assert_mean(tries, float(theory.expected_candidates(a)))


@pytest.mark.parametrize("own_rest", [False, True])
@pytest.mark.parametrize(("flip", "free"), [(0.0, 0.0), (0.12, 0.0), (0.12, 0.3)])
def test_marked_and_edited_matches(flip: float, free: float, own_rest: bool) -> None:
    rng = np.random.default_rng(9)
    p = 0.65
    rest = p if own_rest else 0.5
    natural = rng.random((6 * TRIALS, M)) < p
    accepted = natural[natural.sum(axis=1) >= T][:TRIALS]
    assert len(accepted) == TRIALS
    chance = np.where(accepted, 2 * flip * (1 - rest), 2 * flip * rest)
    edited = accepted ^ (rng.random((TRIALS, M)) < chance)
    unconstrained = rng.random((TRIALS, M)) < p
    seen = np.where((rng.random(TRIALS) < free)[:, None], unconstrained, edited).sum(axis=1)
    assert_shares(histogram(seen), TRIALS, theory.marked_pmf(M, T, p, flip, free, rest=rest))


def test_evidence_of_a_wholly_marked_text() -> None:
    rng = np.random.default_rng(10)
    p = np.array([0.55, 0.6, 0.7])
    a = theory.acceptance(M, T, p)
    all_valid = (rng.binomial(M, p, (5 * TRIALS, 3)) >= T).all(axis=1)
    assert_shares(all_valid.sum(), 5 * TRIALS, 2.0 ** -theory.evidence_limit(a))


def test_own_rest_beats_one_half_where_sentences_are_close() -> None:
    """With p measured on the text at hand, ``rest=p`` is the alternative to use."""
    rng = np.random.default_rng(11)
    n, texts = 12, 1500
    e, R = drawn(rng, n * texts)

    def scores(demand: int) -> list[Floats]:
        other, open_ = turned(e, 0.9, rng), np.ones(n * texts, dtype=bool)
        for _ in range(16):
            fresh = turned(e[open_], rng.uniform(0.5, 1.1, int(open_.sum())), rng)
            other[open_] = fresh
            matches = (codes(R, e) == codes(R, other)).sum(axis=1)
            open_ = matches < demand
        p = theory.match_probability((e * other).sum(axis=1))
        laws = (theory.log_likelihood_ratio(M, T, p, 0.2, 0.05, rest=rest) for rest in (0.5, p))
        each = [np.take_along_axis(law, matches[:, None], axis=1) for law in laws]
        return [terms.reshape(texts, n).sum(axis=1) for terms in each]

    power = [
        float((marked > np.quantile(natural, 0.95)).mean())
        for natural, marked in zip(scores(0), scores(T), strict=True)
    ]
    assert power[1] > 0.5 > 0.2 > power[0]
