"""Encoders and tokenizers, each loaded once for all keys and labels that need it."""

from __future__ import annotations

from hammingmark.assembly.backends import tokenizer_of
from hammingmark.assembly.encoders import load_encoder
from hammingmark.encoders.wrappers import TimedEncoder
from hammingmark.errors import HammingMarkError, ModelError
from hammingmark.keys.config import TokenizerId
from hammingmark.lazy import SingleFlightCache
from hammingmark.models.store import ModelStore
from hammingmark.protocols import Encoder, Tokenizer

_CAPACITY = 16  # of each


class ComponentCache:
    """A cache of the encoders and tokenizers that keys name; thread-safe.

    Args:
        encoder: the encoder of all keys; by default each key's own.
        store: where models are kept.
        encoder_timeout: seconds before an encoding counts as failed.
    """

    def __init__(
        self,
        encoder: Encoder | None = None,
        *,
        store: ModelStore | None = None,
        encoder_timeout: float = 30.0,
    ) -> None:
        self._store = store
        self._encoder_timeout = encoder_timeout
        self._encoder = self._timed(encoder) if encoder else None
        self._encoders: SingleFlightCache[Encoder] = SingleFlightCache(_CAPACITY)
        self._tokenizers: SingleFlightCache[Tokenizer] = SingleFlightCache(_CAPACITY)

    def encoder(self, name: str) -> Encoder:
        """The encoder with this name.

        Raises:
            HammingMarkError: it cannot be loaded.
        """
        return self._encoder or self._encoders.get(
            name, lambda: self._timed(load_encoder(name, store=self._store))
        )

    def _timed(self, encoder: Encoder) -> Encoder:
        return TimedEncoder(encoder, self._encoder_timeout)

    def tokenizer(self, identity: TokenizerId) -> Tokenizer:
        """The tokenizer that a key was made for.

        Raises:
            ModelError: it cannot be loaded.
        """

        def load() -> Tokenizer:
            try:
                return tokenizer_of(identity)
            except HammingMarkError as error:
                # The operator's key names it, not the client, who must not learn of files here.
                raise ModelError(str(error)) from None

        return self._tokenizers.get(identity, load)
