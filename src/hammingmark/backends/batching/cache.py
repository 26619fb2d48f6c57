"""What a transformers model keeps of the sequences in a batch engine's slots."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch
from transformers import Cache

Step = TypeVar("Step", bound=Callable[..., Any])


def without_gradients(step: Step) -> Step:
    """Run a step without keeping what gradients would need; typed, as torch's own is not."""
    decorated: Step = torch.inference_mode()(step)
    return decorated


def attention_masks(model: Any, positions: torch.Tensor, span: int) -> Any:
    """What a model takes as its attention mask: one for all layers, or one for each kind of layer.

    The library builds its masks for sequences that all begin at the same place; slots do not, so
    the masks are built here, by the same rules (``create_masks_for_generate``).

    Args:
        model: a causal language model of transformers.
        positions: of the tokens that are fed, (rows, q).
        span: how many places of the cache are looked at.

    Raises:
        ValueError: the model has a kind of layer that is no attention over earlier tokens.
    """
    config = model.config.get_text_config()
    kinds = set(getattr(config, "layer_types", None) or ())
    if not kinds and getattr(config, "sliding_window", None):
        kinds = {"sliding_attention"}
    elif not kinds and getattr(config, "attention_chunk_size", None):
        kinds = {"chunked_attention"}
    # Idle rows stand behind the span; they may look at anything, but must look at something.
    places = positions.clamp(max=span - 1)[:, :, None]
    reach = torch.arange(span, device=positions.device)
    masks = {
        kind: _prepared(model, _allowed(kind, reach, places, config)[:, None])
        for kind in kinds or {"full_attention"}
    }
    return masks if len(masks) > 1 else next(iter(masks.values()))


def _allowed(kind: str, reach: torch.Tensor, places: torch.Tensor, config: Any) -> torch.Tensor:
    """Which of the places 0 ... span - 1 are looked at from each place: (rows, q, span)."""
    earlier = reach <= places
    if kind == "full_attention":
        return earlier
    if kind == "sliding_attention":
        return earlier & (reach > places - config.sliding_window)
    if kind == "chunked_attention":
        size = config.attention_chunk_size
        return earlier & (reach // size == places // size)
    raise ValueError(f"layers of the kind {kind}")


def _prepared(model: Any, allowed: torch.Tensor) -> torch.Tensor:
    """A mask in the form that the model's attention wants: to be added, or true and false."""
    if model.config._attn_implementation != "eager":
        return allowed
    lowest = torch.finfo(model.dtype).min
    return torch.zeros_like(allowed, dtype=model.dtype).masked_fill(~allowed, lowest)


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
