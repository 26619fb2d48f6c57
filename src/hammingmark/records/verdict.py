"""What detection says of a text."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from hammingmark.records.evidence import Evidence
from hammingmark.reports import text as report


@dataclass(frozen=True, slots=True)
class DetectionWarning:
    """Something about a text that limits what its verdict can tell.

    Attributes:
        kind: ``language``: the encoder does not read the language of the text.
        message: for people, as sentences.
    """

    kind: Literal["language"]
    message: str


@dataclass(frozen=True, slots=True)
class Passage:
    """A passage: consecutive pieces of a text, sentences or tokens, that carry the mark.

    Attributes:
        begin: index of its first piece.
        end: index after its last piece.
        p_value: probability that any window of an unmarked text of this kind scores as high.
        key_id: id of the key under which it carries the mark.
        label: the label of that key, if it is a derived one.
        rough: whether only the quarters of the text that it touches are told. It then lies
            somewhere between ``begin`` and ``end``, and nothing is known of its edges.
    """

    begin: int
    end: int
    p_value: float
    key_id: str | None = None
    label: str | None = None
    rough: bool = False


ExclusionReason = Literal["keyless", "needs-model", "no-edits"]
"""Why a key is not searched: its test is not exact and others are, it needs the language model, or
it cannot allow for edits."""


@dataclass(frozen=True, slots=True)
class ExcludedKey:
    """A key that was named but is not searched.

    Attributes:
        key_id: its id; of derived keys, that of the key from which they are derived.
        method: its method.
        reason: why it is not searched.
    """

    key_id: str
    method: str
    reason: ExclusionReason


@dataclass(frozen=True, slots=True)
class Power:
    """How often marked texts like one text would be found: estimates, None where there is none.

    Attributes:
        mean: over what may have happened to the text; what that is depends on the method.
        as_written: if every piece of it but a first sentence had been chosen with the key and left
            as it was; that of an answer in a chat never is.
        reworded: if every sentence of such a text had been reworded, as by a translator.
        passage: the least number of pieces of a marked passage, left as it was, that would be found
            in this text with a probability of at least one half; None if only the whole text would.
    """

    mean: float | None = None
    as_written: float | None = None
    reworded: float | None = None
    passage: int | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """Result of the test on one text.

    Attributes:
        watermarked: True if the p-value of the whole text and the joint one are at most the level
            (or the statistic exceeds the threshold, if there is one), False if not and a mark would
            probably have been found, None if the text is too short to tell: ``power_as_written`` is
            below one half or not known.
        p_value: the p-value, corrected for the number of keys searched; None if the text has no
            unit. ``exact`` says whether it is exact.
        reason: the verdict as a sentence.
        level: the false-positive rate of the verdict.
        statistic: name of the statistic that decided.
        evidence: the evidence of the text under the key, without any edit hypothesis.
        pieces: the pieces of the text: its sentences, or its tokens.
        key_id: id of the key. Of several keys, it is the one with the smallest p-value, or that of
            the best passage if only a passage is watermarked; None if nothing could be compared.
        label: the label of that key, if it is a derived one.
        method: the method of that key.
        keys: the number of keys searched.
        excluded: the keys that were named but are not searched.
        exact: whether the p-values are exact; those of methods without a secret are not.
        null: a description of the null distribution.
        references: the number of draws of the null distribution, such as reference keys.
        attainable: the smallest p-value that a marked text like this one can have, or nearly.
        power: an estimate of the probability that a marked text like this one is detected, over
            what may have happened to it; None if there is no estimate.
        power_as_written: the same if every piece but a first sentence had been chosen with the key
            and left as it was.
        power_reworded: the same if it had then been reworded.
        detectable_passage: the least number of pieces of a marked passage, left as it was, that
            would probably have been found in this text.
        likelihood_ratio: how many times as probable a p-value at most as large is in a marked text
            as in an unmarked one, by estimate, if the evidence is weak: the level was reached, but
            too little of the text can be judged for a verdict. Otherwise None.
        joint_p_value: the p-value of the whole text and its best passage together, corrected like
            ``p_value``. Nothing is claimed of either if it is above the level, so that the level
            holds for all that a verdict claims. None if the text has no unit.
        tail_estimate: an estimate of a p-value too small for the reference keys to show; no test.
        passages: passages that carry the mark at the level, best first.
        threshold: the threshold that decided, if one was used instead of the p-value.
        edits: whether the p-value allows for sentences that were joined, split or inserted.
        warnings: what limits this verdict, such as a language that the encoder does not read.
    """

    watermarked: bool | None
    p_value: float | None
    reason: str
    level: float
    statistic: str
    evidence: Evidence
    pieces: tuple[str, ...]
    key_id: str | None
    label: str | None = None
    method: str | None = None
    keys: int = 1
    excluded: tuple[ExcludedKey, ...] = ()
    exact: bool = True
    null: str = ""
    references: int = 0
    attainable: float = 1.0
    power: float | None = None
    power_as_written: float | None = None
    power_reworded: float | None = None
    detectable_passage: int | None = None
    likelihood_ratio: float | None = None
    joint_p_value: float | None = None
    tail_estimate: float | None = None
    passages: tuple[Passage, ...] = field(default=())
    threshold: float | None = None
    edits: bool = False
    warnings: tuple[DetectionWarning, ...] = ()

    def __repr__(self) -> str:
        return (
            f"Verdict(watermarked={self.watermarked}, p_value={self.p_value}, "
            f"pieces={len(self.pieces)}, key_id={self.key_id!r})"
        )

    def _repr_html_(self) -> str:
        return report.as_html(self)

    def __str__(self) -> str:
        return report.as_text(self)
