"""What a GGUF file says about its model, read without loading it."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import BinaryIO

_NUMBERS = {
    0: "<B",
    1: "<b",
    2: "<H",
    3: "<h",
    4: "<I",
    5: "<i",
    6: "<f",
    7: "<?",
    10: "<Q",
    11: "<q",
    12: "<d",
}
_STRING, _ARRAY = 8, 9
_LONGEST = 1 << 24  # bytes of a text


def trained_context(file: Path) -> int | None:
    """Tokens of context that the model was trained for, or None if the file does not say."""
    try:
        with file.open("rb") as stream:
            return _context_length(stream)
    except (
        OSError, struct.error, KeyError, ValueError, OverflowError, MemoryError, RecursionError
    ):  # fmt: skip
        return None  # whoever loads the file will say what is wrong with it


def _context_length(stream: BinaryIO) -> int | None:
    magic, version = stream.read(4), _number(stream, "<I")
    if magic != b"GGUF" or version < 2:
        return None
    _number(stream, "<Q")  # how many tensors
    for _ in range(int(_number(stream, "<Q"))):
        name = _string(stream).decode()
        value = _value(stream, int(_number(stream, "<I")))
        if name.endswith(".context_length") and value is not None:
            return int(value) or None
    return None


def _value(stream: BinaryIO, kind: int) -> float | None:
    """A number, or None for a value that is passed over."""
    if kind == _STRING:
        _string(stream)
    elif kind == _ARRAY:
        inner, count = int(_number(stream, "<I")), int(_number(stream, "<Q"))
        if inner in _NUMBERS:
            stream.seek(count * struct.calcsize(_NUMBERS[inner]), 1)
        else:
            for _ in range(count):
                _value(stream, inner)
    else:
        return _number(stream, _NUMBERS[kind])
    return None


def _string(stream: BinaryIO) -> bytes:
    size = int(_number(stream, "<Q"))
    if size > _LONGEST:
        raise ValueError("no name or text is as long as that")
    return stream.read(size)


def _number(stream: BinaryIO, form: str) -> float:
    value: float = struct.unpack(form, stream.read(struct.calcsize(form)))[0]
    return value
