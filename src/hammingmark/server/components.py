"""Encoders and tokenizers of keys, each loaded once for all keys and labels that want it."""

from __future__ import annotations

from hammingmark.assembly.backends import tokenizer_of
from hammingmark.assembly.encoders import load_encoder
from hammingmark.encoders.wrappers import TimedEncoder
from hammingmark.errors import HammingMarkError, ModelError
from hammingmark.keys.config import TokenizerId
from hammingmark.lazy import SingleFlightCache
from hammingmark.protocols import Encoder, Tokenizer

_MOST = 16  # of each


class ComponentCache:
    """What keys name and requests share; any thread may ask.

    Args:
        encoder: the one of all keys; by default the one that a key was made for.
        encoder_timeout: seconds in which an encoder must answer.
    """

    def __init__(self, encoder: Encoder | None = None, *, encoder_timeout: float = 30.0) -> None:
        self._encoder_timeout = encoder_timeout
        self._encoder = self._timed(encoder) if encoder else None
        self._encoders: SingleFlightCache[Encoder] = SingleFlightCache(_MOST)
        self._tokenizers: SingleFlightCache[Tokenizer] = SingleFlightCache(_MOST)

    def encoder(self, name: str) -> Encoder:
        """The encoder of this name.

        Raises:
            HammingMarkError: it cannot be had.
        """
        return self._encoder or self._encoders.get(name, lambda: self._timed(load_encoder(name)))

    def _timed(self, encoder: Encoder) -> Encoder:
        return TimedEncoder(encoder, self._encoder_timeout)

    def tokenizer(self, wanted: TokenizerId) -> Tokenizer:
        """The tokenizer that a key was made for.

        Raises:
            ModelError: it cannot be had.
        """

        def load() -> Tokenizer:
            try:
                return tokenizer_of(wanted)
            except HammingMarkError as error:
                # It was a key's wish and not a client's, who is not told which files there are.
                raise ModelError(str(error)) from None

        return self._tokenizers.get(wanted, load)
