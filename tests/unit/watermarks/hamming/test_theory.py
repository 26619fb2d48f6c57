"""The closed forms: the paper's numbers, scipy as a reference, and general laws."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats
from tests.errors import raises_naming

from hammingmark.errors import InputError
from hammingmark.watermarks.hamming import theory

BITS = st.integers(1, 40)
CHANCES = st.floats(0.0, 1.0)
FLIPS = st.floats(0.01, 0.5)
COSINES = st.floats(-1.0, 1.0)


@st.composite
def bits_and_threshold(draw: st.DrawFn, most: int = 40) -> tuple[int, int]:
    m = draw(st.integers(1, most))
    return m, draw(st.integers(0, m))


class TestPaperNumbers:
    def test_neighbourhood_of_the_default(self) -> None:
        assert theory.ball_volume(8, 6) == 37
        assert theory.code_share(8, 6) == 37 / 256

    def test_uniform_angle(self) -> None:
        assert theory.uniform_angle_acceptance(8, 6) == pytest.approx(1 / 3)

    def test_simmark_interval(self) -> None:
        assert round(100 * theory.cosine_interval_acceptance(0.68, 0.76), 2) == 3.68

    @pytest.mark.parametrize(("T", "a", "bits"), [(5, 0.5941, 0.75), (6, 0.3154, 1.66)])
    def test_acceptance_and_strength_at_mean_4_8(self, T: int, a: float, bits: float) -> None:
        actual = theory.acceptance(8, T, 0.6)
        assert round(float(actual), 4) == a
        assert round(float(theory.strength(actual)), 2) == bits

    def test_both_estimates_give_six(self) -> None:
        assert theory.estimated_threshold(8, 4.8, 1.0) == 6
        assert theory.normal_threshold(8, 4.8, 1.0) == 6
        assert theory.exact_threshold(theory.match_pmf(8, 0.6), 1.0) == 6

    def test_three_of_four_balanced_bits(self) -> None:
        assert float(theory.acceptance(4, 3, 0.5)) == pytest.approx(5 / 16)

    def test_semstamp_with_equal_masses(self) -> None:
        assert float(theory.random_set_variance(np.full(8, 1 / 8), 2)) == pytest.approx(0.0)

    def test_one_partition_with_all_the_mass(self) -> None:
        assert float(theory.random_set_variance(np.eye(8)[3], 2)) == pytest.approx(0.25 * 0.75)


class TestAgainstScipy:
    P = np.array([0.0, 1e-300, 1e-12, 1e-3, 0.1, 0.5, 0.6, 0.999, 1 - 1e-12, 1.0])

    @pytest.mark.parametrize("m", [1, 8, 64, 600])
    def test_match_distribution(self, m: int) -> None:
        expected = stats.binom.pmf(np.arange(m + 1), m, self.P[:, None])
        np.testing.assert_allclose(theory.match_pmf(m, self.P), expected, rtol=1e-9, atol=1e-290)

    @pytest.mark.parametrize(("m", "T"), [(8, 0), (8, 1), (8, 6), (8, 8), (64, 40)])
    def test_acceptance(self, m: int, T: int) -> None:
        expected = stats.binom.sf(T - 1, m, self.P)
        np.testing.assert_allclose(
            theory.acceptance(m, T, self.P), expected, rtol=1e-10, atol=1e-290
        )

    def test_stability(self) -> None:
        angles = np.linspace(0.0, math.pi, 7)
        np.testing.assert_allclose(
            theory.code_stability(8, angles), (1 - angles / math.pi) ** 8, rtol=1e-12
        )
        for b in range(9):
            expected = stats.binom.cdf(b, 8, angles / math.pi)
            actual = theory.code_stability_within(8, angles, b)
            np.testing.assert_allclose(actual, expected, rtol=1e-10)

    @given(m=st.integers(2, 30), share=st.floats(0.05, 0.95), bits=st.floats(0.05, 6.0))
    def test_estimated_threshold_is_the_quantile(self, m: int, share: float, bits: float) -> None:
        level = 1 - 2.0**-bits
        reached = stats.binom.cdf(np.arange(m + 1), m, share)
        assume(np.abs(reached - level).min() > 1e-9)  # there, rounding decides which it is
        expected = 1 + int(stats.binom.ppf(level, m, share))
        if expected > m:
            with raises_naming(InputError, f"all {m} bits"):
                theory.estimated_threshold(m, m * share, bits)
        else:
            assert theory.estimated_threshold(m, m * share, bits) == expected

    @pytest.mark.parametrize("bits", [0.5, 1.0, 2.0, 4.0, 7.5])
    @pytest.mark.parametrize("mu", [3.0, 16.2, 40.0])
    def test_normal_threshold(self, mu: float, bits: float) -> None:
        spread = math.sqrt(mu * (1 - mu / 64))
        expected = math.ceil(mu + spread * stats.norm.isf(2.0**-bits) + 0.5)
        assert theory.normal_threshold(64, mu, bits) == expected
        assert abs(theory.estimated_threshold(64, mu, bits) - expected) <= 1

    def test_margin_survival(self) -> None:
        flip = 2 * 0.1 * 0.9
        kept = stats.binom.pmf(np.arange(8), 7, 1 - flip)
        won = stats.binom.pmf(np.arange(2), 1, flip)
        expected = np.convolve(kept, won)[6:].sum()
        assert theory.margin_survival(8, 6, 0.1)[7] == pytest.approx(expected)


class TestMatchLaw:
    @given(m=BITS, p=st.lists(CHANCES, max_size=4))
    def test_sums_to_one(self, m: int, p: list[float]) -> None:
        pmf = theory.match_pmf(m, p)
        assert pmf.shape == (len(p), m + 1)
        np.testing.assert_allclose(pmf.sum(axis=-1), 1.0, rtol=1e-12)

    @given(mt=bits_and_threshold(), low=COSINES, high=COSINES)
    def test_acceptance_grows_with_the_cosine(
        self, mt: tuple[int, int], low: float, high: float
    ) -> None:
        low, high = sorted((low, high))
        worse, better = theory.acceptance_at_cosine(*mt, [low, high])
        assert better >= worse - 1e-12

    @given(m=BITS, p=CHANCES)
    def test_acceptance_falls_with_the_threshold(self, m: int, p: float) -> None:
        tails = [float(theory.acceptance(m, T, p)) for T in range(m + 1)]
        assert tails[0] == pytest.approx(1.0, rel=1e-12)
        assert all(later <= earlier for earlier, later in itertools.pairwise(tails))

    def test_probability_at_the_poles_and_past_them(self) -> None:
        actual = theory.match_probability([-1.0000001, -1.0, 0.0, 1.0, 1.0000001])
        np.testing.assert_allclose(actual, [0.0, 0.0, 0.5, 1.0, 1.0])

    def test_shapes(self) -> None:
        assert theory.match_probability(0.3).shape == ()
        assert theory.match_pmf(8, 0.5).shape == (9,)
        assert theory.match_pmf(8, np.full((2, 3), 0.5)).shape == (2, 3, 9)
        assert theory.acceptance(8, 6, np.full((2, 3), 0.5)).shape == (2, 3)

    @given(mt=bits_and_threshold(most=12))
    def test_uniform_angle_is_the_average(self, mt: tuple[int, int]) -> None:
        p = (np.arange(4000) + 0.5) / 4000
        average = theory.acceptance(*mt, p).mean()
        assert theory.uniform_angle_acceptance(*mt) == pytest.approx(average, abs=1e-5)

    @given(mt=bits_and_threshold())
    def test_code_share_is_acceptance_of_balanced_bits(self, mt: tuple[int, int]) -> None:
        assert theory.code_share(*mt) == pytest.approx(float(theory.acceptance(*mt, 0.5)))


class TestEdits:
    @given(m=BITS, p=CHANCES, eps=st.floats(0.0, 1.0))
    def test_hoeffding_holds(self, m: int, p: float, eps: float) -> None:
        far = np.abs(np.arange(m + 1) / m - p) >= eps
        mass = theory.match_pmf(m, p)[far].sum()
        assert mass <= theory.hash_deviation_bound(m, eps) + 1e-9

    def test_change_bound_is_sharp(self) -> None:
        m = 4
        codes = np.array(list(itertools.product([0, 1], repeat=m)))
        flips = codes.sum(axis=1)
        # Against an all-match pair every toggled bit is a lost match, the worst there is.
        change = (codes[:, None] ^ codes[None]).sum(axis=-1)
        for d1, d2 in itertools.product(range(m + 1), repeat=2):
            worst = change[flips == d1][:, flips == d2].max()
            assert theory.match_change_bound(m, d1, d2) == worst <= d1 + d2

    @given(mt=bits_and_threshold(most=12), f=st.floats(0.0, 0.5))
    def test_survival_is_ordered_by_the_margin(self, mt: tuple[int, int], f: float) -> None:
        survival = theory.margin_survival(*mt, f)
        assert survival.shape == (mt[0] + 1,)
        assert np.all(np.diff(survival) >= -1e-12)

    def test_survival_without_edits(self) -> None:
        np.testing.assert_allclose(theory.margin_survival(8, 6, 0.0), np.arange(9) >= 6)

    def test_pair_flip(self) -> None:
        np.testing.assert_allclose(theory.pair_flip([0.0, 0.25, 0.5, 1.0]), [0, 0.375, 0.5, 0])


class TestCost:
    def test_strength_and_divergence_of_certainty_and_impossibility(self) -> None:
        np.testing.assert_array_equal(theory.strength([1.0, 0.5, 0.0]), [0.0, 1.0, np.inf])
        assert math.copysign(1.0, float(theory.strength(1.0))) == 1.0
        np.testing.assert_allclose(theory.divergence([1.0, math.exp(-2), 0.0]), [0, 2, np.inf])

    @given(mt=bits_and_threshold(most=12), p=st.floats(0.01, 0.99))
    def test_divergence_is_that_of_the_match_counts(self, mt: tuple[int, int], p: float) -> None:
        marked, natural = theory.marked_pmf(*mt, p, 0.0), theory.match_pmf(mt[0], p)
        expected = float(theory.divergence(theory.acceptance(*mt, p)))
        assert stats.entropy(marked, natural) == pytest.approx(expected, abs=1e-9)

    @given(a=st.floats(1e-9, 1.0), budget=st.integers(1, 60))
    def test_candidates_within_a_budget(self, a: float, budget: int) -> None:
        # The k-th candidate is drawn when the k - 1 before it were refused.
        expected = sum((1 - a) ** k for k in range(budget))
        assert float(theory.expected_candidates(a, budget)) == pytest.approx(expected)
        assert float(theory.fallback_probability(a, budget)) == pytest.approx((1 - a) ** budget)

    def test_candidates_at_the_ends(self) -> None:
        np.testing.assert_array_equal(theory.expected_candidates([0.0, 1.0], 16), [16.0, 1.0])
        np.testing.assert_array_equal(theory.expected_candidates([0.0, 0.25]), [np.inf, 4.0])
        np.testing.assert_array_equal(theory.fallback_probability([0.0, 1.0], 16), [1.0, 0.0])

    def test_evidence_limit(self) -> None:
        assert theory.evidence_limit([0.5, 0.25, 1.0]) == 3.0
        assert theory.evidence_limit([]) == 0.0


class TestThresholds:
    def test_ties_count_as_strong_enough(self) -> None:
        assert theory.estimated_threshold(9, 4.5, 1.0) == 5
        assert theory.normal_threshold(9, math.nextafter(4.5, 5.0), 1.0) == 5

    def test_no_strength_needs_no_bits(self) -> None:
        assert theory.estimated_threshold(8, 4.8, 0.0) == 0

    def test_an_arbitrary_distribution(self) -> None:
        pmf = [0.1, 0.2, 0.3, 0.3, 0.1]
        assert [theory.exact_threshold(pmf, bits) for bits in (0.1, 0.5, 1.0, 3.0)] == [1, 2, 3, 4]

    def test_refuses_when_all_bits_are_too_weak(self) -> None:
        with raises_naming(InputError, 4, "1.00", 2):
            theory.exact_threshold([0.5, 0.0, 0.0, 0.0, 0.5], 2.0)

    def test_refuses_a_threshold_that_is_never_met(self) -> None:
        with raises_naming(InputError, 3):
            theory.exact_threshold([0.0, 0.0, 1.0, 0.0, 0.0], 1.0)

    def test_normal_estimate_past_the_last_bit(self) -> None:
        with raises_naming(InputError, "T = 9"):
            theory.normal_threshold(8, 7.6, 1.0)

    @given(m=BITS, p=st.floats(0.01, 0.99), bits=st.floats(0.0, 8.0))
    def test_is_the_least_strong_enough(self, m: int, p: float, bits: float) -> None:
        pmf, limit = theory.match_pmf(m, p), 2.0**-bits
        try:
            T = theory.exact_threshold(pmf, bits)
        except InputError:
            assert pmf[-1] > limit
        else:
            assert pmf[T:].sum() <= limit * (1 + 1e-9)
            assert T == 0 or pmf[T - 1 :].sum() > limit * (1 - 1e-9)


class TestMarkedLaw:
    @given(
        mt=bits_and_threshold(most=16),
        p=st.lists(CHANCES, min_size=1, max_size=3),
        flip=st.floats(0.0, 0.5),
        free=CHANCES,
        own_rest=st.booleans(),
    )
    def test_sums_to_one(
        self, mt: tuple[int, int], p: list[float], flip: float, free: float, own_rest: bool
    ) -> None:
        pmf = theory.marked_pmf(*mt, p, flip, free, rest=p if own_rest else 0.5)
        assert pmf.shape == (len(p), mt[0] + 1)
        np.testing.assert_allclose(pmf.sum(axis=-1), 1.0, rtol=1e-9)

    @given(mt=bits_and_threshold(most=16), p=CHANCES)
    def test_unedited_text_keeps_the_demand(self, mt: tuple[int, int], p: float) -> None:
        m, T = mt
        pmf = theory.marked_pmf(m, T, p, 0.0)
        assert pmf[:T].sum() == 0.0
        tail = theory.match_pmf(m, p)[T:]
        if tail.sum() > 1e-280:
            np.testing.assert_allclose(pmf[T:], tail / tail.sum(), rtol=1e-8, atol=1e-12)

    @given(mt=bits_and_threshold(most=16), p=CHANCES)
    def test_half_flipped_is_a_coin(self, mt: tuple[int, int], p: float) -> None:
        pmf = theory.marked_pmf(*mt, p, 0.5)
        np.testing.assert_allclose(pmf, theory.match_pmf(mt[0], 0.5), rtol=1e-9)

    @given(mt=bits_and_threshold(most=16), p=CHANCES, flip=st.floats(0.0, 0.5))
    def test_free_text_is_natural(self, mt: tuple[int, int], p: float, flip: float) -> None:
        pmf = theory.marked_pmf(*mt, p, flip, 1.0)
        np.testing.assert_allclose(pmf, theory.match_pmf(mt[0], p), rtol=1e-9)

    @given(m=st.integers(1, 16), p=CHANCES, flip=st.floats(0.0, 0.5))
    def test_without_a_demand(self, m: int, p: float, flip: float) -> None:
        moved = theory.match_pmf(m, p * (1 - flip) + (1 - p) * flip)
        np.testing.assert_allclose(theory.marked_pmf(m, 0, p, flip), moved, rtol=1e-7, atol=1e-12)
        stayed = theory.marked_pmf(m, 0, p, flip, rest=p)
        np.testing.assert_allclose(stayed, theory.match_pmf(m, p), rtol=1e-7, atol=1e-12)

    def test_impossible_matches_take_the_limit(self) -> None:
        np.testing.assert_allclose(theory.marked_pmf(8, 6, 0.0, 0.0), np.eye(9)[6], atol=1e-290)
        np.testing.assert_allclose(theory.marked_pmf(8, 6, 1.0, 0.0), np.eye(9)[8])

    def test_by_enumeration(self) -> None:
        m, T, p, flip, free, rest = 4, 3, 0.7, 0.15, 0.2, 0.6
        expected = free * theory.match_pmf(m, p)
        accepted = float(theory.acceptance(m, T, p))
        change = np.array([[1 - 2 * flip * rest, 2 * flip * rest], [0.0, 0.0]])
        change[1] = [2 * flip * (1 - rest), 1 - 2 * flip * (1 - rest)]
        for before in itertools.product([0, 1], repeat=m):
            if sum(before) < T:
                continue
            prior = math.prod(p if bit else 1 - p for bit in before) / accepted
            for after in itertools.product([0, 1], repeat=m):
                step = math.prod(change[i, j] for i, j in zip(before, after, strict=True))
                expected[sum(after)] += (1 - free) * prior * step
        np.testing.assert_allclose(theory.marked_pmf(m, T, p, flip, free, rest=rest), expected)


class TestLogLikelihoodRatio:
    @given(
        mt=bits_and_threshold(most=64),
        p=st.lists(CHANCES, min_size=1, max_size=3),
        flip=st.floats(1e-9, 0.5),
        free=CHANCES,
        own_rest=st.booleans(),
    )
    def test_is_finite(
        self, mt: tuple[int, int], p: list[float], flip: float, free: float, own_rest: bool
    ) -> None:
        ratio = theory.log_likelihood_ratio(*mt, p, flip, free, rest=p if own_rest else 0.5)
        assert ratio.shape == (len(p), mt[0] + 1)
        assert np.all(np.isfinite(ratio))

    @given(mt=bits_and_threshold(most=16), p=st.floats(0.05, 0.95), flip=FLIPS, free=CHANCES)
    def test_has_mean_one_in_natural_text(
        self, mt: tuple[int, int], p: float, flip: float, free: float
    ) -> None:
        ratio = np.exp(theory.log_likelihood_ratio(*mt, p, flip, free))
        assert float(theory.match_pmf(mt[0], p) @ ratio) == pytest.approx(1.0)

    @given(mt=bits_and_threshold(most=16), p=CHANCES, flip=FLIPS, free=CHANCES)
    def test_grows_with_the_count_at_its_own_rest(
        self, mt: tuple[int, int], p: float, flip: float, free: float
    ) -> None:
        ratio = theory.log_likelihood_ratio(*mt, p, flip, free, rest=p)
        assert np.all(np.diff(ratio) >= -1e-9)

    def test_can_turn_round_at_a_rest_of_one_half(self) -> None:
        ratio = theory.log_likelihood_ratio(8, 6, 0.8, 0.2, 0.05)
        assert ratio[8] < 0.0 < ratio[0]

    def test_a_free_share_alone_is_enough(self) -> None:
        ratio = theory.log_likelihood_ratio(8, 6, 0.6, 0.0, 0.1)
        np.testing.assert_allclose(ratio[:6], math.log(0.1))
        a = float(theory.acceptance(8, 6, 0.6))
        np.testing.assert_allclose(ratio[6:], math.log(0.1 + 0.9 / a))

    @pytest.mark.parametrize("flip", [0.0, 1.0])
    def test_refuses_a_veto(self, flip: float) -> None:
        with pytest.raises(InputError):
            theory.log_likelihood_ratio(8, 6, 0.6, flip)


@pytest.mark.parametrize(
    "call",
    [
        lambda: theory.match_pmf(-1, 0.5),
        lambda: theory.match_pmf(8, 1.5),
        lambda: theory.match_pmf(8, math.nan),
        lambda: theory.acceptance(8, 9, 0.5),
        lambda: theory.acceptance(0, 0, 0.5),
        lambda: theory.acceptance_at_cosine(8, 6, math.nan),
        lambda: theory.ball_volume(8, -1),
        lambda: theory.random_set_variance([0.5, 0.4], 1),
        lambda: theory.random_set_variance([1.0], 1),
        lambda: theory.random_set_variance([0.5, 0.5], 3),
        lambda: theory.cosine_interval_acceptance(0.8, 0.7),
        lambda: theory.hash_deviation_bound(8, -0.1),
        lambda: theory.code_stability(8, 4.0),
        lambda: theory.match_change_bound(8, 9, 0),
        lambda: theory.strength(0.0 - 1e-9),
        lambda: theory.expected_candidates(0.5, 0),
        lambda: theory.fallback_probability(0.5, 0),
        lambda: theory.exact_threshold([0.5, 0.4], 1.0),
        lambda: theory.exact_threshold([0.5, 0.5], -1.0),
        lambda: theory.exact_threshold([0.5, 0.5], math.inf),
        lambda: theory.normal_threshold(8, 4.8, 0.0),
        lambda: theory.normal_threshold(8, 8.0, 1.0),
        lambda: theory.marked_pmf(8, 6, 0.5, 0.8, rest=0.9),
        lambda: theory.marked_pmf(8, 6, 0.5, 0.1, 1.1),
        lambda: theory.marked_pmf(8, 9, 0.5, 0.1),
    ],
)
def test_nonsense_is_refused(call) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InputError):
        call()
