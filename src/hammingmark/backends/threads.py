"""How many threads a model on the CPU is given."""

from __future__ import annotations

import os
from pathlib import Path


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
