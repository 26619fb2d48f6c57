"""The part of a sentence that is new after the sentence before it.

With unit embeddings e and e' of two neighbours at cosine ρ, the new part is

    f = (e' - ρ e) / √(1 - ρ²)

It has length one and stands at right angles to e. A key that looks at new parts has two Gaussian
matrices, R for the first sentence and R' for what is new in the second, and compares the bits of
R e and R' f. These are independent: each bit matches with chance 1/2, whatever the similarity, the
topic or the encoder. Such a rule accepts, on average over keys, the same share of candidates
everywhere, whether or not they repeat the last sentence, and every transition it accepts proves
the same.

Two matrices and not one, because f is most of e', and e' is the first sentence of the next
transition. With one matrix, transitions of a text tend to be accepted by the same keys, and prove
less together than their number says: see `dependence`.

Projecting is linear, so the new part is taken on projections and any number of keys at once.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

LEAST = 1e-6
"""Of 1 - ρ². A sentence nearer to the one before it is a copy and has no new part."""


def fresh_part(
    before: NDArray[np.float32], after: NDArray[np.float32], cosine: NDArray[np.float64]
) -> NDArray[np.float32]:
    """f, or the projections of f; nearly zero for copies.

    Args:
        before: e, or its projections, (n, ...) or anything that broadcasts to it.
        after: e', or its projections, (n, ...).
        cosine: ρ of each pair, (n,).

    Returns:
        Like ``after``.
    """
    scale = 1.0 / np.sqrt(np.maximum(1.0 - np.square(cosine), LEAST))
    shape = (-1, *(1,) * (after.ndim - 1))
    part: NDArray[np.float32] = after - cosine.astype(np.float32).reshape(shape) * before
    part *= scale.astype(np.float32).reshape(shape)
    return part


def dependence(embeddings: NDArray[np.float32], *, matrices: int = 2) -> NDArray[np.float64]:
    """How alike keys find any two transitions of a text: correlations over keys, (n - 1, n - 1).

    For degrees of agreement that are linear in the projections, the limit of a large softness,
    transitions s and t have the correlation

        (e_s · e_t) (f_s · f_t)

    under two matrices. Under one, (e_s · f_t) (e_t · f_s) is added to it, and f_s · e_t is near 1
    for neighbours.

    Args:
        embeddings: unit rows, (n, d).
        matrices: 2 for R and R', 1 if R took the place of R'.
    """
    rows = embeddings.astype(np.float64)
    first = rows[:-1]
    cosine = np.clip((first * rows[1:]).sum(axis=1), -1.0, 1.0)
    new = fresh_part(first, rows[1:], cosine)  # type: ignore[arg-type]  # in double here
    alike: NDArray[np.float64] = (first @ first.T) * (new @ new.T)
    if matrices == 1:
        alike = alike + (first @ new.T) * (new @ first.T)
    return alike


def is_copy(cosine: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which pairs at these cosines have no new part: (n,) to (n,)."""
    copied: NDArray[np.bool_] = 1.0 - np.square(cosine) <= LEAST
    return copied
