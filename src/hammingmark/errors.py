"""The errors that this package raises on purpose.

::

    HammingMarkError
    ├── KeyProblem              a key that is missing, unreadable or unusable
    │   ├── KeyFileError        the file: absent, malformed, readable by others
    │   └── KeyMismatch         the key belongs to another encoder or method
    ├── ModelError              a model file that is unavailable
    │   ├── UnknownModel        the catalogue has no model of this name
    │   ├── ModelUnavailable    no source could provide it: network, offline switch, disk
    │   └── HashMismatch        the hash of a file is not the pinned one
    ├── InferenceError          a model that failed; has a `Failure`
    │   ├── EncoderError        sentences that could not be embedded
    │   └── BackendError        a language model that failed
    ├── AuditError              an audit log that cannot be used or written
    ├── InputError              an invalid text, file or option
    ├── CalibrationError        a calibration that cannot be fitted or used
    └── UnknownName             no component of this name is registered

Each message is a sentence that says what to do next.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import ClassVar, Literal

FailureKind = Literal[
    "unavailable",
    "timeout",
    "rate_limited",
    "unauthorized",
    "not_found",
    "invalid_request",
    "context_overflow",
    "content_filter",
    "prompt_refused",
    "cannot_continue",
    "no_candidate",
    "closed",
    "internal",
]
"""What a failure means for the caller.

