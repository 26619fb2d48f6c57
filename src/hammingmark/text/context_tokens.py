"""Tokens with their contexts, as one array along a text."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def with_contexts(
    tokens: NDArray[np.int64], embeddings: NDArray[np.float32], which: NDArray[np.int64]
) -> NDArray[Any]:
    """Tokens (n,), each with the embedding of its context: (n,), fields ``token``, ``context``.

    Args:
        tokens: of a text.
        embeddings: of its contexts, (c, d).
        which: the context of each token, -1 for none; then the embedding is all zeros.
    """
    dimension = embeddings.shape[1]
    values = np.zeros(len(tokens), [("token", np.int64), ("context", np.float32, (dimension,))])
    values["token"] = tokens
    some = which >= 0
    values["context"][some] = embeddings[which[some]]
    return values


def split_contexts(
    values: NDArray[Any],
) -> tuple[NDArray[np.int64], NDArray[np.float32], NDArray[np.int64]]:
    """Tokens, contexts (c, d) and the context of each token, of those tokens that have one.

    A context that comes again after another is counted twice.
    """
    some = values[values["context"].any(axis=1)]
    rows: NDArray[np.float32] = some["context"]
    changes = np.ones(len(some), np.bool_)
    changes[1:] = (rows[1:] != rows[:-1]).any(axis=1)
    return some["token"], rows[changes], np.cumsum(changes) - 1
