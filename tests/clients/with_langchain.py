"""LangChain, unchanged: python with_langchain.py, with BASE_URL set."""

from __future__ import annotations

import os
from typing import Any

import openai
from langchain_openai import ChatOpenAI, OpenAI
from pydantic import BaseModel

QUESTION = "Why does it rain?"
OPTIONS: Any = {
    "base_url": os.environ["BASE_URL"],
    "api_key": "unused",
    "model": "hammingmark",
    "max_tokens": 40,
    "max_retries": 0,
}


class Clock(BaseModel):
    """Tells the time in a city."""

    city: str


def chat() -> None:
    model = ChatOpenAI(**OPTIONS, include_response_headers=True)
    answer = model.invoke(QUESTION)
    assert answer.text
    headers = answer.response_metadata["headers"]
    assert headers["x-watermark-status"] in {"marked", "partly", "unmarked"}
    chunks = list(model.stream(QUESTION))
    assert "".join(chunk.text for chunk in chunks).strip()
    assert chunks[0].response_metadata["headers"]["x-watermark-status"] in {"marking", "unmarked"}
    assert all(each.text for each in model.batch([QUESTION, "What is the sea?"]))
    assert model.bind_tools([Clock]).invoke(QUESTION).tool_calls == []
    by_responses = ChatOpenAI(**OPTIONS, use_responses_api=True)
    assert by_responses.invoke(QUESTION).text
    assert "".join(chunk.text for chunk in by_responses.stream(QUESTION)).strip()
    assert "." not in model.invoke(QUESTION, stop=["."]).text


def fail() -> None:
    model = ChatOpenAI(**OPTIONS)
    for method in ("json_schema", "function_calling", "json_mode"):
        structured = model.with_structured_output(Clock, method=method)
        assert error_of(structured, QUESTION).code == "unmarkable"
    long = error_of(model, "rain " * 9000)
    assert type(long).__name__ == "OpenAIContextOverflowError"


def error_of(model: Any, question: str) -> openai.BadRequestError:
    try:
        model.invoke(question)
    except openai.BadRequestError as error:
        return error
    raise AssertionError(f"{question[:20]!r} was answered")


def main() -> None:
    chat()
    assert OpenAI(**OPTIONS).invoke("It rained.").strip()
    fail()


if __name__ == "__main__":
    main()
