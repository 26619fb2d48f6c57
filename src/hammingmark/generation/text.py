"""One text being written: what has been accepted, and what a candidate would add to it."""

from __future__ import annotations

import re
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from functools import lru_cache

from hammingmark.protocols import Splitter
from hammingmark.records import Candidate, Prompt, Unit

# A sentence is seen to end when the next word begins; later is too late to look again.
_MAY_END = re.compile(r"(?:[^\w\s,]\s+\S{1,15}|\n\s*\S{0,15}|[。！？।؟]\s*\S{0,3})$")
_END = re.compile(r"[.!?。！？…]['\")\]’”]*$")
_NEXT = "Brown follows here."  # a name: what may stand behind "Mr." does not end a sentence
_WORD = re.compile(r"\w+")
_KEPT = 16  # texts whose units are remembered


@dataclass(frozen=True, slots=True)
class Addition:
    """What a candidate adds to a text: perhaps unmarkable pieces, then one sentence.

    Attributes:
        raw: exactly the characters to add, white space before them included.
        units: the units they make.
        sentence: the last of them if it can carry a mark, otherwise empty.
        tokens: of the characters that are added.
        ends: whether the model ended its text with it.
        truncated: whether the text ran into its limit with it. Tokens cannot tell: a backend may
            hand over several at once, and a text truncated inside a sentence must not go on.
    """

    raw: str
    units: tuple[Unit, ...]
    sentence: str
    tokens: int
    ends: bool
    truncated: bool = False


