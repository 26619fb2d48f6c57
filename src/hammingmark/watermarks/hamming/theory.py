"""The closed forms: what the mark costs, what it proves, and what an edit leaves of it.

m bits, T required, p the probability that one bit matches, a the acceptance rate of natural
candidates. Probabilities are over the secret matrix R, not over texts under one R. Names such as
``eq. match_binomial`` are the paper's labels. Arguments called arrays may have any shape, scalars
included; the answer is then an array of that shape, 0-d for a scalar.
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
    """Chance that one bit of two embeddings matches, 1 - arccos(rho)/pi (eq. app_bit_collision).

    ``cosine`` is clipped into [-1, 1], because a dot product of unit vectors rounds.
    """
    rho = np.clip(np.asarray(cosine, dtype=np.float64), -1.0, 1.0)
    return np.asarray(1.0 - np.arccos(rho) / math.pi)


def match_pmf(m: int, p: npt.ArrayLike) -> Floats:
    """Law of the match count, Binomial(m, p) (eq. match_binomial): (...) -> (..., m + 1)."""
    return np.asarray(np.exp(_log_binomial(m, _unit(p, "p"))))


def acceptance(m: int, T: int, p: npt.ArrayLike) -> Floats:
    """Chance of at least T matches, the upper binomial tail (eq. hamming_probability)."""
    _check_threshold(m, T)
    # Added from the top down, one by one: the tails then never grow with T, rounding included.
    tails = np.cumsum(match_pmf(m, p)[..., ::-1], axis=-1)
    return np.asarray(np.minimum(tails[..., m - T], 1.0))


def acceptance_at_cosine(m: int, T: int, cosine: npt.ArrayLike) -> Floats:
    """Acceptance of a candidate at this cosine to the sentence before; grows with the cosine."""
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
    """Accepted share of all 2^m codes: the mean acceptance of a random set of as many codes."""
    return ball_volume(m, T) / (1 << m)


def random_set_variance(masses: npt.ArrayLike, valid: int) -> Floats:
    """Variance of the acceptance when ``valid`` of K partitions are drawn uniformly.

    ``masses`` (..., K), each row summing to one, is how natural candidates spread over the
    partitions; the mean acceptance is valid/K whatever they are (eq. acceptance_mass_variance).
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
    """Hoeffding's bound on a share of differing bits eps or more away from angle/pi.

    2 exp(-2 m eps^2) (eq. app_hash_concentration), but never above one.
    """
    _check_threshold(m, 0)
    if not eps >= 0.0:
        raise InputError(f"A deviation cannot be negative; got eps={eps}.")
    return min(1.0, 2.0 * math.exp(-2.0 * m * eps * eps))


def code_stability(m: int, angle: npt.ArrayLike) -> Floats:
    """Chance that an edit turning the embedding by ``angle`` radians leaves all m bits alone."""
    return code_stability_within(m, angle, 0)


def code_stability_within(m: int, angle: npt.ArrayLike, b: int) -> Floats:
    """Chance that such an edit flips at most b bits (eq. app_edit_stability); array of angles."""
    _check_threshold(m, b)
    turned = _unit(np.asarray(angle, dtype=np.float64) / math.pi, "angle / pi")
    return np.asarray(np.minimum(match_pmf(m, turned)[..., : b + 1].sum(axis=-1), 1.0))


def match_change_bound(m: int, d1: int, d2: int) -> int:
    """Most by which the match count moves when d1 bits flip on one side and d2 on the other.

    The paper's bound is d1 + d2 (eq. app_match_lipschitz). A bit flipped on both sides matches as
    before, and past d1 + d2 = m some must be, so 2m - d1 - d2 is a bound too; this is the smaller.
    """
    _check_threshold(m, d1)
    _check_threshold(m, d2)
    return min(d1 + d2, 2 * m - d1 - d2)


def pair_flip(bit_flip: npt.ArrayLike) -> Floats:
    """Chance that a match turns into a mismatch, or back, when either side's bit may flip.

    2 f (1 - f): one of the two bits flips and the other does not. An edit that turns an embedding
    by delta radians has f = delta/pi.
    """
    f = _unit(bit_flip, "bit_flip")
    return np.asarray(2.0 * f * (1.0 - f))


def margin_survival(m: int, T: int, bit_flip: float) -> Floats:
    """Chance that a transition is valid after edits, by the matches it had before: (m + 1,).

    Every bit of both codes flips independently with probability ``bit_flip``. The paper's margin
    argument is the sure part of this: T + g matches survive any g flips.
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
    """How far keeping the best share a moves the mean of a normal variable, in its deviations.

    phi(z) / a with P(Z >= z) = a. By it a method of any kind can be compared with others at equal
    cost: 1 / a candidates buy this much.
    """
    share = np.clip(_unit(a, "an acceptance"), 1e-12, 1.0 - 1e-12)
    normal = NormalDist()
    z = np.array([normal.inv_cdf(1.0 - each) for each in share.ravel()]).reshape(share.shape)
    shift: Floats = np.exp(-(z**2) / 2.0) / np.sqrt(2.0 * np.pi) / share
    return shift


def evidence_limit(acceptances: npt.ArrayLike) -> float:
    """Bits of evidence in a wholly marked, unedited text: the sum of log2(1/a) over transitions.

    It adds up transitions as if they were independent, which one shared R does not promise.
    """
    return float(strength(acceptances).sum())


def fallback_probability(a: npt.ArrayLike, budget: int) -> Floats:
    """Chance that none of ``budget`` candidates is accepted, (1 - a)^budget."""
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
        strength: bits wanted per transition.

    Raises:
        InputError: even T = m is too weak, or the least T strong enough is never met.
    """
    shares = _unit(pmf, "pmf")
    if shares.ndim != 1 or shares.size < 2 or not math.isclose(shares.sum(), 1.0, abs_tol=1e-6):
        raise InputError("A pmf of the match count is one row of m + 1 probabilities of sum one.")
    tails = np.cumsum(shares[::-1])[::-1]
    strong = np.flatnonzero(tails <= _check_strength(strength) * (1.0 + _SLACK))
    if not strong.size:
        raise InputError(
            f"Even all {shares.size - 1} bits give {-math.log2(tails[-1]):.2f} bits of strength, "
            f"not {strength:g}: ask for less, or use more bits."
        )
    if tails[strong[0]] <= 0.0:
        raise InputError(
            f"The least threshold with {strength:g} bits of strength is {strong[0]}, which no "
            "candidate of this pmf meets: ask for less, or measure more sentences."
        )
    return int(strong[0])


