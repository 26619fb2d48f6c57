"""Strings before which a text ends."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hammingmark.generation.stop_strings import (
    cut_at,
    cut_generation,
    ending_at,
    find_stop,
    held_back,
)
from hammingmark.protocols import Splitter
from hammingmark.records import Candidate, Cost, Generation, GenerationStep


@pytest.mark.parametrize(
    ("stop", "before", "text", "place"),
    [
        (["END"], "", "so it ENDs", 6),
        (["x", "it"], "", "so it x", 3),
        (["END"], "the E", "ND of it", -1),
        (["END", "the END"], "the E", "ND of it", -5),
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
    candidate = Candidate(1, tuple(pieces), finished=False, truncated=True)
    cut, back = cut_at(stop, candidate, before=before, added=str)
    place = find_stop(stop, candidate.text, before=before)
    stop_condition = ending_at(stop, lambda text: False, before=before, added=str)
    assert stop_condition(candidate.text) is (place is not None)
    if place is None:
        assert (cut, back) == (candidate, 0)
        return
    assert (cut.finished, cut.truncated) == (True, False)
    assert cut.text == candidate.text[: max(0, place)]
    assert back == max(0, -place)
    whole = before + candidate.text
    assert whole[len(before) + place :].startswith(tuple(stop))


def test_a_string_may_begin_with_the_space_that_is_added() -> None:
    """As a text has it, and not as the model wrote it."""
    candidate = Candidate(1, ("The", " bells"), finished=False)

    def added(text: str) -> str:
        return f" {text}"

    for stop, left, back in ((". The", "", 1), (" The", "", 0), ("The b", "", 0), (" b", "The", 0)):
        cut = cut_at([stop], candidate, before="It froze.", added=added)
        assert (cut[0].text, cut[1]) == (left, back), stop
    assert cut_at([".The"], candidate, before="It froze.", added=added) == (candidate, 0)


def test_a_candidate_goes_on_while_a_string_may_be_coming() -> None:
    def ends(text: str) -> bool:
        return text.endswith(".")

    stop_condition = ending_at(["froze. The quiet"], ends, before="", added=str)
    assert not stop_condition("The river froze.")
    assert stop_condition("The river froze. The quiet")
    assert stop_condition("The river froze. It was quiet.")
    later = ending_at(["froze. The quiet"], ends, before="The river froze.", added=str)
    assert later(" The quiet")


def a_step(text: str, sentence: str, accepted: bool | None = True) -> GenerationStep:
    return GenerationStep(0, text, sentence, accepted, 1.0, 2, len(text.split()), 9)


def a_generation(*steps: GenerationStep) -> Generation:
    return Generation(
        "".join(step.text for step in steps),
        tuple(step.sentence for step in steps if step.sentence),
        steps,
        Cost(
            candidates=6,
            tokens=sum(step.tokens for step in steps),
            drawn_tokens=27,
            fallbacks=sum(step.accepted is False for step in steps),
            constrained=len(steps),
        ),
        "end",
    )


def test_what_is_left_of_a_text_is_counted(splitter: Splitter) -> None:
    steps = (
        a_step("The river froze.", "The river froze."),
        a_step(" The quiet garden slept.", "The quiet garden slept.", accepted=False),
        a_step(" The bells rang.", "The bells rang."),
    )
    generation = a_generation(*steps)

    def cut(length: int) -> Generation:
        return cut_generation(generation, length, split=lambda text: splitter.split(text).carrying)

    assert cut(len(generation.text)) == generation
    first, half = cut(len("The river froze. ")), cut(len("The river froze. The quiet"))
    assert (first.text, first.steps, first.sentences) == (
        "The river froze.",
        steps[:1],
        ("The river froze.",),
    )
    assert (first.cost.tokens, first.cost.constrained, first.cost.fallbacks) == (3, 1, 0)
    assert (first.cost.candidates, first.cost.drawn_tokens) == (6, 27), "they were drawn"
    assert half.text == "The river froze. The quiet"
    assert half.sentences == ("The river froze.", "The quiet")
    assert half.steps[0] == steps[0]
    last = half.steps[1]
    assert (last.text, last.sentence) == (" The quiet", "The quiet")
    assert (last.accepted, last.score) == (None, None), "it was never judged as it is"
    assert half.cost.tokens == 3 + last.tokens
    assert last.tokens in (1, 2)
    assert (half.cost.constrained, half.cost.fallbacks) == (1, 0)
    nothing = cut(0)
    assert (nothing.text, nothing.steps, nothing.sentences, nothing.cost.tokens) == ("", (), (), 0)


def test_a_sentence_that_is_another_once_the_text_is_cut_is_not_the_one_that_was_judged() -> None:
    steps = (a_step("He met J.", "He met J."), a_step(" Brown slept.", "Brown slept."))
    cut = cut_generation(a_generation(*steps), len("He met J. Br"), split=lambda text: [text])
    assert cut.sentences == ("He met J. Br",)
    assert [step.accepted for step in cut.steps] == [None, None]
    assert "".join(step.text for step in cut.steps) == cut.text
