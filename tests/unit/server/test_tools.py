"""Requests that offer tools: text is marked, calls are passed on."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import openai
import pytest
from tests.unit.backends.openai_server import Handler, Server, Step, status
from tests.unit.server.harness import (
    CHAT,
    QUESTION,
    Home,
    Live,
    Served,
    counts,
    error_of,
    events_of,
    key_of,
    mark_of,
    text_of,
)
from tests.unit.server.test_upstream import MUST_CALL, TOOLS, answers

from hammingmark.testing import FakeBackend

Serve = Callable[..., Served]
CALL = {
    "id": "call_1",
    "type": "function",
    "function": {"name": "clock", "arguments": '{"zone": "UTC"}'},
}
RESULT = [
    *QUESTION,
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "call_1", "content": [{"type": "text", "text": "Late."}]},
]


def delta(handler: Handler, fields: dict[str, Any], reason: str | None = None) -> None:
    handler.event({"choices": [{"index": 0, "delta": fields, "finish_reason": reason}]})


def calling(*texts: str, arguments: tuple[str, ...] = ('{"zone"', ': "UTC"}')) -> Step:
    """Stream texts, then a call piece by piece."""

    def step(handler: Handler, body: dict[str, Any]) -> None:
        if body.get("n", 1) > 1:
            status(400, "n must be 1")(handler, body)
            return
        handler.begin()
        delta(handler, {"role": "assistant", "content": None})
        for text in texts:
            delta(handler, {"content": text})
        function = {"name": "clock", "arguments": ""}
        head = {"index": 0, "id": "call_1", "type": "function", "function": function}
        delta(handler, {"tool_calls": [head]})
        for part in arguments:
            delta(handler, {"tool_calls": [{"index": 0, "function": {"arguments": part}}]})
        delta(handler, {}, "tool_calls")
        handler.event("[DONE]")

    return step


@pytest.fixture
def before(serve: Serve, model_server: Server) -> Callable[..., Served]:
    """Makes a service in front of a server of models."""
    model_server.always = answers

    def make(**settings: Any) -> Served:
        return serve(upstream={"url": model_server.url, "model": "tiny", "retries": 0}, **settings)

    return make


@pytest.mark.parametrize(
    "offer",
    [
        {"tools": TOOLS, "parallel_tool_calls": False},
        {"tools": TOOLS, "tool_choice": "auto"},
        {"tools": TOOLS, "tool_choice": "none"},
        {"functions": [TOOLS[0]["function"]], "function_call": "auto"},
    ],
)
def test_text_is_marked_although_tools_are_offered(
    before: Serve, model_server: Server, offer: dict[str, Any]
) -> None:
    served = before()
    answer = served.chat(**offer)
    mark = mark_of(answer)
    assert (mark["status"], mark["key_id"]) == ("marked", key_of().id)
    assert served.detect(text_of(answer))["p_value"] == mark["p_value"]
    assert "tool_calls" not in answer.json()["choices"][0]["message"]
    assert text_of(served.chat(stream=True, **offer)) == text_of(answer)
    for body in model_server.bodies:
        assert {name: body[name] for name in offer} == offer


def test_a_call_is_passed_on_after_one_draw(
    before: Serve, model_server: Server, home: Home
) -> None:
    model_server.always = calling()
    served = before(audit={"file": home.audit})
    answer = served.chat(tools=TOOLS)
    (choice,) = answer.json()["choices"]
    assert choice["message"]["content"] is None
    assert choice["message"]["tool_calls"] == [CALL]
    assert choice["finish_reason"] == "tool_calls"
    mark = mark_of(answer)
    assert (mark["status"], mark["key_id"], mark["p_value"]) == ("unmarked", None, None)
    assert answer.headers["x-watermark-status"] == "unmarked"
    assert len(model_server.bodies) == 1
    assert answer.json()["usage"]["completion_tokens"] == 3
    assert counts(served, "answers_total") == {'reason="unmarkable",status="unmarked"': 1}
    (row,) = home.records("end")
    assert (row["status"], row["reason"]) == ("unmarked", "unmarkable")


def test_a_call_is_streamed_in_one_chunk_that_clients_read(
    live: Callable[..., Live], model_server: Server
) -> None:
    model_server.always = calling()
    service = live(upstream={"url": model_server.url, "model": "tiny", "retries": 0})
    client = openai.OpenAI(base_url=f"{service.root}/v1", api_key="unused", max_retries=0)
    messages: Any = QUESTION
    tools: Any = TOOLS
    request = client.chat.completions.stream(model="tiny", messages=messages, tools=tools)
    with request as stream:
        found = stream.get_final_completion().choices[0]
    assert found.finish_reason == "tool_calls"
    assert found.message.tool_calls is not None
    (call,) = found.message.tool_calls
    assert (call.id, call.function.name) == ("call_1", "clock")
    assert json.loads(call.function.arguments) == {"zone": "UTC"}
    assert not found.message.content
    response = service.client.post(
        CHAT, json={"messages": QUESTION, "tools": TOOLS, "stream": True}
    )
    assert response.headers["x-watermark-status"] == "unmarked"
    assert mark_of(response)["status"] == "unmarked"


def test_a_call_may_be_longer_than_a_sentence(before: Serve, model_server: Server) -> None:
    """The model's own limit applies if the request sets none; a limit of the request is sent."""
    model_server.always = calling(arguments=tuple(f"{number} " for number in range(300)))
    served = before()
    answer = served.chat(tools=TOOLS, max_tokens=None)
    (call,) = answer.json()["choices"][0]["message"]["tool_calls"]
    assert len(call["function"]["arguments"].split()) == 300
    assert not {"max_tokens", "max_completion_tokens"} & model_server.bodies[0].keys()
    served.chat(tools=TOOLS, max_tokens=400)
    assert model_server.bodies[1]["max_tokens"] == 400