def estimated_threshold(m: int, mu: float, strength: float) -> int:
    """The same from the mean count mu alone, taking the pmf as Binomial(m, mu/m).

    1 + F^-1(1 - 2^-strength) (eq. estimated_threshold), found from the upper tail, so that a large
    ``strength`` does not cancel. That formula gives m + 1 where no T will do; this one refuses.
    """
    _check_threshold(m, 0)
    return exact_threshold(match_pmf(m, mu / m), strength)


def normal_threshold(m: int, mu: float, strength: float) -> int:
    """Rough closed form by the normal approximation (eq. normal_threshold), for 0 < mu < m."""
    _check_threshold(m, 0)
    if not 0.0 < mu < m or not 0.0 < _check_strength(strength) < 1.0:
        raise InputError("The normal estimate needs a mean between 0 and m and a strength above 0.")
    quantile = -NormalDist().inv_cdf(_check_strength(strength))
    edge = mu + math.sqrt(mu * (1.0 - mu / m)) * quantile + 0.5
    least = max(0, math.ceil(edge - _SLACK))
    if least > m:
        raise InputError(f"The normal estimate is T = {least}, more than the {m} bits there are.")
    return least


def marked_pmf(
    m: int, T: int, p: npt.ArrayLike, flip: float, free: float = 0.0, *, rest: npt.ArrayLike = 0.5
) -> Floats:
    """Law of the match count seen in a marked, perhaps edited text: (...) -> (..., m + 1).

    Args:
        m: bits.
        T: bits that generation required.
        p: array of probabilities that a bit matches in natural text. For p = 0 the limit is taken,
            where an accepted sentence has exactly T matches.
        flip: probability that an edit turns one match into a mismatch or back, each bit on its own;
            `pair_flip` gives it from the flips of single code bits.
        free: share of transitions the generator did not constrain; they stay Binomial(m, p).
        rest: array, broadcast with p, of the match probability that ever more edits lead to: a
            match is lost with probability 2 flip (1 - rest), gained with 2 flip rest. At 1/2 both
            are ``flip``. Give p itself when p was measured on the edited text: edits then leave
            Binomial(m, p) as it is, and only the effect of the rule fades.
    """
    return np.asarray(np.exp(_log_marked_law(m, T, _unit(p, "p"), flip, free, _unit(rest, "rest"))))


def log_likelihood_ratio(
    m: int, T: int, p: npt.ArrayLike, flip: float, free: float = 0.0, *, rest: npt.ArrayLike = 0.5
) -> Floats:
    """Natural log of `marked_pmf` over `match_pmf` for each count: (...) -> (..., m + 1).

    p and ``rest`` are clipped into [1e-6, 1 - 1e-6] first, so the answer is finite for every p in
    [0, 1]. With ``rest`` = p it never falls as the count grows; with ``rest`` = 1/2 and a p well
    above 1/2 it can, because edits are then expected to have broken matches that are still there.

    Raises:
        InputError: ``free`` is 0 and ``flip`` is 0 or 1, when some counts are impossible under the
            mark and one of them would outweigh any amount of evidence.
    """
    if free == 0.0 and flip in (0.0, 1.0):
        raise InputError("Allow for edits: give a flip strictly between 0 and 1, or a free share.")
    inner = np.clip(_unit(p, "p"), _EDGE, 1.0 - _EDGE)
    goal = np.clip(_unit(rest, "rest"), _EDGE, 1.0 - _EDGE)
    return np.asarray(_log_marked_law(m, T, inner, flip, free, goal) - _log_binomial(m, inner))


def _log_marked_law(m: int, T: int, p: Floats, flip: float, free: float, rest: Floats) -> Floats:
    _check_threshold(m, T)
    share = float(_unit(free, "free"))
    loss = _unit(2.0 * flip * (1.0 - rest), "The probability 2 flip (1 - rest) of losing a match")
    gain = _unit(2.0 * flip * rest, "The probability 2 flip rest of gaining a match")
    # Logs reach far below the least float, so this floor gives the limit p -> 0 to within 1e-290.
    demanded = _log_binomial(m, np.maximum(p, 1e-300))[..., T:]
    demanded = demanded - np.logaddexp.reduce(demanded, axis=-1, keepdims=True)
    marked = np.full((*np.broadcast_shapes(p.shape, rest.shape), m + 1), -np.inf)
    for matches in range(T, m + 1):
        before = demanded[..., matches - T, None]
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
        raise InputError(f"A code has one bit or more; got m={m}.")
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
        raise InputError(f"Of m >= 1 bits, 0 to m can be counted; got m={m} and a count of {T}.")


def _check_budget(budget: int) -> int:
    if budget < 1:
        raise InputError(f"A budget is one candidate or more; got {budget}.")
    return budget


def _check_strength(strength: float) -> float:
    if not 0.0 <= strength < math.inf:
        raise InputError(f"A strength is a number of bits, 0 or more; got {strength}.")
    return float(2.0**-strength)
