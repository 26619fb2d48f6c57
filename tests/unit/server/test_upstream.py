"""The service in front of another: what is marked, what passes through, and what goes wrong."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import re
import threading
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any

import httpx
import openai
import pytest
from pydantic import SecretStr
from tests.unit.backends.openai_server import (
    Handler,
    Server,
    break_off,
    half_a_chunk,
    reset,
    saying,
    stall,
    stall_midway,
    status,
    vanish,
)
from tests.unit.server.harness import (
    CHAT,
    PATIENCE,
    QUESTION,
    TOKENS,
    Home,
    Live,
    Served,
    counts,
    error_of,
    events_of,
    key_of,
    mark_of,
    streamed,
    text_of,
    until,
)

from hammingmark.testing.fakes import paragraph

Serve = Callable[..., Served]
TOOLS = [{"type": "function", "function": {"name": "clock", "parameters": {}}}]
MUST_CALL: dict[str, Any] = {"tools": TOOLS, "tool_choice": "required"}
PASSED = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "model": "tiny",
    "choices": [
        {
            "index": 0,
            "finish_reason": "tool_calls",
            "message": {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]},
        }
    ],
    "usage": {"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12},
}


def answers(handler: Handler, body: dict[str, Any]) -> None:
    """Stream sentences to those who stream, word by word; others get what they can but take.

    One choice at a time, so that each has its own seed, and a text is the same in every run.
    """
    if body.get("n", 1) > 1:
        status(400, "n must be 1")(handler, body)
        return
    if not body.get("stream"):
        handler.plain(PASSED, X_Request_Id="theirs-1")
        return
    handler.begin()
    limit = body.get("max_tokens", 100)
    words = paragraph(Random(body.get("seed", 0))).split()
    with suppress(ConnectionError):
        for word in words[:limit]:
            handler.piece(0, f" {word}")
        handler.piece(0, "", "stop" if len(words) <= limit else "length")
        handler.event("[DONE]")


@pytest.fixture
def before(serve: Serve, model_server: Server) -> Callable[..., Served]:
    """Makes a service in front of a server of models."""
    model_server.always = answers

    def make(upstream: dict[str, Any] | None = None, **settings: Any) -> Served:
        told = {"url": model_server.url, "model": "tiny", "retries": 0, **(upstream or {})}
        return serve(upstream=told, **settings)

    return make


def test_text_of_the_upstream_is_marked(before: Serve, model_server: Server) -> None:
    served = before(upstream={"api_key": SecretStr("sk-1")})
    answer = served.chat(user="u-1", logit_bias={"5": 1})
    mark = mark_of(answer)
    assert (mark["status"], mark["key_id"]) == ("marked", key_of().id)
    assert mark["candidates"] > mark["accepted"] > 0
    assert text_of(served.chat(stream=True)) == text_of(answer)
    assert served.detect(text_of(answer))["p_value"] == mark["p_value"]
    assert answer.json()["model"] == "tiny"
    for body in model_server.bodies:
        assert body["model"] == "tiny"
        assert body["stream"] is True
        assert body["messages"][: len(QUESTION)] == QUESTION
        assert "watermark" not in body
    assert model_server.bodies[0]["user"] == "u-1"
    assert model_server.bodies[0]["logit_bias"] == {"5": 1}
    assert set(model_server.keys) == {"Bearer sk-1"}


def test_numbers_of_a_request_reach_the_upstream(before: Serve, model_server: Server) -> None:
    before().complete(temperature=0.7, top_p=0.9, top_k=5, presence_penalty=0.1, model="other")
    path, body = model_server.seen[0]
    assert path == "/v1/completions"
    asked = {name: body[name] for name in ("temperature", "top_p", "top_k", "presence_penalty")}
    assert asked == {"temperature": 0.7, "top_p": 0.9, "top_k": 5, "presence_penalty": 0.1}
    assert body["model"] == "other"


def test_sampling_that_a_request_does_not_set_is_left_to_the_upstream(
    before: Serve, model_server: Server
) -> None:
    """Its defaults may come with the model."""
    served = before()
    names = {"temperature", "top_p", "top_k", "min_p"}
    served.complete()
    served.chat()
    assert all(names.isdisjoint(body) for body in model_server.bodies)
    model_server.seen.clear()
    served.complete(top_k=0, min_p=0, top_p=1)
    sent = {name: model_server.bodies[0].get(name) for name in names}
    assert sent == {"temperature": None, "top_p": 1.0, "top_k": -1, "min_p": 0.0}


def test_without_a_name_the_only_model_is_asked_for(before: Serve, model_server: Server) -> None:
    served = before(upstream={"model": ""})
    unnamed = served.chat()
    assert unnamed.status_code == 502
    assert "not known yet" in error_of(unnamed)["message"]
    assert int(unnamed.headers["retry-after"]) > 0
    served.loop.run(served.service.load())
    assert served.get("/readyz").status_code == 200
    assert served.chat().json()["model"] == "tiny"
    assert {body["model"] for body in model_server.bodies if body} == {"tiny"}
    assert [each["id"] for each in served.get("/v1/models").json()["data"]] == ["tiny"]
    assert served.get("/v1/models/tiny").json() == {"id": "tiny"}
    assert served.get("/v1/models/other").status_code == 404


def test_of_several_models_one_must_be_named(before: Serve, model_server: Server) -> None:
    model_server.models = {"data": [{"id": "tiny"}, {"id": "other"}]}
    served = before(upstream={"model": ""})
    served.loop.run(served.service.load())
    unnamed = served.chat()
    assert unnamed.status_code == 400
    assert error_of(unnamed)["param"] == "model"
    assert served.chat(model="tiny").status_code == 200


def test_an_upstream_that_sends_much_at_once_is_kept_to_the_limits(
    before: Serve, model_server: Server
) -> None:
    """Where tokens cannot be told, words are counted."""

    def at_once(handler: Handler, body: dict[str, Any]) -> None:
        if body.get("n", 1) > 1:
            status(400, "n must be 1")(handler, body)
            return
        handler.begin()
        words = paragraph(Random(body["seed"])).split()[: body["max_tokens"]]
        handler.piece(0, f" {' '.join(words)}", "length")
        handler.event("[DONE]")

    model_server.always = at_once
    answer = before().complete(max_tokens=30)
    content = answer.json()
    assert len(text_of(answer).split()) == content["usage"]["completion_tokens"] <= 30
    assert content["watermark"]["drawn_tokens"] > 30


def test_a_text_that_is_continued_begins_with_the_models_own_space(
    before: Serve, model_server: Server, home: Home
) -> None:
    """So that a prompt and its continuation can be put together."""
    served = before(audit={"file": home.audit})
    whole = served.complete()
    assert text_of(whole)[0] == " " != text_of(whole)[1]
    assert text_of(served.complete(stream=True)) == text_of(whole)
    assert served.detect(text_of(whole))["p_value"] == mark_of(whole)["p_value"]
    hashed = hashlib.sha256(text_of(whole).encode()).hexdigest()
    assert {row["text_sha256"] for row in home.records("end")} == {hashed}
    assert text_of(served.chat())[0] != " "


@pytest.mark.parametrize("named", [{}, MUST_CALL, {**MUST_CALL, "stream": True}])
def test_the_services_own_name_stands_for_the_model_of_the_upstream(
    before: Serve, model_server: Server, named: dict[str, Any]
) -> None:
    """Which is strict about names."""

    def strict(handler: Handler, body: dict[str, Any]) -> None:
        (answers if body["model"] == "tiny" else status(404, "no such model"))(handler, body)

    model_server.always = strict
    served = before(model_name="house")
    assert served.chat(model="house", **named).status_code == 200
    assert {body["model"] for body in model_server.bodies} == {"tiny"}
    unknown = served.chat(model="other", **named)
    assert unknown.status_code == 404
    assert error_of(unknown)["code"] == "model_not_found"


@pytest.mark.parametrize(
    "named",
    [
        {"temperature": 0},
        MUST_CALL,
        {"response_format": {"type": "json_object"}},
        {"logprobs": True, "top_logprobs": 3},
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]},
        {"watermark": {"enabled": False}},
    ],
)
def test_what_cannot_be_marked_passes_as_it_is(
    before: Serve, model_server: Server, named: dict[str, Any]
) -> None:
    served = before(policy={"switch_off": "allowed"})
    answer = served.chat(**named)
    content = answer.json()
    mark = content.pop("watermark")
    assert content == PASSED
    assert (mark["status"], mark["key_id"], mark["p_value"]) == ("unmarked", None, None)
    assert mark["reason"]
    assert answer.headers["x-watermark-status"] == "unmarked"
    assert answer.headers["x-upstream-request-id"] == "theirs-1"
    sent = {"messages": QUESTION, "max_tokens": TOKENS, "seed": 3, "model": "tiny"} | named
    sent.pop("watermark", None)
    assert model_server.bodies == [sent]
    cause = "switched_off" if "watermark" in named else "unmarkable"
    assert counts(served, "answers_total") == {f'reason="{cause}",status="unmarked"': 1}


def test_a_stream_passes_as_it_is(before: Serve, model_server: Server) -> None:
    events = [{"choices": [{"index": 0, "delta": {"tool_calls": []}}], "odd": "é\u2028"}, "[DONE]"]
    model_server.always = saying(*events)
    answer = before().chat(**MUST_CALL, stream=True)
    first, told, last = events_of(answer)
    assert [first, last] == events
    assert told["choices"] == []
    assert told["watermark"]["status"] == "unmarked"
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.headers["x-watermark-status"] == "unmarked"
    assert model_server.bodies[0]["stream"] is True


def pieces(*texts: str) -> list[Any]:
    """The chunks of an upstream's answer, up to its end."""
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 5, "model": "tiny"}
    choices = [{"index": 0, "delta": {"content": text}, "finish_reason": None} for text in texts]
    choices.append({"index": 0, "delta": {}, "finish_reason": "stop"})
    return [{**head, "choices": [choice]} for choice in choices]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("ended", [True, False])
