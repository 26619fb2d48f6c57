"""The key-value cache of a batch engine's slots, and the attention masks for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch
from transformers import Cache

Step = TypeVar("Step", bound=Callable[..., Any])


def without_gradients(step: Step) -> Step:
    """Run a step in torch's inference mode; unlike torch's own decorator, this one is typed."""
    decorated: Step = torch.inference_mode()(step)
    return decorated


def attention_masks(model: Any, positions: torch.Tensor, span: int) -> Any:
    """The attention masks for a model: one for all layers, or one for each kind of layer.

    The library builds masks for sequences that all continue at the same position. Slots do not,
    so the masks are built here by the same rules (``create_masks_for_generate``).

    Args:
        model: a causal language model of transformers.
        positions: of the tokens that are fed, (rows, q).
        span: how many positions of the cache are attended to.

    Raises:
        ValueError: the model has layers other than attention over earlier tokens.
    """
    config = model.config.get_text_config()
    kinds = set(getattr(config, "layer_types", None) or ())
    if not kinds and getattr(config, "sliding_window", None):
        kinds = {"sliding_attention"}
    elif not kinds and getattr(config, "attention_chunk_size", None):
        kinds = {"chunked_attention"}
    # Idle rows are at a position beyond the span; they must attend to something, no matter what.
    queries = positions.clamp(max=span - 1)[:, :, None]
    keys = torch.arange(span, device=positions.device)
    masks = {
        kind: _prepared(model, _allowed(kind, keys, queries, config)[:, None])
        for kind in kinds or {"full_attention"}
    }
    return masks if len(masks) > 1 else next(iter(masks.values()))


def _allowed(kind: str, keys: torch.Tensor, queries: torch.Tensor, config: Any) -> torch.Tensor:
    """Which positions 0 ... span - 1 each query attends to: (rows, q, span)."""
    earlier = keys <= queries
    if kind == "full_attention":
        return earlier
    if kind == "sliding_attention":
        return earlier & (keys > queries - config.sliding_window)
    if kind == "chunked_attention":
        size = config.attention_chunk_size
        return earlier & (keys // size == queries // size)
    raise ValueError(f"layers of the kind {kind} are not supported")


def _prepared(model: Any, allowed: torch.Tensor) -> torch.Tensor:
    """A mask in the form that the model's attention expects: additive or boolean."""
    if model.config._attn_implementation != "eager":
        return allowed
    lowest = torch.finfo(model.dtype).min
    return torch.zeros_like(allowed, dtype=model.dtype).masked_fill(~allowed, lowest)


class SlotCache(Cache):  # type: ignore[misc]  # mypy does not read transformers: Cache is Any
    """Keys and values of all slots in one tensor, written in place.

    Args:
        slots: their number.
        length: positions in each slot.
        layers: of the model.
    """

    def __init__(self, slots: int, length: int, layers: int) -> None:
        super().__init__(layers=[])
        self._shape = (layers, 2, slots, length + 1)  # idle slots write to the last position
        self._states: torch.Tensor | None = None
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
        """Store the keys and values (rows, heads, q, width) of a step; return the whole span's."""
        if self._states is None:
            layers, both, slots, length = self._shape
            _, heads, _, width = key_states.shape
            self._states = key_states.new_zeros(layers, both, slots, heads, length, width)
        assert self.rows is not None
        assert self.positions is not None
        spans = []
        for stored, new in zip(self._states[layer_idx], (key_states, value_states), strict=True):
            stored[self.rows[:, None], :, self.positions] = new.transpose(1, 2)
            rows = stored[: len(self.rows)] if self.leading else stored[self.rows]
            spans.append(rows[:, :, : self.span])
        return spans[0], spans[1]

    @without_gradients
    def copy(self, source: int, target: int, length: int) -> None:
        """Copy the first ``length`` positions of one slot to another."""
        if self._states is not None:
            self._states[:, :, target, :, :length] = self._states[:, :, source, :, :length]

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Always 0, because positions are passed explicitly."""
        return 0
