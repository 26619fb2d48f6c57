"""What every encoder promises, on every encoder of the catalogue that needs no torch."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest

from hammingmark.assembly.encoders import load_encoder
from hammingmark.models.catalogue import CATALOGUE
from hammingmark.models.entries import EncoderCard
from hammingmark.protocols import Encoder
from hammingmark.testing import FakeEncoder, encoder_checks
from hammingmark.testing.encoder_checks import SENTENCES

NAMES = [
    name
    for name, model in CATALOGUE.items()
    if isinstance(model.card, EncoderCard) and model.card.runtime in ("onnx", "static")
]


@cache
def load(name: str) -> Encoder:
    return FakeEncoder() if name == "fake" else load_encoder(name)


@pytest.mark.parametrize("check", encoder_checks())
@pytest.mark.parametrize(
    "name", ["fake", *(pytest.param(name, marks=pytest.mark.slow) for name in NAMES)]
)
def test_every_encoder(name: str, check: Callable[[Encoder], None]) -> None:
    check(load(name))


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_it_is_what_the_catalogue_says(name: str) -> None:
    card = CATALOGUE[name].card
    assert isinstance(card, EncoderCard)
    assert (load(name).name, load(name).dimension) == (name, card.dimension)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_loaded_anew_it_is_the_same(name: str) -> None:
    """To the last digits of float32: a runtime may share its work among threads anew each time."""
    again = load_encoder(name)
    np.testing.assert_allclose(again.encode(SENTENCES), load(name).encode(SENTENCES), atol=1e-6)
    assert again.fingerprint == load(name).fingerprint


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_neighbours_in_meaning_are_neighbours(name: str) -> None:
    river, mill, rates = load(name).encode(
        [SENTENCES[0], "By morning it had reached the mill.", SENTENCES[2]]
    )
    assert river @ mill > river @ rates


@pytest.mark.slow
def test_no_two_have_the_same_fingerprint() -> None:
    assert len({load(name).fingerprint for name in NAMES}) == len(NAMES)
