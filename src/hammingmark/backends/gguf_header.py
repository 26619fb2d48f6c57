"""The metadata of a GGUF file, read without loading the model."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import BinaryIO

_NUMBER_FORMATS = {
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
_LONGEST_STRING = 1 << 24  # bytes


def trained_context(file: Path) -> int | None:
    """The context for which the model was trained, in tokens; None if the file does not say."""
    try:
        with file.open("rb") as stream:
            return _context_length(stream)
    except (
        OSError, struct.error, KeyError, ValueError, OverflowError, MemoryError, RecursionError
    ):  # fmt: skip
        return None  # llama.cpp reports what is wrong when it loads the file


def _context_length(stream: BinaryIO) -> int | None:
    magic, version = stream.read(4), _number(stream, "<I")
    if magic != b"GGUF" or version < 2:
        return None
    _number(stream, "<Q")  # number of tensors
    for _ in range(int(_number(stream, "<Q"))):
        name = _string(stream).decode()
        value = _value(stream, int(_number(stream, "<I")))
        if name.endswith(".context_length") and value is not None:
            return int(value) or None
    return None


def _value(stream: BinaryIO, kind: int) -> float | None:
    """Read a value: a number, or None for a value of another kind, which is skipped."""
    if kind == _STRING:
        _string(stream)
    elif kind == _ARRAY:
        element, count = int(_number(stream, "<I")), int(_number(stream, "<Q"))
        if element in _NUMBER_FORMATS:
            stream.seek(count * struct.calcsize(_NUMBER_FORMATS[element]), 1)
        else:
            for _ in range(count):
                _value(stream, element)
    else:
        return _number(stream, _NUMBER_FORMATS[kind])
    return None


def _string(stream: BinaryIO) -> bytes:
    size = int(_number(stream, "<Q"))
    if size > _LONGEST_STRING:
        raise ValueError("the string is too long")
    return stream.read(size)


def _number(stream: BinaryIO, number_format: str) -> float:
    value: float = struct.unpack(number_format, stream.read(struct.calcsize(number_format)))[0]
    return value
