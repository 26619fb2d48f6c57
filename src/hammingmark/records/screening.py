"""What the verdicts on many texts say together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

CorrectionName = Literal["holm", "benjamini-yekutieli", "benjamini-hochberg"]


@dataclass(frozen=True, slots=True)
class Correction:
    """Which of many texts stand when their p-values are corrected for their number.

    Attributes:
        name: the procedure (`stats.multiplicity`).
        rate: of ``holm``, the probability that any unmarked text stands; of the others, the mean
            share of unmarked texts among those that stand. ``benjamini-hochberg`` keeps it if the
            p-values are independent, the others however they depend on each other.
        stands: the number of texts that stand.
        largest: the largest p-value that stands; None if none does.
    """

    name: CorrectionName
    rate: float
    stands: int
    largest: float | None


@dataclass(frozen=True, slots=True)
class Screening:
    """What the verdicts on many texts say together.

    Attributes:
        texts: the number of texts that were judged.
        watermarked: texts whose verdict is True.
        in_part: of the others, those with watermarked passages.
        not_found: texts whose verdict is False.
        undecided: texts whose verdict is None.
        runs: runs of shared sentences that were judged apart, and are watermarked.
        tested: texts, and runs of shared sentences that were judged apart, with a p-value. Here
            that is the joint one, of the whole text and its best passage.
        level: the level of each verdict.
        expected: how many of the tested texts reach the level on average if all are unmarked, at
            most: the level times their number.
        exact: whether the p-values are; otherwise neither ``expected`` nor a rate is kept.
        shared_sentences: the number of sentences that stand in several texts.
        most_sharing: in how many texts the most frequent of them stands; 0 if there is none.
        corrections: which texts stand, by several procedures.
        smallest: names and p-values of the texts with the smallest p-values of those that stand by
            any procedure, best first, a limited number.
    """

    texts: int
    watermarked: int
    in_part: int
    not_found: int
    undecided: int
    runs: int
    tested: int
    level: float
    expected: float
    exact: bool
    shared_sentences: int
    most_sharing: int
    corrections: tuple[Correction, ...]
    smallest: tuple[tuple[str, float], ...]
