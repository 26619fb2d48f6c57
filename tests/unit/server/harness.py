"""The service over fakes, in this process: called directly, or on a socket of this machine."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import socket
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import httpx

from hammingmark.assembly.environment import Environment
from hammingmark.assembly.keys import new_key
from hammingmark.assembly.marking import writer
from hammingmark.errors import EncoderError
from hammingmark.generation.config import GenerationConfig
from hammingmark.keys.key import Secret, WatermarkKey
from hammingmark.keys.keyring import Keyring
from hammingmark.protocols import Backend, Encoder, FloatArray
from hammingmark.records import Candidate, Request
from hammingmark.server.app import create_app
from hammingmark.server.authorization import add_to_file, new_api_key
from hammingmark.server.marking.rotation import utc_now
from hammingmark.server.run import Server
from hammingmark.server.service import Service
from hammingmark.server.settings import ServerConfig
from hammingmark.testing import FakeBackend, FakeEncoder, FakeSession
from hammingmark.testing.fakes import paragraph

T = TypeVar("T")

CHAT = "/v1/chat/completions"
TEXT = "/v1/completions"
DETECT = "/v1/watermark/detect"
QUESTION = [{"role": "user", "content": "What happened at the harbour?"}]
_MADE = datetime(2026, 1, 2, tzinfo=timezone.utc)
TOKENS = 60  # of an answer; under the key below they suffice to show the mark
PATIENCE = 60.0  # seconds that nothing here takes


@cache
def key_of(number: int = 25, **named: Any) -> WatermarkKey:
    """A key that is the same in every run."""
    made = new_key(FakeEncoder(), **named)
    return replace(made, secret=Secret(bytes([number]) * 32), created=_MADE)


def marked(key: WatermarkKey, *, tokens: int = 120, seed: int = 1) -> str:
    """A text that the key marks."""
    config = GenerationConfig(max_tokens=tokens)
    made = writer(key, backend=FakeBackend(), encoder=FakeEncoder(), config=config)
    return made.write("It was late.", seed=seed).text


def plain(seed: int = 1) -> str:
    """A text without a mark."""
    return paragraph(Random(seed))


@dataclass(frozen=True)
class BrokenEncoder(FakeEncoder):
    """Fails as soon as it is down."""

    down: threading.Event = field(default_factory=threading.Event, compare=False, repr=False)

    def encode(self, sentences: Sequence[str]) -> FloatArray:
        if self.down.is_set():
            raise EncoderError("The encoder is down.")
        return super().encode(sentences)


@dataclass(frozen=True)
class HangingEncoder(FakeEncoder):
    """Answers once it is let go."""

    go_on: threading.Event = field(default_factory=threading.Event, compare=False, repr=False)
    calls: list[int] = field(default_factory=list, compare=False, repr=False)

    def encode(self, sentences: Sequence[str]) -> FloatArray:
        self.calls.append(len(sentences))
        self.go_on.wait(PATIENCE)
        return super().encode(sentences)


def broken_encoder() -> BrokenEncoder:
    """One that is down from the beginning."""
    encoder = BrokenEncoder()
    encoder.down.set()
    return encoder


class TurningBackend(FakeBackend):
    """Does something when it is asked to continue a text of two sentences.

    Args:
        turn: what.
        named: what every fake has.
    """

    def __init__(self, turn: Callable[[TurningBackend], object], **named: Any) -> None:
        super().__init__(**named)
        self._turn = turn

    def candidate(self, request: Request) -> Candidate:
        if request.written.count(".") >= 2:
            self._turn(self)
        return super().candidate(request)


class GatedBackend(FakeBackend):
    """Hands over candidates for the first sentences, and others once its gate is open.

    Args:
        after: how many sentences; of other backends' texts none has a full stop within.
        named: what every fake has.
    """

    def __init__(self, after: int = 0, **named: Any) -> None:
        super().__init__(order=lambda requests: sorted(requests, key=self.holds), **named)
        self.after = after
        self.gate = threading.Event()

    def holds(self, request: Request) -> bool:
        """Whether a candidate must wait."""
        return not self.gate.is_set() and request.written.count(".") >= self.after

    def open(self) -> GatedSession:
        self.sessions.append(session := GatedSession(self))
        return session


class GatedSession(FakeSession):
    """Waits for the gate, or until it is woken."""

    def __init__(self, backend: GatedBackend) -> None:
        super().__init__(backend)
        self._gated = backend
        self._woken = threading.Event()

    def wake(self) -> None:
        self._woken.set()

    def wait(self) -> list[Candidate]:
        while self._requests and all(map(self._gated.holds, self._requests.values())):
            if self._woken.wait(0.005):
                self._woken.clear()
                return []
        return super().wait()


@dataclass
class Clock:
    """A clock that stands still until it is set."""

    time: datetime

    def __call__(self) -> datetime:
        return self.time


def until(condition: Callable[[], object]) -> None:
    """Wait for something that must happen."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.002)


