"""Token vectors to embeddings of length one, without what all sentences have in common.

The sentences of a text share directions: those of their language, their genre, their topic. Of a
random form they see the same part, so that a key would find all of a genre's texts a little to its
liking, or to its disliking. The mean of human text and the leading principal directions of the
means of texts are the strongest of them. Both are fitted once
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
"""In an encoder's folder: ``mean`` (d,) and ``directions`` (k, d)."""


def mean_pool(hidden: FloatArray, mask: NDArray[np.integer[Any]]) -> FloatArray:
    """Average the token vectors that the mask keeps.

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

    A row of zeros has no direction; it becomes the first axis, the same every time.

    Raises:
        EncoderError: if a value is not finite.
    """
    wide = np.array(vectors, dtype=np.float64)
    if not np.isfinite(wide).all():
        raise EncoderError(
            "The encoder gave values that are not finite. Its weights are damaged, or in a "
            "number format that this machine handles badly; try the float32 weights."
        )
    norms = np.linalg.norm(wide, axis=1, keepdims=True)
    blank = norms[:, 0] == 0
    wide[blank, :1] = 1.0
    norms[blank] = 1.0
    return np.ascontiguousarray(wide / norms, dtype=np.float32)


@dataclass(frozen=True, slots=True, eq=False)
class CommonDirections:
    """A mean and directions to take off.

    Attributes:
        mean: of sentences, (d,).
        directions: orthonormal rows, (k, d).
    """

    mean: FloatArray
    directions: FloatArray

    def remove(self, embeddings: FloatArray) -> FloatArray:
        """What is left of unit rows (n, d), scaled to length one again."""
        rest = embeddings.astype(np.float64) - self.mean
        directions = self.directions.astype(np.float64)
        left: NDArray[np.float64] = rest - (rest @ directions.T) @ directions
        return unit_rows(left.astype(np.float32))


def load_common(folder: Path, *, dimension: int) -> CommonDirections | None:
    """Those of an encoder's folder, if it has any.

    Raises:
        EncoderError: the file is damaged, or of another encoder.
    """
    path = folder / FILE
    if not path.is_file():
        return None
    try:
        tensors = load_file(path)
        common = CommonDirections(tensors["mean"], tensors["directions"])
    except (SafetensorError, KeyError, OSError) as error:
        raise EncoderError(
            f"Cannot read the common directions {path}: {error}. Fetch the model again."
        ) from error
    if common.mean.shape != (dimension,) or common.directions.shape[1:] != (dimension,):
        raise EncoderError(
            f"The common directions {path} are not for embeddings of {dimension} numbers. Fetch "
            "the model again."
        )
    return common