def test_the_last_chunk_of_a_stream_that_passes_says_that_it_is_unmarked(
    before: Serve, model_server: Server, end: str, ended: bool
) -> None:
    """Wherever the stream is cut on its way, and however its lines end."""
    chunks = [*pieces("It", " rained."), *(["[DONE]"] if ended else [])]

    def step(handler: Handler, body: dict[str, Any]) -> None:
        handler.begin()
        lines = [each if isinstance(each, str) else json.dumps(each) for each in chunks]
        content = "".join(f": note{end}data: {line}{end}{end}" for line in lines).encode()
        for begin in range(0, len(content), 7):
            handler.wfile.write(content[begin : begin + 7])
            handler.wfile.flush()

    model_server.always = step
    answer = before().chat(temperature=0, stream=True)
    lines = [line for line in answer.text.splitlines() if line.startswith("data: ")]
    found = [json.loads(line.removeprefix("data: ")) for line in lines if "[DONE]" not in line]
    assert found[-1].pop("watermark")["status"] == "unmarked"
    assert found == chunks[:3]
    assert ("[DONE]" in lines[-1]) is ended
    assert answer.text.count(": note") == len(chunks)


@pytest.mark.parametrize("chunks", [pieces("It", " rained."), pieces("It", " rained.")[:-1]])
def test_openais_client_reads_a_stream_that_passes(
    live: Callable[..., Live], model_server: Server, chunks: list[Any]
) -> None:
    model_server.always = saying(*chunks, "[DONE]")
    service = live(upstream={"url": model_server.url, "model": "tiny", "retries": 0})
    client = openai.OpenAI(base_url=f"{service.root}/v1", api_key="unused", max_retries=0)
    messages: Any = QUESTION
    stream = client.chat.completions.create(
        model="tiny", messages=messages, temperature=0, stream=True
    )
    *_, last = found = list(stream)
    text = "".join(each.choices[0].delta.content or "" for each in found if each.choices)
    assert text == "It rained."
    assert last.model_extra is not None
    assert last.model_extra["watermark"]["status"] == "unmarked"
    assert (last.id, last.model) == ("chatcmpl-1", "tiny")


