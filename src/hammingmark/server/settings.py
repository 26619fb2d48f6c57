"""The settings of the service: types, defaults and consistency."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from annotated_types import Ge, Gt, MinLen
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

UPSTREAM_API_KEY = "HAMMINGMARK_UPSTREAM_API_KEY"
"""The environment variable with the API key for the upstream; before ``OPENAI_API_KEY``."""

DEFAULT = "default"
"""The source of a setting with its default value."""


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


Url = Annotated[str, AfterValidator(_as_url)]
Origin = Annotated[str, AfterValidator(_as_origin)]
Address = Annotated[str, AfterValidator(_as_address)]
Name = Annotated[str, MinLen(1)]
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
    switch_off: Literal["never", "allowed", "by_api_key"] = Field(
        default="never", description="who may request unmarked text"
    )
    labels: Literal["allowed", "never"] = Field(
        default="allowed", description="whether a request may name the label of a derived key"
    )


class LimitsConfig(Table):
    """The limits of the service; times are in seconds."""

    tokens: Count = Field(default=4096, description="maximum tokens per answer")
    choices: Count = Field(default=8, description="maximum answers per request")
    body_bytes: Count = Field(default=1_000_000, description="maximum bytes of a request body")
    body_timeout: Seconds = Field(
        default=30.0, description="seconds for the head of a request to arrive, and for its body"
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
    request_timeout: Seconds = Field(default=300.0, description="seconds for a complete answer")
    encoder_timeout: Seconds = Field(
        default=30.0, description="seconds before an embedding counts as failed"
    )
    first_sentence_timeout: Seconds | None = Field(
        default=None, description="seconds until an answer's first sentence"
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


class LogConfig(Table):
    """The logs on standard error."""

    format: Literal["json", "text"] = Field(
        default="json", description="json for machines, or text for people"
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
    upstream: UpstreamConfig = UpstreamConfig()
    policy: PolicyConfig = PolicyConfig()
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
        return self

    def _from(self, name: str) -> str:
        source = self.source(name)
        return f"{name} (by default)" if source == DEFAULT else f"{name} from {source}"
