"""Sentences to what they may have been before somebody joined or cut them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hammingmark.core.words import words_of
from hammingmark.records import EditHypotheses

# Where two sentences may have been joined: at a mark inside a sentence, or at brackets that end it.
_SEAM = re.compile(r"[;:,]\s+|(?<=\S)\s*—\s*|(?<=\S)\s+(?:–|--?)\s+|(?<=\S)\s+\((?=[^()]*\)\.$)")
# A bare "and" is only the joint and goes with it; any other word belongs to the second sentence.
_AND = re.compile(r"^and\s+")
_CONJUNCTION = re.compile(r"(?:and|but|so|or|yet|while|whereas|though|although)\s")
_LEAST_WORDS = 3
_LEAST_AROUND_COMMA = 8  # where no conjunction follows; most such commas join no sentences
_MOST_TRIED = 8  # seams of a sentence, those nearest to its middle


def edit_hypotheses(sentences: Sequence[str]) -> EditHypotheses:
    """The n sentences, the two halves of each that has a seam, and each with the one behind it."""
    n = len(sentences)
    texts = list(sentences)
    begins, ends = list(range(n)), list(range(1, n + 1))
    joint = n  # joints inside sentences are counted on from the last boundary
    for place, sentence in enumerate(sentences):
        if halves := _halves(sentence):
            joint += 1
            texts += halves
            begins += [place, joint]
            ends += [joint, place + 1]
    for place in range(n - 1):
        texts.append(f"{sentences[place]} {sentences[place + 1]}")
        begins.append(place)
        ends.append(place + 2)
    return EditHypotheses(tuple(texts), tuple(begins), tuple(ends), sentences=n)


def _halves(sentence: str) -> tuple[str, str] | None:
    """What a sentence was if it was two: cut at the seam nearest to its middle, if there is one."""
    middle = len(sentence) / 2
    seams = sorted(_SEAM.finditer(sentence), key=lambda seam: abs(seam.start() - middle))
    for seam in seams[:_MOST_TRIED]:
        first, second, least = sentence[: seam.start()], sentence[seam.end() :], _LEAST_WORDS
        if seam.group().startswith(","):
            least = _LEAST_WORDS if _CONJUNCTION.match(second) else _LEAST_AROUND_COMMA
            second = _AND.sub("", second)
        elif seam.group().endswith("("):
            second = f"{second[:-2]}."
        if min(len(words_of(first)), len(words_of(second))) >= least:
            return f"{first}.", second[0].upper() + second[1:]
    return None
