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
"""Prompt formats by corpus; for other corpora the prompt is the question alone."""


@dataclass(frozen=True, slots=True)
class EvaluationPrompt:
    """A prompt, and its human continuation or answer.

    Attributes:
        id: unique in its corpus.
        text: the text to continue or the question to answer.
        human: the continuation or the answer of a human; empty if there is none.
        chat: whether the model gets the text as the question of a chat.
    """

    id: str
    text: str
    human: str = ""
    chat: bool = False

    @property
    def prompt(self) -> Prompt:
        """The prompt as backends take it."""
        if self.chat:
            return Prompt(messages=(Message("user", self.text),))
        return Prompt(self.text)

    def row(self) -> Row:
        """The first fields of a row of results."""
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
        documents: of plain text; those that are too short are left out.
        splitter: finds the sentences.
        sentences: the number of sentences of a prompt.
        characters: the least length of each of them.
        following: the number of further sentences that a document must have.
    """
    return [
        EvaluationPrompt(document.id, " ".join(opening), " ".join(split[sentences:]))
        for document in documents
        for split in [splitter.split(document.text).carrying]
        for opening in [split[:sentences]]
        if len(split) >= sentences + following
        and all(len(sentence) >= characters for sentence in opening)
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
        form: the format of the prompt, with ``{question}``.
        words: the number of words after which a question is truncated; None for no truncation.
        chat: whether the prompt is a chat.

    Raises:
        InputError: a document has no question.
    """
    return list(_questions(documents, form=form, words=words, chat=chat))


def _questions(
    documents: Iterable[Document], *, form: str, words: int | None, chat: bool
) -> Iterator[EvaluationPrompt]:
    for document in documents:
        if not document.question:
            raise InputError(
                f"The document {document.id!r} has no question; use its opening instead."
            )
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
