"""Whether a server continues an unfinished answer: how it is asked, and what is remembered."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.unit.backends.openai_client import Maker, ask
from tests.unit.backends.openai_server import (
    Handler,
    Server,
    Step,
    answer_to_question,
    honest,
    refusing,
    saying,
    status,
    story,
)

from hammingmark import testing
from hammingmark.backends import continuation
from hammingmark.backends.continuation import (
    OPEN_QUESTIONS,
    QUESTIONS,
    Continuation,
    ContinuationWay,
    Question,
    begins_anew,
    lacks_space,
)
from hammingmark.backends.openai import OpenAIBackend
from hammingmark.records import Candidate, Message, Prompt, Reasoning

CHAT = Prompt(messages=(Message("user", "Tell me."),))


def restarts(text: str) -> Step:
    """Answer every chat with the same text."""
    return saying({"choices": [{"delta": {"content": text}, "finish_reason": "stop"}]}, "[DONE]")


def no_last_assistant(handler: Handler, body: dict[str, Any]) -> None:
    """Refuse a chat whose last message is the assistant's, as some hosted models do."""
    if body["messages"][-1]["role"] == "assistant":
        status(400, "The last message must be the user's.")(handler, body)
    else:
        honest(handler, body)


def drawn(backend: OpenAIBackend, *written: str) -> list[Candidate]:
    """A candidate after each of these beginnings of an answer."""
    requests = [ask(number, prompt=CHAT, written=text) for number, text in enumerate(written)]
    return list(testing.draw(backend, *requests).values())


@pytest.mark.parametrize(
    "step",
    [
        restarts("Monday, Tuesday, Wednesday, Thursday."),
        restarts("Thursday, Friday, Saturday, Sunday."),  # a new answer that happens to go on
        restarts("You are welcome!"),
        restarts(""),
        no_last_assistant,
    ],
)
def test_a_server_that_does_not_continue_is_found_out_before_it_draws(
    server: Server, make: Maker, step: Step
) -> None:
    server.continues, server.always = False, step
    backend = make()
    candidates = [*drawn(backend, "Well.", "Oh."), *drawn(backend, "Well.")]
    assert [each.failure and each.failure.kind for each in candidates] == ["cannot_continue"] * 3
    assert not any(each.pieces for each in candidates)
    assert 1 <= len(server.questions) <= len(QUESTIONS)
    assert not {"Well.", "Oh."} & {body["messages"][-1]["content"] for body in server.bodies}
    failure = candidates[0].failure
    assert failure is not None
    assert server.url in failure.advice
    assert server.url not in failure.summary


def test_a_server_that_continues_is_asked_once_for_each_model(server: Server, make: Maker) -> None:
    backend = make()
    for _ in range(2):
        assert [each.text for each in drawn(backend, "Well.")] == ["".join(story(0))]
    assert [body["model"] for body in server.questions] == ["tiny"]
    assert server.questions[0]["max_tokens"] < 10
    assert backend.continues_answers("other").result() is True
    assert [body["model"] for body in server.questions] == ["tiny", "other"]


def test_texts_and_new_answers_need_no_question(server: Server, make: Maker) -> None:
    server.continues = False
    testing.draw(make(), ask(1), ask(2, written=" Well."), ask(3, prompt=CHAT))
    assert not server.questions


@pytest.mark.parametrize("known", [True, False])
def test_what_is_known_is_not_asked(server: Server, make: Maker, known: bool) -> None:
    (candidate,) = drawn(make(continues=known), "Well.")
    assert (candidate.failure is None) is known
    assert not server.questions


@pytest.mark.parametrize("fields", [(), ("continue_final_message", "top_k")])
def test_a_server_may_continue_without_the_fields_that_ask_for_it(
    server: Server, make: Maker, fields: tuple[str, ...]
) -> None:
    """As llama.cpp does."""
    server.continues = False

    def step(handler: Handler, body: dict[str, Any]) -> None:
        answer = answer_to_question(body)
        if answer and not any(name in body for name in fields):
            restarts(answer)(handler, body)
        else:
            refusing(*fields)(handler, body)

    server.always = step
    assert [each.failure for each in drawn(make(), "Well.")] == [None]


