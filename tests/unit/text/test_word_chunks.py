"""Contexts in whole chunks of words: the same token by token as in hindsight."""

from __future__ import annotations

from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hammingmark.text.word_chunks import WordChunks
from hammingmark.text.words import settled_words, split_words, word_spans

PIECES = st.lists(
    st.one_of(
        st.sampled_from(
            ["the", " sea", "'s", "-", "—", " (", '"', ".", ",", "\n\n", " ", "/", "e.g.", "…"]
        ),
        st.text(max_size=3),
        st.sampled_from(["港", "は", "静", "か", "。", "é", "\u0301", "ไทย", "🙂", "\u200b"]),
    ),
    max_size=60,
)
CHUNKS = st.builds(WordChunks, length=st.integers(1, 4), most=st.integers(1, 3))


@given(PIECES, CHUNKS)
def test_what_is_written_piece_by_piece_has_the_contexts_that_are_read(
    pieces: list[str], chunks: WordChunks
) -> None:
    """As generation goes: what stands before a piece decides, and requests end at a change."""
    text = "".join(pieces)
    places = [0, *accumulate(len(piece) for piece in pieces)][:-1]
    contexts, which = chunks.contexts(text, places)
    written = asked = ""
    changes = chunks.context_changes(written)
    now = ""
    for place, number, piece in zip(places, which, pieces, strict=True):
        seen = contexts[number] if number >= 0 else ""
        assert chunks.context(text[:place]) == seen
        assert now == seen, "a request went on under another context"
        asked += piece
        if changes(asked):
            written, asked = written + asked, ""
            changes, now = chunks.context_changes(written), chunks.context(written)
    assert list(which) == sorted(which)


@given(PIECES, PIECES)
def test_words_that_are_settled_stay(pieces: list[str], more: list[str]) -> None:
    text, longer = "".join(pieces), "".join(pieces + more)
    settled = list(settled_words(text))
    assert settled == [each for each in settled_words(longer) if each[2] <= len(text)]
    assert [each[:2] for each in settled] == list(word_spans(text))[: len(settled)]
    assert len(split_words(text)) - len(settled) in (0, 1), "the last one alone is not settled"


def test_contexts_are_whole_chunks() -> None:
    text = '"One, two three. Four five-and-six, seven!" Eight'
    chunks = WordChunks(length=2, most=2)
    contexts, which = chunks.contexts(text, range(len(text) + 1))
    assert contexts == ["One, two", "One, two three. Four", "three. Four five-and-six, seven"]
    changes = [text[:place] for place in range(1, len(which)) if which[place] > which[place - 1]]
    assert changes == [
        '"One, two ',
        '"One, two three. Four ',
        '"One, two three. Four five-and-six, seven!" ',
    ]
    assert which[0] == -1
    assert chunks.context("One") == ""


@pytest.mark.parametrize(("text", "words"), [("a b ", 2), ("a b", 1), ("a b.", 1), ("港静", 1)])
def test_a_word_is_settled_when_something_else_follows(text: str, words: int) -> None:
    assert len(list(settled_words(text))) == words
