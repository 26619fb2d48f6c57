"""A check that data is valid JSON for other parsers, before it is passed on."""

from __future__ import annotations

import json
from typing import Any

MAX_DEPTH = 100
"""Levels of lists and objects that every JSON library can read."""


def check_json(data: Any) -> None:
    """Refuse data that Python's parser accepts and others do not.

    Raises:
        ValueError: the data contains NaN, a lone surrogate or something else that JSON does not
            have, or is nested too deep.
    """
    level = [data]
    for _ in range(MAX_DEPTH):
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
        raise ValueError(f"The JSON is nested deeper than {MAX_DEPTH} levels.")
    try:
        json.dumps(data, allow_nan=False, ensure_ascii=False).encode()
    except (ValueError, TypeError):
        raise ValueError(
            "The JSON contains a number or a character that is not valid JSON."
        ) from None
