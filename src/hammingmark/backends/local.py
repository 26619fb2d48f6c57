"""How many tokens a model keeps in view, and the failure when they are used up."""

from __future__ import annotations

import os
from pathlib import Path

from hammingmark.errors import Failure, InputError


def fitting_context(asked: int | None, *, default: int, trained: int | None, name: str) -> int:
    """The context to use: what was asked for, or the default as far as the model goes.

    Args:
        asked: tokens that a user asked for, if any.
        default: tokens otherwise.
        trained: tokens that the model was trained for; None if nobody knows.
        name: what a user typed to get the model.

    Raises:
        InputError: the model was trained for less than was asked for.
    """
    if asked is None:
        return min(default, trained or default)
    if asked < 1:
        raise InputError(f"The context is {asked} tokens; give at least 1.")
    if trained and asked > trained:
        raise InputError(
            f"{name} was trained for {trained} tokens of context, and cannot be given {asked}. "
            f"Ask for {trained} or fewer."
        )
    return asked


def prompt_too_long(tokens: int, *, context: int, trained: int | None) -> Failure:
    """The failure of a prompt that does not fit."""
    return Failure(
        "context_overflow",
        f"The prompt has {tokens} tokens, and the context holds {context} with their "
        "continuation. Shorten the prompt.",
        advice=_context_advice(context, trained),
    )


def context_full(*, context: int, trained: int | None) -> Failure:
    """The failure of a text that has used up the context."""
    return Failure(
        "context_overflow",
        f"The prompt and the text have filled the context of {context} tokens. "
        "Ask for a shorter text.",
        advice=_context_advice(context, trained),
    )


def _context_advice(context: int, trained: int | None) -> str:
    if trained and context >= trained:
        return "This model was trained for no more context."
    most = f", up to the {trained} tokens that this model was trained for" if trained else ""
    return f"Or raise the context (--context, or context= in Python){most}."


def threads_to_use() -> int:
    """One fewer than the cores this process may use, and at least one.

    Threads that compute one step together wait for the slowest of them. As soon as another program
    wants a core, a thread for each core means waiting for one that does not run.
    """
    return max(1, available_cores() - 1)


def available_cores(quota: Path = Path("/sys/fs/cgroup/cpu.max")) -> int:
    """Cores that this process may use: by its affinity, and by the quota of its container."""
    affinity = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity else os.cpu_count() or 1
    try:
        most, period = quota.read_text("ascii").split()
        return max(1, min(cores, int(most) // int(period)))
    except (OSError, ValueError):
        return cores  # no container, or one without a quota
