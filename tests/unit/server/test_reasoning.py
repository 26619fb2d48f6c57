"""Upstreams whose models think before they answer: the reasoning is drawn once, unmarked."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any

import openai
import pytest
from tests.unit.backends.openai_server import Handler, Server
from tests.unit.backends.thinking_server import THOUGHT, Thinker
from tests.unit.server.harness import (
    QUESTION,
    Home,
    Live,
    Served,
    error_of,
    events_of,
    key_of,
    mark_of,
    text_of,
)

Serve = Callable[..., Served]
TAGGED = f"<think>\n{THOUGHT}\n</think>\n\n"
TOKENS = 100
FIELD, TAGS, NOWHERE = frozenset({"field"}), frozenset({"tags"}), frozenset[str]()
STYLES = {
    "field": Thinker("reasoning_content", FIELD),
    "newer field": Thinker("reasoning", FIELD),
    "misfiled": Thinker("reasoning", FIELD, misfiles=True),
    "field, continued by tags": Thinker("reasoning_content", TAGS),
    "the same misfiled": Thinker("reasoning_content", TAGS, misfiles=True),
    "tags": Thinker("", TAGS),
}


@pytest.fixture
def before(serve: Serve, model_server: Server) -> Callable[..., Served]:
    """Makes a service in front of a model that thinks."""

    def make(thinker: Thinker, **settings: Any) -> Served:
        thinker.thoughts = thinker.continued = 0
        thinker.bodies.clear()
        model_server.always = thinker
        upstream = {"url": model_server.url, "model": "tiny", "retries": 0}
        return serve(upstream=upstream, **settings)

    return make


def reasoning_of(events: list[Any]) -> str:
    """The reasoning that a stream sends in a field."""
    deltas = [each["delta"] for event in events[:-1] for each in event.get("choices", ())]
    return "".join(d.get("reasoning_content", d.get("reasoning", "")) for d in deltas)


@pytest.mark.parametrize("thinker", STYLES.values(), ids=STYLES)
def test_the_model_thinks_once_and_its_answer_is_marked(before: Serve, thinker: Thinker) -> None:
    served = before(thinker)
    answer = served.chat(max_tokens=TOKENS)
    message = answer.json()["choices"][0]["message"]
    mark = mark_of(answer)
    assert (mark["status"], mark["key_id"]) == ("marked", key_of().id)
    assert "reasoning" in mark["reason"]
    assert thinker.thoughts == 1
    assert thinker.continued > 1
    text = message["content"]
    if thinker.place:
        assert message[thinker.place] == THOUGHT
        assert "<think>" not in text
    else:
        assert text.startswith(TAGGED)
        text = text.removeprefix(TAGGED)
    usage = answer.json()["usage"]
    words = len(THOUGHT.split())
    reasoning = usage["completion_tokens_details"]["reasoning_tokens"]
    # The tags, and the white space before the answer, which comes with its first word.
    assert reasoning == (words if thinker.place else words + 3)
    assert reasoning < usage["completion_tokens"] <= TOKENS
    assert mark["drawn_tokens"] > usage["completion_tokens"]
    assert served.detect(text)["p_value"] == mark["p_value"]


@pytest.mark.parametrize("thinker", STYLES.values(), ids=STYLES)
def test_a_stream_sends_the_same(before: Serve, thinker: Thinker) -> None:
    served = before(thinker)
    whole = served.chat(max_tokens=TOKENS)
    stream = served.chat(max_tokens=TOKENS, stream=True)
    assert stream.headers["x-watermark-status"] == "marking"
    assert text_of(stream) == text_of(whole)
    assert mark_of(stream)["p_value"] == mark_of(whole)["p_value"]
    expected = whole.json()["choices"][0]["message"].get(thinker.place, "")
    assert reasoning_of(events_of(stream)) == expected


def test_reasoning_arrives_before_the_answer_is_drawn(
    live: Callable[..., Live], model_server: Server
) -> None:
    model_server.always = Thinker()
    service = live(upstream={"url": model_server.url, "model": "tiny"})
    with service.stream(max_tokens=TOKENS) as events:
        deltas = [next(events)["choices"][0]["delta"] for _ in range(3)]
        assert deltas[0]["role"] == "assistant"
        words = THOUGHT.split()
        assert [each["reasoning_content"].strip() for each in deltas[1:]] == words[:2]


@pytest.mark.parametrize("place", ["reasoning_content", ""])
def test_a_model_that_is_cut_off_while_it_thinks_begins_again(
    before: Serve, model_server: Server, place: str
) -> None:
    """What was sent cannot be taken back, so a stream has the lost attempt as well."""

    def cut_off(handler: Handler, body: dict[str, Any]) -> None:
        handler.begin()
        delta = {place: "First the"} if place else {"content": "<think>\nFirst the"}
        handler.event({"choices": [{"index": 0, "delta": delta}]})

    thinker = Thinker(place, FIELD if place else TAGS)
    served = before(thinker)
    for stream in (False, True):
        model_server.script.append(cut_off)
        answer = served.chat(max_tokens=TOKENS, stream=stream)
        assert mark_of(answer)["status"] == "marked"
        lost = "First the\n\n" if stream else ""
        if place and stream:
            assert reasoning_of(events_of(answer)) == lost + THOUGHT
        elif place:
            assert answer.json()["choices"][0]["message"][place] == THOUGHT
        else:
            assert text_of(answer).startswith(f"<think>\n{lost}" * stream + TAGGED)
            assert served.detect(text_of(answer))["p_value"] == mark_of(answer)["p_value"]


def test_openai_clients_read_it(live: Callable[..., Live], model_server: Server) -> None:
    model_server.always = Thinker()
    service = live(upstream={"url": model_server.url, "model": "tiny"})
    client = openai.OpenAI(base_url=f"{service.root}/v1", api_key="unused", max_retries=0)
    messages: Any = QUESTION
    answer = client.chat.completions.create(model="tiny", messages=messages, max_tokens=TOKENS)
    extra = answer.choices[0].message.model_extra
    assert extra is not None
    assert extra["reasoning_content"] == THOUGHT
    assert answer.usage is not None
    assert answer.usage.completion_tokens_details is not None
    assert answer.usage.completion_tokens_details.reasoning_tokens == len(THOUGHT.split())


@pytest.mark.parametrize("stream", [False, True])
def test_the_responses_api_gives_it_as_an_item(before: Serve, stream: bool) -> None:
    asked = {"input": "What happened?", "stream": stream, "max_output_tokens": TOKENS}
    answer = before(Thinker()).post("/v1/responses", asked)
    assert answer.status_code == 200, answer.text
    if stream:
        datas = [line for line in answer.text.splitlines() if line.startswith("data: ")]
        response = json.loads(datas[-1].removeprefix("data: "))["response"]
    else:
        response = answer.json()
    first, second = response["output"]
    assert (first["type"], first["content"][0]["text"]) == ("reasoning", THOUGHT)
    assert second["type"] == "message"
    assert response["watermark"]["status"] == "marked"


@pytest.mark.parametrize("place", ["reasoning_content", ""])
@pytest.mark.parametrize("stream", [False, True])
def test_max_tokens_counts_the_reasoning(before: Serve, place: str, stream: bool) -> None:
    """The answer of a model that thinks to the limit is empty, as without this service."""
    served = before(Thinker(place))
    answer = served.chat(max_tokens=8, stream=stream)
    assert mark_of(answer)["status"] == "unmarked"
    if stream:
        events = events_of(answer)
        assert events[-2]["choices"][0]["finish_reason"] == "length"
        sent = reasoning_of(events) or text_of(answer)
    else:
        (choice,) = answer.json()["choices"]
        assert choice["finish_reason"] == "length"
        assert answer.json()["usage"]["completion_tokens"] == 8
        sent = choice["message"].get(place) or choice["message"]["content"]
    assert TAGGED.startswith(sent) or THOUGHT.startswith(sent)
    assert len(sent.split()) == 8


def test_reasoning_may_be_longer_than_a_sentence(before: Serve) -> None:
    thought = " ".join(f"step{number}" for number in range(300))
    thinker = Thinker(thought=thought)
    served = before(thinker, max_tokens=400)
    answer = served.chat(max_tokens=400)
    assert answer.json()["choices"][0]["message"]["reasoning_content"] == thought
    assert mark_of(answer)["status"] == "marked"
    assert thinker.thoughts == 1


def test_an_answer_without_reasoning_is_as_ever(before: Serve, model_server: Server) -> None:
    """The limit of a sentence holds although the server is given the limit of the answer."""
    thinker = Thinker(thought="", answer=" ".join(["word"] * 200))
    answer = before(thinker).chat(max_tokens=150)
    assert answer.status_code == 503  # no candidate ends within the limit of a sentence
    assert "reasoning" not in error_of(answer)["message"]


@pytest.mark.parametrize(
    "thinker",
    [Thinker(sees=NOWHERE), Thinker(refuses_prefix=True)],
    ids=["drops the reasoning", "refuses answers to continue"],
)
@pytest.mark.parametrize("stream", [False, True])
def test_an_upstream_that_drops_the_reasoning_is_refused(
    before: Serve, thinker: Thinker, stream: bool
) -> None:
    """It would think anew for every sentence, or go on without knowing what it thought."""
    served = before(thinker)
    first = served.chat(stream=stream)
    if stream:
        assert events_of(first)[-1]["error"]["code"] == "upstream_restarts"
    else:
        assert (first.status_code, error_of(first)["code"]) == (503, "upstream_restarts")
    assert thinker.thoughts == 1
    second = served.chat(stream=stream)
    assert (second.status_code, error_of(second)["code"]) == (503, "upstream_restarts")
    assert thinker.thoughts == 1


def test_or_passed_on_if_the_policy_says_so(before: Serve) -> None:
    thinker = Thinker(sees=NOWHERE)
    served = before(thinker, policy={"restarting_upstream": "pass"})
    first = served.chat(max_tokens=TOKENS, stream=True)  # what it has thought has been sent
    assert events_of(first)[-1]["error"]["code"] == "upstream_restarts"
    second = served.chat(max_tokens=TOKENS, stream=True)
    assert mark_of(second)["status"] == "unmarked"
    assert thinker.thoughts == 2
    assert "continue_final_message" not in thinker.bodies[-1]


@pytest.mark.parametrize("place", ["reasoning_content", ""])
@pytest.mark.parametrize("stream", [False, True])
def test_a_service_of_marked_text_only_leaves_it_out(
    before: Serve, place: str, stream: bool
) -> None:
    sees = FIELD if place else TAGS
    served = before(Thinker(place, sees), policy={"unmarkable": "refuse"})
    answer = served.chat(max_tokens=TOKENS, stream=stream)
    assert THOUGHT.split()[0] not in text_of(answer)
    assert "aqueduct" not in answer.text.replace(text_of(answer), "")
    assert "left out" in mark_of(answer)["reason"]
    assert mark_of(answer)["status"] == "marked"


def test_the_audit_log_has_the_hash_of_the_content(before: Serve, home: Home) -> None:
    served = before(Thinker("", TAGS), audit={"file": home.audit})
    text = text_of(served.chat(max_tokens=TOKENS))
    (row,) = home.records("end")
    assert row["text_sha256"] == hashlib.sha256(text.encode()).hexdigest()


def test_the_detector_skips_reasoning_in_tags(before: Serve) -> None:
    served = before(Thinker("", TAGS))
    answer = served.chat(max_tokens=TOKENS)
    result = served.detect(text_of(answer))
    assert result["p_value"] == mark_of(answer)["p_value"]
    assert all("aqueduct" not in piece["text"] for piece in result["pieces"])
