"""Prompts of an evaluation, from the documents of a corpus."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from hammingmark.errors import InputError
from hammingmark.evaluation.datasets.corpora import Document
from hammingmark.evaluation.rows import Row
from hammingmark.protocols import Splitter
from hammingmark.records import Message, Prompt

QUESTION_FORMATS: Mapping[str, str] = {
    "eli5": "{question}",
    "multi_news": "Write a summary of these news articles.\n\n{question}\n\nSummary:",
}
"""How the questions of a corpus are put to a model; other corpora ask the question alone."""


@dataclass(frozen=True, slots=True)
class EvaluationPrompt:
    """A prompt, and what a human wrote in its place.

    Attributes:
        id: unique in its corpus.
        text: what a model is asked to continue or to answer.
        human: the continuation or the answer of a human; empty where there is none.
        chat: whether a model gets the text as a chat's question.
    """

    id: str
    text: str
    human: str = ""
    chat: bool = False

    @property
    def prompt(self) -> Prompt:
        """The form in which backends take it."""
        if self.chat:
            return Prompt(messages=(Message("user", self.text),))
        return Prompt(self.text)

    def row(self) -> Row:
        """The beginning of a row of results."""
        return {"id": self.id, "prompt": self.text, "chat": self.chat}


def openings(
    documents: Iterable[Document],
    splitter: Splitter,
    *,
    sentences: int = 2,
    characters: int = 0,
    following: int = 0,
) -> list[EvaluationPrompt]:
    """The first sentences of each document, to be continued.

    Args:
        documents: of plain text; one that is too short is left out.
        splitter: finds the sentences.
        sentences: how many make a prompt.
        characters: the least length of each of them.
        following: how many more a document must have.
    """
    return [
        EvaluationPrompt(document.id, " ".join(first), " ".join(found[sentences:]))
        for document in documents
        for found in [splitter.split(document.text).carrying]
        for first in [found[:sentences]]
        if len(found) >= sentences + following and all(len(each) >= characters for each in first)
    ]


def questions(
    documents: Iterable[Document],
    *,
    form: str = "{question}",
    words: int | None = None,
    chat: bool = True,
) -> list[EvaluationPrompt]:
    """The question of each document, to be answered.

    Args:
        documents: of a corpus with questions.
        form: what stands around a question, with ``{question}`` in its place.
        words: a longer question is cut to so many words.
        chat: whether the question is put as a chat.

    Raises:
        InputError: a document has no question.
    """
    return list(_questions(documents, form=form, words=words, chat=chat))


def _questions(
    documents: Iterable[Document], *, form: str, words: int | None, chat: bool
) -> Iterator[EvaluationPrompt]:
    for document in documents:
        if not document.question:
            raise InputError(f"The document {document.id!r} has no question; use its opening.")
        question = document.question
        if words is not None and len(split := question.split()) > words:
            question = " ".join(split[:words])
        text = form.replace("{question}", question)
        yield EvaluationPrompt(document.id, text, document.text, chat)


def assign_keys(
    prompts: Sequence[EvaluationPrompt], keys: int
) -> dict[int, list[EvaluationPrompt]]:
    """The prompts of each key, by the key's number: every key gets every ``keys``-th prompt."""
    return {number: list(prompts[number::keys]) for number in range(keys)}