def test_a_call_that_follows_text_comes_with_it(before: Serve, model_server: Server) -> None:
    model_server.always = calling("Let me", " look.")
    served = before()
    answer = served.chat(tools=TOOLS)
    (choice,) = answer.json()["choices"]
    assert choice["message"]["content"] == "Let me look."
    assert choice["message"]["tool_calls"] == [CALL]
    assert mark_of(answer)["status"] == "unmarked"
    streamed = events_of(served.chat(tools=TOOLS, stream=True))
    deltas = [event["choices"][0]["delta"] for event in streamed[:-1]]
    assert "".join(each.get("content") or "" for each in deltas) == "Let me look."
    (calls,) = [each["tool_calls"] for each in deltas if "tool_calls" in each]
    assert calls == [{**CALL, "index": 0}]


def test_the_text_before_a_call_is_marked(before: Serve, model_server: Server) -> None:
    """Every sentence after the first is drawn under the rule, the one with the call as well."""

    def step(handler: Handler, body: dict[str, Any]) -> None:
        written = body["messages"][-1]
        begun = written["content"] if written["role"] == "assistant" else ""
        if begun.count(".") < 6:
            answers(handler, body)
        else:
            calling(f" Sentence {body['seed']} is here.")(handler, body)

    model_server.always = step
    answer = before().chat(tools=TOOLS, max_tokens=300)
    (choice,) = answer.json()["choices"]
    assert choice["message"]["content"].endswith("is here.")
    assert choice["message"]["tool_calls"] == [CALL]
    assert choice["finish_reason"] == "tool_calls"
    mark = mark_of(answer)
    assert (mark["status"], mark["sentences"]) == ("marked", 7)


@pytest.mark.parametrize("stream", [False, True])
def test_conversations_with_calls_and_results_are_marked(
    before: Serve, model_server: Server, stream: bool
) -> None:
    served = before()
    answer = served.chat(messages=RESULT, tools=TOOLS, stream=stream)
    assert mark_of(answer)["status"] == "marked"
    for body in model_server.bodies:
        assert body["messages"][:3] == RESULT
    assert mark_of(served.chat(messages=RESULT))["status"] == "marked"
    assert served.chat(messages=RESULT[:2], **MUST_CALL).status_code == 200


@pytest.mark.parametrize("stream", [False, True])
def test_where_all_must_be_marked_a_call_is_refused_and_text_is_not(
    before: Serve, model_server: Server, stream: bool
) -> None:
    served = before(policy={"unmarkable": "refuse"})
    assert mark_of(served.chat(tools=TOOLS, stream=stream))["status"] == "marked"
    model_server.always = calling()
    refused = served.chat(tools=TOOLS, stream=stream)
    assert refused.status_code == 400
    assert error_of(refused)["code"] == "unmarkable"
    assert counts(served, "answers_total")['reason="unmarkable",status="refused"'] == 1


def test_an_upstream_that_does_not_stream_may_call_as_well(
    before: Serve, model_server: Server
) -> None:
    def step(handler: Handler, body: dict[str, Any]) -> None:
        message = {"role": "assistant", "content": "Let me look.", "tool_calls": [CALL]}
        choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
        handler.plain({"choices": [choice]})

    model_server.always = step
    message = before().chat(tools=TOOLS).json()["choices"][0]["message"]
    assert (message["content"], message["tool_calls"]) == ("Let me look.", [CALL])


def test_many_tools_may_be_offered_and_too_many_are_refused(
    before: Serve, model_server: Server
) -> None:
    served = before()
    many = [{**TOOLS[0], "about": "x" * 100_000}]
    assert mark_of(served.chat(tools=many))["status"] == "marked"
    answer = served.chat(tools=[*many, *many, *many])
    assert answer.status_code == 400
    assert error_of(answer)["param"] == "tools"


@pytest.mark.parametrize("stream", [False, True])
def test_the_embedded_model_answers_in_text(serve: Serve, stream: bool) -> None:
    model = FakeBackend()
    served = serve(backend=model)
    answer = served.chat(tools=TOOLS, stream=stream)
    mark = mark_of(answer)
    assert mark["status"] == "marked"
    assert "calls no tools" in mark["reason"]
    assert not any(request.sampling.offers_tools for request in model.drawn)
    assert "calls no tools" not in mark_of(served.chat(stream=stream))["reason"]
    assert mark_of(served.chat(messages=RESULT, stream=stream))["status"] == "marked"
    refused = served.chat(**MUST_CALL, stream=stream)
    assert refused.status_code == 400
    assert error_of(refused)["code"] == "unmarkable"


def test_calls_are_translated_for_the_responses_api(before: Serve, model_server: Server) -> None:
    model_server.always = calling()
    served = before()
    tools = [{"type": "function", "name": "clock", "parameters": {}}]
    body = {"input": "When?", "tools": tools}
    (item,) = served.post("/v1/responses", body).json()["output"]
    assert (item["type"], item["call_id"], item["name"]) == ("function_call", "call_1", "clock")
    events = served.post("/v1/responses", {**body, "stream": True}).text
    assert "response.function_call_arguments.done" in events
    model_server.always = answers
    answer = served.post("/v1/responses", body).json()
    assert answer["watermark"]["status"] == "marked"
