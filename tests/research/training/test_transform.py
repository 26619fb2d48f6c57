"""The network that is trained is the one that is shipped, and does what is asked of it."""

from __future__ import annotations

import numpy as np
import pytest

from hammingmark.artifacts.network import apply_network, balanced_signs
from hammingmark.protocols import FloatArray

torch = pytest.importorskip("torch")

from research.training import transform  # noqa: E402


def clusters(n: int, rng: np.random.Generator) -> FloatArray:
    """Unit rows in four directions, n of each."""
    rows = np.repeat(np.eye(4, 16), n, axis=0) + 0.03 * rng.standard_normal((4 * n, 16))
    units: FloatArray = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    return units


def test_numpy_computes_what_torch_does() -> None:
    torch.manual_seed(0)
    network = transform.Transform(16, width=8, signs=20)
    layers = network.layers()
    parts = (network.first, *network.blocks, network.last)
    for part, (weights, bias) in zip(parts, layers, strict=True):
        part.weight.data, part.bias.data = torch.from_numpy(weights), torch.from_numpy(bias)
    rows = clusters(3, np.random.default_rng(0))
    expected = network(torch.from_numpy(rows)).detach().numpy()
    np.testing.assert_allclose(apply_network(rows, layers), expected, atol=1e-5)


def test_training_keeps_likeness_and_balance() -> None:
    """What is alike gets the same signs, what is not others: far from the edge of either."""
    rng = np.random.default_rng(1)
    network, loss = transform.fit(clusters(40, rng), steps=150, rate=0.006, seed=0, width=16)
    untrained, worse = transform.fit(clusters(40, rng), steps=1, rate=0.0, seed=0, width=16)
    assert loss < 0.8 * worse
    rows = clusters(5, rng)
    within, between = likeness(rows, network)
    _, before = likeness(rows, untrained)
    assert within > 0.85
    assert between < 0.3 < before, "an untrained network gives all of them much the same signs"


def likeness(rows: FloatArray, network: transform.Transform) -> tuple[float, float]:
    """The mean cosine of signs within clusters and between them."""
    signs = balanced_signs(apply_network(rows, network.layers())).reshape(4, 5, -1)
    pairs = [(i, j) for i in range(4) for j in range(i)]
    within = float((signs[:, :1] * signs[:, 1:]).mean())
    return within, float(np.mean([(signs[i, 0] * signs[j, 0]).mean() for i, j in pairs]))


def test_contexts_are_beginnings_of_passages() -> None:
    words = [f"word{number}" for number in range(60)]
    passage = {"id": "1", "genre": "a", "split": "train", "sentences": [" ".join(words) + "."]}
    short = {**passage, "sentences": ["Too short for one chunk."]}
    found = list(transform.contexts_of([passage, short] * 9, np.random.default_rng(0)))  # type: ignore[list-item]
    assert len(found) == 9
    assert {len(each.split()) for each in found} <= {10, 20, 30, 40, 50, 60}
    assert len({len(each) for each in found}) > 1
    assert all(" ".join(words).startswith(each) for each in found)
