"""What a watermark decides in generation, and finds in detection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, get_args

if TYPE_CHECKING:
    pass

TopicName = Literal["given", "free"]
TOPICS: tuple[TopicName, ...] = get_args(TopicName)


@dataclass(frozen=True, slots=True)
class Choice:
    """A watermark's choice among candidates, which it judges in the order of drawing.

    Attributes:
        index: the candidate to keep: the first accepted one, otherwise the best.
        accepted: whether it satisfies the rule.
        scores: the score of each candidate, in the order of drawing; more is better.
    """

    index: int
    accepted: bool
    scores: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class UnitScore:
    """The score of one unit under the secret key.

    Attributes:
        score: the number that the method's rule compares with its threshold.
        valid: whether the unit satisfies the rule.
        details: further numbers of the method, by name; bits are a string of 0 and 1.
        counted: whether the unit counts; one that is repeated in the same context may not.
    """

    score: float
    valid: bool
    details: Mapping[str, float | str] = field(default_factory=dict)
    counted: bool = True


@dataclass(frozen=True, slots=True)
class Evidence:
    """The evidence of one text under the secret key.

    Attributes:
        unit: what is scored, such as ``transition`` or ``token``.
        scores: the score of each unit. There may be fewer units than pieces, because the first
            pieces have nothing before them: n sentences have n - 1 transitions.
        max_score: the largest possible score; None if scores are standard normal deviates.
        threshold: the score from which a unit is valid.
        means: statistics that are averaged over the units, by name; empty without any unit.
        sums: statistics that are summed over the units, log-likelihood ratios.
        context_units: the number of preceding pieces that the score of a unit depends on; by
            default the number of first pieces without a score.
        z: statistics in standard deviations above the mean that the method's paper states for
            unmarked text, by name. They are for comparison with the paper; no p-value uses them.
    """

    unit: str
    scores: tuple[UnitScore, ...] = field(repr=False)
    max_score: float | None
    threshold: float
    means: Mapping[str, float] = field(default_factory=dict)
    sums: Mapping[str, float] = field(default_factory=dict)
    context_units: int | None = None
    z: Mapping[str, float] = field(default_factory=dict)

    @property
    def valid(self) -> int:
        """The number of counted units that satisfy the rule."""
        return sum(score.valid and score.counted for score in self.scores)

    @property
    def repeated(self) -> int:
        """The number of units that are repeated and not counted."""
        return sum(not score.counted for score in self.scores)

    def counting(self, counted: Sequence[bool]) -> Evidence:
        """The same evidence for a statistic that counts these units."""
        return replace(
            self,
            scores=tuple(
                replace(score, counted=bool(counts))
                for score, counts in zip(self.scores, counted, strict=True)
            ),
        )

    @property
    def statistics(self) -> dict[str, float]:
        """Every statistic by its name."""
        return {**self.means, **self.sums}
