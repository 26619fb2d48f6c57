"""Candidates in progress over HTTP: those of one request, and the limit on their number."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import httpx

from hammingmark.backends.continuation import PLAIN, ContinuationWay
from hammingmark.backends.metering import RequestMeter
from hammingmark.backends.openai_schema import Piece, UsageReport, pieces_of, token_limit
from hammingmark.backends.reasoning import ReasoningCollector
from hammingmark.backends.tool_calls import CallCollector
from hammingmark.errors import Failure
from hammingmark.records import Candidate, Request

_FULL = Failure(
    "context_overflow",
    "The prompt and the text fill the server's context. Ask for a shorter text.",
    advice="Or run the server with a larger context.",
)
_LONGEST_TOKEN = 32  # characters
_REPORT_WAIT = 1.0  # seconds for the report of tokens after the end of all choices
_WORDS = re.compile(r"\s*\S{1,16}|\s+")
_FILTERED = Failure(
    "content_filter", "The model's server filtered the model's output (content_filter)."
)


@dataclass(slots=True, eq=False)
class Draw:
    """One candidate being drawn.

    Attributes:
        request: the request for it.
        pieces: its text so far in this attempt, token by token or word by word.
        reason: the server's reason for its end, if it has ended.
        started: whether the server has sent a choice for it.
        done: whether it needs no more text: it ended, is long enough, failed or was cancelled.
        delivered: whether the caller has received it.
        failure: why the model could not continue, if it could not.
        read_tokens: tokens of its prompt, if the server reports them.
        drawn_tokens: its tokens when it ended, if the server reports them.
        calls: the calls of tools that follow its text.
        way: how the server continues the text before it.
        reasoning: what the model thought before it; None if it does not begin an answer.
    """

    request: Request
    pieces: list[str] = field(default_factory=list)
    reason: str | None = None
    started: bool = False
    done: bool = False
    delivered: bool = False
    failure: Failure | None = None
    read_tokens: int | None = None
    drawn_tokens: int | None = None
    calls: CallCollector = field(default_factory=CallCollector)
    way: ContinuationWay = PLAIN
    reasoning: ReasoningCollector | None = field(init=False)

    def __post_init__(self) -> None:
        self._discard()

    def reset(self) -> None:
        """Discard the text of an attempt that failed."""
        if not self.done:
            self._discard()
            self.started, self.drawn_tokens = False, None

    def fail(self, failure: Failure) -> None:
        """Fail the candidate and discard its text."""
        self._discard()
        self.failure, self.done = failure, True

    def _discard(self) -> None:
        self.pieces, self.reason, self.calls = [], None, CallCollector()
        self.reasoning = None
        if self.request.reasoning_tokens is not None:
            self.reasoning = ReasoningCollector(
                count_tokens=lambda text: len(split_pieces(text)),
                receive=self.request.on_reasoning,
            )

    def append(self, piece: Piece) -> None:
        """Add one piece from the server."""
        text, reason = self._text_of(piece), piece.reason
        self.started = True
        self.reason = reason
        if reason == "content_filter":
            self.failure = _FILTERED
        if text:
            self.pieces += split_pieces(text)
        if piece.calls and self.request.sampling.offers_tools:
            self.calls.add(piece.calls)
        if reason:
            self.done = True
        elif text and not self.calls:
            self._stop_if_long()

    def settle(self) -> None:
        """Find out whether it ended because the server's context is full."""
        limit = token_limit(self.request) or self.request.max_tokens
        is_early = self.drawn_tokens is not None and self.drawn_tokens < limit
        if self.reason == "length" and is_early and not self.calls and not self.failure:
            self.failure = _FULL

    def _text_of(self, piece: Piece) -> str:
        """The text of a piece without reasoning, which is collected."""
        text = piece.text
        if self.way.is_reasoning:
            return piece.reasoning + text
        if self.reasoning is None:
            return text
        if piece.reasoning:
            self.reasoning.add(piece.reasoning, piece.reasoning_field)
        text = self.reasoning.take(text)
        return text + self.reasoning.flush() if piece.reason else text

    def _stop_if_long(self) -> None:
        """End a text that is long enough; calls of tools and text after reasoning come whole."""
        limit = self.request.max_tokens
        has_reasoning = self.reasoning is not None and self.reasoning.reasoning is not None
        if self.request.stop_condition("".join(self.pieces)):
            self.done = True
        elif token_limit(self.request) != limit and len(self.pieces) >= limit and not has_reasoning:
            # The server was given the limit of calls, or of reasoning.
            self.done, self.reason = True, "length"

    @property
    def candidate(self) -> Candidate:
        """The candidate as it stands."""
        calls = self.calls.calls(self.reason or "tool_calls")
        return Candidate(
            self.request.number,
            tuple(self.pieces),
            finished=self.reason == "stop" or calls is not None,
            truncated=self.reason == "length" and calls is None,
            failure=self.failure,
            read_tokens=self.read_tokens,
            calls=calls,
            reasoning=self.reasoning.reasoning if self.reasoning else None,
        )


