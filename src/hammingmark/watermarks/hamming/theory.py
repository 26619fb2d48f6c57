"""Closed forms for the cost, the evidence and the effect of edits.

m bits, T required, p the probability that one bit matches, a the acceptance rate of natural
candidates. Probabilities are over the secret matrix R, not over texts under one R. Names such as
``eq. match_binomial`` are the paper's labels. Arguments called arrays may have any shape, including
scalars; the result is then an array of that shape, 0-d for a scalar.
"""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from hammingmark.errors import InputError

Floats = npt.NDArray[np.float64]

# Sums of probabilities round: a tail this much over its limit still counts as equal to it.
_SLACK = 1e-12
_EDGE = 1e-6


def match_probability(cosine: npt.ArrayLike) -> Floats:
    """Probability that one bit of two embeddings matches (eq. app_bit_collision).

    1 - arccos(rho)/pi. ``cosine`` is clipped into [-1, 1], because a dot product of unit vectors
    rounds.
    """
    rho = np.clip(np.asarray(cosine, dtype=np.float64), -1.0, 1.0)
    return np.asarray(1.0 - np.arccos(rho) / math.pi)


def match_pmf(m: int, p: npt.ArrayLike) -> Floats:
    """Distribution of the match count, Binomial(m, p), (..., m + 1) (eq. match_binomial)."""
    return np.asarray(np.exp(_log_binomial(m, _unit(p, "p"))))


def acceptance(m: int, T: int, p: npt.ArrayLike) -> Floats:
    """Probability of at least T matches, the upper binomial tail (eq. hamming_probability)."""
    _check_threshold(m, T)
    # Summed from the top, one by one, so that the tails never increase with T, even by rounding.
    tails = np.cumsum(match_pmf(m, p)[..., ::-1], axis=-1)
    return np.asarray(np.minimum(tails[..., m - T], 1.0))


def acceptance_at_cosine(m: int, T: int, cosine: npt.ArrayLike) -> Floats:
    """Acceptance of a candidate at this cosine to the preceding sentence; grows with the cosine."""
    return acceptance(m, T, match_probability(cosine))


def uniform_angle_acceptance(m: int, T: int) -> float:
    """Acceptance averaged over an angle uniform on (0, pi): (m - T + 1)/(m + 1)."""
    _check_threshold(m, T)
    return (m - T + 1) / (m + 1)


def ball_volume(m: int, T: int) -> int:
    """Number of codes that share at least T of m bits with a given one (eq. app_hamming_volume)."""
    _check_threshold(m, T)
    return sum(math.comb(m, j) for j in range(m - T + 1))


def code_share(m: int, T: int) -> float:
    """Accepted share of all 2^m codes, which is the mean acceptance of random sets of this size."""
    return ball_volume(m, T) / (1 << m)


def random_set_variance(masses: npt.ArrayLike, valid: int) -> Floats:
    """Variance of the acceptance when ``valid`` of K partitions are drawn uniformly.

    ``masses`` (..., K), each row summing to one, is the distribution of natural candidates over the
    partitions; the mean acceptance is always valid/K (eq. acceptance_mass_variance).
    """
    shares = _unit(masses, "masses")
    K = shares.shape[-1] if shares.ndim else 0
    if K < 2 or not 0 <= valid <= K or not np.allclose(shares.sum(axis=-1), 1.0, atol=1e-6):
        raise InputError("Give two or more masses that sum to one, and 0 to K valid partitions.")
    unevenness = (K * np.square(shares).sum(axis=-1) - 1.0) / (K - 1)
    return np.asarray(valid / K * (1.0 - valid / K) * np.maximum(unevenness, 0.0))


def cosine_interval_acceptance(a: float, b: float) -> float:
    """Share of an angle uniform on (0, pi) whose cosine lies in [a, b]: a SimMark-like rule."""
    if not -1.0 <= a <= b <= 1.0:
        raise InputError(f"A cosine interval needs -1 <= a <= b <= 1; got a={a}, b={b}.")
    return (math.acos(a) - math.acos(b)) / math.pi


