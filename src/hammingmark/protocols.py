"""What each kind of part promises. Rooms on one stair meet here and nowhere else.

A part implements one method and a few properties; the conveniences are derived elsewhere. What only
some methods and backends can do, they declare in one record, `Capabilities` or
`BackendCapabilities`. Its fields hold the value or the function itself, so that a misspelt one is
an error, of mypy and at run time, and never a capability that is silently missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from hammingmark.records import (
    Candidate,
    Choice,
    DecodingStep,
    EditHypotheses,
    Evidence,
    Prompt,
    Request,
    Sentences,
)

if TYPE_CHECKING:
    import torch

    from hammingmark.keys.key import WatermarkKey

FloatArray = NDArray[np.float32]
DoubleArray = NDArray[np.float64]


@runtime_checkable
class Splitter(Protocol):
    """Text to sentences, the same way at generation and at detection."""

    @property
    def name(self) -> str:
        """The registered name."""

    def split(self, text: str) -> Sentences:
        """Normalise a text and cut it into units."""

    def restarts(self, text: str, place: int) -> bool:
        """Whether a text can be split from a place on, whatever will follow it.

        If so, then for any ``more`` the units of ``text + more`` are those of ``text[:place]`` and
        those of ``text[place:] + more``, and a growing text need not be split from its start again
        and again. False where the splitter cannot tell.

        Args:
            text: at least three units follow the place.
            place: where a unit ends.
        """


@runtime_checkable
class Encoder(Protocol):
    """Sentences to embeddings."""

    @property
    def name(self) -> str:
        """What a user types to get this encoder."""

    @property
    def dimension(self) -> int:
        """d, the length of an embedding."""

    @property
    def fingerprint(self) -> str:
        """SHA-256, in hex, of everything that decides an embedding."""

    def encode(self, sentences: Sequence[str]) -> FloatArray:
        """Embed n sentences: (n, d), float32, rows of length one, in the order given."""


class Session(Protocol):
    """Candidates being drawn: asked for, cancelled, and handed back as they finish."""

    def submit(self, request: Request) -> None:
        """Ask for one candidate."""

    def cancel(self, number: int) -> None:
        """Give up on one; it may still come back."""

    def wait(self) -> list[Candidate]:
        """Every candidate that has finished since the last call; waits for at least one.

        Raises:
            BackendError: the model cannot go on.
        """

    def wake(self) -> None:
        """Have `wait` return soon, perhaps with nothing; may be called from any thread.

        Others may then join the session at once. A session that never waits long does nothing.
        """

    def close(self) -> None:
        """Give up on all of them; may be called twice."""


@dataclass(frozen=True, kw_only=True)
class BackendCapabilities:
    """What a backend can do beyond proposing whole sentences; None for what it cannot.

    Attributes:
        continues: whether it goes on in the middle of a sentence where it answers this prompt.
        load_tokenizer: gives what makes tokens of texts for its model; a watermark may then change
            the logits of each step.
    """

    continues: Callable[[Prompt], bool] | None = None
    load_tokenizer: Callable[[], Tokenizer] | None = None


@runtime_checkable
class Backend(Protocol):
    """A language model that proposes next sentences: all that a sentence watermark needs."""

    @property
    def name(self) -> str:
        """What a user types to get this backend."""

    @property
    def parallel(self) -> int:
        """How many candidates it draws at once, of all texts together."""

    @property
    def width(self) -> int:
        """How many candidates of one text are worth drawing at once."""

    @property
    def capabilities(self) -> BackendCapabilities:
        """What else it can do."""

    def open(self) -> Session:
        """Begin to draw; each request says how.

        Raises:
            BackendError: the model cannot be had.
        """

    def close(self) -> None:
        """Let go of the model and of whatever it holds: memory, processes, connections.

        May be called twice. Candidates under way are given up; their sessions are no longer of
        use. A later `open` begins anew.
        """


class LogitsProcessor(Protocol):
    """What a watermark does to the logits of the next token, for many texts at once.

    It runs on the model's device, and inside a recorded graph where there is one: it works on
    tensors alone, and decides nothing by their values in Python.
    """

    @property
    def stage(self) -> Literal["logits", "distribution"]:
        """Where it works.

        On the ``logits``, all V of them, before the temperature; or on the ``distribution`` that
        is drawn from, after temperature, top-k, top-p and min-p: the k likeliest tokens, sorted.
        """

    @property
    def width(self) -> int:
        """How many tokens before the next one it looks at."""

    @property
    def condition_size(self) -> int:
        """s, how many numbers each request tells it, such as what its text is about; or 0."""

    def process(self, scores: torch.Tensor, step: DecodingStep) -> torch.Tensor:
        """The new logits.

        Args:
            scores: logits of the next token, (B, k), float32; -inf for what cannot be drawn.
            step: which tokens they are of, and what stands before them.

        Returns:
            (B, k).
        """


@runtime_checkable
class Tokenizer(Protocol):
    """Text to tokens, as a model reads it."""

    @property
    def name(self) -> str:
        """What a user types to get it."""

    @property
    def fingerprint(self) -> str:
        """SHA-256, in hex, of everything that decides a token."""

    @property
    def size(self) -> int:
        """V, the number of logits: tokens are 0 ... V - 1."""

    def encode(self, text: str) -> list[int]:
        """The tokens of a text, without any that only begin or end one."""

    def pieces(self, tokens: Sequence[int]) -> list[str]:
        """What each token adds to the text; together they make it."""


class NullDistribution(Protocol):
    """How a statistic is distributed over keys that a text does not know."""

    @property
    def description(self) -> str:
        """How it is known, such as ``exact over reference keys``."""

    @property
    def computed(self) -> ComputedNull | None:
        """Itself where it computes its tails; None where draws must be counted."""

    def blocks(self) -> Iterator[Iterator[DoubleArray]]:
        """Block after block of draws, each chunk by chunk along the text: increments (c, k)."""


class ComputedNull(NullDistribution, Protocol):
    """A null distribution that computes its tails itself, to any depth."""

    @property
    def draws(self) -> int:
        """How many draws that takes; 0 for a closed form."""

    @property
    def attainable(self) -> float:
        """The smallest p-value that a marked text of this kind can have, or nearly."""

    def p_value(self, own: DoubleArray) -> float:
        """The probability of a sum as large as that of these increments, (u,)."""

    def window_p_value(self, own: DoubleArray, window: slice) -> float:
        """The probability that any window of increments has a sum as large as this one."""

    def power(self, level: float) -> float | None:
        """How often a marked text would reach a level; None where the increments are no ratios."""


class SignificanceTest(Protocol):
    """One text and one statistic, ready to be compared with the null distribution.

    The increments under the secret key and under the draws of the null distribution come from one
    function, and are exchangeable when the text does not know the secret key.

    Attributes:
        own: what each of the u units adds to the statistic under the secret key, (u,).
        best: the most that any key could give each unit, (u,); 0 where it does not count.
        centre: what to take off each increment before windows are compared, (u,).
        is_ratio: whether the increments are log-likelihood ratios.
        null: the null distribution.
    """

    @property
    def own(self) -> DoubleArray:
        """(u,)."""

    @property
    def best(self) -> DoubleArray:
        """(u,)."""

    @property
    def centre(self) -> DoubleArray:
        """(u,)."""

    @property
    def is_ratio(self) -> bool:
        """Whether the increments are log-likelihood ratios."""

    @property
    def null(self) -> NullDistribution:
        """The null distribution."""


class ScoredText(Protocol):
    """One text under one key."""

    @property
    def evidence(self) -> Evidence:
        """What it says as it stands."""

    def test(self, statistic: str) -> SignificanceTest:
        """The test of at least one unit by one of the method's statistics."""

    @property
    def test_given_topic(self) -> Callable[[str], SignificanceTest] | None:
        """The test among keys that see what the text's sentences have in common as its own does.

        None where the method cannot be conditioned on it.
        """


