"""Green lists: the tokens that a secret favours in each context (Kirchenbauer et al., ICML 2023).

A token is green after its context with probability γ over keys, independently for every pair of a
context and a token. The published code permutes the vocabulary by a library's random generator,
which differs between devices; here a keyed hash of the pair decides. So under a key that is
independent of the text, the number of green tokens among distinct pairs is binomial.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from hammingmark.errors import InputError
from hammingmark.keys.config import TokenConfig
from hammingmark.keys.key import Secret, WatermarkKey
from hammingmark.protocols import Capabilities
from hammingmark.stats.compare import TextTest
from hammingmark.stats.grouped import GroupedNull
from hammingmark.stats.mixing import Words, happens, mix, signed_words
from hammingmark.stats.nulls import BinomialNull
from hammingmark.stats.ranking import rank_keys
from hammingmark.watermarks._shared.counts import z_score
from hammingmark.watermarks._shared.token_scores import (
    ScoredTokens,
    first_occurrences,
    log_odds,
    marked_share,
    windows,
)

if TYPE_CHECKING:
    import torch

    from hammingmark.records import DecodingStep

Mark = TypeVar("Mark", bound="GreenMark")

_KEY_BLOCK = 256  # keys that are compared side by side
_ODD = 0x5851F42D4C957F2D
_MAX_PREFIX = 64  # tokens


@dataclass(frozen=True, kw_only=True)
class GreenConfig(TokenConfig):
    """Parameters of methods with green lists, in the papers' notation.

    Attributes:
        gamma: γ, the share of the vocabulary that is green.
        prefix_length: h, the number of preceding tokens that decide the list of a token.
        f_scheme: which of them decide it, and how: all of them in their order (``sequence``) or in
            any order (``additive``), the first one (``skip``), or the one with the smallest hash
            (``min``).
    """

    gamma: float = 0.5
    prefix_length: int = 1
    f_scheme: Literal["sequence", "additive", "skip", "min"] = "sequence"

    def __post_init__(self) -> None:
        if not 0.001 <= self.gamma <= 0.99:
            raise InputError(f"gamma must lie between 0.001 and 0.99, not {self.gamma:g}.")
        if not 1 <= self.prefix_length <= _MAX_PREFIX:
            raise InputError(
                f"prefix_length must lie between 1 and {_MAX_PREFIX}, not {self.prefix_length}."
            )

    @property
    def lists(self) -> str:
        """A short description of what decides which tokens are green."""
        return f"by {self.prefix_length} before it, {self.f_scheme}"


class GreenLists:
    """The green lists of a key, or of several keys side by side.

    Args:
        secrets: the secrets of the keys.
        config: their common parameters.
    """

    def __init__(self, secrets: Sequence[Secret], config: GreenConfig) -> None:
        self._config = config
        words = [signed_words(secret.stream("green lists", 16)) for secret in secrets]
        # A number for one key, or an array of shape (k, 1) for several.
        self._first: Words = words[0][0]
        self._second: Words = words[0][1]
        if len(words) > 1:
            pairs = np.array(words, np.int64)
            self._first, self._second = pairs[:, :1], pairs[:, 1:]

    def __repr__(self) -> str:
        return f"GreenLists(gamma={self._config.gamma:g})"

    def contexts(self, before: Sequence[Words]) -> Words:
        """A 64-bit word for the h tokens before a token, oldest first: arrays of any one shape."""
        scheme = self._config.f_scheme
        if scheme == "sequence":
            word = mix(before[0] + self._first)
            for token in before[1:]:
                word = mix(word + token)
            return word
        mixed = [mix(token * _ODD + self._first) for token in before]
        if scheme == "additive":
            return mix(sum(mixed[1:], start=mixed[0]))
        if scheme == "skip":
            return mixed[0]
        least = mixed[0]
        for other in mixed[1:]:
            smaller = other < least
            least = least + (other - least) * smaller  # differences wrap around
        return least

    def is_green(self, contexts: Words, tokens: Words) -> Words:
        """Whether tokens are green after contexts; shapes are broadcast."""
        return happens(mix(contexts + mix(tokens * _ODD + self._second)), self._config.gamma)

    def votes(
        self, grams: NDArray[np.int64], *, keys: int
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Which tokens of a text are green, and which count, under each key: (k, u) each.

        Args:
            grams: contexts and tokens, (u, h + 1).
            keys: k.
        """
        contexts = self.contexts([column[None] for column in grams.T[:-1]])
        votes = self.is_green(contexts, grams[None, :, -1])
        # Which pairs are repeated is the same under all keys, unless the smallest hash decides.
        distinct = contexts if self._config.f_scheme == "min" else contexts[:1]
        counted = [first_occurrences(np.stack([row, grams[:, -1]], axis=1)) for row in distinct]
        shape = (keys, len(grams))
        return (
            np.broadcast_to(votes, shape).astype(np.float64),
            np.broadcast_to(np.stack(counted), shape).astype(np.float64),
        )


