"""The interface of each kind of component. Rooms of one layer meet only here.

A component implements one method and a few properties; conveniences are derived elsewhere. Methods
and backends declare what only some of them can do in one record, `Capabilities` or
`BackendCapabilities`. Its fields hold the value or the function itself, so a misspelt name is an
error of mypy and at run time, and a capability is never silently missing.
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
    Power,
    Prompt,
    Request,
    Sampling,
    Sentences,
)

if TYPE_CHECKING:
    import torch

    from hammingmark.keys.key import WatermarkKey

FloatArray = NDArray[np.float32]
DoubleArray = NDArray[np.float64]


@runtime_checkable
class Splitter(Protocol):
    """Text to sentences, in the same way at generation and at detection."""

    @property
    def name(self) -> str:
        """The registered name."""

    def split(self, text: str) -> Sentences:
        """Normalise a text and cut it into units."""

    def restarts(self, text: str, place: int) -> bool:
        """Whether a text can be split from an offset on, whatever will follow the text.

        If so, then for any ``more`` the units of ``text + more`` are those of ``text[:place]`` and
        those of ``text[place:] + more``, and a growing text need not be split again from its
        beginning. False if the splitter cannot tell.

        Args:
            text: at least three units follow the offset.
            place: the offset at which a unit ends.
        """


@runtime_checkable
class Encoder(Protocol):
    """Sentences to embeddings."""

    @property
    def name(self) -> str:
        """The name by which a user selects this encoder."""

    @property
    def dimension(self) -> int:
        """d, the length of an embedding."""

    @property
    def fingerprint(self) -> str:
        """SHA-256, in hex, of everything that determines an embedding."""

    def encode(self, sentences: Sequence[str]) -> FloatArray:
        """Embed n sentences: (n, d), float32, rows of length one, in the order given."""


class Session(Protocol):
    """A session of a backend, in which candidates are requested, drawn, cancelled and returned."""

    def submit(self, request: Request) -> None:
        """Request one candidate."""

    def cancel(self, number: int) -> None:
        """Cancel the request with this number; `wait` may still return its candidate."""

    def wait(self) -> list[Candidate]:
        """Wait for at least one candidate; return all that finished since the last call.

        Raises:
            BackendError: the model cannot go on.
        """

    def wake(self) -> None:
        """Make `wait` return soon, perhaps with no candidate; may be called from any thread.

        New requests can then be submitted at once. A session that never waits long does nothing.
        """

    def close(self) -> None:
        """Cancel all requests; may be called twice."""


@dataclass(frozen=True, kw_only=True)
class BackendCapabilities:
    """What a backend can do beyond proposing whole sentences; None means that it cannot.

    Attributes:
        continues: tells whether the model that the sampling names can continue in the middle of a
            sentence, in an answer to this prompt; asked before each sentence.
        load_tokenizer: loads the tokenizer of its model; a watermark may then change the logits of
            each step.
        charges: whether it calls `Request.charge`; otherwise its candidates are counted.
        request_price: what one more request takes, in tokens that the model could draw meanwhile.
    """

    continues: Callable[[Prompt, Sampling], bool] | None = None
    load_tokenizer: Callable[[], Tokenizer] | None = None
    charges: bool = False
    request_price: float = 0.0


@runtime_checkable
class Backend(Protocol):
    """A language model that proposes the next sentence, which is all a sentence watermark needs."""

    @property
    def name(self) -> str:
        """The name by which a user selects this backend."""

    @property
    def parallel(self) -> int:
        """The number of candidates that it draws in parallel, over all texts."""

    @property
    def width(self) -> int:
        """The number of candidates of one text that are worth drawing in parallel.

        1 also means that texts are drawn hardly faster together than one after the other.
        """

    @property
    def capabilities(self) -> BackendCapabilities:
        """What it can do beyond proposing whole sentences."""

    def open(self) -> Session:
        """Open a session.

        Raises:
            BackendError: the model is unavailable.
        """

    def close(self) -> None:
        """Release the model and its resources: memory, processes, connections.

        May be called twice. Candidates that are being drawn are cancelled, and their sessions
        become unusable. A later `open` loads the model again.
        """


class LogitsProcessor(Protocol):
    """A change of the logits of the next token, for many texts at once.

    It runs on the model's device, and inside a recorded graph if there is one. So it uses tensor
    operations only, and its Python code does not branch on their values.
    """

    @property
    def stage(self) -> Literal["logits", "distribution"]:
        """The input it works on.

        ``logits``: all V logits, before the temperature. ``distribution``: the distribution that is
        sampled, after temperature, top-k, top-p and min-p: the k likeliest tokens, sorted.
        """

    @property
    def width(self) -> int:
        """The number of tokens before the next one that it uses."""

    @property
    def condition_size(self) -> int:
        """s, the size of a request's condition, such as the meaning of its text; 0 for none."""

    def process(self, scores: torch.Tensor, step: DecodingStep) -> torch.Tensor:
        """The new logits.

        Args:
            scores: logits of the next token, (B, k), float32; -inf for tokens that cannot be drawn.
            step: the tokens of the logits, and those before them.

        Returns:
            (B, k).
        """


