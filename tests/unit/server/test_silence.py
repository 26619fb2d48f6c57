"""No secret, token or text in any log line or error."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pydantic import SecretStr
from tests.unit.backends.openai_server import KEY, Server, status
from tests.unit.server.harness import (
    CHAT,
    DETECT,
    GatedBackend,
    Home,
    Live,
    Served,
    broken_encoder,
    events_of,
    key_of,
    text_of,
    until,
)

from hammingmark.server.logs import setup
from hammingmark.server.marking import completion_stream
from hammingmark.testing import FakeBackend

Serve = Callable[..., Served]
WORDS = "Zebras drink ink."  # said to the service and to nobody else
LABEL = "customer-17"
NAMES = ["", "hammingmark", "uvicorn", "uvicorn.error", "uvicorn.access", "uvicorn.asgi"]


@pytest.fixture
def told() -> Iterator[Callable[[], list[dict[str, Any]]]]:
    """The lines that the service logs, as it logs them; all of them, down to the least."""
    loggers = [logging.getLogger(name) for name in NAMES]
    before = [(each.level, list(each.handlers), each.propagate) for each in loggers]
    stream = io.StringIO()
    setup("debug", format="json", stream=stream)
    yield lambda: [json.loads(line) for line in stream.getvalue().splitlines()]
    logging.captureWarnings(False)
    for logger, (level, handlers, propagate) in zip(loggers, before, strict=True):
        logger.setLevel(level)
        logger.handlers[:] = handlers
        logger.propagate = propagate


Told = Callable[[], list[dict[str, Any]]]


def assert_silent(lines: object, *secrets: str) -> None:
    kept = lines if isinstance(lines, str) else json.dumps(lines, ensure_ascii=False)
    for words in (WORDS, "Zebras", key_of().secret.reveal().hex(), *secrets):
        assert words not in kept


def test_requests_are_logged_without_what_they_say(serve: Serve, home: Home, told: Told) -> None:
    token = home.let_in("website")
    served = serve(api_keys=home.api_keys, audit={"file": home.audit}, policy={"labels": [LABEL]})
    served.token = token
    messages = [{"role": "user", "content": WORDS}]
    answer = served.chat(messages=messages, watermark={"label": LABEL}, user="u-1")
    served.chat(messages=messages, stream=True)
    served.chat(messages=messages, n=0)
    served.chat(messages=messages, model="hmk_model")
    served.post(DETECT, {"text": WORDS, "keys": ["hmk_key"]})
    served.get(f"/v1/models?api_key={token}")
    lines = [line for line in told() if line["event"] == "request"]
    assert [line["status"] for line in lines] == [200, 200, 422, 404, 404, 200]
    assert lines[0]["endpoint"] == CHAT
    assert lines[0]["request_id"] == answer.headers["x-request-id"]
    assert len({line["request_id"] for line in lines}) == 6
    assert_silent(told(), token, text_of(answer)[:40], LABEL, "u-1", "hmk_")


def test_faults_are_logged_by_their_kind_and_place(
    serve: Serve, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = serve()

    def fail(*anything: object) -> None:
        raise RuntimeError(WORDS)

    monkeypatch.setattr(served.service.planner, "plan", fail)
    answer = served.chat()
    (line,) = [line for line in told() if line["event"] == "fault"]
    assert (line["error"], line["level"]) == ("RuntimeError", "error")
    assert line["request_id"] == answer.headers["x-request-id"]
    assert any("marking/router.py" in place for place in line["traceback"])
    assert_silent(told())
    assert_silent(answer.text)


def test_a_fault_in_a_stream_is_told_at_its_end_and_logged_by_its_kind(
    serve: Serve, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = serve()

    def fail(*anything: object) -> None:
        raise RuntimeError(WORDS)

    monkeypatch.setattr(completion_stream, "with_verdict", fail)
    answer = served.chat(stream=True)
    assert events_of(answer)[-1]["error"]["type"] == "server_error"
    (line,) = [line for line in told() if line["event"] == "fault"]
    assert line["error"] == "RuntimeError"
    assert line["request_id"] == answer.headers["x-request-id"]
    assert_silent(told())
    assert_silent(answer.text)
    assert served.chat().status_code == 500


def test_an_engine_that_fails_is_logged_without_what_it_wrote(serve: Serve, told: Told) -> None:
    def fail(request: Any) -> str:
        raise RuntimeError(WORDS)

    answer = serve(backend=FakeBackend(sentences=fail)).chat()
    assert answer.status_code == 502
    (line,) = [line for line in told() if line["event"] == "the engine failed"]
    assert line["error"] == "RuntimeError"
    assert_silent(told())
    assert_silent(answer.text)


def test_a_stream_that_is_left_is_logged_without_what_it_said(
    live: Callable[..., Live], told: Told
) -> None:
    service = live(backend=GatedBackend(after=2))
    with service.stream(messages=[{"role": "user", "content": WORDS}]) as events:
        first = [next(events), next(events)][1]["choices"][0]["delta"]["content"]
    until(lambda: [line for line in told() if line.get("endpoint") == CHAT])
    assert_silent(told(), first)


def test_errors_quote_nothing(serve: Serve, home: Home, model_server: Server) -> None:
    token = home.let_in("website", "generate")
    messages = [{"role": "user", "content": WORDS}]

    def errors() -> Iterator[Any]:
        guarded = serve(api_keys=home.api_keys)
        yield guarded.chat(messages=messages)
        guarded.token = f"{token}x"
        yield guarded.chat(messages=messages)
        guarded.token = token
        yield guarded.post(DETECT, {"text": WORDS})
        yield guarded.chat(messages=messages, stop=[WORDS] * 17)
        yield guarded.chat(messages=[{"role": "user", "content": {"odd": WORDS}}])
        yield guarded.chat(messages=WORDS)
        yield guarded.post(CHAT, [WORDS])
        yield guarded.ask("POST", CHAT, content=f'{{"messages": "{WORDS}', headers=_JSON)
        yield guarded.ask("POST", CHAT, content=f'{{"n": "{WORDS}"}}', headers=_JSON)
        yield serve(encoder=broken_encoder()).chat(messages=messages)
        yield serve(backend=FakeBackend(fail_after=0)).chat(messages=messages)
        yield serve(backend=FakeBackend(context=2)).chat(messages=messages)
        yield serve(limits={"body_bytes": 10}).chat(messages=messages)
        model_server.always = status(500)
        told = {
            "url": model_server.url.replace("://", "://me:pass-1@"),
            "model": "tiny",
            "retries": 0,
            "api_key": SecretStr(KEY),
        }
        yield serve(upstream=told).chat(messages=messages)

    for answer in errors():
        assert answer.status_code >= 400
        assert_silent(answer.text, token, KEY, "pass-1")


_JSON = {"content-type": "application/json"}


def test_nothing_shows_the_secrets_that_a_service_holds(serve: Serve, home: Home) -> None:
    token = home.let_in("website")
    told = {"url": "http://127.0.0.1:9/v1", "model": "tiny", "api_key": SecretStr(KEY)}
    served = serve(api_keys=home.api_keys, upstream=told)
    shown = (
        f"{served.service.config!r} {served.service.key.current()!r} {served.service.api_keys!r}"
    )
    shown += f" {served.service.backend!r} {vars(served.service)!r}"
    assert_silent(shown, token, KEY)
    assert_silent(served.get("/openapi.json").text, token, KEY)
