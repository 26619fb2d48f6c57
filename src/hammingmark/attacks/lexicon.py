"""English words in WordNet and in a table of inflections.

WordNet's ``index.sense`` alone suffices: it lists which words share a sense, and how often each
sense occurs in manually tagged text. The table gives the forms of each word.
"""

from __future__ import annotations

import gzip
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple

from hammingmark.errors import InputError

SENSES = "index.sense"
FORMS = "infl_lu.csv.gz"

Part = Literal["noun", "verb", "adj", "adv"]
_NAMES: dict[str, Part] = {"noun": "noun", "verb": "verb", "adj": "adj", "adv": "adv"}
_PARTS: dict[str, Part] = {"1": "noun", "2": "verb", "3": "adj", "4": "adv", "5": "adj"}
# The forms on a line of the table, in order, after the base form.
_SLOTS: dict[Part, tuple[str, ...]] = {
    "noun": ("plural",),
    "verb": ("past", "participle", "gerund", "third"),
    "adj": ("comparative", "superlative"),
    "adv": ("comparative", "superlative"),
}


@dataclass(frozen=True, slots=True)
class Reading:
    """One reading of a word of a text.

    Attributes:
        lemma: its base form.
        part: its part of speech.
        slots: which of the lemma's forms it is; several if they are spelt alike.
        count: how often the lemma occurs as this part of speech.
    """

    lemma: str
    part: Part
    slots: frozenset[str]
    count: int


# Least number of occurrences of a synonym: those that occur once are mostly odd spellings.
_LEAST_COUNT = 2


class _Sense(NamedTuple):
    number: int
    synset: str
    occurrences: int


class Lexicon:
    """Readings, synonyms and inflections of words.

    Args:
        senses: lines of WordNet's ``index.sense``.
        forms: lines of the table of inflections.
    """

    def __init__(self, senses: Iterable[str], forms: Iterable[str]) -> None:
        self._senses: dict[tuple[str, str], list[_Sense]] = defaultdict(list)
        self._members: dict[tuple[str, str], list[tuple[str, int]]] = defaultdict(list)
        self._phrases: set[str] = set()
        for line in senses:
            key, synset, number, count = line.split()
            lemma, _, rest = key.partition("%")
            part = _PARTS[rest[0]]
            if "_" in lemma:
                self._phrases.add(lemma)
            else:
                self._senses[lemma, part].append(_Sense(int(number), synset, int(count)))
                self._members[part, synset].append((lemma, int(count)))
        self._forms: dict[tuple[str, str], dict[str, str]] = {}
        self._readings: dict[str, dict[tuple[str, Part], set[str]]] = defaultdict(dict)
        for line in forms:
            lemma, name, *columns = line.rstrip("\n").split(",")
            if (lemma, name) in self._senses:
                self._add_forms(lemma, _NAMES[name], [column.split("/") for column in columns])

    @classmethod
    def read(cls, folder: Path) -> Lexicon:
        """The lexicon of a folder, read once per process.

        Raises:
            InputError: the folder lacks one of the two files.
        """
        return _read(folder)

    def readings(self, form: str) -> list[Reading]:
        """All readings of a lower-case word, the most frequent first."""
        readings = [
            Reading(lemma, part, frozenset(slots), self._count(lemma, part))
            for (lemma, part), slots in self._readings.get(form, {}).items()
        ]
        return sorted(readings, key=lambda reading: (-reading.count, reading.lemma))

    def synonyms(self, lemma: str, part: Part, *, sure: float, senses: int = 1) -> list[str]:
        """Synonyms of a word in its most frequent senses; none if its sense is doubtful.

        Args:
            lemma: the word.
            part: its part of speech.
            sure: least share of the word's uses that its first sense must have.
            senses: the number of its senses that may give a synonym.
        """
        ranked = sorted(self._senses[lemma, part])
        if not ranked[0].occurrences or ranked[0].occurrences < sure * self._count(lemma, part):
            return []
        synonyms = {
            other
            for sense in ranked[:senses]
            for other, count in self._members[part, sense.synset]
            if count >= _LEAST_COUNT and (other, part) in self._forms
        }
        # Leave out variants such as "group" and "grouping", "install" and "instal".
        return sorted(
            other for other in synonyms if not (other.startswith(lemma) or lemma.startswith(other))
        )

    def form(self, lemma: str, part: Part, slot: str) -> str | None:
        """The spelling of a form of a word; None if it has no such form."""
        return self._forms[lemma, part].get(slot)

    def is_phrase(self, *words: str) -> bool:
        """Whether these words form a phrase with a meaning of its own, such as "carry out"."""
        return "_".join(words) in self._phrases

    def _count(self, lemma: str, part: Part) -> int:
        return sum(sense.occurrences for sense in self._senses.get((lemma, part), ()))

    def _add_forms(self, lemma: str, part: Part, columns: list[list[str]]) -> None:
        spellings = dict(zip(_SLOTS[part], columns, strict=True))
        if part == "verb" and spellings["participle"] == [""]:  # left out if it is the same
            spellings["participle"] = spellings["past"]
        spellings["base"] = [lemma]
        self._forms[lemma, part] = {slot: forms[0] for slot, forms in spellings.items() if forms[0]}
        for slot, forms in spellings.items():
            for form in filter(None, forms):
                self._readings[form].setdefault((lemma, part), set()).add(slot)


@cache
def _read(folder: Path) -> Lexicon:
    try:
        with (
            (folder / SENSES).open(encoding="utf-8") as senses,
            gzip.open(folder / FORMS, "rt", encoding="utf-8") as forms,
        ):
            return Lexicon(senses, forms)
    except OSError as error:
        raise InputError(
            f"{folder} has no lexicon ({error}); `hammingmark models pull wordnet` downloads one."
        ) from None
