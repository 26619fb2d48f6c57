"""English contractions, expanded and contracted."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from hammingmark.attacks.base import ShareAttack, pick
from hammingmark.attacks.word_spans import match_case, touchable, word_set

_VERBS = word_set("are could did do does had has have is might must need should was were would")
# Each verb with its contracted negative. "ain't" has too many meanings to be expanded.
_NEGATIVES = {
    **{verb: f"{verb}n't" for verb in sorted(_VERBS)},
    "can": "can't",
    "will": "won't",
    "shall": "shan't",
}
_FULL = {short: verb for verb, short in _NEGATIVES.items()}
_SUBJECTS = "i|you|he|she|it|we|they"
_ENDINGS = {"am": "'m", "are": "'re", "will": "'ll", "have": "'ve", "is": "'s", "has": "'s"}
_AFTER_PERFECT = "been|become|done|gone|got|had|made|never|always|already|seen|taken|\\w+ed"

# Ambiguous contractions are left alone: "'d", and "'s" after anything but a pronoun.
_SHORT = re.compile(
    rf"""
    \b(?P<negative>{"|".join(_FULL)})\b(?:(?P<space>[ ])(?P<pronoun>{_SUBJECTS})\b)?
    | \b(?P<subject>{_SUBJECTS}|that|there|what|who|here|where|how)'(?P<ending>m|re|ll|ve|s)\b
      (?=(?P<perfect>[ ](?:been|become|got|had)\b)?)
    | \b(?P<let>let)'s\b
    """,
    re.IGNORECASE | re.VERBOSE,
)
# A word must follow: "That is what it is." cannot be contracted at its end.
_LONG = re.compile(
    rf"""
    \b(?P<verb>{"|".join(_NEGATIVES)})(?:[ ]not|(?<=can)not)\b(?=[ ]\w)
    | \b(?P<subject>{_SUBJECTS})[ ](?:
        (?P<plain>am|are|is|will)\b(?=[ ]\w)(?![ ]not\b)
        | (?P<perfect>have|has)\b(?=[ ](?:{_AFTER_PERFECT})\b)
      )
    | \b(?P<let>let)[ ]us\b(?=[ ]\w)
    """,
    re.IGNORECASE | re.VERBOSE,
)
_SUBJECTS_OF = {
    "am": {"i"},
    "is": {"he", "she", "it"},
    "has": {"he", "she", "it"},
    "are": {"you", "we", "they"},
    "have": {"i", "you", "we", "they"},
    "will": {"i", "you", "he", "she", "it", "we", "they"},
}


@dataclass(frozen=True, slots=True)
class _Site:
    """A span of the text with an alternative form."""

    start: int
    end: int
    other: str


@dataclass(frozen=True, kw_only=True)
class Contractions(ShareAttack):
    """Expand contractions ("don't" to "do not"), or contract full forms.

    Attributes:
        share: of the places where the text has an alternative form.
        way: ``expand``, ``contract``, or ``both``, whichever a place allows.
    """

    name: ClassVar[str] = "contractions"
    share: float = 1.0
    way: Literal["expand", "contract", "both"] = "both"
    min_similarity: float = 0.9

    def change(self, text: str, *, rng: np.random.Generator) -> str:
        """Attack one text."""
        # Both kinds of apostrophe are read; they have the same length, so offsets stay valid.
        straight = text.replace("\u2019", "'")
        sites: list[_Site] = []
        if self.way in ("expand", "both"):
            sites += _expansions(straight)
        if self.way in ("contract", "both"):
            sites += _contractions(straight, apostrophe="\u2019" if "\u2019" in text else "'")
        prose = touchable(text)
        sites = sorted((site for site in sites if prose(site.start)), key=lambda site: site.start)
        pieces = []
        position = 0
        for place in pick(len(sites), share=self.share, rng=rng):
            site = sites[place]
            if site.start < position:  # "isn't it is": the two share a word
                continue
            pieces += [text[position : site.start], site.other]
            position = site.end
        return "".join([*pieces, text[position:]])


def _expansions(text: str) -> Iterator[_Site]:
    for match in _SHORT.finditer(text):
        start, end = match.span()
        if short := match["negative"]:
            verb = match_case(_FULL[short.lower()], short)
            negation = match_case("not", short) if short.isupper() else "not"
            if pronoun := match["pronoun"]:
                yield _Site(start, end, f"{verb} {pronoun} {negation}")  # "Don't you" is a question
            else:
                yield _Site(
                    start, end, verb + negation if verb.lower() == "can" else f"{verb} {negation}"
                )
        elif match["let"]:
            yield _Site(start, end, f"{match['let']} us")
        else:
            subject, ending = match["subject"], match["ending"].lower()
            full = _verb_of(subject.lower(), ending, perfect=bool(match["perfect"]))
            if full:
                yield _Site(start, end, f"{subject} {full}")


def _verb_of(subject: str, ending: str, *, perfect: bool) -> str | None:
    if ending == "s":
        return "has" if perfect else "is"
    verb = next(verb for verb, short in _ENDINGS.items() if short == f"'{ending}")
    is_pronoun = subject in _SUBJECTS_OF["will"]
    return verb if not is_pronoun or subject in _SUBJECTS_OF[verb] else None


def _contractions(text: str, *, apostrophe: str) -> Iterator[_Site]:
    for match in _LONG.finditer(text):
        if verb := match["verb"]:
            short = match_case(_NEGATIVES[verb.lower()], verb[0])
        elif let := match["let"]:
            short = f"{let}'s"
        else:
            full = (match["plain"] or match["perfect"]).lower()
            if match["subject"].lower() not in _SUBJECTS_OF[full]:
                continue
            short = match["subject"] + _ENDINGS[full]
        yield _Site(*match.span(), short.replace("'", apostrophe))
