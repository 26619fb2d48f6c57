"""How many answers may wait or be under way, of all clients and of one."""

from __future__ import annotations

import ipaddress
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager

from hammingmark.errors import InputError
from hammingmark.server.api_error import APIError

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
            APIError: there is none.
        """
        held = self._clients[client]
        if (len(self) and len(self) + answers > self._most) or (
            held and held + answers > self._most_of_one
        ):
            raise APIError(
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


_ROUNDING = 1e-6  # of a request; a clock of large numbers has no finer steps


class RateLimiter:
    """Lets each client ask at a steady rate, and at once what it left unused for up to a minute.

    Any thread may ask. Within any t minutes a client gets at most (1 + t) times its rate, or
    one request more than t times its rate if that is below one.

    Args:
        per_minute: requests per minute; None for no limit.
        clock: seconds that never go back.
        most: clients that are remembered; the one that has asked least recently is forgotten.
    """

    def __init__(
        self,
        per_minute: float | None,
        *,
        clock: Callable[[], float] = time.monotonic,
        most: int = 10_000,
    ) -> None:
        if most < 1:
            raise InputError(f"most is {most}; at least one client must be remembered.")
        self._per_minute = _checked(per_minute)
        self._clock = clock
        self._most = most
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # requests left, when
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._buckets)

    def take(self, name: str, *, per_minute: float | None = None) -> float:
        """Seconds after which the client may ask again; 0 if it may now, which is then counted.

        Args:
            name: of the client.
            per_minute: a rate of its own, in place of everybody's.
        """
        rate = self._per_minute if per_minute is None else _checked(per_minute)
        if rate is None:
            return 0.0
        size = max(1.0, rate)
        with self._lock:
            now = self._clock()
            left, then = self._buckets.pop(name, (size, now))
            left = min(size, left + max(0.0, now - then) * rate / 60.0)
            allowed = left >= 1.0 - _ROUNDING
            self._buckets[name] = (left - 1.0 if allowed else left, max(now, then))
            while len(self._buckets) > self._most:
                self._buckets.popitem(last=False)
        return 0.0 if allowed else (1.0 - left) * 60.0 / rate


def client_of(address: str) -> str:
    """The name of a client that has no API key: its address, or the network of an IPv6 address.

    Whoever has one IPv6 address usually has 2**64 of them.
    """
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv4Address):
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((parsed, 64), strict=False))


def _checked(per_minute: float | None) -> float | None:
    if per_minute is not None and not 0.0 < per_minute < float("inf"):
        raise InputError(f"{per_minute} requests per minute is no limit; it should be above 0.")
    return per_minute
