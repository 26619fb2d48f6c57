"""Deleting, inserting and swapping words."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.errors import raises_naming

from hammingmark.attacks.base import TextAttack
from hammingmark.attacks.word_spans import match_case, prose_words
from hammingmark.attacks.words import DeleteWords, InsertWords, SwapWords
from hammingmark.errors import InputError
from hammingmark.text.words import split_words

TEXT = "The river rose in the night, and by morning it had reached the old mill."
CODE = "Look at this.\n\n```python\nx = do_it(now)  # not a word\n```\n\nSee `run it` or a@b.org."


def once(attack: TextAttack, text: str, seed: int = 0) -> str:
    return attack.apply([text], rng=np.random.default_rng(seed))[0]


@pytest.mark.parametrize("share", [0.0, 0.05, 0.33, 0.5])
@pytest.mark.parametrize("kind", [DeleteWords, InsertWords])
def test_the_share_is_kept_on_average(
    kind: type[DeleteWords] | type[InsertWords], share: float
) -> None:
    before = len(split_words(TEXT))
    counts = [len(split_words(once(kind(share=share), TEXT, seed))) - before for seed in range(300)]
    # A whole number next to the expected one is drawn: its deviation is at most a half.
    assert abs(np.mean(counts)) == pytest.approx(share * before, abs=4 * 0.5 / 300**0.5)


def test_a_swap_moves_two_words_and_the_share_is_kept() -> None:
    moved = []
    for seed in range(200):
        new = split_words(once(SwapWords(share=0.3), TEXT, seed))
        old = split_words(TEXT)
        assert sorted(new) == sorted(old)
        moved.append(sum(a != b for a, b in zip(old, new, strict=True)))
    assert np.mean(moved) == pytest.approx(0.3 * len(split_words(TEXT)), abs=4 * 1.0 / 200**0.5)


def test_deleting_everything_leaves_the_marks() -> None:
    assert once(DeleteWords(share=1.0), "One, two.") == ",."
    assert once(DeleteWords(share=1.0), "Alone") == ""


def test_no_double_space_is_left() -> None:
    for seed in range(50):
        assert "  " not in once(DeleteWords(share=0.4), TEXT, seed)
        assert "  " not in once(InsertWords(share=0.4), TEXT, seed)


def test_inserted_words_come_from_the_list_or_from_the_text() -> None:
    new = split_words(once(InsertWords(share=1.0, words=("quince",)), "a b c"))
    assert new == ["a", "quince", "b", "quince", "c", "quince"]
    own = split_words(once(InsertWords(share=1.0), TEXT))
    assert set(own) == set(split_words(TEXT))


def test_a_swap_stays_inside_a_clause() -> None:
    for seed in range(30):
        assert once(SwapWords(share=1.0), "a b, c d", seed) in ("b a, d c", "b a, c d", "a b, d c")
    assert once(SwapWords(share=1.0), "a. b. c.") == "a. b. c."
    assert once(SwapWords(share=1.0), "a\nb") == "a\nb"


@pytest.mark.parametrize(
    "attack", [DeleteWords(share=1.0), InsertWords(share=1.0, words=("zz",)), SwapWords(share=1.0)]
)
def test_code_and_addresses_are_left_alone(attack: TextAttack) -> None:
    new = once(attack, CODE)
    assert "```python\nx = do_it(now)  # not a word\n```" in new
    assert "`run it`" in new
    assert "a@b.org" in new


def test_which_words_may_be_touched() -> None:
    assert [word.text for word in prose_words(CODE)] == ["Look", "at", "this", "See", "or"]
    inside = "```\nhttp://x.y z\nmore words\n```\nafter"
    assert [word.text for word in prose_words(inside)] == ["after"]
    unclosed = "before\n~~~\nnever closed"
    assert [word.text for word in prose_words(unclosed)] == ["before"]


def test_scripts_without_spaces_get_none() -> None:
    assert " " not in once(InsertWords(share=1.0), "它来了。")
    assert len(once(DeleteWords(share=0.5), "它来了吗")) == 2


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan")])
def test_a_share_is_a_share(share: float) -> None:
    for kind in (DeleteWords, InsertWords, SwapWords):
        with raises_naming(InputError, "share", share):
            kind(share=share)


@given(st.text(max_size=200), st.floats(0, 1), st.integers(0, 2**32))
def test_nothing_but_words_and_the_space_beside_them_changes(
    text: str, share: float, seed: int
) -> None:
    left = once(DeleteWords(share=share), text, seed)
    rest = iter(text)
    assert all(character in rest for character in left)  # what is left is a subsequence
    swapped = once(SwapWords(share=share), text, seed)
    assert sorted(swapped) == sorted(text)


def test_capitals_follow_the_model() -> None:
    assert [match_case("big", model) for model in ("x", "X", "Xy", "XY", "")] == [
        "big",
        "Big",
        "Big",
        "BIG",
        "big",
    ]
