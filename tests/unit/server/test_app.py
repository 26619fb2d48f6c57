"""What surrounds every request: its id, limits on its body, metrics, faults, other origins."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import pytest
from tests.unit.server.harness import (
    CHAT,
    DETECT,
    PATIENCE,
    TOKENS,
    GatedBackend,
    Live,
    Served,
    broken_encoder,
    counts,
    error_of,
    until,
)

from hammingmark.errors import BackendError
from hammingmark.testing import FakeBackend, FakeSession

Serve = Callable[..., Served]
JSON = {"content-type": "application/json"}


def test_the_process_lives_and_is_ready_once_its_models_are(serve: Serve) -> None:
    served = serve()
    assert served.get("/healthz").json() == {"status": "alive"}
    before = served.get("/readyz")
    assert before.status_code == 503
    assert before.json() == {"status": "not ready", "reasons": ["The models are being loaded."]}
    served.loop.run(served.service.load())
    after = served.get("/readyz")
    assert (after.status_code, after.json()) == (200, {"status": "ready", "reasons": []})


@pytest.mark.parametrize("error", [BackendError("The model is not there."), RuntimeError("odd")])
def test_models_that_cannot_be_had_are_tried_again(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """Whatever the library of a model raises."""
    monkeypatch.setattr("hammingmark.server.service._LOAD_AGAIN", 0.01)

    class Absent(FakeBackend):
        fails = True

        def open(self) -> FakeSession:
            if self.fails:
                raise error
            return super().open()

    backend = Absent()
    served = serve(backend=backend)
    loading = asyncio.run_coroutine_threadsafe(served.service.load(), served.loop._loop)
    until(lambda: "loaded." not in "".join(served.service.problems()))
    ready = served.get("/readyz")
    assert ready.status_code == 503
    assert "odd" not in ready.text
    backend.fails = False
    loading.result(PATIENCE)
    assert served.get("/readyz").status_code == 200


def test_loading_begins_with_the_service_and_ends_with_it(live: Callable[..., Live]) -> None:
    service = live()
    until(lambda: service.client.get("/readyz").status_code == 200)
    stuck = live(encoder=broken_encoder(), backend=FakeBackend(fail_after=0))
    assert stuck.client.get("/healthz").status_code == 200


def test_every_answer_has_an_id_of_its_own(serve: Serve) -> None:
    served = serve()
    answers = [served.get("/healthz"), served.get("/nothing"), served.chat(), served.chat(n=0)]
    answers.append(served.chat(stream=True))
    ids = {answer.headers["x-request-id"] for answer in answers}
    assert len(ids) == len(answers)
    assert all(answer.headers["x-content-type-options"] == "nosniff" for answer in answers)


@pytest.mark.parametrize("stated", [True, False])
def test_a_body_that_is_too_large_is_refused(serve: Serve, stated: bool) -> None:
    """By the length that it states, or while it is read."""
    served = serve(limits={"body_bytes": 1000})
    body = b'{"text": "' + b"a" * 989 + b'"}'

    async def parts() -> AsyncIterator[bytes]:
        yield body
        yield b" "

    content: Any = body + b" " if stated else parts()
    answer = served.ask("POST", DETECT, content=content, headers=JSON)
    assert answer.status_code == 413
    assert "1,000 bytes" in error_of(answer)["message"]
    assert served.ask("POST", DETECT, content=body[:-3] + b'"}', headers=JSON).status_code == 200


def test_a_body_that_is_too_large_is_not_waited_for(live: Callable[..., Live]) -> None:
    service = live(limits={"body_bytes": 1000})
    host, port = service.root.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=PATIENCE) as connection:
        head = f"POST {DETECT} HTTP/1.1\r\nHost: service\r\nContent-Type: application/json\r\n"
        connection.sendall(f"{head}Content-Length: 1001\r\n\r\n".encode())
        assert connection.recv(100).startswith(b"HTTP/1.1 413 ")


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/nothing", 404), ("GET", CHAT, 405), ("POST", "/healthz", 405)],
)
def test_what_there_is_not_is_told_in_the_same_shape(
    serve: Serve, method: str, path: str, status: int
) -> None:
    answer = serve().ask(method, path)
    assert answer.status_code == status
    assert "/openapi.json" in error_of(answer)["message"]


def test_a_fault_tells_its_id_and_nothing_else(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = serve()

    def fail(*anything: object) -> None:
        raise RuntimeError("the words of a client")

    monkeypatch.setattr(served.service, "plan", fail)
    answer = served.chat()
    assert answer.status_code == 500
    assert "X-Request-Id" in error_of(answer)["message"]
    assert answer.headers["x-request-id"]
    assert "words of a client" not in answer.text
    assert counts(served, "requests_total") == {f'endpoint="{CHAT}",status="500"': 1}


def test_metrics_count_what_happened(serve: Serve) -> None:
    served = serve()
    mark = served.chat().json()["watermark"]
    served.chat(stream=True)
    served.chat(n=0)
    served.get("/v1/models/secret-name")
    served.post(DETECT, {"text": "It was late."})
    assert counts(served, "requests_total") == {
        f'endpoint="{CHAT}",status="200"': 2,
        f'endpoint="{CHAT}",status="422"': 1,
        f'endpoint="{DETECT}",status="200"': 1,
        'endpoint="other",status="404"': 1,
    }
    assert counts(served, "answers_total") == {'reason="complete",status="marked"': 2}
    assert counts(served, "candidates_total") == {"": 2 * mark["candidates"]}
    assert counts(served, "fallbacks_total") == {"": 2 * mark["fallbacks"]}
    assert counts(served, "drawn_tokens_total") == {"": 2 * mark["drawn_tokens"]}
    assert counts(served, "emitted_tokens_total") == {"": 2 * TOKENS}
    assert counts(served, "constrained_sentences_total") == {"": 2 * mark["sentences"]}
    assert counts(served, "candidates_accepted_total") == {"": 2 * mark["accepted"]}
    assert counts(served, "answer_seconds_count") == {"": 2}
    assert counts(served, "first_sentence_seconds_count") == {"": 2}
    assert counts(served, "queue_length") == {"": 0}
    shown = served.get("/metrics")
    assert shown.headers["content-type"].startswith("text/plain")
    assert "hammingmark_answers_total" in shown.text


def test_metrics_show_what_is_under_way(live: Callable[..., Live]) -> None:
    service = live(backend=GatedBackend(parallel=2))
    with service.asking(n=3):
        until(lambda: service.service._engine.unfinished == 3)
        metrics = service.client.get("/metrics").text
        assert "hammingmark_active_texts 2.0" in metrics
        assert "hammingmark_queue_length 1.0" in metrics


def test_metrics_and_the_page_can_be_left_out(serve: Serve) -> None:
    served = serve(metrics=False, page=False)
    for path in ("/metrics", "/", "/web/page.js"):
        assert served.get(path).status_code == 404


def test_pages_of_other_origins_may_call_only_if_the_settings_say_so(serve: Serve) -> None:
    origin = {"Origin": "https://example.org"}
    asked = {
        **origin,
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization,content-type,x-stainless-lang",
    }
    closed = serve()
    assert closed.ask("OPTIONS", CHAT, headers=asked).status_code == 405
    assert "access-control-allow-origin" not in closed.get("/v1/models", headers=origin).headers
    served = serve(cors_origins=["https://example.org"])
    allowed = served.ask("OPTIONS", CHAT, headers=asked)
    assert allowed.status_code == 200
    assert allowed.headers["access-control-allow-origin"] == "https://example.org"
    assert "x-stainless-lang" in allowed.headers["access-control-allow-headers"]
    assert "access-control-allow-credentials" not in allowed.headers
    answer = served.post(CHAT, {"messages": []}, headers=origin)
    assert answer.headers["access-control-allow-origin"] == "https://example.org"
    exposed = answer.headers["access-control-expose-headers"].lower()
    assert "x-watermark-status" in exposed
    assert "retry-after" in exposed
    stranger = {**asked, "Origin": "https://example.com"}
    assert served.ask("OPTIONS", CHAT, headers=stranger).status_code == 400
    told = served.get("/v1/models", headers={"Origin": "https://example.com"}).headers
    assert "access-control-allow-origin" not in told


def test_a_fault_is_told_to_pages_of_other_origins_too(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = serve(cors_origins=["*"])
    monkeypatch.setattr(served.service, "problems", lambda: 1 / 0)
    answer = served.get("/readyz", headers={"Origin": "https://example.org"})
    assert answer.status_code == 500
    assert answer.headers["access-control-allow-origin"] == "*"


def test_listing_keys_holds_up_nobody(live: Callable[..., Live]) -> None:
    """Not even while somebody reads models under the same lock."""
    service = live()
    with service.service.detection._lock, httpx.Client(base_url=service.root) as client:
        with pytest.raises(httpx.ReadTimeout):
            client.get("/v1/watermark/keys", timeout=0.1)
        assert client.get("/healthz", timeout=PATIENCE).status_code == 200