@dataclass(frozen=True, kw_only=True)
class Capabilities:
    """What a method marks, and what it can do beyond marking and reading a text.

    A field holds the method itself, one of its functions or a value; None or False says that the
    method cannot. `testing.method_checks` runs all that a method declares.

    Attributes:
        sentences: the method, if it marks by the choice of sentences.
        tokens: the method, if it marks by the choice of tokens. It is one or the other.
        keyless: whether it rests on no secret, so that anybody can compute it.
        trials: candidates per sentence at most, by the method's paper, where nobody says otherwise.
        staging_threshold: the deviate from which a sentence is accepted, if scores are standard
            normal deviates over keys. The score of a sentence's beginning then foretells that of
            the whole, and candidates can be drawn in stages.
        at: gives what is asked of the sentence with a number, counted from 0, if that is not the
            same for all.
        read_edited: scores a text by the embeddings (N, d) of all that its sentences may have been,
            if they may have been joined, split or inserted.
        samples: what compares sentences with those that the model could have put there.
        ranking: what looks at a text under very many keys at once.
        context: what decides a token's bias by the meaning of the text before it.
    """

    sentences: SentenceWatermark | None = None
    tokens: TokenWatermark | None = None
    keyless: bool = False
    trials: int | None = None
    staging_threshold: float | None = None
    at: Callable[[int], SentenceWatermark] | None = None
    read_edited: Callable[[FloatArray, EditHypotheses], ScoredText] | None = None
    samples: SampleScorer | None = None
    ranking: KeyRanker | None = None
    context: ContextRule | None = None

    @property
    def supports_staging(self) -> bool:
        """Whether a sentence's beginning foretells its score."""
        return self.staging_threshold is not None

    @property
    def position_dependent(self) -> bool:
        """Whether something else is asked of every sentence of a text."""
        return self.at is not None

    def rule_at(self, place: int) -> SentenceWatermark:
        """What a method that marks sentences asks of the one with this number."""
        rule = self.at(place) if self.at else self.sentences
        assert rule is not None, "it marks no sentences"
        return rule


