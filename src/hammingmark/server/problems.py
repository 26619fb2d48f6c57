"""What goes wrong with a request, in the shape that OpenAI's clients read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi.responses import JSONResponse

from hammingmark.errors import (
    AuditError,
    BackendError,
    EncoderError,
    HammingMarkError,
    InputError,
    KeyProblem,
    ModelError,
)

_KINDS: tuple[tuple[type[HammingMarkError], int, str], ...] = (
    (InputError, 400, "invalid_request_error"),
    (AuditError, 503, "audit_log_error"),
    (BackendError, 502, "upstream_error"),
    (EncoderError, 503, "watermark_error"),
    (KeyProblem, 503, "watermark_error"),
    (ModelError, 503, "watermark_error"),
)


class Problem(Exception):
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
    def of(cls, error: HammingMarkError) -> Problem:
        """What an error of the package means for a client."""
        for kind, status, words in _KINDS:
            if isinstance(error, kind):
                return cls(status, str(error), kind=words)
        return cls(500, str(error), kind="server_error")

    @classmethod
    def unforeseen(cls) -> Problem:
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
            told["Retry-After"] = str(max(1, round(self.retry_after)))
        if self.status == 401:
            told["WWW-Authenticate"] = "Bearer"
        return JSONResponse(self.content, status_code=self.status, headers=told)
