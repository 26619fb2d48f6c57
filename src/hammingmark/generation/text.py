"""The text written so far, and what a candidate would add to it."""

from __future__ import annotations

import re
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from functools import lru_cache

from hammingmark.protocols import Splitter
from hammingmark.records import Candidate, Prompt, Reasoning, Unit
from hammingmark.text.folding import added_length

# A sentence is seen to end when the next word begins; checking later would miss that moment.
_MAY_END = re.compile(r"(?:[^\w\s,]\s+\S{1,15}|\n\s*\S{0,15}|[。！？।؟]\s*\S{0,3})$")
_END = re.compile(r"[.!?。！？…]['\")\]’”]*$")
_NEXT = "Brown follows here."  # begins with a name: after "Mr." it does not start a sentence
_WORD = re.compile(r"\w+")
_CACHE_SIZE = 16  # texts whose units are cached


@dataclass(frozen=True, slots=True)
class Addition:
    """What a candidate adds to a text: optional units that carry no mark, then one sentence.

    Attributes:
        raw: exactly the characters to add, leading white space included.
        units: the units of these characters.
        sentence: the last unit if it can carry a mark, otherwise empty.
        tokens: the tokens of these characters.
        ends: whether the model ended its text here.
        truncated: whether the text reached its limit here. This cannot be derived from the number
            of tokens, because a backend may return several at once, and a text that is truncated
            inside a sentence must not continue.
    """

    raw: str
    units: tuple[Unit, ...]
    sentence: str
    tokens: int
    ends: bool
    truncated: bool = False


