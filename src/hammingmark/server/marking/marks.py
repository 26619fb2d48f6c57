"""The watermark status of an answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any
from urllib.parse import quote

from hammingmark.keys.config import TokenConfig
from hammingmark.keys.key import WatermarkKey
from hammingmark.records import Cost, Generation, Verdict
from hammingmark.reports.text import format_p_value
from hammingmark.serialization import cost_to_dict

PROOF_LEVEL = 0.01
"""The p-value up to which an answer alone proves its mark."""

COUNTS = (
    "fallbacks",
    "candidates",
    "drawn_tokens",
    "emitted_tokens",
    "written_tokens",
    "read_tokens",
    "cached_tokens",
    "model_requests",
    "estimated_requests",
)
"""The fields of `cost_to_dict` that are in responses and in the audit log."""

_HIGH_POWER = 0.9  # from which a missing detection means that the mark is weak
SHORT = 2
"""The number of sentences up to which an answer proves nothing, marked or not."""


@dataclass(frozen=True, slots=True)
class Mark:
    """The watermark status of an answer, and its cost.

    Attributes:
        status: ``marked``, ``partly`` or ``unmarked``.
        reason: the reason for the status, as a sentence.
        cause: the same as a metric label.
        key_id: the id of the key that marks it.
        label: the label by which that key was derived.
        p_value: the p-value of the answer as sent, under its key; for the audit log.
        disclosed_p_value: what the client is told of it.
        sentences: the number of sentences that can carry a mark.
        accepted: the number of sentences that satisfy the rule.
        cost: the cost of the generation.
    """

    status: str
    reason: str
    cause: str
    key_id: str | None = None
    label: str | None = None
    p_value: float | None = None
    disclosed_p_value: float | None = None
    sentences: int = 0
    accepted: int = 0
    cost: Cost = field(default_factory=Cost)

    @property
    def content(self) -> dict[str, Any]:
        """The field ``watermark`` of a response."""
        cost = cost_to_dict(self.cost)
        return {
            "status": self.status,
            "reason": self.reason,
            "key_id": self.key_id,
            "label": self.label,
            "p_value": self.disclosed_p_value,
            "sentences": self.sentences,
            "accepted": self.accepted,
            **{name: cost[name] for name in COUNTS},
            "seconds": round(self.cost.seconds, 3),
        }

    @property
    def headers(self) -> dict[str, str]:
        """The response headers with the status and the cost, for proxies that rewrite bodies."""
        headers = {
            "X-Watermark-Status": self.status,
            "X-Watermark-Candidates": str(self.cost.candidates),
            "X-Watermark-Drawn-Tokens": str(self.cost.drawn_tokens),
            "X-Watermark-Written-Tokens": str(self.cost.written_tokens),
            "X-Watermark-Emitted-Tokens": str(self.cost.tokens),
        }
        if self.disclosed_p_value is not None:
            headers["X-Watermark-P-Value"] = str(self.disclosed_p_value)
        return headers | key_headers(self.key_id, self.label)


def key_headers(key_id: str | None, label: str | None) -> dict[str, str]:
    """The response headers that name the key.

    Args:
        key_id: the id of the key that marks; None if none does.
        label: the label by which it was derived.
    """
    if key_id is None:
        return {}
    return {
        "X-Watermark-Key-Id": key_id,
        **({"X-Watermark-Label": quote(label)} if label else {}),
    }


def mark_of(
    generation: Generation, key: WatermarkKey, failure: str = "", *, failed_late: bool = False
) -> Mark:
    """The watermark status of an answer by its generation, before detection.

    Args:
        generation: the generation.
        key: the key that marks it.
        failure: why the answer, or the rest of it, is not marked; for the client.
        failed_late: whether any text was written before that failure.
    """
    cost = generation.cost
    accepted = sum(step.accepted is True for step in generation.steps)

    def mark(status: str, cause: str, reason: str) -> Mark:
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

    is_token_marked = isinstance(key.config, TokenConfig)
    if failure:
        has_mark = accepted or (is_token_marked and failed_late)
        return mark("partly" if has_mark else "unmarked", "failure", f"Marking failed: {failure}")
    if is_token_marked:
        return mark("marked", "complete", "Every token was drawn under the watermark.")
    sentences = len(generation.sentences)
    if not (cost.constrained or sentences):
        return mark("unmarked", "unmarkable", "No sentence of the answer can carry a mark.")
    if not accepted and cost.constrained <= SHORT and sentences <= SHORT + 1:
        # The first sentence of an answer in a chat is free.
        return mark("unmarked", "short", "The answer is too short to choose among its sentences.")
    if not accepted and cost.insisted and not cost.fallbacks:
        return mark("unmarked", "insisted", "The model insists on what it says in this answer.")
    if not accepted:
        return mark("unmarked", "fallbacks", "No candidate satisfied the rule.")
    cause = "fallbacks" if cost.fallbacks or cost.insisted else "complete"
    if accepted == sentences:
        return mark("marked", cause, "Every sentence is marked.")
    return mark("marked", cause, f"{accepted} of {sentences} sentences are marked.")


def with_calls(mark: Mark, *, has_text: bool) -> Mark:
    """The status of an answer that ends with calls of tools, which carry no mark.

    Args:
        mark: the status of its text.
        has_text: whether it has any.
    """
    if not has_text:
        return replace(mark, cause="unmarkable", reason="Calls of tools are not marked.")
    return replace(mark, reason=f"{mark.reason} The calls of tools after the text are not marked.")


def with_reasoning(mark: Mark, *, is_sent: bool) -> Mark:
    """The status of an answer after reasoning, which carries no mark.

    Args:
        mark: the status of the answer.
        is_sent: whether the client gets the reasoning.
    """
    fate = "carries no mark" if is_sent else "cannot be marked and was left out"
    return replace(mark, reason=f"{mark.reason} The reasoning before the answer {fate}.")


def undetected(mark: Mark) -> Mark:
    """The status of a token-marked answer whose detection failed.

    Args:
        mark: the status by its generation.
    """
    reason = f"{mark.reason} It is unknown whether any of them carries it."
    return replace(mark, status="unmarked", cause="failure", reason=reason, key_id=None, label=None)


def total_cost(costs: Sequence[Cost]) -> Cost:
    """The sum of several costs."""
    rows = [asdict(cost) for cost in costs]
    names = [item.name for item in fields(Cost)]
    return Cost(**{name: sum(row[name] for row in rows) for name in names})


def with_verdict(
    mark: Mark, verdict: Verdict | None, disclose: Callable[[float | None], float | None]
) -> Mark:
    """The status of a marked answer after detection.

    Some natural sentences satisfy the rule by chance. So an answer is not called marked if most of
    its sentences are fallbacks and its p-value does not prove the mark. Neither is a token-marked
    answer if none of its tokens counts, or if the test has high power and finds no mark: the model
    may have had no choice.

    Args:
        mark: the status by its generation.
        verdict: the verdict on the answer under its key; None if the detection failed.
        disclose: gives what the client is told of a p-value.
    """
    if verdict is None:
        return mark
    p_value = verdict.p_value
    disclosed_p_value = disclose(p_value)
    mark = replace(mark, p_value=p_value, disclosed_p_value=disclosed_p_value)
    is_token_verdict = verdict.evidence.unit == "token"
    if p_value is None and is_token_verdict and mark.cause == "complete":
        reason = "The answer is too short for any token to carry the mark."
        return replace(
            mark, status="unmarked", cause="short", reason=reason, key_id=None, label=None
        )
    if p_value is None or p_value <= PROOF_LEVEL:
        return mark
    p = f"p is above {PROOF_LEVEL}."
    if disclosed_p_value is not None:
        p = f"p = {format_p_value(disclosed_p_value)}."
    if mark.cause == "complete" and verdict.watermarked is None:
        reason = f"{mark.reason} The answer alone is too short to prove the mark: {p}"
        return replace(mark, cause="short", reason=reason)
    if mark.cause == "complete" and is_token_verdict and (verdict.power or 0.0) >= _HIGH_POWER:
        reason = f"{mark.reason} The mark does not show; the model may have had little choice: {p}"
        return replace(mark, status="partly", cause="fallbacks", reason=reason)
    refused = mark.cost.fallbacks + mark.cost.insisted
    if mark.status == "marked" and refused > mark.accepted:
        accepted = f"{mark.accepted} of {mark.sentences} sentences satisfy the rule"
        reason = f"Only {accepted}, and some do so by chance. The answer alone proves nothing: {p}"
        return replace(mark, status="partly", reason=reason)
    return replace(mark, reason=f"{mark.reason} The answer alone does not prove the mark: {p}")
