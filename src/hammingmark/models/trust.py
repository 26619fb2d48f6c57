"""Whether a file in the cache is the pinned one.

A full SHA-256 is taken before a file is first used, and its size, time and inode are written
beside it in ``verified.json``. As long as those stay the same the hash is not taken again: a
start costs a look at the file, not a read of it. This catches cut copies, swapped files and
careless edits. It does not catch a disk that decays in silence, for which there is ``rehash``,
nor someone who may write to the cache, who could change this program as well.
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
    """What was found where a file should be."""

    file: ModelFile
    state: State


def inspect(folder: Path, files: Iterable[ModelFile], *, rehash: bool) -> list[FileCheck]:
    """Check each file against its pinned hash.

    Args:
        folder: where the model's files lie.
        files: the files to look at.
        rehash: read every file again, whatever ``verified.json`` says.
    """
    known = _read(folder)
    fresh: dict[str, Any] = {}
    checks = []
    for file in files:
        state, stamp = _look(folder / file.name, file, None if rehash else known.get(file.name))
        checks.append(FileCheck(file=file, state=state))
        if state == "ok":
            fresh[file.name] = stamp
    if fresh != known and folder.is_dir():
        _write(folder, fresh)
    return checks


def _look(path: Path, file: ModelFile, known: object) -> tuple[State, dict[str, Any]]:
    try:
        stamp = _stamp(path, file.sha256)
        if stamp["size"] != file.size:
            return "corrupt", stamp
        if stamp == known:
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
            f"{path} cannot be read ({error.strerror}); mend its permissions or delete it."
        ) from error


def _stamp(path: Path, sha256: str) -> dict[str, Any]:
    # Taken before the hash: a change during the hash then shows as a difference next time.
    status = path.stat()
    return {
        "sha256": sha256,
        "size": status.st_size,
        "mtime_ns": status.st_mtime_ns,
        "inode": status.st_ino,
    }


def _read(folder: Path) -> dict[str, Any]:
    try:
        known = json.loads((folder / LEDGER).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}


def _write(folder: Path, stamps: dict[str, Any]) -> None:
    # A cache that cannot be written, such as a shared one, only costs the hash again.
    draft = folder / f".ledger-{uuid4().hex}"
    with suppress(OSError):
        try:
            draft.write_text(json.dumps(stamps, indent=1, sort_keys=True), encoding="utf-8")
            draft.replace(folder / LEDGER)
        finally:
            draft.unlink(missing_ok=True)
