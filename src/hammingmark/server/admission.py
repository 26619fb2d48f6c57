"""Limits on waiting and running answers, in total and per client, and on the rate of requests."""

from __future__ import annotations

import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager

from hammingmark.errors import InputError
from hammingmark.server.api_error import APIError

_RESERVED = 8  # one of so many places is reserved for clients other than the largest
_RECENT = 0.2  # weight of the latest request in the average duration
_MAX_WAIT = 120.0  # seconds, in Retry-After


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


_ROUNDING = 1e-6  # of a request, for clocks with large values


class RateLimiter:
    """A token bucket per client that holds up to one minute of unused requests; thread-safe.

    Within any t minutes a client gets at most (1 + t) times its rate, or one request more than t
    times its rate if that is below one.

    Args:
        per_minute: requests per minute; None for no limit.
        clock: a monotonic clock in seconds.
        capacity: the number of clients; beyond it, the least recently active one is removed.
    """

    def __init__(
        self,
        per_minute: float | None,
        *,
        clock: Callable[[], float] = time.monotonic,
        capacity: int = 10_000,
    ) -> None:
        if capacity < 1:
            raise InputError(f"capacity is {capacity}; it must be at least 1.")
        self._per_minute = _checked(per_minute)
        self._clock = clock
        self._capacity = capacity
        # Per client: the requests left, and the time of this count.
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._buckets)

    def take(self, name: str, *, per_minute: float | None = None) -> float:
        """Count a request; the seconds until it is allowed, 0 if it is allowed and counted.

        Args:
            name: the identity of the client.
            per_minute: the client's own rate; None for the common one.
        """
        rate = self._per_minute if per_minute is None else _checked(per_minute)
        if rate is None:
            return 0.0
        size = max(1.0, rate)
        with self._lock:
            now = self._clock()
            left, updated = self._buckets.pop(name, (size, now))
            left = min(size, left + max(0.0, now - updated) * rate / 60.0)
            allowed = left >= 1.0 - _ROUNDING
            self._buckets[name] = (left - 1.0 if allowed else left, max(now, updated))
            while len(self._buckets) > self._capacity:
                self._buckets.popitem(last=False)
        return 0.0 if allowed else (1.0 - left) * 60.0 / rate


def _checked(per_minute: float | None) -> float | None:
    if per_minute is not None and not 0.0 < per_minute < float("inf"):
        raise InputError(f"{per_minute} requests per minute is invalid; it must be above 0.")
    return per_minute