``unavailable``: the model cannot be reached or loaded, or it stopped. ``timeout``: it did not
answer in time. ``rate_limited``, ``unauthorized``, ``not_found``, ``invalid_request``: its server
refused the request. ``context_overflow``: the prompt, or the prompt and the text, do not fit into
its context. ``content_filter``: its server filtered the text. ``prompt_refused``: it cannot take
this prompt. ``cannot_continue``: it begins a new answer instead of continuing an unfinished one.
``no_candidate``: it wrote nothing that can be used. ``closed``: it was closed, or the text was
cancelled. ``internal``: an error in this package or in a library.
"""

_ABOUT_TEXT = frozenset({"context_overflow", "content_filter", "prompt_refused", "no_candidate"})
_ABOUT_REQUEST = frozenset({"unavailable", "internal"})

UnavailableKind = Literal[
    "offline", "unreachable", "stalled", "absent", "damaged", "not_installed", "disk_full", "other"
]
"""Why a file is unavailable: the offline switch is on; a source cannot be reached, stopped
answering, does not have the file, or gave a damaged package; a program is not installed; the disk
is full."""


class HammingMarkError(Exception):
    """Any error that a user can fix."""


class KeyProblem(HammingMarkError):
    """A key that is missing, unreadable or unusable."""


class KeyFileError(KeyProblem):
    """A key file that is absent, malformed, or readable by others."""


class KeyMismatch(KeyProblem):
    """A key that is used with another encoder or method than its own."""


class ModelError(HammingMarkError):
    """A model file that is unavailable."""


class UnknownModel(ModelError):
    """A name that is not in the catalogue.

    Attributes:
        name: the unknown name.
        suggestion: the nearest known name, if any is near.
    """

    def __init__(self, message: str, *, name: str = "", suggestion: str | None = None) -> None:
        super().__init__(message)
        self.name = name
        self.suggestion = suggestion


class ModelUnavailable(ModelError):
    """No source could provide the file.

    Attributes:
        kind: the reason.
    """

    def __init__(self, message: str, *, kind: UnavailableKind = "other") -> None:
        super().__init__(message)
        self.kind: UnavailableKind = kind


class HashMismatch(ModelError):
    """A file whose hash is not the pinned one."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a model failed, as data.

    Its sentences are separate fields because they have different readers. A client of a service
    gets the summary. The operator of the model gets all three, as the message, and so does a log,
    unless the detail may quote a request.

    Attributes:
        kind: what the failure means for the caller.
        summary: a sentence without addresses, options and quotations of the request.
        origin: whether the language ``model`` or the ``encoder`` failed.
        status: the status of the HTTP response, or the one in an error event of a stream.
        retry_after: the number of seconds after which the server accepts another request.
        detail: the message of another program. That of a server quotes nothing of the request.
        advice: sentences for the operator of the model, with addresses and options.
        param: the field of the request that the server objects to; empty if it names none.
    """

    kind: FailureKind
    summary: str
    origin: Literal["model", "encoder"] = "model"
    status: int | None = None
    retry_after: float | None = None
    detail: str = ""
    advice: str = ""
    param: str = ""

    @property
    def message(self) -> str:
        """Summary, detail and advice, for the operator of the model."""
        detail = f"It says: {self.detail.rstrip('.')}." if self.detail else ""
        return " ".join(filter(None, (self.summary, detail, self.advice)))

    @property
    def is_about_text(self) -> bool:
        """Whether the prompt or the text is the reason, so the text written so far is kept."""
        return self.origin == "model" and self.kind in _ABOUT_TEXT

    @property
    def is_about_request(self) -> bool:
        """Whether only this request to the model failed, as far as is known.

        The other kinds hold for every request for the same text, ask for fewer requests, or have
        taken so long that another would keep the caller waiting.
        """
        return self.origin == "model" and self.kind in _ABOUT_REQUEST

    def error(self) -> InferenceError:
        """The failure as an exception."""
        error_class = EncoderError if self.origin == "encoder" else BackendError
        return error_class(
            self.summary,
            kind=self.kind,
            status=self.status,
            retry_after=self.retry_after,
            detail=self.detail,
            advice=self.advice,
            param=self.param,
        )


class InferenceError(HammingMarkError):
    """A language model or an encoder that failed.

    Args:
        summary: see `Failure`, as for the others.
        kind: see `FailureKind`.
        status: see `Failure`.

    Attributes:
        failure: the error as data.
    """

    origin: ClassVar[Literal["model", "encoder"]] = "model"

    def __init__(
        self,
        summary: str,
        *,
        kind: FailureKind = "unavailable",
        status: int | None = None,
        retry_after: float | None = None,
        detail: str = "",
        advice: str = "",
        param: str = "",
    ) -> None:
        self.failure = Failure(
            kind, summary, self.origin, status, retry_after, detail, advice, param
        )
        super().__init__(self.failure.message)

    @property
    def kind(self) -> FailureKind:
        """What the failure means for the caller."""
        return self.failure.kind

    @property
    def status(self) -> int | None:
        """The status of the HTTP response, if there was one."""
        return self.failure.status

    @property
    def retry_after(self) -> float | None:
        """The number of seconds after which the server accepts another request, if it said so."""
        return self.failure.retry_after


class EncoderError(InferenceError):
    """Sentences that could not be embedded."""

    origin = "encoder"


class BackendError(InferenceError):
    """A language model that failed."""


class AuditError(HammingMarkError):
    """An audit log that cannot be used or written."""


class InputError(HammingMarkError):
    """An invalid text, file or option."""


class CalibrationError(HammingMarkError):
    """A calibration that cannot be fitted, or not be used with this key, encoder or text."""


class UnknownName(HammingMarkError):
    """A component name that neither this package nor an installed one provides.

    Attributes:
        name: the unknown name.
        suggestion: the nearest known name, if any is near.
    """

    def __init__(self, message: str, *, name: str = "", suggestion: str | None = None) -> None:
        super().__init__(message)
        self.name = name
        self.suggestion = suggestion


def nearest_name(name: str, known: Iterable[str]) -> str | None:
    """The known name that is nearest to an unknown one, if any is near.

    Among names with dots, one with the same last part counts as the nearest.
    """
    last_parts = {candidate: candidate.rpartition(".")[2] for candidate in known}
    last_part = name.rpartition(".")[2]
    matches = [candidate for candidate, part in last_parts.items() if part == last_part]
    matches = matches or get_close_matches(name, last_parts, n=1)
    for near in get_close_matches(last_part, last_parts.values(), n=1):
        matches += [candidate for candidate, part in last_parts.items() if part == near]
    return matches[0] if matches else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A question with the nearest known name, after a space; empty if none is near."""
    suggestion = nearest_name(name, known)
    return f" Did you mean {suggestion!r}?" if suggestion else ""
