"""What every encoder keeps to, as functions that fail with a sentence."""

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

# A network in single precision moves by up to this much in other company.
_TOLERANCE = 1e-5


def encoder_checks() -> list[Callable[[Encoder], None]]:
    """The checks, each named after what it demands of an encoder.

    >>> from hammingmark.testing import FakeEncoder, encoder_checks
    >>> for check in encoder_checks():
    ...     check(FakeEncoder())
    """
    return [each for name, each in globals().items() if name.startswith("check_")]


def check_it_is_an_encoder(encoder: Encoder) -> None:
    """It has every property of the protocol, and each is of use."""
    absent = missing(encoder, Encoder)
    assert not absent, f"it lacks {', '.join(absent)} of protocols.Encoder"
    assert encoder.name, "it has no name"
    assert encoder.dimension >= 1, f"it has {encoder.dimension} dimensions"
    found = encoder.fingerprint
    assert re.fullmatch("[0-9a-f]{64}", found), f"the fingerprint {found!r} is no SHA-256 in hex"


def check_rows_are_unit_vectors(encoder: Encoder) -> None:
    """One row of length one for each sentence, and different ones for different sentences."""
    rows = encoder.encode(SENTENCES)
    _require_unit_rows(rows, (len(SENTENCES), encoder.dimension))
    different = len(np.unique(rows.round(3), axis=0))
    assert different == len(SENTENCES), "different sentences have the same embedding"


def check_a_row_does_not_depend_on_its_company(encoder: Encoder) -> None:
    """Rows stand in the order given, and are the same for a sentence alone."""
    rows = encoder.encode(SENTENCES)
    _require_close(encoder.encode(SENTENCES[::-1])[::-1], rows, "backwards")
    alone = np.concatenate([encoder.encode([sentence]) for sentence in SENTENCES])
    _require_close(alone, rows, "one by one")


def check_no_sentences_give_no_rows(encoder: Encoder) -> None:
    """Shape (0, d)."""
    _require_unit_rows(encoder.encode([]), (0, encoder.dimension))


def check_the_same_sentences_give_the_same_rows(encoder: Encoder) -> None:
    """To the last digits: a runtime may share its work among threads anew each time."""
    rows = encoder.encode(SENTENCES)
    _require_close(encoder.encode(SENTENCES), rows, "a second time", tolerance=1e-6)


def check_similar_sentences_have_similar_rows(encoder: Encoder) -> None:
    """A reworded sentence is nearer than a sentence about something else."""
    rows = encoder.encode(SENTENCES[:3])
    reworded, other = float(rows[0] @ rows[1]), float(rows[0] @ rows[2])
    assert reworded > other, f"cosine {reworded:.3f} to itself reworded, {other:.3f} to another"


def check_any_string_has_a_unit_vector(encoder: Encoder) -> None:
    """Also the empty one, one that is no valid Unicode, and a very long one."""
    for sentence in ODD_SENTENCES:
        _require_unit_rows(encoder.encode([sentence]), (1, encoder.dimension))


def check_a_bare_string_is_refused(encoder: Encoder) -> None:
    """It would be taken for a list of its characters."""
    try:
        encoder.encode("one string")
    except InputError:
        return
    raise AssertionError("encode took a bare string; it must raise InputError")


def _require_unit_rows(rows: FloatArray, shape: tuple[int, int]) -> None:
    assert rows.shape == shape, f"the shape is {rows.shape}, and should be {shape}"
    assert rows.dtype == np.float32, f"the numbers are {rows.dtype}, and should be float32"
    lengths = np.linalg.norm(rows, axis=1)
    assert np.all(np.abs(lengths - 1.0) <= _TOLERANCE), f"rows have the lengths {lengths}"


def _require_close(
    found: FloatArray, rows: FloatArray, how: str, *, tolerance: float = _TOLERANCE
) -> None:
    apart = float(np.abs(found - rows).max())
    assert apart <= tolerance, f"encoded {how}, a row differs by {apart:.2g}"