def test_what_is_no_event_of_ours_passes_as_it_is(before: Serve, model_server: Server) -> None:
    odd = ["{broken", "[1]", '{"choices": 5}', '{"choices": [5]}', '{"x": NaN, "choices": []}']
    model_server.always = saying(*odd, *pieces("It."), "[DONE]")
    answer = before().chat(temperature=0, stream=True)
    assert answer.text.split("\n\n")[: len(odd)] == [f"data: {each}" for each in odd]
    assert answer.text.count('"watermark"') == 1


def test_prompts_in_tokens_pass_as_many_as_allowed(before: Serve, model_server: Server) -> None:
    served = before(limits={"choices": 2})
    assert served.complete(prompt=[1, 2, 3]).status_code == 200
    assert served.complete(prompt=[[1, 2], [3]]).status_code == 200
    assert model_server.bodies[1]["prompt"] == [[1, 2], [3]]
    assert served.complete(prompt=[[1], [2], [3]]).status_code == 400
    assert served.complete(prompt=[1, 2, 3], n=3).status_code == 400
    assert served.chat(**MUST_CALL, max_tokens=10_000).status_code == 400
    assert len(model_server.bodies) == 2


def test_what_cannot_be_marked_may_be_refused(before: Serve, model_server: Server) -> None:
    served = before(policy={"unmarkable": "refuse"})
    for named in (MUST_CALL, {"temperature": 0}, {"logprobs": True}):
        answer = served.chat(**named)
        assert answer.status_code == 400
        assert error_of(answer)["code"] == "unmarkable"
    assert model_server.bodies == []
    assert mark_of(served.chat())["status"] == "marked"


