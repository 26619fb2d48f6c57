"""What a sentence states besides its wording: figures, negations and names.

An embedding hardly tells "42 mg" from "43 mg", or "is" from "is not". Two sentences state the same
only if these agree as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from hammingmark.text.words import split_words

_FIGURE = re.compile(r"\d+(?:[.,:/]\d+)*")
_GROUPED = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_WORD = re.compile(r"\w+")
_NUMBERS = frozenset(
    _WORD.findall(
        "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
        "fifteen sixteen seventeen eighteen nineteen twenty thirty forty fifty sixty seventy "
        "eighty ninety hundred thousand million billion half third quarter"
    )
)
_NEGATIONS = frozenset(
    _WORD.findall(
        "no not never none nothing nobody nowhere neither nor cannot without false incorrect "
        "wrong untrue"
    )
)


def same_statement(left: str, right: str) -> bool:
    """Whether two sentences agree in their figures, in being negated, and in their names.

    Numbers and negations in words are known in English only. A name is a capitalised word that does
    not begin its sentence; the other sentence has to contain it, at its beginning perhaps.
    """
    if _figures(left) != _figures(right) or _is_negated(left) != _is_negated(right):
        return False
    return _names(left) <= _words(right) and _names(right) <= _words(left)


def _figures(sentence: str) -> list[str]:
    """The numbers of a sentence, sorted; repeated ones once."""
    figures = {_GROUPED.sub("", match) for match in _FIGURE.findall(sentence)}
    return sorted(figures | (_lower_words(sentence) & _NUMBERS))


def _is_negated(sentence: str) -> bool:
    words = _lower_words(sentence)
    return bool(words & _NEGATIONS) or any(word.endswith(("n't", "n’t")) for word in words)


def _names(sentence: str) -> set[str]:
    """The capitalised words that do not begin the sentence, and single capital letters."""
    words = list(_bare_words(sentence))
    return {word for word in words[1:] if word[:1].isupper() and word != "I"}


def _words(sentence: str) -> set[str]:
    return set(_bare_words(sentence))


def _lower_words(sentence: str) -> set[str]:
    return {word.lower() for word in split_words(sentence)}


def _bare_words(sentence: str) -> Iterator[str]:
    """The words without a possessive ending."""
    for word in split_words(sentence):
        yield word.removesuffix("'s").removesuffix("’s")
