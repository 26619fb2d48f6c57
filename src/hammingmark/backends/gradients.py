"""Steps of a model that is not trained."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch

Step = TypeVar("Step", bound=Callable[..., Any])


def without_gradients(step: Step) -> Step:
    """Run a step without keeping what gradients would need; typed, as torch's own is not."""
    decorated: Step = torch.inference_mode()(step)
    return decorated
