"""An encoder that answers within a time, or fails."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as TooLate
from dataclasses import dataclass, field

from hammingmark.errors import EncoderError
from hammingmark.protocols import Encoder, FloatArray

_MOST_LATE = 8  # calls that have not come back; beyond them nobody waits for another


@dataclass(frozen=True, eq=False)
class TimedEncoder:
    """Whoever waits for an encoder that hangs is told after a while, and the others go on.

    A call that is late goes on in a thread of its own, which holds up no exit.

    Attributes:
        inner: the encoder.
        seconds: for one call.
    """

    inner: Encoder
    seconds: float
    _late: list[Future[FloatArray]] = field(default_factory=list, repr=False)

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
            return call.result(self.seconds)
        except TooLate:
            if call.done():  # it failed with that by itself
                raise
            self._late.append(call)
            raise EncoderError(
                f"The encoder did not answer within {self.seconds:g} seconds.", kind="timeout"
            ) from None

    def _call(self, call: Future[FloatArray], sentences: Sequence[str]) -> None:
        try:
            call.set_result(self.inner.encode(sentences))
        except BaseException as error:
            call.set_exception(error)
