"""Words, and how far two texts differ in them."""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hammingmark.text.words import edit_distance, share_changed, split_words, word_spans

LISTS = st.lists(st.sampled_from("abc"), max_size=12)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", []),
        (" \n — … / ?! ", []),
        ("The cat sat.", ["The", "cat", "sat"]),
        ('"Don\'t," she said (twice).', ["Don't", "she", "said", "twice"]),
        ("well-known and/or dash—word", ["well-known", "and", "or", "dash", "word"]),
        ("它来了。没有人!", ["它", "来", "了", "没", "有", "人"]),
        ("हिन्दी में लिखो।", ["हिन्दी", "में", "लिखो"]),
        ("Привет, мир!", ["Привет", "мир"]),
        ("3.5 feet, 1,000 men", ["3.5", "feet", "1,000", "men"]),
    ],
)
def test_words_are_what_stands_between_spaces_and_marks(text: str, words: list[str]) -> None:
    assert split_words(text) == words


@given(st.text())
def test_spans_are_in_order_and_hold_no_white_space(text: str) -> None:
    end = 0
    for start, stop in word_spans(text):
        assert end <= start < stop
        assert not any(map(str.isspace, text[start:stop]))
        end = stop


@given(LISTS, LISTS)
def test_the_distance_is_the_textbook_one(left: list[str], right: list[str]) -> None:
    @cache
    def distance(i: int, j: int) -> int:
        if not i or not j:
            return i + j
        return min(
            distance(i - 1, j) + 1,
            distance(i, j - 1) + 1,
            distance(i - 1, j - 1) + (left[i - 1] != right[j - 1]),
        )

    assert edit_distance(left, right) == distance(len(left), len(right))


def test_the_share_is_of_the_longer_list() -> None:
    assert share_changed([], []) == 0.0
    assert share_changed(["a"], []) == 1.0
    assert share_changed(["a", "b", "c", "d"], ["a", "x", "c"]) == 0.5


def test_long_texts_are_compared_in_reasonable_time() -> None:
    left = [str(number % 97) for number in range(5000)]
    right = [str(number % 89) for number in range(5000)]
    assert 0 < edit_distance(left, right) <= 5000
