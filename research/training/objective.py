"""The training loss of the encoder, on one batch of groups of sentences.

A group is a passage of human text, or a pool: a sentence and a model's candidates for the next. A
key is a random bilinear form of two neighbouring embeddings, so only cosines matter, after removal
of the component that all sentences share (`Common`):

- a rewrite stays near its sentence, since the score of a transition shrinks by the product of two
  cosines (``same``), and above all does not move far (``far``); or, in place of both, its distance
  is small (``distance``): the evidence of a transition falls nearly in proportion to it;
- the rewrite of a sentence is distinguishable from all other sentences, above all from those of its
  own group, which are the nearest (``apart``);
- candidates are dissimilar, otherwise whole contexts are rejected together and cost many more
  (``among``), and so are the sentences of a passage, whose transitions would otherwise give the
  same evidence twice (``inside``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch.nn import functional


@dataclass(frozen=True, slots=True)
class Common:
    """The component that all sentences share, to be removed: a mean and leading directions.

    The rule compares embeddings without it, normalised again. It is fitted for an encoder after
    training (`directions`); this version is for the loss, which needs gradients.

    Attributes:
        mean: of the embeddings of human sentences, (d,).
        directions: orthonormal, (k, d).
    """

    mean: torch.Tensor
    directions: torch.Tensor

    @classmethod
    def of(cls, embeddings: torch.Tensor, sizes: Sequence[int], *, count: int) -> Common:
        """The mean of sentences and the leading principal directions of the means of texts.

        Args:
            embeddings: (n, d), text after text.
            sizes: the number of sentences of each text, n in total.
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

    def remove(self, embeddings: torch.Tensor) -> torch.Tensor:
        """Embeddings without the common component, normalised: (n, d) to (n, d)."""
        rows = embeddings - self.mean
        rows = rows - (rows @ self.directions.T) @ self.directions
        return functional.normalize(rows, dim=-1)


@dataclass(frozen=True, slots=True)
class Weights:
    """The weights of the terms.

    Attributes:
        same: weight of a rewrite's distance, one minus the cosine.
        far: weight of the difference of ``floor`` and a rewrite's cosine, if positive.
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
    """The layout of a batch, (n,) each.

    Attributes:
        text: the number of each sentence's text; equal numbers mean equal sentences.
        group: the number of each sentence's group.
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
        originals: normalised embeddings (n, d) without the common component.
        rewrites: those of the same sentences' rewrites, (n, d).
        batch: the layout of the rows.
        weights: the weights of the terms.
    """
    n = len(originals)
    kept = (originals * rewrites).sum(dim=-1)
    among_originals = originals @ originals.T
    # A sentence is not a negative of itself or of a copy elsewhere in the batch.
    same_text = batch.text[:, None] == batch.text[None]
    rows = torch.arange(n, device=originals.device)
    diagonal = rows[:, None] == rows[None]
    logits = torch.cat([originals @ rewrites.T, among_originals], dim=1) / weights.temperature
    hidden = torch.cat([same_text & ~diagonal, same_text], dim=1)
    together = (batch.group[:, None] == batch.group[None]) & ~same_text
    near = functional.relu(among_originals)
    terms = {
        "same": (1.0 - kept).mean(),
        "far": functional.relu(weights.floor - kept).mean(),
        # A small constant keeps the slope finite at 0.
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
