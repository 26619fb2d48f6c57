"""Requests and responses of detection."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt, StrictStr

from hammingmark.records import ExclusionReason
from hammingmark.stats.sums import SMALLEST

KeyName = Annotated[StrictStr, Field(min_length=1, max_length=100)]
Label = Annotated[StrictStr, Field(min_length=1, max_length=200)]


class DetectionOptions(BaseModel):
    """How texts are judged."""

    model_config = ConfigDict(extra="forbid")

    keys: Annotated[list[KeyName], Field(min_length=1, max_length=1000)] | None = Field(
        default=None, description="ids or names of keys; by default the whole keyring"
    )
    labels: Annotated[list[Label], Field(min_length=1, max_length=10_000)] | None = Field(
        default=None,
        description="search the keys derived from those keys by these labels, instead of the keys "
        "themselves; the p-value is corrected for the number of derived keys, at most 10,000",
    )
    level: float | None = Field(
        default=None, ge=SMALLEST, lt=1, allow_inf_nan=False, description="false-positive rate"
    )
    edits: StrictBool = Field(
        default=False, description="allow for sentences that were joined, split or inserted"
    )


class DetectionRequest(DetectionOptions):
    """``POST /v1/watermark/detect``: one text or several."""

    text: StrictStr | None = Field(default=None, description="the text")
    texts: Annotated[list[StrictStr], Field(min_length=1)] | None = Field(
        default=None, description="several texts, each with a verdict of its own"
    )
    pieces: StrictBool = Field(
        default=True, description="include the result for each sentence or token"
    )


class ReportRequest(DetectionOptions):
    """``POST /v1/watermark/report``: one text."""

    text: StrictStr = Field(description="the text")
    utc_offset: StrictInt = Field(
        default=0,
        ge=-840,
        le=840,
        description="minutes by which the reader's clock is ahead of UTC, for the local time",
    )


class Piece(BaseModel):
    """The result for a sentence or a token of a text."""

    text: str = Field(description="the piece as it was judged")
    score: float | None = Field(description="null for a piece without a context")
    valid: bool | None = Field(description="whether the score satisfies the method's rule")
    counted: bool = Field(description="false for a piece without a score, and for a repeated one")
    details: dict[str, float | str] = Field(
        description="further figures of the method by name; bits are a string of 0 and 1"
    )
    in_passage: bool = Field(description="whether it lies in a passage that carries the mark")


class FoundPassage(BaseModel):
    """A passage: consecutive pieces that carry a mark."""

    begin: int = Field(description="number of its first piece, from 0")
    end: int = Field(description="the number of the piece after the last one")
    begin_character: int | None = Field(description="for tokens: offset in the text that they form")
    end_character: int | None = Field(description="for tokens: offset after its last character")
    edge_margin: int = Field(description="how many pieces each edge may be off, within the text")
    rough: bool = Field(
        description="whether only the quarters of the text that it touches are told; it then lies "
        "somewhere between `begin` and `end`"
    )
    p_value: float = Field(
        description="probability that any part of an unmarked text scores as high, corrected for "
        "the number of keys"
    )
    key_id: str | None = Field(description="the key under which it carries the mark")
    label: str | None = Field(description="the label by which that key was derived")


class ExcludedKey(BaseModel):
    """A key that was named but is not searched."""

    key_id: str = Field(description="id of the key")
    method: str = Field(description="its method")
    reason: ExclusionReason = Field(
        description="`keyless`: its test is not exact, and those of other keys are; `needs- "
        "model`: detection needs the language model that wrote the text; `no-edits`: "
        "the method cannot allow for edits"
    )


class DetectionWarning(BaseModel):
    """Something about a text that limits what its verdict can tell."""

    kind: Literal["language"] = Field(
        description="`language`: the encoder does not read the language of the text"
    )
    message: str = Field(description="for people")


class Result(BaseModel):
    """The verdict on a text, as of `hammingmark.serialization.verdict_to_dict`."""

    schema_: Literal["hammingmark.verdict/1"] = Field(
        alias="schema", description="name and version of this form"
    )
    watermarked: bool | None = Field(
        description="the verdict; null if too little of the text can be judged to tell; false only "
        "if a mark would probably have been found"
    )
    verdict: str = Field(description="the verdict as a sentence")
    reason: str = Field(description="the reason for the verdict, as a sentence")
    p_value: float | None = Field(
        description="p-value, corrected for the number of keys: how often a text written without "
        "these keys scores as high; null where nothing can be scored, or where the "
        "policy does not tell it"
    )
    level: float = Field(description="the false-positive rate that is kept")
    statistic: str = Field(description="name of the statistic that decided")
    decision_threshold: float | None = Field(
        description="threshold of the statistic, if one was used in place of the p-value"
    )
    edits: bool = Field(
        description="whether the p-value allows for sentences that were joined, split or inserted"
    )
    null: str = Field(
        description="how the null distribution is known; empty where there is no p-value"
    )
    exact: bool = Field(
        description="whether the p-values are exact; those of methods without a secret are not: "
        "anyone can compute their scores, and unmarked text may reach them more often"
    )
    references: int = Field(
        description="number of reference keys or texts that were drawn for the p-value"
    )
    attainable_p_value: float = Field(
        description="about the smallest p-value that a marked text like this one can have"
    )
    power: float | None = Field(
        description="estimate: share of marked texts like this one that would be found, over what "
        "may have happened to them"
    )
    power_as_written: float | None = Field(
        description="estimate: the same if every piece but a first sentence had been chosen with "
        "the key and left as it was; below one half, the verdict is null"
    )
    power_reworded: float | None = Field(
        description="estimate: the same if every sentence had then been reworded"
    )
    detectable_passage: int | None = Field(
        description="estimate: least number of pieces of a marked passage in this text, left as it "
        "was, that would probably be found"
    )
    likelihood_ratio: float | None = Field(
        description="only of weak evidence, where the level was reached and the text is too short "
        "for a verdict: how many times as probable a p-value at most as large is in a "
        "marked text as in an unmarked one, by estimate"
    )
    joint_p_value: float | None = Field(
        description="p-value of the whole text and its best passage together; above the level "
        "nothing is claimed of either"
    )
    tail_estimate: float | None = Field(
        description="estimate below the smallest exact p-value; not a test"
    )
    keys: int = Field(description="number of keys that were searched")
    excluded_keys: list[ExcludedKey] = Field(
        description="keys that were named but are not searched"
    )
    key_id: str | None = Field(
        description="the key; of several, the one with the smallest p-value; null where there "
        "was nothing to compare, or where `detail` is `verdict` and the mark of no key was found"
    )
    label: str | None = Field(description="the label by which that key was derived")
    method: str | None = Field(description="the method of that key")
    warnings: list[DetectionWarning] = Field(description="what limits the verdict; usually empty")
    unit: str = Field(
        description="what is scored: `transition`, a pair of neighbouring sentences; `sentence`; "
        "or `token`"
    )
    unit_threshold: float = Field(description="the score from which a unit is valid")
    max_score: float | None = Field(
        description="the largest score of a unit; null where scores are standard normal deviates"
    )
    repeated: int = Field(
        description="number of units that are repeated in the same context, and not counted"
    )
    statistics: dict[str, float] = Field(description="every statistic by its name")
    z: float | None = Field(
        description="standard deviations above the mean of unmarked text, for methods that have "
        "such a test"
    )
    passages: list[FoundPassage] = Field(description="passages that carry the mark, best first")
    piece: Literal["sentence", "token"] = Field(description="what the text was cut into")
    piece_count: int = Field(description="into how many pieces")
    pieces: list[Piece] = Field(description="empty if the request excludes them")


class Results(BaseModel):
    """One result for each text, in the order of the request."""

    detail: Literal["scores", "p_value", "verdict"] = Field(
        description="how much of the verdicts the policy of the service tells this client"
    )
    results: list[Result] = Field(
        description="one verdict for each text, in the order of the request"
    )


class KeyInfo(BaseModel):
    """A key used for detection, without its secret."""

    id: str = Field(description="id of the key, the same in every verdict")
    name: str = Field(description="name of the key in the keyring")
    method: str = Field(description="its method")
    created: str = Field(description="when it was made, in ISO 8601")
    retired: str | None = Field(
        description="when it was retired, in ISO 8601; null if it still marks"
    )
    marks: bool = Field(
        description="whether the service marks with it or, if it rotates keys, with keys derived "
        "from it"
    )
    label: str | None = Field(
        description="label of the derived key that marks at this time; null if the key itself "
        "marks or does not mark, or if each request has a label of its own"
    )
    derived_keys: int = Field(
        description="number of keys derived from it that are searched together with it"
    )
    own: bool = Field(
        description="whether the service marks with it, or did before the key was rotated"
    )


class KeyInfos(BaseModel):
    """The keys used for detection."""

    keys: list[KeyInfo] = Field(description="all keys of the keyring")


class Operator(BaseModel):
    """Who runs the service."""

    name: str | None = Field(description="name")
    contact: str | None = Field(description="how to reach the operator")
    url: str | None = Field(description="page about the operator or the service")


class About(BaseModel):
    """Who runs the service, and by which software."""

    operator: Operator = Field(description="who runs the service; null where it is not set")
    software: Literal["hammingmark"] = Field(description="name of the software")
    version: str = Field(description="version of the software")


class ReportData(BaseModel):
    """A dated report as data, as of `hammingmark.reports.dated.DatedReport.to_dict`."""

    schema_: Literal["hammingmark.report/1"] = Field(
        alias="schema", description="name and version of this form"
    )
    made: str = Field(description="when the text was judged, in ISO 8601, UTC")
    made_local: str = Field(description="the same in the reader's local time")
    operator: Operator = Field(description="who runs the service that judged it")
    software: Literal["hammingmark"] = Field(description="name of the software")
    version: str = Field(description="version of the software")
    text_sha256: str = Field(description="SHA-256 of the text in UTF-8")
    text_characters: int = Field(description="length of the text")
    key_name: str | None = Field(description="name of the key of the verdict")
    sentences: list[str] = Field(description="the verdict in words")
    may_be_concluded: list[str] = Field(description="what may be concluded")
    may_not_be_concluded: list[str] = Field(description="what may not be concluded")
    verdict: Result = Field(description="the verdict")


class ReportResponse(BaseModel):
    """A dated report on a text. The service keeps neither the text nor the report."""

    report: ReportData = Field(description="the report as data")
    html: str = Field(
        description="the same as a page of HTML, complete in itself, to print or keep"
    )
