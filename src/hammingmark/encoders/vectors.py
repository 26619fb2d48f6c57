"""Pooling token vectors, scaling to length one, and removing directions that sentences share.

The sentences of a text share directions: those of its language, its genre and its topic. A key
projects such a direction onto the same value in every sentence, so that it would favour or
disfavour all texts of a genre a little. The strongest of these directions are the mean of human
text and the leading principal directions of the means of texts. They are fitted once
(``research/training/directions.py``) and belong to the encoder.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file

from hammingmark.errors import EncoderError
from hammingmark.protocols import FloatArray

FILE = "common.safetensors"
"""The file in an encoder's folder with ``mean`` (d,) and ``directions`` (k, d)."""


def mean_pool(hidden: FloatArray, mask: NDArray[np.integer[Any]]) -> FloatArray:
    """The mean of the token vectors that the mask selects.

    Args:
        hidden: (n, t, d).
        mask: (n, t), 1 for a token and 0 for padding.

    Returns:
        (n, d); a row without tokens is zero.
    """
    weights = mask.astype(np.float32)[:, :, None]
    total = (hidden * weights).sum(axis=1)
    mean: FloatArray = total / np.maximum(weights.sum(axis=1), np.float32(1))
    return mean


def cls_pool(hidden: FloatArray) -> FloatArray:
    """The first token's vector: (n, t, d) to (n, d)."""
    return hidden[:, 0, :]


def unit_rows(vectors: FloatArray) -> FloatArray:
    """Scale each row of (n, d) to length one, as contiguous float32.

    A row of zeros has no direction and always becomes the first axis.

    Raises:
        EncoderError: if a value is not finite.
    """
    wide = np.array(vectors, dtype=np.float64)
    if not np.isfinite(wide).all():
        raise EncoderError(
            "The encoder returned values that are not finite. Its weights are damaged, or in a "
            "number format that this machine does not support; try float32 weights."
        )
    norms = np.linalg.norm(wide, axis=1, keepdims=True)
    zero = norms[:, 0] == 0
    wide[zero, :1] = 1.0
    norms[zero] = 1.0
    return np.ascontiguousarray(wide / norms, dtype=np.float32)


@dataclass(frozen=True, slots=True, eq=False)
class CommonDirections:
    """A mean and directions to remove.

    Attributes:
        mean: of sentences, (d,).
        directions: orthonormal rows, (k, d).
    """

    mean: FloatArray
    directions: FloatArray

    def remove(self, embeddings: FloatArray) -> FloatArray:
        """Remove them from unit rows (n, d), and scale the rows to length one again."""
        centred = embeddings.astype(np.float64) - self.mean
        directions = self.directions.astype(np.float64)
        rest: NDArray[np.float64] = centred - (centred @ directions.T) @ directions
        return unit_rows(rest.astype(np.float32))


def load_common(folder: Path, *, dimension: int) -> CommonDirections | None:
    """The common directions in an encoder's folder, if any.

    Raises:
        EncoderError: the file is damaged, or belongs to another encoder.
    """
    path = folder / FILE
    if not path.is_file():
        return None
    try:
        tensors = load_file(path)
        common = CommonDirections(tensors["mean"], tensors["directions"])
    except (SafetensorError, KeyError, OSError) as error:
        raise EncoderError(
            f"Cannot read the common directions {path}: {error}. Download the model again."
        ) from error
    if common.mean.shape != (dimension,) or common.directions.shape[1:] != (dimension,):
        raise EncoderError(
            f"The common directions {path} are not for embeddings of {dimension} numbers. "
            "Download the model again."
        )
    return common
