"""A dated report on the verdict on one text, to print or to keep: its facts and its words."""

from __future__ import annotations

import hashlib
import math
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Literal

from hammingmark._version import __version__
from hammingmark.reports.text import (
    caveat_in_words,
    counted,
    format_p_value,
    is_power_unknown,
    passage_in_words,
    power_in_words,
    times,
)
from hammingmark.serialization import verdict_to_dict

if TYPE_CHECKING:
    from hammingmark.records import Verdict

REPORT_SCHEMA = "hammingmark.report/1"

Outcome = Literal["found", "part", "weak", "absent", "unknown", "short"]

_RAREST = 1e-9  # beyond this, numbers of cases say nothing more
_POSSIBLE: dict[Outcome, tuple[str, ...]] = {
    "found": (
        "The text, or a part of it, was written with the key named here, or copied from text that "
        "was: chance alone does as well only as often as the p-value says.",
    ),
    "part": (
        "The marked passage was written with the key named here, or copied from text that was: "
        "chance alone does as well only as often as its p-value says.",
    ),
    "weak": (
        "Very little: the text may be marked, and too little of it can be judged. A longer text "
        "from the same source would decide.",
    ),
    "absent": (
        "At the level named here, the text does not show the watermark of these keys. If all of it "
        "had been chosen with one of them and left as it was, it probably would.",
    ),
    "unknown": (
        "Nothing: the score is not rare enough, and how often marked text like this one would be "
        "found is not known for this method.",
    ),
    "short": ("Nothing: too little of the text can be judged.",),
}
_POSSIBLE_WITHOUT_SECRET = (
    "The text, or a part of it, scores as text of this method does. The method has no secret, so "
    "it may come from anyone who uses it.",
)
_POSSIBLE_BY_THRESHOLD = {
    True: (
        "The statistic is above the threshold that was chosen. How often that happens in text "
        "without the watermark depends on the threshold, and this report cannot say it.",
    ),
    False: (
        "The statistic is not above the threshold that was chosen. How often that happens in "
        "marked text depends on the threshold, and this report cannot say it.",
    ),
}
_NO_AUTHOR = (
    "That a person wrote the text. Another model may have written it, or the watermark was lost in "
    "rewriting.",
)
_NOT_CHANCE = (
    "How probable it is that the text has no watermark. The p-value says how often text without "
    "it scores as high. If few of the texts that are judged are marked, a larger share of the "
    "findings is false; then allow fewer false alarms.",
    "Who handed in or published the text: marked text that somebody quotes is still marked, and "
    "whoever has the key file can imitate the watermark.",
)
_WITHOUT_SECRET = (
    "With which key the text was written, or who wrote it: the secret of a key plays no part in "
    "this method, and anyone can imitate it.",
    "That a text without the watermark seldom scores as high: the p-value is not exact, and human "
    "text of some kinds may be called watermarked more often.",
    "How probable it is that the text has no watermark.",
)
_BY_THRESHOLD = (
    "That few texts without the watermark are above the threshold: only the p-value keeps a "
    "false-positive rate, and it did not decide.",
)
_IMPOSSIBLE: dict[Outcome, tuple[str, ...]] = {
    "found": _NOT_CHANCE,
    "part": ("Who or what wrote the rest of the text.", *_NOT_CHANCE),
    "weak": (
        "That the text is marked. Of many short texts without the watermark, some look like this.",
        *_NO_AUTHOR,
    ),
    "absent": _NO_AUTHOR,
    "unknown": ("That the text is not marked.", *_NO_AUTHOR),
    "short": _NO_AUTHOR,
}


@dataclass(frozen=True, slots=True)
class Judge:
    """Who judged a text.

    Attributes:
        name: the operator of the service; None if nobody is named.
        contact: how to reach the operator.
        url: a page about the operator.
    """

    name: str | None = None
    contact: str | None = None
    url: str | None = None


