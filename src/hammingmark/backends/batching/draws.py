"""Tokens drawn for many sequences at once, each by its own sampling and seed."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from hammingmark.stats.mixing import mix

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


def warp(
    logits: torch.Tensor, sampling: RowSampling, *, kept: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """What each row is drawn from: the logits of its likeliest tokens, and these: (rows, kept).

    Both are sorted. Logits are divided by the temperature, and -inf where top-k, top-p or min-p
    leave a token out.
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
    return values, tokens


def pick(
    values: torch.Tensor, tokens: torch.Tensor, seeds: torch.Tensor, counts: torch.Tensor
) -> torch.Tensor:
    """One of the tokens (rows, k) with logits (rows, k) for each row: (rows,).

    The Gumbel trick on noise that is a hash of (seed, count, token): no generator is kept, and a
    row's draw does not depend on its neighbours.
    """
    noise = mix(mix(seeds * 0x9E3779B1 + counts)[:, None] + tokens)
    uniform = ((noise >> 11) & ((1 << 52) - 1)).double() * 2.0**-52 + 2.0**-54
    gumbel = -torch.log(-torch.log(uniform))
    best = (values.double() + gumbel).argmax(dim=-1, keepdim=True)
    return tokens.gather(-1, best)[:, 0]
