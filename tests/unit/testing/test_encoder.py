"""An encoder without a model."""

from __future__ import annotations

import hashlib

import numpy as np

from hammingmark.testing import FakeEncoder


def test_embeddings_are_the_same_on_every_machine() -> None:
    rows = FakeEncoder(dimension=16, seed=3).encode(["The river rose.", "", "Ça va, \ud800?"])
    digest = hashlib.sha256(rows.astype("<f4").tobytes()).hexdigest()
    assert digest[:16] == "59e08b3327f77a6c"


def test_sentences_are_as_similar_as_they_share_words() -> None:
    rows = FakeEncoder(dimension=4096).encode(
        ["Old stone bridge fell.", "Stone bridge: FELL, old!", "Old stone bridge rose.", "Nobody."]
    )
    # Directions of unrelated words have cosines of 1/64, one standard deviation.
    np.testing.assert_allclose(rows[0] @ rows.T, [1.0, 1.0, 0.75, 0.0], atol=0.1)


def test_the_fingerprint_is_of_what_decides_an_embedding() -> None:
    kinds = [FakeEncoder(), FakeEncoder(dimension=32), FakeEncoder(seed=1)]
    assert len({each.fingerprint for each in kinds}) == 3
    assert FakeEncoder(name="other").fingerprint == FakeEncoder().fingerprint
    first, other = (each.encode(["It rose."]) for each in kinds[::2])
    assert not np.allclose(first, other)


def test_what_was_embedded_is_recorded() -> None:
    encoder = FakeEncoder()
    encoder.encode(["One.", "Two."])
    encoder.encode(["Three."])
    assert encoder.encoded == ["One.", "Two.", "Three."]
