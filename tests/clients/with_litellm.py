"""LiteLLM's SDK, unchanged: python with_litellm.py, with BASE_URL set."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import litellm

STATUSES = {"marked", "partly", "unmarked"}
SERVER: Any = {"api_base": os.environ["BASE_URL"], "api_key": "unused", "max_retries": 0}
CHAT: Any = {
    "model": "openai/hammingmark",
    "messages": [{"role": "user", "content": "Why does it rain?"}],
    "max_tokens": 40,
    **SERVER,
}


def ask() -> None:
    for model in ("openai/hammingmark", "hosted_vllm/hammingmark"):
        answer = litellm.completion(**{**CHAT, "model": model})
        assert answer.choices[0].message.content
        assert answer.watermark["status"] in STATUSES
    chunks = list(litellm.completion(**CHAT, stream=True))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks).strip()
    text = litellm.text_completion(
        model="text-completion-openai/hammingmark", prompt="It rained.", max_tokens=30, **SERVER
    )
    assert text.watermark["status"] in STATUSES
    response: Any = litellm.responses(
        model="openai/hammingmark", input="Why does it rain?", max_output_tokens=40, **SERVER
    )
    assert response.watermark["status"] in STATUSES


def fail() -> None:
    cases: list[tuple[type[Exception], dict[str, Any]]] = [
        (litellm.BadRequestError, {"response_format": {"type": "json_object"}}),
        (litellm.BadRequestError, {"logprobs": True}),
        (
            litellm.ContextWindowExceededError,
            {"messages": [{"role": "user", "content": "rain " * 9000}]},
        ),
        (litellm.NotFoundError, {"model": "openai/gpt-5"}),
    ]
    for kind, fields in cases:
        try:
            litellm.completion(**{**CHAT, **fields})
        except kind:
            continue
        raise AssertionError(f"{fields} was accepted")


async def stream() -> None:
    answer = await litellm.acompletion(**CHAT, stream=True, stream_options={"include_usage": True})
    chunks = [chunk async for chunk in answer]
    assert any(getattr(chunk, "usage", None) for chunk in chunks)
    (mark,) = [mark for chunk in chunks if (mark := getattr(chunk, "watermark", None))]
    assert mark["status"] in STATUSES


def main() -> None:
    ask()
    fail()
    asyncio.run(stream())


if __name__ == "__main__":
    main()
