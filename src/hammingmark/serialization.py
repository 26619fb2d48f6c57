"""Records as plain data for JSON, in one form for the command, the service and benchmarks.

The result of each function can be passed to ``json.dumps``. The schemas are
``docs/schema/*.json``. Renaming or removing a field, or changing its meaning, makes a new version.
"""

from __future__ import annotations

import math
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from hammingmark.reports.text import edge_margin, is_power_unknown

if TYPE_CHECKING:
    from hammingmark.errors import Failure
    from hammingmark.records import (
        Cost,
        Evidence,
        Generation,
        GenerationStep,
        Passage,
        Screening,
        UnitScore,
        Verdict,
    )

VERDICT_SCHEMA = "hammingmark.verdict/1"
GENERATION_SCHEMA = "hammingmark.generation/1"
SCREENING_SCHEMA = "hammingmark.screening/1"

_SENTENCES = {
    True: "The watermark was found.",
    False: "No watermark was found.",
    None: "Too short to tell.",
}

_WEAK = "Weak evidence for the watermark."
_UNKNOWN = "It cannot be told."


def verdict_to_dict(verdict: Verdict, *, pieces: bool = True) -> dict[str, Any]:
    """A verdict as plain data.

    Args:
        verdict: the verdict.
        pieces: whether to include the sentences or tokens of the text, with their scores.
    """
    evidence, threshold, ratio = verdict.evidence, verdict.threshold, verdict.likelihood_ratio
    is_token = evidence.unit == "token"
    offsets = [0, *accumulate(map(len, verdict.pieces))] if is_token else None
    return {
        "schema": VERDICT_SCHEMA,
        "watermarked": verdict.watermarked,
        "verdict": _sentence(verdict),
        "reason": verdict.reason,
        "p_value": verdict.p_value,
        "level": verdict.level,
        "statistic": verdict.statistic,
        # Infinite if the text is shorter than all of a calibration; JSON lacks infinity.
        "decision_threshold": None if threshold == math.inf else threshold,
        "edits": verdict.edits,
        "null": verdict.null,
        "exact": verdict.exact,
        "references": verdict.references,
        "attainable_p_value": verdict.attainable,
        "power": verdict.power,
        "power_as_written": verdict.power_as_written,
        "power_reworded": verdict.power_reworded,
        "detectable_passage": verdict.detectable_passage,
        "likelihood_ratio": ratio,
        "joint_p_value": verdict.joint_p_value,
        "tail_estimate": verdict.tail_estimate,
        "keys": verdict.keys,
        "excluded_keys": [
            {"key_id": key.key_id, "method": key.method, "reason": key.reason}
            for key in verdict.excluded
        ],
        "key_id": verdict.key_id,
        "label": verdict.label,
        "method": verdict.method,
        "warnings": [
            {"kind": warning.kind, "message": warning.message} for warning in verdict.warnings
        ],
        **evidence_to_dict(evidence, statistic=verdict.statistic),
        "passages": [
            passage_to_dict(passage, margin=edge_margin(verdict, passage), offsets=offsets)
            for passage in verdict.passages
        ],
        "piece": "token" if is_token else "sentence",
        "piece_count": len(verdict.pieces),
        "pieces": _pieces_to_list(verdict) if pieces else [],
    }


def evidence_to_dict(evidence: Evidence, *, statistic: str) -> dict[str, Any]:
    """The evidence of a text as a whole, without its units, which are in the verdict's pieces.

    Args:
        evidence: the evidence.
        statistic: the statistic whose ``z`` is included.
    """
    return {
        "unit": evidence.unit,
        "unit_threshold": evidence.threshold,
        "max_score": evidence.max_score,
        "repeated": evidence.repeated,
        "statistics": evidence.statistics,
        "z": evidence.z.get(statistic),
    }


def passage_to_dict(
    passage: Passage, *, margin: int, offsets: list[int] | None = None
) -> dict[str, Any]:
    """A passage as plain data.

    Args:
        passage: the passage.
        margin: how many pieces each of its edges may be off, within the text.
        offsets: the character offsets of the pieces in their concatenation, and its length; None
            if the text between the pieces is not known.
    """
    return {
        "begin": passage.begin,
        "end": passage.end,
        "begin_character": offsets[passage.begin] if offsets else None,
        "end_character": offsets[passage.end] if offsets else None,
        "edge_margin": margin,
        "rough": passage.rough,
        "p_value": passage.p_value,
        "key_id": passage.key_id,
        "label": passage.label,
    }