class AcceptedText:
    """The accepted part of one text.

    Whatever is accepted splits, together with all before it, into exactly the units that were
    accepted: a candidate that would change them has no place in the text.

    Args:
        prompt: what the model is asked to continue.
        splitter: finds units.
        resumes: the beginning of the text, if this goes on with one that is part of the prompt.
    """

    def __init__(self, prompt: Prompt, splitter: Splitter, *, resumes: str = "") -> None:
        self.prompt = prompt
        self.written = ""
        self._resumes = resumes
        self.lead = ""  # white space before it
        self._sentences: tuple[str, ...] = ()
        self._splitter = splitter
        # Several questions are asked of one candidate.
        self._split_whole = lru_cache(maxsize=_KEPT)(splitter.split)
        self._recent = ""  # the end of what is written, split alone as it is in the whole
        self._units: tuple[Unit, ...] = ()  # of what is recent
        self._joints: tuple[tuple[int, int], ...] = ()  # characters and units before additions
        self._seen: set[tuple[str, ...]] = _grams(_asked(prompt))

    @property
    def sentences(self) -> tuple[str, ...]:
        """Those that can carry a mark."""
        return self._sentences

    @property
    def continued(self) -> str:
        """What the model continues behind its prompt: the text as it came.

        A text does not begin with the white space that the model put between it and the prompt.
        If the model did not see that again, it would take up the habit of leaving it out.
        """
        return self.lead + self.written

    @property
    def whole(self) -> str:
        """What is written, with the beginning that it resumes."""
        return f"{self._resumes}{self.gap}{self.written}" if self.written else self._resumes

    @property
    def gap(self) -> str:
        """What stands between the beginning and what is written after it."""
        last = self._resumes[-1:]
        return "" if not last or last.isspace() or last in "。！？" else " "

    def sentences_of(self, text: str) -> tuple[str, ...]:
        """Those of another text that can carry a mark."""
        return tuple(self._splitter.split(text).carrying)

    def stop_condition(self) -> Callable[[str], bool]:
        """A function that says whether a growing candidate has its sentence, or no place here."""
        known = len(self._units)

        def complete(text: str) -> bool:
            if self._touches(text):
                return True
            if not may_end(text):
                return False
            fresh = self._split(self.spaced(text))[known:]
            return any(unit.carries for unit in fresh[:-1])

        return complete

    def read(self, candidate: Candidate, *, truncated: bool) -> Addition | None:
        """What a candidate adds, or None if it has no place here.

        Args:
            candidate: a continuation of what is written.
            truncated: whether it ran into the limit of the whole text, so that an unfinished
                sentence is its last.
        """
        text = self.spaced(candidate.text)
        if candidate.finished or truncated:
            text = text.rstrip()  # white space that is not kept must not decide what is read
        units = self._split(text)
        known = len(self._units)
        if not _same(units[:known], self._units) or self._touches(text):
            return None
        fresh = units[known:]
        if not fresh:
            # Whether a text goes on after a sentence was decided when that sentence was drawn, by
            # what followed it. Asking again, once a candidate, would end texts too soon.
            return None
        end = next((i for i, unit in enumerate(fresh) if unit.carries), None)
        if end is None:
            tokens = tokens_of(candidate, len(text))
            return Addition(text.rstrip(), fresh, "", tokens, candidate.finished, truncated)
        last = end == len(fresh) - 1
        if last and not (candidate.finished or truncated):
            return None
        kept = fresh[: end + 1]
        raw = text.rstrip() if last else self._raw(text, kept)
        if raw is None:
            return None
        tokens = tokens_of(candidate, len(raw))
        ended = last and candidate.finished
        return Addition(raw, kept, kept[-1].text, tokens, ended, last and truncated)

    def begun(self, text: str) -> tuple[str, bool] | None:
        """The sentence that a candidate has begun, and whether it ends if another follows.

        It is empty if it cannot carry a mark as it stands. None if there is none, or if the
        candidate has no place here.
        """
        text = self.spaced(text)
        units = self._split(text)
        known = len(self._units)
        if not _same(units[:known], self._units) or self._touches(text) or len(units) == known:
            return None
        if any(unit.carries for unit in units[known:-1]):
            return None  # its sentence is over
        if self.may_be_whole(text):
            return units[-1].text, True
        return units[-1].text if units[-1].carries else "", False

    def may_be_whole(self, text: str) -> bool:
        """Whether a candidate's sentence ends with it, if another sentence follows."""
        if not _is_ended(text):
            return False
        now = self._split(text)
        followed = self._split(f"{text} {_NEXT}")
        return len(followed) == len(now) + 1 and now[-1].carries

    def sentence_limit_reached(self, most: int | None) -> Callable[[str], bool]:
        """A function that says whether a growing text has so many sentences; None for any."""

        def complete(text: str) -> bool:
            if most is None or not may_end(text):
                return False
            return sum(unit.carries for unit in self._split(text)[len(self._units) : -1]) >= most

        return complete

    def read_all(self, candidate: Candidate, *, most: int | None = None) -> Addition:
        """All that a candidate adds, when nothing is asked of it; ``most`` sentences at most."""
        text = candidate.text.rstrip()
        units = self._split(text)[len(self._units) :]
        places = [place for place, unit in enumerate(units) if unit.carries]
        if most is not None and len(places) >= most and places[most - 1] < len(units) - 1:
            kept = units[: places[most - 1] + 1]
            raw = self._raw(text, kept)
            if raw is not None:
                return Addition(raw, kept, "", tokens_of(candidate, len(raw)), ends=False)
        ends = candidate.finished
        return Addition(text, units, "", len(candidate.pieces), ends, truncated=not ends)

    def repeats(self, sentence: str) -> float:
        """The share of a sentence's four-word runs that the text or its prompt has already."""
        grams = _grams(sentence)
        return len(grams & self._seen) / len(grams) if grams else 0.0

    def with_addition(self, addition: Addition) -> AcceptedText:
        """The text with an addition accepted."""
        page = copy(self)
        raw = page._write(addition.raw)
        page._sentences += tuple(unit.text for unit in addition.units if unit.carries)
        page._seen = self._seen | _grams(addition.raw)
        page._recent += raw
        page._units += addition.units
        page._joints = (*self._joints, (len(self._recent), len(self._units)))[-3:]
        page._forget()
        return page

    def _write(self, raw: str) -> str:
        """Add to what is written; what was added."""
        added = raw if self.written else raw.lstrip()
        self.lead += raw[: len(raw) - len(added)]
        self.written += added
        return added

    def _forget(self) -> None:
        """Let go of the beginning of what is recent, if it can be split without."""
        place, known = self._joints[0]
        if len(self._units) - known >= 3 and self._splitter.restarts(self._recent, place):
            self._recent = self._recent[place:]
            self._units = self._units[known:]
            self._joints = tuple((at - place, units - known) for at, units in self._joints)

    def _split(self, text: str) -> tuple[Unit, ...]:
        return self._split_whole(self._recent + text).units

    def spaced(self, text: str) -> str:
        """A candidate with the space that a careless model left out before a new sentence."""
        return f" {text}" if self._ended and text[:1].isupper() else text

    def added(self, text: str) -> str:
        """The characters that a candidate adds to the whole."""
        if self._resumes and not self.written:
            return self.gap + text.lstrip()
        return self.spaced(text)

    def _touches(self, text: str) -> bool:
        """Whether a candidate's first word would touch the full stop before it."""
        return self._ended and text[:1].isalnum() and not text[:1].isupper()

    @property
    def _ended(self) -> bool:
        return bool(self.written) and self.written[-1] in ".!?"

    def _raw(self, text: str, kept: tuple[Unit, ...]) -> str | None:
        """The shortest beginning of a candidate that makes exactly the units to keep."""
        wanted = self._units + kept
        least = sum(len(unit.text) for unit in kept)  # normalising never makes a text longer
        for match in re.finditer(r"(?<=\S)\s+|(?<=\W)(?=\S)", text):
            if match.start() < least:
                continue
            beginning = text[: match.start()]
            if _same(self._split(beginning), wanted):
                # What stands between two sentences is drawn with the second. A line break that
                # ends a sentence without a full stop belongs to it.
                gap = match.group()
                return beginning + gap if "\n" in gap and not _is_ended(beginning) else beginning
        return None


def last_sentence(prompt: Prompt, splitter: Splitter) -> str | None:
    """The sentence that a continuation would follow, if the prompt ends with a whole one."""
    units = splitter.split(prompt.text).units
    if prompt.messages or not units or not units[-1].carries:
        return None
    return units[-1].text if _is_ended(units[-1].text) else None


def may_end(text: str) -> bool:
    """Whether a growing text may just have shown that a sentence has ended."""
    return bool(_MAY_END.search(text))


def _is_ended(text: str) -> bool:
    """Whether a text ends as a sentence does."""
    return bool(_END.search(text))


def _same(units: tuple[Unit, ...], others: tuple[Unit, ...]) -> bool:
    """Whether two texts have the same units; white space between them is no matter."""
    return len(units) == len(others) and all(
        unit.text == other.text and unit.carries == other.carries
        for unit, other in zip(units, others, strict=True)
    )


def tokens_of(candidate: Candidate, length: int) -> int:
    """How many of a candidate's tokens its first ``length`` characters took."""
    count = covered = 0
    for piece in candidate.pieces:
        if covered >= length:
            break
        covered += len(piece)
        count += 1
    return count


def _asked(prompt: Prompt) -> str:
    return "\n".join([prompt.text, *(message.content for message in prompt.messages)])


def _grams(text: str) -> set[tuple[str, ...]]:
    words = _WORD.findall(text.lower())
    return {tuple(words[i : i + 4]) for i in range(len(words) - 3)}
