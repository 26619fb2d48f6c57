"""The Responses API: translated to chats that are marked, and back."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx
import openai
import pytest
from tests.unit.backends.openai_server import Handler, Server, saying, status
from tests.unit.server.harness import (
    QUESTION,
    TOKENS,
    Home,
    Live,
    Served,
    broken_encoder,
    counts,
    error_of,
    events_of,
    key_of,
    text_of,
)
from tests.unit.server.test_upstream import answers

from hammingmark.testing import FakeBackend

Serve = Callable[..., Served]
RESPONSES = "/v1/responses"
ASKED = QUESTION[0]["content"]
CLOCK = {"type": "function", "name": "clock", "parameters": {}, "strict": None}


@pytest.fixture
def served(serve: Serve) -> Served:
    return serve()


@pytest.fixture
def before(serve: Serve, model_server: Server) -> Callable[..., Served]:
    """Makes a service in front of a server of models."""
    model_server.always = answers

    def make(**settings: Any) -> Served:
        told = {"url": model_server.url, "model": "tiny", "retries": 0}
        return serve(upstream=told, **settings)

    return make


def respond(served: Served, **named: Any) -> httpx.Response:
    """Ask for a response; short, and the same every time."""
    body = {"input": ASKED, "max_output_tokens": TOKENS, "seed": 3} | named
    return served.post(RESPONSES, body)


def typed_events(answer: httpx.Response) -> list[dict[str, Any]]:
    """The events of a stream; each is numbered and named by its type."""
    assert answer.headers["content-type"].startswith("text/event-stream"), answer.text
    assert answer.text.endswith("\n\n")
    events = []
    for number, each in enumerate(answer.text.split("\n\n")[:-1]):
        name, data = each.split("\n")
        event = json.loads(data.removeprefix("data: "))
        assert name == f"event: {event['type']}"
        assert event["sequence_number"] == number
        events.append(event)
    return events


def parsed(answer: httpx.Response) -> Any:
    """A response as the official client reads it."""
    assert answer.status_code == 200, answer.text
    return openai.types.responses.Response.model_validate(answer.json())


def test_a_response_is_the_answer_of_the_same_chat(served: Served) -> None:
    chat, answer = served.chat(), respond(served)
    content = answer.json()
    (item,) = content["output"]
    (part,) = item["content"]
    assert part == {
        "type": "output_text",
        "text": text_of(chat),
        "annotations": [],
        "logprobs": [],
    }
    assert (item["type"], item["role"], item["status"]) == ("message", "assistant", "incomplete")
    assert (content["object"], content["status"]) == ("response", "incomplete")
    assert content["incomplete_details"] == {"reason": "max_output_tokens"}
    assert (content["error"], content["store"]) == (None, False)
    assert content["id"] == f"resp_{answer.headers['x-request-id']}"
    assert content["model"] == "hammingmark"
    told = chat.json()["usage"]
    usage = content["usage"]
    assert usage["input_tokens"] == told["prompt_tokens"]
    assert usage["output_tokens"] == told["completion_tokens"] == TOKENS
    assert usage["total_tokens"] == told["total_tokens"]
    mark = content["watermark"]
    assert mark | {"seconds": 0} == chat.json()["watermark"] | {"seconds": 0}
    assert mark["status"] == "marked"
    assert answer.headers["x-watermark-status"] == "marked"
    assert parsed(answer).output_text == text_of(chat)


def test_a_response_that_ends_before_its_limit_is_complete(served: Served) -> None:
    content = respond(served, stop=".").json()
    assert (content["status"], content["incomplete_details"]) == ("completed", None)
    assert content["output"][0]["status"] == "completed"


def test_a_stream_has_its_events_in_order(served: Served) -> None:
    whole = respond(served).json()
    answer = respond(served, stream=True)
    assert answer.headers["x-watermark-status"] == "marking"
    assert answer.headers["x-watermark-key-id"] == key_of().id
    assert answer.headers["cache-control"] == "no-store"
    events = typed_events(answer)
    deltas = [each for each in events if each["type"] == "response.output_text.delta"]
    assert [each["type"] for each in events] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        *["response.output_text.delta"] * len(deltas),
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.incomplete",
    ]
    chunks = events_of(served.chat(stream=True))[1:-2]  # without role, end and [DONE]
    assert [each["delta"] for each in deltas] == [
        chunk["choices"][0]["delta"]["content"] for chunk in chunks
    ]
    assert len(deltas) > 1
    text = "".join(each["delta"] for each in deltas)
    assert text == whole["output"][0]["content"][0]["text"]
    *_, done, part, item, last = events
    assert done["text"] == part["part"]["text"] == text
    assert item["item"] == last["response"]["output"][0]
    begun = events[0]["response"]
    assert (begun["status"], begun["output"], begun["usage"]) == ("in_progress", [], None)
    assert "watermark" not in begun
    names = ("id", "created_at", "watermark")
    assert {**last["response"], **dict.fromkeys(names)} == {
        **whole,
        **dict.fromkeys(names),
        "output": last["response"]["output"],
    }
    assert last["response"]["watermark"]["p_value"] == whole["watermark"]["p_value"]
    assert {each["item_id"] for each in deltas} == {item["item"]["id"]}
    assert len({each["response"]["id"] for each in (*events[:2], last)}) == 1


@pytest.mark.parametrize(
    "given",
    [
        [{"role": "user", "content": ASKED}],
        [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": ASKED}]}],
        [
            {
                "role": "user",
                "content": [
                    {"type": "input_text", "text": ASKED[:5]},
                    {"type": "input_text", "text": ASKED[5:]},
                ],
            }
        ],
    ],
)
def test_the_input_may_be_items(served: Served, given: Any) -> None:
    assert parsed(respond(served, input=given)).output_text == text_of(served.chat())


def test_a_conversation_becomes_messages(serve: Serve) -> None:
    backend = FakeBackend()
    served = serve(backend=backend)
    items = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": "Who?"},
        {"type": "reasoning", "id": "rs_1", "summary": []},
        {
            "type": "message",
            "id": "msg_1",
            "status": "completed",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "The keeper.", "annotations": []}],
        },
        {"role": "user", "content": "Why?"},
    ]
    assert respond(served, instructions="Be kind.", input=items).status_code == 200
    found = [(m.role, m.content) for m in backend.drawn[0].prompt.messages]
    assert found[:5] == [
        ("system", "Be kind."),
        ("system", "Be brief."),
        ("user", "Who?"),
        ("assistant", "The keeper."),
        ("user", "Why?"),
    ]


@pytest.mark.parametrize(
    ("named", "param"),
    [
        ({"previous_response_id": "resp_1"}, "previous_response_id"),
        ({"conversation": "conv_1"}, "conversation"),
        ({"conversation": {"id": "conv_1"}}, "conversation"),
        ({"background": True}, "background"),
        ({"prompt": {"id": "pmpt_1"}}, "prompt"),
        ({"top_logprobs": 2}, "top_logprobs"),
        ({"include": ["message.output_text.logprobs"]}, "include"),
        ({"n": 2}, "n"),
        ({"tools": [{"type": "web_search"}]}, "tools"),
        ({"tools": [CLOCK], "tool_choice": {"type": "mcp", "server_label": "x"}}, "tool_choice"),
        ({"input": [{"type": "item_reference", "id": "msg_1"}]}, "input"),
        ({"input": [{"type": "computer_call", "id": "cu_1"}]}, "input"),
        ({"input": [{"role": "pope", "content": "."}]}, "input"),
        ({"input": [{"role": "user"}]}, "input"),
        ({"input": [{"role": "user", "content": []}]}, "input"),
        ({"input": [{"role": "user", "content": [{"type": "input_text"}]}]}, "input"),
        ({"input": [{"role": "user", "content": [{"type": "odd"}]}]}, "input"),
        ({"input": [{"role": "user", "content": [5]}]}, "input"),
        ({"input": [{"role": "system", "content": "Be brief."}]}, "input"),
        ({"input": [{"type": "function_call", "call_id": 5, "name": "a"}]}, "input"),
        ({"max_output_tokens": 100_000}, "max_output_tokens"),
    ],
)
def test_what_cannot_be_done_is_refused_by_its_name(
    served: Served, named: dict[str, Any], param: str
) -> None:
    for stream in (False, True):
        answer = respond(served, **named, stream=stream)
        assert answer.status_code == 400
        assert error_of(answer)["param"] == param


@pytest.mark.parametrize(
    ("named", "param"),
    [
        ({"input": None}, "input"),
        ({"input": []}, "input"),
        ({"max_output_tokens": 0}, "max_output_tokens"),
        ({"temperature": 3}, "temperature"),
        ({"stop": [""]}, "stop"),
        ({"watermark": {"off": True}}, "watermark"),
    ],
)
def test_a_field_of_another_kind_is_refused_by_its_name(
    served: Served, named: dict[str, Any], param: str
) -> None:
    answer = respond(served, **named)
    assert answer.status_code == 422
    assert answer.json()["error"]["param"].split(".")[0] == param


def test_what_has_no_effect_is_accepted_and_told(served: Served) -> None:
    answer = respond(
        served,
        store=True,
        truncation="auto",
        include=["reasoning.encrypted_content"],
        stream_options={"include_obfuscation": False},
        metadata={"page": "7"},
        tools=[],
        tool_choice="auto",
        text={"format": {"type": "text"}},
        reasoning={"effort": None},
        max_tool_calls=None,
        instructions=None,
        user="u-1",
    )
    content = answer.json()
    assert answer.status_code == 200, content
    assert (content["store"], content["truncation"]) == (False, "disabled")
    assert content["metadata"] == {"page": "7"}
    assert content["watermark"]["status"] == "marked"


def test_an_unknown_model_is_refused(served: Served) -> None:
    answer = respond(served, model="gpt-9")
    assert answer.status_code == 404
    assert error_of(answer)["code"] == "model_not_found"


def test_an_answer_that_must_be_marked_and_cannot_is_refused(serve: Serve) -> None:
    served = serve(encoder=broken_encoder())
    for stream in (False, True):
        answer = respond(served, stream=stream)
        assert answer.status_code == 503
        assert error_of(answer)["type"] == "watermark_error"


def test_unmarked_responses_say_so(serve: Serve) -> None:
    served = serve(policy={"switch_off": "allowed"})
    for named in ({"temperature": 0}, {"watermark": {"enabled": False}}):
        content = respond(served, **named).json()
        assert content["watermark"]["status"] == "unmarked"
        *_, last = typed_events(respond(served, stream=True, **named))
        assert last["response"]["watermark"]["status"] == "unmarked"
        assert last["response"]["usage"] == content["usage"]


def test_the_audit_log_and_the_metrics_name_the_endpoint(serve: Serve, home: Home) -> None:
    served = serve(audit={"file": home.audit})
    answer = respond(served)
    (begin,) = home.records("begin")
    (end,) = home.records("end")
    assert begin["endpoint"] == RESPONSES
    assert begin["request_id"] == end["request_id"] == answer.headers["x-request-id"]
    assert counts(served, "requests_total") == {f'endpoint="{RESPONSES}",status="200"': 1}


def test_the_official_client_reads_responses(live: Callable[..., Live]) -> None:
    root = live().root
    client = openai.OpenAI(base_url=f"{root}/v1", api_key="unused", max_retries=0)
    asked: Any = {
        "model": "hammingmark",
        "input": ASKED,
        "instructions": "Be brief.",
        "max_output_tokens": TOKENS,
        "extra_body": {"seed": 3},
    }
    whole = client.responses.create(**asked)
    assert whole.output_text
    assert whole.status == "incomplete"
    assert (whole.model_extra or {})["watermark"]["status"] == "marked"
    events = list(client.responses.create(stream=True, **asked))
    assert "".join(e.delta for e in events if e.type == "response.output_text.delta") == (
        whole.output_text
    )
    last = events[-1]
    assert last.type == "response.incomplete"
    assert last.response.usage == whole.usage
    assert (last.response.model_extra or {})["watermark"]["status"] == "marked"
    short = {**asked, "extra_body": {"seed": 3, "stop": "."}}  # the client wants complete ones
    with client.responses.stream(**short) as stream:
        for _ in stream:
            pass
        assert whole.output_text.startswith(stream.get_final_response().output_text)
    with pytest.raises(openai.BadRequestError) as refused:
        client.responses.create(previous_response_id="resp_1", **asked)
    assert refused.value.param == "previous_response_id"


def test_an_upstream_is_asked_for_chats_that_are_marked(
    before: Serve, model_server: Server
) -> None:
    served = before()
    answer = respond(served, instructions="Be brief.", top_k=5)
    content = answer.json()
    assert content["watermark"]["status"] == "marked"
    assert content["model"] == "tiny"
    assert parsed(answer).output_text == text_of(
        served.chat(messages=[{"role": "system", "content": "Be brief."}, *QUESTION], top_k=5)
    )
    assert {path for path, _ in model_server.seen} == {"/v1/chat/completions"}
    for body in model_server.bodies:
        assert body["messages"][0] == {"role": "system", "content": "Be brief."}
        assert body["top_k"] == 5
        assert not {"input", "instructions", "max_output_tokens", "store"} & body.keys()
    *_, last = typed_events(respond(served, stream=True, instructions="Be brief.", top_k=5))
    assert last["response"]["output"][0]["content"] == content["output"][0]["content"]
    assert last["response"]["watermark"]["status"] == "marked"


CALLED = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 5,
    "model": "tiny",
    "choices": [
        {
            "index": 0,
            "finish_reason": "tool_calls",
            "message": {
                "role": "assistant",
                "content": None,
                "reasoning_content": "They want the time.",
                "tool_calls": [
                    {
                        "id": "call_1",
                        "type": "function",
                        "function": {"name": "clock", "arguments": '{"zone": "UTC"}'},
                    }
                ],
            },
        }
    ],
    "usage": {
        "prompt_tokens": 5,
        "completion_tokens": 7,
        "total_tokens": 12,
        "prompt_tokens_details": {"cached_tokens": 2},
        "completion_tokens_details": {"reasoning_tokens": 3},
    },
}


def chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 5, "model": "tiny"}
    return {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def call_delta(index: int, arguments: str, **named: Any) -> dict[str, Any]:
    function = {"arguments": arguments, **({"name": named.pop("name")} if named else {})}
    return chunk({"tool_calls": [{"index": index, "function": function, **named}]})


def test_calls_of_functions_are_passed_on_both_ways(before: Serve, model_server: Server) -> None:
    model_server.always = lambda handler, body: handler.plain(CALLED)
    served = before()
    call = {"type": "function_call", "call_id": "call_0", "name": "clock", "arguments": "{}"}
    items = [
        {"role": "user", "content": "When?"},
        {"type": "message", "role": "assistant", "content": "Let me look."},
        call,
        {"type": "function_call_output", "call_id": "call_0", "output": "Late."},
    ]
    choice = {"type": "function", "name": "clock"}
    answer = respond(served, input=items, tools=[CLOCK], tool_choice=choice)
    content = answer.json()
    reasoning, called = content["output"]
    assert reasoning["content"] == [{"type": "reasoning_text", "text": "They want the time."}]
    assert called == {
        "id": called["id"],
        "type": "function_call",
        "status": "completed",
        "call_id": "call_1",
        "name": "clock",
        "arguments": '{"zone": "UTC"}',
    }
    assert content["status"] == "completed"
    assert content["watermark"]["status"] == "unmarked"
    usage = content["usage"]
    assert usage["input_tokens_details"]["cached_tokens"] == 2
    assert usage["output_tokens_details"] == {"reasoning_tokens": 3}
    assert parsed(answer).output[1].name == "clock"
    body = model_server.bodies[-1]
    assert body["tools"] == [{"type": "function", "function": {"name": "clock", "parameters": {}}}]
    assert body["tool_choice"] == {"type": "function", "function": {"name": "clock"}}
    function = {"name": "clock", "arguments": "{}"}
    assert body["messages"][1:] == [
        {
            "role": "assistant",
            "content": "Let me look.",
            "tool_calls": [{"id": "call_0", "type": "function", "function": function}],
        },
        {"role": "tool", "tool_call_id": "call_0", "content": "Late."},
    ]


def test_calls_of_functions_are_streamed(before: Serve, model_server: Server) -> None:
    model_server.always = saying(
        chunk({"role": "assistant", "reasoning_content": "They want"}),
        chunk({"reasoning_content": " the time."}),
        chunk({"content": "Let me look."}),
        call_delta(0, "", id="call_1", name="clock"),
        call_delta(0, '{"zone":'),
        call_delta(0, ' "UTC"}'),
        call_delta(1, "{}", id="call_2", name="clock"),
        chunk({}, "tool_calls"),
        {**chunk({}), "choices": [], "usage": CALLED["usage"]},
        "[DONE]",
    )
    events = typed_events(respond(before(), tools=[CLOCK], tool_choice="required", stream=True))
    assert [each["type"].removeprefix("response.") for each in events] == [
        "created",
        "in_progress",
        "output_item.added",
        "content_part.added",
        "reasoning_text.delta",
        "reasoning_text.delta",
        "reasoning_text.done",
        "content_part.done",
        "output_item.done",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "output_item.added",
        "function_call_arguments.delta",
        "function_call_arguments.delta",
        "function_call_arguments.done",
        "output_item.done",
        "output_item.added",
        "function_call_arguments.delta",
        "function_call_arguments.done",
        "output_item.done",
        "completed",
    ]
    done = [each["item"] for each in events if each["type"] == "response.output_item.done"]
    last = events[-1]["response"]
    assert done == last["output"]
    assert [item["type"] for item in done] == [
        "reasoning",
        "message",
        "function_call",
        "function_call",
    ]
    assert [item["arguments"] for item in done[2:]] == ['{"zone": "UTC"}', "{}"]
    assert [item["call_id"] for item in done[2:]] == ["call_1", "call_2"]
    assert len({item["id"] for item in done}) == 4
    assert all(item.get("status", "completed") == "completed" for item in done)
    assert last["usage"]["output_tokens"] == 7
    assert last["watermark"]["status"] == "unmarked"


def test_a_schema_is_passed_on_as_that_of_a_chat(before: Serve, model_server: Server) -> None:
    form = {"type": "json_schema", "name": "time", "schema": {"type": "object"}, "strict": True}
    content = respond(before(), text={"format": form}, reasoning={"effort": "low"}).json()
    schema = {"name": "time", "schema": {"type": "object"}, "strict": True}
    body = model_server.bodies[-1]
    assert body["response_format"] == {"type": "json_schema", "json_schema": schema}
    assert body["reasoning_effort"] == "low"
    assert content["text"]["format"] == form
    assert content["watermark"]["status"] == "unmarked"


def test_images_and_files_are_passed_on_as_those_of_a_chat(
    before: Serve, model_server: Server
) -> None:
    parts = [
        {"type": "input_text", "text": "What is this?"},
        {"type": "input_image", "image_url": "data:,", "detail": "low"},
        {"type": "input_file", "filename": "a.pdf", "file_data": "data:,"},
    ]
    assert respond(before(), input=[{"role": "user", "content": parts}]).status_code == 200
    (message,) = model_server.bodies[-1]["messages"]
    assert message["content"] == [
        {"type": "text", "text": "What is this?"},
        {"type": "image_url", "image_url": {"url": "data:,", "detail": "low"}},
        {"type": "file", "file": {"file_data": "data:,", "filename": "a.pdf"}},
    ]


def test_a_refusal_of_the_model_is_one(before: Serve, model_server: Server) -> None:
    message = {"role": "assistant", "content": None, "refusal": "No."}
    choice = {"index": 0, "finish_reason": "stop", "message": message}
    model_server.always = lambda handler, body: handler.plain({**CALLED, "choices": [choice]})
    served = before()
    (item,) = respond(served, temperature=0).json()["output"]
    assert item["content"] == [{"type": "refusal", "refusal": "No."}]
    model_server.always = saying(chunk({"refusal": "No."}), chunk({}, "stop"), "[DONE]")
    events = typed_events(respond(served, temperature=0, stream=True))
    kinds = [each["type"].removeprefix("response.") for each in events]
    added, delta, done, closed = kinds[3:7]
    assert (added, delta) == ("content_part.added", "refusal.delta")
    assert (done, closed) == ("refusal.done", "content_part.done")
    assert events[-1]["response"]["output"][0]["content"] == item["content"]


def test_an_empty_answer_is_a_message_without_text(before: Serve, model_server: Server) -> None:
    model_server.always = saying(chunk({}, "content_filter"), "[DONE]")
    *_, last = typed_events(respond(before(), temperature=0, stream=True))
    assert last["type"] == "response.incomplete"
    assert last["response"]["incomplete_details"] == {"reason": "content_filter"}
    (item,) = last["response"]["output"]
    assert [part["text"] for part in item["content"]] == [""]


def failing(handler: Handler, body: dict[str, Any]) -> None:
    """Break off in the middle of a stream."""
    handler.begin()
    handler.event(chunk({"content": "It"}))
    handler.event({"error": {"message": "Out of memory.", "code": 500}})


def broken(handler: Handler, body: dict[str, Any]) -> None:
    handler.begin()
    handler.event(chunk({"content": "It"}))


@pytest.mark.parametrize("step", [failing, broken])
def test_a_stream_that_fails_ends_with_an_error(
    before: Serve, model_server: Server, step: Any
) -> None:
    model_server.always = step
    answer = respond(before(), temperature=0, stream=True)
    *_, error, failed = typed_events(answer)
    assert error["type"] == "error"
    assert error["message"] == error["error"]["message"] != ""
    assert failed["type"] == "response.failed"
    assert failed["response"]["status"] == "failed"
    assert failed["response"]["error"]["message"] == error["message"]


def test_the_official_client_raises_what_ends_a_stream(
    live: Callable[..., Live], model_server: Server
) -> None:
    model_server.always = broken
    service = live(upstream={"url": model_server.url, "model": "tiny", "retries": 0})
    client = openai.OpenAI(base_url=f"{service.root}/v1", api_key="unused", max_retries=0)
    stream = client.responses.create(model="tiny", input=ASKED, temperature=0, stream=True)
    with pytest.raises(openai.APIError) as raised:
        list(stream)
    assert isinstance(raised.value.body, dict)
    assert raised.value.body["type"] == "upstream_error"


def test_errors_of_the_upstream_are_errors(before: Serve, model_server: Server) -> None:
    model_server.always = status(429, "so it is.", Retry_After="7")
    served = before()
    for stream in (False, True):
        for named in ({}, {"temperature": 0}):
            answer = respond(served, stream=stream, **named)
            assert answer.status_code == 429
            assert answer.headers["retry-after"] == "7"
            assert answer.json()["error"]["message"]
