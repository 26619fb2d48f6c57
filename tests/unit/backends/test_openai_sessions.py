"""Sessions of the HTTP backend: what ends a request, and many requests at once."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from subprocess import PIPE
from typing import Any

import pytest
from tests.unit.backends.openai_client import PROMPT, Maker, ask
from tests.unit.backends.openai_server import (
    Handler,
    Server,
    Step,
    honest,
    stall,
    stall_midway,
    status,
    story,
)

from hammingmark.backends.inflight import Draw
from hammingmark.backends.openai import OpenAIBackend
from hammingmark.errors import BackendError
from hammingmark.protocols import Session
from hammingmark.records import Candidate
from hammingmark.testing import draw


def all_of(session: Session, count: int) -> list[Candidate]:
    """The next ``count`` candidates; one wait may return several."""
    candidates: list[Candidate] = []
    while len(candidates) < count:
        candidates += session.wait()
    return candidates


def test_enough_ends_the_request(server: Server, make: Maker) -> None:
    server.always = stall_midway
    candidates = draw(make(), ask(1, stop_condition=lambda text: text == " Seed"))
    assert candidates == {1: Candidate(1, (" Seed",), finished=False)}
    assert server.left.wait(20)


def test_a_candidate_comes_as_soon_as_it_is_enough(server: Server, make: Maker) -> None:
    """Whatever its request's other candidates still need; the request ends with the last."""
    server.always = stall_midway
    session = make().open()
    session.submit(ask(1))
    session.submit(ask(2, stop_condition=lambda text: True))
    assert [each.number for each in session.wait()] == [2]
    assert not server.left.wait(0.1)
    session.cancel(1)
    assert server.left.wait(20)
    assert session.wait() == [Candidate(1, (" Seed",), finished=False)]
    session.close()


def test_cancelling_one_leaves_the_others_of_its_request(server: Server, make: Maker) -> None:
    goes_on = threading.Event()

    def pauses(handler: Handler, body: dict[str, Any]) -> None:
        handler.begin()
        stories = [story(body["seed"] + index) for index in range(body["n"])]
        for place, tokens in enumerate(zip(*stories, strict=True)):
            if place:
                goes_on.wait(60)
            for index, token in enumerate(tokens):
                handler.piece(index, token)
        for index in range(body["n"]):
            handler.piece(index, "", "stop")

    server.always = pauses
    session = make().open()
    for request in (ask(1), ask(2, stop_condition=lambda text: True), ask(3)):
        session.submit(request)
    assert [each.number for each in session.wait()] == [2]
    session.cancel(1)
    (given_up,) = session.wait()
    assert given_up.number == 1
    assert len(given_up.pieces) < 5
    goes_on.set()
    (last,) = session.wait()
    assert last == Candidate(3, tuple(story(12)), finished=True)
    assert len(server.seen) == 1
    session.close()


@pytest.mark.parametrize("step", [stall, stall_midway])
def test_cancelling_closes_the_connection(server: Server, make: Maker, step: Step) -> None:
    server.always = step
    session = make().open()
    session.submit(ask(1))
    session.submit(ask(2, stop_condition=lambda text: True))
    if step is stall_midway:
        assert [each.number for each in session.wait()] == [2]
    else:
        session.cancel(2)
        assert [each.number for each in session.wait()] == [2]
        while not server.seen:
            time.sleep(0.005)
    assert not server.left.is_set()
    session.cancel(1)
    assert [each.number for each in session.wait()] == [1]
    assert server.left.wait(20)
    session.close()


@pytest.mark.parametrize("step", [stall, stall_midway, status(429, Retry_After="30")])
def test_closing_ends_everything(server: Server, make: Maker, step: Step) -> None:
    server.always = step
    session = make(parallel=2, use_n=False).open()
    for number in range(1, 5):
        session.submit(ask(number))
    session.submit(ask(5, stop_condition=lambda text: True))
    session.cancel(5)
    assert [each.number for each in session.wait()] == [5]
    while len(server.seen) < 2:
        time.sleep(0.005)
    began = time.monotonic()
    session.close()
    assert time.monotonic() - began < 20  # not the 30 seconds that the server asked for
    assert len(server.seen) == 2


