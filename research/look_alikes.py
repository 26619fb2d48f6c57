"""Prints the rows of `NEAR` in ``hammingmark/text/look_alikes.py``.

    pip install confusable-homoglyphs==3.3.1
    python -m research.look_alikes

The package carries Unicode's list of confusable characters (https://www.unicode.org/reports/tr39/)
as JSON. Letters of other scripts are taken from its Basic Multilingual Plane. Latin letters are
not: those that look like others, such as the dotless i of Turkish, have a life of their own.
"""

from __future__ import annotations

import json
import string
import unicodedata
from importlib.resources import files

from hammingmark.text.look_alikes import SAME

# What attackers use and the list lacks, because the difference can be seen.
MORE = dict(zip("вгикмнптьεηκτχω", "brukmhntbenktxw", strict=True))
_BASES = range(0x370, 0x530)  # Greek and Cyrillic letters, which may carry marks


def near() -> dict[str, str]:
    """The letters of other scripts that look like a Latin letter and are not in `SAME`."""
    package = files("confusable_homoglyphs")
    listed = json.loads(package.joinpath("confusables.json").read_text(encoding="utf-8"))
    table = dict(MORE)
    for letter in string.ascii_letters:
        others = [entry["c"] for entry in listed.get(letter, ())]
        table |= {other: letter for other in others if _is_foreign(other) and other not in SAME}
    for point in _BASES:
        parts = unicodedata.normalize("NFD", chr(point))
        base, marks = parts[:1], parts[1:]
        letter = unicodedata.normalize("NFC", SAME.get(base, "") + marks)
        if marks and base in SAME and len(letter) == 1:
            table[chr(point)] = letter
    return table


def _is_foreign(character: str) -> bool:
    """Whether a character is a letter of a script other than Latin."""
    return (
        len(character) == 1
        and character <= "\uffff"
        and unicodedata.category(character) in ("Lu", "Ll", "Lo")
        and not unicodedata.name(character).startswith(("LATIN", "DOUBLE-STRUCK"))
        and unicodedata.is_normalized("NFC", character)
        and unicodedata.normalize("NFKC", character) not in string.ascii_letters
    )


def main() -> None:
    """Print the table."""
    rows: dict[str, str] = {}
    for other, letter in sorted(near().items()):
        rows[letter] = rows.get(letter, "") + f"\\u{ord(other):04x}"
    for letter, others in sorted(rows.items()):
        print(f'    "{letter}": "{others}",')


if __name__ == "__main__":
    main()
