"""How many answers may wait or be under way, of all clients and of one."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Hashable, Iterator
from contextlib import contextmanager

from hammingmark.server.problems import Problem

_KEPT = 8  # of so many places one is kept for clients other than the one that holds the rest
_RECENT = 0.2  # weight of the latest request in the time that requests take
_LONGEST_WAIT = 120.0  # seconds that a client is told to wait at most


class Admission:
    """Room for answers. A request that finds none is told when to come again.

    Args:
        most: answers at most; one client may have seven of eight places.
        at_once: how many of them are written at a time.
    """

    def __init__(self, *, most: int, at_once: int) -> None:
        self._most = most
        self._most_of_one = most - most // _KEPT
        self._at_once = max(1, at_once)
        self._clients: Counter[Hashable] = Counter()
        self._seconds = 1.0  # that a request took lately

    def __len__(self) -> int:
        """How many answers there are."""
        return self._clients.total()

    @contextmanager
    def admitted(self, answers: int, *, client: Hashable) -> Iterator[None]:
        """Room for one request; a client without any other has it, if there is nothing to do.

        Args:
            answers: that it asks for.
            client: who asks.

        Raises:
            Problem: there is none.
        """
        held = self._clients[client]
        if (len(self) and len(self) + answers > self._most) or (
            held and held + answers > self._most_of_one
        ):
            raise Problem(
                429,
                "The service has too much to do; try again later.",
                kind="rate_limit_error",
                code="queue_full",
                retry_after=min(_LONGEST_WAIT, self._seconds * len(self) / self._at_once),
            )
        self._clients[client] += answers
        began = time.monotonic()
        try:
            yield
        finally:
            self._clients -= Counter({client: answers})
            self._seconds += _RECENT * (time.monotonic() - began - self._seconds)