def test_what_passes_is_recorded_before_it_is_asked_for(
    before: Serve, model_server: Server, home: Home
) -> None:
    served = before(audit={"file": home.audit})
    known: list[int] = []

    def look(handler: Handler, body: dict[str, Any]) -> None:
        known.append(len(home.records("passed")))
        answers(handler, body)

    model_server.always = look
    answer = served.chat(**MUST_CALL)
    assert known == [1]
    (row,) = home.records("passed")
    assert (row["status"], row["model"], row["endpoint"]) == ("unmarked", "tiny", CHAT)
    assert row["request_id"] == answer.headers["x-request-id"]


@pytest.mark.parametrize("code", [400, 404, 429, 500])
def test_of_an_upstreams_own_errors_the_status_passes(
    before: Serve, model_server: Server, code: int
) -> None:
    model_server.always = status(code, "so it is.", Retry_After="7")
    served = before()
    answer = served.chat(**MUST_CALL)
    assert answer.status_code == code
    assert "so it is" not in error_of(answer)["message"]
    assert "watermark" not in answer.json()
    assert answer.headers["retry-after"] == "7"
    assert counts(served, "answers_total") == {}


@pytest.mark.parametrize("named", [{}, {"stream": True}, MUST_CALL])
def test_what_an_upstream_says_of_a_request_is_for_the_log(
    before: Serve, model_server: Server, caplog: pytest.LogCaptureFixture, named: dict[str, Any]
) -> None:
    """Which it may quote: what people write is not logged."""
    said = f"org-7 at node 10.1.2.3: top_k is bad in {QUESTION[0]['content']!r}"
    model_server.always = lambda handler, body: handler.plain(
        {"error": {"message": said, "param": "top_k", "account": "org-7"}}, status=400
    )
    with caplog.at_level(logging.INFO, "hammingmark.server"):
        answer = before().chat(top_k=7, **named)
    assert answer.status_code == 400
    assert error_of(answer)["param"] == "top_k"
    assert not re.search("org-7|10.1.2.3|harbour", answer.text)
    logged = [str(getattr(record, "fields", "")) for record in caplog.records]
    assert sum("org-7 at node 10.1.2.3: top_k is bad" in line for line in logged) == 1
    assert not any("harbour" in line for line in logged)


@pytest.mark.parametrize(
    "error",
    [
        {"error": {"message": "org-7 is broke", "code": 429}},
        {"object": "error", "message": "org-7 is broke", "code": 429},
        {"type": "error", "message": "org-7 is broke", "code": 429},
        {
            "choices": [
                {"index": 0, "message": {"content": "It."}, "finish_reason": "stop"},
                {
                    "index": 1,
                    "finish_reason": "error",
                    "error": {"message": "org-7 is broke", "code": 429},
                },
            ]
        },
    ],
)
@pytest.mark.parametrize("named", [{"stream": True}, {"stream": False}])
def test_an_error_in_the_place_of_an_answer_is_for_the_log(
    before: Serve,
    model_server: Server,
    caplog: pytest.LogCaptureFixture,
    named: dict[str, Any],
    error: dict[str, Any],
) -> None:
    stream = saying({"choices": [{"index": 0, "delta": {"content": "It."}}]}, error, "[DONE]")
    model_server.always = stream if named["stream"] else lambda handler, body: handler.plain(error)
    with caplog.at_level(logging.INFO, "hammingmark.server"):
        answer = before().chat(**MUST_CALL, **named)
    assert "org-7" not in answer.text
    last = events_of(answer)[1] if named["stream"] else answer.json()
    assert last["error"]["type"] == "rate_limit_error"
    assert any("org-7 is broke" in str(getattr(each, "fields", "")) for each in caplog.records)


@pytest.mark.parametrize("stream", [True, False])
def test_an_error_in_the_place_of_a_candidate_is_for_the_log(
    before: Serve, model_server: Server, caplog: pytest.LogCaptureFixture, stream: bool
) -> None:
    model_server.always = saying({"object": "error", "message": "org-7 is broke", "code": 429})
    with caplog.at_level(logging.INFO, "hammingmark.server"):
        answer = before().chat(stream=stream)
    assert (answer.status_code, "org-7" in answer.text) == (429, False)
    assert any("org-7 is broke" in str(getattr(each, "fields", "")) for each in caplog.records)


