"""What a request means: how much is written, by which numbers, up to where, and if it is marked."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.errors import raises_naming
from tests.unit.server.harness import (
    QUESTION,
    Served,
    error_of,
    events_of,
    mark_of,
    streamed,
    text_of,
)

from hammingmark.assembly.parts import load_splitter
from hammingmark.generation.config import CHAT_SAMPLING, TEXT_SAMPLING
from hammingmark.protocols import BackendCapabilities
from hammingmark.records import Sampling
from hammingmark.server.api_error import APIError
from hammingmark.server.marking.interpret import (
    count_answers,
    generation_config,
    passed_fields,
    sampling_of,
    unmarkable_reason,
)
from hammingmark.server.marking.schema import (
    ChatCompletionRequest,
    CompletionRequest,
    GenerationRequest,
)
from hammingmark.testing import FakeBackend

Serve = Callable[..., Served]
SENTENCES = "The silver river froze. The quiet garden slept. The old mill turned. The bells rang."


def asked_for(**named: Any) -> ChatCompletionRequest:
    return ChatCompletionRequest.model_validate({"messages": QUESTION} | named)


def reason_of(asked: GenerationRequest) -> str | None:
    return unmarkable_reason(asked, sampling_of(asked))


def config(asked: GenerationRequest, sampling: Sampling | None = None) -> Any:
    drawn = sampling_of(asked, sampling, fields=passed_fields(asked))
    return generation_config(asked, drawn, max_tokens=100, limit=200, budget=7, in_parts=False)


def test_numbers_of_a_request_come_before_those_that_suit_its_kind() -> None:
    plain = config(asked_for())
    assert plain.chat_sampling == CHAT_SAMPLING
    text = CompletionRequest(prompt="It was late.")
    assert config(text).text_sampling == TEXT_SAMPLING
    assert (plain.max_tokens, plain.budget, plain.stop) == (100, 7, ())
    named = config(asked_for(temperature=0.5, top_p=0.9, top_k=20, min_p=0.1))
    assert named.chat_sampling == Sampling(0.5, 20, 0.9, 0.1) == named.text_sampling
    assert config(asked_for(top_k=-1)).chat_sampling.top_k == 0
    assert config(asked_for(temperature=0.5), Sampling(top_k=0)).chat_sampling == Sampling(0.5, 0)


@pytest.mark.parametrize(
    ("named", "tokens"),
    [
        ({}, 100),
        ({"max_tokens": 50}, 50),
        ({"max_completion_tokens": 60}, 60),
        ({"max_tokens": 50, "max_completion_tokens": 60}, 60),
        ({"max_tokens": 200}, 200),
    ],
)
def test_an_answer_has_as_many_tokens_as_were_asked_for(named: dict[str, int], tokens: int) -> None:
    assert config(asked_for(**named)).max_tokens == tokens


def test_more_tokens_than_allowed_are_refused() -> None:
    with raises_naming(APIError, 200, 201) as refused:
        config(asked_for(max_completion_tokens=201))
    assert (refused.value.status, refused.value.param) == (400, "max_completion_tokens")


def test_fields_of_others_go_on_as_they_are_and_inert_ones_do_not() -> None:
    given = {
        "user": "u-1",
        "logit_bias": {"50": -1},
        "presence_penalty": 0.5,
        "tools": [],
        "tool_choice": "none",
        "response_format": {"type": "text"},
        "logprobs": False,
        "echo": False,
        "n": 1,
    }
    further = dict(config(asked_for(**given)).chat_sampling.further)
    assert {name: json.loads(value) for name, value in further.items()} == {
        "user": "u-1",
        "logit_bias": {"50": -1},
        "presence_penalty": 0.5,
    }


@pytest.mark.parametrize(
    "named",
    [
        {"temperature": 0},
        {"top_k": 1},
        {"top_p": 1e-6},
        {"min_p": 1.0},
        {"tools": [{"type": "function"}], "tool_choice": "required"},
        {"tools": [{"type": "function"}], "tool_choice": {"type": "function"}},
        {"functions": [{"name": "f"}], "function_call": {"name": "f"}},
        {"response_format": {"type": "json_object"}},
        {"response_format": {"type": "json_schema", "json_schema": {}}},
        {"logprobs": True},
        {"logprobs": 0},
        {"logprobs": 5},
        {"audio": {"voice": "a"}},
        {"modalities": ["text", "audio"]},
        {"best_of": 2},
        {"guided_regex": "a+"},
        {"regex": "a+"},
        {"ebnf": "root ::= 'a'"},
        {"structural_tag": {"structures": []}},
        {"messages": [{"role": "tool", "content": [{"type": "image_url", "image_url": {}}]}]},
        {"messages": [*QUESTION, {"role": "assistant", "content": None, "tool_calls": [{}]}]},
        {"messages": [*QUESTION, {"role": "assistant", "function_call": {"name": "f"}}]},
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]},
    ],
)
def test_what_can_carry_no_mark_is_recognized(named: dict[str, Any]) -> None:
    why = reason_of(asked_for(**named))
    assert why is not None
    assert why.endswith(".")


@pytest.mark.parametrize(
    "named",
    [
        {},
        {"temperature": 0.01},
        {"top_k": 2},
        {"top_k": 0},
        {"top_k": -1},
        {"top_p": 0.01, "min_p": 0.9},
        {"tools": []},
        {"tools": [{"type": "function", "function": {"name": "f"}}]},
        {"tools": [{"type": "function"}], "tool_choice": "auto"},
        {"tools": [{"type": "function"}], "tool_choice": "none"},
        {"functions": [{"name": "f"}], "function_call": "auto"},
        {"messages": [*QUESTION, {"role": "tool", "tool_call_id": "1", "content": "5"}]},
        {"messages": [*QUESTION, {"role": "function", "name": "f", "content": "5"}]},
        {"response_format": {"type": "text"}},
        {"logprobs": False},
        {"logprobs": None},
        {"modalities": ["text"]},
        {"best_of": 1},
        {"n": 2, "best_of": 2},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "."}]}]},
    ],
)
def test_what_can_carry_a_mark_is_marked(named: dict[str, Any]) -> None:
    assert reason_of(asked_for(**named)) is None


@pytest.mark.parametrize(
    "message",
    [
        {"role": "user", "content": [{"type": []}]},
        {"role": "user", "content": [{"type": {}, "text": "."}]},
        {"role": [], "content": [{"type": "text", "text": "."}]},
        {"role": {}, "content": [{"type": "image_url"}]},
    ],
)
def test_words_of_a_message_that_are_none_make_no_prompt(
    serve: Serve, message: dict[str, Any]
) -> None:
    assert reason_of(asked_for(messages=[message])) is None
    answer = serve().chat(messages=[message])
    assert answer.status_code == 400
    assert "messages" in error_of(answer)["message"]


@pytest.mark.parametrize(
    ("prompt", "count", "foreign"),
    [
        ("One.", 1, False),
        (["One."], 1, False),
        (["One.", "Two."], 2, False),
        ([5, 6, 7], 1, True),
        ([[5], [6, 7]], 2, True),
    ],
)
def test_prompts_are_counted_and_those_in_tokens_recognized(
    prompt: Any, count: int, foreign: bool
) -> None:
    asked = CompletionRequest(prompt=prompt)
    assert count_answers(asked) == count
    assert count_answers(CompletionRequest(prompt=prompt, n=3)) == 3 * count
    best = CompletionRequest.model_validate({"prompt": prompt, "n": 2, "best_of": 4})
    assert count_answers(best) == 4 * count
    assert (reason_of(asked) is not None) is foreign


@pytest.mark.parametrize("name", ["echo", "suffix"])
def test_completions_with_more_than_a_text_are_not_marked(name: str) -> None:
    asked = CompletionRequest.model_validate({"prompt": "One.", name: "yes"})
    assert name in (reason_of(asked) or "")


@pytest.mark.parametrize("endpoint", ["chat", "complete"])
@pytest.mark.parametrize(
    ("stop", "left"),
    [
        ("garden", "The silver river froze. The quiet"),
        (["mill", "garden"], "The silver river froze. The quiet"),
        ("froze. The", "The silver river"),
        ("The silver", ""),
        (["never", "not"], SENTENCES),
    ],
)
def test_an_answer_ends_before_a_string(serve: Serve, endpoint: str, stop: Any, left: str) -> None:
    """Also before one that begins in one sentence and ends in the next: nothing of it is sent."""
    served = serve(backend=FakeBackend(sentences=_tale), policy={"on_failure": "deliver"})
    ask: Any = getattr(served, endpoint)
    whole, stream = ask(stop=stop), ask(stop=stop, stream=True)
    assert text_of(whole) == left
    events = events_of(stream)
    assert streamed(events) == left
    assert events[-1] == "[DONE]"
    assert whole.json()["choices"][0]["finish_reason"] == "stop"


def _tale(request: Any) -> str:
    """What is left of one tale, whatever the seed."""
    begun = len(request.written)
    return SENTENCES[begun:]


@dataclass
class Staged(FakeBackend):
    """Goes on in the middle of a sentence, so that sentences are drawn in stages."""

    capabilities: BackendCapabilities = field(
        default_factory=lambda: BackendCapabilities(continues=lambda prompt, sampling: True)
    )


@pytest.mark.parametrize("backend", [FakeBackend, Staged])
def test_nothing_of_a_string_is_sent_or_counted_wherever_it_begins(
    serve: Serve, backend: type[FakeBackend]
) -> None:
    """In one stage or sentence, or between two, also where it ends in another."""
    model = backend(sentences=_tale)
    served = serve(backend=model, budget=2, policy={"on_failure": "deliver"})
    assert text_of(served.chat()) == SENTENCES
    assert any(each.max_tokens <= 8 for each in model.drawn) is (backend is Staged)
    splitter = load_splitter()
    strings = {
        SENTENCES[place : place + length]
        for place in range(0, len(SENTENCES), 5)
        for length in (3, 14, 45)
    }
    for string in strings:
        left = SENTENCES[: SENTENCES.index(string)]
        whole, stream = served.chat(stop=string), served.chat(stop=string, stream=True)
        assert text_of(whole) == text_of(stream)
        assert text_of(whole) == left.rstrip(), string
        assert whole.json()["choices"][0]["finish_reason"] == "stop"
        mark, streams = mark_of(whole), mark_of(stream)
        assert mark | {"seconds": 0} == streams | {"seconds": 0}
        assert mark["sentences"] == len(splitter.split(left).carrying)
        assert mark["accepted"] + mark["fallbacks"] <= mark["sentences"]
        assert abs(mark["emitted_tokens"] - len(left.split())) <= 1
        assert whole.json()["usage"]["completion_tokens"] == mark["emitted_tokens"]


def test_a_sentence_is_held_back_until_no_string_takes_its_end(serve: Serve) -> None:
    """What might be the beginning of a string to stop at comes with what follows, or at the end."""
    served = serve(backend=FakeBackend(sentences=_tale), policy={"on_failure": "deliver"})
    events = events_of(served.chat(stop=["froze. The bells", "rang. And"], stream=True))
    added = [event["choices"][0]["delta"].get("content") for event in events[1:-2]]
    assert added[0] == "The silver river froze."
    assert added[-1].endswith("rang.")
    assert len(added) > 2
    assert "".join(added) == SENTENCES


def test_a_short_answer_ends_of_itself_and_a_long_one_at_its_limit(serve: Serve) -> None:
    served = serve(backend=FakeBackend(sentences=_tale), policy={"on_failure": "deliver"})
    ended = served.chat()
    assert (text_of(ended), ended.json()["choices"][0]["finish_reason"]) == (SENTENCES, "stop")
    cut = served.chat(max_tokens=6)
    assert text_of(cut) == "The silver river froze. The quiet"
    assert cut.json()["choices"][0]["finish_reason"] == "length"
    assert cut.json()["usage"]["completion_tokens"] == 6


def test_settings_decide_where_a_request_does_not(serve: Serve) -> None:
    policy = {"on_failure": "deliver"}
    served = serve(max_tokens=30, budget=1, limits={"tokens": 40}, policy=policy)
    mark = mark_of(served.chat(max_tokens=None))
    assert mark["emitted_tokens"] == 30
    assert mark["candidates"] == mark["sentences"] > 1
    refused = served.chat(max_tokens=41)
    assert refused.status_code == 400
    assert error_of(refused)["param"] == "max_tokens"
