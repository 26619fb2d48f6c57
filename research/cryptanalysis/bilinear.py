"""Estimating a bilinear form from texts that it marked.

The score of y after x is z = (R x / |R x|) · S y. Since |R x| hardly varies, z is close to xᵀ B y
for one matrix B, whose entries look like standard normal deviates before any text is seen. Of what
could follow x in its text, the rule took a sentence with a high score. So the probability that it
took y, and none of the other sentences of the text, is about

    exp(β xᵀ B y) / Σ_s exp(β xᵀ B y_s)

The other sentences have the topic of y, and were not chosen for x. With the normal prior on B the
logarithm of the posterior is concave, and its maximum is what is sought: β B. For few texts that
is the mean outer product x (y - ȳ)ᵀ, up to a factor. What stands before first sentences is found
in the same way, as a vector.

Everything here works on embeddings, which anyone has who has the encoder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hammingmark.errors import InputError
from hammingmark.protocols import FloatArray
from research.cryptanalysis.forgery import Scorer

Objective = Callable[[NDArray[np.float64]], tuple[float, NDArray[np.float64]]]
"""From parameters (k,) to a value and its gradient (k,)."""

_PRECISION = 0.3  # of the entries of β B: 1 / β², so β is about 1.8
_SECTION = 16  # sentences of a text that compete in the likelihood
_BLOCK = 256  # sections at a time
_STEPS = 60
_MEMORY = 8  # steps that estimate the curvature
_CLOSE = 1e-3  # share of the initial gradient at which to stop


@dataclass(frozen=True, slots=True)
class FormGuess:
    """An estimate of the form of a key.

    Attributes:
        form: B, up to a factor, (d, d).
        beginning: what stands before first sentences, up to the same factor, (d,).
    """

    form: FloatArray
    beginning: FloatArray

    def score(self, first: FloatArray, second: FloatArray) -> NDArray[np.float32]:
        """xᵀ B y (n,) of sentences (n, d), or of one for all (d,)."""
        scores: NDArray[np.float32] = ((first @ self.form) * second).sum(axis=-1)
        return np.atleast_1d(scores)

    def score_first(self, sentences: FloatArray) -> NDArray[np.float32]:
        """Of sentences (n, d) or (d,) at the beginning of a text: (n,)."""
        scores: NDArray[np.float32] = np.atleast_1d(sentences @ self.beginning)
        return scores


def learn_form(texts: Sequence[FloatArray], *, precision: float = _PRECISION) -> FormGuess:
    """The best estimate of the form that marked texts.

    Args:
        texts: the embeddings of each, (n, d), from its first sentence on.
        precision: of the prior; the greater, the closer to the mean outer product.
    """
    texts = [text for text in texts if len(text) > 1]
    if not texts:
        raise InputError("At least one text of two sentences or more is needed.")
    d = texts[0].shape[1]
    form = minimise(_form_objective(texts, precision), np.zeros(d * d))
    beginning = minimise(_beginning_objective(texts, precision), np.zeros(d))
    return FormGuess(np.float32(form.reshape(d, d)), np.float32(beginning))


def score_correlation(
    guess: Scorer,
    truth: Scorer,
    pools: Sequence[FloatArray],
    *,
    rng: np.random.Generator,
    firsts: int = 300,
    candidates: int = 64,
) -> tuple[float, float]:
    """How well an estimate ranks candidates for one position: its correlation with their scores.

    Scores are centred over the candidates for each place, since only these are compared.

    Args:
        guess: what is taken for the key.
        truth: the key.
        pools: for each topic its sentences, (n, d).
        rng: the dice.
        firsts: how many sentences, or beginnings of texts, candidates are to follow.
        candidates: how many may follow each.

    Returns:
        Of sentences that follow others, and of first sentences.
    """
    pairs: list[tuple[NDArray[np.float32], NDArray[np.float32]]] = []
    opening: list[tuple[NDArray[np.float32], NDArray[np.float32]]] = []
    for _ in range(firsts):
        pool = pools[int(rng.integers(len(pools)))]
        first = pool[int(rng.integers(len(pool)))]
        some = pool[rng.integers(len(pool), size=candidates)]
        pairs.append((guess.score(first, some), truth.score(first, some)))
        opening.append((guess.score_first(some), truth.score_first(some)))
    return _centred_correlation(pairs), _centred_correlation(opening)


def cut(texts: Sequence[FloatArray]) -> list[FloatArray]:
    """Sections of texts (n, d); they overlap by the sentence that the next one follows."""
    return [
        text[first : first + _SECTION]
        for text in texts
        for first in range(0, len(text) - 1, _SECTION - 1)
    ]


def side_by_side(sections: Sequence[FloatArray]) -> tuple[FloatArray, NDArray[np.bool_]]:
    """Sections padded with zeros (N, L, d), and their mask (N, L)."""
    longest = max(map(len, sections))
    rows = np.zeros((len(sections), longest, sections[0].shape[1]), np.float32)
    present = np.zeros((len(sections), longest), np.bool_)
    for number, section in enumerate(sections):
        rows[number, : len(section)] = section
        present[number, : len(section)] = True
    return rows, present


def options(present: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The possible successors of each sentence but the last: (N, L) to (N, L - 1, L)."""
    places = np.arange(present.shape[1] - 1)
    allowed = np.repeat(present[:, None], len(places), axis=1)
    allowed[:, places, places] = False
    return allowed


