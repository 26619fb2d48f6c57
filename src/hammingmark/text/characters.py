"""Normalisation of characters, so that a copied text splits and embeds identically.

The sets of characters below are written out instead of being looked up in :mod:`unicodedata`,
because the result must not depend on the Unicode version of Python.
"""

from __future__ import annotations

import re
import unicodedata

from hammingmark.text.folding import fold, stands_alone

_LINE_ENDS = re.compile("\r\n|[\r\v\f\x85\u2028]")
_SURROGATES = re.compile("[\ud800-\udfff]")

# Invisible characters: soft hyphen, zero-width characters, bidi controls, BOM, variation selectors,
# tags, and control characters other than tab and newline.
_INVISIBLE = re.compile(
    "["
    "\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f"
    "\xad\u034f\u061c\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
    "]+"
)
_OTHER_SPACES = "\t\xa0\u1680\u2000-\u200a\u202f\u205f\u3000"
# All runs of spaces except a single plain space, as nearly all are.
_SPACES = re.compile(f"[{_OTHER_SPACES}][ {_OTHER_SPACES}]*| [ {_OTHER_SPACES}]+")
_SPACE_AT_EDGE = re.compile("(?:^ | $)", re.MULTILINE)
_SINGLE_QUOTES = re.compile("[\u2018-\u201b\uff07]")
_DOUBLE_QUOTES = re.compile("[\u201c-\u201f]")

# Python sorts a run of combining marks in quadratic time. Unicode's stream-safe format allows
# thirty of them in a row, more than any language uses; further ones are removed.
LONGEST_MARKS = 30
_MAYBE_MARKS = re.compile(rf"[^\w\s\x00-\x7f]{{{LONGEST_MARKS + 1},}}")


def even_line_ends(text: str) -> str:
    r"""Make ``\n`` the only line end, and replace characters that cannot be encoded.

    A paragraph separator becomes a blank line; a lone surrogate becomes U+FFFD.
    """
    text = _SURROGATES.sub("\ufffd", text)
    return _LINE_ENDS.sub("\n", text).replace("\u2029", "\n\n")


def well_formed(text: str) -> str:
    """Join surrogate pairs, and replace half a pair, which UTF-8 cannot hold, by U+FFFD."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def clean(text: str) -> str:
    r"""Normalise the characters of a text whose only line end is ``\n``.

    The text is in the form NFC, without invisible characters. A run of any spaces becomes one
    space, and is removed at both ends of a line; curly quotes become straight, and look-alikes
    among Latin letters become these letters. The number of lines stays the same, and
    ``clean(clean(text)) == clean(text)``.
    """
    text = _respell(text)
    return text if text.isascii() else unicodedata.normalize("NFC", fold(text))


def cleans_alone(text: str) -> bool:
    """Whether `clean` makes the same of a text whatever lines or words stand before it."""
    return text.isascii() or stands_alone(_respell(text))


def _respell(text: str) -> str:
    """The text before its look-alikes are folded."""
    if not text.isascii():
        text = _shorten_marks(_INVISIBLE.sub("", text))
        text = _shorten_marks(unicodedata.normalize("NFC", text))
        text = _DOUBLE_QUOTES.sub('"', _SINGLE_QUOTES.sub("'", text))
    else:
        text = _INVISIBLE.sub("", text)
    return _SPACE_AT_EDGE.sub("", _SPACES.sub(" ", text))


def _shorten_marks(text: str) -> str:
    """Keep the first thirty combining marks of each run."""
    return _MAYBE_MARKS.sub(_keep_first_marks, text)


def _keep_first_marks(match: re.Match[str]) -> str:
    characters: list[str] = []
    marks = 0
    for character in match.group():
        marks = marks + 1 if unicodedata.combining(character) else 0
        if marks <= LONGEST_MARKS:
            characters.append(character)
    return "".join(characters)
