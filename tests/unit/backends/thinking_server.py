"""A model that thinks before it answers, as different servers offer it."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any

from tests.unit.backends.openai_server import Handler, status

from hammingmark.backends.continuation import THOUGHTS
from hammingmark.testing.fakes import paragraph

THOUGHT = "First the user asks of the aqueduct. It was quiet there. I will say so in a few words."
_INLINE = re.compile(r"<think>\n(.*?)\n</think>\n\n", re.DOTALL)


@dataclass
class Thinker:
    """Thinks, and then answers. It goes on with an answer only if it sees what it thought.

    Attributes:
        place: the field in which its server sends the reasoning; empty for tags in the text.
        sees: where its server accepts the reasoning of an answer to continue: ``field``, ``tags``.
        refuses_prefix: whether its server refuses all unfinished answers with reasoning.
        misfiles: whether its server takes every continuation for reasoning.
        thought: what it thinks.
        answer: what it answers; by default sentences that depend on the seed.
        thoughts: how often it has thought.
        continued: how often it has continued an answer with what it thought in view.
    """

    place: str = "reasoning_content"
    sees: frozenset[str] = frozenset({"field"})
    refuses_prefix: bool = False
    misfiles: bool = False
    thought: str = THOUGHT
    answer: str | None = None
    thoughts: int = 0
    continued: int = 0
    bodies: list[dict[str, Any]] = field(default_factory=list)

    def __call__(self, handler: Handler, body: dict[str, Any]) -> None:
        last = body["messages"][-1]
        is_begun = last["role"] == "assistant"
        if body.get("n", 1) > 1:
            status(400, "n must be 1")(handler, body)
            return
        seen, content = self._read(last) if is_begun else ("", "")
        asked = next((each for each in THOUGHTS if each.begun == content), None)
        if is_begun and self.refuses_prefix:
            status(400, "Assistant response prefill is not supported.")(handler, body)
            return
        if asked is not None:
            knows = asked.sentence in seen
            self._stream(handler, body, "", f" {asked.follows if knows else 'moon'}{asked.rest}")
            return
        self.bodies.append(body)
        text = paragraph(Random(body["seed"])) if self.answer is None else self.answer
        if is_begun and self.thought in seen:
            self.continued += 1
            self._stream(handler, body, "", f" {text}")
            return
        self.thoughts += 1
        self._stream(handler, body, self.thought, text)

    def _read(self, message: dict[str, Any]) -> tuple[str, str]:
        """The reasoning and the answer of an unfinished message, as the model sees them."""
        content = message["content"]
        seen = message.get(self.place, "") if self.place and "field" in self.sees else ""
        if match := _INLINE.match(content):
            content = content[match.end() :]
            seen = match[1] if "tags" in self.sees else seen
        return seen, content

    def _stream(self, handler: Handler, body: dict[str, Any], thought: str, text: str) -> None:
        if thought and not self.place:
            thought, text = "", f"<think>\n{thought}\n</think>\n\n{text}"
        pieces = [(self.place, each) for each in re.findall(r"\s*\S+", thought)]
        place = self.place if self.misfiles and not thought else "content"
        pieces += [(place, each) for each in re.findall(r"\s*\S+", text)]
        limit = body.get("max_tokens", len(pieces))
        handler.begin()
        with suppress(ConnectionError):
            for name, each in pieces[:limit]:
                self._piece(handler, {name: each})
            self._piece(handler, {}, "length" if limit < len(pieces) else "stop")
            handler.event("[DONE]")

    @staticmethod
    def _piece(handler: Handler, delta: dict[str, str], reason: str | None = None) -> None:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        handler.event({"choices": [choice]})
