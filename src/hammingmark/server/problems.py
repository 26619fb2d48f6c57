"""What goes wrong with a request, in the shape that OpenAI's clients read."""

from __future__ import annotations

import logging
import math
import re
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
from hammingmark.server.logs import log_event

_LOG = logging.getLogger("hammingmark.server")
_KINDS: tuple[tuple[type[HammingMarkError], int, str, str], ...] = (
    (AuditError, 503, "audit_log_error", "The audit log cannot be written, so nothing is answered"),
    (EncoderError, 503, "watermark_error", "The encoder failed, so nothing can be marked"),
    (KeyProblem, 503, "watermark_error", "The key that marks cannot be used"),
    (ModelError, 503, "watermark_error", "A model that is needed cannot be had"),
    (HammingMarkError, 500, "server_error", "The service cannot do this"),
)
"""Errors whose own words name files and addresses, and what clients are told instead."""

_ADDRESS = re.compile(r"https?://[^\s,;]+")
_OPTION = re.compile(r", or raise the context \([^)]*\)(, up to the \d+ tokens [^.]*)?")
_STATUS = re.compile(r"\S+ answered (\d{3}): ")
_WAIT = re.compile(r"It asks to wait (\d+(?:\.\d+)?) s\.")
_CONTEXT = re.compile(r"\bcontext\b", re.IGNORECASE)


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
        if isinstance(error, InputError):
            return cls(400, str(error))
        if isinstance(error, BackendError):
            return cls.of_model(str(error))
        _, status, kind, words = next(row for row in _KINDS if isinstance(error, row[0]))
        said = str(error)
        # Another server's words may quote a request, and what is in a request is not logged.
        _log(error.__class__.__name__, said.partition(": ")[0] if _ADDRESS.search(said) else said)
        return cls(status, f"{words}; try again later. The log of the service says why.", kind=kind)

    @classmethod
    def of_model(cls, words: str) -> Problem:
        """What it means for a client that the language model failed.

        Args:
            words: those of a `BackendError`.
        """
        # A server's own words may quote the prompt, and what is in a request is not logged.
        _log("BackendError", words.partition(": ")[0])
        answered = _STATUS.match(words)
        status = int(answered[1]) if answered else 0
        told = without_addresses(words)
        if status == 429:
            wait = _WAIT.search(words)
            return cls(
                429, told, kind="rate_limit_error", retry_after=float(wait[1]) if wait else None
            )
        if status == 404:
            return cls(404, told, code="model_not_found", param="model")
        if status in (400, 413, 422):
            return cls(400, told)
        if status in (401, 403):  # the client's own API key was good, and it needs no other
            return cls.refused_service()
        return cls(502, told, kind="upstream_error")

    @classmethod
    def of_prompt(cls, words: str) -> Problem:
        """What it means for a client that the language model cannot take its prompt.

        Args:
            words: those of the model.
        """
        code = "context_length_exceeded" if _CONTEXT.search(words) else None
        return cls(400, without_addresses(words), code=code)

    @classmethod
    def refused_service(cls) -> Problem:
        """The upstream does not want this service, whoever its client is."""
        words = "The upstream refuses the API key of this service."
        return cls(502, words, kind="upstream_error")

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
            told["Retry-After"] = str(max(1, math.ceil(self.retry_after)))
        if self.status == 401:
            told["WWW-Authenticate"] = "Bearer"
        return JSONResponse(self.content, status_code=self.status, headers=told)


def without_addresses(words: str) -> str:
    """Words for a client, who need not know which machines and options the service has."""
    told = _OPTION.sub("", _ADDRESS.sub("the upstream", words))
    return told[:1].upper() + told[1:]


def _log(error: str, reason: str) -> None:
    log_event(_LOG, "not answered", level=logging.ERROR, error=error, reason=reason)
