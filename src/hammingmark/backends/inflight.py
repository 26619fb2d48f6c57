"""Candidates under way over HTTP: those of one request, and how many there may be at once."""

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
    "The prompt and the text have filled the server's context. Ask for a shorter text.",
    advice="Or run the server with a larger context.",
)
_LONGEST_TOKEN = 32  # characters
_WORDS = re.compile(r"\s*\S{1,16}|\s+")
_FILTERED = Failure(
    "content_filter", "The model's server filtered what the model wrote (content_filter)."
)


@dataclass(slots=True, eq=False)
class Draw:
    """One candidate being drawn.

    Attributes:
        request: what was asked.
        pieces: what came, in the present try, token by token or word by word.
        reason: why the model ended it, if it did.
        begun: whether the server gave a choice for it.
        over: whether it needs nothing more: ended, long enough, or given up.
        told: whether the caller has got it.
        failure: why the model could not go on, if it could not.
        read_tokens: of its prompt, where the server tells.
    """

    request: Request
    pieces: list[str] = field(default_factory=list)
    reason: str | None = None
    begun: bool = False
    over: bool = False
    told: bool = False
    failure: Failure | None = None
    read_tokens: int | None = None

    def begin_again(self) -> None:
        """Forget what came in a try that failed."""
        if not self.over:
            self.pieces, self.reason, self.begun = [], None, False

    def fail(self, failure: Failure) -> None:
        """End it with what went wrong; what had come of it is of no use."""
        self.pieces, self.reason = [], None
        self.failure, self.over = failure, True

    def take(self, piece: Piece) -> None:
        """One more piece."""
        text, reason = piece.text, piece.reason
        self.begun = True
        self.reason = reason
        self.read_tokens = piece.read or self.read_tokens
        if reason == "length" and piece.drawn is not None and piece.drawn < self.request.max_tokens:
            self.failure = _FULL
        if reason == "content_filter":
            self.failure = _FILTERED
        if text:
            self.pieces += split_pieces(text)
        if reason or (text and self.request.stop_condition("".join(self.pieces))):
            self.over = True

    @property
    def candidate(self) -> Candidate:
        """What came."""
        return Candidate(
            self.request.number,
            tuple(self.pieces),
            finished=self.reason == "stop",
            truncated=self.reason == "length",
            failure=self.failure,
            read_tokens=self.read_tokens,
        )


def split_pieces(text: str) -> list[str]:
    """What stands for tokens where a server sends several at once: words, the long ones in parts.

    What may be one token is left whole.
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
    """Deal out an answer; returns when nothing more of it is wanted."""
    for draw in draws:
        draw.begin_again()
    async for piece in pieces_of(response, where=where):
        if piece.index in range(len(draws)) and not draws[piece.index].over:
            draws[piece.index].take(piece)
        for draw in draws:
            receive(draw)
        if all(draw.over for draw in draws):
            return


class WeightedSemaphore:
    """So many at once and no more, first come, first served, whatever a group of them needs."""

    def __init__(self, count: int) -> None:
        self._free = asyncio.Semaphore(count)
        self._turn = asyncio.Lock()

    @asynccontextmanager
    async def take(self, count: int) -> AsyncIterator[None]:
        """Wait for room, and give it back at the end."""
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
