"""Questions with known answers: how they are made, and how an answer is read."""

from __future__ import annotations

import numpy as np
import pytest

from hammingmark.evaluation.datasets.corpora import Document
from hammingmark.evaluation.datasets.questions import (
    EXPLAINED,
    FORMS,
    Question,
    known_questions,
)

DOCUMENTS = [
    Document(
        id=str(year),
        text=f"The bridge over the river was opened to the public in {year} after long delays. "
        "It was built by a company that no longer exists and has three arches of stone.",
    )
    for year in range(1901, 1941)
]


def make(count: int, seed: int = 0) -> list[Question]:
    return known_questions(count, DOCUMENTS, rng=np.random.default_rng(seed))


def test_all_kinds_come_in_all_forms_about_equally_often() -> None:
    questions = make(60)
    forms = [
        (question.kind, next(form for form in FORMS if question.text.endswith(form)))
        for question in questions
    ]
    assert {forms.count(pair) for pair in set(forms)} == {3}
    assert len(set(forms)) == 20
    assert len({question.text for question in questions}) == 60


def test_the_expected_answer_counts_as_right_and_another_as_wrong() -> None:
    for question in make(60):
        assert question.is_right(f"{question.expected}.")
        assert not question.is_right("")
        if question.kind == "arithmetic":
            assert not question.is_right(str(int(question.expected) + 1))


def test_a_seed_makes_the_same_questions() -> None:
    assert make(30, seed=3) == make(30, seed=3) != make(30, seed=4)


YES_NO = Question("1", "yes/no", "Is it?", "Yes", ("Yes", "No"))
SUM = Question("2", "arithmetic", "What is 900 + 334?", "1234")
YEAR = Question("3", "extraction", "Which year?", "1931")
WHY_NOT = Question("5", "yes/no", f"Is it? {EXPLAINED}", "No", ("Yes", "No"))
WHEN = Question("6", "extraction", f"Which year? {EXPLAINED}", "1931")
SYMBOL = Question("4", "fact", "The symbol of sulfur?", "S", ("S", "N", "He"))


@pytest.mark.parametrize(
    ("question", "text", "answer"),
    [
        (YES_NO, "Yes, it is. No doubt.", "Yes"),
        (YES_NO, "no", "No"),
        (YES_NO, "Paris is not the capital of Spain.", "No"),
        (YES_NO, "Madrid is the capital of Spain.", "Yes"),
        (SUM, "900 + 334 = 1,234", "1234"),
        (SUM, "I do not know.", ""),
        (YEAR, "It was opened in 1931, with 3 arches.", "1931"),
        (WHY_NOT, "No number but 2 is even and prime. Yes, that is so. So the answer is no.", "No"),
        (WHY_NOT, "It is not odd. So it cannot be.", "No"),
        (WHY_NOT, "It is not odd. So it is.", "Yes"),
        (WHEN, "Not in 1905, as it says. It was in 1931.", "1931"),
        (SYMBOL, "He says that the symbol of sulfur is S.", "He"),
        (SYMBOL, "s", ""),
    ],
)
def test_what_a_text_answers(question: Question, text: str, answer: str) -> None:
    assert question.answer_in(text) == answer
    assert question.is_right(text) is (answer == question.expected)


def test_too_few_passages_are_refused() -> None:
    with pytest.raises(ValueError, match="passages"):
        known_questions(100, DOCUMENTS[:2], rng=np.random.default_rng(0))
