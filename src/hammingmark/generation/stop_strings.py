"""Stop strings: a text ends before the first of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from hammingmark.records import Candidate, Generation, GenerationStep

Added = Callable[[str], str]
"""The characters that a candidate adds to a text."""


def find_stop(stop: Sequence[str], text: str, *, before: str = "") -> int | None:
    """The offset of the first stop string in a text; None if it has none.

    Args:
        stop: the stop strings.
        text: the text to search.
        before: the text before it. A stop string that begins there and ends in ``text`` has an
            offset below 0.
    """
    tail = before[-max(map(len, stop), default=0) :]
    whole = tail + text
    offsets = [
        offset
        for string in stop
        # A string that ends within `before` was not a stop when that was written.
        if (offset := whole.find(string, max(0, len(tail) - len(string) + 1))) >= 0
    ]
    return min(offsets) - len(tail) if offsets else None


def held_back(stop: Sequence[str], text: str) -> int:
    """The length of the longest suffix of a text that may be the beginning of a stop string."""
    longest = min(len(text), max(map(len, stop), default=1) - 1)
    for length in range(longest, 0, -1):
        if any(string.startswith(text[-length:]) for string in stop):
            return length
    return 0


def ending_at(
    stop: Sequence[str], stop_condition: Callable[[str], bool], *, before: str, added: Added
) -> Callable[[str], bool]:
    """A stop condition of a growing candidate that also holds when a stop string is complete.

    The candidate continues while its end may be the beginning of a stop string. Otherwise
    candidates with a complete stop string would be too rare among those that stop nearby.

    Args:
        stop: the stop strings.
        stop_condition: the condition without stop strings.
        before: the text before the candidate.
        added: gives what the candidate adds to it.
    """
    tail = before[-max(map(len, stop), default=0) :]

    def is_complete(text: str) -> bool:
        addition = added(text)
        if find_stop(stop, addition, before=tail) is not None:
            return True
        return stop_condition(text) and not held_back(stop, tail + addition)

    return is_complete


def cut_at(
    stop: Sequence[str], candidate: Candidate, *, before: str, added: Added
) -> tuple[Candidate, int]:
    """A candidate cut before its first stop string, as if the model had ended its text there.

    Args:
        stop: the stop strings.
        candidate: what the model wrote.
        before: the text before it.
        added: gives what the candidate adds to it.

    Returns:
        The candidate, and the number of characters of the stop string that stand before it.
    """
    text = added(candidate.text)
    offset = find_stop(stop, text, before=before)
    if offset is None:
        return candidate, 0
    pieces: list[str] = []
    left = offset - (len(text) - len(candidate.text))
    for piece in candidate.pieces:
        if left <= 0:
            break
        pieces.append(piece[:left])
        left -= len(piece)
    cut = replace(
        candidate,
        pieces=tuple(pieces),
        finished=True,
        truncated=False,
        failure=None,
        calls=None,
    )
    return cut, max(0, -offset)


def cut_generation(
    generation: Generation, length: int, *, split: Callable[[str], Sequence[str]]
) -> Generation:
    """A generation cut to a length, with its sentences, steps and counts adjusted.

    A sentence that is cut becomes unconstrained, because it differs from the one that was judged.
    The tokens of a cut step are estimated from its characters.

    Args:
        generation: the complete text.
        length: the number of characters to keep; trailing white space is dropped as well.
        split: gives the sentences of a text that can carry a mark.
    """
    text = generation.text[:length].rstrip()
    sentences = tuple(split(text))
    steps: list[GenerationStep] = []
    begin, index = 0, 0
    for step in generation.steps:
        if begin >= len(text):
            break
        rest = step.text[: len(text) - begin]
        begin += len(step.text)
        sentence = sentences[index] if step.sentence and index < len(sentences) else ""
        index += bool(step.sentence)
        if rest != step.text or sentence != step.sentence:
            tokens = math.ceil(step.tokens * len(rest) / len(step.text))
            step = replace(
                step,
                text=rest,
                sentence=sentence,
                accepted=None,
                score=None,
                tokens=tokens,
                insisted=False,
            )
        steps.append(step)
    cost = replace(
        generation.cost,
        tokens=sum(step.tokens for step in steps),
        fallbacks=sum(step.is_fallback for step in steps),
        insisted=sum(step.insisted for step in steps),
        constrained=sum(step.accepted is not None for step in steps),
    )
    return replace(generation, text=text, sentences=sentences, steps=tuple(steps), cost=cost)


def settled_length(stop: Sequence[str], text: str) -> int:
    """The length of the part of a growing text that no stop string can shorten any more.

    This excludes a suffix that may be the beginning of a stop string, and white space before that,
    which a cut text does not keep.
    """
    held = held_back(stop, text)
    return len(text[: len(text) - held].rstrip()) if held else len(text)
