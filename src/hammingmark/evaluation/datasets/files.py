"""Records of data sets from files: JSON Lines, plain or compressed, and Arrow."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hammingmark.errors import InputError
from hammingmark.registry import require_libraries

Record = dict[str, Any]

JSON_LINES = (".jsonl", ".jsonl.gz", ".ndjson")
ARROW = (".arrow", ".feather")


def read_records(path: Path) -> list[Record]:
    """The records of a file, or of all files of a folder in the order of their names.

    Args:
        path: JSON Lines or Arrow, as `datasets.Dataset.save_to_disk` writes it, or a folder of
            such files.

    Raises:
        InputError: the path is missing, cannot be read, or is in another format.
    """
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if file.name.endswith(JSON_LINES + ARROW))
        if not files:
            raise InputError(f"The folder {path} contains no JSON Lines or Arrow file.")
        return [record for file in files for record in read_records(file)]
    try:
        if path.name.endswith(JSON_LINES):
            return list(_json_lines(path))
        if path.name.endswith(ARROW):
            return _arrow(path)
    except OSError as error:
        raise InputError(f"Cannot read {path}: {error.strerror or error}.") from None
    except UnicodeDecodeError:
        raise InputError(f"{path} is not UTF-8.") from None
    raise InputError(f"{path} is not a JSON Lines or Arrow file; use a .jsonl or .arrow file.")


def _json_lines(path: Path) -> Iterator[Record]:
    open_file = gzip.open if path.suffix == ".gz" else open
    with open_file(path, "rt", encoding="utf-8") as file:
        for number, line in enumerate(file, start=1):
            if line.strip():
                try:
                    record = json.loads(line)
                except ValueError as error:
                    raise InputError(f"{path}:{number} is not JSON: {error}.") from None
                if not isinstance(record, dict):
                    raise InputError(f"{path}:{number} is not a JSON object.")
                yield record


def _arrow(path: Path) -> list[Record]:
    require_libraries(["pyarrow"], part="Reading an Arrow file", extra="bench", error=InputError)
    import pyarrow

    with pyarrow.memory_map(str(path)) as source:
        try:
            table = pyarrow.ipc.open_file(source).read_all()
        except pyarrow.ArrowInvalid:  # the streaming format, which has no footer
            source.seek(0)
            try:
                table = pyarrow.ipc.open_stream(source).read_all()
            except pyarrow.ArrowInvalid as error:
                raise InputError(f"{path} is not an Arrow file: {error}.") from None
        records: list[Record] = table.to_pylist()
    return records