@runtime_checkable
class Tokenizer(Protocol):
    """Text to the tokens of a model."""

    @property
    def name(self) -> str:
        """The name by which a user selects this tokenizer."""

    @property
    def fingerprint(self) -> str:
        """SHA-256, in hex, of everything that determines a token."""

    @property
    def size(self) -> int:
        """V, the number of logits: tokens are 0 ... V - 1."""

    def encode(self, text: str) -> list[int]:
        """The tokens of a text, without special tokens for its beginning and end."""

    def pieces(self, tokens: Sequence[int]) -> list[str]:
        """The part of the text that each token adds; joined, they are the text."""


class NullDistribution(Protocol):
    """The distribution of a statistic over keys independent of the text."""

    @property
    def description(self) -> str:
        """How the distribution is known, such as ``exact over reference keys``."""

    @property
    def computed(self) -> ComputedNull | None:
        """The distribution itself if it computes tail probabilities; None if draws are counted."""

    def blocks(self) -> Iterator[Iterator[DoubleArray]]:
        """Blocks of draws without end, each in chunks along the text: increments (c, k)."""


class ComputedNull(NullDistribution, Protocol):
    """A null distribution that computes its tail probabilities, however small."""

    @property
    def draws(self) -> int:
        """The number of draws that the computation uses; 0 for a closed form."""

    @property
    def attainable(self) -> float:
        """The smallest p-value that a marked text of this kind can have, or nearly."""

    def p_value(self, increments: DoubleArray) -> float:
        """The probability of a sum as large as that of these increments, (u,)."""

    def window_p_value(self, increments: DoubleArray, window: slice) -> float:
        """The probability that any window of increments has a sum as large as this one."""

    def joint_p_value(self, increments: DoubleArray) -> float | None:
        """The p-value of the sum and the best window together (`stats.joint`).

        None if their joint distribution is not computed; the smaller of the two p-values then
        counts twice.
        """

    def power(self, level: float) -> Power:
        """How often marked texts like this one reach a level, as far as that is known."""


@dataclass(frozen=True, kw_only=True)
class Alternatives:
    """The log-likelihood ratios of draws of a null distribution, marked against unmarked text.

    The ratios of each draw follow the order of the null distribution's own blocks. A draw weighted
    by its ratio represents a key that marked the text, so that the power can be estimated.

    Attributes:
        as_written: starts blocks of ratios, if the text was left as it was, each in chunks along
            the text, (c, k); None if that is not known.
        reworded: the same if it was reworded.
    """

    as_written: Callable[[], Iterator[Iterator[DoubleArray]]] | None = None
    reworded: Callable[[], Iterator[Iterator[DoubleArray]]] | None = None


class SignificanceTest(Protocol):
    """The test of one text by one statistic against the null distribution.

    The increments under the secret key and under the draws of the null distribution are computed
    by one function, and are exchangeable if the text is independent of the secret key.
    """

    @property
    def increments(self) -> DoubleArray:
        """What each of the u units adds to the statistic under the secret key, (u,)."""

    @property
    def best(self) -> DoubleArray:
        """The largest increment that any key could give each unit, (u,); 0 if it does not count.

        With edit hypotheses it bounds cumulative sums, not each increment: under any key the first
        t increments add up to at most the first t of these.
        """

    @property
    def centre(self) -> DoubleArray:
        """What is subtracted from each increment before windows are compared, (u,)."""

    @property
    def is_ratio(self) -> bool:
        """Whether the increments are log-likelihood ratios."""

    @property
    def null(self) -> NullDistribution:
        """The null distribution."""

    @property
    def alternatives(self) -> Alternatives:
        """What marked texts are like, if draws of the null distribution are counted."""


class ScoredText(Protocol):
    """One text scored under one key."""

    @property
    def evidence(self) -> Evidence:
        """The evidence of the text, without any edit hypothesis."""

    def test(self, statistic: str) -> SignificanceTest:
        """The test by one of the method's statistics; the text has at least one unit."""

    @property
    def test_given_topic(self) -> Callable[[str], SignificanceTest] | None:
        """The test conditioned on the topic of the text, by the name of a statistic.

        Its null distribution is over keys that project the mean of the sentences as the secret key
        does. None if the method cannot be conditioned on the topic.
        """


