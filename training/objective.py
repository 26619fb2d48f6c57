"""What the encoder is asked for, on one batch of whole passages.

Over keys, a bit of two sentences at angle θ agrees with probability 1 - θ/π. So angles are what
counts, and each term is written in shares of bits:

- ``same``: the share of bits that a rewrite flips, which is θ/π itself;
- ``fresh``: the same for the part of a sentence that is new after the one before it, both of
  them rewritten;
- ``next``: neighbouring sentences agree in a chosen share of bits. It decides how many candidates
  a sentence costs, and a spread in it costs candidates without buying evidence. With ``ceiling``
  only a larger share is a miss;
- ``apart``: all other sentences are told apart, by the usual contrast over the batch.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.nn import functional


@dataclass(frozen=True, slots=True)
class Weights:
    """How much each term counts.

    Attributes:
        agree: share of bits in which neighbours should agree.
        same: weight of a rewrite's flipped share.
        fresh: weight of the flipped share of the part that is new.
        next: weight of the neighbours' squared miss.
        apart: weight of the contrast.
        temperature: of the contrast.
        slack: a neighbour's miss below this is no miss.
        ceiling: weight of the agreement above ``agree`` of any two sentences of a passage, which
            then takes the place of ``next``; 0 keeps to neighbours and to both sides.
        strangers: weight of the mean cosine of sentences from different passages. Without it,
            neighbours come to agree by way of a direction that all sentences share, which is
            cheap to learn and carries no evidence.
    """

    agree: float = 0.60
    same: float = 10.0
    fresh: float = 0.0
    next: float = 20.0
    apart: float = 1.0
    temperature: float = 0.05
    slack: float = 0.0
    ceiling: float = 0.0
    strangers: float = 5.0


def angle(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """θ/π of unit rows: (n, d) twice to (n,); steep near 0 without being infinite."""
    half = (one - other).norm(dim=-1) / 2.0
    return 2.0 * torch.asin(half.clamp(1e-4, 1.0 - 1e-6)) / torch.pi


def new_part(before: torch.Tensor, after: torch.Tensor) -> torch.Tensor:
    """What unit rows add to the unit rows before them, at length one: (n, d) twice to (n, d)."""
    cosine = (before * after).sum(dim=-1, keepdim=True)
    return functional.normalize(after - cosine * before, dim=-1)


def loss(
    originals: torch.Tensor,
    rewrites: torch.Tensor,
    passage: torch.Tensor,
    weights: Weights,
) -> dict[str, torch.Tensor]:
    """The terms on one batch.

    Args:
        originals: embeddings (n, d), passage after passage, sentences in order.
        rewrites: of the same sentences, (n, d).
        passage: number of each sentence's passage, (n,).
        weights: how much each counts.
    """
    n = len(originals)
    same = angle(originals, rewrites).mean()
    adjacent = passage[1:] == passage[:-1]
    fresh = angle(
        new_part(originals[:-1], originals[1:])[adjacent],
        new_part(rewrites[:-1], rewrites[1:])[adjacent],
    ).mean()
    misses = []
    for one, other in (
        (originals[:-1], originals[1:]),
        (rewrites[:-1], originals[1:]),
        (originals[:-1], rewrites[1:]),
    ):
        miss = (1.0 - angle(one, other))[adjacent] - weights.agree
        misses.append(functional.relu(miss.abs() - weights.slack) ** 2)
    neighbours = torch.cat(misses).mean()
    everything = torch.cat([rewrites, originals])
    logits = originals @ everything.T / weights.temperature
    rows = torch.arange(n, device=originals.device)
    near = (rows[:, None] - rows[None]).abs() == 1
    near &= passage[:, None] == passage[None]
    # A sentence is no negative of itself, and its neighbours have a term of their own.
    hidden = torch.cat([near, near | torch.eye(n, dtype=torch.bool, device=near.device)], dim=1)
    apart = functional.cross_entropy(logits.masked_fill(hidden, -1e4), rows)
    foreign = passage[:, None] != passage[None]
    strangers = ((originals @ originals.T)[foreign]).mean()
    nearness = weights.next
    if weights.ceiling:
        inside = (passage[:, None] == passage[None]) & ~torch.eye(
            n, dtype=torch.bool, device=originals.device
        )
        agree = 1.0 - torch.acos((originals @ rewrites.T).clamp(-0.999, 0.999)) / torch.pi
        neighbours = functional.relu(agree[inside] - weights.agree).mean()
        nearness = weights.ceiling
    total = weights.same * same + weights.fresh * fresh + nearness * neighbours
    total = total + weights.apart * apart + weights.strangers * strangers
    return {
        "total": total,
        "same": same,
        "fresh": fresh,
        "next": neighbours,
        "apart": apart,
        "strangers": strangers,
    }
