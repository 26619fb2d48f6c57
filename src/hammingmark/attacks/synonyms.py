"""Replacing words by WordNet synonyms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from hammingmark.attacks.base import ShareAttack, pick, require_share
from hammingmark.attacks.lexicon import Lexicon, Reading
from hammingmark.attacks.word_spans import Word, match_case, prose_words, replace_words, word_set
from hammingmark.errors import InputError

# Function words, and verbs whose synonyms need a different sentence structure
# ("said that" is not "told that").
_NEVER_REPLACED = word_set(
    """
    a about above across after against all almost along also although always am among an and any
    are as at away back be because become been before being below between both but by came can
    come could did do does doing done down during each either else enough even ever every few
    first for from further gave get gets getting give given go goes going gone got had has have
    having he her here hers herself him himself his how however i if in into is it its itself just
    keep kept last least less let like likely little lot made make makes making many may me mere
    might mine more most much must my myself near need neither never next no nor not nothing now
    of off often on once one only or other others our ours out over own put quite rather really
    said same saw say saying says second see seem seemed seems seen several shall she should since
    so some soon still such take taken takes taking tell than that the their theirs them then
    there these they thing things third this those though three through thus to today together
    told too took toward towards two under until up upon us used very want wanted wants was way
    ways we well went were what when where whether which while who whole whom whose why will with
    within without would yet you your yours
    """
)
_ARTICLES = word_set("a an the this that these those my your his her its our their no")
_BEFORE_VERB = word_set(
    "to will would can could shall should may might must i you he she we they who not"
)
_PARTICLES = word_set(
    "about at away back down for from in into of off on out over through up upon with"
)
_AUXILIARIES = word_set("have has had having be is are was were been being am get gets got 's 've")
# If this share of a word's uses is one part of speech, it is taken to be that one here.
_FAVOURED = 0.8
_AN = ("a", "e", "i", "o", "u", "hour", "honest", "honour", "honor", "heir")
_NOT_AN = ("uni", "use", "usu", "uti", "eu", "one", "once")


@dataclass(frozen=True, kw_only=True)
class Synonyms(ShareAttack):
    """Replace English words by WordNet synonyms in the same form.

    No tagger and no model of meaning is used. WordNet's counts must clearly favour one part of
    speech, the neighbouring words must not contradict it, and the word's first sense must have a
    large share of its uses. Capitalised words are taken for names, unless the text also has them
    in lower case; parts of a phrase in WordNet are not replaced.

    Attributes:
        lexicon: a folder with WordNet and the table of inflections.
        share: of the words; fewer are replaced if fewer can be.
        sure: least share of a word's uses that its first sense must have.
        senses: the number of a word's senses that may give a synonym; more senses reach more
            words at the expense of the text.
    """

    name: ClassVar[str] = "synonyms"
    needs: ClassVar[Mapping[str, str]] = {"lexicon": "wordnet"}
    lexicon: Path
    share: float = 0.2
    sure: float = 0.4
    senses: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        require_share(self.sure, name="sure")
        if self.senses < 1:
            raise InputError(f"senses must be at least 1, not {self.senses}.")

    def change(self, text: str, *, rng: np.random.Generator) -> str:
        """Attack one text."""
        lexicon = Lexicon.read(self.lexicon)
        words = prose_words(text)
        lower_case = {word.text for word in words}
        options: list[tuple[int, list[str]]] = []
        for place, word in enumerate(words):
            if word.text == word.text.lower() or (
                word.text.istitle() and word.text.lower() in lower_case
            ):
                others = self._synonyms(lexicon, words, place)
                if others:
                    options.append((place, others))
        changed: dict[Word, str] = {}
        for index in pick(len(words), share=self.share, rng=rng, among=len(options)):
            place, others = options[index]
            new = others[int(rng.integers(len(others)))]
            changed[words[place]] = match_case(new, words[place].text)
            if place and words[place - 1].text.lower() in ("a", "an"):
                article = words[place - 1]
                changed[article] = match_case("an" if _wants_an(new) else "a", article.text)
        return replace_words(text, changed)

    def _synonyms(self, lexicon: Lexicon, words: list[Word], place: int) -> list[str]:
        """Synonyms of a word, inflected like it."""
        form = words[place].text.lower()
        if form in _NEVER_REPLACED or len(form) < 3:
            return []
        before = [word.text.lower() for word in words[max(0, place - 3) : place]]
        after = [word.text.lower() for word in words[place + 1 : place + 2]]
        reading = _reading(lexicon.readings(form), before, after)
        if reading is None or _in_phrase(lexicon, reading, before, after):
            return []
        slot = _slot(reading, before)
        if slot is None:
            return []
        synonyms = lexicon.synonyms(reading.lemma, reading.part, sure=self.sure, senses=self.senses)
        forms = [(other, lexicon.form(other, reading.part, slot)) for other in synonyms]
        return [
            other
            for base, other in forms
            if other
            and len(other) > 2
            and base not in _NEVER_REPLACED
            and (slot == "base" or other != base)  # leave out forms that look like the base form
        ]


def _reading(readings: list[Reading], before: list[str], after: list[str]) -> Reading | None:
    """The one reading that is almost certain, if any."""
    total = sum(reading.count for reading in readings)
    if not total or readings[0].count < _FAVOURED * total:
        return None
    best, previous = readings[0], before[-1] if before else ""
    if best.part == "verb" and (previous in _ARTICLES or _PARTICLES & set(after)):
        return None  # not a verb, or a verb with a particle
    if best.part in ("noun", "adj") and previous in _BEFORE_VERB:
        return None
    return best


def _slot(reading: Reading, before: list[str]) -> str | None:
    """The form that a word is in; None if it is ambiguous."""
    if len(reading.slots) == 1:
        return next(iter(reading.slots))
    if reading.slots == {"past", "participle"}:
        return "participle" if _AUXILIARIES & set(before) else "past"
    return None


def _in_phrase(lexicon: Lexicon, reading: Reading, before: list[str], after: list[str]) -> bool:
    word = reading.lemma
    return (bool(before) and lexicon.is_phrase(before[-1], word)) or (
        bool(after) and lexicon.is_phrase(word, after[0])
    )


def _wants_an(word: str) -> bool:
    return word.startswith(_AN) and not word.startswith(_NOT_AN)