def hash_deviation_bound(m: int, eps: float) -> float:
    """Hoeffding's bound on the share of differing bits deviating from angle/pi by eps or more.

    2 exp(-2 m eps^2) (eq. app_hash_concentration), at most one.
    """
    _check_threshold(m, 0)
    if not eps >= 0.0:
        raise InputError(f"A deviation cannot be negative; got eps={eps}.")
    return min(1.0, 2.0 * math.exp(-2.0 * m * eps * eps))


def code_stability(m: int, angle: npt.ArrayLike) -> Floats:
    """Probability that an edit turning the embedding by ``angle`` radians flips no bit."""
    return code_stability_within(m, angle, 0)


def code_stability_within(m: int, angle: npt.ArrayLike, b: int) -> Floats:
    """Probability that such an edit flips at most b bits (eq. app_edit_stability); angle: array."""
    _check_threshold(m, b)
    turned = _unit(np.asarray(angle, dtype=np.float64) / math.pi, "angle / pi")
    return np.asarray(np.minimum(match_pmf(m, turned)[..., : b + 1].sum(axis=-1), 1.0))


def match_change_bound(m: int, d1: int, d2: int) -> int:
    """Largest change of the match count if d1 bits flip on one side and d2 on the other.

    The paper's bound is d1 + d2 (eq. app_match_lipschitz). A bit flipped on both sides matches as
    before, and above d1 + d2 = m some bits must be, so 2m - d1 - d2 is a bound too. The result is
    the smaller of the two.
    """
    _check_threshold(m, d1)
    _check_threshold(m, d2)
    return min(d1 + d2, 2 * m - d1 - d2)


def pair_flip(bit_flip: npt.ArrayLike) -> Floats:
    """Probability that a match turns into a mismatch, or back, if either side's bit may flip.

    2 f (1 - f): one of the two bits flips and the other does not. An edit that turns an embedding
    by delta radians has f = delta/pi.
    """
    f = _unit(bit_flip, "bit_flip")
    return np.asarray(2.0 * f * (1.0 - f))


def margin_survival(m: int, T: int, bit_flip: float) -> Floats:
    """Probability that a transition is valid after edits, by its matches before: (m + 1,).

    Every bit of both codes flips independently with probability ``bit_flip``. The paper's margin
    argument is the certain part of this: T + g matches survive any g flips.
    """
    _check_threshold(m, T)
    flip = pair_flip(bit_flip)
    after = np.exp([_log_edited(m, matches, flip, flip) for matches in range(m + 1)])
    return np.asarray(np.minimum(after[:, T:].sum(axis=-1), 1.0))


def strength(a: npt.ArrayLike) -> Floats:
    """Strength of one transition in bits, -log2 a (eq. wm_strength); infinite for a = 0."""
    with np.errstate(divide="ignore"):
        return np.asarray(0.0 - np.log2(_unit(a, "a")))


def divergence(a: npt.ArrayLike) -> Floats:
    """Kullback-Leibler divergence of accepted from natural sentences, -ln a nats (eq. app_kl)."""
    with np.errstate(divide="ignore"):
        return np.asarray(0.0 - np.log(_unit(a, "a")))


def selection_shift(a: npt.ArrayLike) -> Floats:
    """Shift of a normal variable's mean by keeping its best share a, in standard deviations.

    phi(z) / a with P(Z >= z) = a. It compares methods of any kind at equal cost, which is 1 / a
    candidates.
    """
    share = np.clip(_unit(a, "an acceptance"), 1e-12, 1.0 - 1e-12)
    normal = NormalDist()
    z = np.array([normal.inv_cdf(1.0 - value) for value in share.ravel()]).reshape(share.shape)
    shift: Floats = np.exp(-(z**2) / 2.0) / np.sqrt(2.0 * np.pi) / share
    return shift


def evidence_limit(acceptances: npt.ArrayLike) -> float:
    """Bits of evidence in a wholly marked, unedited text: the sum of log2(1/a) over transitions.

    It sums over transitions as if they were independent, which one shared R does not guarantee.
    """
    return float(strength(acceptances).sum())


