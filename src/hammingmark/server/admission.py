"""Limits on answers in progress, on their expected wait, and on the rate of requests."""

from __future__ import annotations

import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Protocol

from hammingmark.errors import InputError
from hammingmark.generation.pace import Pace
from hammingmark.server.api_error import APIError

_RESERVED = 8  # one of so many places is reserved for clients other than the largest
_RECENT = 0.2  # weight of the latest request in the average duration
_MAX_WAIT = 120.0  # seconds, in Retry-After
_PATIENT = 64  # bodies of one client
_GRACE = 1.0  # seconds; many clients behind one address may ask at once


class Admission:
    """The queue of answers; a request that finds it full is refused with a Retry-After.

    Args:
        capacity: the maximum of answers; one client may have seven eighths of them.
        parallel: the number of answers that are generated at a time.
    """

    def __init__(self, *, capacity: int, parallel: int) -> None:
        self._capacity = capacity
        self._client_capacity = capacity - capacity // _RESERVED
        self._parallel = max(1, parallel)
        self._clients: Counter[Hashable] = Counter()
        self._seconds = 1.0  # recent average duration of a request

    def __len__(self) -> int:
        """The number of waiting and running answers."""
        return self._clients.total()

    @contextmanager
    def admitted(self, answers: int, *, client: Hashable) -> Iterator[None]:
        """Admit one request; an idle service admits a client's only request of any size.

        Args:
            answers: the number of answers that it asks for.
            client: the identity of the client.

        Raises:
            APIError: the queue is full.
        """
        current = self._clients[client]
        if (len(self) and len(self) + answers > self._capacity) or (
            current and current + answers > self._client_capacity
        ):
            raise APIError(
                429,
                "The queue of the service is full; try again later.",
                kind="rate_limit_error",
                code="queue_full",
                retry_after=min(_MAX_WAIT, self._seconds * len(self) / self._parallel),
            )
        self._clients[client] += answers
        start = time.monotonic()
        try:
            yield
        finally:
            self._clients -= Counter({client: answers})
            self._seconds += _RECENT * (time.monotonic() - start - self._seconds)


class IncomingBodies:
    """Requests whose bodies have not arrived; one client can take only some of the places.

    Args:
        capacity: how many of them one client may have.
        timeout: seconds in which a body must arrive.
        patient: how many of one client have so long; its others have a second.
    """

    def __init__(self, *, capacity: int, timeout: float, patient: int = _PATIENT) -> None:
        self._capacity = capacity
        self._timeout = timeout
        self._patient = patient
        self._clients: Counter[Hashable] = Counter()

    @contextmanager
    def expected(self, client: Hashable) -> Iterator[float]:
        """Count a request until its body has arrived; gives the seconds in which it must.

        Args:
            client: the identity of the client.

        Raises:
            APIError: the client has too many.
        """
        if self._clients[client] >= self._capacity:
            raise APIError(
                429,
                "Too many requests whose bodies have not arrived; send fewer at once.",
                kind="rate_limit_error",
                code="too_many_requests",
                retry_after=_GRACE,
            )
        self._clients[client] += 1
        is_patient = self._clients[client] <= self._patient
        try:
            yield self._timeout if is_patient else min(self._timeout, _GRACE)
        finally:
            self._clients -= Counter({client: 1})


class WritingEngine(Protocol):
    """What a limit on waits has to know of an engine."""

    @property
    def pace(self) -> Pace:
        """How fast it draws."""

    @property
    def begun(self) -> int:
        """The number of unfinished texts that have their first sentences."""


class WaitLimit:
    """Refuses answers that would wait too long for their first sentences, or for their ends.

    The waits follow from what was measured since the start; without measurements nothing is
    refused.

    Args:
        engine: writes the answers.
        first: the maximum of seconds until a first sentence; 0 for no limit at all.
        whole: the maximum of seconds until an end.
    """

    def __init__(self, engine: WritingEngine, *, first: float, whole: float) -> None:
        self._engine = engine
        self._first = first
        self._whole = whole
        self._answers = 0

    @contextmanager
    def admitted(self, answers: int) -> Iterator[None]:
        """Admit one request; an idle service admits any.

        Args:
            answers: the number of answers that it asks for.

        Raises:
            APIError: they would wait too long.
        """
        if self._answers and self._first:
            self._check(answers)
        self._answers += answers
        try:
            yield
        finally:
            self._answers -= answers

    def _check(self, answers: int) -> None:
        # Those that are not submitted yet have not begun, either.
        begun = min(self._engine.begun, self._answers)
        unbegun = self._answers - begun + answers
        pace = self._engine.pace
        first = pace.wait_for_first(unbegun=unbegun, begun=begun)
        whole = pace.wait_for_all(unbegun=unbegun, begun=begun)
        excess = max(first - self._first, whole - self._whole)
        if excess > 0.0:
            raise APIError(
                429,
                "The service is busy: the answer would come too late. Try again later.",
                kind="rate_limit_error",
                code="busy",
                retry_after=min(_MAX_WAIT, excess),
            )


_ROUNDING = 1e-6  # of a request, for clocks with large values


class RateLimiter:
    """A token bucket per client that holds up to one period of unused requests; thread-safe.

    Within any t periods a client gets at most (1 + t) times its rate, or one request more than t
    times its rate if that is below one.

    Args:
        rate: requests per period; None for no limit.
        period: in seconds.
        clock: a monotonic clock in seconds.
        capacity: the number of clients; beyond it, the least recently active one is removed.
    """

    def __init__(
        self,
        rate: float | None,
        *,
        period: float = 60.0,
        clock: Callable[[], float] = time.monotonic,
        capacity: int = 10_000,
    ) -> None:
        if capacity < 1:
            raise InputError(f"capacity is {capacity}; it must be at least 1.")
        self._rate = _checked(rate)
        self._period = period
        self._clock = clock
        self._capacity = capacity
        # Per client: the requests left, and the time of this count.
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._buckets)

    def take(self, name: str, *, rate: float | None = None, count: int = 1) -> float:
        """Count a request; the seconds until it is allowed, 0 if it is allowed and counted.

        Args:
            name: the identity of the client.
            rate: the client's own rate; None for the common one.
            count: how many requests it counts as, at most the rate or one.
        """
        rate = self._rate if rate is None else _checked(rate)
        if rate is None:
            return 0.0
        size = max(1.0, rate)
        with self._lock:
            now = self._clock()
            left, updated = self._buckets.pop(name, (size, now))
            left = min(size, left + max(0.0, now - updated) * rate / self._period)
            allowed = left >= count - _ROUNDING
            self._buckets[name] = (left - count if allowed else left, max(now, updated))
            while len(self._buckets) > self._capacity:
                self._buckets.popitem(last=False)
        return 0.0 if allowed else (count - left) * self._period / rate


def _checked(rate: float | None) -> float | None:
    if rate is not None and not 0.0 < rate < float("inf"):
        raise InputError(f"A rate of {rate} requests is invalid; it must be above 0.")
    return rate
