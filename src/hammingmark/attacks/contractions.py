"""English contractions, written out and drawn together."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from hammingmark.attacks.each import EachShare, pick
from hammingmark.attacks.word_spans import like, listed, may_touch

_VERBS = listed("are could did do does had has have is might must need should was were would")
# Each verb with its contracted negative. "ain't" stands for too many things to be written out.
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

# What is ambiguous is left alone: "'d", and "'s" behind anything but a pronoun.
_SHORT = re.compile(
    rf"""
    \b(?P<negative>{"|".join(_FULL)})\b(?:(?P<space>[ ])(?P<asked>{_SUBJECTS})\b)?
    | \b(?P<subject>{_SUBJECTS}|that|there|what|who|here|where|how)'(?P<ending>m|re|ll|ve|s)\b
      (?=(?P<perfect>[ ](?:been|become|got|had)\b)?)
    | \b(?P<let>let)'s\b
    """,
    re.IGNORECASE | re.VERBOSE,
)
# "That is what it is." cannot be contracted at its end, hence the word that must follow.
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
_GOES_WITH = {
    "am": {"i"},
    "is": {"he", "she", "it"},
    "has": {"he", "she", "it"},
    "are": {"you", "we", "they"},
    "have": {"i", "you", "we", "they"},
    "will": {"i", "you", "he", "she", "it", "we", "they"},
}


@dataclass(frozen=True, slots=True)
class _Site:
    """A place where a text can be written otherwise."""

    start: int
    end: int
    other: str


@dataclass(frozen=True, kw_only=True)
class Contractions(EachShare):
    """Expand contractions ("don't" to "do not"), or contract what is expanded.

    Attributes:
        share: of the places where a text can be written otherwise.
        way: to ``expand``, to ``contract``, or ``both``, whichever a place allows.
    """

    name: ClassVar[str] = "contractions"
    share: float = 1.0
    way: Literal["expand", "contract", "both"] = "both"
    min_similarity: float = 0.9

    def change(self, text: str, *, rng: np.random.Generator) -> str:
        """Attack one text."""
        # Both apostrophes are read, of the same length, so that places agree with the text.
        straight = text.replace("\u2019", "'")
        sites: list[_Site] = []
        if self.way in ("expand", "both"):
            sites += _expansions(straight)
        if self.way in ("contract", "both"):
            sites += _contractions(straight, apostrophe="\u2019" if "\u2019" in text else "'")
        prose = may_touch(text)
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
    for found in _SHORT.finditer(text):
        start, end = found.span()
        if short := found["negative"]:
            verb = like(_FULL[short.lower()], short)
            no = like("not", short) if short.isupper() else "not"
            if asked := found["asked"]:
                yield _Site(start, end, f"{verb} {asked} {no}")  # "Don't you" asks
            else:
                yield _Site(start, end, verb + no if verb.lower() == "can" else f"{verb} {no}")
        elif found["let"]:
            yield _Site(start, end, f"{found['let']} us")
        else:
            subject, ending = found["subject"], found["ending"].lower()
            full = _verb_of(subject.lower(), ending, perfect=bool(found["perfect"]))
            if full:
                yield _Site(start, end, f"{subject} {full}")


def _verb_of(subject: str, ending: str, *, perfect: bool) -> str | None:
    if ending == "s":
        return "has" if perfect else "is"
    verb = next(verb for verb, short in _ENDINGS.items() if short == f"'{ending}")
    known = subject in _GOES_WITH["will"]
    return verb if not known or subject in _GOES_WITH[verb] else None


def _contractions(text: str, *, apostrophe: str) -> Iterator[_Site]:
    for found in _LONG.finditer(text):
        if verb := found["verb"]:
            short = like(_NEGATIVES[verb.lower()], verb[0])
        elif let := found["let"]:
            short = f"{let}'s"
        else:
            full = (found["plain"] or found["perfect"]).lower()
            if found["subject"].lower() not in _GOES_WITH[full]:
                continue
            short = found["subject"] + _ENDINGS[full]
        yield _Site(*found.span(), short.replace("'", apostrophe))
