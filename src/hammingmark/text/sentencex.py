"""The default splitter: sentences by Wikimedia's sentencex."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib.metadata import version
from itertools import pairwise

import sentencex

from hammingmark.errors import InputError
from hammingmark.records import Sentences
from hammingmark.text.cutting import locate, split_with
from hammingmark.text.restart import restarts_with

# The library accepts any code and silently falls back to English. These are the languages for which
# it has rules, and two (ur, zh) that its own tests cover.
# fmt: off
LANGUAGES = (
    "am", "ar", "bg", "bn", "ca", "da", "de", "el", "en", "es", "fi", "fr", "gu", "hi", "hy",
    "it", "ja", "kk", "kn", "ml", "mr", "my", "nl", "pa", "pl", "pt", "ru", "sk", "ta", "te",
    "uk", "ur", "zh",
)
# fmt: on


_OPENERS = frozenset("(«‹「『（《")
_CLOSERS = frozenset(")»›」』）》")
_EITHER = frozenset("\"'*_")
_PAIRED = re.compile(f"[{re.escape(''.join(sorted(_OPENERS | _CLOSERS | _EITHER)))}]")
_INNER_APOSTROPHE = re.compile(r"'(?<=\w')(?=\w)")  # begins with what is quick to find
_OPEN = re.compile(r"[<{\[](?:[^\]}>\\]|\\.?)*$")
_COUNTED = frozenset("`•◦▪▫■□●○⁃⁌⁍◆◇★☆➤➢➣▶▸►")
_NEAR = 200  # characters


@dataclass(frozen=True)
class SentencexSplitter:
    """A splitter with sentencex.

    Args:
        language: a two-letter code, one of ``LANGUAGES``.

    Raises:
        InputError: for a language without rules.
    """

    language: str = "en"

    def __post_init__(self) -> None:
        if self.language not in LANGUAGES:
            raise InputError(
                f"sentencex has no rules for language {self.language!r}. "
                f"Choose one of: {', '.join(LANGUAGES)}."
            )

    @property
    def name(self) -> str:
        """The registered name."""
        return "sentencex"

    def describe(self) -> dict[str, str]:
        """What determines the sentences: the name, the language and the library's version."""
        library = f"sentencex {version('sentencex')}"
        return {"name": self.name, "language": self.language, "library": library}

    def split(self, text: str) -> Sentences:
        """Normalise a text and cut it into units."""
        return split_with(self._cut, text, forgets=self._forgets)

    def restarts(self, text: str, place: int) -> bool:
        """Whether a text can be split from an offset on, whatever will follow the text."""
        return restarts_with(self._cut, text, place, forgets=self._forgets)

    def _cut(self, line: str) -> list[str]:
        hidden = _hide_pairs(line)
        offsets = locate(sentencex.segment(self.language, hidden), hidden)
        starts = [_before_openers(line, start) for start in offsets if not _continues(line, start)]
        return [line[start:end] for start, end in pairwise([*starts, len(line)])]

    def _forgets(self, line: str, place: int) -> bool:
        """Whether nothing before a place has a say in what sentencex does behind it.

        It pairs brackets, and counts backticks and bullets from the start of the paragraph. It
        ends a sentence at "a.m." unless all words before might only open one, as in "On Monday at
        6 a.m. Ann": the words near the place must be enough to tell.
        """
        before = _hide_pairs(line[:place])
        if _OPEN.search(before) or not _COUNTED.isdisjoint(before):
            return False
        after = _hide_pairs(line[place : place + _NEAR]).partition("`")[0]
        return bool(sentencex.segment(self.language, f"{after} a.m. Ann")[-1] == "Ann")


def _hide_pairs(line: str) -> str:
    """Blank out quotes, brackets and emphasis, character for character.

    sentencex never ends a sentence inside a pair, and it pairs straight quotes by counting from the
    start of the paragraph. One quote more or less would move every later boundary, and text that is
    still to be written would move earlier ones. Without pairs a boundary depends only on the text
    near it.
    """
    return _PAIRED.sub(" ", _INNER_APOSTROPHE.sub("\u02bc", line))


def _continues(line: str, start: int) -> bool:
    """Whether the sentence continues after a closing mark, as in ``"Come in!" he said.``."""
    if start == 0 or not line[start].islower():
        return False
    before = line[:start].rstrip(" ")[-1:]
    return before in _CLOSERS or before in _EITHER


def _before_openers(line: str, start: int) -> int:
    """Move the start of a sentence before its opening marks, but after marks that close another."""
    first = start
    while first > 0 and (line[first - 1] in _EITHER or line[first - 1] in _OPENERS):
        first -= 1
    if first == 0 or line[first - 1] == " ":
        return first
    while line[start - 1] in _OPENERS:
        start -= 1
    return start
