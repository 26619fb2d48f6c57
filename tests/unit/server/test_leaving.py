"""Clients who leave: nobody works for them any longer, and the record says how far it came."""

from __future__ import annotations

import asyncio
import hashlib
import json
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.unit.backends.openai_server import Handler, Server
from tests.unit.server.harness import (
    CHAT,
    PATIENCE,
    QUESTION,
    TEXT,
    GatedBackend,
    GatedSession,
    Home,
    Live,
    Served,
    key_of,
    streamed,
    until,
)

from hammingmark.protocols import FloatArray
from hammingmark.records import GenerationStep
from hammingmark.server.clients import Client
from hammingmark.server.marking.recording import Recorder
from hammingmark.server.marking.schema import ChatCompletionRequest
from hammingmark.testing import FakeEncoder

Make = Callable[..., Live]


def assert_idle(service: Live) -> None:
    until(lambda: service.service._engine.unfinished == 0)
    until(lambda: len(service.service.admission) == 0)
    assert service.client.get("/healthz").status_code == 200


def test_leaving_a_stream_ends_its_text(live: Make, home: Home) -> None:
    service = live(backend=GatedBackend(after=3), audit={"file": home.audit})
    with service.stream() as events:
        begun = [next(events) for _ in range(3)]
        assert service.service._engine.unfinished == 1
    assert_idle(service)
    until(lambda: home.records("end"))
    (row,) = home.records("end")
    assert (row["status"], row["error"], row["key_id"]) == ("partly", "cut short", key_of().id)
    assert row["text_sha256"] == hashlib.sha256(streamed(begun).encode()).hexdigest()
    metrics = service.client.get("/metrics").text
    assert 'hammingmark_answers_total{reason="cut_short",status="partly"} 1.0' in metrics
    assert "hammingmark_written_tokens_total 0.0" not in metrics, "it cost something"
    assert "hammingmark_active_texts 0.0" in metrics
    assert "hammingmark_queue_length 0.0" in metrics


@pytest.mark.parametrize("stream", [False, True])
def test_leaving_before_the_first_sentence_ends_the_text(
    live: Make, home: Home, stream: bool
) -> None:
    service = live(backend=GatedBackend(), audit={"file": home.audit})
    with service.asking(stream=stream, n=2):
        until(lambda: service.service._engine.unfinished == 2)
    assert_idle(service)
    until(lambda: len(home.records("end")) == 2)
    for row in home.records("end"):
        assert (row["status"], row["error"], row["key_id"]) == ("unmarked", "cut short", None)
        assert row["text_characters"] == 0
    until(lambda: 'status="499"' in service.client.get("/metrics").text)


def test_leaving_a_whole_answer_in_the_middle_ends_the_text(live: Make, home: Home) -> None:
    service = live(backend=GatedBackend(after=2), audit={"file": home.audit})
    with service.asking():
        until(lambda: service.service._engine.unfinished == 1)
    assert_idle(service)
    until(lambda: home.records("end"))
    assert home.records("end")[0]["error"] == "cut short"


def test_one_who_leaves_makes_room_for_others(live: Make) -> None:
    backend = GatedBackend(after=2, parallel=1)
    service = live(backend=backend)
    with service.stream() as first:
        next(first)
        with service.asking():
            until(lambda: service.service._engine.unfinished == 2)
        until(lambda: service.service._engine.unfinished == 1)
        backend.gate.set()
        assert list(first)[-1] == "[DONE]"
    assert_idle(service)


@dataclass(frozen=True)
class SlowEncoder(FakeEncoder):
    """Takes as long as it is let."""

    asked_now: threading.Event = field(default_factory=threading.Event, compare=False)
    may_go_on: threading.Event = field(default_factory=threading.Event, compare=False)

    def encode(self, sentences: Sequence[str]) -> FloatArray:
        self.asked_now.set()
        assert self.may_go_on.wait(PATIENCE)
        return super().encode(sentences)


