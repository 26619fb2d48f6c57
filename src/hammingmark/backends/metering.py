"""What requests to a model's server cost: as it reports it, otherwise by the text that arrives.

The cost is charged to the texts while a request runs, so that it is complete whenever a text ends;
what turns out otherwise is charged as a correction.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from hammingmark.backends.openai_schema import UsageReport, token_limit
from hammingmark.records import ModelUsage, Request

UNSEEN_TOKENS = 2
"""Tokens of a choice that a server writes after those that arrived, until it notices that the
stream was closed; llama.cpp writes one or two."""

_TOKEN_CHARACTERS = 4  # per token of a prompt that the server does not report


class RequestMeter:
    """Counts what one request costs, in all attempts to send it.

    The prompt is charged to the first text; what the model writes, to the text of its choice.

    Args:
        requests: those that it was sent for, by the index of the choice.
    """

    def __init__(self, requests: Sequence[Request]) -> None:
        self._requests = requests
        self._limits = [_limit(request) for request in requests]
        self._is_sent = False

    def send(self) -> None:
        """Count another attempt."""
        self.fail()
        first = self._requests[0]
        messages = "".join(message.content for message in first.prompt.messages)
        thought = first.reasoning.text if first.reasoning else ""
        length = len(first.prompt.text) + len(messages) + len(thought) + len(first.written)
        self._is_sent, self._is_answered, self._is_finished = True, False, False
        self._read, self._cached = max(1, length // _TOKEN_CHARACTERS), 0
        self._is_read_reported = False
        self._written = dict[int, int]()  # tokens by choice
        self._reported = set[int]()  # choices whose tokens the server reports
        self._total = 0  # tokens that it reports for several choices together
        self._open = set[int]()  # choices that the server has begun and not ended
        self._ended = list[int]()  # choices that it has ended since the last report
        self._charged = [ModelUsage() for _ in self._requests]
        self._charge()

    def answer(self) -> None:
        """Note that the server answers the attempt."""
        self._is_answered = True

    def receive(self, index: int, *, tokens: int, ends: bool) -> None:
        """Count what arrives of a choice.

        Args:
            index: of the choice.
            tokens: the number of tokens, as far as they can be told.
            ends: whether the server has ended the choice.
        """
        if index not in range(len(self._requests)):
            return
        if index not in self._reported:
            self._written[index] = self._written.get(index, 0) + tokens
        if ends:
            self._open.discard(index)
            self._ended.append(index)
        else:
            self._open.add(index)
        self._charge()

    def report(self, usage: UsageReport) -> int | None:
        """Count what the server reports; returns the choice that it ended and reports, if any."""
        if usage.read is not None:
            self._read, self._is_read_reported = usage.read, True
        if usage.cached is not None:
            self._cached = usage.cached
        index, ended = usage.index, self._ended
        if index is None:
            # llama.cpp reports a choice in a chunk of its own after its end.
            index = ended[0] if len(ended) == 1 else None
            self._ended = []
        if usage.written is not None and index is not None:
            self._written[index] = usage.written
            self._reported.add(index)
        elif usage.written is not None:
            self._total = usage.written
        self._charge()
        return index if index in ended or usage.ends else None

    @property
    def is_over(self) -> bool:
        """Whether the server has ended all choices, and at most a report follows."""
        return not self._open and len(self._written) == len(self._requests)

    def finish(self) -> None:
        """Note that the server has ended its answer, perhaps with fewer choices."""
        self._is_finished = True
        self._charge()

    def fail(self) -> None:
        """Take back what was charged for reading the prompt, if the server has not answered."""
        if self._is_sent and not self._is_answered:
            self._read, self._is_read_reported = 0, True
            self.finish()

    @property
    def _is_exact(self) -> bool:
        """Whether the server has reported all tokens."""
        if self._open or not self._is_read_reported:
            return False
        if self._written.keys() <= self._reported:
            return self.is_over or self._is_finished
        return self._total > 0

    def _charge(self) -> None:
        """Charge the difference to what was charged before."""
        for index, request in enumerate(self._requests):
            usage, before = self._usage(index), self._charged[index]
            if usage != before:
                self._charged[index] = usage
                request.charge(usage - before)

    def _usage(self, index: int) -> ModelUsage:
        """What the text of a choice is charged for the attempt."""
        tokens = self._written.get(index, 0)
        if index in self._open:
            tokens = max(tokens, min(tokens + UNSEEN_TOKENS, self._limits[index]))
        if index:
            return ModelUsage(written_tokens=tokens)
        tokens += max(0, self._total - sum(self._written.values()))
        return ModelUsage(1, self._read, self._cached, tokens, int(not self._is_exact))


def _limit(request: Request) -> int:
    """The largest number of tokens that the server was asked for."""
    limit = token_limit(request)
    return sys.maxsize if limit is None else limit
