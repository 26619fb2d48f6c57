"""An encoder that tells how far it is, for commands that embed many sentences at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from hammingmark.protocols import Encoder, FloatArray

_SLICE = 128  # sentences; encoders batch them further by themselves


class CountedEncoder:
    """Embeds as another encoder does, slice by slice, and reports each slice.

    Args:
        encoder: the one that does the work.
        tick: called with the number of sentences that were embedded since the last call.
    """

    def __init__(self, encoder: Encoder, tick: Callable[[int], None]) -> None:
        self.name: str = encoder.name
        self.dimension: int = encoder.dimension
        self.fingerprint: str = encoder.fingerprint
        self._encoder = encoder
        self._tick = tick

    def encode(self, sentences: Sequence[str]) -> FloatArray:
        """Embed n sentences: (n, d)."""
        rows = []
        for start in range(0, len(sentences), _SLICE):
            some = sentences[start : start + _SLICE]
            rows.append(self._encoder.encode(some))
            self._tick(len(some))
        return np.concatenate(rows) if rows else self._encoder.encode([])
