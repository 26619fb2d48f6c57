"""Strings before which a text ends."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hammingmark.pipeline.stop_strings import cut_at, ending_at, find_stop, held_back
from hammingmark.records import Candidate, Prompt, Request


@pytest.mark.parametrize(
    ("stop", "before", "text", "place"),
    [
        (["END"], "", "so it ENDs", 6),
        (["x", "it"], "", "so it x", 3),
        (["END"], "the E", "ND of it", 0),
        (["END"], "the END", "of it", None),
        (["END"], "", "so it", None),
        ([], "", "so it", None),
        (["aa"], "a", "ba", None),
    ],
)
def test_the_first_of_them_is_found(
    stop: list[str], before: str, text: str, place: int | None
) -> None:
    assert find_stop(stop, text, before=before) == place


texts = st.text(alphabet="ab.", max_size=12)
stops = st.lists(st.text(alphabet="ab.", min_size=1, max_size=3), min_size=1, max_size=3)


@given(stops, texts, texts)
def test_what_is_held_back_is_all_that_a_string_may_still_take(
    stop: list[str], text: str, more: str
) -> None:
    """Emitting all but what is held back never emits a part of a string that comes later."""
    if find_stop(stop, text) is not None:
        return
    safe = len(text) - held_back(stop, text)
    place = find_stop(stop, text + more)
    assert place is None or place >= safe


@given(stops, texts, st.lists(texts, max_size=5))
def test_a_candidate_is_cut_before_the_first_of_them(
    stop: list[str], before: str, pieces: list[str]
) -> None:
    request = Request(1, Prompt("P"), before, 0, 99, lambda text: False)
    candidate = Candidate(1, tuple(pieces), finished=False, cut=True)
    cut = cut_at(stop, candidate, request)
    place = find_stop(stop, candidate.text, before=before)
    if place is None:
        assert cut is candidate
        assert not ending_at(stop, request).enough(candidate.text)
    else:
        assert cut.text == candidate.text[:place]
        assert (cut.finished, cut.cut) == (True, False)
        assert ending_at(stop, request).enough(candidate.text)


def test_a_candidate_goes_on_while_a_string_may_be_coming() -> None:
    request = Request(1, Prompt("P"), "", 0, 99, lambda text: text.endswith("."))
    asked = ending_at(["froze. The quiet"], request)
    assert not asked.enough("The river froze.")
    assert asked.enough("The river froze. The quiet")
    assert asked.enough("The river froze. It was quiet.")
