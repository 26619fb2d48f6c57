"""What surrounds every request: its id, limits on its body, metrics, faults, other origins."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any

import httpx
import pytest
from tests.unit.server.harness import (
    CHAT,
    DETECT,
    PATIENCE,
    QUESTION,
    TOKENS,
    GatedBackend,
    Home,
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
    monkeypatch.setattr("hammingmark.server.service._LOAD_RETRY", 0.01)

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
        head = f"POST {DETECT} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        connection.sendall(f"{head}Content-Length: 1001\r\n\r\n".encode())
        assert connection.recv(100).startswith(b"HTTP/1.1 413 ")


def sent(service: Live, *parts: str) -> socket.socket:
    """A connection over which something was sent."""
    host, port = service.root.removeprefix("http://").split(":")
    connection = socket.create_connection((host, int(port)), timeout=PATIENCE)
    for part in parts:
        connection.sendall(part.encode())
    return connection


def rest_of(connection: socket.socket) -> bytes:
    """What comes until the connection is ended."""
    found = b""
    with suppress(ConnectionError):
        while more := connection.recv(10_000):
            found += more
    return found


HEAD = f"POST {CHAT} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
HALF = f'{HEAD}Content-Length: 1000\r\n\r\n{{"messages": ['


def test_without_an_api_key_a_body_is_not_waited_for(live: Callable[..., Live], home: Home) -> None:
    home.let_in("somebody")
    service = live(api_keys=home.api_keys)
    with sent(service, HALF) as connection:
        answer = rest_of(connection)  # until it is ended
    assert answer.startswith(b"HTTP/1.1 401 ")
    assert b"connection: close" in answer.lower()
    with sent(service, f"{HEAD}Transfer-Encoding: chunked\r\n\r\n") as connection:
        assert rest_of(connection).startswith(b"HTTP/1.1 401 ")


def test_an_api_key_is_counted_once_for_a_request_with_a_body(serve: Serve, home: Home) -> None:
    token = home.let_in("slow", "detect", rate=2)
    served = serve(api_keys=home.api_keys)
    served.token = token
    statuses = [served.post(DETECT, {"text": "It was late."}).status_code for _ in range(3)]
    assert statuses == [200, 200, 429]


def test_a_body_that_does_not_come_is_given_up(live: Callable[..., Live]) -> None:
    service = live(limits={"body_timeout": 0.1})
    with sent(service, HALF) as connection:
        answer = rest_of(connection)
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b"within 0.1 seconds" in answer


def test_a_body_in_time_has_all_the_time_for_its_answer(live: Callable[..., Live]) -> None:
    backend = GatedBackend()
    service = live(backend=backend, limits={"body_timeout": 0.1})
    with service.asking() as connection:
        until(lambda: service.service._engine.unfinished == 1)
        with sent(service, HALF) as other:
            rest_of(other)  # which takes as long as a body may
        backend.gate.set()
        assert connection.recv(100).startswith(b"HTTP/1.1 200 ")


WHOLE = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.mark.parametrize("before", [[], [WHOLE]])
def test_a_head_that_does_not_come_is_given_up(
    live: Callable[..., Live], before: list[str]
) -> None:
    service = live(limits={"head_timeout": 0.1})
    with sent(service, *before) as connection:
        if before:
            assert connection.recv(100).startswith(b"HTTP/1.1 200 ")
            connection.sendall(WHOLE[:30].encode())
        rest_of(connection)  # until it is ended
    until(lambda: not service._server.server_state.connections)


@pytest.mark.parametrize("trusted", [[], ["192.0.2.1"], ["127.0.0.1"]])
def test_only_proxies_that_are_trusted_may_name_the_client(
    live: Callable[..., Live], trusted: list[str]
) -> None:
    service = live(limits={"requests_per_minute": 2}, trusted_proxies=trusted, open=True)
    statuses = [
        service.client.get("/v1/models", headers={"X-Forwarded-For": f"198.51.100.{number}"})
        for number in range(4)
    ]
    found = [answer.status_code for answer in statuses]
    assert found == ([200] * 4 if trusted == ["127.0.0.1"] else [200, 200, 429, 429])


OWN = ["localhost", "LOCALHOST:8080", "127.0.0.1", "127.0.0.1:8080", "[::1]", "[::1]:80", ""]
OTHERS = [
    "evil.example",
    "evil.example:8080",
    "localhost.evil.example",
    "192.0.2.1",
    "[2001:db8::1]",
]


@pytest.mark.parametrize("path", ["/healthz", "/v1/models", "/"])
def test_on_this_machine_alone_no_other_name_is_answered(serve: Serve, path: str) -> None:
    """A page elsewhere may have its own name lead to this machine."""
    served = serve()
    for host in OWN:
        assert served.get(path, headers={"Host": host}).status_code == 200, host
    for host in OTHERS:
        answer = served.get(path, headers={"Host": host})
        assert answer.status_code == 421, host
        assert "localhost" in error_of(answer)["message"]
    assert served.post(CHAT, {"messages": QUESTION}, headers={"Host": OTHERS[0]}).status_code == 421


@pytest.mark.parametrize("header", ["X-Forwarded-For", "Forwarded", "X-Real-IP"])
def test_a_service_of_this_machine_alone_refuses_what_a_proxy_forwards(
    serve: Serve, header: str
) -> None:
    """A proxy on this machine would make everybody a client that is trusted."""
    headers = {header: "203.0.113.9"}
    for path in ("/v1/models", DETECT):
        answer = serve().get(path, headers=headers)
        assert (answer.status_code, error_of(answer)["code"]) == (403, "forwarded")
    assert serve(open=True).get("/v1/models", headers=headers).status_code == 200


def test_who_is_asked_for_an_api_key_may_use_any_name(serve: Serve, home: Home) -> None:
    token = home.let_in("somebody")
    for settings in ({"api_keys": home.api_keys}, {"open": True}, {"host": "::", "open": True}):
        served = serve(**settings)
        served.token = token
        assert served.get("/v1/models", headers={"Host": "example.org"}).status_code == 200
    assert serve(host="localhost").get("/healthz", headers={"Host": "localhost:1"}).is_success


def test_what_is_wrong_is_told_without_files_and_addresses(serve: Serve, home: Home) -> None:
    served = serve(audit={"file": home.audit})
    assert served.service.audit is not None
    served.service.audit.problem = f"Cannot write {home.audit}."
    told = served.get("/readyz")
    assert told.status_code == 503
    assert any("audit log" in reason for reason in told.json()["reasons"])
    assert str(home.audit) not in told.text


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

    monkeypatch.setattr(served.service.planner, "plan", fail)
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
    assert counts(served, "constrained_sentences_total") == {"": 2 * (mark["sentences"] - 1)}
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
        assert "hammingmark_queue_length 3.0" in metrics, "answers, not requests"


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
    told = closed.ask("OPTIONS", CHAT, headers=asked).headers
    assert not any(name.startswith("access-control") for name in told)
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


def test_probes_are_not_logged_at_info(
    serve: Callable[..., Served], caplog: pytest.LogCaptureFixture
) -> None:
    served = serve()
    caplog.set_level(logging.DEBUG, "hammingmark.server")
    for path in ("/healthz", "/readyz", "/v1/models"):
        served.get(path)
    levels = {
        vars(record)["fields"]["endpoint"]: record.levelno
        for record in caplog.records
        if record.message == "request"
    }
    assert levels == {
        "/healthz": logging.DEBUG,
        "/readyz": logging.DEBUG,
        "/v1/models": logging.INFO,
    }
