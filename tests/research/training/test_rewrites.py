"""Rewrites by a chat model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

from research.training.rewrites import BACK, REQUESTS, ChatModel, reword, translate, usable
from tests.unit.attacks import tiny

from hammingmark.attacks.rewrite import REWRITE_PROMPTS
from research.training import rewrites

SENTENCES = ["The old house stood by the river.", "Nobody knew when it had been built."]


class Chat:
    """Answers by a function, and records the requests."""

    def __init__(self, answers: object) -> None:
        self._answers = answers
        self.seen: list[str] = []

    def answer(
        self, requests: Sequence[str], *, temperatures: Sequence[float], rng: np.random.Generator
    ) -> list[str | None]:
        self.seen += requests
        return [self._answers(request) for request in requests]


def test_a_request_contains_the_sentence() -> None:
    chat = Chat(
        lambda text: "Here is a version: " + text.partition("\n\n")[2].replace("it", "that")
    )
    made = reword(chat, SENTENCES, np.random.default_rng(0))
    assert made == ["", "Nobody knew when that had been built."]  # nothing to change in the first
    assert all(text.endswith(sentence) for text, sentence in zip(chat.seen, SENTENCES, strict=True))


def test_a_translation_goes_there_and_back() -> None:
    def answer(text: str) -> str | None:
        sentence = text.partition("\n\n")[2]
        return (
            sentence.removeprefix("Le ") + " Oui." if "into English" in text else "Le " + sentence
        )

    chat = Chat(answer)
    made = translate(chat, SENTENCES, np.random.default_rng(0))
    assert made == [f"{sentence} Oui." for sentence in SENTENCES]
    assert [text.partition(" ")[0] for text in chat.seen] == [BACK.partition(" ")[0]] * 4


def test_what_is_not_translated_back_is_not_used() -> None:
    chat = Chat(lambda text: "Le " + text.partition("\n\n")[2].removeprefix("Le "))
    assert translate(chat, SENTENCES, np.random.default_rng(0)) == ["", ""]


def test_a_truncated_answer_is_not_translated_back() -> None:
    chat = Chat(lambda text: None)
    assert translate(chat, SENTENCES, np.random.default_rng(0)) == ["", ""]
    assert len(chat.seen) == 2


@pytest.mark.parametrize(
    "answer", [None, "", SENTENCES[0], "House.", "A house. " * 30, "I'm sorry, I can't do that."]
)
def test_what_is_no_rewrite_is_empty(answer: str | None) -> None:
    assert usable(answer, SENTENCES[0]) == ""


def test_neither_the_attack_s_request_nor_its_language_is_trained_on() -> None:
    attack = REWRITE_PROMPTS["v1"]
    assert attack.sentence not in REQUESTS
    assert attack.system != rewrites.SYSTEM
    assert "Portuguese" not in rewrites.LANGUAGES


def test_a_model_answers_every_request_in_order(tmp_path: Path) -> None:
    """With random weights what is said is anything, or has no end, but a seed decides it."""
    folder = tiny.gpt2(tmp_path / "model")
    template = "{% for turn in messages %}{{ turn.content }} {% endfor %}"
    (folder / "chat_template.jinja").write_text(template, encoding="utf-8")
    model = ChatModel(folder, device="cpu", batch=2)
    texts = ["the old bridge", "a river", "the small town of stone", "light"]
    found = model.answer(texts, temperatures=[1.0], rng=np.random.default_rng(0))
    assert len(found) == 4
    assert all(each is None or isinstance(each, str) for each in found)
    assert found == model.answer(texts, temperatures=[1.0], rng=np.random.default_rng(0))
