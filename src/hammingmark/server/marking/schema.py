"""What a client asks for: OpenAI's requests, and the field ``watermark``."""

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

_LONGEST_STOP = 200
_MOST_MESSAGES = 10_000
_MOST_PROMPTS = 1000
_LONGEST_NAME = 200  # of a model; it is in every chunk and in the audit log

Stop = Annotated[StrictStr, Field(min_length=1, max_length=_LONGEST_STOP)]


class WatermarkOptions(BaseModel):
    """What a request says of the watermark."""

    model_config = ConfigDict(extra="forbid")

    enabled: StrictBool = Field(
        default=True, description="false asks for unmarked text, where the policy allows it"
    )
    label: StrictStr | None = Field(
        default=None, min_length=1, max_length=200, description="marks with the key of this label"
    )


class StreamOptions(BaseModel):
    """How a stream ends."""

    model_config = ConfigDict(extra="allow")

    include_usage: StrictBool | None = None


class GenerationRequest(BaseModel):
    """What completions and chats have in common.

    Fields beside these go on to the upstream as they are.
    """

    model_config = ConfigDict(extra="allow")

    model: StrictStr | None = Field(
        default=None, max_length=_LONGEST_NAME, description="one of GET /v1/models"
    )
    temperature: float | None = Field(default=None, ge=0, le=2, allow_inf_nan=False)
    top_p: float | None = Field(default=None, gt=0, le=1, allow_inf_nan=False)
    top_k: StrictInt | None = Field(default=None, ge=-1, le=1_000_000)
    min_p: float | None = Field(default=None, ge=0, le=1, allow_inf_nan=False)
    n: StrictInt | None = Field(default=None, ge=1, description="how many answers")
    stop: Stop | Annotated[list[Stop], Field(max_length=16)] | None = None
    max_tokens: StrictInt | None = Field(default=None, ge=1)
    max_completion_tokens: StrictInt | None = Field(default=None, ge=1)
    seed: StrictInt | None = Field(default=None, ge=-(2**63), lt=2**63)
    stream: StrictBool | None = None
    stream_options: StreamOptions | None = None
    watermark: WatermarkOptions | None = None

    @model_validator(mode="before")
    @classmethod
    def _check_json(cls, data: Any) -> Any:
        """Python reads NaN and half a surrogate pair; what is sent on must not hold them."""
        check_json(data)
        return data

    @property
    def mark(self) -> WatermarkOptions:
        """What it says of the watermark."""
        return self.watermark or WatermarkOptions()

    @property
    def stops(self) -> tuple[str, ...]:
        """Strings before which an answer ends."""
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop or ())

    @property
    def tokens(self) -> int | None:
        """Tokens of an answer at most, if it says so."""
        return self.max_completion_tokens or self.max_tokens

    @property
    def wants_usage(self) -> bool:
        """Whether a stream is to end with its usage."""
        return bool(self.stream_options and self.stream_options.include_usage)


class ChatCompletionRequest(GenerationRequest):
    """``POST /v1/chat/completions``."""

    messages: list[dict[str, Any]] = Field(min_length=1, max_length=_MOST_MESSAGES)


class CompletionRequest(GenerationRequest):
    """``POST /v1/completions``."""

    prompt: (
        StrictStr
        | Annotated[list[StrictStr], Field(min_length=1, max_length=_MOST_PROMPTS)]
        | Annotated[list[StrictInt], Field(min_length=1)]
        | Annotated[list[list[StrictInt]], Field(min_length=1, max_length=_MOST_PROMPTS)]
    ) = Field(description="a text, several, or tokens")


class WatermarkInfo(BaseModel):
    """How far an answer is marked, and what it took."""

    status: Literal["marked", "partly", "unmarked"]
    reason: str = Field(description="why, in a sentence")
    key_id: str | None = Field(description="the key that marks it")
    label: str | None = Field(description="by which that key was derived")
    p_value: float | None = Field(description="of the answer as it was sent, under its key")
    sentences: int = Field(description="that can carry a mark")
    accepted: int = Field(description="those that satisfy the rule of the mark")
    fallbacks: int = Field(description="those for which no candidate satisfied it")
    candidates: int = Field(description="that were drawn")
    drawn_tokens: int = Field(description="of all candidates")
    emitted_tokens: int = Field(description="of the answer")
    seconds: float


class Usage(BaseModel):
    """Tokens of the prompt and of the answer."""

    model_config = ConfigDict(extra="allow")

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_estimated: bool = Field(
        default=False, description="whether those of the prompt are an estimate"
    )


class _Response(BaseModel):
    # What passes through has what the upstream says.
    model_config = ConfigDict(extra="allow")

    id: str
    object: str
    created: int
    model: str
    usage: Usage | None = None
    watermark: WatermarkInfo = Field(description="of all choices together")


class _ResponseChoice(BaseModel):
    model_config = ConfigDict(extra="allow")

    index: int
    finish_reason: str | None
    watermark: WatermarkInfo | None = Field(default=None, description="of this choice")


class ResponseMessage(BaseModel):
    """What the model says."""

    model_config = ConfigDict(extra="allow")

    role: str
    content: str | None


class ChatChoice(_ResponseChoice):
    """One answer to a chat."""

    message: ResponseMessage


class TextChoice(_ResponseChoice):
    """One continuation of a text."""

    text: str


class ChatCompletionResponse(_Response):
    """An answer to ``POST /v1/chat/completions`` that is not streamed."""

    choices: list[ChatChoice]


class CompletionResponse(_Response):
    """An answer to ``POST /v1/completions`` that is not streamed."""

    choices: list[TextChoice]
