"""The measured pace of an engine, and the waiting times that follow from it."""

from __future__ import annotations

import math
from dataclasses import dataclass

_MEMORY = 60.0  # seconds of drawing after which a measured rate has lost most of its weight
_LEAST = 1.0  # seconds of drawing before a rate is believed
_RECENT = 0.2  # weight of the latest text in the averages


@dataclass(slots=True)
class _Rate:
    """Tokens drawn in some seconds; what was drawn earlier counts less."""

    tokens: float = 0.0
    seconds: float = 0.0

    def record(self, tokens: int, seconds: float) -> None:
        fading = math.exp(-seconds / _MEMORY)
        self.tokens = fading * self.tokens + tokens
        self.seconds = fading * self.seconds + seconds


class Pace:
    """How fast an engine draws, and how many tokens its texts take.

    One thread records; others may read.

    Attributes:
        first_tokens: the average number of tokens drawn for a text until its first sentence; 0 if
            there was none.
        whole_tokens: likewise until its end.

    Args:
        parallel: the number of texts that are drawn at once.
        draws_apart: whether the model draws them hardly faster together than one after the other.
    """

    def __init__(self, parallel: int, *, draws_apart: bool) -> None:
        self._parallel = parallel
        self._draws_apart = draws_apart
        self._rates = [_Rate() for _ in range(parallel + 1)]  # by the number of texts
        self.first_tokens = 0.0
        self.whole_tokens = 0.0

    def record(self, tokens: int, seconds: float, *, texts: int) -> None:
        """Record tokens of all candidates, drawn for so many texts at once."""
        self._rates[min(texts, self._parallel)].record(tokens, seconds)

    def record_first(self, tokens: int) -> None:
        """Record the tokens drawn for a text until its first sentence."""
        self.first_tokens = _average(self.first_tokens, tokens)

    def record_whole(self, tokens: int, *, is_complete: bool) -> None:
        """Record the tokens drawn for a text until it ended or was cut short.

        One that was cut short, as by a time limit, would have taken as many again, for all we know.
        Without it a service whose answers are all cut short would never refuse any.
        """
        expected = tokens if is_complete else 2 * tokens
        if is_complete or expected > self.whole_tokens:
            self.whole_tokens = _average(self.whole_tokens, expected)

    def wait_for_first(self, *, unbegun: int, begun: int) -> float:
        """Seconds until the last text has its first sentence; 0 if too little was measured.

        Args:
            unbegun: the number of texts without their first sentences.
            begun: the number of the others, which come after them.
        """
        # With free slots the others draw beside them.
        beside = 0 if self._draws_apart else min(unbegun + begun, self._parallel)
        return self._seconds(max(unbegun, beside) * self.first_tokens, unbegun + begun)

    def wait_for_all(self, *, unbegun: int, begun: int) -> float:
        """Seconds until all texts have ended; 0 if too little was measured.

        Args:
            unbegun: the number of texts without their first sentences.
            begun: the number of the others, half of whose work is done on average.
        """
        return self._seconds((unbegun + begun / 2.0) * self.whole_tokens, unbegun + begun)

    def _seconds(self, tokens: float, texts: int) -> float:
        rate = self._rate(min(texts, self._parallel))
        return tokens / rate if rate else 0.0

    def _rate(self, texts: int) -> float | None:
        """Tokens per second for so many texts at once, or a guess that is rather too high."""
        measured = [n for n, rate in enumerate(self._rates) if rate.seconds >= _LEAST and n]
        if not measured:
            return None
        nearest = max((n for n in measured if n <= texts), default=measured[0])
        rate = self._rates[nearest].tokens / self._rates[nearest].seconds
        return rate if self._draws_apart else rate * max(1.0, texts / nearest)


def _average(average: float, tokens: int) -> float:
    return average + _RECENT * (tokens - average) if average else float(tokens)
