"""Reasoning that stands before an answer in its text, between ``<think>`` and ``</think>``.

Models write it so unless their server sends it apart. It is drawn once and carries no mark, so
detection skips it.
"""

from __future__ import annotations

import re

BEGIN = "<think>"
END = "</think>"

_REASONING = re.compile(rf"\s*{BEGIN}.*?{END}\s*", re.DOTALL)


def reasoning_end(text: str) -> int:
    """The length of the reasoning at the beginning of a text, with the white space after it.

    It is 0 if the text does not begin with reasoning, or the reasoning does not end.
    """
    match = _REASONING.match(text)
    return match.end() if match else 0


def without_reasoning(text: str) -> str:
    """A text without the reasoning at its beginning."""
    return text[reasoning_end(text) :]


def may_begin(text: str) -> bool:
    """Whether a growing text may turn out to begin with reasoning, or does."""
    start = text.lstrip()
    return BEGIN.startswith(start[: len(BEGIN)])


def begins(text: str) -> bool:
    """Whether a text begins with reasoning, ended or not."""
    return text.lstrip().startswith(BEGIN)
