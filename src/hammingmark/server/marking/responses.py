"""OpenAI responses and chunks."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from hammingmark.records import Generation, Reasoning, ReasoningPart, ToolCalls
from hammingmark.server.marking.marks import Mark, total_cost

_TOKEN_CHARACTERS = 4  # per token, if the model does not report the tokens of a prompt


@dataclass(slots=True)
class Choice:
    """One answer to a request.

    Attributes:
        index: number of the answer.
        prompt: number of the prompt that it answers.
        text: the text that was sent.
        lead: the white space sent between the prompt and the text.
        finish_reason: OpenAI's ``finish_reason``, once it has ended.
        mark: its watermark status, once it has ended.
        prompt_tokens: tokens of its prompt; None if the model does not report them.
        calls: the calls of tools with which it ended; None if there are none.
        reasoning: what the model thought before it, as far as the client gets it; None if it does
            not.
    """

    index: int
    prompt: int = 0
    text: str = ""
    lead: str = ""
    finish_reason: str | None = None
    mark: Mark | None = None
    prompt_tokens: int | None = None
    calls: ToolCalls | None = None
    reasoning: Reasoning | None = None

    @property
    def content(self) -> str | None:
        """The content of the message of a chat; null if it only calls tools."""
        return self.sent_text or (None if self.calls else "")

    @property
    def reasoning_fields(self) -> dict[str, str]:
        """The field of the message with the reasoning; none if that is part of the content."""
        reasoning = self.reasoning
        return {reasoning.field: reasoning.text} if reasoning and reasoning.field else {}

    def add_reasoning(self, part: ReasoningPart) -> str:
        """Add a part of the reasoning as it is sent; returns its text.

        If the model has to begin again, because a request failed, what was sent stays.
        """
        before = self.reasoning.text if self.reasoning else ""
        text = f"\n\n{part.text}" if before and part.is_first else part.text
        self.reasoning = Reasoning(before + text, part.field)
        return text

    @property
    def call_fields(self) -> dict[str, Any]:
        """The fields of the message that call tools."""
        fields: dict[str, Any] = json.loads(self.calls.fields) if self.calls else {}
        return fields

    @property
    def sent_text(self) -> str:
        """The text that was sent, with the lead and with inline reasoning."""
        reasoning = self.reasoning
        before = reasoning.text if reasoning and reasoning.is_inline else ""
        return before + (self.lead + self.text if self.text else "")


@dataclass(frozen=True, slots=True)
class ResponseBuilder:
    """Builds the response or the chunks of one request.

    Attributes:
        id: OpenAI's id of the response.
        model: the name of the model in the response.
        chat: whether the request is a chat.
        created: seconds since 1970.
    """

    id: str
    model: str
    chat: bool
    created: int = field(default_factory=lambda: int(time.time()))

    def response(self, choices: Sequence[Choice], *, characters: Sequence[int]) -> dict[str, Any]:
        """The response to a request without streaming.

        Args:
            choices: all answers, which have ended.
            characters: the length of each prompt.
        """
        return {
            **self._head("chat.completion" if self.chat else "text_completion"),
            "choices": [self._choice(choice) for choice in choices],
            "usage": usage(choices, characters=characters),
            "watermark": summary(choices).content,
        }

    def first_chunk(self, choice: Choice) -> dict[str, Any]:
        """The chunk that begins an answer of a chat."""
        content = None if choice.content is None else ""
        delta = {"role": "assistant", "content": content}
        return self._chunk([{"index": choice.index, "delta": delta, **_OPEN}])

    def call_chunk(self, choice: Choice) -> dict[str, Any]:
        """The chunk with the calls of tools, which come whole."""
        delta = choice.call_fields
        for index, call in enumerate(delta.get("tool_calls", ())):
            call["index"] = index
        return self._chunk([{"index": choice.index, "delta": delta, **_OPEN}])

    def reasoning_chunk(self, index: int, text: str, field: str) -> dict[str, Any]:
        """A chunk with reasoning.

        Args:
            index: number of the answer.
            text: the reasoning.
            field: the field of the delta; empty if it is part of the content.
        """
        return self._chunk([{"index": index, "delta": {field or "content": text}, **_OPEN}])

    def text_chunk(self, index: int, text: str) -> dict[str, Any]:
        """A chunk with text."""
        content = {"delta": {"content": text}} if self.chat else {"text": text}
        return self._chunk([{"index": index, **content, **_OPEN}])

    def last_chunk(self, choice: Choice) -> dict[str, Any]:
        """The chunk that ends an answer."""
        assert choice.mark is not None
        content: dict[str, Any] = {"delta": {}} if self.chat else {"text": ""}
        end = {"logprobs": None, "finish_reason": choice.finish_reason}
        chunk = self._chunk([{"index": choice.index, **content, **end}])
        return {**chunk, "watermark": choice.mark.content}

    def usage_chunk(
        self, choices: Sequence[Choice], *, characters: Sequence[int]
    ) -> dict[str, Any]:
        """The chunk with the usage, after all answers."""
        return {**self._chunk([]), "usage": usage(choices, characters=characters)}

    def _chunk(self, choices: list[dict[str, Any]]) -> dict[str, Any]:
        kind = "chat.completion.chunk" if self.chat else "text_completion"
        return {**self._head(kind), "choices": choices}

    def _head(self, kind: str) -> dict[str, Any]:
        return {"id": self.id, "object": kind, "created": self.created, "model": self.model}

    def _choice(self, choice: Choice) -> dict[str, Any]:
        content: dict[str, Any] = {"text": choice.sent_text}
        if self.chat:
            message = {"role": "assistant", "content": choice.content, "refusal": None}
            content = {"message": message | choice.reasoning_fields | choice.call_fields}
        assert choice.mark is not None
        return {
            "index": choice.index,
            **content,
            "logprobs": None,
            "finish_reason": choice.finish_reason,
            "watermark": choice.mark.content,
        }


_OPEN = {"logprobs": None, "finish_reason": None}


def usage(choices: Sequence[Choice], *, characters: Sequence[int]) -> dict[str, Any]:
    """Tokens of prompts and answers; those of a prompt are estimated if the model reports none."""
    prompt_tokens: dict[int, int] = {}
    for choice in choices:
        if choice.prompt_tokens is not None:
            prompt_tokens[choice.prompt] = choice.prompt_tokens
    estimates = [max(1, round(count / _TOKEN_CHARACTERS)) for count in characters]
    prompts = sum(prompt_tokens.get(index, count) for index, count in enumerate(estimates))
    costs = [choice.mark.cost for choice in choices if choice.mark]
    answers = sum(cost.tokens for cost in costs)
    content: dict[str, Any] = {
        "prompt_tokens": prompts,
        "completion_tokens": answers,
        "total_tokens": prompts + answers,
    }
    if reasoning := sum(cost.reasoning_tokens for cost in costs):
        content["completion_tokens_details"] = {"reasoning_tokens": reasoning}
    if len(prompt_tokens) < len(characters):
        content["prompt_tokens_estimated"] = True
    return content


def summary(choices: Sequence[Choice]) -> Mark:
    """The watermark status of all answers to a request together."""
    marks = [choice.mark for choice in choices if choice.mark]
    if len(marks) == 1:
        return marks[0]
    statuses = {mark.status for mark in marks}
    worst = next(name for name in ("unmarked", "partly", "marked") if name in statuses)
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
        cost=total_cost([mark.cost for mark in marks]),
    )


def finish_reason(generation: Generation) -> str:
    """OpenAI's ``finish_reason`` of a generation."""
    if generation.calls:
        return generation.calls.reason
    if generation.failure:
        return "content_filter" if generation.failure.kind == "content_filter" else "length"
    return "length" if generation.stopped == "tokens" else "stop"