class AcceptedText:
    """The accepted part of one text.

    Everything accepted splits, together with all that precedes it, into exactly the units that were
    accepted. A candidate that would change them does not fit and is rejected.

    Args:
        prompt: what the model continues or answers.
        splitter: splits the text into units.
        resumes: the beginning of the text, if it resumes a text that is part of the prompt.
    """

    def __init__(self, prompt: Prompt, splitter: Splitter, *, resumes: str = "") -> None:
        self.prompt = prompt
        self.written = ""
        self._resumes = resumes
        self.lead = ""  # white space between the prompt and the text
        self.reasoning: Reasoning | None = None  # what the model thought before it
        self._sentences: tuple[str, ...] = ()
        self._splitter = splitter
        # The same candidate is split for several checks.
        self._split_cached = lru_cache(maxsize=_CACHE_SIZE)(splitter.split)
        self._recent = ""  # a suffix of `written` that splits alone as it does in the whole
        self._units: tuple[Unit, ...] = ()  # of `_recent`
        self._boundaries: tuple[tuple[int, int], ...] = ()  # characters and units before additions
        self._ngrams: set[tuple[str, ...]] = _four_grams(_begun_text(prompt))

    @property
    def sentences(self) -> tuple[str, ...]:
        """The sentences that can carry a mark."""
        return self._sentences

    @property
    def continuation(self) -> str:
        """The text as the model wrote it after its prompt, leading white space included.

        The text itself does not begin with that white space. But a model that did not see it again
        would learn from its context to omit it.
        """
        return self.lead + self.written

    @property
    def full_text(self) -> str:
        """The text with the beginning that it resumes."""
        return f"{self._resumes}{self.gap}{self.written}" if self.written else self._resumes

    @property
    def gap(self) -> str:
        """What separates the beginning that is resumed from the text after it."""
        last = self._resumes[-1:]
        return "" if not last or last.isspace() or last in "。！？" else " "

    def sentences_of(self, text: str) -> tuple[str, ...]:
        """The sentences of another text that can carry a mark."""
        return tuple(self._splitter.split(text).carrying)

    def stop_condition(self) -> Callable[[str], bool]:
        """The stop condition of a candidate: its sentence is complete, or it does not fit."""
        count = len(self._units)

        def is_complete(text: str) -> bool:
            if self._touches(text):
                return True
            if not may_end(text):
                return False
            units = self._split(self.add_space(text))[count:]
            return any(unit.carries for unit in units[:-1])

        return is_complete

    def read(self, candidate: Candidate, *, truncated: bool) -> Addition | None:
        """What a candidate adds to the text; None if it does not fit.

        Args:
            candidate: a continuation of the text.
            truncated: whether it reached the limit of the whole text, so that an unfinished
                sentence is the last one.
        """
        text = self.add_space(candidate.text)
        if candidate.finished or truncated:
            text = text.rstrip()  # white space that will be dropped must not influence the split
        units = self._split(text)
        count = len(self._units)
        if not _same(units[:count], self._units) or self._touches(text):
            return None
        new = units[count:]
        if not new:
            # Whether the text continues after a sentence was decided when that sentence was drawn,
            # by what followed it. Deciding again for each candidate would end texts too early.
            return None
        end = next((i for i, unit in enumerate(new) if unit.carries), None)
        if end is None:
            tokens = count_tokens(candidate, len(text))
            return Addition(text.rstrip(), new, "", tokens, candidate.finished, truncated)
        is_last = end == len(new) - 1
        if is_last and not (candidate.finished or truncated):
            return None
        new = new[: end + 1]
        raw = text.rstrip() if is_last else self._shortest_prefix(text, new)
        if raw is None:
            return None
        tokens = count_tokens(candidate, len(raw))
        ends = is_last and candidate.finished
        return Addition(raw, new, new[-1].text, tokens, ends, is_last and truncated)

    def read_prefix(self, text: str) -> tuple[str, bool] | None:
        """The unfinished sentence of a candidate, and whether it is complete if another follows.

        The sentence is empty if it cannot carry a mark as it stands. None if the candidate has no
        unfinished sentence or does not fit.
        """
        text = self.add_space(text)
        units = self._split(text)
        count = len(self._units)
        if not _same(units[:count], self._units) or self._touches(text) or len(units) == count:
            return None
        if any(unit.carries for unit in units[count:-1]):
            return None  # a sentence is complete
        if self.may_be_complete(text):
            return units[-1].text, True
        return units[-1].text if units[-1].carries else "", False

    def may_be_complete(self, text: str) -> bool:
        """Whether the sentence of a candidate is complete if another sentence follows."""
        if not _ends_sentence(text):
            return False
        units = self._split(text)
        followed = self._split(f"{text} {_NEXT}")
        return len(followed) == len(units) + 1 and units[-1].carries

    def sentence_limit(self, max_sentences: int | None) -> Callable[[str], bool]:
        """The stop condition of a candidate with this many sentences; None for no limit."""

        def is_reached(text: str) -> bool:
            if max_sentences is None or not may_end(text):
                return False
            units = self._split(text)[len(self._units) : -1]
            return sum(unit.carries for unit in units) >= max_sentences

        return is_reached

    def read_all(self, candidate: Candidate, *, max_sentences: int | None = None) -> Addition:
        """Everything that an unconstrained candidate adds, up to a number of sentences."""
        text = candidate.text.rstrip()
        units = self._split(text)[len(self._units) :]
        places = [place for place, unit in enumerate(units) if unit.carries]
        if (
            max_sentences is not None
            and len(places) >= max_sentences
            and places[max_sentences - 1] < len(units) - 1
        ):
            first = units[: places[max_sentences - 1] + 1]
            raw = self._shortest_prefix(text, first)
            if raw is not None:
                return Addition(raw, first, "", count_tokens(candidate, len(raw)), ends=False)
        ends = candidate.finished
        return Addition(text, units, "", len(candidate.pieces), ends, truncated=not ends)

    def repeated_share(self, sentence: str) -> float:
        """The share of a sentence's four-word sequences that the text contains, from its prompt on.

        The messages that an answer follows are not part of it.
        """
        ngrams = _four_grams(sentence)
        return len(ngrams & self._ngrams) / len(ngrams) if ngrams else 0.0

    def with_addition(self, addition: Addition) -> AcceptedText:
        """A copy of the text with an addition."""
        text = copy(self)
        text._recent += text._append(addition.raw)
        text._sentences += tuple(unit.text for unit in addition.units if unit.carries)
        text._ngrams = self._ngrams | _four_grams(addition.raw)
        text._units += addition.units
        boundary = (len(self._recent), len(self._units))  # where the addition begins
        text._boundaries = (*self._boundaries, boundary)[-3:]
        text._trim()
        return text

    def with_reasoning(self, reasoning: Reasoning | None) -> AcceptedText:
        """A copy of the text with what the model thought before it."""
        text = copy(self)
        text.reasoning = reasoning
        return text

    def _append(self, raw: str) -> str:
        """Append to the text; returns what was appended, without white space at its start."""
        appendix = raw if self.written else raw.lstrip()
        self.lead += raw[: len(raw) - len(appendix)]
        self.written += appendix
        return appendix

    def _trim(self) -> None:
        """Drop the beginning of the recent part if the rest splits the same without it."""
        place, count = self._boundaries[0]
        if len(self._units) - count >= 3 and self._splitter.restarts(self._recent, place):
            self._recent = self._recent[place:]
            self._units = self._units[count:]
            self._boundaries = tuple((at - place, units - count) for at, units in self._boundaries)

    def _split(self, text: str) -> tuple[Unit, ...]:
        return self._split_cached(self._recent + text).units

    def add_space(self, text: str) -> str:
        """A candidate, with a space before a new sentence if the model left it out."""
        return f" {text}" if self._is_at_sentence_end and text[:1].isupper() else text

    def added(self, text: str) -> str:
        """The characters that a candidate adds to the full text."""
        if self._resumes and not self.written:
            return self.gap + text.lstrip()
        return self.add_space(text)

    def _touches(self, text: str) -> bool:
        """Whether a candidate continues directly after a full stop, as in ``1.5``."""
        return self._is_at_sentence_end and text[:1].isalnum() and not text[:1].isupper()

    @property
    def _is_at_sentence_end(self) -> bool:
        return bool(self.written) and self.written[-1] in ".!?"

    def _shortest_prefix(self, text: str, units: tuple[Unit, ...]) -> str | None:
        """The shortest prefix of a candidate that adds exactly these units."""
        target = self._units + units
        # Normalising makes no text longer, except that it spells out ligatures.
        shortest = sum(len(unit.text) for unit in units) - added_length(text)
        for match in re.finditer(r"(?<=\S)\s+|(?<=\W)(?=\S)", text):
            if match.start() < shortest:
                continue
            prefix = text[: match.start()]
            if _same(self._split(prefix), target):
                # White space between two sentences is drawn with the second. A line break that
                # ends a sentence without a full stop belongs to the first.
                gap = match.group()
                return prefix + gap if "\n" in gap and not _ends_sentence(prefix) else prefix
        return None


