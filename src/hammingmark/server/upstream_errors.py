"""Errors of the upstream: its own messages for the log, others for clients."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hammingmark.backends.openai_refusals import (
    CONTEXT_OVERFLOW,
    is_context_overflow,
    refused_field,
    reported_error,
)
from hammingmark.errors import Failure
from hammingmark.http.connection import ApiRoot, ErrorObject, status_kind
from hammingmark.http.quotations import without_quotations
from hammingmark.server.api_error import APIError


class UpstreamErrors:
    """Turns the errors of the upstream in one exchange into those of this service.

    Args:
        root: the URL and the credentials of the upstream.
        body: the body of the request.
    """

    def __init__(self, root: ApiRoot, body: Mapping[str, Any] | None) -> None:
        self._root = root
        self._body = body or {}

    def of_response(
        self, status: int, error: ErrorObject, *, retry_after: float | None = None
    ) -> APIError:
        """The error for a response, with the status of the response; it is logged.

        Args:
            status: the status.
            error: the error in its body.
            retry_after: the wait in seconds that the upstream asks for, if any.
        """
        error = replace(error, message=self._root.quote(error.message))
        is_too_long = is_context_overflow(error)
        failure = Failure(
            "context_overflow" if is_too_long else status_kind(status),
            CONTEXT_OVERFLOW
            if is_too_long
            else f"The model's server returned the status {status}.",
            status=status,
            retry_after=retry_after,
            detail=without_quotations(error.message, self._body),
            param=refused_field(self._body, error),
        )
        api_error = APIError.from_failure(failure)
        if failure.kind != "unauthorized":
            api_error.status = status
        api_error.retry_after = retry_after
        return api_error

    def of_answer(self, answer: Any) -> APIError | None:
        """The error that came in the place of an answer or a chunk, or in it; it is logged.

        Args:
            answer: the body of a response or the data of an event.
        """
        reported = reported_error(answer)
        if reported is None:
            return None
        error = ErrorObject.of(reported)
        return self.of_response(error.status or 502, error)
