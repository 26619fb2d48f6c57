"""Values that are computed once, at their first use, by whichever thread comes first."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Generic, TypeVar

Value = TypeVar("Value")


class Lazy(Generic[Value]):
    """A value that the first call computes and every call returns.

    A computation that raised an error is repeated by the next call.

    Args:
        compute: returns the value.
    """

    def __init__(self, compute: Callable[[], Value]) -> None:
        self._compute = compute
        self._lock = threading.Lock()
        self._values: list[Value] = []  # none or one

    def __call__(self) -> Value:
        """The value."""
        with self._lock:
            if not self._values:
                self._values.append(self._compute())
                # It is often a method of this object's owner, and such a cycle would delay the
                # release of memory.
                del self._compute
            return self._values[0]


class SingleFlightCache(Generic[Value]):
    """A cache of recently used values that any thread may use.

    Threads that ask for the same key at once share one computation, and no thread waits for the
    computation of another key.

    Args:
        most: the largest number of values.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._futures: OrderedDict[Hashable, Future[Value]] = OrderedDict()

    def __len__(self) -> int:
        with self._lock:
            return len(self._futures)

    def get(self, key: Hashable, compute: Callable[[], Value]) -> Value:
        """The value of a key.

        Args:
            key: identifies the value.
            compute: returns the value if the cache does not have it. An error that it raises is
                raised in every waiting thread.
        """
        new: Future[Value] = Future()
        with self._lock:
            future = self._futures.setdefault(key, new)
            self._futures.move_to_end(key)
            while len(self._futures) > self._most:
                self._futures.popitem(last=False)
        if future is new:
            try:
                new.set_result(compute())
            except BaseException as error:
                with self._lock:
                    if self._futures.get(key) is new:
                        del self._futures[key]
                new.set_exception(error)
        return future.result()

    def renew_after_fork(self) -> None:
        """Make the cache usable in a forked child: a new lock, and only finished computations.

        The child has no copy of the threads that held the lock or were computing values.
        """
        self._lock = threading.Lock()
        self._futures = OrderedDict(
            (key, future) for key, future in self._futures.items() if future.done()
        )
