"""An upstream of whose requests some fail: others take their place, and the answer goes on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.unit.backends.openai_server import (
    Handler,
    Server,
    Step,
    break_off,
    half_a_chunk,
    reset,
    saying,
    status,
    vanish,
)
from tests.unit.server.harness import Served, error_of, events_of, mark_of, text_of
from tests.unit.server.test_completion_stream import failed
from tests.unit.server.test_upstream import answers

from hammingmark.generation.candidates import MAX_FAILURES

Serve = Callable[..., Served]
FAULTS = [status(500), status(503), reset, vanish, break_off, half_a_chunk, saying("{nonsense")]


@pytest.fixture
def before(serve: Serve, model_server: Server) -> Callable[..., Served]:
    """Makes a service in front of a server of models."""

    def make(**settings: Any) -> Served:
        upstream = {"url": model_server.url, "model": "tiny", "retries": 0}
        return serve(upstream=upstream, parallel=1, **settings)

    return make


def failing(fault: Step) -> Step:
    """A server that fails at every second request for a candidate."""
    count = 0

    def step(handler: Handler, body: dict[str, Any]) -> None:
        nonlocal count
        count += body.get("n", 1) == 1
        (fault if count % 2 and body.get("n", 1) == 1 else answers)(handler, body)

    return step


@pytest.mark.parametrize("fault", FAULTS)
def test_an_answer_goes_on_where_candidates_fail(
    before: Serve, model_server: Server, fault: Step
) -> None:
    model_server.always = failing(fault)
    served = before()
    answer = served.chat()
    mark = mark_of(answer)
    assert mark["status"] == "marked"
    assert mark["candidates"] >= 3
    assert served.detect(text_of(answer))["p_value"] == mark["p_value"]
    assert text_of(served.chat(stream=True))


@pytest.mark.parametrize("where", ["chat", "complete"])
def test_an_upstream_that_is_gone_ends_the_answer(
    before: Serve, model_server: Server, where: str
) -> None:
    model_server.always = status(500)
    answer = getattr(before(), where)()
    assert answer.status_code == 502
    assert error_of(answer)["type"] == "upstream_error"
    places = 8  # draws that may be in progress, or are asked for in one request
    assert len(model_server.bodies) <= places * MAX_FAILURES


def test_one_that_goes_in_the_middle_ends_the_stream(before: Serve, model_server: Server) -> None:
    def step(handler: Handler, body: dict[str, Any]) -> None:
        is_over = body["messages"][-1]["content"].count(".") >= 3
        (vanish if is_over else answers)(handler, body)

    model_server.always = step
    stream = before().chat(stream=True, max_tokens=200)
    assert failed(stream)["type"] == "upstream_error"
    assert events_of(stream)


@pytest.mark.parametrize("code", [400, 401, 404, 429, 504])
def test_a_request_that_is_refused_is_not_drawn_again(
    before: Serve, model_server: Server, code: int
) -> None:
    """Every other candidate would be refused as well, or would wait as long."""
    model_server.always = status(code, "no")
    served = before()
    assert served.chat().status_code in (code, 502, 504)
    plain = [body for body in model_server.bodies if body not in model_server.questions]
    assert len({body["seed"] for body in plain}) == 1
    assert len(plain) <= 2  # with and without the fields that the server might refuse
