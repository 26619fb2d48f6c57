"""The settings of the service: types, defaults and consistency."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from annotated_types import Ge, Gt, Lt, MaxLen, MinLen
from pydantic import (
    AfterValidator,
    AllowInfNan,
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    SecretStr,
    ValidationInfo,
    model_validator,
)

from hammingmark.errors import InputError
from hammingmark.keys.key import as_label
from hammingmark.keys.periods import PeriodName

UPSTREAM_API_KEY = "HAMMINGMARK_UPSTREAM_API_KEY"
"""The environment variable with the API key for the upstream; before ``OPENAI_API_KEY``."""

DEFAULT = "default"
"""The source of a setting with its default value."""

MAX_DERIVED_KEYS = 10_000
"""The maximum of derived keys that are searched at once."""

_LONGEST_TEXT = 200  # characters of a text that is shown to people
_SHORT = f"one line of at most {_LONGEST_TEXT} characters"


def _as_url(text: str) -> str:
    parts = urlsplit(text)
    # Reading the port validates it.
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0:
        raise ValueError
    return text


def _as_origin(text: str) -> str:
    if text != "*" and not re.fullmatch(r"https?://[^\s/?#@]+", text):
        raise ValueError
    return text


def _as_address(text: str) -> str:
    return str(ipaddress.ip_address(text))


def _as_short_text(text: str) -> str:
    stripped = text.strip()
    if not 1 <= len(stripped) <= _LONGEST_TEXT or not stripped.isprintable():
        raise ValueError
    return stripped


def _label_of(text: str) -> str:
    try:
        return as_label(text)
    except InputError as error:
        raise ValueError from error


_SEARCH: Mapping[PeriodName, int] = {"hour": 168, "day": 90, "week": 26, "month": 12}

Url = Annotated[str, AfterValidator(_as_url)]
Origin = Annotated[str, AfterValidator(_as_origin)]
Address = Annotated[str, AfterValidator(_as_address)]
Label = Annotated[str, AfterValidator(_label_of)]
Name = Annotated[str, MinLen(1)]
ShortText = Annotated[str, AfterValidator(_as_short_text)]
Count = Annotated[int, Ge(1)]
Finite = Annotated[float, AllowInfNan(False)]
Seconds = Annotated[Finite, Gt(0)]


def without_secrets(text: str) -> str:
    """A text without the logins and queries of the URLs in it."""
    return re.sub(r"(?<=://)[^/?#\s]*@", "", re.sub(r"(://[^?\s]*)\?\S*", r"\1", text))


class Table(BaseModel):
    """A group of settings; immutable, and without unknown names."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        for name, value in super().__repr_args__():
            yield name, without_secrets(value) if isinstance(value, str) else value


class UpstreamConfig(Table):
    """The language model of another server."""

    url: Url | None = Field(
        default=None,
        description="OpenAI-compatible endpoint whose model writes the text",
        examples=["http://127.0.0.1:8000/v1"],
    )
    model: str = Field(default="", description="model of the upstream; by default its only one")
    retries: Annotated[int, Ge(0)] = Field(default=2, description="retries after a failed request")
    timeout: Seconds = Field(
        default=60.0, description="seconds without a response before a request fails"
    )
    continues: bool | None = Field(
        default=None,
        description="whether it continues the assistant's unfinished message; by default each "
        "model is tried once",
    )
    api_key_file: Path | None = Field(
        default=None, description="file of mode 0600 with its API key"
    )
    api_key: SecretStr | None = Field(
        default=None,
        description=f"its API key, from {UPSTREAM_API_KEY}, the file or OPENAI_API_KEY",
    )


