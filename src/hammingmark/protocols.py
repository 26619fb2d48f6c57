"""What each kind of part promises. Rooms on one stair meet here and nowhere else.

A part implements one method and a few properties; the conveniences are derived elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from hammingmark.records import (
    Candidate,
    Choice,
    EditHypotheses,
    Evidence,
    Request,
    Sentences,
    StatisticName,
    TopicName,
)

if TYPE_CHECKING:
    import torch

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

    def close(self) -> None:
        """Give up on all of them; may be called twice."""


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
    def width(self) -> int:
        """How many tokens before the next one it looks at."""

    def process(self, scores: torch.Tensor, contexts: torch.Tensor) -> torch.Tensor:
        """The new logits.

        Args:
            scores: logits of the next token, (B, V), float32.
            contexts: the ``width`` tokens before it, oldest first, (B, width); -1 where a text
                has not begun. The prompt's tokens are among them.

        Returns:
            (B, V).
        """


@runtime_checkable
class LogitsBackend(Backend, Protocol):
    """A backend that lets a watermark change the logits of each step."""

    @property
    def tokenizer(self) -> Tokenizer:
        """What makes tokens of texts for its model; loads what it needs."""


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


class KeyRandomizationTest(Protocol):
    """One text under the secret key and under reference keys, by one function for both.

    The increments under all of them are exchangeable when the text does not know the secret key.

    Attributes:
        own: what each transition adds to the statistic under the secret key, (n - 1,).
        best: the most that any key could give each transition, (n - 1,).
        centre: what to take off each increment before windows are compared, (n - 1,).
        is_ratio: whether the increments are log-likelihood ratios.
    """

    own: DoubleArray
    best: DoubleArray
    centre: DoubleArray
    is_ratio: bool

    def reference_blocks(self) -> Iterator[Iterator[DoubleArray]]:
        """Block after block of reference keys, each chunk by chunk along the text: (c, k)."""


@runtime_checkable
class SentenceWatermark(Protocol):
    """A mark in the choice of sentences, under one key."""

    @property
    def name(self) -> str:
        """The registered name."""

    @property
    def key_id(self) -> str:
        """The public name of the key."""

    @property
    def pool(self) -> int:
        """How many candidates it judges at a time: 1 accepts or refuses, N takes the best of N."""

    def choose(self, previous: FloatArray | None, candidates: FloatArray) -> Choice:
        """Judge candidates (c, d), in drawing order, after the embedding ``previous`` (d,)."""

    def evidence(self, embeddings: FloatArray) -> Evidence:
        """What the embeddings (n, d) of one text say under the key."""

    def trial(
        self,
        embeddings: FloatArray,
        *,
        statistic: StatisticName,
        topic: TopicName = "given",
        parts: EditHypotheses | None = None,
    ) -> KeyRandomizationTest:
        """One text, ready to be compared under this key and under reference keys.

        Args:
            embeddings: (n, d), or (N, d) with ``parts``.
            statistic: what is summed over the transitions.
            topic: whether reference keys share the secret key's view of the text's mean sentence.
            parts: what the sentences may have been before somebody joined or cut them.
        """


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
