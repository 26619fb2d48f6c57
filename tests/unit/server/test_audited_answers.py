"""What the audit log holds of answers, and that there is none without it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import pytest
from tests.unit.server.harness import (
    CHAT,
    GatedBackend,
    Home,
    Live,
    Served,
    counts,
    error_of,
    key_of,
    mark_of,
    streamed,
    text_of,
    until,
)

from hammingmark.server.audit import verify
from hammingmark.testing import FakeBackend

Serve = Callable[..., Served]
SECRET = "the prompt that nobody else may read"


def spoil(home: Home) -> None:
    """Have the log's place taken by what is no file."""
    home.audit.rename(home.folder / "moved.jsonl")
    home.audit.mkdir()


def mend(home: Home) -> None:
    home.audit.rmdir()


def test_a_record_is_there_before_the_first_byte_and_another_at_the_end(
    live: Callable[..., Live], home: Home
) -> None:
    backend = GatedBackend(after=1)
    service = live(backend=backend, audit={"file": home.audit})
    with service.stream(watermark={"label": "customer-17"}) as events:
        begun = [next(events)]
        (row,) = home.records("begin")
        assert home.records("end") == []
        backend.gate.set()
        begun += list(events)
    derived = key_of().derive("customer-17")
    for each in (row, *home.records("end")):
        assert (each["key_id"], each["label"]) == (derived.id, "customer-17")
        assert begun[0]["id"] == f"chatcmpl-{each['request_id']}"
        assert (each["choice"], each["model"], each["api_key"]) == (0, "hammingmark", None)
    assert row["endpoint"] == CHAT
    (end,) = home.records("end")
    mark = begun[-2]["watermark"]
    assert (end["status"], end["reason"], end["error"]) == (mark["status"], mark["reason"], None)
    assert end["counts"]["p_value"] == mark["p_value"]
    assert end["counts"]["drawn_tokens"] == mark["drawn_tokens"]
    assert end["text_sha256"] == hashlib.sha256(streamed(begun).encode()).hexdigest()
    assert verify(home.audit) == []


def test_the_log_knows_names_and_no_texts_or_secrets(serve: Serve, home: Home) -> None:
    token = home.let_in("website")
    served = serve(audit={"file": home.audit}, api_keys=home.api_keys)
    served.token = token
    answer = served.chat(messages=[{"role": "user", "content": SECRET}], n=2)
    assert [row["api_key"] for row in home.records("end")] == ["website"] * 2
    assert sorted(row["choice"] for row in home.records("begin")) == [0, 1]
    kept = home.audit.read_text()
    for words in (SECRET, text_of(answer)[:30], token, key_of().secret.reveal().hex()):
        assert words not in kept


def test_an_unmarked_answer_is_recorded_as_that(serve: Serve, home: Home) -> None:
    served = serve(audit={"file": home.audit}, policy={"switch_off": "allowed"})
    assert mark_of(served.chat(watermark={"enabled": False}))["status"] == "unmarked"
    for row in (*home.records("begin"), *home.records("end")):
        assert (row["key_id"], row["label"]) == (None, None)
    assert home.records("end")[0]["status"] == "unmarked"


@pytest.mark.parametrize(
    ("policy", "status", "error"),
    [({}, 200, None), ({"unmarkable": "refuse"}, 503, "refused")],
)
def test_a_record_says_whether_an_answer_was_refused(
    serve: Serve, home: Home, policy: dict[str, Any], status: int, error: str | None
) -> None:
    backend = FakeBackend(sentences=lambda request: "```\ncode\n```"[len(request.written) :])
    served = serve(backend=backend, audit={"file": home.audit}, policy=policy)
    assert served.chat().status_code == status
    (row,) = home.records("end")
    assert (row["status"], row["error"]) == ("unmarked", error)


def test_nothing_is_answered_that_cannot_be_recorded(serve: Serve, home: Home) -> None:
    backend = FakeBackend()
    served = serve(backend=backend, audit={"file": home.audit})
    served.loop.run(served.service.load())
    spoil(home)
    for stream in (False, True):
        answer = served.chat(stream=stream)
        assert answer.status_code == 503
        assert error_of(answer)["type"] == "audit_log_error"
    assert backend.drawn == []
    ready = served.get("/readyz")
    assert ready.status_code == 503
    assert "audit log" in ready.json()["reasons"][0]
    assert counts(served, "audit_failures_total") == {"": 1}
    assert served.detect("It was late.")  # which is not recorded
    mend(home)
    assert served.chat().status_code == 200
    assert served.get("/readyz").status_code == 200
    assert home.records("recovered")


def test_an_end_that_cannot_be_recorded_is_none(live: Callable[..., Live], home: Home) -> None:
    backend = GatedBackend(after=1)
    service = live(backend=backend, audit={"file": home.audit})
    with service.stream() as events:
        next(events)
        spoil(home)
        backend.gate.set()
        *_, last = events
    assert last["error"]["type"] == "audit_log_error"
    mend(home)
    assert service.client.get("/readyz").status_code in (200, 503)  # tried again sooner or later
    until(lambda: service.service._engine.unfinished == 0)


def test_without_a_log_nothing_is_recorded(serve: Serve, home: Home) -> None:
    assert serve().chat().status_code == 200
    assert not home.audit.exists()
