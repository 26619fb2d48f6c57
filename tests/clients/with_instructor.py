"""Instructor, unchanged: python with_instructor.py, with BASE_URL set."""

from __future__ import annotations

import os
from typing import Any

import instructor
import openai
from instructor.core import InstructorRetryException
from pydantic import BaseModel

ASKED: Any = {
    "model": "hammingmark",
    "messages": [{"role": "user", "content": "The concert is called Blue Night."}],
    "max_tokens": 60,
    "max_retries": 0,
}


class Event(BaseModel):
    """An event."""

    name: str


def main() -> None:
    with openai.OpenAI(base_url=os.environ["BASE_URL"], api_key="unused", max_retries=0) as client:
        plain = instructor.from_openai(client)
        answer = plain.chat.completions.create(**ASKED, response_model=None)
        assert answer.model_extra["watermark"]["status"] in {"marked", "partly", "unmarked"}
        for mode in (instructor.Mode.TOOLS, instructor.Mode.JSON, instructor.Mode.JSON_SCHEMA):
            assert "unmarkable" in str(error_of(instructor.from_openai(client, mode=mode)))


def error_of(client: instructor.Instructor) -> InstructorRetryException:
    try:
        client.chat.completions.create(**ASKED, response_model=Event)
    except InstructorRetryException as error:
        return error
    raise AssertionError("the embedded model wrote an object")


if __name__ == "__main__":
    main()
