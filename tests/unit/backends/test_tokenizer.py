"""Tokens to text, piece by piece."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("transformers")
tokenizers = pytest.importorskip("tokenizers")

from transformers import PreTrainedTokenizerFast  # noqa: E402

from hammingmark.backends.tokenizer import added_text  # noqa: E402


@pytest.fixture
def tokenizer() -> Any:
    """One that leaves out the space of a word that nothing stands before, like Llama 2's."""
    words = {"<unk>": 0, "▁The": 1, "▁harbour": 2, "▁slept": 3, ".": 4}
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="<unk>"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
    made.decoder = tokenizers.decoders.Metaspace()
    return PreTrainedTokenizerFast(tokenizer_object=made)


def test_a_word_keeps_its_space_behind_another(tokenizer: Any) -> None:
    assert added_text(tokenizer, [3], told=0) == "slept", "otherwise this test tries nothing"
    assert added_text(tokenizer, [3], told=0, behind=[1, 2]) == " slept"
    assert added_text(tokenizer, [3, 4], told=1, behind=[1, 2]) == "."
    assert added_text(tokenizer, [2, 3, 2, 3, 2, 3], told=5, behind=[1]) == " slept"


def test_the_pieces_of_stages_are_those_of_one_draw(tokenizer: Any) -> None:
    tokens = [1, 2, 3, 4, 1, 2, 3, 4]
    whole = tokenizer.decode(tokens)
    text = ""
    for place in range(len(tokens)):
        text += (
            added_text(tokenizer, tokens[place : place + 1], told=0, behind=tokens[:place]) or ""
        )
    assert text == whole
