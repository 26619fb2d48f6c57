"""What a client asks for: OpenAI's requests, and the field ``watermark``."""

from __future__ import annotations

import json
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StrictBool,
    StrictInt,
    StrictStr,
    model_validator,
)

_LONGEST_STOP = 200
_NOT_JSON = "The request holds a number or a character that JSON does not have."

Stop = Annotated[StrictStr, Field(min_length=1, max_length=_LONGEST_STOP)]


class AskedWatermark(BaseModel):
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


class Asked(BaseModel):
    """What completions and chats have in common.

    Fields beside these go on to the upstream as they are.
    """

    model_config = ConfigDict(extra="allow")

    model: StrictStr | None = Field(default=None, description="one of GET /v1/models")
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
    watermark: AskedWatermark | None = None

    @model_validator(mode="before")
    @classmethod
    def _check_characters(cls, data: Any) -> Any:
        """Python reads NaN and half a surrogate pair; what is sent on must not hold them."""
        try:
            json.dumps(data, allow_nan=False, ensure_ascii=False).encode()
        except ValueError:
            raise ValueError(_NOT_JSON) from None
        return data

    @property
    def mark(self) -> AskedWatermark:
        """What it says of the watermark."""
        return self.watermark or AskedWatermark()

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


class AskedChat(Asked):
    """``POST /v1/chat/completions``."""

    messages: list[dict[str, Any]] = Field(min_length=1)


class AskedCompletion(Asked):
    """``POST /v1/completions``."""

    prompt: (
        StrictStr
        | Annotated[list[StrictStr], Field(min_length=1)]
        | Annotated[list[StrictInt], Field(min_length=1)]
        | Annotated[list[list[StrictInt]], Field(min_length=1)]
    ) = Field(description="a text, several, or tokens")