class Watermark(Protocol):
    """A method under one key. Its class is what is registered: it is made of a key alone.

    A class attribute ``Config`` names its configuration (`method_config.MethodConfig`), and a
    class method ``examples`` gives configurations by name, on which the contract suite runs it.
    """

    @property
    def name(self) -> str:
        """The registered name."""

    @property
    def key(self) -> WatermarkKey:
        """The key."""

    @property
    def statistics(self) -> Sequence[str]:
        """The names of its statistics, the default first."""

    @property
    def capabilities(self) -> Capabilities:
        """What it marks, and what else it can do."""

    def read(self, values: NDArray[Any]) -> ScoredText:
        """Score a text: the embeddings (n, d) of its sentences, or its tokens (n,)."""


class SentenceWatermark(Watermark, Protocol):
    """A mark in the choice of sentences."""

    @property
    def pool(self) -> int:
        """How many candidates it judges at a time: 1 accepts or refuses, N takes the best of N."""

    @property
    def judges_beginnings(self) -> bool:
        """Whether a text's first sentence is judged too, or is free where nothing is before it."""

    def choose(self, previous: FloatArray | None, candidates: FloatArray) -> Choice:
        """Judge candidates (c, d), in drawing order, after the embedding ``previous`` (d,).

        What it accepts, detection counts. A method with a parameter ``margin`` may refuse more:
        what lies nearer than that to the edge of its rule.
        """


class SampleScorer(Protocol):
    """A sentence watermark that compares sentences with what the model could have put there.

    It cannot ``read`` a text without, and says so. Nothing is asked of a first sentence, whatever
    the prompt: what it followed is not known at detection.
    """

    @property
    def samples(self) -> int:
        """How many sentences to draw for each."""

    def read_sampled(self, values: FloatArray, samples: Sequence[FloatArray]) -> ScoredText:
        """Score a text.

        Args:
            values: the embeddings (n, d) of its sentences.
            samples: for each sentence but the first, those of what a model drew in its place,
                (k, d) each.
        """


class KeyRanker(Protocol):
    """A watermark that can look at a text under very many keys of its kind at once."""

    def rank(
        self, keys: Sequence[WatermarkKey], texts: Sequence[NDArray[Any]], *, statistic: str
    ) -> list[list[int]]:
        """For each text, the numbers of the few keys under which it, or a part of it, does best.

        Which keys are tested may depend on nothing but this: the correction is for all of them.
        """

    def like(self, key: WatermarkKey) -> Watermark:
        """The same method under another key of its kind, sharing the draws of the null."""


class TokenWatermark(Watermark, LogitsProcessor, Protocol):
    """A mark in the choice of tokens, made by what it does to logits."""


class ContextRule(Protocol):
    """The context of a token, for a mark that depends on what the text before it means.

    The context of a token is a part of the text before it, the prompt left out: it depends on the
    beginning of the text alone, and stays the same for many tokens. Each token's bias is decided
    by the embedding of its context. ``read`` takes tokens with these (`text.context_tokens`).
    """

    def context(self, text: str) -> str:
        """The context of what follows a text; empty if nothing is done there."""

    def contexts(self, text: str, places: Sequence[int]) -> tuple[list[str], NDArray[np.int64]]:
        """The contexts of a text, and the number of that of each place, -1 for none.

        A place is the number of characters before it; they rise.
        """

    def context_changes(self, text: str) -> Callable[[str], bool]:
        """A function that says whether the context after a text and some more is another."""

    def condition(self, embeddings: FloatArray) -> FloatArray:
        """What the processor is told of contexts: their embeddings (n, d) to (n, s)."""


@runtime_checkable
class Attack(Protocol):
    """A change to a text that tries to hurt the mark and keep the meaning."""

    @property
    def name(self) -> str:
        """The registered name."""

    @property
    def min_similarity(self) -> float:
        """The least similarity at which its outcome still counts as the same text."""

    def apply(self, texts: Sequence[str], *, rng: np.random.Generator) -> list[str]:
        """Attack each text, with all randomness from ``rng``."""