class GreenMark(ABC):
    """Base class of methods with green lists, except for their change of logits.

    Args:
        key: the secret and the rule.
    """

    name: str
    Config: ClassVar[type[GreenConfig]]
    stage: Literal["logits", "distribution"] = "logits"
    condition_size = 0
    statistics: Sequence[str] = ("green", "green_all")

    def __init__(self, key: WatermarkKey) -> None:
        assert isinstance(key.config, GreenConfig)
        self.key = key
        self._green = key.config
        self.width = key.config.prefix_length

    @cached_property
    def _lists(self) -> GreenLists:
        return GreenLists([self.key.secret], self._green)

    @cached_property
    def capabilities(self) -> Capabilities:
        """Marking tokens, and ranking of very many keys."""
        return Capabilities(tokens=self, ranking=self)

    @abstractmethod
    def process(self, scores: torch.Tensor, step: DecodingStep) -> torch.Tensor:
        """The new logits: (B, k) to (B, k)."""

    @property
    @abstractmethod
    def most_valid(self) -> float:
        """The probability of green tokens under the mark if all tokens were equally likely.

        It is γ if the mark changes nothing there; its effect on other distributions is not known.
        """

    def green(self, step: DecodingStep) -> torch.Tensor:
        """Which tokens are green, (B, k); none after an incomplete context."""
        before = [step.contexts[:, i : i + 1] for i in range(self.width)]
        complete = (step.contexts >= 0).all(dim=1, keepdim=True)
        green: torch.Tensor = self._lists.is_green(self._lists.contexts(before), step.tokens)
        return green & complete

    def read(self, values: NDArray[np.int64]) -> ScoredTokens:
        """Score the tokens (n,) of a text.

        A repeated pair of a context and a token is green again. The first statistic counts it once,
        so that its null distribution is binomial. The second counts every token, as the published
        detectors do, and its null distribution takes repeated pairs together.
        """
        gamma, secret = self._green.gamma, self.key.secret
        grams = windows(values, self.width + 1)
        contexts = self._lists.contexts(list(grams.T[:-1]))
        votes: NDArray[np.bool_] = self._lists.is_green(contexts, grams[:, -1])
        pairs = np.stack([contexts, grams[:, -1]], axis=1)
        counted = first_occurrences(pairs)
        marked = marked_share(gamma, self.most_valid) if self.most_valid > gamma else None
        once = BinomialNull(counted, gamma, secret, marked=marked)
        groups = np.unique(pairs, axis=0, return_inverse=True)[1].reshape(-1)
        every = GroupedNull(
            groups,
            np.array([[0, 1]]),
            (1.0 - gamma, gamma),
            centre=(1.0 + gamma) / 2.0,
            secret=secret,
            tilt=log_odds(marked, gamma) if marked else 0.0,
        )
        own = votes.astype(np.float64)
        tests = {
            "green": TextTest(own * counted, once.best, once.centre, once),
            "green_all": TextTest(own, every.best, every.centre, every),
        }
        z = {}
        if len(own):
            z = {"green": z_score(own[counted], gamma), "green_all": z_score(own, gamma)}
        return ScoredTokens(
            self,
            votes.astype(np.float32),
            threshold=1.0,
            max_score=1.0,
            tests=tests,
            counted=counted,
            z=z,
        )

    def rank(
        self, keys: Sequence[WatermarkKey], texts: Sequence[NDArray[Any]], *, statistic: str
    ) -> list[list[int]]:
        """For each text, the keys under which the whole of it and a passage of it do best."""
        texts_grams = [windows(text, self.width + 1) for text in texts]
        centre = (1.0 + self._green.gamma) / 2.0

        def increments(block: Sequence[WatermarkKey]) -> Iterator[list[NDArray[np.float64]]]:
            lists = GreenLists([key.secret for key in block], self._green)
            for grams in texts_grams:
                votes, counted = lists.votes(grams, keys=len(block))
                weights = counted if statistic == "green" else np.ones_like(counted)
                yield [((votes - centre) * weights).T]

        # The centre is already taken off, only from the pairs that count under a key.
        centres = [np.zeros(len(grams)) for grams in texts_grams]
        return rank_keys(keys, centres, increments, block_size=_KEY_BLOCK)

    def like(self: Mark, key: WatermarkKey) -> Mark:
        """The same method under another key of the same configuration."""
        return type(self)(key)
