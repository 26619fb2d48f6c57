"""What takes long to make: made at its first use, once, whichever thread comes first."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Generic, TypeVar

Made = TypeVar("Made")


class Lazy(Generic[Made]):
    """Something that a call gives, and the first call makes; what failed is tried again.

    Args:
        make: makes it.
    """

    def __init__(self, make: Callable[[], Made]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._made: list[Made] = []

    def __call__(self) -> Made:
        """The thing itself."""
        with self._lock:
            if not self._made:
                self._made.append(self._make())
                del self._make  # often a method of who holds this: memory must come back at once
            return self._made[0]


class SingleFlightCache(Generic[Made]):
    """Keeps what was used lately; any thread may ask.

    Two who ask for the same at once get the same, and nobody waits for what is made for others.

    Args:
        most: how many are kept.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._kept: OrderedDict[Hashable, Future[Made]] = OrderedDict()

    def __len__(self) -> int:
        with self._lock:
            return len(self._kept)

    def get(self, name: Hashable, make: Callable[[], Made]) -> Made:
        """What has this name.

        Args:
            name: the same for the same thing.
            make: makes it, where it is not kept; what it raises is raised for all who wait.
        """
        mine: Future[Made] = Future()
        with self._lock:
            kept = self._kept.setdefault(name, mine)
            self._kept.move_to_end(name)
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)
        if kept is mine:
            try:
                mine.set_result(make())
            except BaseException as error:
                with self._lock:
                    if self._kept.get(name) is mine:
                        del self._kept[name]
                mine.set_exception(error)
        return kept.result()

    def renew_after_fork(self) -> None:
        """What is made, the child has too; other threads, which held the lock or made more, not."""
        self._lock = threading.Lock()
        self._kept = OrderedDict((name, made) for name, made in self._kept.items() if made.done())
