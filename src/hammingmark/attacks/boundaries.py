"""Merging neighbouring sentences, and splitting sentences in two."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np

from hammingmark.attacks.base import pick, round_at_random
from hammingmark.attacks.sentences import SentenceAttack
from hammingmark.attacks.word_spans import word_set
from hammingmark.records import Unit
from hammingmark.text.words import split_words

# Words that are capitalised only because they begin a sentence.
_COMMON = word_set(
    """
    a after all although an and another as at because before both but by each even every few for
    from he her here his how however if in instead into it its later like many most my no not now
    of on once one or other others our over perhaps she since so some sometimes soon still such
    that the their then there these they this those though through thus to today under until we
    what when where which while who why with without yet you your
    """
)
# Where a sentence can be split: after a semicolon, or before a conjunction.
_SEAM = re.compile(r"(;\s+)|(,\s+)(?=(?:and|but|so|or|yet|while|whereas|though|although)\s)")
_LEAST_WORDS = 3


@dataclass(frozen=True, kw_only=True)
class MergeSentences(SentenceAttack):
    """Join neighbouring sentences of a paragraph, by default by ", and" or a semicolon.

    Only a sentence that ends with a full stop is joined to the next, and no sentence twice.

    Attributes:
        share: of the sentences, to be joined to the one before.
        joints: the family of joints. ``known``: ", and" or a semicolon. ``marked``: a dash, a
            colon, brackets, or a comma and "because", "since", "as" or "which means that".
            ``unseen``: others, which were not used to choose the detector's rule. ``bare``: a
            conjunction without a comma.
    """

    name: ClassVar[str] = "merge-sentences"
    joints: Family = "known"

    def change_units(
        self, units: tuple[Unit, ...], places: list[int], *, rng: np.random.Generator
    ) -> list[Unit]:
        """The units of the attacked text."""
        family = JOINTS[self.joints]
        pairs = [
            place
            for place in places
            if place + 1 < len(units)
            and units[place + 1].carries
            and units[place].gap == " "
            and _ends_plainly(units[place].text)
        ]
        target = round_at_random(self.share * len(places), most=len(pairs), rng=rng)
        lower_case = {word for unit in units for word in split_words(unit.text) if word.islower()}
        joined: set[int] = set()
        for place in rng.permutation(np.array(pairs, dtype=np.int64)):
            if len(joined) < target and not joined & {place - 1, place, place + 1}:
                joined.add(int(place))
        merged: list[Unit] = []
        for place, unit in enumerate(units):
            if place - 1 in joined:
                joint = family[int(rng.integers(len(family)))]
                second = _uncapitalised(unit.text, lower_case)
                merged[-1] = replace(unit, text=joint.join(merged[-1].text, second))
            else:
                merged.append(unit)
        return merged


@dataclass(frozen=True, kw_only=True)
class SplitSentences(SentenceAttack):
    """Split sentences in two, at a semicolon or before a conjunction.

    Attributes:
        share: of the sentences; fewer are split if fewer have such a place.
        anywhere: split a sentence without such a place in its middle, grammatical or not.
    """

    name: ClassVar[str] = "split-sentences"
    anywhere: bool = False

    def change_units(
        self, units: tuple[Unit, ...], places: list[int], *, rng: np.random.Generator
    ) -> list[Unit]:
        """The units of the attacked text."""
        cuts = {place: halves for place in places if (halves := self._halves(units[place].text))}
        order = list(cuts)
        chosen = pick(len(places), share=self.share, rng=rng, among=len(order))
        split = {order[index] for index in chosen}
        result: list[Unit] = []
        for place, unit in enumerate(units):
            if place in split:
                first, second = cuts[place]
                result += [replace(unit, text=first, gap=" "), replace(unit, text=second)]
            else:
                result.append(unit)
        return result

    def _halves(self, sentence: str) -> tuple[str, str] | None:
        """The two halves, split at the seam nearest to the middle."""
        seams = [seam.span() for seam in _SEAM.finditer(sentence)]
        if self.anywhere and not seams:
            spaces = [space.span() for space in re.finditer(r"[,:;]?\s+", sentence)]
            seams = sorted(spaces, key=lambda span: abs(span[0] - len(sentence) / 2))[:1]
        for start, end in sorted(seams, key=lambda span: abs(span[0] - len(sentence) / 2)):
            first, second = sentence[:start], sentence[end:]
            if min(len(split_words(first)), len(split_words(second))) >= _LEAST_WORDS:
                return f"{first}.", second[0].upper() + second[1:]
        return None


def _ends_plainly(sentence: str) -> bool:
    return sentence.endswith(".") and not sentence.endswith("..")


def _uncapitalised(sentence: str, lower_case: set[str]) -> str:
    """The sentence in lower case for the middle of another; names keep their capital."""
    first = next(iter(split_words(sentence)), "")
    if not sentence.startswith(first) or not (
        first.lower() in _COMMON or (first.istitle() and first.lower() in lower_case)
    ):
        return sentence
    return sentence[0].lower() + sentence[1:]


Family = Literal["known", "marked", "unseen", "bare"]


@dataclass(frozen=True, slots=True)
class Joint:
    """The text between two joined sentences, and the ending that replaces the second full stop."""

    between: str
    ending: str = ""

    def join(self, first: str, second: str) -> str:
        """One sentence; ``first`` ends with a full stop, ``second`` with any mark."""
        if self.ending:
            second = second.removesuffix(".") + self.ending
        return f"{first[:-1]}{self.between}{second}"


JOINTS: Mapping[Family, tuple[Joint, ...]] = {
    "known": (Joint(", and "), Joint("; ")),
    "marked": (
        Joint(" — "),
        Joint(" - "),
        Joint(": "),
        Joint(" (", ")."),
        Joint(", because "),
        Joint(", since "),
        Joint(", as "),
        Joint(", which means that "),
    ),
    "unseen": (
        Joint(", which is why "),
        Joint(", meaning that "),
        Joint(", given that "),
        Joint(", after which "),
        Joint(" – that is, "),
        Joint(" ... "),
    ),
    "bare": (
        Joint(" and "),
        Joint(" because "),
        Joint(" since "),
        Joint(" while "),
        Joint(" which is why "),
    ),
}
