"""How much of a verdict clients are told.

Exact p-values and scores let a client who may ask about texts of his choice learn the key, or forge
the mark sentence by sentence (``docs/security.md``).
"""

from __future__ import annotations

import math
from typing import Literal

from hammingmark.records import Evidence, Passage, Verdict
from hammingmark.reports.text import caveat_in_words, is_power_unknown

Detail = Literal["scores", "p_value", "verdict"]
"""What is told: everything; all but the scores; or the verdict, by a coarse ladder of p-values."""

_FLOOR = 1e-6  # no smaller p-value is told by the ladder
_SMALLEST = 1e-300
_PARTS = 4  # into which a text is divided to tell where a passage is
_ROUNDING = 1e-9
_LEAST = 0.05  # a smaller power is told as this one, and a larger one than 0.95 as that


def rung(p_value: float, *, top: float) -> float | None:
    """A p-value rounded up to the next of ``top``, a tenth of it, a hundredth, …; None above."""
    if p_value > top:
        return None
    steps = math.floor(math.log10(top / max(p_value, _SMALLEST)) + _ROUNDING)
    return _rung(top, steps)


def level_of(level: float, *, top: float) -> float:
    """The largest level of the ladder that is at most a given one."""
    return _rung(top, max(0, math.ceil(math.log10(top / level) - _ROUNDING)))


def disclosed(verdict: Verdict, detail: Detail, *, top: float) -> Verdict:
    """A verdict with what a client is told of it.

    Args:
        verdict: the verdict.
        detail: what is told.
        top: the largest p-value of the ladder, the level of the service.
    """
    if detail == "scores":
        return verdict
    is_coarse = detail == "verdict"
    p_value, joint, written = verdict.p_value, verdict.joint_p_value, verdict.power_as_written
    if is_coarse and p_value is not None and joint is not None:
        p_value = max(p_value, joint)  # both decide
    evidence = verdict.evidence
    is_named = not is_coarse or verdict.keys == 1 or _is_found(verdict)
    # Not by `replace`: a new field is told only where it is named here.
    return Verdict(
        watermarked=verdict.watermarked,
        p_value=coarse_p_value(p_value, verdict.level, top) if is_coarse and p_value else p_value,
        joint_p_value=coarse_p_value(joint, verdict.level, top) if is_coarse and joint else joint,
        reason=_reason_with_caveat(verdict, top) if is_coarse else verdict.reason,
        level=verdict.level,
        statistic=verdict.statistic,
        evidence=Evidence(evidence.unit, (), evidence.max_score, evidence.threshold),
        pieces=verdict.pieces,
        key_id=verdict.key_id if is_named else None,
        label=verdict.label if is_named else None,
        method=verdict.method,
        keys=verdict.keys,
        excluded=verdict.excluded,
        warnings=verdict.warnings,
        exact=verdict.exact,
        null=verdict.null,
        # By the ladder of the level, so that it stays on its side of the level.
        attainable=coarse_p_value(verdict.attainable, verdict.level, top) or 1.0,
        power=_tenths(verdict.power) if is_coarse else verdict.power,
        power_as_written=_tenths(written) if is_coarse else written,
        power_reworded=_tenths(verdict.power_reworded) if is_coarse else verdict.power_reworded,
        detectable_passage=verdict.detectable_passage,
        likelihood_ratio=_at_the_level(verdict) if is_coarse else verdict.likelihood_ratio,
        passages=_roughly(verdict, top) if is_coarse else verdict.passages,
        threshold=verdict.threshold,
        edits=verdict.edits,
    )


def _is_found(verdict: Verdict) -> bool:
    """Whether the mark of a key was found.

    Of several keys, the one that a text without a mark happens to be nearest to tells which texts
    to put together for that key.
    """
    return bool(verdict.watermarked or verdict.passages or verdict.likelihood_ratio is not None)


def _rung(top: float, steps: int) -> float:
    return float(f"{top!r}e-{steps}") if "e" not in repr(top) else top * 10.0**-steps


def coarse_p_value(p_value: float, level: float, top: float) -> float | None:
    """A p-value by the ladder of the largest one that is told; None above, 1e-6 at least."""
    step = rung(p_value, top=top)
    return None if step is None else max(step, min(level, _FLOOR))


def _tenths(share: float | None) -> float | None:
    return None if share is None else min(max(round(share, 1), _LEAST), 1.0 - _LEAST)


def _at_the_level(verdict: Verdict) -> float | None:
    """The likelihood ratio of reaching the level, by one digit, which tells less of the p-value."""
    if verdict.likelihood_ratio is None:
        return None
    return max(1.0, float(f"{(verdict.power_as_written or 0.0) / verdict.level:.0e}"))


def _reason_with_caveat(verdict: Verdict, top: float) -> str:
    return " ".join(filter(None, (_reason(verdict, top), caveat_in_words(verdict))))


def _reason(verdict: Verdict, top: float) -> str:
    if verdict.likelihood_ratio is not None:
        return "p is at most the level, but the text is too short for a verdict."
    if is_power_unknown(verdict):
        return (
            f"p is above the level {verdict.level:g}. How often marked text like this would be "
            "found is not known for this method."
        )
    if verdict.watermarked is None:
        return "The text is too short to tell."
    p_value = max(verdict.p_value or 0.0, verdict.joint_p_value or 0.0)
    bound = coarse_p_value(p_value, verdict.level, top) if p_value else None
    if verdict.watermarked and bound is not None:
        return f"p is at most {bound:g}; the level is {verdict.level:g}."
    return f"p is above the level {verdict.level:g}."


def _roughly(verdict: Verdict, top: float) -> tuple[Passage, ...]:
    """The passages by the quarters of the text that they touch, each once, and called rough."""
    count = len(verdict.pieces)
    bounds = [round(count * part / _PARTS) for part in range(_PARTS + 1)]
    places: dict[tuple[int, int, str | None], Passage] = {}
    for passage in verdict.passages:  # best first
        begin = max(bound for bound in bounds if bound <= passage.begin)
        end = min(bound for bound in bounds if bound >= passage.end)
        p_value = coarse_p_value(passage.p_value, verdict.level, top) or verdict.level
        rough = Passage(begin, end, p_value, passage.key_id, passage.label, rough=True)
        places.setdefault((begin, end, passage.key_id), rough)
    return tuple(places.values())
