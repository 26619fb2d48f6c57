"""Which earlier tokens each layer of a transformers model may look at, for slots side by side."""

from __future__ import annotations

from typing import Any

import torch


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
