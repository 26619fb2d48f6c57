"""Requests and responses of OpenAI's Responses API, with the field ``watermark``."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt, StrictStr, model_validator

from hammingmark.server.marking.schema import WatermarkInfo, WatermarkOptions
from hammingmark.server.plain_json import check_json

_MAX_ITEMS = 10_000
_MAX_NAME_CHARACTERS = 200  # of a model; it is in every event and in the audit log


class ResponsesRequest(BaseModel):
    """``POST /v1/responses``.

    Other fields are those of a chat, such as `top_k` or `seed`.
    """

    model_config = ConfigDict(extra="allow")

    model: StrictStr | None = Field(
        default=None, max_length=_MAX_NAME_CHARACTERS, description="a model of GET /v1/models"
    )
    input: (
        StrictStr | Annotated[list[dict[str, Any]], Field(min_length=1, max_length=_MAX_ITEMS)]
    ) = Field(description="a text, or messages, calls of functions and their results")
    instructions: StrictStr | None = Field(default=None, description="the system message")
    max_output_tokens: StrictInt | None = Field(
        default=None,
        ge=1,
        description="maximum tokens of the answer, without those of rejected candidates",
    )
    temperature: float | None = Field(
        default=None, ge=0, le=2, allow_inf_nan=False, description="as of a chat"
    )
    top_p: float | None = Field(
        default=None, gt=0, le=1, allow_inf_nan=False, description="as of a chat"
    )
    stream: StrictBool | None = Field(
        default=None, description="whether typed events are sent as the text is accepted"
    )
    tools: list[dict[str, Any]] | None = Field(default=None, description="functions only")
    tool_choice: StrictStr | dict[str, Any] | None = Field(
        default=None, description="passed on to an upstream"
    )
    parallel_tool_calls: StrictBool | None = Field(
        default=None, description="passed on to an upstream"
    )
    text: dict[str, Any] | None = Field(
        default=None, description="format of the answer; JSON cannot be marked"
    )
    reasoning: dict[str, Any] | None = Field(
        default=None, description="`effort` is passed on to an upstream"
    )
    metadata: dict[str, Any] | None = Field(default=None, description="returned with the response")
    store: StrictBool | None = Field(default=None, description="without effect: nothing is stored")
    truncation: StrictStr | None = Field(default=None, description="without effect: never cut")
    include: list[StrictStr] | None = Field(
        default=None, description="accepted without effect; log-probabilities are refused"
    )
    top_logprobs: StrictInt | None = Field(default=None, description="refused")
    background: StrictBool | None = Field(default=None, description="refused: nothing is stored")
    previous_response_id: StrictStr | None = Field(
        default=None, description="refused: nothing is stored, so send the whole conversation"
    )
    conversation: StrictStr | dict[str, Any] | None = Field(
        default=None, description="refused: nothing is stored"
    )
    prompt: dict[str, Any] | None = Field(default=None, description="refused: nothing is stored")
    watermark: WatermarkOptions | None = Field(default=None, description="options of the watermark")

    @model_validator(mode="before")
    @classmethod
    def _check_json(cls, data: Any) -> Any:
        """Python reads NaN and lone surrogates, which other JSON parsers refuse."""
        check_json(data)
        return data


class ResponsesUsage(BaseModel):
    """Tokens of the input and of the output."""

    model_config = ConfigDict(extra="allow")

    input_tokens: int = Field(description="tokens of the input")
    output_tokens: int = Field(description="tokens of the output")
    total_tokens: int = Field(description="their sum")
    input_tokens_estimated: bool = Field(
        default=False, description="whether input_tokens is an estimate"
    )


class ResponsesResponse(BaseModel):
    """The response to a request that is not streamed."""

    model_config = ConfigDict(extra="allow")

    id: str = Field(description="id of the response")
    object: Literal["response"] = Field(description="kind of the object")
    created_at: int = Field(description="when it was made, in seconds since 1970")
    status: Literal["completed", "incomplete"] = Field(description="`incomplete` if it was cut off")
    incomplete_details: dict[str, Any] | None = Field(description="why it is incomplete: `reason`")
    model: str = Field(description="the model that wrote the answer")
    output: list[dict[str, Any]] = Field(description="a message, calls of functions, reasoning")
    usage: ResponsesUsage | None = Field(description="tokens of the input and of the output")
    store: Literal[False] = Field(description="nothing is stored")
    watermark: WatermarkInfo = Field(description="watermark of the answer")
