"""Backends in a ``with`` statement."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import TypeVar

_Self = TypeVar("_Self", bound="Closing")


class Closing(ABC):
    """Something that is closed at the end of a ``with`` statement."""

    @abstractmethod
    def close(self) -> None:
        """Let go of whatever is held."""

    def __enter__(self: _Self) -> _Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
