"""Encoders that embed as another does: slice by slice, or within a time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as TooLate

import numpy as np

from hammingmark.errors import EncoderError
from hammingmark.protocols import Encoder, FloatArray

_MOST_LATE = 8  # calls that have not come back; beyond them nobody waits for another


class EncoderWrapper:
    """An encoder whose embeddings are those of another.

    Args:
        inner: the one that does the work.
    """

    def __init__(self, inner: Encoder) -> None:
        self.inner = inner

    @property
    def name(self) -> str:
        """What a user types to get it."""
        return self.inner.name

    @property
    def dimension(self) -> int:
        """d, the length of an embedding."""
        return self.inner.dimension

    @property
    def fingerprint(self) -> str:
        """SHA-256, in hex, of everything that decides an embedding."""
        return self.inner.fingerprint

    def encode(self, sentences: Sequence[str]) -> FloatArray:
        """Embed n sentences: (n, d)."""
        return self.inner.encode(sentences)


class SlicedEncoder(EncoderWrapper):
    """Embeds slice by slice, for progress, or so that the work can be stopped.

    Args:
        inner: the one that does the work.
        size: sentences of a slice; encoders batch them further by themselves.
        before: called before each slice; what it raises ends the work.
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
            some = sentences[start : start + self._size]
            rows.append(self.inner.encode(some))
            self._after(len(some))
        return np.concatenate(rows) if rows else self.inner.encode([])


class TimedEncoder(EncoderWrapper):
    """Whoever waits for an encoder that hangs is told after a while, and the others go on.

    A call that is late goes on in a thread of its own, which holds up no exit.

    Args:
        inner: the one that does the work.
        seconds: for one call.
    """

    def __init__(self, inner: Encoder, seconds: float) -> None:
        super().__init__(inner)
        self._seconds = seconds
        self._late: list[Future[FloatArray]] = []

    def encode(self, sentences: Sequence[str]) -> FloatArray:
        """Embed n sentences: (n, d).

        Raises:
            EncoderError: it takes too long, or fails.
        """
        self._late[:] = [call for call in self._late if not call.done()]
        if len(self._late) >= _MOST_LATE:
            raise EncoderError("The encoder does not answer.", kind="timeout")
        call: Future[FloatArray] = Future()
        threading.Thread(
            target=self._call, args=(call, sentences), name="hammingmark-encode", daemon=True
        ).start()
        try:
            return call.result(self._seconds)
        except TooLate:
            if call.done():  # it failed with that by itself
                raise
            self._late.append(call)
            raise EncoderError(
                f"The encoder did not answer within {self._seconds:g} seconds.", kind="timeout"
            ) from None

    def _call(self, call: Future[FloatArray], sentences: Sequence[str]) -> None:
        try:
            call.set_result(self.inner.encode(sentences))
        except BaseException as error:
            call.set_exception(error)