class PolicyConfig(Table):
    """What the service does with text that is not, or must not be, marked."""

    on_failure: Literal["refuse", "deliver"] = Field(
        default="refuse", description="what to do with an answer whose marking fails"
    )
    unmarkable: Literal["pass", "refuse"] = Field(
        default="pass",
        description="what to do with an answer that cannot carry a mark, such as code",
    )
    other_paths: Literal["pass", "refuse"] = Field(
        default="pass",
        description="what to do with other paths below /v1, such as embeddings, which only an "
        "upstream answers",
    )
    restarting_upstream: Literal["refuse", "pass"] | None = Field(
        default=None,
        description="what to do with chats if the upstream begins a new answer at every request, "
        "so that none can be marked: refuse them, or pass its answers on unmarked; by default as "
        "on_failure says",
    )
    switch_off: Literal["never", "allowed", "by_api_key"] | None = Field(
        default=None,
        description="who may request unmarked text; by default allowed if only this machine can "
        "reach the service, otherwise never",
    )
    labels: Annotated[tuple[Label, ...], MaxLen(1000)] = Field(
        default=(),
        title="a list of at most 1000 labels",
        description="labels of derived keys that requests may name; detection searches their keys",
        examples=["customer-17"],
    )
    detection: Literal["scores", "p_value", "verdict"] | None = Field(
        default=None,
        description="what detection tells clients without the scope admin: everything, all but the "
        "scores, or the verdict with a coarse p-value; by default everything if only this machine "
        "can reach the service, otherwise the verdict",
    )
    detection_level: Annotated[float, Gt(0), Lt(1)] | None = Field(
        default=None,
        description="the level at which detection judges for clients without the scope admin; by "
        "default the common level if only this machine can reach the service, otherwise a "
        "hundredth of it, because whoever asks about enough texts finds some that reach a level",
    )


class RotationConfig(Table):
    """How often the service marks with another derived key."""

    every: Literal["never", "hour", "day", "week", "month", "request"] = Field(
        default="never",
        description="how often answers are marked with another key, which is derived from the key "
        "by the date in UTC, or by a label for each request; detection follows the dates",
    )
    search: Count | None = Field(
        default=None,
        description="how many periods (hours, days, weeks or months) back detection searches; by "
        "default 168 hours, 90 days, 26 weeks or 12 months",
    )
    sentences: Count | None = Field(
        default=None,
        description="number of marked sentences after which the key changes within a period; by "
        "default unlimited",
    )
    record: Path | None = Field(
        default=None,
        description="folder with the counts of marked sentences; by default marked, in the keyring",
    )

    @property
    def period(self) -> PeriodName | None:
        """The kind of period after which the key changes; None if it does not change with time."""
        every = self.every
        return None if every == "never" or every == "request" else every

    def searched(self, kind: PeriodName) -> int:
        """How many periods of a kind detection searches, the present one included."""
        return self.search if self.search and kind == self.every else _SEARCH[kind]


class LimitsConfig(Table):
    """The limits of the service; times are in seconds."""

    tokens: Count = Field(default=4096, description="maximum tokens per answer")
    choices: Count = Field(default=8, description="maximum answers per request")
    body_bytes: Count = Field(default=1_000_000, description="maximum bytes of a request body")
    head_timeout: Seconds = Field(
        default=10.0, description="seconds for the head of a request to arrive"
    )
    body_timeout: Seconds = Field(
        default=30.0, description="seconds for the body of a request to arrive"
    )
    texts: Count = Field(default=64, description="maximum texts per detection request")
    text_characters: Count = Field(default=200_000, description="maximum characters per text")
    queue: Count = Field(
        default=256,
        description="maximum answers waiting or in progress; one client may have seven eighths",
    )
    detections: Count = Field(
        default=32,
        description="maximum detections waiting or in progress; one client may have half",
    )
    requests_per_minute: Annotated[Finite, Gt(0)] | None = Field(
        default=None,
        description="requests per minute of each API key or, without API keys, each client address",
    )
    texts_per_minute: Annotated[Finite, Gt(0)] | None = Field(
        default=None,
        description="texts per minute that each client may have judged; by default 60, or no limit "
        "if only this machine can reach the service",
    )
    texts_per_day: Annotated[Finite, Gt(0)] | None = Field(
        default=None,
        description="texts per day that each client may have judged; by default 1,000, or no limit "
        "if only this machine can reach the service",
    )
    near_copies: Count | None = Field(
        default=None,
        description="near-copies of a text that each client may have judged within half a day or "
        "a day; by default 5, or no limit if only this machine can reach the service",
    )
    request_timeout: Seconds = Field(default=300.0, description="seconds for a complete answer")
    encoder_timeout: Seconds = Field(
        default=30.0, description="seconds before an embedding counts as failed"
    )
    first_sentence_wait: Annotated[Finite, Ge(0)] = Field(
        default=60.0,
        description="longest expected wait for a first sentence; a request that would wait longer, "
        "or end after request_timeout, is refused (429); 0 for no such limit",
    )
    first_sentence_timeout: Seconds | None = Field(
        default=None, description="seconds to an answer's first sentence, or it fails"
    )
    shutdown_grace: Annotated[Finite, Ge(0)] = Field(
        default=30.0,
        description="seconds for answers in progress to finish at shutdown",
    )


