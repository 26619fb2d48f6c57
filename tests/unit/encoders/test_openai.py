"""The HTTP encoder against a real server on this machine that misbehaves on request."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
import pytest

from hammingmark.encoders.openai import OpenAIEncoder
from hammingmark.encoders.vectors import unit_rows
from hammingmark.errors import EncoderError, FailureKind, InputError
from hammingmark.protocols import Encoder

KEY = "sk-very-secret-7391"


def vector(text: str, dimension: int = 4) -> list[float]:
    """Some numbers that depend on the text alone."""
    return [float(sum(map(ord, text)) % (7 + k) + 1) for k in range(dimension)]


class Server(ThreadingHTTPServer):
    """Serves embeddings; first takes one step from ``script`` for each request."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.script: list[Any] = []
        self.seen: list[dict[str, Any]] = []
        self.keys: list[str | None] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore broken pipes, which these tests cause."""


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.seen.append(body)
        self.server.keys.append(self.headers.get("Authorization"))
        step = self.server.script.pop(0) if self.server.script else 200
        if step == "kill":
            self.connection.close()
            return
        if step == "sleep":  # until the client times out
            self.connection.settimeout(60)
            with suppress(OSError):
                self.connection.recv(1)
            return
        headers: dict[str, str] = {}
        if isinstance(step, tuple):
            step, headers = step
        if isinstance(step, int) and step != 200:
            self.answer(step, json.dumps({"error": {"message": f"no, {KEY} is bad"}}), headers)
        elif isinstance(step, str) and step not in ("sleep", "shuffle"):
            self.answer(200, step, {})
        else:
            size = body.get("dimensions", 4)
            data = [
                {"index": i, "embedding": vector(text, size)}
                for i, text in enumerate(body["input"])
            ]
            self.answer(200, json.dumps({"data": data[::-1] if step == "shuffle" else data}), {})

    def answer(self, status: int, content: str, headers: dict[str, str]) -> None:
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(content.encode())))
        self.end_headers()
        self.wfile.write(content.encode())

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def encoder(server: Server) -> Iterator[OpenAIEncoder]:
    encoder = OpenAIEncoder(server.url, "tiny", api_key=KEY, retries=2, batch=2, backoff=0.01)
    yield encoder
    encoder.close()


def expected(*texts: str) -> np.ndarray:
    return unit_rows(np.array([vector(text) for text in texts], dtype=np.float32))


def test_batches(server: Server, encoder: OpenAIEncoder) -> None:
    assert isinstance(encoder, Encoder)
    sizes: list[int] = []
    embeddings = encoder.encode(["a", "b", "c", "d", "e"], progress=sizes.append)
    np.testing.assert_allclose(embeddings, expected("a", "b", "c", "d", "e"), atol=1e-6)
    assert embeddings.dtype == np.float32
    assert sizes == [2, 2, 1]
    assert [body["input"] for body in server.seen[1:]] == [["a", "b"], ["c", "d"], ["e"]]
    assert server.seen[0]["model"] == "tiny"
    assert set(server.keys) == {f"Bearer {KEY}"}
    assert encoder.encode([]).shape == (0, 4)


def test_a_given_dimension_is_asked_for(server: Server) -> None:
    encoder = OpenAIEncoder(server.url + "/", "tiny", dimension=3)
    assert (encoder.dimension, server.seen) == (3, [])
    assert encoder.encode(["a"]).shape == (1, 3)
    assert server.seen[0]["dimensions"] == 3
    assert server.keys == [None]
    encoder.close()


def test_fingerprint_is_of_name_and_dimension(server: Server, encoder: OpenAIEncoder) -> None:
    same = OpenAIEncoder("http://elsewhere.invalid", "tiny", dimension=4)
    assert encoder.fingerprint == same.fingerprint
    assert same.fingerprint != OpenAIEncoder("http://x", "tiny", dimension=5).fingerprint
    assert same.fingerprint != OpenAIEncoder("http://x", "other", dimension=4).fingerprint


@pytest.mark.parametrize(
    "script",
    [
        ["shuffle"],
        [(429, {"Retry-After": "0"})],
        [(503, {"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"}), 500],
        [(429, {"Retry-After": "soon"})],
        ["kill"],
    ],
)
def test_passing_trouble_is_sat_out(
    server: Server, encoder: OpenAIEncoder, script: list[Any]
) -> None:
    assert encoder.dimension == 4
    server.script = list(script)
    np.testing.assert_allclose(encoder.encode(["a", "b"]), expected("a", "b"), atol=1e-6)


@pytest.mark.parametrize(
    ("script", "kind", "code"),
    [
        ([500] * 3, "unavailable", 500),
        ([429] * 3, "rate_limited", 429),
        (["kill"] * 3, "unavailable", None),
        ([401], "unauthorized", 401),
        ([404], "not_found", 404),
        ([400], "invalid_request", 400),
        (["<html>"], "unavailable", None),
        (["[]"], "unavailable", None),
        (['{"data": []}'], "unavailable", None),
        (['{"data": [{"index": 5, "embedding": [1]}]}'], "unavailable", None),
        (['{"data": [{"index": 0, "embedding": "abc"}]}'], "unavailable", None),
        (['{"data": [{"index": 0, "embedding": [1, 2]}]}'], "unavailable", None),
        (['{"data": [{"index": 0, "embedding": [1, NaN, 1, 1]}]}'], "unavailable", None),
    ],
)
def test_lasting_trouble_is_told_without_the_key(
    server: Server, encoder: OpenAIEncoder, script: list[Any], kind: FailureKind, code: int | None
) -> None:
    assert encoder.dimension == 4
    server.script = list(script)
    with pytest.raises(EncoderError) as caught:
        encoder.encode(["a"])
    failure = caught.value.failure
    assert (failure.kind, failure.origin, failure.status) == (kind, "encoder", code)
    assert ("[key]" in failure.detail) is (code is not None)
    assert server.url not in failure.summary
    assert KEY not in str(caught.value)
    assert server.script == []


def test_a_slow_answer_is_given_up_and_asked_again(server: Server) -> None:
    # On a slow machine the honest answer may also time out, which costs one more request.
    patient = OpenAIEncoder(server.url, "tiny", dimension=4, retries=50, backoff=0.01, timeout=0.2)
    server.script = ["sleep"]
    np.testing.assert_allclose(patient.encode(["a", "b"]), expected("a", "b"), atol=1e-6)
    assert len(server.seen) >= 2
    patient.close()
    hasty = OpenAIEncoder(server.url, "tiny", dimension=4, retries=2, backoff=0.01, timeout=0.2)
    server.script = ["sleep"] * 3
    with pytest.raises(EncoderError) as caught:
        hasty.encode(["a"])
    assert caught.value.kind == "timeout"
    hasty.close()


def test_no_server() -> None:
    encoder = OpenAIEncoder("http://127.0.0.1:9", "tiny", retries=0, timeout=1)
    with pytest.raises(EncoderError) as caught:
        encoder.encode(["a"])
    assert caught.value.kind == "unavailable"
    encoder.close()


def test_what_is_refused_and_what_is_shown() -> None:
    for key in ("", "with space", "line\nend"):
        with pytest.raises(InputError) as caught:
            OpenAIEncoder("http://x", "m", api_key=key)
        assert key == "" or key not in str(caught.value)
    for url in ("ftp://x", "nothing", "http://x:port"):
        with pytest.raises(InputError):
            OpenAIEncoder(url, "m")
    for option in ({"batch": 0}, {"retries": -1}, {"dimension": 0}):
        with pytest.raises(InputError):
            OpenAIEncoder("http://x", "m", **option)  # type: ignore[arg-type]
    text = repr(OpenAIEncoder(f"http://user:{KEY}@x/v1", "m", api_key=KEY))
    assert KEY not in text
    assert "http://x/v1/embeddings" in text
