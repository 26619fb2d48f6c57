"""Typing errors, lookalikes and case."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.errors import raises_naming

from hammingmark.attacks.base import TextAttack
from hammingmark.attacks.spelling import CYRILLIC, GREEK, NEIGHBOURS, Case, Homoglyphs, Typos
from hammingmark.errors import InputError
from hammingmark.text.structure import normalise
from hammingmark.text.words import edit_distance, split_words

TEXT = "A quick Brown fox jumps over the lazy dog near the old River bank today"


def once(attack: TextAttack, text: str, seed: int = 0) -> str:
    return attack.apply([text], rng=np.random.default_rng(seed))[0]


def test_keys_have_their_neighbours() -> None:
    assert set(NEIGHBOURS["g"]) == set("fhtyvb")
    assert set(NEIGHBOURS["q"]) == set("wa")
    assert all(letter in NEIGHBOURS[other] for letter, near in NEIGHBOURS.items() for other in near)


def test_every_chosen_word_has_one_error() -> None:
    kinds = set()
    for seed in range(200):
        old, new = split_words(TEXT), split_words(once(Typos(share=1.0), TEXT, seed))
        assert new[0] == "A"  # too short to slip
        for before, after in zip(old[1:], new[1:], strict=True):
            assert before != after
            assert len(after) - len(before) in (-1, 0, 1)
            assert edit_distance(before, after) <= 2
            kinds.add((len(after) - len(before), sorted(before.lower()) == sorted(after.lower())))
    # longer, shorter, another letter, the same letters in another order
    assert kinds == {(1, False), (-1, False), (0, False), (0, True)}


def test_the_share_of_typos_is_kept_on_average() -> None:
    changed = []
    for seed in range(300):
        new = split_words(once(Typos(share=0.2), TEXT, seed))
        changed.append(sum(a != b for a, b in zip(split_words(TEXT), new, strict=True)))
    assert np.mean(changed) == pytest.approx(0.2 * len(split_words(TEXT)), abs=4 * 0.5 / 300**0.5)


@pytest.mark.parametrize("text", ["Привет мир", "हिन्दी में", "它来了", "a I 3", "", "x2"])
def test_other_scripts(text: str) -> None:
    once(Typos(share=1.0), text)
    assert once(Typos(share=1.0), "Привет") != "Привет"


def test_lookalikes_are_letters_of_another_script() -> None:
    for table, block in ((CYRILLIC, range(0x400, 0x530)), (GREEK, range(0x370, 0x400))):
        for latin, other in table.items():
            assert latin.isascii()
            assert ord(other) in block
            assert latin.isupper() == other.isupper()


@pytest.mark.parametrize("alphabet", ["cyrillic", "greek", "both"])
def test_look_alikes_keep_the_length_and_do_not_survive_normalising(alphabet: str) -> None:
    attack = Homoglyphs(share=1.0, alphabet=alphabet)  # type: ignore[arg-type]
    new = once(attack, TEXT)
    assert len(new) == len(TEXT)
    assert normalise(new) == TEXT
    tables = {"cyrillic": [CYRILLIC], "greek": [GREEK], "both": [CYRILLIC, GREEK]}[alphabet]
    for old, now in zip(TEXT, new, strict=True):
        choices = [table[old] for table in tables if old in table]
        assert now in choices if choices else now == old


def test_characters_without_ink_do_not_survive_normalising() -> None:
    assert normalise("qu\u200bick b\u00adrown \u201cfox\u201d") == 'quick brown "fox"'


def test_the_share_of_look_alikes_is_of_the_letters_that_have_one() -> None:
    able = sum(letter in CYRILLIC for letter in TEXT)
    counts = [
        sum(a != b for a, b in zip(TEXT, once(Homoglyphs(share=0.25), TEXT, seed), strict=True))
        for seed in range(300)
    ]
    assert np.mean(counts) == pytest.approx(0.25 * able, abs=4 * 0.5 / 300**0.5)


@pytest.mark.parametrize(
    ("style", "text"),
    [
        ("lower", "a quick ibm fox's"),
        ("upper", "A QUICK IBM FOX'S"),
        ("title", "A Quick Ibm Fox's"),
        ("flip", "a Quick iBM Fox's"),
    ],
)
def test_styles(style: str, text: str) -> None:
    assert once(Case(style=style), "A quick IBM fox's") == text  # type: ignore[arg-type]


@given(st.text(max_size=100), st.integers(0, 2**32))
def test_case_changes_nothing_else(text: str, seed: int) -> None:
    new = once(Case(style="lower", share=0.5), text, seed)
    assert new.casefold() == text.casefold() or new.lower() == text.lower()


@pytest.mark.parametrize("kind", [Typos, Homoglyphs, Case])
def test_a_share_is_a_share(kind: type[Typos]) -> None:
    with raises_naming(InputError, "share", 2):
        kind(share=2)