class AuditConfig(Table):
    """The record of every answer."""

    file: Path | None = Field(
        default=None, description="audit log file (JSON Lines); none by default"
    )
    text_hash: Literal["sha256", "none"] = Field(
        default="sha256", description="hash of an answer's text in the audit log"
    )


class OperatorConfig(Table):
    """Who runs the service, as its page and its reports say."""

    name: ShortText | None = Field(
        default=None,
        title=_SHORT,
        description="who runs the service; verdicts and reports name it",
        examples=["Example News"],
    )
    contact: ShortText | None = Field(
        default=None,
        title=_SHORT,
        description="how to reach the operator, such as an e-mail address",
        examples=["desk@example.org"],
    )
    url: Url | None = Field(
        default=None,
        description="page about the operator or the service",
        examples=["https://example.org/about"],
    )


class LogConfig(Table):
    """The logs on standard error."""

    format: Literal["auto", "json", "text"] = Field(
        default="auto",
        description="json for machines, text for people, or auto: text on a terminal, else json",
    )
    level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="lowest level that is logged"
    )


class ServerConfig(Table):
    """All settings of the service; see `read_config` and `describe`."""

    host: Name = Field(default="127.0.0.1", description="address to listen on")
    port: int = Field(
        default=8080, ge=0, le=65535, description="port to listen on; 0 for any free one"
    )
    open: bool = Field(default=False, description="accept requests without API keys")
    api_keys: Path | None = Field(default=None, description="file of API keys, mode 0600")
    key: Name = Field(default="default", description="name of the key that marks")
    backend: Name | None = Field(
        default=None,
        description="language model; by default the upstream, or else the embedded model",
    )
    model_name: Name = Field(default="hammingmark", description="what the service calls its model")
    parallel: Count | None = Field(
        default=None, description="texts written at once; by default set by the language model"
    )
    max_tokens: Count = Field(default=512, description="default maximum of tokens per answer")
    budget: Count | None = Field(
        default=None, description="maximum candidates per sentence; by default that of the method"
    )
    level: float = Field(default=0.01, gt=0, lt=1, description="default level of detection")
    metrics: bool = Field(default=True, description="serve /metrics")
    page: bool = Field(default=True, description="serve the page at /")
    cors_origins: tuple[Origin, ...] = Field(
        default=(),
        title="a list of origins",
        description="origins whose pages may call the service",
        examples=["https://example.org"],
    )
    trusted_proxies: tuple[Address, ...] = Field(
        default=(),
        title="a list of addresses",
        description="reverse proxies whose X-Forwarded-For is trusted",
        examples=["127.0.0.1"],
    )
    operator: OperatorConfig = OperatorConfig()
    upstream: UpstreamConfig = UpstreamConfig()
    policy: PolicyConfig = PolicyConfig()
    rotation: RotationConfig = RotationConfig()
    limits: LimitsConfig = LimitsConfig()
    audit: AuditConfig = AuditConfig()
    log: LogConfig = LogConfig()

    _sources: dict[str, str] = PrivateAttr(default_factory=dict)

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach the service."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    @property
    def is_private(self) -> bool:
        """Whether this machine alone uses the service: nothing lets others in."""
        return self.is_loopback and not (self.open or self.api_keys or self.trusted_proxies)

    @property
    def switch_off(self) -> Literal["never", "allowed", "by_api_key"]:
        """Who may request unmarked text: by the policy, or by who can reach the service."""
        return self.policy.switch_off or ("allowed" if self.is_private else "never")

    def source(self, name: str) -> str:
        """The source of a setting: a file, a variable, the command line, or ``default``.

        Args:
            name: its name with its table, such as ``policy.on_failure``.
        """
        return self._sources.get(name, DEFAULT)

    @model_validator(mode="after")
    def _check_together(self, info: ValidationInfo) -> ServerConfig:
        self._sources.update((info.context or {}).get("sources", {}))
        if self.backend is not None and self.upstream.url is not None:
            raise InputError(
                f"{self._from('backend')} and {self._from('upstream.url')} cannot be "
                "combined. Set only one."
            )
        for name in ("model", "api_key_file"):
            if getattr(self.upstream, name) and self.upstream.url is None:
                raise InputError(
                    f"{self._from(f'upstream.{name}')} needs an upstream. Set upstream.url."
                )
        if self.open and self.api_keys is not None:
            raise InputError(
                f"{self._from('open')} and {self._from('api_keys')} contradict each other. Set "
                "only one."
            )
        if not (self.is_loopback or self.open or self.api_keys):
            raise InputError(
                f"{self._from('host')} is {self.host!r:.60}, which other machines can reach. Set "
                "api_keys, or allow requests without API keys with open."
            )
        if self.policy.switch_off == "by_api_key" and self.api_keys is None:
            raise InputError(
                f"{self._from('policy.switch_off')} is 'by_api_key', but api_keys is not set. "
                "Set it, or choose 'never' or 'allowed'."
            )
        if self.max_tokens > self.limits.tokens:
            raise InputError(
                f"{self._from('max_tokens')} is {self.max_tokens}; it must be at most "
                f"limits.tokens, which is {self.limits.tokens}."
            )
        first = self.limits.first_sentence_timeout
        if first is not None and first > self.limits.request_timeout:
            raise InputError(
                f"{self._from('limits.first_sentence_timeout')} is {first:g}; it must be at most "
                f"limits.request_timeout, which is {self.limits.request_timeout:g}."
            )
        self._check_rotation()
        return self

    def _check_rotation(self) -> None:
        rotation = self.rotation
        period = rotation.period
        if rotation.search is not None and period is None:
            raise InputError(
                f"{self._from('rotation.search')} counts periods. Set rotation.every to 'hour', "
                "'day', 'week' or 'month'."
            )
        if rotation.sentences is not None and period is None:
            raise InputError(
                f"{self._from('rotation.sentences')} numbers the keys of a period. Set "
                "rotation.every to 'hour', 'day', 'week' or 'month'."
            )
        if rotation.every == "request" and self.audit.file is None:
            raise InputError(
                f"{self._from('rotation.every')} is 'request': texts are found by their labels "
                "alone, which the audit log keeps. Set audit.file."
            )
        periods = rotation.searched(period) if period else 0
        searched = periods + (periods + 1) * len(self.policy.labels)
        if searched > MAX_DERIVED_KEYS:
            raise InputError(
                f"{self._from('rotation.search')} and policy.labels make {searched:,} derived "
                f"keys to search, more than {MAX_DERIVED_KEYS:,}. Search fewer periods, or name "
                "fewer labels."
            )

    def _from(self, name: str) -> str:
        source = self.source(name)
        return f"{name} (by default)" if source == DEFAULT else f"{name} from {source}"
