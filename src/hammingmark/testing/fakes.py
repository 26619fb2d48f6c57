"""Fakes: a language model, a splitter, an encoder and a tokenizer without models."""

from __future__ import annotations

import codecs
import hashlib
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from random import Random

import numpy as np
from numpy.typing import NDArray

from hammingmark.errors import BackendError, Failure, InputError
from hammingmark.protocols import BackendCapabilities, FloatArray
from hammingmark.records import Candidate, Prompt, Request, Sentences, Unit

_TOKEN = re.compile(r"\s*\S+|\s+")


@dataclass
class FakeBackend:
    """Writes sentences of a small vocabulary; its tokens are words.

    The seed of a request decides its candidate, independent of the other candidates. At temperature
    0 the preceding text decides it instead. Each running candidate grows by one token per step, and
    comes back when it is finished.

    Attributes:
        name: its name.
        parallel: the number of candidates of a session that run at once; others wait.
        width: the number of candidates of one text that are worth drawing at once.
        context: the most words in prompt, text and candidate together.
        sentences: gives the text for a request, instead of the small vocabulary.
        order: sorts the waiting requests in the order in which they finish, one at a time.
        fail_after: the number of candidates after which it fails.
        capabilities: what else it can do, such as having a tokenizer; logits are not changed.
        drawn: the requests whose candidates came back.
        sessions: the sessions that were opened.
        steps: the number of steps so far.
    """

    name: str = "fake"
    parallel: int = 8
    width: int = 1
    context: int | None = None
    sentences: Callable[[Request], str] | None = None
    order: Callable[[list[Request]], list[Request]] | None = None
    fail_after: int | None = None
    capabilities: BackendCapabilities = field(default_factory=BackendCapabilities)
    drawn: list[Request] = field(default_factory=list)
    sessions: list[FakeSession] = field(default_factory=list)
    steps: int = 0

    def open(self) -> FakeSession:
        """Open a session."""
        self.sessions.append(FakeSession(self))
        return self.sessions[-1]

    def close(self) -> None:
        """Close all sessions; may be called twice."""
        for session in self.sessions:
            session.close()

    def candidate(self, request: Request) -> Candidate:
        """The candidate for a request, independent of other requests."""
        turns, continued = _before(request.prompt)
        continued += request.written
        used = len(f"{turns} {continued}".split())
        room = request.max_tokens if self.context is None else self.context - used
        if room < 1:
            return Candidate(request.number, (), finished=False, failure=self._too_long(used))
        tokens = _TOKEN.findall(self._text(request, turns=turns, begun=continued))
        pieces: list[str] = []
        for token in islice(tokens, min(room, request.max_tokens)):
            pieces.append(token)
            if request.stop_condition("".join(pieces)):
                return Candidate(request.number, tuple(pieces), finished=False)
        finished = len(pieces) == len(tokens)
        full = not finished and room < request.max_tokens
        summary = f"The context of {self.context} words is full."
        failure = Failure("context_overflow", summary) if full else None
        return Candidate(
            request.number, tuple(pieces), finished, truncated=not finished, failure=failure
        )

    def _text(self, request: Request, *, turns: str, begun: str) -> str:
        if self.sentences:
            return self.sentences(request)
        greedy = request.sampling.temperature == 0.0
        space = " " if begun and not begun[-1].isspace() else ""
        return space + paragraph(Random(f"{turns}\n{begun}" if greedy else request.seed))

    def _too_long(self, used: int) -> Failure:
        return Failure(
            "context_overflow",
            f"The prompt has {used} words, but the context holds {self.context} with their "
            "continuation. Shorten the prompt, or use a larger context.",
        )