def test_a_text_that_is_about_to_be_written_is_not(live: Make) -> None:
    """Some methods embed the prompt first, in a thread that goes on when its client has left."""
    encoder, backend = SlowEncoder(), GatedBackend()
    service = live(key=key_of(method="hamming"), encoder=encoder, backend=backend)
    until(lambda: service.client.get("/readyz").status_code == 200)
    opened = len(backend.sessions)
    with service.asking(TEXT, prompt="It was late."):
        assert encoder.asked_now.wait(PATIENCE)
    until(lambda: len(service.service.admission) == 0)
    encoder.may_go_on.set()
    until(lambda: len(backend.sessions) > opened)  # it has been submitted
    assert_idle(service)


class SlowToOpen(GatedBackend):
    """Takes as long as it is let to open a session."""

    def __init__(self) -> None:
        super().__init__()
        self.opening, self.may_open = threading.Event(), threading.Event()
        self.may_open.set()

    def open(self) -> GatedSession:
        self.opening.set()
        assert self.may_open.wait(PATIENCE)
        return super().open()


def test_leaving_while_the_model_is_being_opened_ends_the_text(live: Make) -> None:
    """There is nothing yet that could be woken."""
    backend = SlowToOpen()
    service = live(backend=backend)
    until(lambda: service.client.get("/readyz").status_code == 200)
    backend.opening.clear()
    backend.may_open.clear()
    with service.asking():
        assert backend.opening.wait(PATIENCE)
    until(lambda: len(service.service.admission) == 0)
    backend.may_open.set()
    assert_idle(service)


def test_leaving_just_when_a_sentence_arrives_is_not_forgotten(
    serve: Callable[..., Served],
) -> None:
    served = serve(backend=GatedBackend())
    service = served.service
    asked = ChatCompletionRequest.model_validate({"messages": QUESTION})
    client = Client("1", "127.0.0.1", None)
    step = GenerationStep(0, "The river froze.", "The river froze.", True, 1.0, 1, 3, 3)

    async def leave() -> None:
        recorder = Recorder(None, client, endpoint=CHAT, model="")
        answering = service.completion_stream(
            service.planner.plan(asked, client), client, recorder=recorder
        )
        pieces = aiter(answering)
        reading = asyncio.ensure_future(anext(pieces))  # type: ignore[arg-type]
        while not answering._events._getters:  # type: ignore[attr-defined]
            await asyncio.sleep(0.001)
        answering._events.put_nowait((0, step))
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading

    served.loop.run(leave())
    until(lambda: service._engine.unfinished == 0)


def test_one_who_does_not_read_gives_its_place_back(
    serve: Callable[..., Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of its answer is there, and nobody takes it."""
    monkeypatch.setattr("hammingmark.server.event_stream._LIMIT_GRACE", 0.0)
    served = serve(limits={"request_timeout": 0.3, "queue": 1})
    body = json.dumps({"messages": QUESTION, "stream": True, "max_tokens": 20}).encode()
    head = [(b"content-type", b"application/json"), (b"host", b"localhost")]
    scope = {"type": "http", "method": "POST", "path": CHAT, "headers": head, "query_string": b""}
    sent: list[str] = []

    async def ask() -> None:
        asked = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> Any:
            if not asked:
                await asyncio.Event().wait()
            return asked.pop()

        async def send(message: Any) -> None:
            sent.append(message["type"])
            if message["type"] == "http.response.body":
                assert len(served.service.admission) == 1
                await asyncio.Event().wait()

        await served.app(scope, receive, send)

    served.loop.run(ask())
    assert sent == ["http.response.start", "http.response.body"]
    assert len(served.service.admission) == 0
    assert served.service._engine.unfinished == 0


def without_end(handler: Handler, body: dict[str, Any]) -> None:
    """Stream as long as somebody takes it."""
    handler.begin()
    with suppress(ConnectionError):
        while True:
            handler.piece(0, "word " * 10_000)
    handler.server.left.set()


def test_the_connection_of_one_who_does_not_read_is_ended(live: Make, model_server: Server) -> None:
    """Although there is more to send than any buffer holds."""
    model_server.always = without_end
    told = {"url": model_server.url, "model": "tiny", "retries": 0}
    service = live(upstream=told, limits={"request_timeout": 0.3})
    with service.asking(stream=True, temperature=0):
        assert model_server.left.wait(PATIENCE)
        until(lambda: len(service.service.admission) == 0)
        until(lambda: not service._server.server_state.connections)
