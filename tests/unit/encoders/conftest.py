"""Real but tiny models: one table of vectors as an ONNX graph and as safetensors."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file
from tokenizers import Tokenizer, models, pre_tokenizers, processors

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "cat", "sat", "dog", "ran", "mat"]
DIMENSION = 6


def _varint(number: int) -> bytes:
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def _field(number: int, value: int | bytes | str) -> bytes:
    """One field of a protocol-buffer message, of which ONNX files consist."""
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    content = value.encode() if isinstance(value, str) else value
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _value(name: str, kind: int, *shape: str | int) -> bytes:
    sizes = b"".join(
        _field(1, _field(1, size) if isinstance(size, int) else _field(2, size)) for size in shape
    )
    return _field(1, name) + _field(2, _field(1, _field(1, kind) + _field(2, sizes)))


def lookup_graph(vectors: np.ndarray) -> bytes:
    """An ONNX model that returns row ``input_ids`` of the (v, d) vectors."""
    table = _field(1, vectors.shape[0]) + _field(1, vectors.shape[1]) + _field(2, 1)
    table += _field(8, "table") + _field(9, vectors.astype("<f4").tobytes())
    node = _field(1, "table") + _field(1, "input_ids") + _field(2, "hidden") + _field(4, "Gather")
    graph = _field(1, node) + _field(2, "lookup") + _field(5, table)
    for name in ("input_ids", "attention_mask"):
        graph += _field(11, _value(name, 7, "n", "t"))
    graph += _field(12, _value("hidden", 1, "n", "t", vectors.shape[1]))
    return _field(1, 8) + _field(7, graph) + _field(8, _field(1, "") + _field(2, 13))


@pytest.fixture
def vectors() -> np.ndarray:
    """A vector for each word: (10, 6)."""
    return np.random.default_rng(1).standard_normal((len(WORDS), DIMENSION)).astype(np.float32)


@pytest.fixture
def tokenizer() -> Tokenizer:
    """Words between spaces, special tokens at both ends, and padding that must be ignored."""
    vocabulary = {word: index for index, word in enumerate(WORDS)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer.enable_padding(length=128)
    tokenizer.enable_truncation(4)
    return tokenizer


@pytest.fixture
def onnx_folder(tmp_path: Path, vectors: np.ndarray, tokenizer: Tokenizer) -> Path:
    folder = tmp_path / "onnx-model"
    folder.mkdir()
    (folder / "model.onnx").write_bytes(lookup_graph(vectors))
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


@pytest.fixture
def static_folder(tmp_path: Path, vectors: np.ndarray, tokenizer: Tokenizer) -> Path:
    folder = tmp_path / "static-model"
    folder.mkdir()
    save_file({"embeddings": vectors}, folder / "model.safetensors")
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "config.json").write_text(json.dumps({"normalize": True}))
    return folder