def split_pieces(text: str) -> list[str]:
    """Split text as a substitute for tokens: into words, and long words into parts.

    Some servers send several tokens at once. Text that may be one token is not split.
    """
    if len(text.split()) <= 1 and len(text) <= _LONGEST_TOKEN:
        return [text]
    return _WORDS.findall(text)


async def dispatch_chunks(
    response: httpx.Response,
    *,
    draws: Sequence[Draw],
    receive: Callable[[Draw], None],
    meter: RequestMeter,
    where: str,
) -> None:
    """Give each piece of a response to its candidate; return when no candidate needs more.

    A candidate that the server has ended is received with the next item of the response, because
    the server's report of its tokens may follow its end.

    Args:
        response: the response.
        draws: the candidates, by the index of their choice.
        receive: called with the candidates as they progress.
        meter: counts what the request costs.
        where: the URL, for errors.
    """
    meter.answer()
    for draw in draws:
        draw.reset()
    items = pieces_of(response, where=where)
    while (item := await _next(items, is_over=meter.is_over)) is not None:
        ended: Draw | None = None
        if isinstance(item, UsageReport):
            index = meter.report(item)
            for draw in draws:
                draw.read_tokens = item.read or draw.read_tokens
            if index is not None and index < len(draws):
                draws[index].drawn_tokens = item.written
        else:
            texts = [text for text in (item.reasoning, item.text) if text]
            tokens = sum(len(split_pieces(text)) for text in texts) + bool(item.calls)
            meter.receive(item.index, tokens=tokens, ends=bool(item.reason))
            if item.index in range(len(draws)) and not draws[item.index].done:
                draws[item.index].append(item)
                ended = draws[item.index] if item.reason else None
        for draw in draws:
            if draw is not ended:
                draw.settle()
                receive(draw)
        if all(draw.done for draw in draws) and not meter.is_over:
            break
    meter.finish()
    for draw in draws:
        draw.settle()
        receive(draw)


async def _next(
    items: AsyncIterator[Piece | UsageReport], *, is_over: bool
) -> Piece | UsageReport | None:
    """The next item; None at the end, and soon after all choices are over, whatever follows."""
    if not is_over:
        return await anext(items, None)
    waiting = asyncio.ensure_future(anext(items, None))
    try:
        await asyncio.wait({waiting}, timeout=_REPORT_WAIT)
        return waiting.result() if waiting.done() and not waiting.exception() else None
    finally:
        waiting.cancel()
        await asyncio.wait({waiting})


class WeightedSemaphore:
    """A limit on concurrent candidates, first come, first served; nothing overtakes a group.

    It limits tasks of one event loop. The slots of `BatchEngine` and the lanes of `LlamaCppProcess`
    hold the state of a sequence, so it cannot stand for them, nor they for it.
    """

    def __init__(self, count: int) -> None:
        self._free = asyncio.Semaphore(count)
        self._turn = asyncio.Lock()

    @asynccontextmanager
    async def take(self, count: int) -> AsyncIterator[None]:
        """Wait for ``count`` places, and release them at the end."""
        taken = 0
        try:
            async with self._turn:
                for _ in range(count):
                    await self._free.acquire()
                    taken += 1
            yield
        finally:
            for _ in range(taken):
                self._free.release()
