"""What the encoder is asked for, on one batch of groups of sentences.

A group is a passage of human text, or a pool: a sentence and what a model would write next, many
times. A key is a random bilinear form of two neighbouring embeddings, so what counts is cosines,
after what all sentences have in common was taken off (`training.common`):

- a rewrite stays near its sentence, since the score of a transition shrinks by the product of two
  cosines (``same``), and above all does not go far (``far``); or, in place of both, by its distance
  (``distance``): the evidence of a transition falls nearly in proportion to it;
- a sentence is told from all others by its rewrite, most of all from those of its own group, which
  lie nearest (``apart``);
- candidates have little in common, or whole contexts are refused together and cost many more
  (``among``), and so have the sentences of a passage, whose transitions would otherwise say the
  same thing twice (``inside``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch.nn import functional


@dataclass(frozen=True, slots=True)
class Common:
    """What is taken off.

    Attributes:
        mean: of the embeddings of human sentences, (d,).
        directions: at right angles to each other, (k, d).
    """

    mean: torch.Tensor
    directions: torch.Tensor

    @classmethod
    def of(cls, embeddings: torch.Tensor, sizes: Sequence[int], *, count: int) -> Common:
        """The mean of sentences and the leading principal directions of their texts' means.

        Args:
            embeddings: (n, d), text after text.
            sizes: how many sentences each text has; they add up to n.
            count: k.
        """
        with torch.no_grad():
            rows = embeddings.detach().double()
            mean = rows.mean(dim=0)
            texts = torch.stack([part.mean(dim=0) for part in rows.split(list(sizes))]) - mean
            _, leading = torch.linalg.eigh(texts.T @ texts)
            directions = leading[:, leading.shape[1] - count :].T
            kind = embeddings.dtype
            return cls(mean.to(kind), directions.to(kind).contiguous())

    def take_off(self, embeddings: torch.Tensor) -> torch.Tensor:
        """What is left of embeddings, at length one: (n, d) to (n, d)."""
        rows = embeddings - self.mean
        rows = rows - (rows @ self.directions.T) @ self.directions
        return functional.normalize(rows, dim=-1)


@dataclass(frozen=True, slots=True)
class Weights:
    """How much each term counts.

    Attributes:
        same: weight of a rewrite's distance, one minus the cosine.
        far: weight of what a rewrite's cosine lacks to ``floor``.
        floor: the cosine from which a rewrite is not far.
        distance: weight of the length of the difference, sqrt(2 - 2 cosine).
        apart: weight of the contrast.
        temperature: of the contrast.
        among: weight of the positive cosines within pools.
        inside: weight of the positive cosines within passages.
    """

    same: float = 5.0
    far: float = 5.0
    floor: float = 0.8
    distance: float = 0.0
    apart: float = 1.0
    temperature: float = 0.05
    among: float = 2.0
    inside: float = 1.0


@dataclass(frozen=True, slots=True)
class Batch:
    """What the rows of a batch are, (n,) each.

    Attributes:
        text: number of each sentence's text; equal ones are the same sentence.
        group: number of each sentence's group.
        pool: whether that group is a pool.
    """

    text: torch.Tensor
    group: torch.Tensor
    pool: torch.Tensor


def loss(
    originals: torch.Tensor, rewrites: torch.Tensor, batch: Batch, weights: Weights
) -> dict[str, torch.Tensor]:
    """The terms on one batch.

    Args:
        originals: embeddings (n, d) of length one, without what is common.
        rewrites: of the same sentences, (n, d).
        batch: what the rows are.
        weights: how much each term counts.
    """
    n = len(originals)
    kept = (originals * rewrites).sum(dim=-1)
    among_originals = originals @ originals.T
    # A sentence is no negative of itself, nor is a copy of it elsewhere in the batch.
    alike = batch.text[:, None] == batch.text[None]
    rows = torch.arange(n, device=originals.device)
    own = rows[:, None] == rows[None]
    logits = torch.cat([originals @ rewrites.T, among_originals], dim=1) / weights.temperature
    hidden = torch.cat([alike & ~own, alike], dim=1)
    together = (batch.group[:, None] == batch.group[None]) & ~alike
    near = functional.relu(among_originals)
    terms = {
        "same": (1.0 - kept).mean(),
        "far": functional.relu(weights.floor - kept).mean(),
        # A little is added, or the slope at 0 has no end.
        "distance": (2.0 * functional.relu(1.0 - kept) + 1e-4).sqrt().mean(),
        "apart": functional.cross_entropy(logits.masked_fill(hidden, -1e4), rows),
        "among": _mean(near, together & batch.pool[:, None]),
        "inside": _mean(near, together & ~batch.pool[:, None]),
    }
    total = sum(getattr(weights, name) * term for name, term in terms.items())
    return {"total": torch.as_tensor(total), **terms}


def _mean(values: torch.Tensor, chosen: torch.Tensor) -> torch.Tensor:
    """The mean of the chosen values; 0 if there are none."""
    return (values * chosen).sum() / chosen.sum().clamp(min=1)