def last_sentence(prompt: Prompt, splitter: Splitter) -> str | None:
    """The sentence that a continuation would follow, if the prompt ends with a complete one."""
    units = splitter.split(prompt.text).units
    if prompt.messages or not units or not units[-1].carries:
        return None
    return units[-1].text if _ends_sentence(units[-1].text) else None


def may_end(text: str) -> bool:
    """Whether the end of a growing text may just have shown that a sentence is complete."""
    return bool(_MAY_END.search(text))


def _ends_sentence(text: str) -> bool:
    """Whether a text ends with the punctuation of a sentence."""
    return bool(_END.search(text))


def _same(units: tuple[Unit, ...], others: tuple[Unit, ...]) -> bool:
    """Whether two texts have the same units, regardless of the white space between them."""
    return len(units) == len(others) and all(
        unit.text == other.text and unit.carries == other.carries
        for unit, other in zip(units, others, strict=True)
    )


def count_tokens(candidate: Candidate, length: int) -> int:
    """The number of a candidate's tokens that cover its first ``length`` characters."""
    count = covered = 0
    for piece in candidate.pieces:
        if covered >= length:
            break
        covered += len(piece)
        count += 1
    return count


def _begun_text(prompt: Prompt) -> str:
    """The text that is continued; an answer may quote the conversation before it."""
    if prompt.messages and prompt.messages[-1].role == "assistant":
        return prompt.messages[-1].content
    return prompt.text


def _four_grams(text: str) -> set[tuple[str, ...]]:
    words = _WORD.findall(text.lower())
    return {tuple(words[i : i + 4]) for i in range(len(words) - 3)}
