"""JSON mode: the upstream's answer as it is, unmarked and said to be; embedded models refuse."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.unit.backends.openai_server import Handler, Server, saying
from tests.unit.server.harness import (
    CHAT,
    QUESTION,
    TEXT,
    Home,
    Served,
    counts,
    error_of,
    mark_of,
    text_of,
)
from tests.unit.server.test_upstream import TOOLS

Serve = Callable[..., Served]
RESPONSES = "/v1/responses"
ANSWER = '{"weather": "It rains. It will rain again tomorrow."}'
SCHEMA = {"type": "object", "properties": {"weather": {"type": "string"}}}
FORMS: dict[str, dict[str, Any]] = {
    "json_object": {"type": "json_object"},
    "json_schema": {"type": "json_schema", "json_schema": {"name": "w", "schema": SCHEMA}},
}


def in_json(handler: Handler, body: dict[str, Any]) -> None:
    """Answer in JSON, streamed if that is asked for."""
    is_chat = handler.path.endswith("/chat/completions")
    head = {"id": "theirs-1", "model": "tiny"}
    choice: dict[str, Any] = {"index": 0, "finish_reason": "stop"}
    if body.get("stream"):
        choice |= {"delta": {"content": ANSWER}} if is_chat else {"text": ANSWER}
        saying({**head, "choices": [choice]}, "[DONE]")(handler, body)
        return
    message = {"role": "assistant", "content": ANSWER}
    choice |= {"message": message} if is_chat else {"text": ANSWER}
    handler.plain({**head, "choices": [choice]})


def asked(path: str, form: str, *, stream: bool) -> dict[str, Any]:
    """A request for JSON."""
    if path == RESPONSES:
        wanted = FORMS[form]
        flat = {"type": form, **wanted.get("json_schema", {})}
        return {"input": "How is the weather?", "stream": stream, "text": {"format": flat}}
    begun = {"messages": QUESTION} if path == CHAT else {"prompt": "The weather as JSON:"}
    return {**begun, "stream": stream, "response_format": FORMS[form]}


def final_of(answer: Any) -> dict[str, Any]:
    """The response object of the Responses API."""
    if answer.headers["content-type"] == "application/json":
        return dict(answer.json())
    datas = [line for line in answer.text.splitlines() if line.startswith("data: ")]
    return dict(json.loads(datas[-1].removeprefix("data: "))["response"])


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("path", "tools"),
    [(CHAT, False), (CHAT, True), (TEXT, False), (RESPONSES, False), (RESPONSES, True)],
)
def test_it_is_passed_on_and_says_so(
    serve: Serve, model_server: Server, home: Home, path: str, form: str, stream: bool, tools: bool
) -> None:
    model_server.always = in_json
    served = serve(upstream={"url": model_server.url, "model": "tiny"}, audit={"file": home.audit})
    body = asked(path, form, stream=stream)
    if tools and path == CHAT:
        body["tools"] = TOOLS
    elif tools:
        body["tools"] = [{"type": "function", **TOOLS[0]["function"]}]  # type: ignore[dict-item]
    answer = served.post(path, body)
    assert answer.status_code == 200, answer.text
    assert answer.headers["x-watermark-status"] == "unmarked"
    if path == RESPONSES:
        response = final_of(answer)
        mark, text = response["watermark"], response["output"][0]["content"][0]["text"]
    else:
        mark, text = mark_of(answer), text_of(answer)
    assert text == ANSWER
    assert (mark["status"], mark["key_id"]) == ("unmarked", None)
    assert "JSON" in mark["reason"]
    (sent,) = model_server.bodies  # as it came, and once
    assert sent["response_format"]["type"] == form
    if form == "json_schema":
        assert sent["response_format"]["json_schema"]["schema"] == SCHEMA
    assert ("tools" in sent) is tools
    assert "continue_final_message" not in sent
    assert counts(served, "answers_total") == {'reason="unmarkable",status="unmarked"': 1}
    (row,) = home.records("passed")
    assert row["reason"] == "unmarkable"


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("path", [CHAT, TEXT, RESPONSES])
def test_who_may_not_be_unmarked_is_refused(
    serve: Serve, model_server: Server, path: str, form: str, stream: bool
) -> None:
    model_server.always = in_json
    upstream = {"url": model_server.url, "model": "tiny"}
    strict = serve(upstream=upstream, policy={"unmarkable": "refuse"})
    for served in (strict, serve()):  # the second has the embedded model
        answer = served.post(path, asked(path, form, stream=stream))
        assert (answer.status_code, error_of(answer)["code"]) == (400, "unmarkable")
        assert "JSON" in error_of(answer)["message"]
    assert not model_server.bodies
