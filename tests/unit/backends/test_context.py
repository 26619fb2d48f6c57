"""Contexts: those in files, requested ones, and failures when they are full."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from hammingmark.backends.gguf_header import trained_context
from hammingmark.backends.local import (
    available_cores,
    context_full,
    fitting_context,
    prompt_too_long,
    threads_to_use,
)
from hammingmark.errors import InputError


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value.encode())) + value.encode()


def header(*entries: bytes, version: int = 3) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", version, 7, len(entries)) + b"".join(entries)


def entry(name: str, kind: int, value: bytes) -> bytes:
    return text(name) + struct.pack("<I", kind) + value


BEFORE = [
    entry("general.architecture", 8, text("llama")),
    entry("general.alignment", 4, struct.pack("<I", 32)),
    entry("general.tags", 9, struct.pack("<IQ", 8, 2) + text("a") + text("é")),
    entry("numbers", 9, struct.pack("<IQ", 6, 3) + struct.pack("<3f", 1, 2, 3)),
]
LENGTH = entry("llama.context_length", 4, struct.pack("<I", 8192))


@pytest.mark.parametrize(
    ("content", "tokens"),
    [
        (header(*BEFORE, LENGTH), 8192),
        (header(*BEFORE), None),
        (header(*BEFORE, LENGTH)[:-3], None),
        (header(LENGTH, version=1), None),
        (header(entry("odd", 77, b"")), None),
        (b"nonsense", None),
        (b"", None),
    ],
)
def test_a_file_says_what_its_model_was_trained_for(
    tmp_path: Path, content: bytes, tokens: int | None
) -> None:
    file = tmp_path / "model.gguf"
    file.write_bytes(content)
    assert trained_context(file) == tokens
    assert trained_context(tmp_path / "absent.gguf") is None


def test_the_context_that_fits() -> None:
    assert fitting_context(None, default=4096, trained=None, name="m") == 4096
    assert fitting_context(None, default=4096, trained=1024, name="m") == 1024
    assert fitting_context(8192, default=4096, trained=8192, name="m") == 8192
    assert fitting_context(9, default=4096, trained=None, name="m") == 9
    with pytest.raises(InputError):
        fitting_context(8193, default=4096, trained=8192, name="m")
    with pytest.raises(InputError):
        fitting_context(0, default=4096, trained=8192, name="m")


def test_a_context_that_is_used_up_names_the_cause_and_the_way_out() -> None:
    long = prompt_too_long(5000, context=4096, trained=8192)
    assert (long.kind, long.origin) == ("context_overflow", "model")
    assert "5000 tokens" in long.summary
    # By these words clients such as LiteLLM tell it from other errors.
    assert long.summary.lower().startswith("this model's maximum context length is 4096 tokens")
    assert "--context" not in long.summary  # clients of a service cannot use it
    assert "--context" in long.advice
    assert "8192" in long.advice
    assert "--context" not in prompt_too_long(9000, context=8192, trained=8192).message
    full = context_full(context=4096, trained=None)
    assert full.kind == "context_overflow"
    assert full.is_about_text
    assert "--context" in full.advice


def test_threads_leave_a_core_to_others(tmp_path: Path) -> None:
    file = tmp_path / "cpu.max"
    cores = available_cores(file)  # there is no such file
    assert cores >= 1
    assert threads_to_use() >= 1
    file.write_text("max 100000\n")
    assert available_cores(file) == cores
    file.write_text("100000 100000\n")
    assert available_cores(file) == 1
    file.write_text("50000 100000\n")
    assert available_cores(file) == 1
