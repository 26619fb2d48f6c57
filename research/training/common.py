"""What sentences have in common: the mean of human text, and the leading directions of text means.

The rule compares embeddings from which both were taken off and which were then normalised again.
They are fitted for an encoder after its training (``directions``); this is for the loss, which
needs gradients.
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