@pytest.mark.parametrize("code", [400, 403, 404, 405, 422])
def test_whatever_refusal_of_an_unfinished_answer_says_that_it_is_not_continued(
    server: Server, make: Maker, code: int
) -> None:
    def step(handler: Handler, body: dict[str, Any]) -> None:
        is_unfinished = body["messages"][-1]["role"] == "assistant"
        (status(code) if is_unfinished else honest)(handler, body)

    server.continues, server.always = False, step
    (candidate,) = drawn(make(retries=0), "Well.")
    assert candidate.failure is not None
    assert candidate.failure.kind == "cannot_continue"


@pytest.mark.parametrize("code", [400, 401, 403, 404, 408, 429, 503])
def test_a_server_that_fails_has_not_answered(server: Server, make: Maker, code: int) -> None:
    """What it refuses in any form is no evidence, and the next candidate asks again."""
    server.continues, server.always = False, status(code)
    backend = make(retries=0)
    (candidate,) = drawn(backend, "Well.")
    assert candidate.failure is not None
    assert (candidate.failure.kind != "cannot_continue", candidate.failure.status) == (True, code)
    server.continues, server.always = True, honest
    assert [each.failure for each in drawn(backend, "Well.")] == [None]


OWN = "Great question! Rain falls"  # how the model begins its answers


class Asked:
    """Answers questions as it is told, and counts them.

    Args:
        continues: whether it continues the well-known sentences.
        own: what it writes after the beginnings of its own answers.
    """

    def __init__(self, *, continues: bool, own: str = " from clouds.") -> None:
        self.continues = continues
        self.own = own
        self.count = 0

    async def __call__(
        self, model: str, prompt: Prompt, reasoning: Reasoning | None, way: ContinuationWay
    ) -> tuple[str, str]:
        self.count += 1
        await asyncio.sleep(0)
        if prompt.messages[0].content in OPEN_QUESTIONS:
            return (self.own if prompt.messages[1:] else OWN), ""
        (question,) = [each for each in QUESTIONS if each.prompt == prompt]
        return f" {question.follows}{question.rest}" if self.continues else question.begun, ""


def supports(found: Continuation) -> bool:
    """Whether a model continues, asked by several texts at once."""

    async def ask_together() -> list[bool]:
        return await asyncio.gather(*(found.is_supported("m") for _ in range(3)))

    (answer,) = set(asyncio.run(ask_together()))
    return answer


def test_many_texts_ask_once() -> None:
    asked = Asked(continues=True)
    assert supports(Continuation(asked))
    assert asked.count == 1


def test_a_repaired_server_is_found_out_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Asked(continues=False)
    found = Continuation(asked)
    assert not supports(found)
    asked.continues = True
    assert not supports(found)
    monkeypatch.setattr(continuation, "ASK_AGAIN", -1.0)
    assert supports(found)


def observe(found: Continuation, *candidates: str, begun: str = "Great question!") -> None:
    """Show candidates for one place."""
    for candidate in candidates:
        found.observe("m", begun, candidate)


@pytest.mark.parametrize(
    "candidates",
    [
        ["Great question! Clouds are full of it."],
        [" Great question! Clouds are full of it."] * 3,
        ["Sure! Clouds are full of it.", "Happy to help.", "Well, clouds."],
    ],
)
@pytest.mark.parametrize("own", ["Great question! Clouds", " Great question! Rain", "Sure! Rain"])
def test_a_model_that_begins_its_own_answers_anew_does_not_continue(
    candidates: list[str], own: str
) -> None:
    """However well it knows the days of the week."""
    found = Continuation(Asked(continues=True, own=own))
    assert supports(found)
    observe(found, *candidates)
    assert not supports(found)


def test_a_model_that_may_begin_anew_must_continue_its_own_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = Asked(continues=True, own="Great question! Clouds")
    found = Continuation(asked)
    assert supports(found)
    observe(found, "Great question! Clouds")
    assert not supports(found)
    monkeypatch.setattr(continuation, "ASK_AGAIN", -1.0)
    assert not supports(found)
    asked.own = " from clouds."
    assert supports(found)


@pytest.mark.parametrize(
    "candidates",
    [
        [" Clouds are full of it."] * 20,
        [" Great question! Clouds.", " Rain falls."] * 10,
        ["great.", "5 clouds.", "\n\nClouds."] * 10,
    ],
)
def test_candidates_that_continue_raise_no_question(candidates: list[str]) -> None:
    asked = Asked(continues=True)
    found = Continuation(asked)
    assert supports(found)
    observe(found, *candidates)
    assert supports(found)
    assert asked.count == 1


