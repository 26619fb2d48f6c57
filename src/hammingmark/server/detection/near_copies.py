"""A memory of what was asked, in which near-copies of a text are recognised.

Of each text some fingerprints are kept, as keyed hashes in memory: nothing can be read from them,
and they are gone when the process ends. A run of ten words or more that two texts share gives them
a fingerprint in common ("winnowing", Schleimer, Wilkerson and Aiken, 2003).
"""

from __future__ import annotations

import hashlib
import re
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from hammingmark.text.structure import normalise

_RUN = 3  # words of a shingle
_WINDOW = 8  # shingles, of which one is kept
_WORN = 0.5  # share of a text's fingerprints that were asked about too often
_HALF = 12 * 3600.0  # seconds; what is older than two of these is forgotten
_ROWS, _CELLS = 4, 1 << 21  # of counts: 8 MiB, whatever is asked
_MAX_QUESTIONS = 1 << 16
_LARGEST = 255

Counts = NDArray[np.uint8]


class NearCopies:
    """Counts how often each client has asked about each passage; thread-safe.

    A text is refused if half of it or more was in too many other texts of the same client. The
    same question again is always free, since its answer is known.

    Args:
        allowed: how many near-copies of a text a client may ask about.
        clock: a monotonic clock in seconds.
    """

    def __init__(self, allowed: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._allowed = min(allowed, _LARGEST - 1)
        self._clock = clock
        self._salt = secrets.token_bytes(16)
        self._lock = threading.Lock()
        self._begun = clock()
        # The counts and questions of this half of the memory, and of the one before.
        self._counts: list[Counts] = []
        self._questions: list[set[bytes]] = [set(), set()]

    def take(self, client: str, text: str, options: str = "") -> float:
        """Count a question; the seconds until it is allowed, 0 if it is allowed and counted.

        Args:
            client: the identity of the client.
            text: the text.
            options: everything else on which the answer depends.
        """
        question = self._hash(f"{client}\0{options}\0{text}")
        cells = self._cells(client, text)
        with self._lock:
            wait = self._forget()
            if any(question in questions for questions in self._questions):
                return 0.0
            if not self._counts:
                self._counts = [np.zeros((_ROWS, _CELLS), np.uint8) for _ in range(2)]
            rows = np.arange(_ROWS)[:, None]
            # No cell counts too little; the smallest of the four counts least too much.
            totals = sum(counts[rows, cells].astype(int) for counts in self._counts)
            counted = np.asarray(totals).min(axis=0)
            if cells.size and np.mean(counted > self._allowed) >= _WORN:
                return wait
            newest = self._counts[0]
            newest[rows, cells] += newest[rows, cells] < _LARGEST
            if len(self._questions[0]) < _MAX_QUESTIONS:
                self._questions[0].add(question)
            return 0.0

    def _forget(self) -> float:
        """Forget what is old; the seconds until the next time."""
        age = self._clock() - self._begun
        for _ in range(min(2, int(age // _HALF))):
            if self._counts:
                self._counts = [np.zeros_like(self._counts[0]), self._counts[0]]
            self._questions = [set(), self._questions[0]]
        if age >= _HALF:
            self._begun += age // _HALF * _HALF
        return self._begun + _HALF - self._clock()

    def _cells(self, client: str, text: str) -> NDArray[np.int64]:
        """The cells of a text's fingerprints, (rows, n)."""
        # As the detector reads it: a respelled text is the same text to it.
        words = re.findall(r"\w+", normalise(text).casefold())
        shingles = [
            self._hash(client + "\0" + " ".join(words[i : i + _RUN]))
            for i in range(max(1, len(words) - _RUN + 1))
        ]
        kept = sorted(set(_winnowed(shingles)))
        numbers = np.frombuffer(b"".join(kept), "<u4").reshape(-1, _ROWS)
        cells: NDArray[np.int64] = (numbers.T % _CELLS).astype(np.int64)
        return cells

    def _hash(self, text: str) -> bytes:
        data = text.encode("utf-8", "surrogatepass")
        return hashlib.blake2b(data, digest_size=4 * _ROWS, key=self._salt).digest()


def _winnowed(hashes: Sequence[bytes]) -> Iterator[bytes]:
    """The smallest hash of every window."""
    for begin in range(max(1, len(hashes) - _WINDOW + 1)):
        yield min(hashes[begin : begin + _WINDOW])
