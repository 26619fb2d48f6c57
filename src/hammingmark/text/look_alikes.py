"""Characters that look like Latin letters, and the letters that they look like.

The tables are written out, so that they do not depend on the Unicode version of Python. In each,
the keys are single characters in the form NFC.
"""

from __future__ import annotations

from string import ascii_lowercase, ascii_uppercase, punctuation

_LETTERS = ascii_uppercase + ascii_lowercase
_ROMAN = ("I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI", "XII", *"LCDM")


def _rows(rows: dict[str, str]) -> dict[str, str]:
    return {other: letter for letter, others in rows.items() for other in others}


def _ranges(first: dict[int, str]) -> dict[str, str]:
    """Characters that follow one another, from their first code points and their letters."""
    return {
        chr(start + place): letter
        for start, letters in first.items()
        for place, letter in enumerate(letters)
    }


# Latin letters in another form: full-width and mathematical ones, small capitals, ligatures, and
# the numerals that are written with letters. No language but that of formulas needs the form.
FORMS: dict[str, str] = {
    **_ranges({0xFF21: ascii_uppercase, 0xFF41: ascii_lowercase}),
    **_ranges({0x1D400 + 52 * style: _LETTERS for style in range(13)}),
    **dict(zip("ᴀʙᴄᴅᴇꜰɢʜɪᴊᴋʟᴍɴᴏᴘꞯʀꜱᴛᴜᴠᴡʏᴢ", "abcdefghijklmnopqrstuvwyz", strict=True)),
    **dict(zip("ɑɡſℐℑ", "agsII", strict=True)),
    **dict(zip("ﬀﬁﬂﬃﬄﬅﬆ", ("ff", "fi", "fl", "ffi", "ffl", "st", "st"), strict=True)),
    **{chr(0x2160 + place): numeral for place, numeral in enumerate(_ROMAN)},
    **{chr(0x2170 + place): numeral.lower() for place, numeral in enumerate(_ROMAN)},
}

# Those that are signs when they stand alone, such as a letter in a circle, or that of a set.
SIGNS: dict[str, str] = {
    **_ranges({0x24B6: ascii_uppercase, 0x24D0: ascii_lowercase}),
    **_ranges({0x1F130: ascii_uppercase, 0x1F150: ascii_uppercase, 0x1F170: ascii_uppercase}),
    **dict(zip("ℂℊℋℌℍℎℒℓℕℙℚℛℜℝℤℨℬℭℯℰℱℳℴℹⅅⅆⅇⅈⅉ", "CgHHHhLlNPQRRRZZBCeEFMoiDdeij", strict=True)),
}

# Letters of Cyrillic and Greek that cannot be told from Latin ones.
SAME: dict[str, str] = dict(
    zip(
        "асеорхуіјѕԁһӏԛԝАВСЕНІЈКМОРЅТХУԌԚԜӀονϲϳΑΒΕΖΗΙΚΜΝΟΡΤΥΧϹͿ",
        "aceopxyijsdhlqwABCEHIJKMOPSTXYGQWlovcjABEZHIKMNOPTYXCJ",
        strict=True,
    )
)

# Letters of any script that pass for Latin ones in a Latin word (``research/look_alikes.py``).
NEAR: dict[str, str] = _rows(
    {
        "A": "\u13aa\u15c5\ua4ee",
        "B": "\u13f4\u15f7\ua4d0",
        "C": "\u13df\u2ca4\ua4da",
        "D": "\u13a0\u15de\u15ea\ua4d3",
        "E": "\u13ac\u2d39\ua4f0",
        "F": "\u03dc\u15b4\ua4dd",
        "G": "\u13c0\u13f3\ua4d6",
        "H": "\u13bb\u157c\u2c8e\ua4e7",
        "J": "\u13ab\u148d\ua4d9",
        "K": "\u13e6\u16d5\u2c94\ua4d7",
        "L": "\u13de\u14aa\u2cd0\ua4e1",
        "M": "\u03fa\u13b7\u15f0\u16d6\u2c98\ua4df",
        "N": "\u2c9a\ua4e0",
        "O": "\u0555\u0b20\u12d0\u2c9e\u2d54\ua4f3",
        "P": "\u13e2\u146d\u2ca2\ua4d1",
        "Q": "\u2d55",
        "R": "\u13a1\u13d2\u1587\ua4e3",
        "S": "\u054f\u13d5\u13da\ua4e2",
        "T": "\u13a2\u2ca6\ua4d4",
        "U": "\u054d\u1200\u144c\ua4f4",
        "V": "\u0474\u13d9\u142f\u2d38\ua4e6\ua6df",
        "W": "\u13b3\u13d4\ua4ea",
        "X": "\u16b7\u2cac\u2d5d\ua4eb",
        "Y": "\u03d2\u04ae\u13a9\u13bd\u2ca8\ua4ec",
        "Z": "\u13c3\ua4dc",
        "a": "\u03b1",
        "b": "\u042c\u0432\u044c\u13cf\u1472\u15af",
        "c": "\u2ca5\uabaf",
        "d": "\u13e7\u146f\ua4d2",
        "e": "\u03b5\u04bd",
        "f": "\u0584",
        "g": "\u0581",
        "h": "\u043d\u0570\u13c2",
        "i": "\u03b9\u13a5\ua647\uab75",
        "k": "\u03ba\u043a",
        "l": "\u16c1\u2c92\u2d4f\ua4f2",
        "m": "\u043c",
        "n": "\u03b7\u043f\u0578\u057c",
        "o": "\u03c3\u0585\u0d20\u101d\u10ff\u2c9f",
        "p": "\u03c1\u03f1\u2ca3",
        "q": "\u0563\u0566",
        "r": "\u0433\u1d26\u2c85\uab81",
        "s": "\uabaa",
        "t": "\u03c4\u0442",
        "u": "\u03c5\u0438\u057d",
        "v": "\u0475\uaba9",
        "w": "\u03c9\u0461\u0561\uab83",
        "x": "\u03c7\u1541\u157d",
        "y": "\u03b3\u04af\u10e7",
        "z": "\uab93",
        "Á": "\u0386",
        "Ä": "\u04d2",
        "È": "\u0400",
        "É": "\u0388",
        "Ë": "\u0401",
        "Í": "\u038a",
        "Ï": "\u03aa\u0407",
        "Ó": "\u038c",
        "Ö": "\u04e6",
        "Ý": "\u038e",
        "ä": "\u04d3",
        "è": "\u0450",
        "ë": "\u0451",
        "ï": "\u0457",
        "ó": "\u03cc",
        "ö": "\u04e7",
        "ÿ": "\u04f1",
        "Ă": "\u04d0",
        "ă": "\u04d1",
        "Ĕ": "\u04d6",
        "ĕ": "\u04d7",
        "Ÿ": "\u03ab\u04f0",
        "Ȳ": "\u04ee",
        "ȳ": "\u04ef",
        "Ḱ": "\u040c",
    }
)

DIGITS: dict[str, str] = _ranges({0xFF10: "0123456789", 0x1D7CE: "0123456789" * 5})

# Punctuation in a form that ends no sentence of a language with spaces. The apostrophe, which joins
# words, is a quote to `characters`.
PUNCTUATION: dict[str, str] = {
    **{chr(ord(mark) + 0xFEE0): mark for mark in punctuation if mark != "'"},
    **dict(zip("․﹐﹒﹔﹕﹖﹗", ".,.;:?!", strict=True)),
}