@dataclass(frozen=True, kw_only=True)
class Capabilities:
    """What a method marks, and what it can do beyond marking and reading a text.

    A field holds the method itself, one of its functions or a value; None or False means that the
    method cannot. `testing.method_checks` runs everything that a method declares.

    Attributes:
        sentences: the method, if it marks by the choice of sentences.
        tokens: the method, if it marks by the choice of tokens. Exactly one of the two is set.
        keyless: whether the method uses no secret, so that anybody can compute its scores.
        trials: the budget of candidates per sentence in the method's paper, used by default.
        staging_threshold: the deviate from which a sentence is accepted, if scores are standard
            normal deviates over keys. The score of a sentence's beginning then predicts that of the
            sentence, and candidates can be drawn in stages.
        at: gives the rule of a sentence by its number, counted from 0, if the rule depends on it.
        read_edited: scores a text by the embeddings (N, d) of its edit hypotheses: sentences may
            have been joined, split or inserted.
        read_part: scores a text of which only some sentences count, by the embeddings (n, d) of all
            and which count (n,). That must not depend on the key.
        samples: compares sentences with samples of the model.
        ranking: ranks very many keys for a text at once.
        context: makes a token's bias depend on the meaning of the text before it.
    """

    sentences: SentenceWatermark | None = None
    tokens: TokenWatermark | None = None
    keyless: bool = False
    trials: int | None = None
    staging_threshold: float | None = None
    at: Callable[[int], SentenceWatermark] | None = None
    read_edited: Callable[[FloatArray, EditHypotheses], ScoredText] | None = None
    read_part: Callable[[FloatArray, NDArray[np.bool_]], ScoredText] | None = None
    samples: SampleScorer | None = None
    ranking: KeyRanker | None = None
    context: ContextRule | None = None

    def rule_at(self, place: int) -> SentenceWatermark:
        """The rule of the sentence with this number, of a method that marks sentences."""
        rule = self.at(place) if self.at else self.sentences
        assert rule is not None, "it marks no sentences"
        return rule


class Watermark(Protocol):
    """A method under one key. The registered class is constructed from a key alone.

    Its class attribute ``Config`` is the class of its configuration (`keys.config.MethodConfig`),
    and its class method ``examples`` returns named configurations for the contract suite.
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
        """What it marks, and what it can do beyond marking and reading a text."""

    def read(self, values: NDArray[Any]) -> ScoredText:
        """Score a text: the embeddings (n, d) of its sentences, or its tokens (n,)."""


class SentenceWatermark(Watermark, Protocol):
    """A mark in the choice of sentences."""

    @property
    def pool(self) -> int:
        """The number of candidates judged together: 1 accepts or rejects, N takes the best of N."""

    @property
    def judges_beginnings(self) -> bool:
        """Whether the first sentence of a text is judged, although no sentence precedes it."""

    def choose(self, previous: FloatArray | None, candidates: FloatArray) -> Choice:
        """Judge candidates (c, d), in the order of drawing, after the embedding ``previous`` (d,).

        Detection counts every sentence that it accepts. A method with a parameter ``margin`` may
        reject more: candidates nearer than that to the edge of its rule.
        """


class SampleScorer(Protocol):
    """A sentence watermark that compares sentences with samples of the model.

    Without samples it cannot ``read`` a text, and raises an error. A first sentence is never
    subject to the rule, because the prompt before it is not known at detection.
    """

    @property
    def samples(self) -> int:
        """The number of samples for each sentence."""

    def read_sampled(self, values: FloatArray, samples: Sequence[FloatArray]) -> ScoredText:
        """Score a text.

        Args:
            values: the embeddings (n, d) of its sentences.
            samples: for each sentence but the first, the embeddings of the samples that a model
                drew in its place, (k, d) each.
        """


class KeyRanker(Protocol):
    """A watermark that can rank very many keys for a text at once."""

    def rank(
        self, keys: Sequence[WatermarkKey], texts: Sequence[NDArray[Any]], *, statistic: str
    ) -> list[list[int]]:
        """For each text, the numbers of the few keys that score highest on it or a passage of it.

        The p-value is corrected for all keys, so only their scores may decide which are tested.
        """

    def like(self, key: WatermarkKey) -> Watermark:
        """The same method under another key; both share the draws of the null distribution."""


class TokenWatermark(Watermark, LogitsProcessor, Protocol):
    """A mark in the choice of tokens, made by changing logits."""


class ContextRule(Protocol):
    """The context of a token, for a mark that depends on the meaning of the text before it.

    The context of a token is a part of the text before it, without the prompt: it depends only on
    the beginning of the text, and stays the same for many tokens. The embedding of its context
    decides the bias of a token. ``read`` takes tokens with embeddings (`text.context_tokens`).
    """

    def context(self, text: str) -> str:
        """The context of the token after a text; empty if that token gets no bias."""

    def contexts(self, text: str, places: Sequence[int]) -> tuple[list[str], NDArray[np.int64]]:
        """The contexts of a text, and for each offset the number of its context, -1 for none.

        Args:
            text: the text.
            places: offsets in characters, ascending.
        """

    def context_changes(self, text: str) -> Callable[[str], bool]:
        """A function that tells whether a continuation of the text has another context."""

    def condition(self, embeddings: FloatArray) -> FloatArray:
        """The conditions of the processor, (n, s), from the embeddings of contexts (n, d)."""


@runtime_checkable
class Attack(Protocol):
    """An edit of a text that tries to remove the mark and keep the meaning."""

    @property
    def name(self) -> str:
        """The registered name."""

    @property
    def min_similarity(self) -> float:
        """The least similarity at which the attacked text counts as the same text."""

    def apply(self, texts: Sequence[str], *, rng: np.random.Generator) -> list[str]:
        """Attack each text, with all randomness from ``rng``."""
