"""What is made at its first use, once, whichever thread comes first."""

from __future__ import annotations

import threading
from collections.abc import Callable
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
