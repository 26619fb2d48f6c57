"""Libraries that a part cannot do without: looked for before anything is fetched for it."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec

from hammingmark.errors import BackendError, HammingMarkError


def require_libraries(
    names: Sequence[str],
    *,
    part: str,
    get: str,
    error: type[HammingMarkError] = BackendError,
) -> None:
    """Refuse a part whose libraries are not installed; nothing is imported.

    Args:
        names: what is imported, by its top-level name.
        part: what needs them, as the beginning of a sentence.
        get: what to give to ``pip install``; empty for the libraries themselves.
        error: what is raised.

    Raises:
        HammingMarkError: one of them is missing.
    """
    missing = [name.replace("_", "-") for name in names if find_spec(name) is None]
    if missing:
        wanted = f"'{get}'" if get else " ".join(missing)
        raise error(
            f"{part} needs {_listed(missing)}, which cannot be found. Install with: "
            f"pip install {wanted}"
        )


def _listed(names: Sequence[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last
