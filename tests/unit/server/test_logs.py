"""Structured logs, ours and uvicorn's."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import re
import threading
import warnings
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import uvicorn
from pydantic import SecretStr

from hammingmark.errors import BackendError, InputError
from hammingmark.server.logs import log_event, request_id, setup

NAMES = ["", "hammingmark", "uvicorn", "uvicorn.error", "uvicorn.access", "uvicorn.asgi"]
LOGGER = logging.getLogger("hammingmark.server.test")
SECRET = "words that were only said to the service"


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    loggers = [logging.getLogger(name) for name in NAMES]
    before = [(each.level, list(each.handlers), each.propagate) for each in loggers]
    yield
    logging.captureWarnings(False)
    for logger, (level, handlers, propagate) in zip(loggers, before, strict=True):
        logger.setLevel(level)
        logger.handlers[:] = handlers
        logger.propagate = propagate


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def json_logs(level: str = "info") -> io.StringIO:
    stream = io.StringIO()
    setup(level, format="json", stream=stream)
    return stream


def text_logs() -> io.StringIO:
    stream = io.StringIO()
    setup("info", format="text", stream=stream)
    return stream


def test_an_event_is_a_json_object_on_a_line() -> None:
    stream = json_logs()
    log_event(LOGGER, "answer sent", status="marked", seconds=2.5, label=None, path="a\nb\u2028")
    assert stream.getvalue().count("\n") == 1
    (row,) = lines(stream)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", row.pop("time"))
    assert row == {
        "level": "info", "event": "answer sent", "request_id": None, "logger": LOGGER.name,
        "status": "marked", "seconds": 2.5, "label": None, "path": "a\nb\u2028",
    }  # fmt: skip


def test_a_line_for_people() -> None:
    stream = text_logs()
    token = request_id.set("r-1")
    try:
        log_event(
            LOGGER, "answer sent", level=logging.WARNING, seconds=2.5, why="two words", no=None
        )
    finally:
        request_id.reset(token)
    (line,) = stream.getvalue().splitlines()
    assert re.sub(r"^\S+ \d\d:\d\d:\d\d ", "TIME ", line) == (
        'TIME warning answer sent seconds=2.5 why="two words" request_id=r-1'
    )


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_shows_lines_for_people_unless_told_otherwise() -> None:
    for stream, format, is_json in (
        (_Terminal(), "auto", False),
        (io.StringIO(), "auto", True),
        (_Terminal(), "json", True),
        (io.StringIO(), "text", False),
    ):
        setup("info", format=format, stream=stream)
        log_event(LOGGER, "ready")
        assert stream.getvalue().startswith("{") is is_json


def test_nothing_that_is_logged_begins_a_line_or_moves_a_cursor() -> None:
    stream = text_logs()
    log_event(LOGGER, "one\ntwo", value="three\nTIME info four", other="\x1b[2J")
    LOGGER.info("five %s", "\r\x1b[31m")
    assert len(stream.getvalue().splitlines()) == 2
    assert stream.getvalue().replace("\n", "").isprintable()


def test_each_task_logs_under_its_own_request() -> None:
    stream = json_logs()

    async def answer(name: str) -> None:
        request_id.set(name)
        await asyncio.sleep(0)
        log_event(LOGGER, "answer sent", name=name)

    async def main() -> None:
        await asyncio.gather(*(answer(f"r-{number}") for number in range(5)))

    asyncio.run(main())
    assert len(lines(stream)) == 5
    assert all(row["request_id"] == row["name"] for row in lines(stream))
    assert request_id.get() is None


def test_fields_cannot_pose_as_the_event() -> None:
    stream = json_logs()
    log_event(LOGGER, "answer sent", **{"time": "never", "request_id": "forged", "ok": 1})
    (row,) = lines(stream)
    assert (row["event"], row["request_id"], row["ok"]) == ("answer sent", None, 1)
    assert row["time"] != "never"


def test_what_is_no_plain_data_is_shown_in_words_and_a_secret_is_not() -> None:
    for logs in (json_logs, text_logs):
        stream = logs()
        log_event(LOGGER, "started", key=SecretStr(SECRET), kinds={1: SecretStr(SECRET)})
        assert "started" in stream.getvalue()
        assert SECRET not in stream.getvalue()


def test_the_level_is_kept_and_other_libraries_only_warn() -> None:
    stream = json_logs("warning")
    other = logging.getLogger("some.library")
    LOGGER.info("no")
    LOGGER.warning("yes")
    other.info("no")
    other.warning("yes")
    assert [row["event"] for row in lines(stream)] == ["yes", "yes"]
    stream = json_logs("debug")
    LOGGER.debug("yes")
    other.info("no")
    logging.getLogger("uvicorn.error").debug("no")
    assert [row["event"] for row in lines(stream)] == ["yes"]


def test_setting_up_again_logs_once() -> None:
    first = json_logs()
    second = json_logs()
    LOGGER.info("hello")
    assert first.getvalue() == ""
    assert len(lines(second)) == 1


def test_standard_error_is_the_default(capsys: pytest.CaptureFixture[str]) -> None:
    setup("info", format="json")
    LOGGER.info("hello")
    said = capsys.readouterr()
    assert said.out == ""
    assert json.loads(said.err)["event"] == "hello"


def test_warnings_are_logged() -> None:
    stream = json_logs()
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        setup("info", format="json", stream=stream)
        warnings.warn("mind the gap", stacklevel=1)
        logging.captureWarnings(False)
    (row,) = lines(stream)
    assert row["level"] == "warning"
    assert "mind the gap" in row["event"]


def fail(error: Exception, *, behind: Exception | None = None) -> None:
    try:
        if behind is not None:
            raise error from behind
        raise error
    except Exception:
        LOGGER.exception("failed")


def test_an_exception_is_placed_and_only_our_own_words_are_quoted() -> None:
    stream = json_logs()
    fail(InputError("Give one of them."))
    fail(OSError(28, "No space left on device", f"/{SECRET}"))
    fail(ValueError(SECRET), behind=KeyError(SECRET))
    ours, system, foreign = lines(stream)
    assert (ours["error"], ours["message"]) == ("InputError", "Give one of them.")
    assert (system["error"], system["message"]) == ("OSError", "No space left on device")
    assert (foreign["error"], foreign["cause"]) == ("ValueError", "KeyError")
    assert "message" not in foreign
    for row in (ours, system, foreign):
        assert re.search(r"test_logs\.py:\d+ fail$", row["traceback"][-1])
    assert SECRET not in stream.getvalue()


def test_what_a_models_server_said_is_not_quoted() -> None:
    stream = json_logs()
    fail(BackendError("The server refused the prompt.", detail=SECRET))
    (row,) = lines(stream)
    assert row["message"] == "The server refused the prompt."
    assert SECRET not in stream.getvalue()


def test_the_place_of_an_exception_is_shown_to_people() -> None:
    stream = text_logs()
    fail(ValueError(SECRET))
    first, *others = stream.getvalue().splitlines()
    assert "failed" in first
    assert "error=ValueError" in first
    assert re.fullmatch(r"    \S+test_logs\.py:\d+ fail", others[-1])
    assert SECRET not in stream.getvalue()


async def application(scope: Any, receive: Any, send: Any) -> None:
    """An application that fails with what it was sent in its words."""
    assert scope["type"] == "http"
    if scope["path"] == "/fails":
        raise ValueError((await receive())["body"].decode())
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body", "body": b""})


def test_uvicorn_logs_alike_without_queries_and_bodies() -> None:
    stream = json_logs()
    server = uvicorn.Server(
        uvicorn.Config(application, port=0, log_config=None, lifespan="off", ws="none")
    )
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive()
            thread.join(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False) as client:
            assert client.get("/fine", params={"token": SECRET}).status_code == 204
            assert client.post("/fails", content=SECRET).status_code == 500
    finally:
        server.should_exit = True
        thread.join()
    rows = lines(stream)
    fine, failed = (row for row in rows if row["event"] == "request")
    assert (fine["method"], fine["path"], fine["status"]) == ("GET", "/fine", 204)
    assert (failed["method"], failed["path"], failed["status"]) == ("POST", "/fails", 500)
    assert fine["client"].startswith("127.0.0.1:")
    (error,) = (row for row in rows if row["level"] == "error")
    assert (error["event"], error["error"]) == ("Exception in ASGI application", "ValueError")
    assert any(line.endswith(" application") for line in error["traceback"])
    assert any("Uvicorn running" in row["event"] for row in rows)
    content = stream.getvalue()
    assert SECRET not in content
    assert "token=" not in content
