"""The HTTP client: what it sends, how it retries, and what it keeps out of logs."""

from __future__ import annotations

import gc
import logging
import socket
import ssl
import subprocess
import sys
import threading
import time
from concurrent.futures import CancelledError
from contextlib import suppress
from typing import Any

import httpx
import pytest
from tests.forking import in_a_fork
from tests.unit.backends.openai_server import KEY, Handler, Step, running, stall, status

from hammingmark.backends.openai_refusals import refuses_n
from hammingmark.errors import BackendError, InputError
from hammingmark.http import client as endpoint_module
from hammingmark.http.client import LONGEST_WAIT, Endpoint, Refused, retry_wait
from hammingmark.http.connection import ErrorObject, retry_after


def endpoint(url: str, *, api_key: str | None = None, backoff: float = 0.01) -> Endpoint:
    return Endpoint(
        url, error=BackendError, api_key=api_key, timeout=60.0, retries=1, backoff=backoff
    )


def test_a_password_travels_in_a_header_and_a_query_stays(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    with running() as server:
        url = server.url.replace("//127", f"//user:{KEY}@127", 1) + "/?version=3"
        client = endpoint(url)
        assert client.url("/x") == f"{server.url}/x"
        assert repr(client) == f"Endpoint({server.url!r})"
        client.post("/completions", {"seed": 1, "max_tokens": 9})
        client.close()
        assert server.seen[0][0] == "/v1/completions?version=3"
        assert server.keys[0] is not None
        assert server.keys[0].startswith("Basic ")
    assert KEY not in caplog.text


async def read(response: httpx.Response) -> bytes:
    return await response.aread()


def test_what_is_asked_too_much_is_refused_to_whoever_streams() -> None:
    with running() as server:
        client = endpoint(server.url, backoff=30.0)
        server.always = status(503, "full")
        with pytest.raises(Refused) as caught:
            client.loop().run(
                client.stream("/x", {}, read, is_final=lambda error: error.message == "full")
            )
        failure = caught.value.failure
        assert (failure.kind, failure.status, failure.detail) == ("unavailable", 503, "full")
        assert caught.value.error == ErrorObject("full")
        client.close()


def test_a_broken_tls_record_is_a_lost_connection() -> None:
    async def broken(response: httpx.Response) -> None:
        raise ssl.SSLError("bad record mac")

    with running() as server:
        client = endpoint(server.url)
        with pytest.raises(BackendError) as caught:
            client.loop().run(client.stream("/x", {"max_tokens": 9}, broken))
        assert (caught.value.kind, caught.value.status) == ("unavailable", None)
        assert "SSLError" in caught.value.failure.summary
        assert len(server.seen) == 2
        client.close()


@pytest.mark.parametrize("step", [stall, status(503)])
def test_a_request_may_be_cancelled_at_any_moment(step: object) -> None:
    """Also while it waits for its next attempt; the server sees that the connection is closed."""
    with running() as server:
        server.always = step  # type: ignore[assignment]
        client = endpoint(server.url, backoff=60.0)
        future = client.loop().start(client.stream("/x", {}, read))
        while not server.seen:
            time.sleep(0.005)
        began = time.monotonic()
        future.cancel()
        assert step is not stall or server.left.wait(20)
        with pytest.raises(CancelledError):
            future.result()
        client.close()
        assert time.monotonic() - began < 20  # not the back-off
        assert len(server.seen) == 1


def test_retries_are_spread() -> None:
    """Of 64 draws, the chance that none is in a given quarter of the range is 1e-8."""
    for attempt, most in ((0, 0.5), (3, 4.0), (20, LONGEST_WAIT)):
        waits = [retry_wait(attempt, backoff=0.5, retry_after=None) for _ in range(64)]
        assert most / 2 <= min(waits) < 0.625 * most
        assert 0.875 * most < max(waits) <= most
    waits = [retry_wait(9, backoff=0.5, retry_after=20.0) for _ in range(64)]
    assert 20.0 <= min(waits) < 21.25
    assert 23.75 < max(waits) <= 25.0
    assert retry_wait(0, backoff=0.5, retry_after=3600.0) == LONGEST_WAIT


def test_each_retry_draws_its_own_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[tuple[int, float | None, float]] = []

    def recorded(attempt: int, *, backoff: float, retry_after: float | None) -> float:
        wait = retry_wait(attempt, backoff=backoff, retry_after=retry_after)
        waits.append((attempt, retry_after, wait))
        return 0.0

    monkeypatch.setattr(endpoint_module, "retry_wait", recorded)
    with running() as server:
        client = Endpoint(
            server.url, error=BackendError, api_key=None, timeout=60.0, retries=2, backoff=8.0
        )
        for _ in range(32):
            server.script = [status(503), status(429, Retry_After="7")]
            client.post("/x", {"max_tokens": 9})
        client.close()
    assert [(attempt, retry_after) for attempt, retry_after, _ in waits] == [
        (0, None),
        (1, 7.0),
    ] * 32
    assert len({wait for _, _, wait in waits}) == 64


def test_closing_ends_a_request_under_way() -> None:
    with running() as server:
        server.always = stall
        client = endpoint(server.url)

        def close() -> None:
            while not server.seen:
                time.sleep(0.005)
            client.close()

        closing = threading.Thread(target=close)
        closing.start()
        with pytest.raises(BackendError) as caught:
            client.post("/x", {})
        assert caught.value.kind == "closed"
        closing.join()
        assert server.left.wait(20)


def test_one_that_nobody_closes_leaves_no_thread() -> None:
    with running() as server:
        before = set(threading.enumerate())
        client = endpoint(server.url)
        client.post("/x", {"max_tokens": 9})
        (thread,) = {each for each in set(threading.enumerate()) - before if "http" in each.name}
        del client
        gc.collect()
        thread.join(60)
        assert not thread.is_alive()


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_process_has_connections_of_its_own() -> None:
    with running() as server:
        client = endpoint(server.url)

        def ask() -> str:
            return str(client.post("/x", {"max_tokens": 9}).status_code)

        def ask_and_close() -> str:
            message = ask()
            client.close()
            return message

        assert ask() == in_a_fork(ask_and_close) == ask() == "200"
        assert len(server.seen) == 3
        client.close()


_LOOKUP = """
import socket, sys, threading
from hammingmark.http.client import Endpoint
from hammingmark.errors import BackendError

socket.getaddrinfo = lambda *args, **kwargs: threading.Event().wait()
made = Endpoint(
    "http://somewhere", error=BackendError, api_key=None, timeout=0.2, retries=0, backoff=0.0
)
try:
    made.post("/x", {})
except BackendError as error:
    print(error.kind, error.failure.advice)
made.close()
"""


def test_a_lookup_that_hangs_times_out_and_holds_up_no_exit() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", _LOOKUP], capture_output=True, text=True, timeout=60
    )
    assert done.stdout.startswith("timeout ")
    assert "http://somewhere/x" in done.stdout
    assert (done.returncode, done.stderr) == (0, "")


