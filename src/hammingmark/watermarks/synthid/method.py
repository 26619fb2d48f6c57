"""SynthID-Text under one key."""

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
_NULL_DESCRIPTIONS: Mapping[Hashing, str] = {
    "mixed": "exact for independent g-values",
    "iterated": "exact for independent g-values, which those of a text written for it are not",
    "table": "exact for independent g-values, which those of a text written for it are not",
}
_EXCESS = {"weighted_mean": 0.126, "mean": 0.107}
"""The mean of marked tokens above one half, in the texts on which the card was fitted."""


class SynthIDMark:
    """The next token wins a tournament by secret bits, its g-values.

    After the last n - 1 tokens, every token has a bit for each depth. The tournament favours tokens
    with ones and, on average over keys, keeps the model's distribution.

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
        # The distortionary mode marks repeated contexts as well.
        self._history = 0 if config.mode == "distortionary" else config.context_history_size
        self.width = config.context + self._history
        self._hash = GValueHash.of(key.expand_once(depth_keys), config.hashing)
        # Recorded graphs keep addresses, so the arrays that they read must stay alive.
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
        """Marking tokens, and ranking of very many keys."""
        return Capabilities(tokens=self, ranking=self)

    def process(self, scores: torch.Tensor, step: DecodingStep) -> torch.Tensor:
        """Play the tournament among the likeliest tokens: (B, k) to (B, k)."""
        import torch

        config = self.config
        hashing = self._hash_on(scores.device)
        context = hashing.hashes(step.contexts[:, -config.context :])
        head, tokens = scores[:, : config.candidates], step.tokens[:, : config.candidates]
        g_values = hashing.g_values(hashing.take_in(context[:, None], tokens))
        # The head keeps its total probability, so that the other tokens keep theirs.
        total = head.logsumexp(-1, keepdim=True)
        won = play((head - total).exp(), g_values, leaves=config.num_leaves).log() + total
        marks = is_new(step.contexts[:, -config.context - self._history :], config.context)
        changed = torch.where(marks[:, None], won, head)
        return torch.cat([changed, scores[:, config.candidates :]], dim=1)

    def read(self, values: NDArray[np.int64]) -> ScoredTokens:
        """Score a text by its tokens (n,)."""
        runs = windows(values, self.config.ngram_len)
        counted = self._counted(runs)
        g_values = self._hash.g_values(self._hash.hashes(runs))
        statistics = statistics_of(self.config.depth, self.config.hashing)
        tests = {
            name: self._test(statistic, g_values, counted) for name, statistic in statistics.items()
        }
        default = self.statistics[0]
        return ScoredTokens(
            self,
            tests[default].increments.astype(np.float32),
            statistics[default].centre,
            1.0,
            tests,
            counted,
            z={
                name: z_score(statistic, tests[name].increments, int(counted.sum()))
                for name, statistic in statistics.items()
                if not statistic.is_ratio
            },
            ratios=[name for name, statistic in statistics.items() if statistic.is_ratio],
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
        """The same method under another key of the same configuration."""
        return SynthIDMark(key)

    def _counted(self, runs: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which runs of tokens (u, n) have new g-values, under every key: (u,).

        In the non-distortionary mode, runs in a repeated context are not marked. Other runs have
        the g-values of an earlier run if they repeat it, or if the hash does not distinguish them.
        """
        hashes = self._hash.tells_apart(self._hash.hashes(runs))
        counted: NDArray[np.bool_] = first_in(runs[:, :-1], self._history)
        counted[counted] = first_occurrences(hashes[counted][:, None])
        return counted

    def _test(
        self, statistic: GStatistic, g_values: NDArray[np.int64], counted: NDArray[np.bool_]
    ) -> TextTest:
        likelihood = statistics_of(self.config.depth, self.config.hashing)["bayesian"]
        null = LatticeNull(
            counted,
            statistic.increments,
            centre=statistic.centre,
            secret=self.key.secret,
            description=_NULL_DESCRIPTIONS[self.config.hashing],
            ratios=likelihood.increments,
            gain=statistic.gain,
        )
        own = np.where(counted, statistic.of(g_values), 0.0)
        return TextTest(own, null.best, null.centre, null, statistic.is_ratio)

    def _hash_on(self, device: torch.device) -> GValueHash:
        """The hash with its arrays on a device."""
        if device not in self._on:
            import torch

            self._on[device] = self._hash.moved(lambda array: torch.tensor(array, device=device))
        return self._on[device]


def depth_keys(key: WatermarkKey) -> NDArray[np.int64]:
    """The keys of the depths, 63 bits each: (depth,).

    No two share their last 16 bits, which are all that the hashing ``table`` uses.
    """
    assert isinstance(key.config, SynthIDConfig)
    depth = key.config.depth
    # Four times as many as needed, because a few in a thousand share those bits.
    words = np.frombuffer(key.secret.stream("tournament", 32 * depth), "<u8")
    numbers = (words >> np.uint64(1)).astype(np.int64)
    _, places = np.unique(numbers % TABLE_SIZE, return_index=True)
    keys: NDArray[np.int64] = numbers[np.sort(places)[:depth]]
    return keys


@lru_cache(maxsize=32)
def statistics_of(depth: int, hashing: Hashing) -> Mapping[str, GStatistic]:
    """The statistics by name, the default first; cached with their null distributions."""
    share = share_of_ones(hashing)
    weights, ones = falling_weights(depth), np.ones(depth, np.int64)
    return {
        "weighted_mean": WeightedMean(
            weights, parts=PARTS, share=share, excess=_EXCESS["weighted_mean"]
        ),
        # The lattice is fine enough for a centre between the mean and 1.
        "mean": WeightedMean(
            ones, parts=depth * math.ceil(16 / depth), share=share, excess=_EXCESS["mean"]
        ),
        "bayesian": LikelihoodRatio(*shipped_card().at(depth), share=share),
    }


def z_score(statistic: GStatistic, own: NDArray[np.float64], units: int) -> float:
    """The sum of increments above the mean of unmarked text, in standard deviations."""
    mean, variance = statistic.increments.moments
    return (float(own.sum()) - units * mean) / math.sqrt(max(1, units) * variance)
