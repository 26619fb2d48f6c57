"""The context of local models, the failures when it is full, and their threads."""

from __future__ import annotations

import os
from pathlib import Path

from hammingmark.errors import Failure, InputError


def fitting_context(requested: int | None, *, default: int, trained: int | None, name: str) -> int:
    """The context to use: the requested one, or else the default or the model's if that is less.

    Args:
        requested: tokens that a user asked for, if any.
        default: tokens otherwise.
        trained: tokens for which the model was trained; None if that is unknown.
        name: the name by which a user chose the model.

    Raises:
        InputError: the model was trained for less than was requested.
    """
    if requested is None:
        return min(default, trained or default)
    if requested < 1:
        raise InputError(f"The context must be at least 1 token, not {requested}.")
    if trained and requested > trained:
        raise InputError(
            f"{name} was trained for a context of {trained} tokens; {requested} is too many. "
            f"Choose {trained} or fewer."
        )
    return requested


def prompt_too_long(tokens: int, *, context: int, trained: int | None) -> Failure:
    """The failure of a prompt that does not fit."""
    return Failure(
        "context_overflow",
        # By the first words clients such as LiteLLM recognize it.
        f"This model's maximum context length is {context} tokens, of prompt and text together; "
        f"the prompt has {tokens} tokens. Shorten the prompt.",
        advice=_context_advice(context, trained),
    )


def context_full(*, context: int, trained: int | None) -> Failure:
    """The failure of a text that has filled the context."""
    return Failure(
        "context_overflow",
        f"The prompt and the text fill the context of {context} tokens. Ask for a shorter text.",
        advice=_context_advice(context, trained),
    )


def _context_advice(context: int, trained: int | None) -> str:
    if trained and context >= trained:
        return "This model was trained for no larger context."
    limit = f", up to the {trained} tokens for which this model was trained" if trained else ""
    return f"Or raise the context (--context, or context= in Python){limit}."


def threads_to_use() -> int:
    """One fewer than the cores that this process may use, and at least one.

    Threads that compute one step together wait for the slowest. With a thread for each core, they
    would wait for a thread that is not running as soon as another program needs a core.
    """
    return max(1, available_cores() - 1)


def available_cores(quota: Path = Path("/sys/fs/cgroup/cpu.max")) -> int:
    """The number of cores that this process's affinity and its container's quota allow."""
    affinity = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity else os.cpu_count() or 1
    try:
        share, period = quota.read_text("ascii").split()
        return max(1, min(cores, int(share) // int(period)))
    except (OSError, ValueError):
        return cores  # there is no container, or it has no quota