def test_names_are_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*args: object, **kwargs: object) -> None:
        raise socket.gaierror("unknown")

    with running() as server:
        client = endpoint(server.url.replace("127.0.0.1", "localhost"))
        assert client.post("/x", {"max_tokens": 9}).is_success
        monkeypatch.setattr(socket, "getaddrinfo", unknown)
        with pytest.raises(BackendError) as caught:
            client.post("/x", {"max_tokens": 9})
        assert caught.value.kind == "unavailable"
        assert "ConnectError" in caught.value.failure.summary
        client.close()


def test_threads_share_one_client() -> None:
    with running() as server:
        client = endpoint(server.url)
        threads = [
            threading.Thread(target=client.post, args=("/x", {"max_tokens": 9})) for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        client.close()
        client.close()
        assert len(server.seen) == 8


def test_a_base_url_must_be_one() -> None:
    for url in ("ftp://x", "nothing", "http://x:port"):
        with pytest.raises(InputError):
            endpoint(url)


def endless(code: int) -> Step:
    """A response with this status that never ends."""

    def step(handler: Handler, body: dict[str, Any]) -> None:
        handler.send_response(code)
        handler.send_header("Content-Type", "text/plain")
        handler.end_headers()
        with suppress(OSError):
            while True:
                handler.wfile.write(b"no room. " * 1000)
        handler.server.left.set()

    return step


def test_an_answer_without_an_end_is_not_read_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint_module, "_LONGEST_BODY", 1 << 20)
    with running() as server:
        client = endpoint(server.url)
        for code, status_told in ((500, 500), (200, None)):
            server.left.clear()
            server.always = endless(code)
            with pytest.raises(BackendError) as caught:
                client.post("/x", {})
            assert (caught.value.kind, caught.value.status) == ("unavailable", status_told)
            assert server.left.wait(60)
        client.close()


def test_a_long_error_that_quotes_the_request_names_no_field() -> None:
    traceback = "Traceback:\n" + "x" * 400 + '\n    n = body["n"], seed, top_k'
    with running() as server:
        client = endpoint(server.url)
        server.always = status(400, traceback)
        with pytest.raises(Refused) as caught:
            client.loop().run(client.stream("/x", {}, read))
        assert len(caught.value.error.message) <= 300
        assert not refuses_n(caught.value.error)
        assert caught.value.failure.detail == caught.value.error.message
        client.close()


def test_a_server_cannot_ask_for_an_endless_wait() -> None:
    for header in ("inf", "-inf", "nan", "1e999"):
        response = httpx.Response(429, headers={"Retry-After": header})
        assert retry_after(response) is None, header
    assert retry_after(httpx.Response(429, headers={"Retry-After": "2.5"})) == 2.5
