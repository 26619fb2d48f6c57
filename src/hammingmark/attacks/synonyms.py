"""Other words for the same thing, from WordNet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from hammingmark.attacks.each import EachShare, pick, require_share
from hammingmark.attacks.lexicon import Lexicon, Reading
from hammingmark.attacks.word_spans import Word, like, listed, prose_words, replace_words
from hammingmark.errors import InputError

# Words that do the work of grammar, and verbs whose synonyms want another sentence around them
# ("said that" is not "told that").
_LEFT_ALONE = listed(
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
_ARTICLES = listed("a an the this that these those my your his her its our their no")
_BEFORE_VERB = listed(
    "to will would can could shall should may might must i you he she we they who not"
)
_PARTICLES = listed(
    "about at away back down for from in into of off on out over through up upon with"
)
_AUXILIARIES = listed("have has had having be is are was were been being am get gets got 's 've")
# A word whose uses are this often of one part of speech is taken to be of it here too.
_FAVOURED = 0.8
_AN = ("a", "e", "i", "o", "u", "hour", "honest", "honour", "honor", "heir")
_NOT_AN = ("uni", "use", "usu", "uti", "eu", "one", "once")


@dataclass(frozen=True, kw_only=True)
class Synonyms(EachShare):
    """Replace English words by WordNet synonyms in the same form.

    No tagger and no model of meaning is at work. WordNet's counts must clearly favour one part
    of speech, the words around must not speak against it, and the word's first sense must have
    a good part of its uses. Words with a capital are taken for names, unless the text has them
    small elsewhere; parts of a phrase that WordNet knows are left.

    Attributes:
        lexicon: a folder with WordNet and the table of inflections.
        share: of the words; fewer are replaced where fewer can be.
        sure: least share of a word's uses that its first sense must have.
        senses: how many of a word's senses may give a synonym; more reach more words, and the
            text suffers.
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
        known = Lexicon.read(self.lexicon)
        words = prose_words(text)
        small = {word.text for word in words}
        options: list[tuple[int, list[str]]] = []
        for place, word in enumerate(words):
            if word.text == word.text.lower() or (
                word.text.istitle() and word.text.lower() in small
            ):
                others = self._others(known, words, place)
                if others:
                    options.append((place, others))
        changed: dict[Word, str] = {}
        for index in pick(len(words), share=self.share, rng=rng, among=len(options)):
            place, others = options[index]
            new = others[int(rng.integers(len(others)))]
            changed[words[place]] = like(new, words[place].text)
            if place and words[place - 1].text.lower() in ("a", "an"):
                article = words[place - 1]
                changed[article] = like("an" if _wants_an(new) else "a", article.text)
        return replace_words(text, changed)

    def _others(self, known: Lexicon, words: list[Word], place: int) -> list[str]:
        """What could stand in the place of a word, in its form."""
        form = words[place].text.lower()
        if form in _LEFT_ALONE or len(form) < 3:
            return []
        before = [word.text.lower() for word in words[max(0, place - 3) : place]]
        after = [word.text.lower() for word in words[place + 1 : place + 2]]
        reading = _reading(known.readings(form), before, after)
        if reading is None or _in_phrase(known, reading, before, after):
            return []
        slot = _slot(reading, before)
        if slot is None:
            return []
        found = known.synonyms(reading.lemma, reading.part, sure=self.sure, senses=self.senses)
        forms = [(other, known.form(other, reading.part, slot)) for other in found]
        return [
            other
            for base, other in forms
            if other
            and len(other) > 2
            and base not in _LEFT_ALONE
            and (slot == "base" or other != base)  # "advertising" is no plural to look at
        ]


def _reading(readings: list[Reading], before: list[str], after: list[str]) -> Reading | None:
    """The one reading that is hardly in doubt, if there is one."""
    total = sum(reading.count for reading in readings)
    if not total or readings[0].count < _FAVOURED * total:
        return None
    best, last = readings[0], before[-1] if before else ""
    if best.part == "verb" and (last in _ARTICLES or _PARTICLES & set(after)):
        return None  # no verb at all, or one that goes with its particle
    if best.part in ("noun", "adj") and last in _BEFORE_VERB:
        return None
    return best


def _slot(reading: Reading, before: list[str]) -> str | None:
    """Which form a word is; None where that cannot be told."""
    if len(reading.slots) == 1:
        return next(iter(reading.slots))
    if reading.slots == {"past", "participle"}:
        return "participle" if _AUXILIARIES & set(before) else "past"
    return None


def _in_phrase(known: Lexicon, reading: Reading, before: list[str], after: list[str]) -> bool:
    word = reading.lemma
    return (bool(before) and known.is_phrase(before[-1], word)) or (
        bool(after) and known.is_phrase(word, after[0])
    )


def _wants_an(word: str) -> bool:
    return word.startswith(_AN) and not word.startswith(_NOT_AN)