def screening_to_dict(screening: Screening) -> dict[str, Any]:
    """What the verdicts on many texts say together, as plain data."""
    return {
        "schema": SCREENING_SCHEMA,
        "texts": screening.texts,
        "watermarked": screening.watermarked,
        "in_part": screening.in_part,
        "not_found": screening.not_found,
        "undecided": screening.undecided,
        "watermarked_runs": screening.runs,
        "tested": screening.tested,
        "level": screening.level,
        "expected_false_positives": screening.expected,
        "exact": screening.exact,
        "shared_sentences": screening.shared_sentences,
        "most_sharing": screening.most_sharing,
        "corrections": [
            {
                "name": each.name,
                "rate": each.rate,
                "stands": each.stands,
                "largest_p_value": each.largest,
            }
            for each in screening.corrections
        ],
        "smallest": [{"source": name, "p_value": p} for name, p in screening.smallest],
    }


def generation_to_dict(generation: Generation) -> dict[str, Any]:
    """A generated text as plain data, with its steps and its cost."""
    cost, sentences = generation.cost, max(1, len(generation.sentences))
    by_sentence = cost.constrained > 0  # otherwise token by token, or unmarked
    return {
        "schema": GENERATION_SCHEMA,
        "text": generation.text,
        "reasoning": generation.reasoning.text if generation.reasoning else None,
        "sentences": len(generation.sentences),
        "prompt_tokens": generation.prompt_tokens,
        "stopped": generation.stopped,
        "error": generation.error,
        "failure": failure_to_dict(generation.failure) if generation.failure else None,
        "candidates_per_sentence": cost.candidates / sentences if by_sentence else None,
        "drawn_tokens_per_sentence": cost.drawn_tokens / sentences,
        "cost": cost_to_dict(cost),
        "steps": [step_to_dict(step) for step in generation.steps],
    }


def failure_to_dict(failure: Failure) -> dict[str, Any]:
    """A failure as plain data, without its message, which is the generation's ``error``."""
    return {
        "kind": failure.kind,
        "origin": failure.origin,
        "status": failure.status,
        "retry_after": failure.retry_after,
    }


def cost_to_dict(cost: Cost) -> dict[str, Any]:
    """The cost of a text as plain data, with the names of the service's metrics."""
    return {
        "candidates": cost.candidates,
        "candidates_tried": cost.tried,
        "candidates_accepted": cost.passed,
        "acceptance_rate": cost.passed / cost.tried if cost.tried else None,
        "constrained_sentences": cost.constrained,
        "fallbacks": cost.fallbacks,
        "insisted": cost.insisted,
        "emitted_tokens": cost.tokens,
        "drawn_tokens": cost.drawn_tokens,
        "repeats": cost.repeats,
        "misfits": cost.misfits,
        "spare_candidates": cost.spare,
        "spare_tokens": cost.spare_tokens,
        "model_requests": cost.requests,
        "read_tokens": cost.read_tokens,
        "cached_tokens": cost.cached_tokens,
        "written_tokens": cost.written_tokens,
        "estimated_requests": cost.estimated_requests,
        "seconds": cost.seconds,
        "encoder_seconds": cost.encoder_seconds,
        "model_seconds": cost.model_seconds,
        "reasoning_tokens": cost.reasoning_tokens,
    }


def step_to_dict(step: GenerationStep) -> dict[str, Any]:
    """A step of generation as plain data."""
    return {
        "text": step.text,
        "sentence": step.sentence,
        "accepted": step.accepted,
        "score": step.score,
        "candidates": step.candidates,
        "emitted_tokens": step.tokens,
        "drawn_tokens": step.drawn_tokens,
        "lead": step.lead,
        "insisted": step.insisted,
    }


def _sentence(verdict: Verdict) -> str:
    if verdict.likelihood_ratio is not None:
        return _WEAK
    return _UNKNOWN if is_power_unknown(verdict) else _SENTENCES[verdict.watermarked]


def _pieces_to_list(verdict: Verdict) -> list[dict[str, Any]]:
    """The pieces in order, each with its score; the first pieces have none."""
    scores = verdict.evidence.scores
    unscored = [None] * (len(verdict.pieces) - len(scores))
    inside = {i for passage in verdict.passages for i in range(passage.begin, passage.end)}
    return [
        _piece_to_dict(text, score, in_passage=i in inside)
        for i, (text, score) in enumerate(zip(verdict.pieces, [*unscored, *scores], strict=True))
    ]


def _piece_to_dict(text: str, score: UnitScore | None, *, in_passage: bool) -> dict[str, Any]:
    return {
        "text": text,
        "score": score.score if score else None,
        "valid": score.valid if score else None,
        "counted": score is not None and score.counted,
        "details": dict(score.details) if score else {},
        "in_passage": in_passage,
    }
