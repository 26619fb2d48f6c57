"""Requests and responses of detection."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictStr

KeyName = Annotated[StrictStr, Field(min_length=1, max_length=100)]
Label = Annotated[StrictStr, Field(min_length=1, max_length=200)]


class DetectionRequest(BaseModel):
    """``POST /v1/watermark/detect``: one text or several."""

    model_config = ConfigDict(extra="forbid")

    text: StrictStr | None = Field(default=None, description="the text")
    texts: Annotated[list[StrictStr], Field(min_length=1)] | None = Field(
        default=None, description="several texts, each with a verdict of its own"
    )
    keys: Annotated[list[KeyName], Field(min_length=1, max_length=1000)] | None = Field(
        default=None, description="ids or names of keys; by default the whole keyring"
    )
    labels: Annotated[list[Label], Field(min_length=1, max_length=10_000)] | None = Field(
        default=None,
        description="search the keys derived from those keys by these labels, instead of the keys "
        "themselves; the p-value is corrected for the number of derived keys, at most 10,000",
    )
    level: float | None = Field(
        default=None, ge=1e-6, lt=1, allow_inf_nan=False, description="false-positive rate"
    )
    edits: StrictBool = Field(
        default=False, description="allow for sentences that were joined, split or inserted"
    )
    pieces: StrictBool = Field(
        default=True, description="include the result for each sentence or token"
    )


class Piece(BaseModel):
    """The result for a sentence or a token of a text."""

    text: str
    score: float | None = Field(description="null for a piece without a context")
    valid: bool | None = Field(description="whether the score satisfies the method's rule")
    counted: bool = Field(description="false for a piece without a score, and for a repeated one")
    details: dict[str, float | str]
    in_passage: bool


class FoundPassage(BaseModel):
    """A passage: consecutive pieces that carry a mark."""

    begin: int
    end: int = Field(description="the number of the piece after the last one")
    begin_character: int | None = Field(description="for tokens: offset in the text that they form")
    end_character: int | None
    p_value: float
    key_id: str | None
    label: str | None


class Result(BaseModel):
    """The verdict on a text, as of `hammingmark.serialization.verdict_to_dict`."""

    schema_: Literal["hammingmark.verdict/1"] = Field(alias="schema")
    watermarked: bool | None
    verdict: str
    reason: str
    p_value: float | None
    level: float
    statistic: str
    decision_threshold: float | None
    edits: bool
    null: str
    references: int
    attainable_p_value: float
    power: float | None
    tail_estimate: float | None
    keys: int
    key_id: str | None
    label: str | None
    method: str | None
    unit: str
    unit_threshold: float
    max_score: float | None
    repeated: int
    statistics: dict[str, float]
    z: float | None
    passages: list[FoundPassage]
    piece: Literal["sentence", "token"]
    piece_count: int
    pieces: list[Piece] = Field(description="empty if the request excludes them")


class Results(BaseModel):
    """One result for each text, in the order of the request."""

    results: list[Result]


class KeyInfo(BaseModel):
    """A key used for detection, without its secret."""

    id: str
    name: str
    method: str
    created: str
    retired: str | None
    marks: bool = Field(description="whether the service marks with it")


class KeyInfos(BaseModel):
    """The keys used for detection."""

    keys: list[KeyInfo]
