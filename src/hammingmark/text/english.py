"""Whether a text is English, by its commonest words."""

from __future__ import annotations

import re

_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?")
_HEAD = 20_000  # characters that are looked at
_FEWEST = 60  # words; fewer tell too little
_LEAST = 0.04  # English prose has 0.15 to 0.35 of these words, other languages hardly any

# Words that are common in English and are no common words of another language in Latin script:
# "a", "in", "of", "was", "for", "had" and the like are left out.
_COMMON = frozenset(
    _WORD.findall("""
    the and to that it with he be by you are this have from not but they which she or were been
    their has would there what will if can more when out up about them then its into could some
    other than only your how any these such new now people also because through where after know
    very even most made while
    """)
)


def is_english(text: str) -> bool | None:
    """Whether a text is English; None if it is too short to tell."""
    words = _WORD.findall(text[:_HEAD].lower().replace("’", "'"))
    letters = sum(map(str.isalpha, text[:_HEAD]))
    plain = sum(character.isascii() for character in text[:_HEAD] if character.isalpha())
    if letters >= 2 * _FEWEST and plain < letters / 2:  # another script, with or without spaces
        return False
    if len(words) < _FEWEST:
        return None
    return sum(word in _COMMON for word in words) >= _LEAST * len(words)
