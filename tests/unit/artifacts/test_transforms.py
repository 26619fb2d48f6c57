"""Networks from embeddings to signs: written, read again, refused, and the shipped one."""

from __future__ import annotations

from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
from tests.errors import raises_naming

from hammingmark.artifacts.card import write_card
from hammingmark.artifacts.network import (
    FORMAT,
    TransformNetwork,
    TransformProvenance,
    apply_network,
    balanced_signs,
    read_transform,
    save_transform,
    shipped_transform,
    transform_for,
)
from hammingmark.errors import InputError
from hammingmark.keys.config import EncoderId
from hammingmark.protocols import FloatArray

ENCODER = EncoderId("test", "cd" * 32, 6)
PROVENANCE = TransformProvenance(9, "ef" * 32, 0, 10, 0.5, "0.1.0", "2.0")


def made(encoder: EncoderId = ENCODER, *, width: int = 4, signs: int = 8) -> TransformNetwork:
    """A network of random weights that 16 bits hold exactly."""
    rng = np.random.default_rng(1)
    shapes = [(width, encoder.dimension), (width, width), (signs, width)]
    layers = tuple(
        (
            (rng.integers(-8, 8, size=shape) / 8).astype(np.float32),
            (rng.integers(-8, 8, size=shape[0]) / 8).astype(np.float32),
        )
        for shape in shapes
    )
    return TransformNetwork(encoder, layers, PROVENANCE)


def shipped() -> TransformNetwork:
    file = files("hammingmark.artifacts") / "networks" / "minilm-mark.safetensors"
    return read_transform(file.read_bytes())


def test_a_network_survives_its_file() -> None:
    network = made()
    content = save_transform(network)
    again = read_transform(content)
    assert content == save_transform(again), "the same network is one file"
    assert (again.encoder, again.provenance, again.size) == (ENCODER, PROVENANCE, 8)
    assert len(again.digest) == 32
    for layer, other in zip(network.layers, again.layers, strict=True):
        for one, two in zip(layer, other, strict=True):
            np.testing.assert_array_equal(one, two)


def test_the_network_is_what_its_layers_say() -> None:
    identity, nothing = np.eye(2, dtype=np.float32), np.zeros(2, np.float32)
    layers = [(identity, nothing), (-identity, np.float32([3.0, 3.0])), (2 * identity, nothing)]
    rows = np.array([[1.0, -1.0], [4.0, 2.0]], np.float32)
    # relu gives (1, 0) and (4, 2); the block adds relu(3 - x): (2, 3) and (0, 1).
    np.testing.assert_array_equal(apply_network(rows, layers), [[6.0, 6.0], [8.0, 6.0]])


def test_signs_are_balanced_around_the_mean_of_a_row() -> None:
    values = np.array([[5.0, 6.0, 7.0, 8.0], [-1.0, -1.0, -1.0, 9.0]])
    np.testing.assert_array_equal(balanced_signs(values), [[-1, -1, 1, 1], [-1, -1, -1, 1]])
    assert balanced_signs(np.empty((0, 4))).shape == (0, 4)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"no file of tensors",
        write_card({}, {"encoder": {}}, kind=FORMAT),
        write_card({"weights0": np.ones((2, 2))}, {}, kind="another"),
        save_transform(made())[:-9],
        save_transform(replace(made(), provenance=replace(PROVENANCE, seed="1"))),  # type: ignore[arg-type]
    ],
)
def test_what_is_no_network_is_refused(content: bytes) -> None:
    with pytest.raises(InputError):
        read_transform(content)


def test_layers_that_do_not_fit_are_refused() -> None:
    first, second, third = made().layers
    for layers in (
        (first,),
        (second, third),
        (first, (second[0], third[1]), third),
        (first, (second[0] * np.nan, second[1]), third),
    ):
        with pytest.raises(InputError):
            replace(made(), layers=layers)


def test_a_network_is_for_its_encoder(tmp_path: Path) -> None:
    file = tmp_path / "mine.safetensors"
    file.write_bytes(save_transform(made()))
    found = transform_for(ENCODER, str(file))
    assert transform_for(ENCODER, str(file), digest=found.digest).digest == found.digest
    with raises_naming(InputError, "mine.safetensors"):
        transform_for(EncoderId("test", "00" * 32, 6), str(file))
    with raises_naming(InputError, "mine.safetensors"):
        transform_for(ENCODER, str(file), digest="0" * 32)
    with raises_naming(InputError, "none"):
        transform_for(ENCODER, str(tmp_path / "none"))
    with raises_naming(InputError, "'test'", "network=projection"):
        transform_for(ENCODER)


def test_the_shipped_network_says_where_it_comes_from() -> None:
    network = shipped()
    assert network.encoder.name == "minilm-mark"
    assert network.size == 300
    assert network.provenance.contexts == 1998
    assert shipped_transform(network.encoder) is not None
    assert shipped_transform(replace(network.encoder, fingerprint="00" * 32)) is None
    assert len(save_transform(network)) < 1 << 20


def near(rows: FloatArray, cosine: float, rng: np.random.Generator) -> FloatArray:
    """Unit rows at about this cosine to others."""
    noise = rng.standard_normal(rows.shape)
    noise /= np.linalg.norm(noise, axis=1, keepdims=True)
    return (cosine * rows + np.sqrt(1 - cosine**2) * noise).astype(np.float32)


def test_the_shipped_network_keeps_likeness() -> None:
    """Means over 300 pairs were 0.91, 0.72, 0.37, 0.00, -0.34 and -0.71, each within 0.02.

    A sign that lies on the edge is one of 60,000.
    """
    layers, rng = shipped().layers, np.random.default_rng(2)
    rows = near(np.zeros((200, 384), np.float32), 0.0, rng)
    signs = balanced_signs(apply_network(rows, layers))
    assert np.abs(signs.mean(axis=1)).max() < 0.2, "half of a context's signs are positive"
    assert np.abs(signs.mean(axis=0)).mean() < 0.3, "half of a dimension's signs are positive"
    kept = []
    for cosine in (0.99, 0.9, 0.5, 0.0, -0.5, -0.9):
        other = balanced_signs(apply_network(near(rows, cosine, rng), layers))
        kept.append(float((signs * other).mean()))
    assert kept == sorted(kept, reverse=True)
    assert kept[0] > 0.85
    assert kept[1] > 0.6
    assert abs(kept[3]) < 0.2
    assert kept[4] < 0.0
