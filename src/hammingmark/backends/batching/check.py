"""Check that a model gives the same logits in slots as alone.

A model that ignores the positions passed to it, keeps a state other than keys and values, or builds
masks of its own would write nonsense in slots without any error. Therefore each model is checked
when it is loaded, on two sequences of different lengths in one batch.
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
_LAST = 3  # tokens that are fed one by one, like drawn tokens
_WINDOW = 8  # shorter than the longer sequence, so that sliding windows take effect


def require_equal_logits(model: Any, *, name: str) -> None:
    """Refuse a model whose logits differ in slots.

    Raises:
        BackendError: names the model's architecture and says what to use instead.
    """
    try:
        with _short_windows(model.config.get_text_config()):
            difference = logits_difference(model)
    except Exception as error:
        # A model of another kind may raise anything when it is called in this way.
        _refuse(model, name, " ".join(f"{type(error).__name__}: {error}".split())[:200])
    # The limits allow for rounding; wrong masks or positions cause far larger differences.
    if not difference < (1e-3 if model.dtype == torch.float32 else 0.15):
        _refuse(model, name, f"its logits would differ by {difference:.1%}")


@without_gradients
def logits_difference(model: Any) -> float:
    """The largest difference between logits in slots and alone, relative to their spread."""
    size = model.config.get_text_config().vocab_size
    generator = torch.Generator().manual_seed(0)
    sequences = [
        torch.randint(size, (length,), generator=generator).tolist() for length in _LENGTHS
    ]
    slots = BatchEngine(model, slots=3, length=max(_LENGTHS) + 1)
    batched = slots.logits(sequences, last=_LAST)
    worst = 0.0
    for row, tokens in zip(batched, sequences, strict=True):
        inputs = torch.tensor([tokens], device=model.device)
        alone = model(input_ids=inputs, use_cache=False).logits[0, -_LAST:].float()
        spread = (alone - alone.mean(dim=-1, keepdim=True)).norm()
        worst = max(worst, float((row - alone).norm() / spread)) if spread > 0 else float("nan")
    return worst


@contextmanager
def _short_windows(config: Any) -> Iterator[None]:
    """Temporarily shorten sliding windows and chunks, so that a short text exceeds them.

    Both the library and `attention_masks` read the configuration at every call.
    """
    names = ("sliding_window", "attention_chunk_size")
    values = {name: getattr(config, name) for name in names if getattr(config, name, None)}
    try:
        for name, value in values.items():
            setattr(config, name, min(value, _WINDOW))
        yield
    finally:
        for name, value in values.items():
            setattr(config, name, value)


def _refuse(model: Any, name: str, reason: str) -> None:
    raise BackendError(
        f"{name} is a {type(model).__name__}, which this backend cannot batch ({reason}).",
        advice="It supports models such as Llama, Qwen, Mistral, Gemma, Phi and GPT-2. Run others "
        "with llama.cpp, from a .gguf file, or behind an endpoint, as openai:MODEL@URL.",
    ) from None
