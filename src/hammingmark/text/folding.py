"""Folding look-alikes of Latin letters, so that a respelled text has the sentences of the original.

Only what stands among Latin letters is folded; a Greek or Russian word stays, and so does a text of
another script. A *word* here is a run of letters. What becomes of it is decided by itself and by
the nearest words on both sides whose script is beyond doubt:

- In a word with more Latin letters than others every look-alike is folded, unless the word stands
  among words of other scripts alone.
- A word of nothing but letters that look the same in Cyrillic or Greek and in Latin may be of
  either; it is folded if it stands among Latin words alone.
- Digits and punctuation in other forms are folded between Latin words.

Folding makes no word less Latin, so folding again changes nothing.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from enum import Enum
from typing import NamedTuple

from hammingmark.text.look_alikes import DIGITS, FORMS, NEAR, PUNCTUATION, SAME, SIGNS

_TARGETS = {**FORMS, **SIGNS, **SAME, **NEAR}
_LONGER = {character: len(letters) - 1 for character, letters in FORMS.items() if len(letters) > 1}


def _any_of(characters: Iterable[str]) -> str:
    return re.escape("".join(sorted(characters)))


# Written out, as in `characters`. What is unassigned today counts as a letter of its block.
_LATIN = (
    "A-Za-z\xc0-\xd6\xd8-\xf6\xf8-\u02af\u1d00-\u1dbf\u1e00-\u1eff\u2c60-\u2c7f\ua720-\ua7ff"
    "\uab30-\uab6f"
)
_SPACED = (
    "\u0370-\u1cff\u1f00-\u1fff\u2c00-\u2c5f\u2c80-\u2dff\ua000-\ua71f\ua800-\uab2f\uab70-\ud7ff"
    "\ufb07-\ufdff\ufe70-\ufefc\U00010000-\U0001d0ff\U0001d6a4-\U0001d7cb"
)
_UNSPACED = "\u2e80-\u2fdf\u3041-\u31ff\u3400-\u9fff\uf900-\ufaff\uff66-\uffdc\U00020000-\U0003ffff"
_MARKS = "\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f"
_LETTER = f"[{_LATIN}{_SPACED}{_any_of({**FORMS, **SIGNS})}]"

_LATIN_LETTER = re.compile(f"(?![{_any_of(NEAR)}])[{_LATIN}{_any_of({**FORMS, **SIGNS})}]")
_NO_LETTER = re.compile(f"['{_MARKS}]")
_ALL_SAME = re.compile(f"[{_any_of(SAME)}'{_MARKS}]+")
_WORD = re.compile(f"[{_UNSPACED}]+|{_LETTER}(?:'?{_LETTER}|[{_MARKS}])*")
_BETWEEN = re.compile(f"[{_any_of({**DIGITS, **PUNCTUATION})}]")
_FOLDABLE = re.compile(f"[{_any_of({**_TARGETS, **DIGITS, **PUNCTUATION})}]")
_SPACE = re.compile("[ \n]")
_WIDE = re.compile("[\uff21-\uff5a]")
_LONG = re.compile(f"[{_any_of(_LONGER)}]")
_CAPITAL = re.compile("[A-Z]")
_CAPITALS = re.compile("[A-Z]{2}")
_FOLDED = str.maketrans(_TARGETS)
_FOLDED_SAME = str.maketrans(SAME)
_FOLDED_FORMS = str.maketrans({**FORMS, **SIGNS})
_FOLDED_SURELY = str.maketrans({**FORMS, **SIGNS, **SAME})
_FOLDED_DIGITS = str.maketrans(DIGITS)
_FOLDED_BETWEEN = str.maketrans({**DIGITS, **PUNCTUATION})


class _Script(Enum):
    LATIN = "Latin"
    OTHER = "another"
    EITHER = "either"  # all letters are the same in Latin


class _Word(NamedTuple):
    """A run of letters in its place.

    Attributes:
        start: where it begins.
        text: as it is written.
        script: what it belongs to, by itself.
        folded: with Latin letters for its look-alikes; as it is written if there are none.
    """

    start: int
    text: str
    script: _Script
    folded: str

    @property
    def end(self) -> int:
        return self.start + len(self.text)


def fold(text: str) -> str:
    """A text with Latin letters for the look-alikes that stand among Latin letters.

    Args:
        text: in the form NFC, with plain spaces and quotes. The outcome may need that form again.
    """
    if not _FOLDABLE.search(text):
        return text
    words = list(_words(text))
    folds = _settle(words)
    parts: list[str] = []
    end = 0
    for number, word in enumerate(words):
        beside = slice(max(0, number - 1), number + 1)
        parts.append(_fold_between(text[end : word.start], words[beside], folds[beside]))
        parts.append(word.folded if folds[number] else word.text)
        end = word.end
    parts.append(_fold_between(f"{text[end:]}\n", words[-1:], folds[-1:])[:-1])
    return "".join(parts)


def stands_alone(text: str) -> bool:
    """Whether no text before this one has a say in what any of it is folded to.

    Args:
        text: as for `fold`.
    """
    if not _FOLDABLE.search(text):
        return True
    word = next(_words(text), None)
    if word is None or _BETWEEN.search(text, 0, word.start):
        return False
    return word.script is _Script.OTHER or word.folded == word.text


def added_length(text: str) -> int:
    """How many characters folding adds to a text at most."""
    return 0 if text.isascii() else sum(_LONGER[character] for character in _LONG.findall(text))


def _words(text: str) -> Iterator[_Word]:
    for match in _WORD.finditer(text):
        run = match.group()
        if run.isascii():
            yield _Word(match.start(), run, _Script.LATIN, run)
        elif not _LATIN_LETTER.search(run):
            is_either = _ALL_SAME.fullmatch(run)
            script = _Script.EITHER if is_either else _Script.OTHER
            yield _Word(
                match.start(), run, script, run.translate(_FOLDED_SAME) if is_either else run
            )
        elif len(run) > 1 or run not in SIGNS:
            folded = _fold_inside(run)
            script = _Script.OTHER if folded is None else _Script.LATIN
            yield _Word(match.start(), run, script, folded or run)


def _fold_inside(run: str) -> str | None:
    """A run that has Latin letters, folded; None if as many of its letters stay what they are."""
    surely = _NO_LETTER.sub("", run).translate(_FOLDED_SURELY)
    # Without accents, which may be marks of their own or not.
    fully = "".join(unicodedata.normalize("NFD", c)[0] for c in surely.translate(_FOLDED))
    # Letters of `NEAR` may be meant as they are, above all beside few others.
    is_misspelt = len(_LATIN_LETTER.findall(surely)) >= 2 and not any(
        letter in NEAR and _is_sign(fully, place) for place, letter in enumerate(surely)
    )
    folded = surely.translate(_FOLDED) if is_misspelt else surely
    latin = len(_LATIN_LETTER.findall(run.translate(_FOLDED_FORMS)))
    if len(folded) - len(_LATIN_LETTER.findall(folded)) >= latin:
        return None
    return run.translate(_FOLDED if is_misspelt else _FOLDED_SURELY)


def _is_sign(word: str, place: int) -> bool:
    """Whether a letter of a word is meant as it is, as in "TNFα" or "αMSH".

    Such a letter is small, and follows two capitals or precedes one.
    """
    before, after = word[max(0, place - 2) : place], word[place + 1 : place + 2]
    return word[place].islower() and bool(_CAPITALS.fullmatch(before) or _CAPITAL.fullmatch(after))


def _settle(words: list[_Word]) -> list[bool]:
    """Whether each word becomes or remains a Latin one, (n,)."""
    scripts = [word.script for word in words]
    settled = [
        _Script.OTHER if word.folded != word.text and sides == {_Script.OTHER} else word.script
        for word, sides in zip(words, _sides(scripts), strict=True)
    ]
    return [
        sides == {_Script.LATIN} if script is _Script.EITHER else script is _Script.LATIN
        for script, sides in zip(settled, _sides(settled), strict=True)
    ]


def _sides(scripts: list[_Script]) -> Iterator[set[_Script]]:
    """For each word, the scripts of the nearest words beyond doubt before and after it."""
    after = list(_nearest_before(scripts[::-1]))[::-1]
    for pair in zip(_nearest_before(scripts), after, strict=True):
        yield {script for script in pair if script}


def _nearest_before(scripts: Iterable[_Script]) -> Iterator[_Script | None]:
    nearest = None
    for script in scripts:
        yield nearest
        if script is not _Script.EITHER:
            nearest = script


def _fold_between(between: str, words: list[_Word], folds: list[bool]) -> str:
    """Fold digits and punctuation between Latin words.

    Full-width punctuation without a space is Chinese or Japanese, unless the letters beside it are
    as wide.

    Args:
        between: what stands between two words, or at an end of the text.
        words: those beside it, one or two.
        folds: whether each of them is, or becomes, Latin.
    """
    if not (words and all(folds) and _BETWEEN.search(between)):
        return between
    is_western = _SPACE.search(between) or any(_WIDE.search(word.text) for word in words)
    return between.translate(_FOLDED_BETWEEN if is_western else _FOLDED_DIGITS)
