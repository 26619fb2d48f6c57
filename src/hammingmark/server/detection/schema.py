"""What is asked about texts, and what is told."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictStr

KeyName = Annotated[StrictStr, Field(min_length=1, max_length=100)]
Label = Annotated[StrictStr, Field(min_length=1, max_length=200)]


class DetectionRequest(BaseModel):
    """``POST /v1/watermark/detect``: one text, or several."""

    model_config = ConfigDict(extra="forbid")

    text: StrictStr | None = Field(default=None, description="the text to judge")
    texts: Annotated[list[StrictStr], Field(min_length=1)] | None = Field(
        default=None, description="several texts, each judged by itself"
    )
    keys: Annotated[list[KeyName], Field(min_length=1, max_length=1000)] | None = Field(
        default=None, description="ids or names of keys; by default the whole keyring"
    )
    labels: Annotated[list[Label], Field(min_length=1, max_length=10_000)] | None = Field(
        default=None,
        description="search the keys that those keys have for these labels, in place of the keys "
        "themselves; the p-value is corrected for the number of derived keys, 10,000 at most",
    )
    level: float | None = Field(
        default=None, ge=1e-6, lt=1, allow_inf_nan=False, description="false-positive rate to keep"
    )
    edits: StrictBool = Field(
        default=False, description="allow for sentences that were joined, split or inserted"
    )
    pieces: StrictBool = Field(
        default=True, description="tell of every sentence or token what it says"
    )


class Piece(BaseModel):
    """A sentence or a token of a text, and what it says."""

    text: str
    score: float | None = Field(description="null for a piece with nothing before it")
    valid: bool | None = Field(description="whether the score satisfies the method's rule")
    counted: bool = Field(description="false for one without a score, and for one repeated")
    details: dict[str, float | str]
    in_passage: bool


class FoundPassage(BaseModel):
    """Pieces that carry a mark."""

    begin: int
    end: int = Field(description="the number of the piece after the last one")
    begin_character: int | None = Field(description="of tokens, in the text that they make")
    end_character: int | None
    p_value: float
    key_id: str | None
    label: str | None


class Result(BaseModel):
    """The verdict on a text: what `hammingmark.serialization.verdict_to_dict` gives."""

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
    pieces: list[Piece] = Field(description="empty if they were not asked for")


class Results(BaseModel):
    """One result for each text, in the order of the request."""

    results: list[Result]


class KeyInfo(BaseModel):
    """A key that texts are searched for; nothing that depends on its secret but its id is told."""

    id: str
    name: str
    method: str
    created: str
    retired: str | None
    marks: bool = Field(description="whether the service marks with it")


class KeyInfos(BaseModel):
    """The keys that texts are searched for."""

    keys: list[KeyInfo]


ERRORS: dict[int | str, dict[str, Any]] = {
    400: {"description": "The request makes no sense; the error says why."},
    401: {"description": "No API key, or none that is known."},
    403: {"description": "The API key is not good for this, or the policy forbids it."},
    404: {"description": "No such key or model."},
    413: {"description": "The request is too large."},
    422: {"description": "A field is missing, unknown or of another kind."},
    429: {"description": "Too many requests; `Retry-After` says when to try again."},
    502: {"description": "The language model failed."},
    503: {"description": "The service cannot mark, judge or record at present."},
    504: {"description": "It took too long."},
}
"""What may go wrong, for the documentation of the interface."""
