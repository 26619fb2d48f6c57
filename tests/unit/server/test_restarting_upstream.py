"""An upstream that begins a new answer at every request: nothing of it is ever joined to a text."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any

import pytest
from tests.unit.backends.openai_server import Handler, Server, saying, status
from tests.unit.server.harness import (
    Home,
    Served,
    counts,
    error_of,
    events_of,
    mark_of,
    text_of,
)

Serve = Callable[..., Served]

ANSWER = "Great question! Rain falls from clouds. They are made of small drops. It is wet."
POLICIES: list[dict[str, str]] = [{"restarting_upstream": "pass"}, {"on_failure": "deliver"}]


def begins_anew(handler: Handler, body: dict[str, Any]) -> None:
    """Answer each chat from its beginning."""
    if body.get("stream"):
        choices = [{"index": 0, "delta": {"content": ANSWER}, "finish_reason": "stop"}]
        saying({"id": "theirs", "choices": choices}, "[DONE]")(handler, body)
        return
    message = {"role": "assistant", "content": ANSWER}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    handler.plain({"id": "theirs", "model": "tiny", "choices": [choice]})


@pytest.fixture
def before(serve: Serve, model_server: Server) -> Callable[..., Served]:
    """Makes a service in front of that server."""
    model_server.always, model_server.continues = begins_anew, False

    def make(upstream: dict[str, Any] | None = None, **settings: Any) -> Served:
        told = {"url": model_server.url, "model": "tiny", "retries": 0, **(upstream or {})}
        return serve(upstream=told, **settings)

    return make


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    """The fields of the warnings in the log of the service."""
    records = [each for each in caplog.records if each.levelno >= logging.WARNING]
    return [each.__dict__["fields"] for each in records if each.name == "hammingmark.server"]


@pytest.mark.parametrize("stream", [False, True])
def test_it_is_refused_and_the_log_says_so_once(
    before: Serve, model_server: Server, caplog: pytest.LogCaptureFixture, stream: bool
) -> None:
    served = before()
    for _ in range(3):
        answer = served.chat(stream=stream)
        assert answer.status_code == 503
        error = error_of(answer)
        assert (error["type"], error["code"]) == ("watermark_error", "upstream_restarts")
    (warning,) = warnings_of(caplog)
    assert (warning["kind"], warning["model"]) == ("cannot_continue", "tiny")
    assert "policy.restarting_upstream" in warning["reason"]
    assert model_server.bodies == model_server.questions  # nothing was drawn
    assert len(model_server.questions) <= 3
    assert counts(served, "answers_total") == {'reason="restarting",status="refused"': 3}


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("stream", [False, True])
def test_it_passes_on_unmarked_and_says_so(
    before: Serve,
    model_server: Server,
    home: Home,
    caplog: pytest.LogCaptureFixture,
    policy: dict[str, str],
    stream: bool,
) -> None:
    served = before(policy=policy, audit={"file": home.audit})
    for _ in range(2):
        answer = served.chat(stream=stream, user="u-1")
        assert text_of(answer) == ANSWER
        mark = mark_of(answer)
        assert (mark["status"], mark["key_id"], mark["p_value"]) == ("unmarked", None, None)
        assert "new answer" in mark["reason"]
        assert answer.headers["x-watermark-status"] == "unmarked"
        assert model_server.bodies[-1]["user"] == "u-1"
    assert len(warnings_of(caplog)) == 1
    assert counts(served, "answers_total") == {'reason="restarting",status="unmarked"': 2}
    assert {row["reason"] for row in home.records("passed")} == {"restarting"}
    assert len(model_server.bodies) == len(model_server.questions) + 2


@pytest.mark.parametrize("stream", [False, True])
def test_the_responses_api_does_the_same(before: Serve, stream: bool) -> None:
    asked = {"input": "Why does it rain?", "stream": stream}
    refused = before().post("/v1/responses", asked)
    assert (refused.status_code, error_of(refused)["code"]) == (503, "upstream_restarts")
    passed = before(policy={"restarting_upstream": "pass"}).post("/v1/responses", asked)
    assert passed.status_code == 200
    if stream:
        datas = [line for line in passed.text.splitlines() if line.startswith("data: ")]
        response = json.loads(datas[-1].removeprefix("data: "))["response"]
    else:
        response = passed.json()
    assert response["output"][0]["content"][0]["text"] == ANSWER
    assert response["watermark"]["status"] == "unmarked"


@pytest.mark.parametrize("code", [400, 403, 405, 422])
def test_one_that_refuses_to_continue_is_told_by_that(
    before: Serve, model_server: Server, code: int
) -> None:
    def strict(handler: Handler, body: dict[str, Any]) -> None:
        is_last = body["messages"][-1]["role"] == "assistant"
        foreign = {"continue_final_message", "add_generation_prompt"} & body.keys()
        refuses = status(422 if foreign else code, "This is not supported.")
        (refuses if is_last or foreign else begins_anew)(handler, body)

    model_server.always = strict
    refused = before().chat()
    assert (refused.status_code, error_of(refused)["code"]) == (503, "upstream_restarts")
    assert text_of(before(policy={"restarting_upstream": "pass"}).chat()) == ANSWER


@pytest.mark.parametrize("code", [429, 500])
def test_one_that_fails_when_it_is_asked_fails_as_ever(
    before: Serve, model_server: Server, code: int
) -> None:
    model_server.always = status(code, retry_after="7")
    answer = before(policy={"restarting_upstream": "pass"}).chat()
    assert answer.status_code == (429 if code == 429 else 502)
    assert answer.headers.get("retry-after") == ("7" if code == 429 else None)


@pytest.mark.parametrize("stream", [False, True])
def test_one_that_begins_to_restart_is_found_out_while_running(
    before: Serve, model_server: Server, stream: bool
) -> None:
    """The answer that is being written then is passed on as well: nothing of it was sent."""
    model_server.continues = True

    def step(handler: Handler, body: dict[str, Any]) -> None:
        if body.get("stream") and body["messages"][-1]["role"] == "assistant":
            model_server.continues = False
        begins_anew(handler, body)

    model_server.always = step
    served = before(policy={"restarting_upstream": "pass"})
    answer = served.chat(stream=stream)
    assert text_of(answer) == ANSWER
    assert mark_of(answer)["status"] == "unmarked"
    assert counts(served, "answers_total") == {'reason="restarting",status="unmarked"': 1}


@pytest.mark.parametrize("opener", ["Great question! ", "\n\nGreat question! ", None])
@pytest.mark.parametrize("stream", [False, True])
def test_one_that_continues_only_what_everybody_knows_is_told_by_its_candidates(
    before: Serve,
    model_server: Server,
    caplog: pytest.LogCaptureFixture,
    opener: str | None,
    stream: bool,
) -> None:
    """Such as a gateway that sends other chats to another model."""
    model_server.continues = True
    openers = ["Of course! ", "Happy to help. ", "Let me explain. ", "Right you are! "]

    def step(handler: Handler, body: dict[str, Any]) -> None:
        if not body.get("stream"):
            begins_anew(handler, body)
            return
        handler.begin()
        for index in range(body.get("n", 1)):
            first = opener or openers[(body["seed"] + index) % len(openers)]
            handler.piece(index, f"{first}Rain falls from clouds. They are small drops.", "stop")
        handler.event("[DONE]")

    model_server.always = step
    served = before()
    for _ in range(3):
        answer = served.chat(stream=stream)
        assert (answer.status_code, error_of(answer)["code"]) == (503, "upstream_restarts")
    assert [each["kind"] for each in warnings_of(caplog) if "kind" in each] == ["cannot_continue"]
    assert counts(served, "answers_total").keys() == {'reason="restarting",status="refused"'}
    passing = before(policy={"restarting_upstream": "pass"})
    assert mark_of(passing.chat())["status"] == "unmarked"
    assert text_of(passing.chat()) == ANSWER


def test_texts_are_marked_as_ever(before: Serve, model_server: Server) -> None:
    """They need no message to be continued."""
    served = before()
    assert served.complete().status_code == 200
    assert not model_server.questions


@pytest.mark.parametrize("continues", [True, False])
def test_a_setting_replaces_the_question(
    before: Serve, model_server: Server, continues: bool
) -> None:
    served = before(upstream={"continues": continues})
    answer = served.chat(max_tokens=4)
    assert (answer.status_code == 200) is continues
    assert not model_server.questions


def test_a_stream_that_passes_keeps_the_upstreams_events(before: Serve) -> None:
    events = events_of(before(policy={"restarting_upstream": "pass"}).chat(stream=True))
    assert events[0]["id"] == "theirs"
    assert events[-1] == "[DONE]"
