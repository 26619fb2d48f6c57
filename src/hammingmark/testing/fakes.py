"""A language model without a model."""

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

    The seed of a request decides what is written, whatever else is being drawn. At temperature 0
    what stands before decides it instead. Candidates under way gain a token each per step, and
    come back when they are finished.

    Attributes:
        name: what it is called.
        parallel: how many candidates of a session are under way at once; others wait.
        width: how many candidates of one text are worth drawing at once.
        context: words that prompt, text and candidate may have together.
        sentences: what is written in answer to a request, instead of the small vocabulary.
        order: puts requests in the order in which they finish, one at a time.
        fail_after: fails once so many candidates have been drawn.
        capabilities: what else it can do, such as having a tokenizer; logits are left alone.
        drawn: a record of the requests whose candidates came back.
        sessions: a record of the sessions that were opened.
        steps: how many steps were taken.
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
        """Begin to draw."""
        self.sessions.append(FakeSession(self))
        return self.sessions[-1]

    def close(self) -> None:
        """Close all sessions; may be called twice."""
        for session in self.sessions:
            session.close()

    def candidate(self, request: Request) -> Candidate:
        """What a request gets, alone or in company."""
        turns, begun = _before(request.prompt)
        begun += request.written
        used = len(f"{turns} {begun}".split())
        room = request.max_tokens if self.context is None else self.context - used
        if room < 1:
            return Candidate(request.number, (), finished=False, failure=self._too_long(used))
        tokens = _TOKEN.findall(self._text(request, turns=turns, begun=begun))
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
            f"The prompt has {used} words, and the context holds {self.context} with their "
            "continuation. Shorten the prompt, or ask for a larger context.",
        )


class FakeSession:
    """Candidates that a `FakeBackend` draws.

    Attributes:
        closed: whether it was closed.
        most: how many candidates it had to draw at once, at most.
    """

    def __init__(self, backend: FakeBackend) -> None:
        self.closed = False
        self.most = 0
        self._backend = backend
        self._asked: dict[int, Request] = {}
        self._under_way: dict[int, tuple[int, Candidate]] = {}

    def submit(self, request: Request) -> None:
        """Ask for one candidate.

        Raises:
            BackendError: the session is closed.
        """
        if self.closed:
            raise BackendError("This session is closed. Open another.", kind="closed")
        self._asked[request.number] = request
        self.most = max(self.most, len(self._asked))

    def cancel(self, number: int) -> None:
        """Give up on one, which will not come back."""
        self._asked.pop(number, None)
        self._under_way.pop(number, None)

    def wake(self) -> None:
        """Nothing is waited for."""

    def wait(self) -> list[Candidate]:
        """The candidates that finish next.

        Raises:
            BackendError: `FakeBackend.fail_after` candidates have been drawn, or none was asked
                for, where a real model would wait for ever.
        """
        backend = self._backend
        if backend.fail_after is not None and len(backend.drawn) >= backend.fail_after:
            raise BackendError("The model went away.")
        if not self._asked:
            raise BackendError("No candidate was asked for. Submit a request before you wait.")
        if backend.order:
            found = [backend.candidate(backend.order(list(self._asked.values()))[0])]
        else:
            found = self._next_finished()
        for candidate in found:
            backend.drawn.append(self._asked[candidate.number])
            self.cancel(candidate.number)
        return found

    def close(self) -> None:
        """Give up on all of them; may be called twice."""
        self.closed = True
        self._asked.clear()
        self._under_way.clear()

    def _next_finished(self) -> list[Candidate]:
        backend = self._backend
        for number, request in islice(self._asked.items(), backend.parallel):
            if number not in self._under_way:
                made = backend.candidate(request)
                self._under_way[number] = backend.steps + len(made.pieces), made
        first = min(end for end, _ in self._under_way.values())
        backend.steps = max(backend.steps, first)
        return [each for end, each in self._under_way.values() if end <= backend.steps]


def _before(prompt: Prompt) -> tuple[str, str]:
    """The turns of a chat, and what the model has begun to say or is to continue."""
    if not prompt.messages:
        return "", prompt.text
    *turns, last = prompt.messages
    begun = last.content if last.role == "assistant" else ""
    before = turns if last.role == "assistant" else prompt.messages
    return "\n".join(f"{each.role}: {each.content}" for each in before), begun


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
    """Ends a sentence at a full stop, exclamation or question mark before a space.

    Its normalised text has single spaces and nothing else between words. Everything carries.

    Attributes:
        language: has no effect.
        name: what it is called.
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
        """False: a text is split from its start."""
        return False


@dataclass(frozen=True)
class FakeEncoder:
    """Embeds a sentence as the sum of its words, each of which has a direction of its own.

    Sentences that share words are similar, the more so the more they share. The sums are of whole
    numbers, so that an embedding is the same on every machine and in any company.

    Attributes:
        dimension: d.
        name: what it is called.
        seed: decides the directions.
        asked: a record of all sentences that were embedded.
    """

    dimension: int = 64
    name: str = "fake"
    seed: int = 0
    asked: list[str] = field(default_factory=list, compare=False, repr=False)

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
        self.asked.extend(sentences)
        rows = np.empty((len(sentences), self.dimension), np.float32)
        for row, sentence in zip(rows, sentences, strict=True):
            words = set(re.findall(r"\w+", sentence.lower())) or {sentence}
            total = np.zeros(self.dimension, np.int64)
            for word in words:
                total += self._direction(word)
            # Squares as Python's integers: their sum does not depend on its order.
            row[:] = total / math.sqrt(sum(value * value for value in total.tolist()))
        return rows

    def _direction(self, word: str) -> NDArray[np.int32]:
        content = f"{self.seed} {word}".encode("utf-8", "surrogatepass")
        return np.frombuffer(hashlib.shake_256(content).digest(4 * self.dimension), "<i4")


_WORD = re.compile(r" ?\w+| ?[^\w\s]+|\s")
_BYTES = 256


@dataclass(frozen=True)
class FakeTokenizer:
    """A token for each word of a vocabulary; other words are spelled in bytes.

    Tokens 0 ... 255 are bytes. Behind them each word has two tokens: for itself and for itself
    after a space.

    Attributes:
        words: the vocabulary.
        name: what it is called.
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
        vocabulary = {piece: _BYTES + at for at, piece in enumerate(self._vocabulary())}
        tokens: list[int] = []
        for piece in _WORD.findall(text):
            known = vocabulary.get(piece)
            tokens += piece.encode("utf-8", "replace") if known is None else [known]
        return tokens

    def pieces(self, tokens: Sequence[int]) -> list[str]:
        """What each token adds; a character in several bytes comes with the last of them."""
        vocabulary = self._vocabulary()
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        content = [
            bytes([token]) if token < _BYTES else vocabulary[token - _BYTES].encode()
            for token in tokens
        ]
        ends = [False] * (len(content) - 1) + [True]
        return [decoder.decode(each, end) for each, end in zip(content, ends, strict=False)]

    def _vocabulary(self) -> list[str]:
        return [piece for word in self.words for piece in (word, f" {word}")]
