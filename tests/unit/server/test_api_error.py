"""What clients are told of what goes wrong, and what is for the log alone."""

from __future__ import annotations

import logging
from typing import get_args

import pytest

from hammingmark.backends.local import prompt_too_long
from hammingmark.errors import (
    AuditError,
    BackendError,
    EncoderError,
    Failure,
    FailureKind,
    HammingMarkError,
    InputError,
    KeyFileError,
    ModelError,
)
from hammingmark.server.api_error import APIError

URL = "http://10.0.0.5:8000/v1/chat/completions"


@pytest.mark.parametrize(
    ("seconds", "told"), [(0.0, "1"), (0.2, "1"), (1.0, "1"), (1.4, "2"), (59.01, "60")]
)
def test_nobody_is_told_to_come_back_too_early(seconds: float, told: str) -> None:
    answer = APIError(429, "Wait.", retry_after=seconds).response()
    assert answer.headers["retry-after"] == told


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (AuditError("Cannot write /srv/audit.jsonl."), 503),
        (EncoderError("The encoder's server answered 500.", advice=f"It was asked at {URL}."), 503),
        (KeyFileError("/srv/keys/default.json is readable by others."), 503),
        (ModelError("/srv/cache is full."), 503),
        (BackendError("The connection failed.", advice=f"It was asked at {URL}."), 502),
        (HammingMarkError("/srv is gone."), 500),
    ],
)
def test_files_and_addresses_are_for_the_log(
    error: HammingMarkError, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR, "hammingmark.server"):
        problem = APIError.from_error(error)
    assert problem.status == status
    assert "/srv" not in problem.message
    assert "10.0.0.5" not in problem.message
    assert problem.message.endswith(".")
    (line,) = caplog.records
    assert "/srv" in str(line.__dict__["fields"]) or "10.0.0.5" in str(line.__dict__["fields"])


@pytest.mark.parametrize("error_class", [ModelError, EncoderError])
def test_logins_and_signatures_of_urls_are_not_logged(
    error_class: type[HammingMarkError], caplog: pytest.LogCaptureFixture
) -> None:
    message = "403 for https://me:sesame@hub.example/a/model?X-Signature=abcdef (and so on)."
    with caplog.at_level(logging.ERROR, "hammingmark.server"):
        APIError.from_error(error_class(message))
    logged = str(caplog.records[0].__dict__["fields"])
    assert "https://hub.example/a/model" in logged
    assert "sesame" not in logged
    assert "abcdef" not in logged


def test_what_a_client_can_mend_is_told_as_it_is() -> None:
    problem = APIError.from_error(InputError("The prompt is empty."))
    assert (problem.status, problem.message) == (400, "The prompt is empty.")


ANSWERS: dict[FailureKind, tuple[int, str, str | None, str | None]] = {
    "unavailable": (502, "upstream_error", None, None),
    "timeout": (502, "upstream_error", None, None),
    "closed": (502, "upstream_error", None, None),
    "internal": (502, "upstream_error", None, None),
    "unauthorized": (502, "upstream_error", None, None),
    "rate_limited": (429, "rate_limit_error", None, None),
    "not_found": (404, "invalid_request_error", "model_not_found", "model"),
    "invalid_request": (400, "invalid_request_error", None, None),
    "prompt_refused": (400, "invalid_request_error", None, None),
    "cannot_continue": (503, "watermark_error", "upstream_restarts", None),
    "content_filter": (400, "invalid_request_error", None, None),
    "no_candidate": (400, "invalid_request_error", None, None),
    "context_overflow": (400, "invalid_request_error", "context_length_exceeded", None),
}
"""Status, type, code and param of the answer to a client, by the kind of a model's failure."""


@pytest.mark.parametrize("kind", get_args(FailureKind))
def test_the_kind_of_a_failure_decides_the_answer(
    kind: FailureKind, caplog: pytest.LogCaptureFixture
) -> None:
    failure = Failure(
        kind,
        "It failed.",
        status=418,
        retry_after=7.5,
        detail=f"{URL} says that sk-1 is odd",
        advice=f"It was asked at {URL}.",
    )
    with caplog.at_level(logging.INFO, "hammingmark.server"):
        problem = APIError.from_error(failure.error())
    answer = (problem.status, problem.kind, problem.code, problem.param)
    assert answer == ANSWERS[kind]
    assert problem.retry_after == (7.5 if kind == "rate_limited" else None)
    assert "10.0.0.5" not in problem.message
    # Only the model in this process says to clients why it refuses a prompt.
    assert ("sk-1" in problem.message) is (kind == "prompt_refused")
    # What is in a request is not logged.
    (line,) = list(caplog.records) if kind != "prompt_refused" else [None]
    if line is not None:
        assert (line.levelno >= logging.ERROR) is not failure.is_about_text
        fields = str(line.__dict__["fields"])
        assert "10.0.0.5" in fields
        assert ("odd" in fields) is (kind != "internal")


@pytest.mark.parametrize("kind", get_args(FailureKind))
def test_an_encoder_that_fails_is_a_failure_of_the_mark(kind: FailureKind) -> None:
    """Whatever its server says, and whatever a client asked for."""
    problem = APIError.from_error(
        Failure(kind, "It failed.", "encoder", status=404, detail="no").error()
    )
    assert (problem.status, problem.kind, problem.code) == (503, "watermark_error", None)
    assert "It failed" not in problem.message


def test_without_a_time_to_wait_none_is_told() -> None:
    problem = APIError.from_error(BackendError("It failed.", kind="rate_limited", status=429))
    assert (problem.status, problem.retry_after) == (429, None)
    assert "retry-after" not in problem.response().headers


def test_a_client_is_not_told_of_options() -> None:
    """Of whoever runs the model they are."""
    failure = prompt_too_long(9000, context=512, trained=8192)
    problem = APIError.from_failure(failure)
    assert problem.code == "context_length_exceeded"
    assert problem.message == failure.summary
    assert "--context" in failure.message
    assert "--context" not in problem.message
