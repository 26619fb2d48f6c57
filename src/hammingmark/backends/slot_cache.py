"""What a transformers model keeps of the sequences in a batch engine's slots."""

from __future__ import annotations

from typing import Any

import torch
from transformers import Cache

from hammingmark.backends.gradients import without_gradients


class SlotCache(Cache):  # type: ignore[misc]  # mypy does not read transformers: Cache is Any
    """Keys and values of all slots in one tensor, written in place.

    Args:
        slots: how many.
        length: places of each.
        layers: of the model.
    """

    def __init__(self, slots: int, length: int, layers: int) -> None:
        super().__init__(layers=[])
        self._shape = (layers, 2, slots, length + 1)  # idle slots write into the last place
        self._kept: torch.Tensor | None = None
        self.rows: torch.Tensor | None = None
        self.positions: torch.Tensor | None = None
        self.leading = False  # whether the rows are the first slots, in their order
        self.span = 0

    def update(
        self,
        key_states: torch.Tensor,
        value_states: torch.Tensor,
        layer_idx: int,
        *args: Any,
        **kwargs: Any,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Store the keys and values (rows, heads, q, width) of a step; those of the whole span."""
        if self._kept is None:
            layers, both, slots, length = self._shape
            _, heads, _, width = key_states.shape
            self._kept = key_states.new_zeros(layers, both, slots, heads, length, width)
        assert self.rows is not None
        assert self.positions is not None
        found = []
        for kept, fresh in zip(self._kept[layer_idx], (key_states, value_states), strict=True):
            kept[self.rows[:, None], :, self.positions] = fresh.transpose(1, 2)
            mine = kept[: len(self.rows)] if self.leading else kept[self.rows]
            found.append(mine[:, :, : self.span])
        return found[0], found[1]

    @without_gradients
    def copy(self, source: int, target: int, length: int) -> None:
        """Give one slot the first ``length`` places of another."""
        if self._kept is not None:
            self._kept[:, :, target, :, :length] = self._kept[:, :, source, :, :length]

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Nothing that the model may add to positions: they are given."""
        return 0
