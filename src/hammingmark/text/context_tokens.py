"""Tokens with the embeddings of their contexts, as one array along a text."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def with_contexts(
    tokens: NDArray[np.int64], embeddings: NDArray[np.float32], which: NDArray[np.int64]
) -> NDArray[Any]:
    """Tokens (n,), each with the embedding of its context: (n,), fields ``token``, ``context``.

    Args:
        tokens: the tokens of a text.
        embeddings: the embeddings of its contexts, (c, d).
        which: the number of each token's context; -1 for none, whose embedding is all zeros.
    """
    dimension = embeddings.shape[1]
    values = np.zeros(len(tokens), [("token", np.int64), ("context", np.float32, (dimension,))])
    values["token"] = tokens
    has_context = which >= 0
    values["context"][has_context] = embeddings[which[has_context]]
    return values


def split_contexts(
    values: NDArray[Any],
) -> tuple[NDArray[np.int64], NDArray[np.float32], NDArray[np.int64]]:
    """The tokens that have a context, the contexts (c, d), and the number of each token's context.

    A context that is repeated after another one is returned twice.
    """
    values = values[values["context"].any(axis=1)]
    rows: NDArray[np.float32] = values["context"]
    changes = np.ones(len(values), np.bool_)
    changes[1:] = (rows[1:] != rows[:-1]).any(axis=1)
    return values["token"], rows[changes], np.cumsum(changes) - 1
