"""What a client is told: OpenAI's answers and chunks."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from hammingmark.records import Generation
from hammingmark.server.marking.marks import Mark, added

_CHARACTERS = 4  # of a token, where a model does not tell how many a prompt has


@dataclass(slots=True)
class Choice:
    """One answer to a request.

    Attributes:
        index: of the answer.
        text: what was written and sent.
        lead: what was sent before it: white space between a prompt and the text that continues it.
        finish: OpenAI's reason why it ended, once it has.
        mark: how far it is marked, once it has ended.
        prompt_tokens: tokens of its prompt.
        prompt: which of the prompts it answers.
    """

    index: int
    prompt: int = 0
    text: str = ""
    lead: str = ""
    finish: str | None = None
    mark: Mark | None = None
    prompt_tokens: int | None = None

    @property
    def sent(self) -> str:
        """All that was sent."""
        return self.lead + self.text if self.text else ""


@dataclass(frozen=True, slots=True)
class ResponseBuilder:
    """The shape of answers to one request.

    Attributes:
        id: of the request, as OpenAI shows it.
        model: what the service calls its model.
        chat: whether it is a chat.
        created: seconds since 1970.
    """

    id: str
    model: str
    chat: bool
    created: int = field(default_factory=lambda: int(time.time()))

    def whole(self, choices: Sequence[Choice], *, characters: Sequence[int]) -> dict[str, Any]:
        """An answer that is not streamed.

        Args:
            choices: all of them, ended.
            characters: of each prompt.
        """
        kind = "chat.completion" if self.chat else "text_completion"
        shown = [self._choice(each) for each in choices]
        return {
            **self._head(kind),
            "choices": shown,
            "usage": usage(choices, characters=characters),
            "watermark": summary(choices).content,
        }

    def beginning(self, index: int) -> dict[str, Any]:
        """The chunk with which a chat's answer begins."""
        delta = {"role": "assistant", "content": ""}
        return self._chunk([{"index": index, "delta": delta, **_OPEN}])

    def more(self, index: int, text: str) -> dict[str, Any]:
        """A chunk with more text."""
        own = {"delta": {"content": text}} if self.chat else {"text": text}
        return self._chunk([{"index": index, **own, **_OPEN}])

    def end(self, choice: Choice) -> dict[str, Any]:
        """The chunk with which an answer ends."""
        own: dict[str, Any] = {"delta": {}} if self.chat else {"text": ""}
        ended = {"index": choice.index, **own, "logprobs": None, "finish_reason": choice.finish}
        assert choice.mark is not None
        return {**self._chunk([ended]), "watermark": choice.mark.content}

    def usage(self, choices: Sequence[Choice], *, characters: Sequence[int]) -> dict[str, Any]:
        """The chunk with the usage, behind all answers."""
        return {**self._chunk([]), "usage": usage(choices, characters=characters)}

    def _chunk(self, choices: list[dict[str, Any]]) -> dict[str, Any]:
        kind = "chat.completion.chunk" if self.chat else "text_completion"
        return {**self._head(kind), "choices": choices}

    def _head(self, kind: str) -> dict[str, Any]:
        return {"id": self.id, "object": kind, "created": self.created, "model": self.model}

    def _choice(self, choice: Choice) -> dict[str, Any]:
        own: dict[str, Any] = {"text": choice.sent}
        if self.chat:
            own = {"message": {"role": "assistant", "content": choice.sent, "refusal": None}}
        assert choice.mark is not None
        return {
            "index": choice.index,
            **own,
            "logprobs": None,
            "finish_reason": choice.finish,
            "watermark": choice.mark.content,
        }


_OPEN = {"logprobs": None, "finish_reason": None}


def usage(choices: Sequence[Choice], *, characters: Sequence[int]) -> dict[str, Any]:
    """Tokens of prompts and answers; those of a prompt are estimated where no model tells."""
    told: dict[int, int] = {}
    for choice in choices:
        if choice.prompt_tokens is not None:
            told[choice.prompt] = choice.prompt_tokens
    estimated = [max(1, round(count / _CHARACTERS)) for count in characters]
    prompt = sum(told.get(number, guess) for number, guess in enumerate(estimated))
    answers = sum(each.mark.cost.tokens for each in choices if each.mark)
    content: dict[str, Any] = {
        "prompt_tokens": prompt,
        "completion_tokens": answers,
        "total_tokens": prompt + answers,
    }
    if len(told) < len(characters):
        content["prompt_tokens_estimated"] = True
    return content


def summary(choices: Sequence[Choice]) -> Mark:
    """How far all answers to a request are marked; that of a single answer is its own."""
    marks = [each.mark for each in choices if each.mark]
    if len(marks) == 1:
        return marks[0]
    statuses = {mark.status for mark in marks}
    worst = next(each for each in ("unmarked", "partly", "marked") if each in statuses)
    status = worst if len(statuses) == 1 else "partly"
    first = next(mark for mark in marks if mark.status == worst)
    return Mark(
        status=status,
        reason=first.reason,
        cause=first.cause,
        key_id=next((mark.key_id for mark in marks if mark.key_id), None),
        label=next((mark.label for mark in marks if mark.label), None),
        sentences=sum(mark.sentences for mark in marks),
        accepted=sum(mark.accepted for mark in marks),
        cost=added([mark.cost for mark in marks]),
    )


def finish_reason(generation: Generation) -> str:
    """OpenAI's word for why a text ended."""
    if generation.failure:
        return "content_filter" if generation.failure.kind == "content_filter" else "length"
    return "length" if generation.stopped == "tokens" else "stop"
