"""Members of a protocol that a component lacks."""

from __future__ import annotations

from typing import Any


def missing(part: object, protocol: type[Any]) -> list[str]:
    """The names of a protocol's public members that a component does not have."""
    return [name for name in dir(protocol) if name[0] != "_" and not hasattr(part, name)]
