"""What goes wrong with a request, in the shape that OpenAI's clients read."""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from fastapi.responses import JSONResponse

from hammingmark.errors import (
    AuditError,
    Failure,
    FailureKind,
    HammingMarkError,
    InferenceError,
    InputError,
    KeyProblem,
    ModelError,
)
from hammingmark.server.logs import log_event

_LOG = logging.getLogger("hammingmark.server")
_ERRORS: tuple[tuple[type[HammingMarkError], int, str, str], ...] = (
    (AuditError, 503, "audit_log_error", "The audit log cannot be written, so nothing is answered"),
    (KeyProblem, 503, "watermark_error", "The key that marks cannot be used"),
    (ModelError, 503, "watermark_error", "A model that is needed cannot be had"),
    (HammingMarkError, 500, "server_error", "The service cannot do this"),
)
"""Errors whose messages name files and addresses, and what clients are told instead."""

_ADDRESS = re.compile(r"https?://[^\s,;]+")  # in what other servers say
_REQUEST_KINDS: Mapping[FailureKind, str | None] = {
    "invalid_request": None,
    "prompt_refused": None,
    "content_filter": None,
    "no_candidate": None,
    "context_overflow": "context_length_exceeded",
}
"""What a model's failure may be that a client can mend by another request, and OpenAI's code."""


class APIError(Exception):
    """A request that is not answered as it was asked.

    Args:
        status: of HTTP.
        message: a sentence that says what to do.
        kind: OpenAI's ``type``.
        code: OpenAI's ``code``.
        param: the field of the request that is at fault.
        retry_after: seconds after which to try again.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        kind: str = "invalid_request_error",
        code: str | None = None,
        param: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.kind = kind
        self.code = code
        self.param = param
        self.retry_after = retry_after

    @classmethod
    def from_error(cls, error: HammingMarkError) -> APIError:
        """What an error of the package means for a client."""
        if isinstance(error, InputError):
            return cls(400, str(error))
        if isinstance(error, InferenceError):
            return cls.from_failure(error.failure)
        _, status, kind, words = next(row for row in _ERRORS if isinstance(error, row[0]))
        _log(type(error).__name__, str(error))
        return cls(status, f"{words}; try again later. The log of the service says why.", kind=kind)

    @classmethod
    def from_failure(cls, failure: Failure) -> APIError:
        """What the failure of a model means for a client."""
        if not failure.is_about_text:
            # The detail may quote the prompt, and what is in a request is not logged.
            name = "EncoderError" if failure.origin == "encoder" else "BackendError"
            _log(name, " ".join(filter(None, (failure.summary, failure.advice))))
        message = message_of(failure)
        if failure.origin == "encoder":
            return cls(503, message, kind="watermark_error")
        if failure.kind == "rate_limited":
            wait = failure.retry_after
            return cls(429, message, kind="rate_limit_error", retry_after=wait)
        if failure.kind == "not_found":
            return cls(404, message, code="model_not_found", param="model")
        if failure.kind in _REQUEST_KINDS:
            return cls(400, message, code=_REQUEST_KINDS[failure.kind])
        if failure.kind == "unauthorized":  # the client's own API key was good; it needs no other
            return cls.upstream_unauthorized()
        return cls(502, message, kind="upstream_error")

    @classmethod
    def upstream_unauthorized(cls) -> APIError:
        """The upstream does not want this service, whoever its client is."""
        words = "The upstream refuses the API key of this service."
        return cls(502, words, kind="upstream_error")

    @classmethod
    def internal(cls) -> APIError:
        """A fault of the service, whose words are for its log alone."""
        words = "Something unforeseen went wrong; the log has more under the id in X-Request-Id."
        return cls(500, words, kind="server_error")

    @property
    def content(self) -> dict[str, Any]:
        """The body of an answer, or the data of a stream's last event."""
        return {
            "error": {
                "message": self.message,
                "type": self.kind,
                "param": self.param,
                "code": self.code,
            }
        }

    def response(self, headers: Mapping[str, str] | None = None) -> JSONResponse:
        """The answer."""
        told = dict(headers or {})
        if self.retry_after is not None:
            told["Retry-After"] = str(max(1, math.ceil(self.retry_after)))
        if self.status == 401:
            told["WWW-Authenticate"] = "Bearer"
        return JSONResponse(self.content, status_code=self.status, headers=told)


def message_of(failure: Failure) -> str:
    """The sentences of a failure that are for a client.

    What a model's server says is, but for addresses: often nothing else says what is wrong. What a
    library says is not, nor the advice, which names machines and options.
    """
    if failure.origin == "encoder":
        return (
            "The encoder failed, so nothing can be marked; try again later. "
            "The log of the service says why."
        )
    detail = "" if failure.kind == "internal" else _ADDRESS.sub("[address]", failure.detail)
    return replace(failure, advice="", detail=detail).message


def _log(error: str, reason: str) -> None:
    log_event(_LOG, "not answered", level=logging.ERROR, error=error, reason=reason)
