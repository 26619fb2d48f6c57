"""Encoders that wrap another: with a cache, slice by slice, or with a time limit."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as TooLate

import numpy as np

from hammingmark.errors import EncoderError
from hammingmark.protocols import Encoder, FloatArray

_MOST_LATE = 8  # calls that have not returned; with as many, a further call fails at once


class EncoderWrapper:
    """An encoder that returns the embeddings of another.

    Args:
        inner: computes the embeddings.
    """

    def __init__(self, inner: Encoder) -> None:
        self.inner = inner

    @property
    def name(self) -> str:
        """The name by which a user chooses it."""
        return self.inner.name

    @property
    def dimension(self) -> int:
        """d, the length of an embedding."""
        return self.inner.dimension

    @property
    def fingerprint(self) -> str:
        """SHA-256, in hex, of everything that affects embeddings."""
        return self.inner.fingerprint

    def encode(self, sentences: Sequence[str]) -> FloatArray:
        """Embed n sentences: (n, d)."""
        return self.inner.encode(sentences)


class CachedEncoder(EncoderWrapper):
    """Embeds each sentence once and keeps the embedding in memory.

    For texts that are scored many times, under many keys or after many attacks.

    Args:
        inner: computes the embeddings.
    """

    def __init__(self, inner: Encoder) -> None:
        super().__init__(inner)
        self._rows: dict[str, FloatArray] = {}

    def encode(self, sentences: Sequence[str]) -> FloatArray:
        """Embed n sentences: (n, d)."""
        if isinstance(sentences, str) or not sentences:
            return self.inner.encode(sentences)
        new = list(dict.fromkeys(text for text in sentences if text not in self._rows))
        if new:
            self._rows.update(zip(new, self.inner.encode(new), strict=True))
        return np.stack([self._rows[text] for text in sentences])


class SlicedEncoder(EncoderWrapper):
    """Embeds slice by slice, to report progress or to let the caller stop the work.

    Args:
        inner: computes the embeddings.
        size: sentences of a slice; encoders divide slices into batches.
        before: called before each slice; an exception from it ends the work.
        after: called after each slice with the number of its sentences.
    """

    def __init__(
        self,
        inner: Encoder,
        *,
        size: int = 128,
        before: Callable[[], None] = lambda: None,
        after: Callable[[int], None] = lambda count: None,
    ) -> None:
        super().__init__(inner)
        self._size = size
        self._before = before
        self._after = after

    def encode(self, sentences: Sequence[str]) -> FloatArray:
        """Embed n sentences: (n, d)."""
        rows = []
        for start in range(0, len(sentences), self._size):
            self._before()
            texts = sentences[start : start + self._size]
            rows.append(self.inner.encode(texts))
            self._after(len(texts))
        return np.concatenate(rows) if rows else self.inner.encode([])


class TimedEncoder(EncoderWrapper):
    """Limits the time of each call, so that an encoder that hangs does not block its callers.

    A call that exceeds the limit continues in a daemon thread, which does not delay exit.

    Args:
        inner: computes the embeddings.
        seconds: for one call.
    """

    def __init__(self, inner: Encoder, seconds: float) -> None:
        super().__init__(inner)
        self._seconds = seconds
        self._late: list[Future[FloatArray]] = []

    def encode(self, sentences: Sequence[str]) -> FloatArray:
        """Embed n sentences: (n, d).

        Raises:
            EncoderError: the call takes too long or fails.
        """
        self._late[:] = [call for call in self._late if not call.done()]
        if len(self._late) >= _MOST_LATE:
            raise EncoderError("The encoder does not respond.", kind="timeout")
        call: Future[FloatArray] = Future()
        threading.Thread(
            target=self._call, args=(call, sentences), name="hammingmark-encode", daemon=True
        ).start()
        try:
            return call.result(self._seconds)
        except TooLate:
            if call.done():  # the encoder itself raised TimeoutError
                raise
            self._late.append(call)
            raise EncoderError(
                f"The encoder did not respond within {self._seconds:g} seconds.", kind="timeout"
            ) from None

    def _call(self, call: Future[FloatArray], sentences: Sequence[str]) -> None:
        try:
            call.set_result(self.inner.encode(sentences))
        except BaseException as error:
            call.set_exception(error)
