"""OpenAI's client for Python, unchanged: python with_openai.py, with BASE_URL set."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Any

import openai
from pydantic import BaseModel

BASE_URL = os.environ["BASE_URL"]
STATUSES = {"marked", "partly", "unmarked"}
CHAT: Any = {
    "model": "hammingmark",
    "messages": [{"role": "user", "content": "Why does it rain?"}],
    "max_tokens": 40,
}
TOOLS: Any = [
    {"type": "function", "function": {"name": "clock", "parameters": {"type": "object"}}},
]
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}


class Event(BaseModel):
    name: str


def mark_of(answer: BaseModel) -> dict[str, Any]:
    """The field ``watermark``, which is not in the client's types."""
    mark: dict[str, Any] = (answer.model_extra or {})["watermark"]
    assert mark["status"] in STATUSES
    assert mark["reason"]
    return mark


def ask_in_chats(client: openai.OpenAI) -> None:
    whole = client.chat.completions.create(**CHAT, n=2)
    assert len(whole.choices) == 2
    assert {mark_of(choice)["status"] for choice in whole.choices} <= STATUSES
    assert whole.usage is not None
    assert whole.usage.completion_tokens == mark_of(whole)["emitted_tokens"]
    chunks = list(
        client.chat.completions.create(
            **CHAT, stream=True, stream_options={"include_usage": True}, tools=TOOLS
        )
    )
    assert chunks[-1].usage
    (ending,) = [chunk for chunk in chunks if chunk.model_extra]
    assert ending.choices[0].finish_reason
    assert "calls no tools" in mark_of(ending)["reason"]
    raw = client.chat.completions.with_raw_response.create(**CHAT, stop=["."], seed=1)
    parsed = raw.parse()
    assert raw.headers["x-watermark-status"] == mark_of(parsed)["status"]
    assert "." not in (parsed.choices[0].message.content or "")


def stream_by_helpers(client: openai.OpenAI) -> None:
    """Only the events have the field; a helper raises an error if ``max_tokens`` is reached."""
    options: Any = {**CHAT, "max_tokens": 300, "stop": ["."]}
    for seed in range(8):
        try:
            with client.chat.completions.stream(**options, seed=seed) as stream:
                chunks = [event.chunk for event in stream if event.type == "chunk"]
        except openai.LengthFinishReasonError:
            continue
        mark_of(chunks[-1])
        return
    raise AssertionError("no sentence ended within 300 tokens")


def ask_for_texts(client: openai.OpenAI) -> None:
    texts: Any = {"model": "hammingmark", "max_tokens": 30}
    two = client.completions.create(prompt=["It rained.", "The sea was calm."], **texts)
    assert [choice.index for choice in two.choices] == [0, 1]
    mark_of(two)
    chunks = list(client.completions.create(prompt="It rained.", **texts, stream=True))
    assert "".join(chunk.choices[0].text for chunk in chunks).strip()
    mark_of(chunks[-1])


def ask_for_responses(client: openai.OpenAI) -> None:
    asked: Any = {"model": "hammingmark", "input": "Why does it rain?", "max_output_tokens": 40}
    whole = client.responses.create(**asked, instructions="Answer in full.")
    assert whole.output_text
    mark_of(whole)
    last: Any = list(client.responses.create(**asked, stream=True))[-1]
    assert last.type in ("response.completed", "response.incomplete")
    mark_of(last.response)


def fail(client: openai.OpenAI) -> None:
    """What cannot be done is an exception of the client, with OpenAI's code."""
    unmarkable: list[dict[str, Any]] = [
        {"logprobs": True},
        {"response_format": {"type": "json_object"}},
        {"tools": TOOLS, "tool_choice": "required"},
        {"messages": [{"role": "user", "content": [IMAGE]}]},
    ]
    long = [{"role": "user", "content": "rain " * 9000}]
    create = client.chat.completions.create
    for stream in (False, True):
        for fields in unmarkable:
            error = raised(openai.BadRequestError, create, **fields, stream=stream)
            assert error.code == "unmarkable"
        error = raised(openai.BadRequestError, create, messages=long, stream=stream)
        assert error.code == "context_length_exceeded"
        error = raised(openai.NotFoundError, create, model="gpt-5", stream=stream)
        assert error.code == "model_not_found"
    parse = client.chat.completions.parse
    assert raised(openai.BadRequestError, parse, response_format=Event).code == "unmarkable"
    error = raised(openai.UnprocessableEntityError, create, temperature=3)
    assert error.param == "temperature"
    raised(openai.APITimeoutError, client.with_options(timeout=0.001).chat.completions.create)


def raised(kind: type[openai.APIError], call: Callable[..., Any], **fields: Any) -> openai.APIError:
    """The exception that a call raises."""
    try:
        call(**{**CHAT, **fields})
    except kind as error:
        return error
    raise AssertionError(f"{fields} was accepted")


async def ask_at_once() -> None:
    async with openai.AsyncOpenAI(base_url=BASE_URL, api_key="unused", max_retries=0) as client:
        for answer in await asyncio.gather(
            *(client.chat.completions.create(**CHAT) for _ in range(3))
        ):
            mark_of(answer)
        abandoned = await client.chat.completions.create(**CHAT, stream=True)
        await anext(aiter(abandoned))
        await abandoned.close()


def main() -> None:
    with openai.OpenAI(base_url=BASE_URL, api_key="unused", max_retries=0) as client:
        assert [model.id for model in client.models.list()] == ["hammingmark"]
        ask_in_chats(client)
        stream_by_helpers(client)
        ask_for_texts(client)
        ask_for_responses(client)
        fail(client)
    asyncio.run(ask_at_once())


if __name__ == "__main__":
    main()
