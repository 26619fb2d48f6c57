"""Drawing tokens for many sequences at once, each with its own sampling and seed."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from hammingmark.stats.mixing import mix

_EXCLUDED = float("-inf")


@dataclass(frozen=True, slots=True)
class RowSampling:
    """The sampling of each row, (rows,) each, as in `records.Sampling`; temperatures are above 0.

    A setting that no row uses is None.
    """

    temperature: torch.Tensor
    top_k: torch.Tensor
    top_p: torch.Tensor | None = None
    min_p: torch.Tensor | None = None


def warp(
    logits: torch.Tensor, sampling: RowSampling, *, kept: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """The logits and the tokens from which each row is drawn, (rows, kept) each, likeliest first.

    Logits are divided by the temperature, and are -inf for tokens that top-k, top-p or min-p
    exclude.
    """
    values, tokens = logits.topk(kept, dim=-1)
    values = values / sampling.temperature[:, None]
    rank = torch.arange(kept, device=logits.device)
    top_k = torch.where(sampling.top_k > 0, sampling.top_k, kept)[:, None]
    values = values.masked_fill(rank >= top_k, _EXCLUDED)
    if sampling.top_p is not None:
        probabilities = values.softmax(dim=-1)
        before = probabilities.cumsum(dim=-1) - probabilities
        top_p = sampling.top_p[:, None]
        values = values.masked_fill((before >= top_p) & (top_p < 1.0), _EXCLUDED)
    if sampling.min_p is not None:
        least = values[:, :1] + torch.log(sampling.min_p)[:, None]
        values = values.masked_fill(values < least, _EXCLUDED)
    return values, tokens


def pick(
    values: torch.Tensor, tokens: torch.Tensor, seeds: torch.Tensor, counts: torch.Tensor
) -> torch.Tensor:
    """Draw one of the tokens (rows, k) with logits (rows, k) for each row: (rows,).

    The Gumbel trick with noise that is a hash of (seed, count, token): there is no generator with
    a state, and the draw of a row does not depend on other rows.
    """
    noise = mix(mix(seeds * 0x9E3779B1 + counts)[:, None] + tokens)
    uniform = ((noise >> 11) & ((1 << 52) - 1)).double() * 2.0**-52 + 2.0**-54
    gumbel = -torch.log(-torch.log(uniform))
    best = (values.double() + gumbel).argmax(dim=-1, keepdim=True)
    return tokens.gather(-1, best)[:, 0]
