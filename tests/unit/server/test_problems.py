"""What clients are told of what goes wrong, and what is for the log alone."""

from __future__ import annotations

import logging

import pytest

from hammingmark.backends.local import say_too_long
from hammingmark.errors import (
    AuditError,
    BackendError,
    EncoderError,
    HammingMarkError,
    InputError,
    KeyFileError,
    ModelError,
)
from hammingmark.server.problems import Problem, without_addresses

URL = "http://10.0.0.5:8000/v1/chat/completions"


@pytest.mark.parametrize(
    ("seconds", "told"), [(0.0, "1"), (0.2, "1"), (1.0, "1"), (1.4, "2"), (59.01, "60")]
)
def test_nobody_is_told_to_come_back_too_early(seconds: float, told: str) -> None:
    answer = Problem(429, "Wait.", retry_after=seconds).response()
    assert answer.headers["retry-after"] == told


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (AuditError("Cannot write /srv/audit.jsonl."), 503),
        (EncoderError(f"{URL} answered 500: no."), 503),
        (KeyFileError("/srv/keys/default.json is readable by others."), 503),
        (ModelError("/srv/cache is full."), 503),
        (BackendError(f"The connection to {URL} failed (ConnectError). Check it."), 502),
        (HammingMarkError("/srv is gone."), 500),
    ],
)
def test_files_and_addresses_are_for_the_log(
    error: HammingMarkError, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR, "hammingmark.server"):
        problem = Problem.of(error)
    assert problem.status == status
    assert "/srv" not in problem.message
    assert "10.0.0.5" not in problem.message
    assert problem.message.endswith(".")
    (line,) = caplog.records
    assert "/srv" in str(line.__dict__["fields"]) or "10.0.0.5" in str(line.__dict__["fields"])


def test_what_a_client_can_mend_is_told_as_it_is() -> None:
    problem = Problem.of(InputError("The prompt is empty."))
    assert (problem.status, problem.message) == (400, "The prompt is empty.")


@pytest.mark.parametrize(
    ("words", "status", "code"),
    [
        (f"{URL} answered 400: temperature is odd. See what the server says.", 400, None),
        (f"{URL} answered 422: no. See what the server says.", 400, None),
        (f"{URL} answered 404: no such model. Check the model's name.", 404, "model_not_found"),
        (f"{URL} answered 401: sk-1 is bad. Check the API key.", 502, None),
        (f"{URL} answered 403: sk-1 may not. Check the API key.", 502, None),
        (f"{URL} answered 500: no, after 3 tries. See what the server says.", 502, None),
        (f"{URL} broke off: it answered 404: no, after 3 tries. See.", 502, None),
        ("The model went away.", 502, None),
    ],
)
def test_a_status_of_the_model_is_the_clients_where_the_fault_is(
    words: str, status: int, code: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR, "hammingmark.server"):
        problem = Problem.of_model(words)
    assert (problem.status, problem.code) == (status, code)
    assert "10.0.0.5" not in problem.message
    assert "sk-1" not in problem.message
    # What a server says may quote what it was asked.
    assert "odd" not in str(caplog.records[0].__dict__["fields"])


def test_a_model_that_asks_to_wait_makes_the_client_wait() -> None:
    words = f"{URL} answered 429: slow down, after 3 tries. Wait."
    problem = Problem.of_model(f"{words} It asks to wait 7.5 s.")
    assert (problem.status, problem.kind, problem.retry_after) == (429, "rate_limit_error", 7.5)
    assert Problem.of_model(words).retry_after is None


def test_only_a_prompt_that_is_too_long_is_said_to_be() -> None:
    long = Problem.of_prompt(f"{URL} has no room in its context: 5000 tokens. Shorten the prompt.")
    assert (long.status, long.code) == (400, "context_length_exceeded")
    assert long.message.startswith("The upstream has no room in its context")
    own = Problem.of_prompt(say_too_long(9000, context=512, trained=8192))
    assert own.code == "context_length_exceeded"
    assert own.message.endswith("512 with their continuation. Shorten the prompt.")
    odd = Problem.of_prompt("llama.cpp refused the prompt: roles must alternate")
    assert (odd.status, odd.code) == (400, None)


def test_words_without_addresses_stay_sentences() -> None:
    assert without_addresses(f"{URL} answered 500: no, again.") == (
        "The upstream answered 500: no, again."
    )
    assert without_addresses("The connection to https://a.example/v1 failed.") == (
        "The connection to the upstream failed."
    )
