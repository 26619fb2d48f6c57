"""What this machine and this user decide."""

from __future__ import annotations

import os
import sys

from hammingmark.environment import Environment, read_environment
from hammingmark.store.store import ModelStore, Report


def environment_now() -> Environment:
    """What the environment says."""
    return read_environment(os.environ)


def model_store(
    environment: Environment | None = None, *, progress: Report | None = None
) -> ModelStore:
    """The store of model files on this machine."""
    environment = environment or environment_now()
    return ModelStore(environment.cache, offline=environment.offline, progress=progress)


def keep_offline(store: ModelStore) -> None:
    """Have the libraries that resolve names on a hub keep to the offline switch too.

    They have a switch of their own, read when they are imported; until it is set they ask the hub
    again and again before they look at what is here.
    """
    if not store.offline:
        return
    os.environ["HF_HUB_OFFLINE"] = "1"
    if constants := sys.modules.get("huggingface_hub.constants"):
        vars(constants)["HF_HUB_OFFLINE"] = True
