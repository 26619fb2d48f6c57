"""Requests and responses of OpenAI's API, with the field ``watermark``."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StrictBool,
    StrictInt,
    StrictStr,
    model_validator,
)

from hammingmark.server.plain_json import check_json

_MAX_STOP_CHARACTERS = 200
_MAX_MESSAGES = 10_000
_MAX_PROMPTS = 1000
_MAX_NAME_CHARACTERS = 200  # of a model; it is in every chunk and in the audit log

Stop = Annotated[StrictStr, Field(min_length=1, max_length=_MAX_STOP_CHARACTERS)]


class WatermarkOptions(BaseModel):
    """The watermark options of a request."""

    model_config = ConfigDict(extra="forbid")

    enabled: StrictBool = Field(
        default=True, description="false requests unmarked text, if the policy allows it"
    )
    label: StrictStr | None = Field(
        default=None,
        min_length=1,
        max_length=200,
        description="mark with the key derived by this label",
    )


class StreamOptions(BaseModel):
    """Options of a stream."""

    model_config = ConfigDict(extra="allow")

    include_usage: StrictBool | None = Field(
        default=None, description="whether a chunk with `usage` comes before `data: [DONE]`"
    )


class GenerationRequest(BaseModel):
    """The fields that completions and chats have in common.

    Other fields are passed on to the upstream unchanged.
    """

    model_config = ConfigDict(extra="allow")

    model: StrictStr | None = Field(
        default=None, max_length=_MAX_NAME_CHARACTERS, description="a model of GET /v1/models"
    )
    temperature: float | None = Field(
        default=None,
        ge=0,
        le=2,
        allow_inf_nan=False,
        description="1 draws from the distribution of the model itself; close to 0 there is "
        "nothing to choose, and no mark",
    )
    top_p: float | None = Field(
        default=None,
        gt=0,
        le=1,
        allow_inf_nan=False,
        description="draw from the likeliest tokens with this total probability",
    )
    top_k: StrictInt | None = Field(
        default=None,
        ge=-1,
        le=1_000_000,
        description="draw from so many of the likeliest tokens; 0 or -1 for all",
    )
    min_p: float | None = Field(
        default=None,
        ge=0,
        le=1,
        allow_inf_nan=False,
        description="draw from tokens at least this fraction as likely as the likeliest",
    )
    n: StrictInt | None = Field(default=None, ge=1, description="number of answers")
    stop: Stop | Annotated[list[Stop], Field(max_length=16)] | None = Field(
        default=None, description="the answer ends before the first of these strings"
    )
    max_tokens: StrictInt | None = Field(
        default=None,
        ge=1,
        description="maximum tokens of the answer, without those of rejected candidates",
    )
    max_completion_tokens: StrictInt | None = Field(
        default=None, ge=1, description="the same as `max_tokens`, and used before it"
    )
    seed: StrictInt | None = Field(
        default=None,
        ge=-(2**63),
        lt=2**63,
        description="the same seed gives the same answer, as far as the model is reproducible",
    )
    stream: StrictBool | None = Field(
        default=None,
        description="whether sentences are sent as server-sent events when they are accepted",
    )
    stream_options: StreamOptions | None = Field(default=None, description="options of a stream")
    watermark: WatermarkOptions | None = Field(default=None, description="options of the watermark")

    @model_validator(mode="before")
    @classmethod
    def _check_json(cls, data: Any) -> Any:
        """Python reads NaN and lone surrogates, which other JSON parsers refuse."""
        check_json(data)
        return data

    @property
    def watermark_options(self) -> WatermarkOptions:
        """The watermark options, with defaults."""
        return self.watermark or WatermarkOptions()

    @property
    def stop_strings(self) -> tuple[str, ...]:
        """The stop strings; an answer ends before the first of them."""
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop or ())

    @property
    def token_limit(self) -> int | None:
        """The maximum of tokens per answer; None if it has none."""
        return self.max_completion_tokens or self.max_tokens

    @property
    def wants_usage(self) -> bool:
        """Whether a stream ends with a chunk of usage."""
        return bool(self.stream_options and self.stream_options.include_usage)


class ChatCompletionRequest(GenerationRequest):
    """``POST /v1/chat/completions``."""

    messages: list[dict[str, Any]] = Field(
        min_length=1,
        max_length=_MAX_MESSAGES,
        description="the conversation: OpenAI's messages, each with `role` and `content`",
    )


class CompletionRequest(GenerationRequest):
    """``POST /v1/completions``."""

    prompt: (
        StrictStr
        | Annotated[list[StrictStr], Field(min_length=1, max_length=_MAX_PROMPTS)]
        | Annotated[list[StrictInt], Field(min_length=1)]
        | Annotated[list[list[StrictInt]], Field(min_length=1, max_length=_MAX_PROMPTS)]
    ) = Field(description="a text, a list of texts, or tokens")


class WatermarkInfo(BaseModel):
    """The watermark status of an answer, and its cost."""

    status: Literal["marked", "partly", "unmarked"] = Field(
        description="`marked`; `partly`: less than all of it is, or it does not show; `unmarked`"
    )
    reason: str = Field(description="reason for the status, as a sentence")
    key_id: str | None = Field(description="the key that marks it")
    label: str | None = Field(description="label by which that key was derived")
    p_value: float | None = Field(description="p-value of the answer as sent, under its key")
    sentences: int = Field(description="sentences that can carry a mark")
    accepted: int = Field(description="sentences that satisfy the rule of the mark")
    fallbacks: int = Field(description="sentences for which no candidate satisfied the rule")
    candidates: int = Field(description="candidates drawn")
    drawn_tokens: int = Field(description="tokens of all candidates judged")
    emitted_tokens: int = Field(description="tokens of the answer")
    written_tokens: int = Field(
        description="tokens that the model wrote, also those that were discarded"
    )
    read_tokens: int = Field(
        description="tokens of the prompts of all requests to the model, with the text written so "
        "far"
    )
    cached_tokens: int = Field(
        description="those of them that were in its cache, as far as the upstream reports them"
    )
    model_requests: int = Field(
        description="requests to the model, also those that failed or were refused"
    )
    estimated_requests: int = Field(
        description="requests whose tokens are counted from the text that arrived, because the "
        "upstream does not report them or its answer was cut off"
    )
    seconds: float = Field(description="seconds that the answer took to write")


class Usage(BaseModel):
    """Tokens of the prompt and of the answer."""

    model_config = ConfigDict(extra="allow")

    prompt_tokens: int = Field(description="tokens of the prompt")
    completion_tokens: int = Field(description="tokens of the answer, with reasoning before it")
    completion_tokens_details: dict[str, Any] | None = Field(
        default=None, description="`reasoning_tokens`, if the model thought before it answered"
    )
    total_tokens: int = Field(description="their sum")
    prompt_tokens_estimated: bool = Field(
        default=False, description="whether prompt_tokens is an estimate"
    )


class _Response(BaseModel):
    # A pass-through response has further fields of the upstream.
    model_config = ConfigDict(extra="allow")

    id: str = Field(description="id of the response")
    object: str = Field(description="kind of the object, as in OpenAI's API")
    created: int = Field(description="when it was made, in seconds since 1970")
    model: str = Field(description="the model that wrote the answer")
    usage: Usage | None = Field(default=None, description="tokens of the prompt and of the answer")
    watermark: WatermarkInfo = Field(description="watermark of all choices together")


class _ResponseChoice(BaseModel):
    model_config = ConfigDict(extra="allow")

    index: int = Field(description="number of the answer, from 0")
    finish_reason: str | None = Field(
        description="`stop`, `length`, or `content_filter` if the upstream cut the model off"
    )
    watermark: WatermarkInfo | None = Field(default=None, description="watermark of this choice")


class ResponseMessage(BaseModel):
    """The message of the model."""

    model_config = ConfigDict(extra="allow")

    role: str = Field(description="`assistant`")
    content: str | None = Field(description="the text; null for calls of functions")
    reasoning_content: str | None = Field(
        default=None,
        description="what the model thought before the text, if its server sends it apart; "
        "`reasoning` if that is its name there",
    )


class ChatChoice(_ResponseChoice):
    """One answer to a chat."""

    message: ResponseMessage = Field(description="the answer")


class TextChoice(_ResponseChoice):
    """One continuation of a text."""

    text: str = Field(description="the continuation")


class ChatCompletionResponse(_Response):
    """An answer to ``POST /v1/chat/completions`` that is not streamed."""

    choices: list[ChatChoice] = Field(description="one or several answers")


class CompletionResponse(_Response):
    """An answer to ``POST /v1/completions`` that is not streamed."""

    choices: list[TextChoice] = Field(description="one or several continuations")
