"""What the audit log holds of answers, and that there is none without it."""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from tests.unit.server.harness import (
    CHAT,
    PATIENCE,
    QUESTION,
    GatedBackend,
    Home,
    Live,
    Served,
    broken_encoder,
    counts,
    error_of,
    key_of,
    mark_of,
    streamed,
    text_of,
    until,
)

from hammingmark.errors import Failure
from hammingmark.records import Candidate, Request
from hammingmark.server.audit import AuditTimeout, verify
from hammingmark.server.clients import Client
from hammingmark.server.marking import recording
from hammingmark.server.marking.marks import Mark
from hammingmark.server.marking.recording import Recorder
from hammingmark.server.metrics import REASONS
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
    backend = GatedBackend(after=4)
    policy = {"labels": ["customer-17"]}
    service = live(backend=backend, policy=policy, audit={"file": home.audit})
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
    assert (end["status"], end["error"]) == (mark["status"], None)
    assert end["reason"] in REASONS
    assert end["counts"]["p_value"] == mark["p_value"]
    for name in ("drawn_tokens", "written_tokens", "read_tokens", "model_requests"):
        assert end["counts"][name] == mark[name]
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
    for stream in (False, True, False):
        answer = served.chat(stream=stream)
        assert answer.status_code == 503
        assert error_of(answer)["type"] == "audit_log_error"
    assert backend.drawn == []
    ready = served.get("/readyz")
    assert ready.status_code == 503
    assert "audit log" in ready.json()["reasons"][0]
    assert counts(served, "audit_failures_total") == {"": 3}
    assert served.detect("It was late.")  # which is not recorded
    mend(home)
    assert served.chat().status_code == 200
    assert served.get("/readyz").status_code == 200
    (row,) = home.records("recovered")
    assert row["lost"] == 3


def test_an_end_that_cannot_be_recorded_is_told_as_an_error_and_recorded_later(
    live: Callable[..., Live], home: Home
) -> None:
    backend = GatedBackend(after=2)
    service = live(backend=backend, audit={"file": home.audit})
    with service.stream(n=2) as events:
        begun = [next(events)]
        spoil(home)
        backend.gate.set()
        begun += list(events)
    assert begun[-1]["error"]["type"] == "audit_log_error"
    until(lambda: "audit_failures_total 2.0" in service.client.get("/metrics").text)
    mend(home)
    assert service.client.post(CHAT, json={"messages": QUESTION}).status_code == 200
    ends = [row for row in home.records("end") if begun[0]["id"].endswith(row["request_id"])]
    assert sorted(row["choice"] for row in ends) == [0, 1]
    for row in ends:
        text = streamed(begun[:-1], row["choice"])
        assert row["text_sha256"] == hashlib.sha256(text.encode()).hexdigest()
        assert row["late"] is True
        assert row["error"] in ("not recorded in time", "cut short")
    assert home.records("recovered")[0]["lost"] == 0
    assert verify(home.audit, earlier=[home.folder / "moved.jsonl"]) == []


def test_a_whole_answer_whose_end_cannot_be_recorded_is_recorded_as_not_sent(
    live: Callable[..., Live], home: Home
) -> None:
    backend = GatedBackend(after=1)
    service = live(backend=backend, audit={"file": home.audit})
    answers: list[int] = []
    body = {"messages": QUESTION, "max_tokens": 40, "seed": 3}

    def ask() -> None:
        answers.append(httpx.post(service.root + CHAT, json=body, timeout=PATIENCE).status_code)

    asking = threading.Thread(target=ask)
    asking.start()
    until(lambda: backend.drawn and home.records("begin"))
    spoil(home)
    backend.gate.set()
    asking.join(PATIENCE)
    assert answers == [503]
    mend(home)
    assert service.client.post(CHAT, json=body).status_code == 200
    late, _ = home.records("end")
    assert (late["late"], late["error"]) == (True, "not recorded in time")
    assert (late["status"], late["key_id"], late["text_characters"]) == ("unmarked", None, 0)
    assert late["text_sha256"] == hashlib.sha256(b"").hexdigest()
    assert verify(home.audit, earlier=[home.folder / "moved.jsonl"]) == []


