"""How far an answer is marked, and what is said about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from hammingmark.keys.config import TokenConfig
from hammingmark.keys.key import WatermarkKey
from hammingmark.records import Cost, Generation, Verdict
from hammingmark.serialization import cost_to_dict

PROOF_LEVEL = 0.01
"""The p-value up to which an answer alone proves its mark."""

COUNTS = ("fallbacks", "candidates", "drawn_tokens", "emitted_tokens")
"""What an answer and the audit log tell of its cost, by the names of `cost_to_dict`."""

_SHOWS = 0.9  # the power from which an answer that does not show its mark is odd
SHORT = 2
"""Sentences that prove nothing, marked or not."""


@dataclass(frozen=True, slots=True)
class Mark:
    """How far an answer is marked, and what it took.

    Attributes:
        status: ``marked``, ``partly`` or ``unmarked``.
        reason: why, in a sentence.
        cause: the same in a word, for the metrics.
        key_id: the key that marks it.
        label: by which that was derived.
        p_value: of the answer as it was sent, under its key.
        sentences: that can carry a mark.
        accepted: those that satisfy the rule.
        cost: what was spent.
    """

    status: str
    reason: str
    cause: str
    key_id: str | None = None
    label: str | None = None
    p_value: float | None = None
    sentences: int = 0
    accepted: int = 0
    cost: Cost = field(default_factory=Cost)

    @property
    def content(self) -> dict[str, Any]:
        """The field ``watermark`` of an answer."""
        cost = cost_to_dict(self.cost)
        return {
            "status": self.status,
            "reason": self.reason,
            "key_id": self.key_id,
            "label": self.label,
            "p_value": self.p_value,
            "sentences": self.sentences,
            "accepted": self.accepted,
            **{name: cost[name] for name in COUNTS},
            "seconds": round(self.cost.seconds, 3),
        }

    @property
    def headers(self) -> dict[str, str]:
        """The same for those who look at headers alone."""
        told = {
            "X-Watermark-Status": self.status,
            "X-Watermark-Candidates": str(self.cost.candidates),
            "X-Watermark-Drawn-Tokens": str(self.cost.drawn_tokens),
        }
        return told | ({"X-Watermark-Key-Id": self.key_id} if self.key_id else {})


def mark_of(
    generation: Generation, key: WatermarkKey, failure: str = "", *, began: bool = False
) -> Mark:
    """How far an answer is marked with a key.

    Args:
        generation: what was written of it.
        key: marks it.
        failure: why the rest of it, or all of it, is not marked, in words for a client.
        began: whether anything was written before that failure.
    """
    cost = generation.cost
    accepted = sum(step.accepted is True for step in generation.steps)

    def say(status: str, cause: str, reason: str) -> Mark:
        return Mark(
            status,
            reason,
            cause,
            key_id=key.id if status != "unmarked" else None,
            label=key.label if status != "unmarked" else None,
            sentences=len(generation.sentences),
            accepted=accepted,
            cost=cost,
        )

    whole = isinstance(key.config, TokenConfig)
    if failure:
        marked = accepted or (whole and began)
        return say("partly" if marked else "unmarked", "failure", f"Marking failed: {failure}")
    if whole:
        return say("marked", "complete", "Every token was drawn under the mark.")
    if not cost.constrained:
        return say("unmarked", "unmarkable", "The answer has no sentence that can carry a mark.")
    if not accepted and cost.constrained <= SHORT:
        # Where a model has one thing to say, no candidate differs, and the mark says nothing.
        return say("unmarked", "short", "The answer is short, and no candidate satisfied the rule.")
    if not accepted:
        return say("unmarked", "fallbacks", "No candidate satisfied the rule of the mark.")
    if cost.fallbacks:
        return say("marked", "fallbacks", f"{accepted} of {cost.constrained} sentences are marked.")
    return say("marked", "complete", "Every sentence is marked.")


def unknown(mark: Mark) -> Mark:
    """What is said of tokens drawn under a mark of which nobody could see whether any carries it.

    Args:
        mark: what their writing tells.
    """
    words = f"{mark.reason} But it could not be found out whether any of them carries it."
    return replace(mark, status="unmarked", cause="failure", reason=words, key_id=None, label=None)


def added(costs: Sequence[Cost]) -> Cost:
    """What several texts cost together."""
    rows = [asdict(cost) for cost in costs]
    return Cost(**{each.name: sum(row[each.name] for row in rows) for each in fields(Cost)})


def with_verdict(mark: Mark, verdict: Verdict | None) -> Mark:
    """What is said of an answer that has a mark, once it has been judged.

    Some natural sentences satisfy the rule by chance. An answer of which more were kept against
    the rule than by it, and that does not prove its mark, is not called marked. Nor is one whose
    tokens were all drawn under the mark, if none of them counts, or if so many would nearly always
    show it and do not: the model may have had no choice.

    Args:
        mark: what its writing tells.
        verdict: on the answer under its key; None if it could not be had.
    """
    if verdict is None:
        return mark
    p_value = verdict.p_value
    mark = replace(mark, p_value=p_value)
    is_tokens = verdict.evidence.unit == "token"
    if p_value is None and is_tokens and mark.cause == "complete":
        words = "The answer is so short that none of its tokens can carry the mark."
        return replace(
            mark, status="unmarked", cause="short", reason=words, key_id=None, label=None
        )
    if p_value is None or p_value <= PROOF_LEVEL:
        return mark
    p = f"p = {p_value:.2g}."
    if mark.cause == "complete" and verdict.watermarked is None:
        words = f"{mark.reason} Alone it is too short to prove it: {p}"
        return replace(mark, cause="short", reason=words)
    if mark.cause == "complete" and is_tokens and (verdict.power or 0.0) >= _SHOWS:
        words = f"{mark.reason} But it does not show, as where a model has little choice: {p}"
        return replace(mark, status="partly", cause="fallbacks", reason=words)
    if mark.status == "marked" and 2 * mark.cost.fallbacks > mark.cost.constrained:
        accepted = f"{mark.accepted} of {mark.cost.constrained} sentences satisfy the rule"
        words = f"Only {accepted}, as some do by chance. Alone the answer proves nothing: {p}"
        return replace(mark, status="partly", reason=words)
    return replace(mark, reason=f"{mark.reason} Alone the answer does not prove its mark: {p}")
