"""Errors in tests: their type and the data in their message, never its wording."""

from __future__ import annotations

import re
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
        data: what its message must contain, as text; a number not as a part of another one.
        kind: of the error, if it has one.
    """
    with pytest.raises(error) as caught:
        yield caught
    if kind is not None:
        assert getattr(caught.value, "kind", None) == kind
    message = str(caught.value)
    missing = [each for each in data if not _names(message, each)]
    assert not missing, f"{missing} not named in: {message}"


def _names(message: str, datum: object) -> bool:
    text = str(datum)
    assert text, "every message contains an empty text"
    if isinstance(datum, (int, float)):
        return re.search(rf"(?<![\w.]){re.escape(text)}(?!\.?\w)", message) is not None
    return text in message