@pytest.mark.parametrize("space", ["", " "])
def test_sentences_that_repeat_prove_nothing(space: str) -> None:
    """A client may ask for them, and small models write them. The model is asked once."""
    asked = Asked(continues=True)
    found = Continuation(asked)
    assert supports(found)
    observe(found, *[f"{space}Great question! Clouds"] * 5)
    assert supports(found)
    count = asked.count
    assert 1 < count <= 2 + 2 * len(OPEN_QUESTIONS)
    observe(found, *[f"{space}Great question! Clouds"] * 20)
    assert supports(found)
    assert asked.count == count


def test_a_model_that_fails_the_question_again_does_not_continue() -> None:
    asked = Asked(continues=True)
    found = Continuation(asked)
    assert supports(found)
    asked.continues = False
    observe(found, *[" Great question! Clouds"] * 5)
    assert not supports(found)


@pytest.mark.parametrize("continues", [True, False])
def test_what_begins_anew_is_not_handed_over_if_the_model_begins_anew(
    server: Server, make: Maker, continues: bool
) -> None:
    """Its server answers the question well in either case."""
    text, questions = "Great question! Rain falls from clouds.", []

    def step(handler: Handler, body: dict[str, Any]) -> None:
        first, *begun = [message["content"] for message in body["messages"]]
        if first in OPEN_QUESTIONS:
            questions.append(first)
        is_continued = continues and first in OPEN_QUESTIONS and begun
        restarts(" from clouds." if is_continued else text)(handler, body)

    server.always = step
    backend = make()
    for _ in range(2):
        (candidate,) = drawn(backend, "Great question!")
        failure = candidate.failure
        assert (failure.kind if failure else None) == (None if continues else "cannot_continue")
        assert candidate.text == (text if continues else "")
    assert 2 <= len(questions) <= 2 * len(OPEN_QUESTIONS)


@pytest.mark.parametrize(
    ("begun", "candidate", "anew"),
    [
        ("Great question! Rain falls.", "Great question! Clouds", True),
        ("Great question! Rain falls.", " great  question: clouds", True),
        ("Great question! Rain falls.", " Great", False),
        ("The rain in Spain falls mainly here.", "The rain in Spain falls today.", True),
        ("The rain in Spain falls mainly here.", " The rain in France falls.", False),
        ("Yes. It rains.", " Yes, often.", False),  # one word says nothing
        ("", "Anything.", False),
    ],
)
def test_whether_a_candidate_begins_anew(begun: str, candidate: str, anew: bool) -> None:
    assert begins_anew(begun, candidate) is anew


@pytest.mark.parametrize(
    ("begun", "candidate", "anew"),
    [
        ("Great question! Rain falls.", "Great question! Clouds", True),
        ("One two three four five six seven.", "One two three four five six seven. Eight", True),
        ("One two three four five six seven.", "One two three four five six. Eight", False),
        ("Yes. It rains. Often.", "Yes. It rains. Seldom.", True),
        ("Yes. It rains. Often.", "Yes. It snows.", False),
        ("Yes.", "Yes.", False),
    ],
)
def test_whether_a_candidate_says_the_whole_first_sentence_again(
    begun: str, candidate: str, anew: bool
) -> None:
    assert begins_anew(begun, candidate, whole=True) is anew


@pytest.mark.parametrize(
    ("begun", "candidate", "lacks"),
    [
        ("It rains.", "It snows.", True),
        ("It rains.", " It snows.", False),
        ("It rains.\n", "It snows.", False),
        ("It rains", "It snows.", False),
        ("It costs 1.", "5 dollars.", False),
        ("下雨了。", "下雪了。", False),
        ("下雨了.", "下雪了.", False),
        ("", "It snows.", False),
        ("It rains.", "", False),
    ],
)
def test_whether_a_space_is_missing(begun: str, candidate: str, lacks: bool) -> None:
    assert lacks_space(begun, candidate) is lacks


def test_the_control_is_the_question_before_it_is_begun() -> None:
    question = Question("One, two,", "three", ", four.")
    (user,) = question.control.messages
    assert "One, two, three, four." in user.content
    assert question.prompt.messages == (user, Message("assistant", "One, two,"))
    assert question.is_continued(" Three, four")
    assert not question.is_continued("three, four")
