"""Settings of the environment: where files are kept, and whether the network may be used.

Only the commands, the service and ``assembly`` read them; the rooms below take folders as
arguments.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from platformdirs import user_cache_path, user_config_path

from hammingmark.models.store import ModelStore, Report

CACHE = "HAMMINGMARK_CACHE"
KEYRING = "HAMMINGMARK_KEYRING"
OFFLINE = "HAMMINGMARK_OFFLINE"


@dataclass(frozen=True, slots=True)
class Environment:
    """The settings of one user on one machine.

    Attributes:
        cache: the folder of models; safe to delete.
        keyring: the folder of secret keys; not safe to delete.
        offline: whether the network is forbidden.
    """

    cache: Path
    keyring: Path
    offline: bool


def read_environment(environ: Mapping[str, str]) -> Environment:
    """Read the environment from variables; an empty variable counts as unset.

    ``HAMMINGMARK_CACHE`` and ``HAMMINGMARK_KEYRING`` name folders, ``~`` allowed.
    ``HAMMINGMARK_OFFLINE`` is on for ``1``, ``true``, ``yes`` and ``on``.
    """
    cache = environ.get(CACHE)
    keyring = environ.get(KEYRING)
    return Environment(
        cache=Path(cache).expanduser() if cache else user_cache_path("hammingmark"),
        keyring=(
            Path(keyring).expanduser() if keyring else user_config_path("hammingmark") / "keys"
        ),
        offline=environ.get(OFFLINE, "").strip().lower() in {"1", "true", "yes", "on"},
    )


def environment_now() -> Environment:
    """The environment of this process."""
    return read_environment(os.environ)


def model_store(
    environment: Environment | None = None, *, progress: Report | None = None
) -> ModelStore:
    """The store of model files on this machine."""
    environment = environment or environment_now()
    return ModelStore(environment.cache, offline=environment.offline, progress=progress)


def keep_offline(store: ModelStore) -> None:
    """Apply the offline switch to the libraries that resolve names on a hub.

    They have their own switch, which they read when they are imported. Without it they ask the hub
    repeatedly before they use local files.
    """
    if not store.offline:
        return
    os.environ["HF_HUB_OFFLINE"] = "1"
    if constants := sys.modules.get("huggingface_hub.constants"):
        vars(constants)["HF_HUB_OFFLINE"] = True
