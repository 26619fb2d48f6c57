"""The method under one key."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from hammingmark.keys.config import TokenizerId
from hammingmark.keys.key import WatermarkKey
from hammingmark.protocols import Capabilities
from hammingmark.records import DecodingStep
from hammingmark.stats.compare import TextTest
from hammingmark.stats.lattice_null import LatticeNull
from hammingmark.stats.ranking import rank_keys
from hammingmark.watermarks._shared.token_scores import ScoredTokens, first_occurrences, windows
from hammingmark.watermarks.synthid.config import SynthIDConfig
from hammingmark.watermarks.synthid.g_statistics import (
    PARTS,
    GStatistic,
    LikelihoodRatio,
    WeightedMean,
    falling_weights,
    shipped_card,
)
from hammingmark.watermarks.synthid.g_values import TABLE_SIZE, GValueHash, Hashing, share_of_ones
from hammingmark.watermarks.synthid.tournament import first_in, is_new, play

if TYPE_CHECKING:
    import torch

_BLOCK_G_VALUES = 1 << 19  # g-values that are computed side by side
_WORDS: Mapping[Hashing, str] = {
    "mixed": "exact for independent g-values",
    "iterated": "exact for independent g-values, which those of a text written for it are not",
    "table": "exact for independent g-values, which those of a text written for it are not",
}
_EXCESS = {"weighted_mean": 0.126, "mean": 0.107}
"""What marked tokens have above a half where the card was fitted."""


class SynthIDMark:
    """The next token is the winner of a tournament by secret bits, its g-values.

    After the last n - 1 tokens every token has a bit for each depth. The tournament favours tokens
    with ones and, on average over keys, leaves the model's distribution as it was.

    Args:
        key: the secret and the rule.
    """

    name = "synthid"
    Config = SynthIDConfig
    stage: Literal["logits", "distribution"] = "distribution"
    condition_size = 0
    statistics: Sequence[str] = ("weighted_mean", "mean", "bayesian")

    def __init__(self, key: WatermarkKey) -> None:
        assert isinstance(key.config, SynthIDConfig)
        self.key = key
        self.config = config = key.config
        # Contexts that come again are marked again where the distribution may change.
        self._history = 0 if config.mode == "distortionary" else config.context_history_size
        self.width = config.context + self._history
        self._hash = GValueHash.of(key.expand_once(depth_keys), config.hashing)
        # Recorded graphs remember addresses, so what they read stays.
        self._on: dict[torch.device, GValueHash] = {}

    @classmethod
    def examples(cls, tokenizer: TokenizerId) -> Mapping[str, SynthIDConfig]:
        """Configurations for the contract suite."""
        return {
            "default": SynthIDConfig(tokenizer=tokenizer),
            "iterated": SynthIDConfig(tokenizer=tokenizer, hashing="iterated", depth=8),
            "table": SynthIDConfig(tokenizer=tokenizer, hashing="table", ngram_len=3, depth=12),
            "distortionary": SynthIDConfig(
                tokenizer=tokenizer,
                depth=8,
                mode="distortionary",
                num_leaves=3,
                context_history_size=0,
                candidates=100,
            ),
        }

    @cached_property
    def capabilities(self) -> Capabilities:
        """A search among very many keys."""
        return Capabilities(tokens=self, ranking=self)

    def process(self, scores: torch.Tensor, step: DecodingStep) -> torch.Tensor:
        """Play the tournament among the likeliest tokens: (B, k) to (B, k)."""
        import torch

        config = self.config
        hashing = self._hash_on(scores.device)
        context = hashing.hashes(step.contexts[:, -config.context :])
        head, tokens = scores[:, : config.candidates], step.tokens[:, : config.candidates]
        g_values = hashing.g_values(hashing.take_in(context[:, None], tokens))
        # Within what the head has together, so that the rest keeps what it has.
        together = head.logsumexp(-1, keepdim=True)
        won = play((head - together).exp(), g_values, leaves=config.num_leaves).log() + together
        marks = is_new(step.contexts[:, -config.context - self._history :], config.context)
        changed = torch.where(marks[:, None], won, head)
        return torch.cat([changed, scores[:, config.candidates :]], dim=1)

    def read(self, values: NDArray[np.int64]) -> ScoredTokens:
        """Score a text by its tokens (n,)."""
        runs = windows(values, self.config.ngram_len)
        counted = self._counted(runs)
        g_values = self._hash.g_values(self._hash.hashes(runs))
        known = statistics_of(self.config.depth, self.config.hashing)
        tests = {name: self._test(each, g_values, counted) for name, each in known.items()}
        default = self.statistics[0]
        return ScoredTokens(
            self,
            tests[default].increments.astype(np.float32),
            known[default].centre,
            1.0,
            tests,
            counted,
            z={
                name: z_score(each, tests[name].increments, int(counted.sum()))
                for name, each in known.items()
                if not each.is_ratio
            },
            ratios=[name for name, each in known.items() if each.is_ratio],
        )

    def rank(
        self, keys: Sequence[WatermarkKey], texts: Sequence[NDArray[np.int64]], *, statistic: str
    ) -> list[list[int]]:
        """For each text, the keys under which the whole of it and a passage of it do best."""
        config = self.config
        measure = statistics_of(config.depth, config.hashing)[statistic]
        texts_runs = [windows(text, config.ngram_len) for text in texts]
        counted_runs = [runs[self._counted(runs)] for runs in texts_runs]
        longest = max((len(runs) for runs in counted_runs), default=1)

        def increments(block: Sequence[WatermarkKey]) -> Iterator[list[NDArray[np.float64]]]:
            hashes = GValueHash.of_many(
                np.stack([depth_keys(key) for key in block]), config.hashing
            )
            for runs in counted_runs:
                yield [measure.of(hashes.g_values(hashes.hashes(runs))).T]  # (u, K)

        return rank_keys(
            keys,
            [np.full(len(runs), measure.centre) for runs in counted_runs],
            increments,
            block_size=max(1, _BLOCK_G_VALUES // (max(1, longest) * config.depth)),
        )

    def like(self, key: WatermarkKey) -> SynthIDMark:
        """The same under another key of the same configuration."""
        return SynthIDMark(key)

    def _counted(self, runs: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which runs of tokens (u, n) have g-values of their own, whatever the key: (u,).

        Those in a context that came before were left unmarked, in the mode that does so; of the
        others, those that came before, or share what the hash keeps of them with one that did, have
        its g-values again.
        """
        kept = self._hash.tells_apart(self._hash.hashes(runs))
        counted: NDArray[np.bool_] = first_in(runs[:, :-1], self._history)
        counted[counted] = first_occurrences(kept[counted][:, None])
        return counted

    def _test(
        self, statistic: GStatistic, g_values: NDArray[np.int64], counted: NDArray[np.bool_]
    ) -> TextTest:
        known = statistics_of(self.config.depth, self.config.hashing)
        null = LatticeNull(
            counted,
            statistic.increments,
            centre=statistic.centre,
            secret=self.key.secret,
            description=_WORDS[self.config.hashing],
            ratios=known["bayesian"].increments,
        )
        own = np.where(counted, statistic.of(g_values), 0.0)
        return TextTest(own, null.best, null.centre, null, statistic.is_ratio)

    def _hash_on(self, device: torch.device) -> GValueHash:
        """The hash with its numbers on a device."""
        if device not in self._on:
            import torch

            self._on[device] = self._hash.moved(lambda array: torch.tensor(array, device=device))
        return self._on[device]


