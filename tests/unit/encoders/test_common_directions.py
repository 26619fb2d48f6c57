"""Removing directions that all sentences share from their embeddings."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file
from tests.errors import raises_naming

from hammingmark.encoders.onnx import OnnxEncoder
from hammingmark.encoders.static import StaticEncoder
from hammingmark.encoders.vectors import FILE, CommonDirections, load_common
from hammingmark.errors import EncoderError

SENTENCES = ["the cat sat", "dog", "the dog ran the mat", "ran ran mat"]


def common(d: int, k: int, *, seed: int = 0) -> dict[str, np.ndarray]:
    """A mean (d,) and k orthonormal directions, as in a file."""
    rng = np.random.default_rng(seed)
    rows = np.linalg.qr(rng.standard_normal((d, k)))[0].T
    return {
        "mean": (0.3 * rng.standard_normal(d) / np.sqrt(d)).astype(np.float32),
        "directions": np.ascontiguousarray(rows, np.float32),
    }


def test_nothing_is_left_of_the_directions_and_rows_have_length_one() -> None:
    """In single precision, of which 1e-6 is several units in the last place of 1."""
    shared = CommonDirections(**common(32, 3))
    rows = np.random.default_rng(1).standard_normal((50, 32)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    assert np.abs(rows @ shared.directions.T).max() > 0.3
    rest = shared.remove(rows)
    assert rest.dtype == np.float32
    assert np.abs(rest @ shared.directions.T).max() < 1e-6
    np.testing.assert_allclose(np.linalg.norm(rest, axis=1), 1.0, atol=1e-6)
    # The rest is the row minus the mean, without its part along the directions.
    off = np.eye(32) - shared.directions.T @ shared.directions
    expected = (rows - shared.mean) @ off
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(rest, expected, atol=1e-6)


def test_a_mean_alone_is_taken_off_too() -> None:
    shared = CommonDirections(np.array([0.5, 0.0, 0.0], np.float32), np.empty((0, 3), np.float32))
    rest = shared.remove(np.array([[0.8, 0.6, 0.0]], np.float32))
    np.testing.assert_allclose(rest, [[0.3 / 0.45**0.5, 0.6 / 0.45**0.5, 0.0]], atol=1e-6)


@pytest.mark.parametrize("kind", ["onnx", "static"])
def test_an_encoder_takes_them_off_where_its_folder_has_them(
    kind: str, onnx_folder: Path, static_folder: Path
) -> None:
    folder = onnx_folder if kind == "onnx" else static_folder
    encoder_class = OnnxEncoder if kind == "onnx" else StaticEncoder
    plain = encoder_class(folder, name="tiny").encode(SENTENCES)
    tensors = common(6, 2)
    save_file(tensors, folder / FILE)
    embeddings = encoder_class(folder, name="tiny").encode(SENTENCES)
    assert np.abs(embeddings @ tensors["directions"].T).max() < 1e-6
    np.testing.assert_array_equal(embeddings, CommonDirections(**tensors).remove(plain))


@pytest.mark.parametrize("kind", ["onnx", "static"])
def test_the_fingerprint_tells_of_the_file_and_of_nothing_without_it(
    kind: str, onnx_folder: Path, static_folder: Path
) -> None:
    folder = onnx_folder if kind == "onnx" else static_folder
    encoder_class = OnnxEncoder if kind == "onnx" else StaticEncoder
    plain = encoder_class(folder, name="tiny").fingerprint
    save_file(common(6, 2), folder / FILE)
    first = encoder_class(folder, name="tiny").fingerprint
    save_file(common(6, 2, seed=1), folder / FILE)
    second = encoder_class(folder, name="tiny").fingerprint
    assert len({plain, first, second}) == 3
    assert encoder_class(folder, name="tiny").fingerprint == second
    (folder / FILE).unlink()
    assert encoder_class(folder, name="tiny").fingerprint == plain


def test_a_folder_need_not_have_any(tmp_path: Path) -> None:
    assert load_common(tmp_path, dimension=6) is None
    save_file(common(6, 2), tmp_path / FILE)
    assert load_common(tmp_path, dimension=6) is not None


def test_a_damaged_file_is_an_error_that_says_what_to_do(static_folder: Path) -> None:
    save_file(common(6, 2), static_folder / FILE)
    whole = (static_folder / FILE).read_bytes()
    for content in (b"junk", b"", whole[:-8]):
        (static_folder / FILE).write_bytes(content)
        with raises_naming(EncoderError, "common.safetensors"):
            StaticEncoder(static_folder, name="tiny").encode(SENTENCES)
    for name in ("mean", "directions"):
        parts = common(6, 2)
        del parts[name]
        save_file(parts, static_folder / FILE)
        with raises_naming(EncoderError, "common.safetensors", name):
            StaticEncoder(static_folder, name="tiny").encode(SENTENCES)


@pytest.mark.parametrize(
    "parts",
    [
        common(7, 2),
        {**common(6, 2), "mean": np.zeros(7, np.float32)},
        {**common(6, 2), "directions": np.zeros((2, 7), np.float32)},
        {**common(6, 2), "directions": np.zeros(6, np.float32)},
        {**common(6, 2), "directions": np.zeros((1, 2, 6), np.float32)},
    ],
    ids=["both", "mean", "directions", "one row", "three axes"],
)
def test_a_file_of_another_encoder_is_an_error(
    static_folder: Path, parts: dict[str, np.ndarray]
) -> None:
    save_file(parts, static_folder / FILE)
    with raises_naming(EncoderError, "common.safetensors", 6):
        StaticEncoder(static_folder, name="tiny").encode(SENTENCES)