class LoopThread:
    """An event loop in a thread of its own, in which services run that are called directly."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE)
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()


@dataclass
class Home:
    """A folder with all that a service reads and writes."""

    folder: Path

    @property
    def keyring(self) -> Keyring:
        return Keyring(self.folder / "keys")

    @property
    def api_keys(self) -> Path:
        return self.folder / "api-keys.jsonl"

    @property
    def audit(self) -> Path:
        return self.folder / "audit.jsonl"

    def let_in(self, name: str, *scopes: str, **named: Any) -> str:
        """A new API key; its token."""
        token, made = new_api_key(name, scopes=scopes or ("generate", "detect"), **named)
        add_to_file(self.api_keys, made)
        return token

    def records(self, event: str) -> list[dict[str, Any]]:
        """Records of the audit log."""
        rows = [json.loads(line) for line in self.audit.read_text().splitlines()]
        return [row for row in rows if row["event"] == event]

    def service(
        self,
        *,
        key: WatermarkKey | None = None,
        backend: Backend | None = None,
        encoder: Encoder | None = None,
        now: Callable[[], datetime] = utc_now,
        **settings: Any,
    ) -> Service:
        """A service with these settings; it marks with this key."""
        if not (self.keyring.folder / "default.json").exists():
            self.keyring.add(key or key_of(), name="default")
        if "upstream" not in settings:
            backend = backend or FakeBackend()
        # A slow machine must not refuse what a test asks for.
        limits = {"first_sentence_wait": 0.0, **settings.get("limits", {})}
        return Service(
            ServerConfig.model_validate(settings | {"limits": limits}),
            environment=Environment(self.folder / "cache", self.keyring.folder, offline=True),
            backend=backend,
            encoder=encoder or FakeEncoder(),
            now=now,
        )


@dataclass
class Served:
    """A service that is called directly."""

    service: Service
    loop: LoopThread
    token: str | None = None
    address: str = "127.0.0.1"

    def __post_init__(self) -> None:
        self.app = create_app(self.service)

    def ask(self, method: str, path: str, **named: Any) -> httpx.Response:
        """One request."""
        return self.loop.run(self._ask(method, path, **named))

    def get(self, path: str, **named: Any) -> httpx.Response:
        return self.ask("GET", path, **named)

    def post(self, path: str, body: Any = None, **named: Any) -> httpx.Response:
        return self.ask("POST", path, json=body, **named)

    def chat(self, **named: Any) -> httpx.Response:
        """Ask for a chat's answer; short unless it says otherwise, and the same every time."""
        return self.post(CHAT, {"messages": QUESTION, "max_tokens": TOKENS, "seed": 3} | named)

    def complete(self, **named: Any) -> httpx.Response:
        """The same for a text."""
        return self.post(TEXT, {"prompt": "It was late.", "max_tokens": TOKENS, "seed": 3} | named)

    def detect(self, text: str, **named: Any) -> dict[str, Any]:
        """The verdict on a text."""
        answer = self.post(DETECT, {"text": text} | named)
        assert answer.status_code == 200, answer.text
        (result,) = answer.json()["results"]
        return result

    async def _ask(
        self, method: str, path: str, *, headers: Mapping[str, str] | None = None, **named: Any
    ) -> httpx.Response:
        transport = httpx.ASGITransport(self.app, client=(self.address, 1))
        shown = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return await client.request(method, path, headers={**shown, **(headers or {})}, **named)

    def close(self) -> None:
        self.loop.run(self._close())

    async def _close(self) -> None:
        await self.service.drain()
        await self.service.close()


