"""Encoders that run here, on tiny models of the real formats."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file
from tests.errors import raises_naming

from hammingmark.encoders.onnx import OnnxEncoder, _uninterrupted
from hammingmark.encoders.sbert import SbertEncoder
from hammingmark.encoders.static import StaticEncoder
from hammingmark.encoders.vectors import unit_rows
from hammingmark.errors import EncoderError, InputError
from hammingmark.protocols import Encoder

SENTENCES = ["the cat sat", "dog", "", "the dog ran the mat the cat sat", "zzz cat"]
# The same as ids, with [CLS] 2 and [SEP] 3 around them and [UNK] 1 for the unknown word.
IDS = [[4, 5, 6], [7], [], [4, 7, 8, 4, 9, 4, 5, 6], [1, 5]]


def test_onnx_mean(onnx_folder: Path, vectors: np.ndarray) -> None:
    encoder = OnnxEncoder(onnx_folder, name="tiny")
    assert isinstance(encoder, Encoder)
    assert (encoder.name, encoder.dimension) == ("tiny", 6)
    expected = unit_rows(np.array([vectors[[2, *ids, 3]].mean(axis=0) for ids in IDS]))
    np.testing.assert_allclose(encoder.encode(SENTENCES), expected, atol=1e-6)
    assert encoder.encode([]).shape == (0, 6)
    assert encoder.encode([]).dtype == np.float32


def test_onnx_options(onnx_folder: Path, vectors: np.ndarray) -> None:
    first = OnnxEncoder(onnx_folder, name="tiny", pooling="cls").encode(["cat"])
    np.testing.assert_allclose(first, unit_rows(vectors[[2]]), atol=1e-6)
    prefixed = OnnxEncoder(onnx_folder, name="tiny", prefix="the ").encode(["cat"])
    plain = OnnxEncoder(onnx_folder, name="tiny").encode(["the cat"])
    np.testing.assert_array_equal(prefixed, plain)
    cut = OnnxEncoder(onnx_folder, name="tiny", max_tokens=4).encode(["the cat sat"])
    np.testing.assert_allclose(cut, plain, atol=1e-6)
    with raises_naming(InputError, "'max'", "'mean'", "'cls'"):
        OnnxEncoder(onnx_folder, name="tiny", pooling="max")  # type: ignore[arg-type]
    with raises_naming(InputError, "max_tokens", 2, 3):
        OnnxEncoder(onnx_folder, name="tiny", max_tokens=2)


def test_onnx_order_and_progress(onnx_folder: Path) -> None:
    encoder = OnnxEncoder(onnx_folder, name="tiny")
    many = [" ".join(["cat"] * (i % 7) + ["dog"] * (i % 5)) for i in range(200)]
    sizes: list[int] = []
    together = encoder.encode(many, progress=sizes.append)
    alone = np.concatenate([encoder.encode([sentence]) for sentence in many])
    np.testing.assert_allclose(together, alone, atol=1e-6)
    assert sum(sizes) == 200


def test_onnx_fingerprint(onnx_folder: Path) -> None:
    def mark(**options: object) -> str:
        return OnnxEncoder(onnx_folder, **{"name": "tiny", **options}).fingerprint  # type: ignore[arg-type]

    plain = mark()
    assert plain == mark(name="other", threads=1)
    options = [
        {"pooling": "cls"},
        {"prefix": "q"},
        {"max_tokens": 9},
        {"hashes": {"model.onnx": "0"}},
    ]
    marks = {plain, *(mark(**option) for option in options)}
    (onnx_folder / "model.onnx_data").write_bytes(b"weights")
    marks.add(mark())
    assert len(marks) == 6
    (onnx_folder / "model.onnx_data").unlink()
    (onnx_folder / "onnx").mkdir()
    (onnx_folder / "model.onnx").rename(onnx_folder / "onnx" / "model.onnx")
    assert mark() == plain


def test_onnx_errors_say_what_to_do(onnx_folder: Path, static_folder: Path) -> None:
    with raises_naming(EncoderError, "model.onnx", static_folder):
        OnnxEncoder(static_folder, name="x").encode(["a"])
    (onnx_folder / "model.onnx").write_bytes(b"not a graph")
    with raises_naming(EncoderError, onnx_folder / "model.onnx"):
        OnnxEncoder(onnx_folder, name="x").encode(["a"])
    (onnx_folder / "tokenizer.json").write_text("{}")
    with raises_naming(EncoderError, "tokenizer.json"):
        OnnxEncoder(onnx_folder, name="x").encode(["a"])
    (onnx_folder / "tokenizer.json").unlink()
    with raises_naming(EncoderError, "tokenizer.json"):
        OnnxEncoder(onnx_folder, name="x").encode(["a"])


def test_static(static_folder: Path, vectors: np.ndarray) -> None:
    encoder = StaticEncoder(static_folder, name="tiny")
    assert isinstance(encoder, Encoder)
    known_ids = [[token for token in ids if token != 1] for ids in IDS]
    means = [vectors[ids].mean(axis=0) if ids else np.zeros(6) for ids in known_ids]
    np.testing.assert_allclose(encoder.encode(SENTENCES), unit_rows(np.array(means)), atol=1e-6)
    assert encoder.encode(["zzz"]).tolist() == [[1, 0, 0, 0, 0, 0]]
    assert encoder.encode([]).shape == (0, 6)
    before = encoder.fingerprint
    save_file({"embeddings": vectors * 2}, static_folder / "model.safetensors")
    assert StaticEncoder(static_folder, name="tiny").fingerprint != before


def test_static_with_a_quantised_vocabulary(static_folder: Path, vectors: np.ndarray) -> None:
    weights = np.linspace(0.5, 2, 10, dtype=np.float32)
    rows = np.array([0, 0, 0, 0, 1, 2, 3, 2, 1, 0])
    save_file(
        {"embeddings": vectors[:4], "weights": weights, "mapping": rows},
        static_folder / "model.safetensors",
    )
    embeddings = StaticEncoder(static_folder, name="tiny").encode(["the cat sat"])
    expected = (vectors[[1, 2, 3]] * weights[[4, 5, 6]][:, None]).mean(axis=0)
    np.testing.assert_allclose(embeddings, unit_rows(expected[None]), atol=1e-6)


def test_static_errors_say_what_to_do(static_folder: Path, vectors: np.ndarray) -> None:
    save_file({"embeddings": vectors[:4]}, static_folder / "model.safetensors")
    with raises_naming(EncoderError, 4, 10, "tokenizer.json"):
        StaticEncoder(static_folder, name="x").encode(["a"])
    save_file({"other": vectors}, static_folder / "model.safetensors")
    with raises_naming(EncoderError, "model.safetensors", "embeddings"):
        StaticEncoder(static_folder, name="x").encode(["a"])
    (static_folder / "model.safetensors").write_bytes(b"junk")
    with raises_naming(EncoderError, static_folder / "model.safetensors"):
        StaticEncoder(static_folder, name="x").encode(["a"])
    (static_folder / "model.safetensors").unlink()
    with raises_naming(EncoderError, static_folder / "model.safetensors"):
        StaticEncoder(static_folder, name="x").encode(["a"])


def test_sbert_without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    encoder = SbertEncoder("some-model")
    assert encoder.name == "some-model"
    with raises_naming(EncoderError, "'sentence-transformers>="):
        encoder.encode(["a"])


def test_an_interrupt_waits_until_a_library_is_imported() -> None:
    done = []

    def work() -> None:
        with _uninterrupted():
            signal.raise_signal(signal.SIGINT)
            done.append(True)

    with pytest.raises(KeyboardInterrupt):
        work()
    assert done
    with pytest.raises(KeyboardInterrupt):  # later interrupts are not deferred
        signal.raise_signal(signal.SIGINT)
