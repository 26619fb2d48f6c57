"""Strings before which a text ends, whoever would have gone on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from hammingmark.records import Candidate, Request


def find_stop(stop: Sequence[str], text: str, *, before: str = "") -> int | None:
    """Where in a text the first of some strings begins; None if it has none of them.

    Args:
        stop: the strings.
        text: where to look.
        before: what stands before the text. A string that begins there and ends in the text is
            found at 0.
    """
    tail = before[-max(map(len, stop), default=0) :]
    whole = tail + text
    places = [
        place
        for each in stop
        # One that ends before the text begins was not found when it was written: not ours.
        if (place := whole.find(each, max(0, len(tail) - len(each) + 1))) >= 0
    ]
    return max(0, min(places) - len(tail)) if places else None


def held_back(stop: Sequence[str], text: str) -> int:
    """How many characters at the end of a text may be the beginning of one of some strings."""
    longest = min(len(text), max(map(len, stop), default=1) - 1)
    for count in range(longest, 0, -1):
        if any(each.startswith(text[-count:]) for each in stop):
            return count
    return 0


def ending_at(stop: Sequence[str], request: Request) -> Request:
    """A request that needs nothing more once one of some strings has come.

    While its end may be the beginning of one, it goes on: otherwise candidates in which the string
    comes whole would be few among those that are cut before it.
    """
    enough: Callable[[str], bool] = request.enough
    before = request.written

    def complete(text: str) -> bool:
        if find_stop(stop, text, before=before) is not None:
            return True
        return enough(text) and not held_back(stop, before + text)

    return replace(request, enough=complete)


def cut_at(stop: Sequence[str], candidate: Candidate, request: Request) -> Candidate:
    """A candidate up to the first of some strings, with which the model then ended its text."""
    place = find_stop(stop, candidate.text, before=request.written)
    if place is None:
        return candidate
    pieces: list[str] = []
    left = place
    for piece in candidate.pieces:
        if left <= 0:
            break
        pieces.append(piece[:left])
        left -= len(piece)
    return replace(candidate, pieces=tuple(pieces), finished=True, cut=False, trouble=None)