class Live:
    """A service on a socket of this machine."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.root = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self._server = Server(service)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        self.client = httpx.Client(
            base_url=self.root, timeout=PATIENCE, trust_env=False, verify=False
        )
        until(lambda: self._server.started)

    def tell_to_stop(self, by: int = signal.SIGTERM) -> None:
        """What a signal does."""
        self._server.handle_exit(by, None)

    def wait_for_end(self) -> None:
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()

    def close(self) -> None:
        self.client.close()
        self._server.should_exit = True
        self.wait_for_end()
        self._socket.close()

    @contextmanager
    def stream(self, path: str = CHAT, **body: Any) -> Iterator[Iterator[Any]]:
        """The events of a stream; leaving closes the connection."""
        asked = {"stream": True, "max_tokens": TOKENS, "seed": 3} | body
        asked.setdefault(*(("messages", QUESTION) if path == CHAT else ("prompt", "It was late.")))
        with self.client.stream("POST", path, json=asked) as answer:
            assert answer.status_code == 200, answer.read()
            yield (event_of(line) for line in answer.iter_lines() if line)

    @contextmanager
    def asking(self, path: str = CHAT, **body: Any) -> Iterator[socket.socket]:
        """The connection of a client who has asked; leaving closes it."""
        content = json.dumps(
            {"messages": QUESTION, "max_tokens": TOKENS, "seed": 3} | body
        ).encode()
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        with socket.create_connection(self._socket.getsockname(), timeout=PATIENCE) as made:
            made.sendall(f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content)
            yield made

    def _run(self) -> None:
        asyncio.run(self._server.serve([self._socket]))


def event_of(line: str) -> Any:
    """The data of a server-sent event: an object, or ``[DONE]``."""
    data = line.removeprefix("data: ")
    assert data != line, line
    return data if data == "[DONE]" else json.loads(data)


def events_of(answer: httpx.Response) -> list[Any]:
    """All events of a stream that is over."""
    assert answer.headers["content-type"].startswith("text/event-stream"), answer.text
    assert answer.text.endswith("\n\n")
    return [event_of(each) for each in answer.text.split("\n\n")[:-1]]


def text_of(answer: httpx.Response, index: int = 0) -> str:
    """The text of a whole answer, or of a stream that is over."""
    assert answer.status_code == 200, answer.text
    if answer.headers["content-type"] == "application/json":
        choice = answer.json()["choices"][index]
        return str(choice["message"]["content"] if "message" in choice else choice["text"])
    return streamed(events_of(answer), index)


def streamed(events: Sequence[Any], index: int = 0) -> str:
    """What the events of a stream add up to."""
    choices = [each for event in events if event != "[DONE]" for each in event.get("choices", ())]
    return "".join(
        each["delta"].get("content", "") if "delta" in each else each["text"]
        for each in choices
        if each["index"] == index
    )


def mark_of(answer: httpx.Response) -> dict[str, Any]:
    """What an answer says of its watermark."""
    assert answer.status_code == 200, answer.text
    if answer.headers["content-type"] == "application/json":
        told: dict[str, Any] = answer.json()["watermark"]
        return told
    (last,) = [each for each in events_of(answer) if "watermark" in each and each != "[DONE]"]
    mark: dict[str, Any] = last["watermark"]
    return mark


def error_of(answer: httpx.Response) -> dict[str, Any]:
    """What an answer says of what went wrong."""
    error: dict[str, Any] = answer.json()["error"]
    assert error.keys() == {"message", "type", "param", "code"}
    assert error["message"].endswith((".", "…")), error
    return error


def counts(served: Served, name: str) -> dict[str, float]:
    """The values of a metric, by its labels."""
    text = served.service.metrics.render()[0].decode()
    rows = re.findall(rf"^hammingmark_{name}(?:\{{(.*)\}})? (\S+)$", text, re.M)
    return {labels: float(value) for labels, value in rows}
