"""Errors in tests: their type and the data in their message, never its wording."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

import pytest

E = TypeVar("E", bound=BaseException)


@contextmanager
def raises_naming(
    error: type[E] | tuple[type[E], ...], *data: object, kind: str | None = None
) -> Iterator[pytest.ExceptionInfo[E]]:
    """Expect an error that names each of these data: an option, a file, a value, a number.

    Args:
        error: its type, or several.
        data: what its message must contain, as text.
        kind: of the error, if it has one.
    """
    with pytest.raises(error) as caught:
        yield caught
    if kind is not None:
        assert getattr(caught.value, "kind", None) == kind
    missing = [str(each) for each in data if str(each) not in str(caught.value)]
    assert not missing, f"{missing} not named in: {caught.value}"
