"""Prompts from documents."""

from __future__ import annotations

import pytest

from hammingmark.errors import InputError
from hammingmark.evaluation.datasets.corpora import CORPORA, Document
from hammingmark.evaluation.prompts import QUESTION_FORMATS, assign_keys, openings, questions
from hammingmark.testing import FakeSplitter

DOCUMENTS = [
    Document("a", "One is here. Two is here. Three is here."),
    Document("b", "One. Two is here. Three is here."),
    Document("c", "One is here."),
]


def test_an_opening_is_the_first_sentences_and_the_rest_is_human() -> None:
    found = openings(DOCUMENTS, FakeSplitter())
    assert [(each.id, each.text, each.human) for each in found] == [
        ("a", "One is here. Two is here.", "Three is here."),
        ("b", "One. Two is here.", "Three is here."),
    ]
    assert found[0].prompt.text == found[0].text
    assert found[0].row() == {"id": "a", "prompt": found[0].text, "chat": False}


def test_short_sentences_and_short_documents_are_left_out() -> None:
    assert [each.id for each in openings(DOCUMENTS, FakeSplitter(), characters=6)] == ["a"]
    assert openings(DOCUMENTS, FakeSplitter(), following=2) == []
    assert len(openings(DOCUMENTS, FakeSplitter(), sentences=1)) == 3


def test_a_question_is_asked_as_a_chat_and_cut_to_its_length() -> None:
    document = Document("q", "So.", "Why is the {sky} blue?", ("So.",))
    (found,) = questions([document], form="Say: {question}", words=3)
    assert found.text == "Say: Why is the"
    assert found.human == "So."
    assert [turn.content for turn in found.prompt.messages] == [found.text]
    (plain,) = questions([document], chat=False)
    assert plain.prompt.text == "Why is the {sky} blue?"
    with pytest.raises(InputError):
        questions(DOCUMENTS)


def test_every_form_has_a_place_for_the_question_of_a_known_corpus() -> None:
    assert all("{question}" in form for form in QUESTION_FORMATS.values())
    assert all(CORPORA[name].question for name in QUESTION_FORMATS)


def test_every_prompt_has_one_key() -> None:
    prompts = openings(DOCUMENTS, FakeSplitter(), sentences=1)
    assert [[each.id for each in some] for some in assign_keys(prompts, 2).values()] == [
        ["a", "c"],
        ["b"],
    ]
