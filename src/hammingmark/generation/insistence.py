"""What the model insists on is kept, although the rule refuses it.

Rejection sampling among few distinct sentences changes what a text says: where a model answers
"Yes." nine times in ten and the key refuses it, the tenth answer would be found. So a refused
sentence is kept when it comes again, or a near-copy that states the same.

Where the sentences i = 1 ... n come with the probabilities p_i, the key accepts those of a set A,
and a refused one is kept when it comes for the second time, let draws arrive as a Poisson process
of rate 1. The sentences then arrive independently of each other, and the probability that i is kept
is

    P_i = ∫ f_i(t) Π_{j ≠ i} S_j(t) dt,    f = p e^{-pt},     S = e^{-pt}           if accepted
                                           f = p² t e^{-pt},  S = (1 + pt) e^{-pt}  if refused

All factors e^{-pt} together are e^{-t}, the others a polynomial. Averaged over keys that accept
each sentence with probability a, f and S are averages of both lines.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import factorial

import numpy as np
from numpy.typing import NDArray

from hammingmark.generation.sentence_task import Draw
from hammingmark.text.content import same_statement
from hammingmark.text.words import split_words

NEAR_COPY = 0.85
"""The cosine from which two sentences that state the same are near-copies."""


class Insistence:
    """The refused sentences of one place in a text.

    Args:
        is_kept: whether what comes again is kept; otherwise nothing ever is.
    """

    def __init__(self, *, is_kept: bool) -> None:
        self._is_kept = is_kept
        self._refused: list[tuple[Draw, str]] = []

    def comes_again(self, draw: Draw, sentence: str) -> bool:
        """Whether a refused sentence, or a near-copy, was refused before; remembers it.

        Draws that share a beginning are alike for that reason alone, and are not compared.

        Args:
            draw: of the sentence, with its embedding.
            sentence: its text.
        """
        if not self._is_kept or draw.embedding is None:
            return False
        again = any(
            earlier.path[0] != draw.path[0] and _is_copy(earlier, earlier_sentence, draw, sentence)
            for earlier, earlier_sentence in self._refused
        )
        self._refused.append((draw, sentence))
        return again


def _is_copy(earlier: Draw, earlier_sentence: str, draw: Draw, sentence: str) -> bool:
    if split_words(earlier_sentence.lower()) == split_words(sentence.lower()):
        return True
    assert earlier.embedding is not None
    assert draw.embedding is not None
    cosine = float(earlier.embedding @ draw.embedding)
    return cosine >= NEAR_COPY and same_statement(earlier_sentence, sentence)


def kept_probabilities(
    probabilities: Sequence[float], accepted: Sequence[bool] | float
) -> tuple[NDArray[np.float64], float]:
    """The probability of each sentence under the mark, (n,), and the expected number of draws.

    Args:
        probabilities: p, of the n distinct sentences; their sum is 1.
        accepted: which sentences one key accepts, or the share a of sentences that a key accepts,
            for the average over keys.
    """
    n = len(probabilities)
    shares = [float(accepted)] * n if isinstance(accepted, float) else [float(a) for a in accepted]
    # Polynomials in t; e^{-t} is left out.
    arrives = [
        np.polynomial.Polynomial([a * p, (1.0 - a) * p * p])
        for p, a in zip(probabilities, shares, strict=True)
    ]
    waits = [
        np.polynomial.Polynomial([1.0, (1.0 - a) * p])
        for p, a in zip(probabilities, shares, strict=True)
    ]
    kept = []
    for i in range(n):
        density = arrives[i]
        for j in range(n):
            if j != i:
                density = density * waits[j]
        kept.append(_integral(density))
    nothing_kept = np.polynomial.Polynomial([1.0])
    for wait in waits:
        nothing_kept = nothing_kept * wait
    return np.array(kept), _integral(nothing_kept)


def _integral(polynomial: np.polynomial.Polynomial) -> float:
    """∫ e^{-t} q(t) dt from 0 to infinity, of a polynomial q."""
    coefficients: list[float] = polynomial.coef.tolist()
    return sum(c * factorial(n) for n, c in enumerate(coefficients))