class FakeSession:
    """A session of a `FakeBackend`.

    Attributes:
        closed: whether it was closed.
        most: the largest number of requests that were pending at once.
    """

    def __init__(self, backend: FakeBackend) -> None:
        self.closed = False
        self.most = 0
        self._backend = backend
        self._requests: dict[int, Request] = {}
        self._running: dict[int, tuple[int, Candidate]] = {}

    def submit(self, request: Request) -> None:
        """Ask for one candidate.

        Raises:
            BackendError: the session is closed.
        """
        if self.closed:
            raise BackendError("This session is closed. Open another.", kind="closed")
        self._requests[request.number] = request
        self.most = max(self.most, len(self._requests))

    def cancel(self, number: int) -> None:
        """Give up on one candidate, which will not come back."""
        self._requests.pop(number, None)
        self._running.pop(number, None)

    def wake(self) -> None:
        """Do nothing, because `wait` returns at once."""

    def wait(self) -> list[Candidate]:
        """The candidates that finish next.

        Raises:
            BackendError: `FakeBackend.fail_after` candidates have been drawn, or none is pending,
                for which a real model would wait forever.
        """
        backend = self._backend
        if backend.fail_after is not None and len(backend.drawn) >= backend.fail_after:
            raise BackendError("The model went away.")
        if not self._requests:
            raise BackendError("No request is pending. Submit a request before you wait.")
        if backend.order:
            candidates = [backend.candidate(backend.order(list(self._requests.values()))[0])]
        else:
            candidates = self._next_finished()
        for candidate in candidates:
            backend.drawn.append(self._requests[candidate.number])
            self.cancel(candidate.number)
        return candidates

    def close(self) -> None:
        """Give up on all of them; may be called twice."""
        self.closed = True
        self._requests.clear()
        self._running.clear()

    def _next_finished(self) -> list[Candidate]:
        backend = self._backend
        for number, request in islice(self._requests.items(), backend.parallel):
            if number not in self._running:
                candidate = backend.candidate(request)
                self._running[number] = backend.steps + len(candidate.pieces), candidate
        first = min(end for end, _ in self._running.values())
        backend.steps = max(backend.steps, first)
        return [candidate for end, candidate in self._running.values() if end <= backend.steps]


def _before(prompt: Prompt) -> tuple[str, str]:
    """The turns of a chat, and the message or text that the model continues."""
    if not prompt.messages:
        return "", prompt.text
    *turns, last = prompt.messages
    continued = last.content if last.role == "assistant" else ""
    before = turns if last.role == "assistant" else prompt.messages
    return "\n".join(f"{message.role}: {message.content}" for message in before), continued


_VOCABULARY = """
river stone cloud garden winter market letter engine harbour lantern forest teacher mirror cottage
kitchen sailor orchard station window bridge painter valley wagon temple

silver quiet narrow early broken golden distant gentle hollow crooked bitter patient wooden careless
northern famous

crossed followed covered remembered carried noticed painted guarded opened answered measured
repaired warmed borrowed counted feared

near behind under beyond after before without against
"""
NOUNS, ADJECTIVES, VERBS, PREPOSITIONS = (words.split() for words in _VOCABULARY.split("\n\n"))
WORDS = ("the", *NOUNS, *ADJECTIVES, *VERBS, *PREPOSITIONS)


def paragraph(rng: Random) -> str:
    """Six to twelve sentences."""
    return " ".join(sentence(rng) for _ in range(rng.randint(6, 12)))


def sentence(rng: Random) -> str:
    """One sentence of four to twenty words."""
    phrases = [_noun_phrase(rng), rng.choice(VERBS), _noun_phrase(rng)]
    for _ in range(rng.randint(0, 2)):
        phrases += [rng.choice(PREPOSITIONS), _noun_phrase(rng)]
    return f"{' '.join(phrases).capitalize()}."


def _noun_phrase(rng: Random) -> str:
    adjectives = rng.sample(ADJECTIVES, rng.randint(0, 2))
    return " ".join(["the", *adjectives, rng.choice(NOUNS)])


_BOUNDARY = re.compile(r"(?<=[.!?]) ")