@pytest.mark.parametrize("use_n", [False, True])
def test_no_more_at_once_than_allowed(
    server: Server, make: Maker, use_n: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In two sessions together, counting every candidate of a request.

    Counted where they are asked for: a server notices later that an answer is no longer read.
    """
    under_way: list[int] = []
    most: list[int] = []
    draw_group = OpenAIBackend.draw

    async def counted(self: OpenAIBackend, draws: Sequence[Draw], **options: Any) -> None:
        under_way.append(len(draws))
        most.append(sum(under_way))
        try:
            await draw_group(self, draws, **options)
        finally:
            under_way.remove(len(draws))

    monkeypatch.setattr(OpenAIBackend, "draw", counted)
    server.pause = 0.02
    backend = make(parallel=3, use_n=use_n)
    requests = [ask(number, written="x" * (number // 2)) for number in range(1, 9)]
    threads = [threading.Thread(target=draw, args=(backend, *requests)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(body.get("n", 1) for body in server.bodies) == 16
    assert max(most) in {2, 3}


def test_sessions_take_turns(server: Server, make: Maker) -> None:
    """A session with few candidates does not wait for all of one with many."""
    gate = threading.Event()

    def gated(handler: Any, body: dict[str, Any]) -> None:
        gate.wait(60)
        honest(handler, body)

    server.always = gated
    backend = make(parallel=2, use_n=False)

    def begin(count: int, written: str) -> Session:
        """Submit candidates, and another that is returned when they have been sent."""
        session = backend.open()
        for number in range(count + 1):
            session.submit(ask(number, written=written))
        session.cancel(count)
        assert [each.number for each in session.wait()] == [count]
        return session

    many = begin(40, "many")
    while len(server.seen) < 2:
        time.sleep(0.005)
    few = begin(6, "few")
    gate.set()
    for session, count in ((few, 6), (many, 40)):
        assert {each.number for each in all_of(session, count)} == set(range(count))
        session.close()
    order = [body["prompt"].removeprefix(PROMPT.text) for body in server.bodies]
    assert order.count("many") == 40
    last = max(place for place, written in enumerate(order) if written == "few")
    assert order[:last].count("many") < 20
    assert order[2:last].count("many") > 2  # nor does the other one wait for it


def test_many_requests_are_one_thread(server: Server, make: Maker) -> None:
    def threads() -> int:
        serving = [each for each in threading.enumerate() if "process_request" in each.name]
        return threading.active_count() - len(serving)

    server.always = stall
    before = threads()
    backend = make(parallel=64, use_n=False)
    for count in (1, 64):
        server.seen.clear()
        session = backend.open()
        for number in range(count):
            session.submit(ask(number + 1))
        session.submit(ask(0))
        session.cancel(0)
        session.wait()
        while len(server.seen) < count:
            time.sleep(0.005)
        assert threads() == before + 1
        session.close()
    backend.close()
    assert threads() == before


def test_closing_the_backend_ends_its_sessions(server: Server, make: Maker) -> None:
    server.always = stall_midway
    backend = make()
    session = backend.open()
    session.submit(ask(1))

    def close() -> None:
        while not server.seen:
            time.sleep(0.005)
        backend.close()

    closing = threading.Thread(target=close)
    closing.start()
    with pytest.raises(BackendError) as caught:
        session.wait()
    assert caught.value.kind == "closed"
    closing.join()
    assert server.left.wait(20)
    session.cancel(1)
    session.submit(ask(2))
    with pytest.raises(BackendError) as caught:
        session.wait()
    assert caught.value.kind == "closed"
    session.close()
    server.always = honest
    assert draw(backend, ask(1))[1].finished


_SCRIPT = """
import sys
from hammingmark.backends.openai import OpenAIBackend
from hammingmark.records import Prompt, Request

session = OpenAIBackend(sys.argv[1], "tiny").open()
for number in (1, 2):
    session.submit(Request(number, Prompt("It rained."), "", number, 50, lambda text: False))
session.cancel(2)
session.wait()
if sys.argv[2] == "interrupt":
    try:
        session.wait()
    finally:
        session.close()
while sys.stdin.read(1):
    pass
"""


@pytest.mark.parametrize("way", ["exit", "interrupt"])
def test_a_process_ends_with_requests_under_way(server: Server, way: str) -> None:
    server.always = stall_midway
    command = [sys.executable, "-W", "error", "-c", _SCRIPT, server.url, way]
    with subprocess.Popen(command, stdin=PIPE, stderr=PIPE, text=True) as process:
        while not server.seen:
            assert process.poll() is None
            time.sleep(0.005)
        if way == "interrupt":
            process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=60)
    if way == "interrupt":
        assert process.returncode == -signal.SIGINT
        assert stderr.splitlines()[-1] == "KeyboardInterrupt"
        assert stderr.count("Traceback") == 1
    else:
        assert (process.returncode, stderr) == (0, "")


def test_a_failure_comes_after_what_was_finished(server: Server, make: Maker) -> None:
    session = make(parallel=1).open()
    server.script = [honest, status(401)]
    session.submit(ask(1))
    session.submit(ask(2, written=" Other."))
    first, failed = all_of(session, 2)
    assert (first.number, failed.number) == (1, 2)
    assert not failed.pieces
    assert failed.failure is not None
    assert (failed.failure.kind, failed.failure.status) == ("unauthorized", 401)
    session.close()


def test_a_request_that_fails_is_nobody_elses_trouble(server: Server, make: Maker) -> None:
    session = make(parallel=2).open()
    server.script = [status(401), honest]
    session.submit(ask(1))
    session.submit(ask(2, written=" Other."))
    assert sorted(bool(each.failure) for each in all_of(session, 2)) == [False, True]
    session.submit(ask(3))
    assert session.wait()[0].finished
    session.close()


def test_a_request_that_cannot_be_sent_is_nobody_elses_trouble(server: Server, make: Maker) -> None:
    session = make(parallel=2).open()
    session.submit(ask(1, written="\ud83d"))
    session.submit(ask(2, written=" Other."))
    candidates = {each.number: each for each in all_of(session, 2)}
    assert candidates[1].failure is not None
    assert candidates[1].failure.kind == "internal"
    assert "UnicodeEncodeError" in candidates[1].failure.summary
    assert candidates[2].finished
    session.submit(ask(3))
    assert session.wait()[0].finished
    session.close()


def test_a_session_that_waits_is_woken(server: Server, make: Maker) -> None:
    server.always = stall_midway
    session = make().open()
    session.submit(ask(1))
    threading.Timer(0.05, session.wake).start()
    assert session.wait() == []
    session.close()
