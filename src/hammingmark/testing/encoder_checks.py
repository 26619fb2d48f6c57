"""The contract of every encoder, as checks that fail with a message."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np

from hammingmark.errors import InputError
from hammingmark.protocols import Encoder, FloatArray
from hammingmark.testing.members import missing

SENTENCES = [
    "The river rose in the night.",
    "In the night the old river rose.",
    "Interest rates fell for the third time this year.",
    "Oui.",
    "A sentence that is a good deal longer than the others, so that padding has something to do.",
]
ODD_SENTENCES = ["", " ", "\x00", "\ud800", "\U0001f600", "x" * 50_000]

# In single precision, an embedding varies by up to this much with the other rows of its batch.
_TOLERANCE = 1e-5


def encoder_checks() -> list[Callable[[Encoder], None]]:
    """The checks, each named after its requirement.

    >>> from hammingmark.testing import FakeEncoder, encoder_checks
    >>> for check in encoder_checks():
    ...     check(FakeEncoder())
    """
    return [check for name, check in globals().items() if name.startswith("check_")]


def check_it_is_an_encoder(encoder: Encoder) -> None:
    """An encoder has every member of the protocol, with valid values."""
    absent = missing(encoder, Encoder)
    assert not absent, f"it lacks {', '.join(absent)} of protocols.Encoder"
    assert encoder.name, "it has no name"
    assert encoder.dimension >= 1, f"it has {encoder.dimension} dimensions"
    fingerprint = encoder.fingerprint
    assert re.fullmatch("[0-9a-f]{64}", fingerprint), (
        f"the fingerprint {fingerprint!r} is not a SHA-256 in hex"
    )


def check_rows_are_unit_vectors(encoder: Encoder) -> None:
    """Each sentence gives one row of length one, and different sentences give different rows."""
    rows = encoder.encode(SENTENCES)
    _require_unit_rows(rows, (len(SENTENCES), encoder.dimension))
    different = len(np.unique(rows.round(3), axis=0))
    assert different == len(SENTENCES), "different sentences have the same embedding"


def check_a_row_does_not_depend_on_the_others(encoder: Encoder) -> None:
    """Rows are in the order of the sentences, and the same for a sentence alone."""
    rows = encoder.encode(SENTENCES)
    _require_close(encoder.encode(SENTENCES[::-1])[::-1], rows, "in reverse order")
    alone = np.concatenate([encoder.encode([sentence]) for sentence in SENTENCES])
    _require_close(alone, rows, "one by one")


def check_no_sentences_give_no_rows(encoder: Encoder) -> None:
    """Without sentences the shape is (0, d)."""
    _require_unit_rows(encoder.encode([]), (0, encoder.dimension))


def check_the_same_sentences_give_the_same_rows(encoder: Encoder) -> None:
    """Rows repeat up to their last digits: a runtime may divide its work differently."""
    rows = encoder.encode(SENTENCES)
    _require_close(encoder.encode(SENTENCES), rows, "a second time", tolerance=1e-6)


def check_similar_sentences_have_similar_rows(encoder: Encoder) -> None:
    """A reworded sentence is nearer than a sentence on another topic."""
    rows = encoder.encode(SENTENCES[:3])
    reworded, other = float(rows[0] @ rows[1]), float(rows[0] @ rows[2])
    assert reworded > other, (
        f"cosine {reworded:.3f} to a rewording, {other:.3f} to another sentence"
    )


def check_any_string_has_a_unit_vector(encoder: Encoder) -> None:
    """This includes the empty string, invalid Unicode, and a very long string."""
    for sentence in ODD_SENTENCES:
        _require_unit_rows(encoder.encode([sentence]), (1, encoder.dimension))


def check_a_bare_string_is_refused(encoder: Encoder) -> None:
    """A single string is refused, because it would be read as a list of characters."""
    try:
        encoder.encode("one string")
    except InputError:
        return
    raise AssertionError("encode accepted a bare string; it must raise InputError")


def _require_unit_rows(rows: FloatArray, shape: tuple[int, int]) -> None:
    assert rows.shape == shape, f"the shape is {rows.shape}, not {shape}"
    assert rows.dtype == np.float32, f"the rows are {rows.dtype}, not float32"
    lengths = np.linalg.norm(rows, axis=1)
    assert np.all(np.abs(lengths - 1.0) <= _TOLERANCE), f"rows have lengths {lengths}, not 1"


def _require_close(
    rows: FloatArray, expected: FloatArray, how: str, *, tolerance: float = _TOLERANCE
) -> None:
    difference = float(np.abs(rows - expected).max())
    assert difference <= tolerance, f"encoded {how}, a row differs by {difference:.2g}"