def fallback_probability(a: npt.ArrayLike, budget: int) -> Floats:
    """Probability that none of ``budget`` candidates is accepted, (1 - a)^budget."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.exp(_check_budget(budget) * np.log1p(-_unit(a, "a"))))


def expected_candidates(a: npt.ArrayLike, budget: int | None = None) -> Floats:
    """Mean number of candidates drawn for one sentence.

    1/a without a budget (eq. app_sampling_cost); with one, drawing stops at ``budget`` and the
    mean is (1 - (1 - a)^budget)/a, which is the budget itself for a = 0.
    """
    rate = _unit(a, "a")
    with np.errstate(divide="ignore", invalid="ignore"):
        if budget is None:
            return np.asarray(1.0 / rate)
        mean = -np.expm1(_check_budget(budget) * np.log1p(-rate)) / rate
    return np.asarray(np.where(rate > 0.0, mean, float(budget)))


def exact_threshold(pmf: npt.ArrayLike, strength: float) -> int:
    """Least T whose acceptance is at most 2^-strength (eq. app_optimal_threshold_exact).

    Args:
        pmf: (m + 1,) probabilities of 0..m matches of a natural candidate and its predecessor.
        strength: required bits per transition.

    Raises:
        InputError: even T = m is too weak, or no candidate reaches the least sufficient T.
    """
    shares = _unit(pmf, "pmf")
    if shares.ndim != 1 or shares.size < 2 or not math.isclose(shares.sum(), 1.0, abs_tol=1e-6):
        raise InputError(
            "A pmf of the match count is one row of m + 1 probabilities that sum to one."
        )
    tails = np.cumsum(shares[::-1])[::-1]
    strong = np.flatnonzero(tails <= _check_strength(strength) * (1.0 + _SLACK))
    if not strong.size:
        raise InputError(
            f"Even all {shares.size - 1} bits give {-math.log2(tails[-1]):.2f} bits of strength, "
            f"not {strength:g}. Reduce the strength, or use more bits."
        )
    if tails[strong[0]] <= 0.0:
        raise InputError(
            f"The least threshold with {strength:g} bits of strength is {strong[0]}, which no "
            "candidate of this pmf reaches. Reduce the strength, or measure more sentences."
        )
    return int(strong[0])


def estimated_threshold(m: int, mu: float, strength: float) -> int:
    """`exact_threshold` from the mean count mu alone, with the pmf Binomial(m, mu/m).

    1 + F^-1(1 - 2^-strength) (eq. estimated_threshold), computed from the upper tail, so that a
    large ``strength`` does not cancel. That formula gives m + 1 if no T is strong enough; this
    function raises an error.
    """
    _check_threshold(m, 0)
    return exact_threshold(match_pmf(m, mu / m), strength)


def normal_threshold(m: int, mu: float, strength: float) -> int:
    """Approximate threshold by the normal distribution (eq. normal_threshold), for 0 < mu < m."""
    _check_threshold(m, 0)
    if not 0.0 < mu < m or not 0.0 < _check_strength(strength) < 1.0:
        raise InputError("The normal estimate needs a mean between 0 and m and a strength above 0.")
    quantile = -NormalDist().inv_cdf(_check_strength(strength))
    edge = mu + math.sqrt(mu * (1.0 - mu / m)) * quantile + 0.5
    least = max(0, math.ceil(edge - _SLACK))
    if least > m:
        raise InputError(f"The normal estimate is T = {least}, which exceeds the {m} bits.")
    return least


def marked_pmf(
    m: int, T: int, p: npt.ArrayLike, flip: float, free: float = 0.0, *, rest: npt.ArrayLike = 0.5
) -> Floats:
    """Distribution of the match count in a marked, possibly edited text: (...) -> (..., m + 1).

    Args:
        m: bits.
        T: bits that generation required.
        p: array of probabilities that a bit matches in natural text. For p = 0 it is the limit, in
            which an accepted sentence has exactly T matches.
        flip: probability that an edit turns one match into a mismatch or back, independently for
            each bit; `pair_flip` gives it from the flips of single code bits.
        free: share of transitions that generation did not constrain; they stay Binomial(m, p).
        rest: array, broadcast with p, of the match probability to which repeated edits converge: a
            match is lost with probability 2 flip (1 - rest), gained with 2 flip rest. At 1/2 both
            are ``flip``. Give p itself if p was measured on the edited text: edits then leave
            Binomial(m, p) unchanged and only weaken the effect of the rule.
    """
    return np.asarray(np.exp(_log_marked_pmf(m, T, _unit(p, "p"), flip, free, _unit(rest, "rest"))))


def log_likelihood_ratio(
    m: int, T: int, p: npt.ArrayLike, flip: float, free: float = 0.0, *, rest: npt.ArrayLike = 0.5
) -> Floats:
    """Natural log of `marked_pmf` over `match_pmf` for each count: (...) -> (..., m + 1).

    p and ``rest`` are first clipped to [1e-6, 1 - 1e-6], so that the result is finite for every p
    in [0, 1]. With ``rest`` = p it never decreases with the count; with ``rest`` = 1/2 and a p well
    above 1/2 it may, because edits are then expected to break matches that are still present.

    Raises:
        InputError: ``free`` is 0 and ``flip`` is 0 or 1; some counts are then impossible under the
            mark, and one of them would outweigh any amount of evidence.
    """
    if free == 0.0 and flip in (0.0, 1.0):
        raise InputError(
            "Allow for edits: give a flip strictly between 0 and 1, or a free share above 0."
        )
    inner = np.clip(_unit(p, "p"), _EDGE, 1.0 - _EDGE)
    goal = np.clip(_unit(rest, "rest"), _EDGE, 1.0 - _EDGE)
    return np.asarray(_log_marked_pmf(m, T, inner, flip, free, goal) - _log_binomial(m, inner))


def _log_marked_pmf(m: int, T: int, p: Floats, flip: float, free: float, rest: Floats) -> Floats:
    _check_threshold(m, T)
    share = float(_unit(free, "free"))
    loss = _unit(2.0 * flip * (1.0 - rest), "The probability 2 flip (1 - rest) of losing a match")
    gain = _unit(2.0 * flip * rest, "The probability 2 flip rest of gaining a match")
    # Logs extend far below the least float, so this floor gives the limit p -> 0 within 1e-290.
    required = _log_binomial(m, np.maximum(p, 1e-300))[..., T:]
    required = required - np.logaddexp.reduce(required, axis=-1, keepdims=True)
    marked = np.full((*np.broadcast_shapes(p.shape, rest.shape), m + 1), -np.inf)
    for matches in range(T, m + 1):
        before = required[..., matches - T, None]
        marked = np.logaddexp(marked, before + _log_edited(m, matches, loss, gain))
    with np.errstate(divide="ignore"):
        free_part = np.log(share) + _log_binomial(m, p)
        return np.asarray(np.logaddexp(np.log1p(-share) + marked, free_part))


def _log_edited(m: int, matches: int, loss: Floats, gain: Floats) -> Floats:
    """Log pmf of the count after edits, from one count before: (...) -> (..., m + 1)."""
    lost = _log_binomial(matches, loss)
    won = _log_binomial(m - matches, gain)
    edited = np.full((*lost.shape[:-1], m + 1), -np.inf)
    for n_lost in range(matches + 1):
        into = edited[..., matches - n_lost : m - n_lost + 1]
        np.logaddexp(into, lost[..., n_lost, None] + won, out=into)
    return edited


def _log_binomial(m: int, p: Floats) -> Floats:
    if m < 0:
        raise InputError(f"A code needs at least one bit; got m={m}.")
    k = np.arange(m + 1)
    log_choose = np.array([math.log(math.comb(m, j)) for j in range(m + 1)])
    with np.errstate(divide="ignore", invalid="ignore"):
        hits = np.where(k == 0, 0.0, k * np.log(p)[..., None])
        misses = np.where(k == m, 0.0, (m - k) * np.log1p(-p)[..., None])
    return np.asarray(log_choose + hits + misses)


def _unit(values: npt.ArrayLike, name: str) -> Floats:
    array = np.asarray(values, dtype=np.float64)
    if not np.all((array >= 0.0) & (array <= 1.0)):
        raise InputError(f"{name} must lie between 0 and 1.")
    return array


def _check_threshold(m: int, T: int) -> None:
    if m < 1 or not 0 <= T <= m:
        raise InputError(
            f"m must be at least 1, and a count between 0 and m; got m={m}, count={T}."
        )


def _check_budget(budget: int) -> int:
    if budget < 1:
        raise InputError(f"A budget must be at least one candidate; got {budget}.")
    return budget


def _check_strength(strength: float) -> float:
    if not 0.0 <= strength < math.inf:
        raise InputError(f"A strength must be at least 0 bits; got {strength}.")
    return float(2.0**-strength)
