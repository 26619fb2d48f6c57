"""Expanding and contracting contractions."""

from __future__ import annotations

import numpy as np
import pytest

from hammingmark.attacks.contractions import Contractions

PAIRS = [
    ("I don't know.", "I do not know."),
    ("They can't see it.", "They cannot see it."),
    ("It won't do.", "It will not do."),
    ("It's been long.", "It has been long."),
    ("It's late now.", "It is late now."),
    ("They're here and I'm glad.", "They are here and I am glad."),
    ("We've already met.", "We have already met."),
    ("Let's go now.", "Let us go now."),
    ("Don't go there.", "Do not go there."),
    ("You'll see.", "You will see."),
]


def once(text: str, **settings: object) -> str:
    attack = Contractions(**settings)  # type: ignore[arg-type]
    return attack.apply([text], rng=np.random.default_rng(0))[0]


@pytest.mark.parametrize(("short", "long"), PAIRS)
def test_expanding_and_contracting_are_inverse(short: str, long: str) -> None:
    assert once(short, way="expand") == long
    assert once(long, way="expand") == long
    if not long.endswith(("see.",)):  # nothing but the end follows "will" there
        assert once(long, way="contract") == short
    assert once(short, way="contract") == short
    assert once(short) == long


@pytest.mark.parametrize(
    ("short", "long"),
    [
        ("Don't you see?", "Do you not see?"),
        ("It is, isn't it?", "It is, is it not?"),
        ("CAN'T STOP", "CANNOT STOP"),
        ("Can’t stop. They’re off.", "Cannot stop. They are off."),
        ("Who's there?", "Who is there?"),
    ],
)
def test_expansions(short: str, long: str) -> None:
    assert once(short, way="expand") == long


@pytest.mark.parametrize(
    "text",
    [
        "John's dog, the dogs' turn.",
        "I'd go, and she'd gone.",
        "That is what it is.",
        "We have a dog.",
        "You is and I are.",
        "ain't",
        "`don't`",
        "Он не знает.",
        "",
    ],
)
def test_ambiguous_forms_are_not_changed(text: str) -> None:
    assert once(text) == text


def test_the_apostrophe_is_that_of_the_text() -> None:
    assert once("We do not say ‘x’.", way="contract") == "We don’t say ‘x’."


def test_the_share_is_of_the_places() -> None:
    text = "I don't. " * 40
    counts = [
        Contractions(share=0.3).apply([text], rng=np.random.default_rng(seed))[0].count("do not")
        for seed in range(50)
    ]
    assert np.mean(counts) == pytest.approx(12, abs=0.5)


def test_two_places_that_share_a_word_are_not_both_changed() -> None:
    assert once("Isn't it is odd?") in ("Is it not is odd?", "Isn't it's odd?")
