"""What a candidate adds to the text written so far."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from hammingmark.generation.text import AcceptedText, Addition, last_sentence
from hammingmark.protocols import Splitter
from hammingmark.records import Candidate, Message, Prompt, Sentences
from hammingmark.text.punkt import PunktSplitter
from hammingmark.text.sentencex import SentencexSplitter


def candidate(text: str, *, finished: bool = False) -> Candidate:
    pieces = tuple(word if i == 0 else f" {word}" for i, word in enumerate(text.split(" ")))
    return Candidate(1, pieces, finished)


def accepted_text(splitter: Splitter, *written: str) -> AcceptedText:
    accepted = AcceptedText(Prompt("A prompt."), splitter)
    for text in written:
        addition = accepted.read(candidate(text, finished=True), truncated=False)
        assert addition is not None
        accepted = accepted.with_addition(addition)
    return accepted


def read(
    accepted: AcceptedText, text: str, *, finished: bool = False, cut: bool = False
) -> Addition | None:
    return accepted.read(candidate(text, finished=finished), truncated=cut)


def test_a_sentence_ends_where_the_next_begins(splitter: Splitter) -> None:
    addition = read(accepted_text(splitter, "It rained."), " The river rose fast. Then")
    assert addition is not None
    assert addition.raw == " The river rose fast."
    assert addition.sentence == "The river rose fast."
    assert addition.tokens == 5  # the space before the first word is a piece of its own here
    assert not addition.ends


def test_a_sentence_is_emitted_as_it_was_written_and_judged_with_plain_letters(
    splitter: Splitter,
) -> None:
    written = " Тhе diﬃcult ﬁnd was Ⅷ 𝐛𝐨𝐨𝐤𝐬."
    addition = read(accepted_text(splitter, "It rained."), f"{written} Then")
    assert addition is not None
    assert addition.raw == written
    assert addition.sentence == "The difficult find was VIII books."


def test_an_unfinished_sentence_does_not_fit_unless_it_is_the_last(splitter: Splitter) -> None:
    accepted = accepted_text(splitter, "It rained.")
    assert read(accepted, " The river rose") is None
    for flags in ({"finished": True}, {"cut": True}):
        addition = read(accepted, " The river rose", **flags)
        assert addition is not None
        assert addition.sentence == "The river rose"


def test_a_candidate_that_changes_what_was_accepted_does_not_fit(splitter: Splitter) -> None:
    accepted = accepted_text(splitter, "He paid 3.")
    assert read(accepted, "5 million for it. Then") is None  # "He paid 3.5 million for it."
    assert read(accepted, "then he left. And") is None  # "3.then" runs on


def test_headings_and_code_pass_through_before_the_sentence(splitter: Splitter) -> None:
    text = "\n\n```python\nx = 1. y = 2.\n```\n\nThe code sets two names. Then"
    addition = read(accepted_text(splitter, "Look here."), text)
    assert addition is not None
    assert addition.sentence == "The code sets two names."
    assert "x = 1. y = 2." in addition.raw
    assert [unit.carries for unit in addition.units] == [False, True]


def test_curly_quotes_stay_in_the_text_and_not_in_the_sentence(splitter: Splitter) -> None:
    addition = read(accepted_text(splitter, "It rained."), " “Run!” he said. Then")
    assert addition is not None
    assert "“Run!”" in addition.raw
    assert '"Run!"' in addition.sentence


def test_nothing_more_is_no_addition(splitter: Splitter) -> None:
    assert read(accepted_text(splitter, "It rained."), "", finished=True) is None
    assert read(accepted_text(splitter, "It rained."), "  ", finished=True) is None


def test_what_is_written_splits_into_what_was_accepted(splitter: Splitter) -> None:
    parts = ["It rained.", " Dr. Smith stayed in.", "\n\n- He read a book.", " He slept well!"]
    accepted = accepted_text(splitter, *parts)
    assert accepted.written == "".join(parts)
    assert splitter.split(accepted.written).carrying == [
        "It rained.",
        "Dr. Smith stayed in.",
        "He read a book.",
        "He slept well!",
    ]


def test_the_stop_condition_holds_when_another_unit_has_begun(splitter: Splitter) -> None:
    stop_condition = accepted_text(splitter, "It rained.").stop_condition()
    assert not stop_condition(" The river")
    assert not stop_condition(" The river rose fast.")
    assert stop_condition(" The river rose fast. T")
    assert not stop_condition("\n\n# A heading\n\n")
    assert not stop_condition("\n\n# A heading\n\nA sentence.")
    assert stop_condition("\n\n# A heading\n\nA sentence. B")


def test_repetition_is_the_share_of_four_word_sequences_seen_before(splitter: Splitter) -> None:
    accepted = accepted_text(splitter, "The cat sat on the mat today.")
    assert accepted.repeated_share("The cat sat on the mat today.") == 1.0
    assert accepted.repeated_share("A dog ran over the hill.") == 0.0
    assert accepted.repeated_share("The cat sat on the floor again.") == pytest.approx(2 / 4)
    assert accepted.repeated_share("Too short.") == 0.0


def test_quoting_a_question_is_no_repetition(splitter: Splitter) -> None:
    quoted = "The contract ends on the third of May."
    question = Message("user", f"When does it end? {quoted}")
    answer = AcceptedText(Prompt(messages=(question,)), splitter)
    assert answer.repeated_share(quoted) == 0.0
    begun = (question, Message("assistant", quoted))
    assert AcceptedText(Prompt(messages=begun), splitter).repeated_share(quoted) == 1.0
    assert AcceptedText(Prompt(quoted), splitter).repeated_share(quoted) == 1.0


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        (Prompt("One. Two is here."), "Two is here."),
        (Prompt('He said "stop."'), 'He said "stop."'),
        (Prompt("One. Two is not"), None),
        (Prompt(""), None),
        (Prompt("# A heading"), None),
        (Prompt(messages=(Message("user", "Hello there. How are you?"),)), None),
    ],
)
def test_the_first_centre_is_a_whole_last_sentence(
    splitter: Splitter, prompt: Prompt, expected: str | None
) -> None:
    assert last_sentence(prompt, splitter) == expected


def test_a_candidate_that_cannot_fit_is_given_up_at_its_first_token(splitter: Splitter) -> None:
    stop_condition = accepted_text(splitter, "It cost 3.").stop_condition()
    assert stop_condition("5")  # would touch the full stop
    assert not stop_condition(" The")
    assert not stop_condition(" The river rose.")
    assert stop_condition(" The river rose. Then")


def test_a_space_that_the_model_left_out_is_put_in(splitter: Splitter) -> None:
    accepted = accepted_text(splitter, "It rained all day.")
    addition = read(accepted, "The river rose. Then")
    assert addition is not None
    assert addition.raw == " The river rose."
    assert accepted.with_addition(addition).sentences == ("It rained all day.", "The river rose.")


def test_what_stands_between_two_sentences_is_drawn_with_the_second(splitter: Splitter) -> None:
    accepted = accepted_text(splitter)
    first = read(accepted, "It rained all day.\n\nThen")
    assert first is not None
    assert first.raw == "It rained all day."
    accepted = accepted.with_addition(first)
    for text, raw in ((" We slept. And", " We slept."), ("\n\nWe slept. And", "\n\nWe slept.")):
        addition = read(accepted, text)
        assert addition is not None
        assert addition.raw == raw


@dataclass
class Counting:
    """A splitter that counts the characters it is given."""

    inner: SentencexSplitter | PunktSplitter
    name: str = "counting"
    characters: list[int] = field(default_factory=list)

    def split(self, text: str) -> Sentences:
        self.characters.append(len(text))
        return self.inner.split(text)

    def restarts(self, text: str, place: int) -> bool:
        return False


@dataclass
class CountingRestarts(Counting):
    def restarts(self, text: str, place: int) -> bool:
        self.characters.append(len(text))
        return self.inner.restarts(text, place)


def written(splitter: Counting, gap: Callable[[int], str], count: int) -> tuple[AcceptedText, int]:
    """A text of some sentences, and the most characters that were split for one of them."""
    accepted = AcceptedText(Prompt("A prompt."), splitter)
    most = 0
    for index in range(count):
        splitter.characters.clear()
        text = f"{gap(index)}Word {index} was seen at the mill again. Then"
        assert accepted.stop_condition()(text)
        addition = read(accepted, text)
        assert addition is not None
        accepted = accepted.with_addition(addition)
        most = max(most, sum(splitter.characters))
    return accepted, most


@pytest.mark.parametrize("inner", [SentencexSplitter(), PunktSplitter()])
@pytest.mark.parametrize(
    "gap",
    [
        lambda index: " ",
        lambda index: "\n\n",
        lambda index: "\n- ",
        lambda index: f"\n\n{index + 1}. ",
        lambda index: "\n\n# Head\n" if index % 5 == 0 else " ",
    ],
    ids=["one paragraph", "paragraphs", "bullets", "numbers", "headings"],
)
def test_what_is_split_for_a_sentence_does_not_grow_with_the_text(
    inner: SentencexSplitter | PunktSplitter, gap: Callable[[int], str]
) -> None:
    splitter = CountingRestarts(inner)
    accepted, most = written(splitter, gap, 400)
    _, soon = written(splitter, gap, 40)
    assert most < 1.2 * soon
    assert tuple(inner.split(accepted.written).carrying) == accepted.sentences
    assert len(accepted.sentences) == 400


def test_a_splitter_that_promises_nothing_reads_the_whole_text(splitter: Splitter) -> None:
    counting = Counting(SentencexSplitter())
    accepted, most = written(counting, lambda index: " ", 40)
    assert counting.characters
    assert max(counting.characters) > len(accepted.written)
    restarting, less = written(CountingRestarts(SentencexSplitter()), lambda index: " ", 40)
    assert restarting.written == accepted.written
    assert less < most / 4


@pytest.mark.parametrize(
    ("before", "more", "whole"),
    [
        ("The river froze.", " The mill turned.", "The river froze. The mill turned."),
        ("The river froze.", "The mill turned.", "The river froze. The mill turned."),
        ("A heading\n", "The mill turned.", "A heading\nThe mill turned."),
        ("天黑了。", "月亮出来了。", "天黑了。月亮出来了。"),
        ("", " The mill turned.", "The mill turned."),
    ],
)
def test_a_text_that_is_resumed_is_one_text(
    splitter: Splitter, before: str, more: str, whole: str
) -> None:
    """What the model continues is its own part alone: the beginning is in its prompt."""
    text = AcceptedText(Prompt("A prompt."), splitter, resumes=before)
    assert text.full_text == before
    if before:
        assert before + text.added(more) == whole
    addition = text.read_all(Candidate(1, (more,), finished=True))
    after = text.with_addition(addition)
    assert (after.full_text, after.continuation) == (whole, more)
    assert after.added(" It") == " It"
