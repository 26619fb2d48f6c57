"""The tokenizer without a model."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from hammingmark.protocols import Tokenizer
from hammingmark.testing import FakeTokenizer

TOKENIZER = FakeTokenizer()
# Half a surrogate pair is in no text that has bytes.
texts = st.text(st.characters(exclude_categories=["Cs"])) | st.lists(
    st.sampled_from([" the", "river", " river", ".", "\n", "é", " 日本"])
).map("".join)


@given(text=texts)
def test_the_pieces_of_a_text_make_it(text: str) -> None:
    tokens = TOKENIZER.encode(text)
    pieces = TOKENIZER.pieces(tokens)
    assert len(pieces) == len(tokens)
    assert "".join(pieces) == text
    assert all(0 <= token < TOKENIZER.size for token in tokens)


@given(tokens=st.lists(st.integers(0, TOKENIZER.size - 1)))
def test_any_tokens_have_pieces(tokens: list[int]) -> None:
    assert len(TOKENIZER.pieces(tokens)) == len(tokens)


def test_words_of_the_vocabulary_are_one_token_each() -> None:
    assert isinstance(TOKENIZER, Tokenizer)
    assert TOKENIZER.pieces(TOKENIZER.encode("river the river?")) == [
        "river",
        " the",
        " river",
        "?",
    ]
    assert len(set(TOKENIZER.encode("river river"))) == 2  # at the beginning, and after a space
    assert TOKENIZER.pieces(TOKENIZER.encode("zé")) == ["z", "", "é"]


def test_the_fingerprint_is_of_the_vocabulary() -> None:
    small = FakeTokenizer(words=("river",), name="small")
    assert small.size == 258
    assert re.fullmatch("[0-9a-f]{64}", small.fingerprint)
    assert small.fingerprint != TOKENIZER.fingerprint
    assert FakeTokenizer(name="other").fingerprint == TOKENIZER.fingerprint