@pytest.mark.parametrize("policy", [{}, {"on_failure": "deliver"}])
def test_what_a_model_says_of_its_trouble_is_not_recorded(
    serve: Serve, home: Home, policy: dict[str, Any]
) -> None:
    class Full(FakeBackend):
        def candidate(self, request: Request) -> Candidate:
            if request.written.count(".") < 2:
                return super().candidate(request)
            failure = Failure("prompt_refused", "There is no room.", detail=SECRET)
            return Candidate(request.number, (), False, failure=failure)

    served = serve(backend=Full(), audit={"file": home.audit}, policy=policy)
    assert SECRET in mark_of(served.chat())["reason"]
    assert home.records("end")[0]["reason"] in REASONS
    assert SECRET not in home.audit.read_text()


def test_what_an_encoder_says_of_its_trouble_is_not_recorded(serve: Serve, home: Home) -> None:
    deliver = {"on_failure": "deliver"}
    served = serve(encoder=broken_encoder(), audit={"file": home.audit}, policy=deliver)
    assert "The encoder failed" in mark_of(served.chat())["reason"]
    (row,) = home.records("end")
    assert (row["status"], row["reason"]) == ("unmarked", "failure")
    assert "The encoder is down." not in home.audit.read_text()


def test_a_refused_answer_is_counted_with_what_it_took(serve: Serve) -> None:
    backend = FakeBackend(sentences=lambda request: "```\ncode\n```"[len(request.written) :])
    served = serve(backend=backend, policy={"unmarkable": "refuse"})
    assert served.chat().status_code == 503
    assert counts(served, "answers_total") == {'reason="unmarkable",status="refused"': 1}
    assert counts(served, "candidates_total")[""] > 0
    assert counts(served, "drawn_tokens_total")[""] > 0


def test_an_answer_that_cannot_begin_to_be_marked_is_counted_as_refused(serve: Serve) -> None:
    served = serve(encoder=broken_encoder())
    assert served.chat().status_code == 503
    assert counts(served, "answers_total") == {'reason="failure",status="refused"': 1}


def test_without_a_log_nothing_is_recorded(serve: Serve, home: Home) -> None:
    assert serve().chat().status_code == 200
    assert not home.audit.exists()


def test_a_begin_that_comes_late_gets_its_end(serve: Serve, home: Home) -> None:
    """The disk hangs for longer than anybody waits; what it takes in the end is consistent."""
    served = serve(audit={"file": home.audit})
    log = served.service.audit
    assert log is not None
    recorder = Recorder(log, Client("r-1", "127.0.0.1", None), endpoint=CHAT, model="tiny")

    async def ask() -> None:
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(recording, "wait_until_written", late)
            with pytest.raises(AuditTimeout):
                await recorder.begin(0, key_of())
        recorder.interrupt(0, Mark("unmarked", "The answer was cut short.", "cut_short"), "")

    async def late(begun: Any) -> None:
        raise AuditTimeout("The disk hangs.")

    asyncio.run(ask())
    served.close()
    assert [row["request_id"] for row in home.records("begin")] == ["r-1"]
    assert [row["error"] for row in home.records("end")] == ["cut short"]
    assert verify(home.audit) == []


def test_of_answers_sent_together_none_is_recorded_as_sent_if_one_fails(
    serve: Serve, home: Home
) -> None:
    """The first prompt's answer is whole and marked when the model fails at the second."""
    backend = FailingAtBackend("Another")
    served = serve(backend=backend, audit={"file": home.audit})
    answer = served.complete(prompt=["It was late.", "Another day."])
    assert answer.status_code == 502
    until(lambda: len(home.records("end")) == 2)
    ends = home.records("end")
    assert sorted(row["choice"] for row in ends) == [0, 1]
    for row in ends:
        assert (row["status"], row["key_id"], row["text_characters"]) == ("unmarked", None, 0)
        assert row["error"] == "cut short"
    assert not any('status="marked"' in labels for labels in counts(served, "answers_total"))
    served.complete(prompt=["It was late.", "It was early."])
    assert [row["error"] for row in home.records("end")][-2:] == [None, None]


class FailingAtBackend(FakeBackend):
    """Fails at the third sentence of texts that begin with a word, once all others have ended."""

    def __init__(self, word: str) -> None:
        super().__init__(order=lambda requests: sorted(requests, key=self.fails))
        self._word = word

    def fails(self, request: Request) -> bool:
        return request.prompt.text.startswith(self._word) and request.written.count(".") >= 2

    def candidate(self, request: Request) -> Candidate:
        if self.fails(request):
            failure = Failure("unavailable", "The model fell.")
            return Candidate(request.number, (), False, failure=failure)
        return super().candidate(request)
