"""Sentences to what they may have been before somebody joined or cut them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from hammingmark.core.words import words_of
from hammingmark.records import Parts

# Where two sentences are joined: a semicolon, or a comma and an English conjunction. A bare "and"
# is only the joint and goes with it; any other word belongs to the second sentence.
_SEAM = re.compile(r";\s+|,\s+and\s+|,\s+(?=(?:but|so|or|yet|while|whereas|though|although)\s)")
_LEAST_WORDS = 3
_MOST_SEAMS = 2  # of a sentence, those nearest to its middle


def read_parts(sentences: Sequence[str]) -> Parts:
    """The n sentences, the two halves of each that has a seam, and each with the one behind it."""
    n = len(sentences)
    texts = list(sentences)
    begins, ends = list(range(n)), list(range(1, n + 1))
    joint = n  # joints inside sentences are counted on from the last boundary
    for place, sentence in enumerate(sentences):
        for first, second in _halves(sentence):
            joint += 1
            texts += [first, second]
            begins += [place, joint]
            ends += [joint, place + 1]
    for place in range(n - 1):
        texts.append(f"{sentences[place]} {sentences[place + 1]}")
        begins.append(place)
        ends.append(place + 2)
    return Parts(tuple(texts), tuple(begins), tuple(ends), sentences=n)


def _halves(sentence: str) -> Iterator[tuple[str, str]]:
    middle = len(sentence) / 2
    seams = sorted(_SEAM.finditer(sentence), key=lambda seam: abs(seam.start() - middle))
    for seam in seams[:_MOST_SEAMS]:
        first, second = sentence[: seam.start()], sentence[seam.end() :]
        if min(len(words_of(first)), len(words_of(second))) >= _LEAST_WORDS:
            yield f"{first}.", second[0].upper() + second[1:]
