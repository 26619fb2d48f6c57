"""What two sentences state: figures, negations and names."""

from __future__ import annotations

import pytest

from hammingmark.text.content import same_statement


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("The sum is 42.", "It is 42."),
        ("It costs 1,000 francs.", "The price is 1000 francs."),
        ("Paris is the capital of France.", "The capital of France is Paris."),
        ("He did not come.", "He never came."),
        ("It isn't open.", "It is not open."),
        ("The dog ran home.", "The dog ran to its home."),
    ],
)
def test_the_same_in_other_words(left: str, right: str) -> None:
    assert same_statement(left, right)
    assert same_statement(right, left)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("The sum is 42.", "The sum is 43."),
        ("Give 5 mg.", "Give 0.5 mg."),
        ("It takes two days.", "It takes three days."),
        ("It is open.", "It is not open."),
        ("It was open.", "It wasn't open."),
        ("The capital is Paris.", "The capital is Rome."),
        ("The answer is B.", "The answer is C."),
        ("He met Anna in Rome.", "He met Anna."),
    ],
)
def test_another_statement(left: str, right: str) -> None:
    assert not same_statement(left, right)
    assert not same_statement(right, left)
