"""What JSON can carry, and no more: what is sent on must be readable by others."""

from __future__ import annotations

import json
from typing import Any

DEEPEST = 100
"""Levels of lists and objects; each library gives up at another depth, none of them before this."""


def check_json(data: Any) -> None:
    """Refuse what Python reads as JSON and others do not.

    Raises:
        ValueError: it holds NaN, half a surrogate pair or something else that JSON does not have,
            or is nested too deep.
    """
    level = [data]
    for _ in range(DEEPEST):
        level = [
            inner
            for outer in level
            if isinstance(outer, (dict, list))
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, (dict, list))
        ]
        if not level:
            break
    else:
        raise ValueError(f"It is nested deeper than {DEEPEST} levels.")
    try:
        json.dumps(data, allow_nan=False, ensure_ascii=False).encode()
    except (ValueError, TypeError):
        raise ValueError("It holds a number or a character that JSON does not have.") from None
