"""What every encoder promises, on every encoder of the catalogue that needs no torch."""

from __future__ import annotations

import re
from functools import cache

import numpy as np
import pytest

from hammingmark.assembly.encoders import load_encoder
from hammingmark.errors import InputError
from hammingmark.protocols import Encoder
from hammingmark.store.catalogue import CATALOGUE
from hammingmark.store.models import EncoderCard

pytestmark = pytest.mark.slow

NAMES = [
    name
    for name, model in CATALOGUE.items()
    if isinstance(model.card, EncoderCard) and model.card.runtime in ("onnx", "static")
]
SENTENCES = [
    "The river rose in the night.",
    "By morning it had reached the mill.",
    "Interest rates fell for the third time this year.",
    "Oui.",
    "A sentence that is a good deal longer than the others, so that padding has something to do.",
]


@cache
def load(name: str) -> Encoder:
    return load_encoder(name)


@pytest.fixture(params=NAMES)
def encoder(request: pytest.FixtureRequest) -> Encoder:
    return load(str(request.param))


def test_it_is_what_it_says(encoder: Encoder) -> None:
    assert isinstance(encoder, Encoder)
    card = CATALOGUE[encoder.name].card
    assert isinstance(card, EncoderCard)
    assert encoder.dimension == card.dimension


def test_rows_are_unit_vectors_in_the_order_given(encoder: Encoder) -> None:
    rows = encoder.encode(SENTENCES)
    assert rows.shape == (len(SENTENCES), encoder.dimension)
    assert rows.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1.0, atol=1e-5)
    backwards = encoder.encode(SENTENCES[::-1])
    np.testing.assert_allclose(backwards[::-1], rows, atol=1e-5)
    alone = np.concatenate([encoder.encode([sentence]) for sentence in SENTENCES])
    np.testing.assert_allclose(alone, rows, atol=1e-5)
    assert len(np.unique(rows.round(3), axis=0)) == len(SENTENCES)


def test_no_sentences_give_no_rows(encoder: Encoder) -> None:
    assert encoder.encode([]).shape == (0, encoder.dimension)


def test_the_same_sentences_give_the_same_rows(encoder: Encoder) -> None:
    """To the last digits of float32: a runtime may share its work among threads anew each time."""
    rows = encoder.encode(SENTENCES)
    np.testing.assert_allclose(encoder.encode(SENTENCES), rows, atol=1e-6)
    np.testing.assert_allclose(load_encoder(encoder.name).encode(SENTENCES), rows, atol=1e-6)


def test_neighbours_in_meaning_are_neighbours(encoder: Encoder) -> None:
    rows = encoder.encode(SENTENCES[:3])
    assert rows[0] @ rows[1] > rows[0] @ rows[2]


@pytest.mark.parametrize("sentence", ["", " ", "\x00", "\ud800", "\U0001f600", "x" * 50_000])
def test_any_string_has_a_unit_vector(encoder: Encoder, sentence: str) -> None:
    [row] = encoder.encode([sentence])
    assert np.linalg.norm(row) == pytest.approx(1.0, abs=1e-5)


def test_a_bare_string_is_refused(encoder: Encoder) -> None:
    with pytest.raises(InputError, match=r"\[sentence\]"):
        encoder.encode("one string")


def test_a_fingerprint_is_a_hash_that_no_other_encoder_has() -> None:
    prints = {load(name).fingerprint for name in NAMES}
    assert len(prints) == len(NAMES)
    assert all(re.fullmatch("[0-9a-f]{64}", each) for each in prints)
    assert {load_encoder(name).fingerprint for name in NAMES} == prints