@dataclass(frozen=True)
class FakeSplitter:
    """Ends a sentence at a full stop, exclamation mark or question mark before a space.

    Its normalised text has single spaces between words. Every sentence carries the mark.

    Attributes:
        language: has no effect.
        name: its name.
    """

    language: str = "en"
    name: str = "fake"

    def split(self, text: str) -> Sentences:
        """Normalise a text and cut it into sentences."""
        normalised = " ".join(text.split())
        pieces = _BOUNDARY.split(normalised) if normalised else []
        gaps = [" "] * (len(pieces) - 1) + [""]
        return Sentences(
            tuple(Unit(piece, gap, carries=True) for piece, gap in zip(pieces, gaps, strict=False))
        )

    def restarts(self, text: str, place: int) -> bool:
        """Always False: a text is split from its start."""
        return False


@dataclass(frozen=True)
class FakeEncoder:
    """Embeds a sentence as the sum of the directions of its words.

    Sentences are more similar the more words they share. The sums are of integers, so that an
    embedding is the same on every machine and in every batch.

    Attributes:
        dimension: d.
        name: its name.
        seed: decides the directions.
        encoded: all sentences that were embedded.
    """

    dimension: int = 64
    name: str = "fake"
    seed: int = 0
    encoded: list[str] = field(default_factory=list, compare=False, repr=False)

    @property
    def fingerprint(self) -> str:
        """SHA-256, in hex, of the dimension and the seed."""
        return hashlib.sha256(f"fake {self.dimension} {self.seed}".encode()).hexdigest()

    def encode(self, sentences: Sequence[str]) -> FloatArray:
        """Embed n sentences: (n, d), float32, rows of length one.

        Raises:
            InputError: for a bare string.
        """
        if isinstance(sentences, str):
            raise InputError("encode takes a list of sentences, not one string. Write [sentence].")
        self.encoded.extend(sentences)
        rows = np.empty((len(sentences), self.dimension), np.float32)
        for row, sentence in zip(rows, sentences, strict=True):
            words = set(re.findall(r"\w+", sentence.lower())) or {sentence}
            total = np.zeros(self.dimension, np.int64)
            for word in words:
                total += self._direction(word)
            # The sum of squares of Python integers does not depend on their order.
            row[:] = total / math.sqrt(sum(value * value for value in total.tolist()))
        return rows

    def _direction(self, word: str) -> NDArray[np.int32]:
        content = f"{self.seed} {word}".encode("utf-8", "surrogatepass")
        return np.frombuffer(hashlib.shake_256(content).digest(4 * self.dimension), "<i4")


_WORD = re.compile(r" ?\w+| ?[^\w\s]+|\s")
_BYTES = 256


@dataclass(frozen=True)
class FakeTokenizer:
    """Has a token for each word of a vocabulary; other words are spelled in bytes.

    Tokens 0 ... 255 are bytes. After them, each word has two tokens: one for the word and one for
    the word after a space.

    Attributes:
        words: the vocabulary.
        name: its name.
    """

    words: tuple[str, ...] = WORDS
    name: str = "fake"

    @property
    def fingerprint(self) -> str:
        """SHA-256, in hex, of the vocabulary."""
        return hashlib.sha256("\n".join(self.words).encode()).hexdigest()

    @property
    def size(self) -> int:
        """V, the number of tokens."""
        return _BYTES + 2 * len(self.words)

    def encode(self, text: str) -> list[int]:
        """The tokens of a text; half a surrogate pair is read as a question mark."""
        vocabulary = {piece: _BYTES + i for i, piece in enumerate(self._vocabulary())}
        tokens: list[int] = []
        for piece in _WORD.findall(text):
            token = vocabulary.get(piece)
            tokens += piece.encode("utf-8", "replace") if token is None else [token]
        return tokens

    def pieces(self, tokens: Sequence[int]) -> list[str]:
        """The text of each token; a character of several bytes belongs to the last of them."""
        vocabulary = self._vocabulary()
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        content = [
            bytes([token]) if token < _BYTES else vocabulary[token - _BYTES].encode()
            for token in tokens
        ]
        ends = [False] * (len(content) - 1) + [True]
        return [decoder.decode(part, end) for part, end in zip(content, ends, strict=False)]

    def _vocabulary(self) -> list[str]:
        return [piece for word in self.words for piece in (word, f" {word}")]
