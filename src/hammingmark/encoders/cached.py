"""An encoder that embeds no sentence twice."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hammingmark.protocols import Encoder, FloatArray


class CachedEncoder:
    """Another encoder's embeddings, each computed once and kept in memory.

    For texts that are judged many times, under many keys or after many attacks.

    Args:
        encoder: computes the embeddings.
    """

    def __init__(self, encoder: Encoder) -> None:
        self.name, self.dimension = encoder.name, encoder.dimension
        self.fingerprint = encoder.fingerprint
        self._encoder = encoder
        self._rows: dict[str, FloatArray] = {}

    def encode(self, sentences: Sequence[str]) -> FloatArray:
        """Embed n sentences: (n, d), as the encoder does."""
        if isinstance(sentences, str) or not sentences:
            return self._encoder.encode(sentences)
        new = list(dict.fromkeys(each for each in sentences if each not in self._rows))
        if new:
            self._rows.update(zip(new, self._encoder.encode(new), strict=True))
        return np.stack([self._rows[each] for each in sentences])
