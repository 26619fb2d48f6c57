"""Whether a model gives the same logits in slots as by itself.

A model that ignores the positions it is given, keeps a state that is no cache of keys and values,
or builds masks of its own would write nonsense in slots, and nothing would show it. So each model
is put to the test when it is loaded: two sequences of different lengths, side by side.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from hammingmark.backends.batching.cache import without_gradients
from hammingmark.backends.batching.engine import BatchEngine
from hammingmark.errors import BackendError

_LENGTHS = (23, 9)
_LAST = 3  # tokens that are fed one by one, as drawn ones are
_WINDOW = 8  # shorter than the longer sequence, so that a sliding window shows


def require_equal_logits(model: Any, *, name: str) -> None:
    """Refuse a model whose logits in slots are not its own.

    Raises:
        BackendError: naming the model's architecture and what to use instead.
    """
    try:
        with _short_windows(model.config.get_text_config()):
            difference = logits_difference(model)
    except Exception as error:
        # Whatever a model of another kind makes of a call that it does not know.
        _refuse(model, name, " ".join(f"{type(error).__name__}: {error}".split())[:200])
    # Rounding: wrong masks or positions are off by far more than either.
    if not difference < (1e-3 if model.dtype == torch.float32 else 0.15):
        _refuse(model, name, f"its logits would be off by {difference:.1%}")


@without_gradients
def logits_difference(model: Any) -> float:
    """How far the logits in slots are from the model's own, relative to their spread."""
    size = model.config.get_text_config().vocab_size
    dice = torch.Generator().manual_seed(0)
    sequences = [torch.randint(size, (length,), generator=dice).tolist() for length in _LENGTHS]
    slots = BatchEngine(model, slots=3, length=max(_LENGTHS) + 1)
    ours = slots.logits(sequences, last=_LAST)
    worst = 0.0
    for row, tokens in zip(ours, sequences, strict=True):
        inputs = torch.tensor([tokens], device=model.device)
        own = model(input_ids=inputs, use_cache=False).logits[0, -_LAST:].float()
        spread = (own - own.mean(dim=-1, keepdim=True)).norm()
        worst = max(worst, float((row - own).norm() / spread)) if spread > 0 else float("nan")
    return worst


@contextmanager
def _short_windows(config: Any) -> Iterator[None]:
    """Let sliding windows and chunks be short for a while, so that a short text goes beyond them.

    The masks are built from the configuration at every call, the library's and ours.
    """
    names = ("sliding_window", "attention_chunk_size")
    kept = {name: getattr(config, name) for name in names if getattr(config, name, None)}
    try:
        for name, value in kept.items():
            setattr(config, name, min(value, _WINDOW))
        yield
    finally:
        for name, value in kept.items():
            setattr(config, name, value)


def _refuse(model: Any, name: str, why: str) -> None:
    raise BackendError(
        f"{name} is a {type(model).__name__}, which cannot be drawn from side by side ({why}).",
        advice="Models like Llama, Qwen, Mistral, Gemma, Phi and GPT-2 can; run others by "
        "llama.cpp, from a .gguf file, or behind an endpoint, as openai:MODEL@URL.",
    ) from None
