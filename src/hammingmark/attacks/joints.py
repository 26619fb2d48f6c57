"""What joins two sentences to one, in families by what the detector was told.

The detector's rule for seams (`pipeline/parts.py`) was made for ``known`` and chosen on ``marked``.
``unseen`` and ``bare`` were held out, so that `detect --edits` is measured on joints that its rule
was not fitted to. Whoever changes the rule should look at the first two only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Family = Literal["known", "marked", "unseen", "bare"]


@dataclass(frozen=True, slots=True)
class Joint:
    """What stands between two sentences, and behind the second in place of its full stop."""

    between: str
    behind: str = ""

    def join(self, first: str, second: str) -> str:
        """One sentence; ``first`` ends with a full stop, ``second`` with any mark."""
        if self.behind:
            second = second.removesuffix(".") + self.behind
        return f"{first[:-1]}{self.between}{second}"


JOINTS: Mapping[Family, tuple[Joint, ...]] = {
    "known": (Joint(", and "), Joint("; ")),
    "marked": (
        Joint(" — "),
        Joint(" - "),
        Joint(": "),
        Joint(" (", ")."),
        Joint(", because "),
        Joint(", since "),
        Joint(", as "),
        Joint(", which means that "),
    ),
    "unseen": (
        Joint(", which is why "),
        Joint(", meaning that "),
        Joint(", given that "),
        Joint(", after which "),
        Joint(" – that is, "),
        Joint(" ... "),
    ),
    "bare": (
        Joint(" and "),
        Joint(" because "),
        Joint(" since "),
        Joint(" while "),
        Joint(" which is why "),
    ),
}
