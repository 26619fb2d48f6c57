"""Strings before which a text ends, whoever would have gone on."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from hammingmark.records import Candidate, Generation, GenerationStep

Added = Callable[[str], str]
"""What is added to a text if a model has written this."""


def find_stop(stop: Sequence[str], text: str, *, before: str = "") -> int | None:
    """Where in a text the first of some strings begins; None if it has none of them.

    Args:
        stop: the strings.
        text: where to look.
        before: what stands before the text. A string that begins there and ends in the text is
            found at a place below 0.
    """
    tail = before[-max(map(len, stop), default=0) :]
    whole = tail + text
    places = [
        place
        for each in stop
        # One that ends before the text begins was not found when it was written: not ours.
        if (place := whole.find(each, max(0, len(tail) - len(each) + 1))) >= 0
    ]
    return min(places) - len(tail) if places else None


def held_back(stop: Sequence[str], text: str) -> int:
    """How many characters at the end of a text may be the beginning of one of some strings."""
    longest = min(len(text), max(map(len, stop), default=1) - 1)
    for count in range(longest, 0, -1):
        if any(each.startswith(text[-count:]) for each in stop):
            return count
    return 0


def ending_at(
    stop: Sequence[str], stop_condition: Callable[[str], bool], *, before: str, added: Added
) -> Callable[[str], bool]:
    """A function that says whether a growing candidate need not go on, also if a string has come.

    While its end may be the beginning of one, it goes on: otherwise candidates in which the string
    comes whole would be few among those that are cut before it.

    Args:
        stop: the strings.
        stop_condition: says it of a candidate without them.
        before: what stands before the candidate.
        added: what the candidate adds to that.
    """
    tail = before[-max(map(len, stop), default=0) :]

    def complete(text: str) -> bool:
        more = added(text)
        if find_stop(stop, more, before=tail) is not None:
            return True
        return stop_condition(text) and not held_back(stop, tail + more)

    return complete


def cut_at(
    stop: Sequence[str], candidate: Candidate, *, before: str, added: Added
) -> tuple[Candidate, int]:
    """A candidate up to the first of some strings, with which the model then ended its text.

    Args:
        stop: the strings.
        candidate: what the model wrote.
        before: what stands before it.
        added: what it adds to that.

    Returns:
        The candidate, and how many characters before it are the beginning of the string.
    """
    text = added(candidate.text)
    place = find_stop(stop, text, before=before)
    if place is None:
        return candidate, 0
    pieces: list[str] = []
    left = place - (len(text) - len(candidate.text))
    for piece in candidate.pieces:
        if left <= 0:
            break
        pieces.append(piece[:left])
        left -= len(piece)
    cut = replace(candidate, pieces=tuple(pieces), finished=True, truncated=False, failure=None)
    return cut, max(0, -place)


def cut_generation(
    generation: Generation, length: int, *, split: Callable[[str], Sequence[str]]
) -> Generation:
    """A text that ends sooner, with the sentences and the counts of what is left of it.

    Nothing was asked of a sentence that is cut: it is another one than was judged. The tokens of
    its rest are estimated by its characters.

    Args:
        generation: the text.
        length: characters that are left of it; white space at their end is not.
        split: the sentences of a text that can carry a mark.
    """
    text = generation.text[:length].rstrip()
    sentences = tuple(split(text))
    steps: list[GenerationStep] = []
    begin, place = 0, 0
    for step in generation.steps:
        if begin >= len(text):
            break
        kept = step.text[: len(text) - begin]
        begin += len(step.text)
        left = sentences[place] if step.sentence and place < len(sentences) else ""
        place += bool(step.sentence)
        if kept != step.text or left != step.sentence:
            tokens = math.ceil(step.tokens * len(kept) / len(step.text))
            step = replace(step, text=kept, sentence=left, accepted=None, score=None, tokens=tokens)
        steps.append(step)
    cost = replace(
        generation.cost,
        tokens=sum(step.tokens for step in steps),
        fallbacks=sum(step.accepted is False for step in steps),
        constrained=sum(step.accepted is not None for step in steps),
    )
    return replace(generation, text=text, sentences=sentences, steps=tuple(steps), cost=cost)


def settled_length(stop: Sequence[str], text: str) -> int:
    """How much of a growing text no string that comes later can change.

    All but what may be the beginning of a string, and white space before that, which a text that
    is cut does not end with.
    """
    held = held_back(stop, text)
    return len(text[: len(text) - held].rstrip()) if held else len(text)