def depth_keys(key: WatermarkKey) -> NDArray[np.int64]:
    """The keys of the depths, 63 bits each: (depth,).

    No two are alike in the last 16 bits, which are all that a table sees.
    """
    assert isinstance(key.config, SynthIDConfig)
    depth = key.config.depth
    # Four times as many as needed: a few thousandths of them are alike in those bits.
    words = np.frombuffer(key.secret.stream("tournament", 32 * depth), "<u8")
    numbers = (words >> np.uint64(1)).astype(np.int64)
    _, places = np.unique(numbers % TABLE_SIZE, return_index=True)
    keys: NDArray[np.int64] = numbers[np.sort(places)[:depth]]
    return keys


@lru_cache(maxsize=32)
def statistics_of(depth: int, hashing: Hashing) -> Mapping[str, GStatistic]:
    """The statistics by name, the default first; what they know of their nulls is shared."""
    share = share_of_ones(hashing)
    weights, ones = falling_weights(depth), np.ones(depth, np.int64)
    return {
        "weighted_mean": WeightedMean(
            weights, parts=PARTS, share=share, excess=_EXCESS["weighted_mean"]
        ),
        # A lattice on which the centre has room between the mean and 1.
        "mean": WeightedMean(
            ones, parts=depth * math.ceil(16 / depth), share=share, excess=_EXCESS["mean"]
        ),
        "bayesian": LikelihoodRatio(*shipped_card().at(depth), share=share),
    }


def z_score(statistic: GStatistic, own: NDArray[np.float64], units: int) -> float:
    """How many standard deviations the sum of increments lies above that of unmarked text."""
    mean, variance = statistic.increments.moments
    return (float(own.sum()) - units * mean) / math.sqrt(max(1, units) * variance)
