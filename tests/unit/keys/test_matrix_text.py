"""Matrices as text."""

from __future__ import annotations

import numpy as np
import pytest
from tests.errors import raises_naming

from hammingmark.errors import InputError
from hammingmark.keys.matrix_text import LARGEST, array_from_text, array_to_text, is_array_text


def test_a_matrix_survives_its_text() -> None:
    rows = np.random.default_rng(0).standard_normal((3, 5)).astype(np.float16)
    text = array_to_text(rows)
    assert text.startswith("f16:3x5:")
    assert is_array_text(text)
    np.testing.assert_array_equal(array_from_text(text), rows.astype(np.float32))


@pytest.mark.parametrize(
    "text", ["", "f16:1x1:", "f16:1x2:AAA=", "f16:2x2:AAAA", "f16:0x1:AAAA", "f16:1x1:AH4=",
             "f16:999999x999999:AAAA", "ab" * 32, "f16:1x1:AA==AA=="]
)  # fmt: skip
def test_what_is_no_matrix_is_refused_and_not_quoted(text: str) -> None:
    with pytest.raises(InputError) as refused:
        array_from_text(text)
    assert len(text) < 8 or text not in str(refused.value)


def test_a_secret_is_no_matrix() -> None:
    for value in ("ab" * 32, "f16:" + "ab" * 32, "f16:8x4:" + "-" * 64, b"f16:1x1:AAA=", None, 3):
        assert not is_array_text(value)


def test_a_matrix_too_large_for_a_key_is_refused() -> None:
    with raises_naming(InputError, "262,144"):
        array_to_text(np.zeros((2, LARGEST)))
