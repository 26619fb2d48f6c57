"""Tokens drawn for many sequences at once, each by its own sampling and seed."""

from __future__ import annotations

from dataclasses import dataclass

import torch

_IGNORED = float("-inf")


@dataclass(frozen=True, slots=True)
class RowSampling:
    """How each row is drawn, (rows,) each; as `records.Sampling`, temperatures above 0.

    What no row asks for is None.
    """

    temperature: torch.Tensor
    top_k: torch.Tensor
    top_p: torch.Tensor | None = None
    min_p: torch.Tensor | None = None


def draw(
    logits: torch.Tensor,
    seeds: torch.Tensor,
    counts: torch.Tensor,
    sampling: RowSampling,
    *,
    kept: int,
) -> torch.Tensor:
    """One token for each row, decided by its seed and by how many it has drawn.

    The Gumbel trick on noise that is a hash of (seed, count, token): no generator is kept, and a
    row's draw does not depend on its neighbours.

    Args:
        logits: (rows, V).
        seeds: (rows,).
        counts: (rows,).
        sampling: temperature, top-k, top-p and min-p, in this order.
        kept: at least every top-k; V if one of them is 0.

    Returns:
        (rows,).
    """
    values, tokens = logits.topk(kept, dim=-1)
    values = values / sampling.temperature[:, None]
    rank = torch.arange(kept, device=logits.device)
    top_k = torch.where(sampling.top_k > 0, sampling.top_k, kept)[:, None]
    values = values.masked_fill(rank >= top_k, _IGNORED)
    if sampling.top_p is not None:
        shares = values.softmax(dim=-1)
        before = shares.cumsum(dim=-1) - shares
        top_p = sampling.top_p[:, None]
        values = values.masked_fill((before >= top_p) & (top_p < 1.0), _IGNORED)
    if sampling.min_p is not None:
        least = values[:, :1] + torch.log(sampling.min_p)[:, None]
        values = values.masked_fill(values < least, _IGNORED)
    noise = _mix(_mix(seeds * 0x9E3779B1 + counts)[:, None] + tokens)
    uniform = ((noise >> 11) & ((1 << 52) - 1)).double() * 2.0**-52 + 2.0**-54
    gumbel = -torch.log(-torch.log(uniform))
    best = (values.double() + gumbel).argmax(dim=-1, keepdim=True)
    return tokens.gather(-1, best)[:, 0]


def _mix(words: torch.Tensor) -> torch.Tensor:
    """A finaliser of 64-bit words: every bit of the input moves every bit of the output."""
    words = words + 0x1E3779B97F4A7C15
    words = (words ^ (words >> 30)) * -0x40A7B892E31B1A47
    words = (words ^ (words >> 27)) * -0x6B2FB644ECCEEE15
    return words ^ (words >> 31)
