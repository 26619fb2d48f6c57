"""A real OpenAI-compatible server on this machine that misbehaves on request."""

from __future__ import annotations

import json
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import SO_LINGER, SOL_SOCKET
from typing import Any

from hammingmark.backends.continuation import QUESTIONS

KEY = "sk-very-secret-7391"
PROMPT_TOKENS = 9  # that the server reports
Step = Callable[["Handler", dict[str, Any]], None]


def story(seed: int) -> list[str]:
    """The text of the tests' model for a seed, token by token."""
    return [f" Seed{seed}", " rules.", " Then", " more", " follows."]


class Server(ThreadingHTTPServer):
    """Answers honestly; first takes one step from ``script`` for each request.

    Attributes:
        script: what to do instead of an honest answer, request by request.
        always: what to do to all the others.
        seen: path and body of each request.
        keys: the ``Authorization`` of each.
        left: set when a client has disconnected in the middle of a response.
        pause: seconds between two tokens.
        continues: whether it continues the assistant's message, and says so when it is asked;
            otherwise it treats these questions like other requests.
        questions: what it was asked about that.
    """

    daemon_threads = True
    request_queue_size = 128  # of connections that are not yet accepted

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.script: list[Step] = []
        self.always: Step = honest
        self.seen: list[tuple[str, dict[str, Any]]] = []
        self.keys: list[str | None] = []
        self.models: Any = {"data": [{"id": "tiny"}]}
        self.models_status = 200
        self.left = threading.Event()
        self.pause = 0.0
        self.continues = True
        self.questions: list[dict[str, Any]] = []
        self.lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"

    @property
    def bodies(self) -> list[dict[str, Any]]:
        return [body for _, body in self.seen]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore broken pipes, which these tests cause."""


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.server.seen.append((self.path, {}))
        self.plain(self.server.models, status=self.server.models_status)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        server = self.server
        if answer := answer_to_question(body):
            server.questions.append(body)
            if server.continues:
                saying({"choices": [{"delta": {"content": answer}}]}, "[DONE]")(self, body)
                return
        with server.lock:
            server.seen.append((self.path, body))
            server.keys.append(self.headers.get("Authorization"))
            step = server.script.pop(0) if server.script else server.always
        step(self, body)

    def plain(self, answer: Any, *, status: int = 200, **headers: str) -> None:
        """Send a whole response, as JSON or, if it is a text, unchanged."""
        content = (answer if isinstance(answer, str) else json.dumps(answer)).encode()
        self.send_response(status)
        kind = "text/html" if isinstance(answer, str) else "application/json"
        for name, value in {"Content-Type": kind, **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def begin(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()

    def event(self, data: Any) -> None:
        text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
        self.wfile.write(f"data: {text}\n\n".encode())
        self.wfile.flush()

    def piece(self, index: int, text: str, reason: str | None = None) -> None:
        choice: dict[str, Any] = {"index": index, "finish_reason": reason}
        if self.path.endswith("/chat/completions"):
            choice["delta"] = {"content": text}
        else:
            choice["text"] = text
        self.event({"choices": [choice]})

    def await_leaving(self) -> None:
        """Send nothing until the client closes the connection."""
        self.connection.settimeout(60)
        try:
            gone = self.connection.recv(1) == b""
        except ConnectionResetError:  # the client disconnected before it had read everything
            gone = True
        except OSError:
            gone = False
        if gone:
            self.server.left.set()

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


def answer_to_question(body: dict[str, Any]) -> str:
    """The right answer to the question whether a server continues; empty for other requests."""
    (*_, last) = body.get("messages") or [{}]
    rests = {q.begun: f" {q.follows}{q.rest}" for q in QUESTIONS}
    return rests.get(last["content"], "") if last.get("role") == "assistant" else ""


def honest(handler: Handler, body: dict[str, Any], *, count: int | None = None) -> None:
    """Stream every choice, one token of each in turn."""
    handler.begin()
    count = body.get("n", 1) if count is None else count
    limit = body.get("max_tokens") or body.get("max_completion_tokens")
    stories = [story(body.get("seed", 0) + index)[:limit] for index in range(count)]
    reason = "length" if limit <= len(story(0)) else "stop"
    with suppress(ConnectionError):
        for tokens in zip(*stories, strict=True):
            for index, token in enumerate(tokens):
                handler.piece(index, token)
            time.sleep(handler.server.pause)
        for index in range(count):
            handler.piece(index, "", reason)
        written = sum(map(len, stories))
        usage = {"prompt_tokens": PROMPT_TOKENS, "completion_tokens": written}
        handler.event({"choices": [], "usage": usage})
        handler.event("[DONE]")


def status(code: int, message: str = f"no, {KEY} is bad", **headers: str) -> Step:
    """Answer with an error."""
    return lambda handler, body: handler.plain(
        {"error": {"message": message}}, status=code, **headers
    )


def refusing(*fields: str, code: int = 400, message: str = "Unknown field {}") -> Step:
    """Answer honestly, but only requests without these fields."""

    def step(handler: Handler, body: dict[str, Any]) -> None:
        bad = [name for name in fields if name in body]
        if bad:
            status(code, message.format(", ".join(bad)))(handler, body)
        else:
            honest(handler, body)

    return step


def one_choice(handler: Handler, body: dict[str, Any]) -> None:
    """Stream, but ignore ``n``."""
    honest(handler, body, count=1)


def unstreamed(handler: Handler, body: dict[str, Any]) -> None:
    """Answer without streaming, whatever the request says."""
    chat = "messages" in body
    choices = [
        {"index": index, "finish_reason": "stop"}
        | ({"message": {"content": text}} if chat else {"text": text})
        for index in range(body.get("n", 1))
        for text in ["".join(story(body["seed"] + index))]
    ]
    handler.plain({"choices": choices[::-1]})


def vanish(handler: Handler, body: dict[str, Any]) -> None:
    """Close the connection without a response."""
    handler.connection.close()


def break_off(handler: Handler, body: dict[str, Any]) -> None:
    """Close the connection in the middle of a stream, as if at its end."""
    handler.begin()
    handler.piece(0, " Never")


def reset(handler: Handler, body: dict[str, Any]) -> None:
    """Reset the connection in the middle of a stream."""
    break_off(handler, body)
    time.sleep(0.05)
    handler.connection.setsockopt(SOL_SOCKET, SO_LINGER, struct.pack("ii", 1, 0))
    handler.connection.close()


def half_a_chunk(handler: Handler, body: dict[str, Any]) -> None:
    """Send less than the headers announce."""
    handler.protocol_version = "HTTP/1.1"
    handler.send_response(200)
    handler.send_header("Content-Type", "text/event-stream")
    handler.send_header("Transfer-Encoding", "chunked")
    handler.end_headers()
    handler.wfile.write(b'40\r\ndata: {"choices": [{"index": 0, "text": " Ne')
    handler.close_connection = True


def stall(handler: Handler, body: dict[str, Any]) -> None:
    """Send nothing until the client disconnects."""
    handler.await_leaving()


def stall_midway(handler: Handler, body: dict[str, Any]) -> None:
    """Send a little of each choice, then nothing until the client disconnects."""
    handler.begin()
    for index in range(body.get("n", 1)):
        handler.piece(index, " Seed")
    handler.await_leaving()


def saying(*events: Any) -> Step:
    """Stream these events and nothing else."""

    def step(handler: Handler, body: dict[str, Any]) -> None:
        handler.begin()
        for data in events:
            handler.event(data)

    return step


@contextmanager
def running() -> Iterator[Server]:
    """A server for the duration of a test."""
    server = Server()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
