"""What a client gets where the model fails: the kind of the failure decides, nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import get_args

import pytest
from tests.unit.backends.openai_server import Server, status
from tests.unit.server.harness import (
    Served,
    error_of,
    events_of,
    mark_of,
    streamed,
    text_of,
)
from tests.unit.server.test_api_error import ANSWERS
from tests.unit.server.test_completion_stream import failed
from tests.unit.test_failures import ABOUT_TEXT, FailingBackend, failure_of

from hammingmark.errors import FailureKind

Serve = Callable[..., Served]
KINDS = get_args(FailureKind)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_a_model_that_fails_at_once(serve: Serve, kind: FailureKind, stream: bool) -> None:
    answer = serve(backend=FailingBackend(failure=failure_of(kind))).chat(stream=stream)
    error = error_of(answer)
    found = (answer.status_code, error["type"], error["code"], error["param"])
    assert found == ANSWERS[kind]
    assert answer.headers.get("retry-after") == ("2" if kind == "rate_limited" else None)
    assert "Go on." not in error["message"]  # that is for whoever runs the model


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_that_fails_in_the_middle(serve: Serve, kind: FailureKind) -> None:
    """What was written stands where the text is the reason, and is cut short otherwise."""
    backend = FailingBackend(failure=failure_of(kind), after=2)
    whole = serve(backend=backend).chat()
    stream = serve(backend=backend).chat(stream=True)
    if kind in ABOUT_TEXT:
        finish = "content_filter" if kind == "content_filter" else "length"
        assert whole.status_code == 200
        assert whole.json()["choices"][0]["finish_reason"] == finish
        assert text_of(whole).count(".") == 2
        assert "It failed." in mark_of(whole)["reason"]
        assert text_of(stream) == text_of(whole)
        return
    assert whole.status_code == ANSWERS[kind][0]
    assert streamed(events_of(stream)).count(".") == 2
    error = failed(stream)
    assert (error["type"], error["code"], error["param"]) == ANSWERS[kind][1:]


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (400, "invalid_request"),
        (401, "unauthorized"),
        (402, "unavailable"),
        (403, "unauthorized"),
        (404, "not_found"),
        (408, "timeout"),
        (409, "unavailable"),
        (413, "invalid_request"),
        (422, "invalid_request"),
        (429, "rate_limited"),
        (500, "unavailable"),
        (503, "unavailable"),
        (504, "timeout"),
    ],
)
def test_a_status_of_the_upstream_becomes_an_answer(
    serve: Serve, model_server: Server, code: int, kind: FailureKind
) -> None:
    model_server.always = status(code, "so it is.", Retry_After="7")
    served = serve(upstream={"url": model_server.url, "model": "tiny", "retries": 0})
    answer = served.chat()
    error = error_of(answer)
    found = (answer.status_code, error["type"], error["code"], error["param"])
    assert found == ANSWERS[kind]
    assert answer.headers.get("retry-after") == ("7" if code == 429 else None)
    assert model_server.url not in answer.text
