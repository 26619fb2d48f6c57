"""API errors in OpenAI's format."""

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
from hammingmark.server.settings import without_secrets

_LOG = logging.getLogger("hammingmark.server")
_ERRORS: tuple[tuple[type[HammingMarkError], int, str, str], ...] = (
    (
        AuditError,
        503,
        "audit_log_error",
        "The audit log cannot be written, so requests are refused",
    ),
    (KeyProblem, 503, "watermark_error", "The marking key cannot be used"),
    (ModelError, 503, "watermark_error", "A required model is unavailable"),
    (HammingMarkError, 500, "server_error", "The service cannot do this"),
)
"""Errors whose messages name files and addresses, and the messages for clients instead."""

_ADDRESS = re.compile(r"https?://[^\s,;]+")
CANNOT_CONTINUE = "upstream_restarts"
"""The code of an error for an answer that cannot be marked because the upstream begins it anew."""

_UNAUTHORIZED = "The upstream rejected this service's API key."
_REQUEST_KINDS: Mapping[FailureKind, str | None] = {
    "invalid_request": None,
    "prompt_refused": None,
    "content_filter": None,
    "no_candidate": None,
    "context_overflow": "context_length_exceeded",
}
"""Failures that the client can avoid by another request, and OpenAI's code."""

_NOT_LOGGED = frozenset({"internal", "prompt_refused"})
"""Failures of models in this process, whose details may quote the prompt."""

_SEE_LOG = "The log of the service has details under the id in X-Request-Id."
_HINTS: Mapping[FailureKind, str] = {
    "invalid_request": f"It does not accept the request. {_SEE_LOG}",
    "not_found": f"It may not offer this model. {_SEE_LOG}",
    "rate_limited": "Try again later.",
    "timeout": "Try again later.",
    "unavailable": f"Try again later. {_SEE_LOG}",
}
"""What a client is told of an upstream's failure, whose own message is only logged."""


class APIError(Exception):
    """An error response to a request.

    Args:
        status: the HTTP status.
        message: a sentence that says what to do.
        kind: OpenAI's ``type``.
        code: OpenAI's ``code``.
        param: the invalid field of the request.
        retry_after: seconds after which the client may try again.
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
        """The API error for an error of the package."""
        if isinstance(error, InputError):
            return cls(400, str(error))
        if isinstance(error, InferenceError):
            return cls.from_failure(error.failure)
        _, status, kind, message = next(row for row in _ERRORS if isinstance(error, row[0]))
        _log(type(error).__name__, str(error))
        return cls(
            status, f"{message}. Try again later; the log of the service has details.", kind=kind
        )

    @classmethod
    def from_failure(cls, failure: Failure) -> APIError:
        """The API error for the failure of a model, which is logged."""
        detail = "" if failure.kind in _NOT_LOGGED else failure.detail
        if detail or not failure.is_about_text:
            name = "EncoderError" if failure.origin == "encoder" else "BackendError"
            level = logging.INFO if failure.is_about_text else logging.ERROR
            _log(name, replace(failure, detail=detail).message, level=level)
        message = client_message(failure)
        if failure.origin == "encoder":
            return cls(503, message, kind="watermark_error")
        if failure.kind == "cannot_continue":
            return cls.cannot_continue()
        if failure.kind == "rate_limited":
            wait = failure.retry_after
            return cls(429, message, kind="rate_limit_error", retry_after=wait)
        if failure.kind == "not_found":
            return cls(404, message, code="model_not_found", param="model")
        if failure.kind in _REQUEST_KINDS:
            param = failure.param or None
            return cls(400, message, code=_REQUEST_KINDS[failure.kind], param=param)
        return cls(502, message, kind="upstream_error")

    @classmethod
    def upstream_unauthorized(cls) -> APIError:
        """The upstream rejected the credentials of this service."""
        return cls(502, _UNAUTHORIZED, kind="upstream_error")

    @classmethod
    def cannot_continue(cls) -> APIError:
        """The upstream begins a new answer at every request, and the policy is to refuse."""
        message = (
            "The upstream begins a new answer instead of continuing an unfinished one, so answers "
            "to chats cannot be marked. The log of the service says what its operator can do."
        )
        return cls(503, message, kind="watermark_error", code=CANNOT_CONTINUE)

    @classmethod
    def internal(cls) -> APIError:
        """An internal error, whose details are only logged."""
        message = "Internal error. The log has details under the id in X-Request-Id."
        return cls(500, message, kind="server_error")

    @property
    def content(self) -> dict[str, Any]:
        """The body of the response, or the data of the last event of a stream."""
        return {
            "error": {
                "message": self.message,
                "type": self.kind,
                "param": self.param,
                "code": self.code,
            }
        }

    def response(self, headers: Mapping[str, str] | None = None) -> JSONResponse:
        """The response."""
        headers = dict(headers or {})
        if self.retry_after is not None:
            headers["Retry-After"] = str(max(1, math.ceil(self.retry_after)))
        if self.status == 401:
            headers["WWW-Authenticate"] = "Bearer"
        return JSONResponse(self.content, status_code=self.status, headers=headers)


def client_message(failure: Failure) -> str:
    """The message of a failure for the client.

    It excludes what an upstream says, which may name hosts, accounts and keys, messages of
    libraries, and the advice. Only why the model in this process refuses a prompt is included.
    """
    if failure.origin == "encoder":
        return (
            "The encoder failed, so nothing can be marked. Try again later; "
            "the log of the service has details."
        )
    if failure.kind == "unauthorized":  # the client's own API key is valid
        return _UNAUTHORIZED
    detail = failure.detail if failure.kind == "prompt_refused" else ""
    hint = _HINTS.get(failure.kind, "") if failure.detail and not detail else ""
    return replace(failure, detail=_ADDRESS.sub("[address]", detail), advice=hint).message


def _log(error: str, reason: str, *, level: int = logging.ERROR) -> None:
    # Libraries quote URLs with signatures and logins.
    reason = without_secrets(reason)
    log_event(_LOG, "not answered", level=level, error=error, reason=reason)
