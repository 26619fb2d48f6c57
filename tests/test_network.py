"""Tests cannot reach the network."""

from __future__ import annotations

import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, HTTPServer
from tempfile import TemporaryDirectory
from threading import Thread

import httpx
import pytest

from tests.network import NetworkRefused

# Of the range for documentation, so that nothing would answer.
ELSEWHERE = ("192.0.2.1", 9)


def attempt(method: str, *arguments: object, kind: int = socket.SOCK_STREAM) -> None:
    with socket.socket(type=kind) as made:
        made.settimeout(0.1)
        getattr(made, method)(*arguments)


def attempt_in_a_thread() -> None:
    with ThreadPoolExecutor(1) as pool:
        pool.submit(attempt, "connect", ELSEWHERE).result()


@pytest.mark.parametrize(
    "way",
    [
        lambda: attempt("connect", ELSEWHERE),
        lambda: attempt("connect_ex", ELSEWHERE),
        lambda: attempt("sendto", b"x", ELSEWHERE, kind=socket.SOCK_DGRAM),
        attempt_in_a_thread,
        lambda: httpx.get("http://192.0.2.1/", timeout=0.1, trust_env=False),
        lambda: httpx.get("http://hammingmark.invalid/", timeout=0.1, trust_env=False),
    ],
    ids=["connect", "connect_ex", "sendto", "in a thread", "HTTP", "a name"],
)
def test_another_machine_is_refused(way: Callable[[], object]) -> None:
    with pytest.raises(NetworkRefused):
        way()


class Hello(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"hello")

    def log_message(self, format: str, *arguments: object) -> None:
        pass


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
def test_a_server_on_this_machine_is_reached(name: str) -> None:
    with HTTPServer(("127.0.0.1", 0), Hello) as server:
        thread = Thread(target=server.handle_request)
        thread.start()
        assert httpx.get(f"http://{name}:{server.server_port}/", trust_env=False).text == "hello"
        thread.join()


def test_a_unix_socket_is_reached() -> None:
    with (
        TemporaryDirectory() as folder,
        socket.socket(socket.AF_UNIX) as server,
        socket.socket(socket.AF_UNIX) as client,
    ):
        server.bind(f"{folder}/s")
        server.listen()
        client.connect(f"{folder}/s")
