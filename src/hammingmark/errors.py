"""Everything this package raises on purpose.

::

    HammingMarkError
    ├── KeyProblem              a key that is missing, unreadable or unusable
    │   ├── KeyFileError        the file: absent, malformed, readable by others
    │   └── KeyMismatch         the key needs another encoder
    ├── ModelError              a model file that cannot be had
    │   ├── UnknownModel        no such name in the catalogue
    │   ├── ModelUnavailable    no source gave it: network, offline switch, disk
    │   └── HashMismatch        a file is not the one that was pinned
    ├── InferenceError          a model that could not answer; has a `Failure`
    │   ├── EncoderError        sentences that could not be embedded
    │   └── BackendError        a language model that could not answer
    ├── AuditError              a record that the audit log could not take
    ├── InputError              a text, file or option that makes no sense
    ├── CalibrationError        a calibration that cannot be fitted or does not fit
    └── UnknownName             no part of that name is registered

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
    "no_candidate",
    "closed",
    "internal",
]
"""What a failure means for whoever asked.

``unavailable``: the model cannot be had, or went away. ``timeout``: it did not answer in time.
``rate_limited``, ``unauthorized``, ``not_found``, ``invalid_request``: its server refused the
request. ``context_overflow``: the prompt, or the prompt and the text, do not fit into its context.
``content_filter``: its server filtered the text. ``prompt_refused``: it cannot take this prompt.
``no_candidate``: it wrote nothing that can be used. ``closed``: it was closed, or the text was
cancelled. ``internal``: an error in this package or in a library.
"""

_ABOUT_TEXT = frozenset({"context_overflow", "content_filter", "prompt_refused", "no_candidate"})

UnavailableKind = Literal[
    "offline", "unreachable", "stalled", "absent", "damaged", "not_installed", "disk_full", "other"
]
"""Why a file cannot be had: by our own offline switch; because a source cannot be reached, stopped
answering, does not have it, or gave a broken package; because a program is not installed; because
the disk is full."""


class HammingMarkError(Exception):
    """Anything that went wrong and that a user can fix."""


class KeyProblem(HammingMarkError):
    """A key that is missing, unreadable or unusable."""


class KeyFileError(KeyProblem):
    """A key file that is absent, malformed, or readable by others."""


class KeyMismatch(KeyProblem):
    """A key used with an encoder, or a method, it was not made for."""


class ModelError(HammingMarkError):
    """A model file that cannot be had."""


class UnknownModel(ModelError):
    """A name the catalogue does not hold.

    Attributes:
        name: what was asked for.
        suggestion: the nearest known name, if there is one.
    """

    def __init__(self, message: str, *, name: str = "", suggestion: str | None = None) -> None:
        super().__init__(message)
        self.name = name
        self.suggestion = suggestion


class ModelUnavailable(ModelError):
    """No source gave the file.

    Attributes:
        kind: what stood in the way.
    """

    def __init__(self, message: str, *, kind: UnavailableKind = "other") -> None:
        super().__init__(message)
        self.kind: UnavailableKind = kind


class HashMismatch(ModelError):
    """A file whose content is not the pinned one."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a model could not answer, as data.

    Its sentences are kept apart by who may read them. A client of a service gets the summary, and
    the detail where it concerns the request. A log gets the summary and the advice, because the
    detail may quote a request. Whoever runs the model gets all three, as the message.

    Attributes:
        kind: what it means for whoever asked.
        summary: a sentence that names no address and no option, and quotes no request.
        origin: whether the language ``model`` failed or the ``encoder``.
        status: of the HTTP answer, or the one that a server named in the middle of a stream.
        retry_after: seconds after which the server wants to be asked again.
        detail: words of another program that may quote a request.
        advice: sentences for whoever runs the model, with addresses and options.
    """

    kind: FailureKind
    summary: str
    origin: Literal["model", "encoder"] = "model"
    status: int | None = None
    retry_after: float | None = None
    detail: str = ""
    advice: str = ""

    @property
    def message(self) -> str:
        """All of it, for whoever runs the model."""
        detail = f"It says: {self.detail.rstrip('.')}." if self.detail else ""
        return " ".join(filter(None, (self.summary, detail, self.advice)))

    @property
    def is_about_text(self) -> bool:
        """Whether the prompt or the text is the reason, so that what was written stands."""
        return self.origin == "model" and self.kind in _ABOUT_TEXT

    def error(self) -> InferenceError:
        """The same as an exception."""
        made = EncoderError if self.origin == "encoder" else BackendError
        return made(
            self.summary,
            kind=self.kind,
            status=self.status,
            retry_after=self.retry_after,
            detail=self.detail,
            advice=self.advice,
        )


class InferenceError(HammingMarkError):
    """A model, language model or encoder, that could not answer.

    Args:
        summary: a sentence that names no address and quotes no request.
        kind: see `FailureKind`.
        status: see `Failure`, as are the others.

    Attributes:
        failure: the same as data.
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
    ) -> None:
        self.failure = Failure(kind, summary, self.origin, status, retry_after, detail, advice)
        super().__init__(self.failure.message)

    @property
    def kind(self) -> FailureKind:
        """What it means for whoever asked."""
        return self.failure.kind

    @property
    def status(self) -> int | None:
        """Of the HTTP answer, if there was one."""
        return self.failure.status

    @property
    def retry_after(self) -> float | None:
        """Seconds after which the server wants to be asked again, if it said so."""
        return self.failure.retry_after


class EncoderError(InferenceError):
    """Sentences that could not be embedded."""

    origin = "encoder"


class BackendError(InferenceError):
    """A language model that could not answer."""


class AuditError(HammingMarkError):
    """An audit log that cannot be used, or could not take a record."""


class InputError(HammingMarkError):
    """A text, a file or an option that makes no sense."""


class CalibrationError(HammingMarkError):
    """A calibration that cannot be fitted, or that does not fit its use."""


class UnknownName(HammingMarkError):
    """A part that no table and no installed package offers.

    Attributes:
        name: what was asked for.
        suggestion: the nearest known name, if there is one.
    """

    def __init__(self, message: str, *, name: str = "", suggestion: str | None = None) -> None:
        super().__init__(message)
        self.name = name
        self.suggestion = suggestion


def nearest_name(name: str, known: Iterable[str]) -> str | None:
    """The known name that is nearest to an unknown one, if any is near.

    Of names with dots, the one with the same last part is the nearest of all.
    """
    last = {each: each.rpartition(".")[2] for each in known}
    wanted = name.rpartition(".")[2]
    close = [each for each in last if last[each] == wanted] or get_close_matches(name, last, n=1)
    for near in get_close_matches(wanted, last.values(), n=1):
        close += [each for each in last if last[each] == near]
    return close[0] if close else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A question with the nearest known name, after a space; nothing if none is near."""
    near = nearest_name(name, known)
    return f" Did you mean {near!r}?" if near else ""
