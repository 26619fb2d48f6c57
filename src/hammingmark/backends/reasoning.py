"""The reasoning of one candidate, from the pieces in which a server streams it."""

from __future__ import annotations

from collections.abc import Callable

from hammingmark.records import Reasoning, ReasoningPart
from hammingmark.text.reasoning import END, begins, may_begin, reasoning_end


class ReasoningCollector:
    """Takes the reasoning out of a candidate that begins an answer.

    It comes in a field of its own, or at the beginning of the text (`text.reasoning`).

    Args:
        count_tokens: the number of tokens in a piece of text.
        receive: called with each part as it arrives.
    """

    def __init__(
        self,
        *,
        count_tokens: Callable[[str], int],
        receive: Callable[[ReasoningPart], None] | None,
    ) -> None:
        self._count_tokens = count_tokens
        self._receive = receive
        self._field: str | None = None  # None until any arrives
        self._text = ""
        self._tokens = 0
        self._start = ""  # of the text, while it may turn out to be reasoning
        self._is_open = True  # whether inline reasoning may follow
        self._has_end = False  # whether the end of inline reasoning has come

    def add(self, text: str, field: str) -> None:
        """Add reasoning that came in a field."""
        self._append(text, field)

    def take(self, text: str) -> str:
        """The part of a piece of text that belongs to the answer; the rest is reasoning."""
        if self._field or not self._is_open:
            return text
        self._start += text
        if not may_begin(self._start):
            self._is_open = False
            text, self._start = self._start, ""
            return text
        if not begins(self._start):
            return ""
        self._has_end |= END in self._start[-len(text) - len(END) :]
        end = reasoning_end(self._start) if self._has_end else 0
        # White space after the reasoning belongs to it, and more may follow.
        rest = self._start[end:] if end else ""
        self._append(self._start[len(self._text) : end or None], "")
        self._is_open = not rest
        return rest

    def flush(self) -> str:
        """Text that was held back, when the candidate has ended."""
        text, self._start = ("" if self._field == "" else self._start), ""
        return text

    @property
    def reasoning(self) -> Reasoning | None:
        """The reasoning so far; None if there is none."""
        if self._field is None:
            return None
        return Reasoning(self._text, self._field, self._tokens)

    def _append(self, text: str, field: str) -> None:
        if not text:
            return
        part = ReasoningPart(text, field, is_first=self._field is None)
        self._field = field
        self._text += text
        self._tokens += self._count_tokens(text)
        if self._receive:
            self._receive(part)