def surprise(
    scores: NDArray[np.float32], allowed: NDArray[np.bool_], taken: NDArray[np.intp]
) -> tuple[NDArray[np.float64], NDArray[np.float32]]:
    """-log of the share of exp(score) of the choices made, and its gradient.

    Args:
        scores: of each place and option, (N, t, L).
        allowed: which options there were, likewise.
        taken: the option at each place, (t,).
    """
    seen = np.where(allowed, scores, -np.inf)
    seen[:, np.arange(len(taken)), taken] = scores[:, np.arange(len(taken)), taken]
    seen -= seen.max(axis=-1, keepdims=True)
    weight = np.exp(seen)
    whole = weight.sum(axis=-1, keepdims=True)
    loss = np.log(whole[..., 0]) - seen[:, np.arange(len(taken)), taken]
    pull = weight / whole
    pull[:, np.arange(len(taken)), taken] -= 1.0
    return loss.astype(np.float64), pull.astype(np.float32)


def minimise(objective: Objective, start: NDArray[np.float64]) -> NDArray[np.float64]:
    """The minimum of a smooth convex function, by the limited-memory BFGS method.

    Args:
        objective: the function with its gradient.
        start: where to begin, (k,).
    """
    now, (value, slope) = start, objective(start)
    enough = _CLOSE * float(np.linalg.norm(slope))
    moves: list[tuple[NDArray[np.float64], NDArray[np.float64]]] = []
    for _ in range(_STEPS):
        if np.linalg.norm(slope) <= enough:
            break
        towards = _newton(slope, moves)
        fall, length = float(towards @ slope), 1.0
        while True:
            then = now - length * towards
            value_then, slope_then = objective(then)
            if value_then <= value - 1e-4 * length * fall or length < 1e-6:
                break
            length /= 2.0
        step, turn = then - now, slope_then - slope
        if step @ turn > 0.0:
            moves = [*moves, (step, turn)][-_MEMORY:]
        now, value, slope = then, value_then, slope_then
    return now


def _newton(
    slope: NDArray[np.float64], moves: Sequence[tuple[NDArray[np.float64], NDArray[np.float64]]]
) -> NDArray[np.float64]:
    """The gradient times the inverse Hessian estimated from the last steps."""
    rest: NDArray[np.float64] = slope.copy()
    taken: list[float] = []
    for step, turn in reversed(moves):
        share = float(step @ rest) / float(step @ turn)
        taken.append(share)
        rest -= share * turn
    if moves:
        step, turn = moves[-1]
        rest *= float(step @ turn) / float(turn @ turn)
    else:
        rest /= max(float(np.linalg.norm(rest)), 1e-12)
    for (step, turn), share in zip(moves, reversed(taken), strict=True):
        rest += (share - float(turn @ rest) / float(step @ turn)) * step
    return rest


def _form_objective(texts: Sequence[FloatArray], precision: float) -> Objective:
    """-log of the posterior of a form (d · d,): every sentence but a text's first was chosen."""
    d = texts[0].shape[1]
    blocks = list(_blocks(texts))

    def objective(entries: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        form = np.float32(entries.reshape(d, d))
        value, slope = 0.5 * precision * float(entries @ entries), precision * entries
        total = np.zeros((d, d))
        for rows, present in blocks:
            first = np.ascontiguousarray(rows[:, :-1])
            count = first.shape[1]
            scores = (first.reshape(-1, d) @ form).reshape(first.shape) @ rows.transpose(0, 2, 1)
            loss, pull = surprise(scores, options(present), np.arange(count) + 1)
            follows = present[:, 1:]
            value += float(loss[follows].sum())
            pull *= follows[..., None]
            total += first.reshape(-1, d).T @ (pull @ rows).reshape(-1, d)
        return value, slope + total.ravel()

    return objective


def _beginning_objective(texts: Sequence[FloatArray], precision: float) -> Objective:
    """-log of the posterior of the direction before first sentences, (d,)."""
    blocks = list(_blocks([text[:_SECTION] for text in texts]))

    def objective(entries: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        value, slope = 0.5 * precision * float(entries @ entries), precision * entries
        for rows, present in blocks:
            scores = (rows @ np.float32(entries))[:, None]
            loss, pull = surprise(scores, present[:, None], np.zeros(1, np.intp))
            value += float(loss.sum())
            slope = slope + (pull[:, 0, :, None] * rows).sum(axis=(0, 1))
        return value, slope

    return objective


def _blocks(texts: Sequence[FloatArray]) -> Iterator[tuple[FloatArray, NDArray[np.bool_]]]:
    sections = cut(texts)
    for begin in range(0, len(sections), _BLOCK):
        yield side_by_side(sections[begin : begin + _BLOCK])


def _centred_correlation(
    scores: Sequence[tuple[NDArray[np.float32], NDArray[np.float32]]],
) -> float:
    first = np.concatenate([guess - guess.mean() for guess, _ in scores]).astype(np.float64)
    second = np.concatenate([true - true.mean() for _, true in scores]).astype(np.float64)
    lengths = float(np.linalg.norm(first) * np.linalg.norm(second))
    return float(first @ second) / max(lengths, 1e-12)
