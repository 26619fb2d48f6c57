"""Check that files in the cache match their pinned hashes.

The SHA-256 of a file is computed before its first use, and the file's size, time and inode are
saved beside it in ``verified.json``. The hash is not computed again while these stay the same, so
that a start does not read the file. This detects truncated copies, swapped files and accidental
edits. It does not detect silent corruption of a disk, for which there is ``rehash``, nor an
attacker who can write to the cache and could change this program as well.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from uuid import uuid4

from hammingmark.errors import ModelUnavailable
from hammingmark.models.entries import ModelFile
from hammingmark.models.sources import blocks

State = Literal["ok", "missing", "corrupt"]
LEDGER = "verified.json"


@dataclass(frozen=True, slots=True)
class FileCheck:
    """The state of a file in the cache."""

    file: ModelFile
    state: State


def inspect(folder: Path, files: Iterable[ModelFile], *, rehash: bool) -> list[FileCheck]:
    """Check each file against its pinned hash.

    Args:
        folder: of the model.
        files: to check.
        rehash: read every file again, whatever ``verified.json`` says.
    """
    old_stamps = _read(folder)
    stamps: dict[str, Any] = {}
    checks = []
    for file in files:
        old_stamp = None if rehash else old_stamps.get(file.name)
        state, stamp = _check(folder / file.name, file, old_stamp)
        checks.append(FileCheck(file=file, state=state))
        if state == "ok":
            stamps[file.name] = stamp
    if stamps != old_stamps and folder.is_dir():
        _write(folder, stamps)
    return checks


def _check(path: Path, file: ModelFile, old_stamp: object) -> tuple[State, dict[str, Any]]:
    try:
        stamp = _stamp(path, file.sha256)
        if stamp["size"] != file.size:
            return "corrupt", stamp
        if stamp == old_stamp:
            return "ok", stamp
        with path.open("rb") as stream:
            digest = hashlib.sha256()
            for block in blocks(stream):
                digest.update(block)
        return ("ok" if digest.hexdigest() == file.sha256 else "corrupt"), stamp
    except (FileNotFoundError, NotADirectoryError):
        return "missing", {}
    except OSError as error:
        raise ModelUnavailable(
            f"Cannot read {path} ({error.strerror}). Fix its permissions or delete it."
        ) from error


def _stamp(path: Path, sha256: str) -> dict[str, Any]:
    # Taken before the hash, so that a change meanwhile appears as a difference next time.
    status = path.stat()
    return {
        "sha256": sha256,
        "size": status.st_size,
        "mtime_ns": status.st_mtime_ns,
        "inode": status.st_ino,
    }


def _read(folder: Path) -> dict[str, Any]:
    try:
        stamps = json.loads((folder / LEDGER).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return stamps if isinstance(stamps, dict) else {}


def _write(folder: Path, stamps: dict[str, Any]) -> None:
    # If the cache is read-only, such as a shared one, the hash is computed again next time.
    draft = folder / f".ledger-{uuid4().hex}"
    with suppress(OSError):
        try:
            draft.write_text(json.dumps(stamps, indent=1, sort_keys=True), encoding="utf-8")
            draft.replace(folder / LEDGER)
        finally:
            draft.unlink(missing_ok=True)