def test_no_client_has_the_cookies_of_another(before: Serve, model_server: Server) -> None:
    """A sticky or a signed-in session of the upstream, whichever way a request goes."""
    cookies: list[str | None] = []

    def step(handler: Handler, body: dict[str, Any]) -> None:
        cookies.append(handler.headers.get("Cookie"))
        handler.plain(
            {"choices": [{"index": 0, "finish_reason": "stop", "message": {"content": "It is."}}]},
            Set_Cookie="session=alice; Path=/",
        )

    model_server.always = step
    served = before()
    for named in ({}, MUST_CALL, {}, MUST_CALL):
        answer = served.chat(**named)
        assert "set-cookie" not in answer.headers
    assert len(cookies) == 4
    assert set(cookies) == {None}


@pytest.mark.parametrize(
    ("code", "told", "kind"),
    [
        (400, 400, "invalid_request_error"),
        (404, 404, "invalid_request_error"),
        (422, 400, "invalid_request_error"),
        (429, 429, "rate_limit_error"),
        (500, 502, "upstream_error"),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_an_upstreams_errors_are_the_clients_where_the_fault_is(
    before: Serve, model_server: Server, code: int, told: int, kind: str, stream: bool
) -> None:
    model_server.always = status(code, "so it is", Retry_After="7")
    answer = before().chat(stream=stream)
    assert answer.status_code == told
    error = error_of(answer)
    assert error["type"] == kind
    assert "so it is" not in error["message"]
    assert "127.0.0.1" not in answer.text
    assert error["code"] != "context_length_exceeded"
    assert answer.headers.get("retry-after") == ("7" if code == 429 else None)


def test_a_prompt_that_is_too_long_is_told_alike_marked_and_passed_on(
    before: Serve, model_server: Server
) -> None:
    """In words that clients such as LiteLLM look for; the upstream's own are only logged."""
    model_server.always = status(400, "The maximum context length of tiny-4b is 512 tokens.")
    served = before()
    told = [error_of(served.chat(**fields)) for fields in ({}, MUST_CALL)]
    assert told[0] == told[1]
    assert told[0]["code"] == "context_length_exceeded"
    assert "is longer than the model's context length" in told[0]["message"]
    assert "tiny-4b" not in told[0]["message"]


def test_a_gateway_that_is_busy_is_told_as_that(before: Serve, model_server: Server) -> None:
    """Though it does not speak as the upstream does."""
    for code, told in ((429, 429), (503, 503), (404, 502), (200, 502)):
        model_server.always = lambda handler, body, code=code: handler.plain(
            "<html>", status=code, Retry_After="7"
        )
        answer = before().chat(**MUST_CALL)
        assert answer.status_code == told
        kind = "rate_limit_error" if code == 429 else "upstream_error"
        assert error_of(answer)["type"] == kind
        assert answer.headers.get("retry-after") == ("7" if code in (429, 503) else None)


@pytest.mark.parametrize("code", [401, 403])
def test_an_api_key_that_the_upstream_refuses_is_not_the_clients(
    before: Serve, model_server: Server, code: int
) -> None:
    model_server.always = status(code)  # whose words quote the key
    served = before(upstream={"api_key": SecretStr("sk-very-secret-7391")})
    for named in (MUST_CALL, {}):
        answer = served.chat(**named)
        assert answer.status_code == 502
        assert error_of(answer)["type"] == "upstream_error"
        assert "secret" not in answer.text


@pytest.mark.parametrize("step", [vanish, half_a_chunk, break_off, reset])
def test_an_upstream_that_breaks_off_is_told(
    before: Serve, model_server: Server, step: Any
) -> None:
    served = before()
    model_server.always = step
    whole = served.chat()
    assert whole.status_code == 502
    assert error_of(whole)["type"] == "upstream_error"
    stream = served.chat(stream=True)
    assert stream.status_code == 502


@pytest.mark.parametrize("step", [half_a_chunk, reset])
def test_a_stream_that_passes_and_breaks_off_ends_with_an_error(
    before: Serve, model_server: Server, step: Any
) -> None:
    model_server.always = step
    answer = before().chat(**MUST_CALL, stream=True)
    assert answer.status_code == 200
    last = answer.text.split("\n\n")[-2]
    error = json.loads(last.removeprefix("data: "))["error"]
    assert error["type"] == "upstream_error"
    assert "[DONE]" not in answer.text


def test_an_upstream_that_is_none_is_told(before: Serve, model_server: Server) -> None:
    served = before()
    model_server.models = "<html>"
    assert served.get("/v1/models").status_code == 502
    model_server.always = lambda handler, body: handler.plain("<html>")
    assert served.chat().status_code == 502

    def wrong(handler: Handler, body: dict[str, Any]) -> None:
        handler.send_response(200)
        handler.send_header("Content-Type", "application/json")
        handler.end_headers()
        handler.wfile.write(b"{broken")

    model_server.always = wrong
    answer = served.chat(**MUST_CALL)
    assert answer.status_code == 502
    assert "OpenAI-compatible" in error_of(answer)["message"]


@pytest.mark.parametrize(
    "content",
    [
        '{"x": NaN}',
        '{"x": 1e999}',
        '{"x": "\\ud800"}',
        *("[" * depth + "]" * depth for depth in (300, 960, 9999)),
    ],
)
def test_an_upstream_that_says_what_json_has_not_is_told(
    before: Serve, model_server: Server, content: str
) -> None:
    def step(handler: Handler, body: dict[str, Any]) -> None:
        handler.send_response(200)
        handler.send_header("Content-Type", "application/json")
        handler.end_headers()
        handler.wfile.write(content.encode())

    model_server.always = step
    answer = before().chat(**MUST_CALL)
    assert answer.status_code == 502
    assert error_of(answer)["type"] == "upstream_error"


def test_a_model_whose_name_is_no_text_is_told(before: Serve, model_server: Server) -> None:
    model_server.models = {"data": [{"id": "\ud800"}]}
    assert before().get("/v1/models").status_code == 502


@pytest.mark.parametrize(("status", "named"), [(500, "500"), (404, "404"), (401, "API key")])
def test_an_upstream_that_does_not_list_its_models_is_told(
    before: Serve,
    model_server: Server,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    status: int,
    named: str,
) -> None:
    """Such as `transformers serve` without a hub; the log names the setting that helps."""
    monkeypatch.setattr("hammingmark.server.service._LOAD_RETRY", 0.01)
    model_server.models_status = status
    served = before(upstream={"model": ""})
    answer = served.get("/v1/models")
    assert answer.status_code == 502
    assert named in error_of(answer)["message"]
    loading = asyncio.run_coroutine_threadsafe(served.service.load(), served.loop._loop)
    until(
        lambda: any("upstream.model" in str(getattr(row, "fields", "")) for row in caplog.records)
    )
    assert named in served.get("/readyz").json()["reasons"][0]
    model_server.models_status = 200
    loading.result(PATIENCE)
    assert served.chat().json()["model"] == "tiny"


def test_an_upstream_that_cannot_be_reached_is_told(serve: Serve) -> None:
    served = serve(upstream={"url": "http://127.0.0.1:9/v1", "model": "tiny", "retries": 0})
    for named in ({}, MUST_CALL):
        answer = served.chat(**named)
        assert answer.status_code == 502
        assert error_of(answer)["type"] == "upstream_error"
    assert served.get("/v1/models").status_code == 502
    assert served.get("/readyz").status_code == 503


def test_an_upstream_that_says_nothing_is_given_up(before: Serve, model_server: Server) -> None:
    served = before(upstream={"timeout": 0.05})
    model_server.always = stall
    answer = served.chat(**MUST_CALL)
    assert answer.status_code == 504
    assert error_of(answer)["type"] == "timeout"


def test_what_passes_has_as_long_as_any_answer(before: Serve, model_server: Server) -> None:
    served = before(limits={"request_timeout": 0.2})
    model_server.always = stall
    whole = served.chat(**MUST_CALL)
    assert whole.status_code == 504
    assert error_of(whole)["type"] == "timeout"
    assert model_server.left.wait(PATIENCE)

    def go_on(handler: Handler, body: dict[str, Any]) -> None:
        handler.begin()
        with suppress(ConnectionError):
            while not gone.is_set():
                handler.piece(0, "word ")

    gone = threading.Event()
    model_server.always = go_on
    try:
        stream = served.chat(**MUST_CALL, stream=True)
    finally:
        gone.set()
    assert stream.status_code == 200
    *_, first, last = events_of(stream)
    assert first["choices"]
    assert last["error"]["type"] == "timeout"


@pytest.mark.parametrize("stream", [False, True])
def test_what_passes_when_the_service_stops_ends_with_a_word(
    live: Callable[..., Live], model_server: Server, stream: bool
) -> None:
    told = {"url": model_server.url, "model": "tiny", "retries": 0}
    service = live(upstream=told, limits={"shutdown_grace": 0})
    model_server.always = stall_midway if stream else stall
    body = {"messages": QUESTION, "stream": stream, **MUST_CALL}
    found: list[httpx.Response] = []
    asking = threading.Thread(target=lambda: found.append(service.client.post(CHAT, json=body)))
    asking.start()
    until(lambda: model_server.seen and len(service.service.admission))
    service.tell_to_stop()
    asking.join(PATIENCE)
    (answer,) = found
    if stream and answer.status_code == 200:  # or it had not yet begun
        last = events_of(answer)[-1]
    else:
        assert answer.status_code == 503
        last = answer.json()
    assert "shutting down" in last["error"]["message"]
    assert model_server.left.wait(PATIENCE)
    service.wait_for_end()


@pytest.mark.parametrize("named", [{}, MUST_CALL])
@pytest.mark.parametrize("stream", [False, True])
def test_a_client_who_leaves_ends_the_work_upstream(
    live: Callable[..., Live], model_server: Server, named: dict[str, Any], stream: bool
) -> None:
    told = {"url": model_server.url, "model": "tiny", "retries": 0}
    service = live(upstream=told)
    model_server.always = stall_midway if stream and named else stall
    with service.asking(stream=stream, **named):
        until(lambda: model_server.seen)
        assert len(service.service.admission) == 1
    assert model_server.left.wait(PATIENCE)
    until(lambda: len(service.service.admission) == 0)


def test_streams_that_pass_have_their_place_in_the_queue(
    live: Callable[..., Live], model_server: Server
) -> None:
    told = {"url": model_server.url, "model": "tiny", "retries": 0}
    service = live(upstream=told, limits={"queue": 1})
    model_server.always = stall_midway
    body = {"messages": QUESTION, "stream": True, **MUST_CALL}
    with service.client.stream("POST", CHAT, json=body) as answer:
        parts = answer.iter_text()
        assert "Seed" in next(parts)
        assert service.client.post(CHAT, json=body).status_code == 429
    until(lambda: len(service.service.admission) == 0)


def test_marked_streams_of_the_upstream_come_sentence_by_sentence(
    live: Callable[..., Live], model_server: Server
) -> None:
    model_server.always = answers
    service = live(upstream={"url": model_server.url, "model": "tiny", "retries": 0})
    with service.stream() as events:
        told = list(events)
    assert told[-1] == "[DONE]"
    assert told[-2]["watermark"]["status"] == "marked"
    assert len(told) == told[-2]["watermark"]["sentences"] + 2, "the first sentence is free"
    assert len(streamed(told).split()) == TOKENS


def test_what_an_upstream_refuses_of_one_request_is_nobody_elses_loss(
    before: Serve, model_server: Server
) -> None:
    """A way of sampling that a client asks for is honoured or refused, never left out."""

    def picky(handler: Handler, body: dict[str, Any]) -> None:
        if body.get("top_k", 0) > 1000:
            status(400, "top_k is too large")(handler, body)
        elif body["model"] == "old" and "seed" in body:
            status(400, "Unknown field seed")(handler, body)
        elif body["model"] == "hosted" and "min_p" in body:
            status(400, "Unrecognized request argument: min_p")(handler, body)
        else:
            answers(handler, body)

    model_server.always = picky
    served = before()
    large = served.complete(top_k=50_000)
    assert large.status_code == 400
    assert error_of(large)["param"] == "top_k"
    assert served.complete(model="old").status_code == 200
    assert served.complete(model="hosted", min_p=0).status_code == 200  # 0 has no effect
    assert "min_p" not in model_server.bodies[-1]
    assert served.complete(model="hosted", min_p=0.1).status_code == 400
    assert served.complete(top_k=40, min_p=0.1).status_code == 200
    last = model_server.bodies[-1]
    assert (last["top_k"], last["min_p"], "seed" in last) == (40, 0.1, True)


@pytest.mark.parametrize("stream", [False, True])
def test_what_a_model_wrote_before_a_filter_ends_it_says_so(
    before: Serve, model_server: Server, stream: bool
) -> None:
    def filtered(handler: Handler, body: dict[str, Any]) -> None:
        if body.get("n", 1) > 1:
            status(400, "n must be 1")(handler, body)
        elif body["messages"][-1]["role"] != "assistant":
            answers(handler, body)  # the first sentence
        else:
            handler.begin()
            handler.piece(0, " And then the", "content_filter")
            handler.event("[DONE]")

    model_server.always = filtered
    answer = before().chat(stream=stream)
    assert text_of(answer).count(".") == 1
    chosen = events_of(answer) if stream else [answer.json()]
    reasons = [each["choices"][0]["finish_reason"] for each in chosen if each != "[DONE]"]
    assert reasons[-1] == "content_filter"
    assert "content_filter" in mark_of(answer)["reason"]


def test_a_prompt_that_is_filtered_is_refused(before: Serve, model_server: Server) -> None:
    choice = {"index": 0, "text": "", "finish_reason": "content_filter"}
    model_server.always = saying({"choices": [choice]})
    answer = before().complete()
    assert answer.status_code == 400
    assert "content_filter" in error_of(answer)["message"]
    assert len(model_server.seen) < 4


def test_an_upstream_with_a_query_is_asked_with_it(before: Serve, model_server: Server) -> None:
    served = before(upstream={"url": f"{model_server.url}?api-version=1"})
    assert mark_of(served.chat())["status"] == "marked"
    assert served.chat(**MUST_CALL).status_code == 200
    assert served.get("/v1/models").status_code == 200
    paths = {path for path, _ in model_server.seen}
    assert paths == {"/v1/chat/completions?api-version=1", "/v1/models?api-version=1"}


@pytest.mark.parametrize(
    "named",
    [
        {"max_completion_tokens": 1, "max_tokens": 10_000},
        {"max_completion_tokens": 10_000, "max_tokens": 1},
        {"best_of": 500},
        {"n": 1, "best_of": 9},
    ],
)
def test_what_passes_keeps_to_the_limits(
    before: Serve, model_server: Server, named: dict[str, Any]
) -> None:
    assert before().complete(prompt=[1, 2], **named).status_code == 400
    assert model_server.bodies == []


TORN = 'data: {"choices": [{"index": 0, "delta": {"content": " It'


@pytest.mark.parametrize("torn", [TORN, TORN.replace(" It", ' It"}, "finish_reason": null}]}\n\n')])
def test_a_stream_that_passes_and_breaks_off_says_so(
    before: Serve, model_server: Server, torn: str
) -> None:
    """In the middle of an event, or behind one; half an event is not sent."""

    def step(handler: Handler, body: dict[str, Any]) -> None:
        handler.begin()
        handler.wfile.write(torn.encode())

    model_server.always = step
    answer = before().chat(temperature=0, stream=True)
    *_, last = events_of(answer)
    assert last["error"]["type"] == "upstream_error"
    assert "[DONE]" not in answer.text


def test_what_an_upstream_says_of_marks_is_not_passed_on(
    before: Serve, model_server: Server
) -> None:
    lie = {"status": "marked", "p_value": 1e-9}
    chunk = {"choices": [{"index": 0, "delta": {"content": "It."}, "watermark": lie}]}
    end = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop", "watermark": lie}]}
    model_server.always = saying({**chunk, "watermark": lie}, end, "[DONE]")
    stream = before().chat(temperature=0, stream=True)
    assert "1e-09" not in stream.text
    assert mark_of(stream)["status"] == "unmarked"
    assert streamed(events_of(stream)) == "It."

    def whole(handler: Handler, body: dict[str, Any]) -> None:
        handler.plain({**PASSED, "choices": [{**PASSED["choices"][0], "watermark": lie}]})  # type: ignore[index]

    model_server.always = whole
    answer = before().chat(temperature=0)
    assert answer.json()["choices"] == PASSED["choices"]
    assert mark_of(answer)["status"] == "unmarked"


def test_a_temperature_next_to_nothing_is_none(before: Serve, model_server: Server) -> None:
    answer = before().chat(temperature=1e-6)
    assert "temperature 0" in mark_of(answer)["reason"]
    assert model_server.bodies[0]["temperature"] == 1e-6


@pytest.mark.parametrize(
    ("named", "param"),
    [
        ({"logit_bias": {str(token): 1 for token in range(301)}}, "logit_bias"),
        ({"logit_bias": [[token, 1] for token in range(301)]}, "logit_bias"),
        ({"logit_bias": {"5": 101}}, "logit_bias"),
        ({"logit_bias": {"5": "1"}}, "logit_bias"),
        ({"logit_bias": {"5": {"6": 1}}}, "logit_bias"),
        ({"logit_bias": [[5]]}, "logit_bias"),
        ({"logit_bias": "5"}, "logit_bias"),
        ({"user": "u", "metadata": {str(number): 0 for number in range(10_000)}}, "metadata"),
    ],
)
def test_what_every_candidate_needs_is_bounded(
    before: Serve, model_server: Server, named: dict[str, Any], param: str
) -> None:
    """A client who sends more would hold the engine for all."""
    answer = before().chat(**named)
    assert answer.status_code == 400
    assert error_of(answer)["param"] == param
    assert model_server.bodies == []


@pytest.mark.parametrize(
    "bias", [None, {}, {str(token): -100 for token in range(300)}, [[5, False], ["word", 1.5]]]
)
def test_biases_that_hosted_models_take_are_sent(
    before: Serve, model_server: Server, bias: Any
) -> None:
    assert before().chat(logit_bias=bias).status_code == 200
    assert model_server.bodies[0]["logit_bias"] == bias
