"""Candidates in progress over HTTP: those of one request, and the limit on their number."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import httpx

from hammingmark.backends.openai_schema import Piece, pieces_of
from hammingmark.errors import Failure
from hammingmark.records import Candidate, Request

_FULL = Failure(
    "context_overflow",
    "The prompt and the text fill the server's context. Ask for a shorter text.",
    advice="Or run the server with a larger context.",
)
_LONGEST_TOKEN = 32  # characters
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
    """

    request: Request
    pieces: list[str] = field(default_factory=list)
    reason: str | None = None
    started: bool = False
    done: bool = False
    delivered: bool = False
    failure: Failure | None = None
    read_tokens: int | None = None

    def reset(self) -> None:
        """Discard the text of an attempt that failed."""
        if not self.done:
            self.pieces, self.reason, self.started = [], None, False

    def fail(self, failure: Failure) -> None:
        """Fail the candidate and discard its text."""
        self.pieces, self.reason = [], None
        self.failure, self.done = failure, True

    def append(self, piece: Piece) -> None:
        """Add one piece from the server."""
        text, reason = piece.text, piece.reason
        self.started = True
        self.reason = reason
        self.read_tokens = piece.read or self.read_tokens
        if reason == "length" and piece.drawn is not None and piece.drawn < self.request.max_tokens:
            self.failure = _FULL
        if reason == "content_filter":
            self.failure = _FILTERED
        if text:
            self.pieces += split_pieces(text)
        if reason or (text and self.request.stop_condition("".join(self.pieces))):
            self.done = True

    @property
    def candidate(self) -> Candidate:
        """The candidate as it stands."""
        return Candidate(
            self.request.number,
            tuple(self.pieces),
            finished=self.reason == "stop",
            truncated=self.reason == "length",
            failure=self.failure,
            read_tokens=self.read_tokens,
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
    where: str,
) -> None:
    """Give each piece of a response to its candidate; return when no candidate needs more."""
    for draw in draws:
        draw.reset()
    async for piece in pieces_of(response, where=where):
        if piece.index in range(len(draws)) and not draws[piece.index].done:
            draws[piece.index].append(piece)
        for draw in draws:
            receive(draw)
        if all(draw.done for draw in draws):
            return


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