@dataclass(frozen=True, slots=True)
class DatedReport:
    """A verdict on a text with all that is needed to understand it later.

    Attributes:
        text: the text as it was judged.
        verdict: the verdict.
        made: when it was judged, with the time zone of the reader.
        judge: who judged it.
        key_name: the name of the key of the verdict; None if it has none.
        is_own: whether the judge's service marks with that key.
    """

    text: str
    verdict: Verdict
    made: datetime
    judge: Judge = Judge()
    key_name: str | None = None
    is_own: bool = False

    @property
    def outcome(self) -> Outcome:
        """What was found."""
        if self.verdict.watermarked:
            return "found"
        if self.verdict.passages:
            return "part"
        if self.verdict.likelihood_ratio is not None:
            return "weak"
        if is_power_unknown(self.verdict):
            return "unknown"
        return "short" if self.verdict.watermarked is None else "absent"

    @property
    def sha256(self) -> str:
        """The SHA-256 of the text in UTF-8."""
        return hashlib.sha256(self.text.encode("utf-8", "replace")).hexdigest()

    @property
    def sentences(self) -> list[str]:
        """The verdict in words."""
        verdict, outcome = self.verdict, self.outcome
        said = []
        if outcome == "part":
            passage = verdict.passages[0]
            said.append(self._origin(passage.key_id or verdict.key_id, passage.label))
            said.append(
                f"The marked passage is {passage_in_words(verdict, passage)}. "
                f"{_meaning(verdict, passage.p_value, 'would have a passage that scores')} "
                "As a whole, the text does not stand out."
            )
        elif outcome == "found":
            said.append(self._origin(verdict.key_id, verdict.label))
        elif outcome == "weak":
            ratio = times(verdict.likelihood_ratio or 1.0)
            said.append(
                f"Such a score is {ratio} as probable in a marked text like this one as in a text "
                "without the watermark. The text is too short for a verdict."
            )
        elif outcome == "short":
            said.append("The text may or may not be watermarked. A longer text would decide.")
        elif outcome == "unknown":
            said.append(
                "The text may or may not be watermarked: how often marked text like this one would "
                "be found is not known for this method."
            )
        else:
            said.append("That does not mean that a person wrote the text.")
        if verdict.threshold is not None:
            said.append(f"A threshold decided, not the p-value: {verdict.reason}")
        if verdict.p_value is not None and outcome not in ("part", "weak"):
            said.append(_meaning(verdict, verdict.p_value, "would score"))
            level = f"the {100 * verdict.level:g} % that was allowed"
            if verdict.threshold is not None:
                said[-1] += " That did not decide."
            elif outcome == "found":
                said[-1] += f" That is rarer than {level}."
            elif verdict.p_value > verdict.level:
                said[-1] += f" That is not rarer than {level}."
            else:  # passages were searched, too, and each search is another chance
                said.append(verdict.reason)
        if verdict.p_value is not None or outcome in ("found", "part"):
            said.append(caveat_in_words(verdict))
        if verdict.threshold is None:  # at the level, by the p-value
            said.append(power_in_words(verdict))
        return [sentence for sentence in said if sentence]

    @property
    def possible(self) -> tuple[str, ...]:
        """What may be concluded."""
        verdict, outcome = self.verdict, self.outcome
        if verdict.threshold is not None and outcome in ("found", "absent"):
            return _POSSIBLE_BY_THRESHOLD[outcome == "found"]
        if not verdict.exact and outcome in ("found", "part"):
            return _POSSIBLE_WITHOUT_SECRET
        return _POSSIBLE[outcome]

    @property
    def impossible(self) -> tuple[str, ...]:
        """What may not be concluded."""
        verdict, outcome = self.verdict, self.outcome
        if outcome not in ("found", "part"):
            return _IMPOSSIBLE[outcome]
        by_threshold = () if verdict.threshold is None else _BY_THRESHOLD
        reasons = _IMPOSSIBLE[outcome] if verdict.exact else _WITHOUT_SECRET
        return (*by_threshold, *reasons)

    def to_dict(self) -> dict[str, Any]:
        """The report as plain data for JSON, without the text itself, but with its pieces."""
        return {
            "schema": REPORT_SCHEMA,
            "made": self.made.astimezone(timezone.utc).isoformat(timespec="seconds"),
            "made_local": self.made.isoformat(timespec="seconds"),
            "operator": asdict(self.judge),
            "software": "hammingmark",
            "version": __version__,
            "text_sha256": self.sha256,
            "text_characters": len(self.text),
            "key_name": self.key_name,
            "sentences": self.sentences,
            "may_be_concluded": list(self.possible),
            "may_not_be_concluded": list(self.impossible),
            "verdict": verdict_to_dict(self.verdict),
        }

    def _origin(self, key_id: str | None, label: str | None) -> str:
        """Whose watermark it is, as a sentence."""
        if key_id is None:
            return ""
        key = f"key {key_id}" + (f", label {label}" if label else "")
        if not self.verdict.exact:
            method = self.verdict.method or "this key"
            return f"The text scores like text of the method {method} ({key}), whoever wrote it."
        if self.verdict.threshold is not None:
            return f"By a threshold, which proves no origin, the text counts as marked ({key})."
        if self.judge.name and self.is_own:
            return f"Marked by {self.judge.name}’s service ({key})."
        if self.judge.name:
            return f"Marked with a key of {self.judge.name} ({key})."
        return (
            f"Marked with the key “{self.key_name}” ({key})."
            if self.key_name
            else (f"Marked with the {key}.")
        )


def cases(p_value: float) -> str:
    """A p-value as a number of cases, never rarer than it is: ``1 in 7,600 cases``."""
    shown = float(format_p_value(p_value))
    if shown > 0.99:
        return "nearly all cases"
    if shown >= 0.095:
        return f"about {math.ceil(100 * shown - 1e-9)} in 100 cases"
    if shown < _RAREST:
        return "fewer than 1 in a billion cases"
    many = 1 / shown
    unit = 10 ** max(0, math.floor(math.log10(many)) - 1)
    return f"1 in {unit * math.floor(many / unit + 1e-9):,} cases"


def _meaning(verdict: Verdict, p_value: float, scores: str) -> str:
    """What a p-value means; it is corrected for the number of keys already."""
    if not verdict.exact:
        return f"By an estimate, a text without the watermark {scores} as high in {cases(p_value)}."
    keys = "this key" if verdict.keys == 1 else f"any of these {counted(verdict.keys, 'key')}"
    return f"A text written without {keys} {scores} as high in {cases(p_value)}."
