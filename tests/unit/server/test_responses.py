"""Answers in OpenAI's shapes, whole and streamed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import openai
import pytest
from tests.unit.server.harness import (
    CHAT,
    QUESTION,
    TEXT,
    TOKENS,
    Home,
    Live,
    Served,
    error_of,
    events_of,
    key_of,
    mark_of,
    streamed,
    text_of,
)

from hammingmark.assembly.marking import writer
from hammingmark.errors import Failure, FailureKind
from hammingmark.generation.config import GenerationConfig
from hammingmark.records import Cost, Evidence, Generation, Verdict
from hammingmark.server.marking.marks import Mark, undetected, with_verdict
from hammingmark.server.marking.responses import Choice, finish_reason, summary, usage
from hammingmark.testing import FakeBackend, FakeEncoder

Serve = Callable[..., Served]


@pytest.fixture
def served(serve: Serve) -> Served:
    return serve()


def test_a_chat_is_what_the_library_writes(served: Served) -> None:
    answer = served.chat()
    config = GenerationConfig(max_tokens=TOKENS)
    made = writer(key_of(), backend=FakeBackend(), encoder=FakeEncoder(), config=config)
    alone = made.write(QUESTION, seed=3)
    assert text_of(answer) == alone.text
    content = answer.json()
    assert content["object"] == "chat.completion"
    assert content["model"] == "hammingmark"
    assert content["id"] == f"chatcmpl-{answer.headers['x-request-id']}"
    (choice,) = content["choices"]
    assert choice["message"] == {"role": "assistant", "content": alone.text, "refusal": None}
    assert (choice["finish_reason"], choice["logprobs"]) == ("length", None)
    assert content["usage"]["completion_tokens"] == alone.cost.tokens == TOKENS
    mark = content["watermark"]
    assert mark == choice["watermark"]
    assert (mark["status"], mark["key_id"], mark["label"]) == ("marked", key_of().id, None)
    assert mark["sentences"] == len(alone.sentences)
    assert mark["accepted"] == sum(step.accepted is True for step in alone.steps) > 0
    assert mark["fallbacks"] == alone.cost.fallbacks
    assert mark["candidates"] == alone.cost.candidates
    assert mark["drawn_tokens"] == alone.cost.drawn_tokens > TOKENS
    assert mark["emitted_tokens"] == TOKENS
    assert mark["written_tokens"] == alone.cost.written_tokens >= mark["drawn_tokens"]
    assert mark["model_requests"] == alone.cost.requests >= mark["candidates"]
    assert (mark["cached_tokens"], mark["estimated_requests"]) == (0, 0)
    assert mark["p_value"] < 0.01
    assert mark["seconds"] >= 0
    assert answer.headers["x-watermark-status"] == "marked"
    assert answer.headers["x-watermark-key-id"] == key_of().id
    assert answer.headers["x-watermark-candidates"] == str(mark["candidates"])
    assert answer.headers["x-watermark-drawn-tokens"] == str(mark["drawn_tokens"])
    assert answer.headers["x-watermark-written-tokens"] == str(mark["written_tokens"])


@pytest.mark.parametrize("endpoint", ["chat", "complete"])
def test_a_stream_gives_the_same_text_sentence_by_sentence(served: Served, endpoint: str) -> None:
    ask: Any = getattr(served, endpoint)
    whole, stream = ask(), ask(stream=True)
    assert stream.headers["x-watermark-status"] == "marking"
    assert stream.headers["x-watermark-key-id"] == key_of().id
    assert stream.headers["cache-control"] == "no-store"
    *events, done = events_of(stream)
    assert done == "[DONE]"
    assert streamed(events) == text_of(whole)
    kind = "chat.completion.chunk" if endpoint == "chat" else "text_completion"
    assert {event["object"] for event in events} == {kind}
    assert len({event["id"] for event in events}) == 1
    choices = [event["choices"][0] for event in events]
    if endpoint == "chat":
        assert choices.pop(0)["delta"] == {"role": "assistant", "content": ""}
    *added, last = choices
    assert [each["finish_reason"] for each in added] == [None] * len(added)
    assert last["finish_reason"] == "length"
    assert last.get("text", "") == ""
    assert last.get("delta", {}) == {}
    mark = mark_of(whole)
    # The first sentence of an answer is free; a stream begins with the first accepted one.
    assert len(added) == mark["sentences"] - (endpoint == "chat")
    assert events[-1]["watermark"] | {"seconds": 0} == mark | {"seconds": 0}
    assert not any("watermark" in event or "usage" in event for event in events[:-1])


def test_another_seed_is_another_text(served: Served) -> None:
    texts = {text_of(served.chat(seed=seed)) for seed in (3, 4, -(2**63), 2**63 - 1)}
    assert len(texts) == 4


def test_without_a_seed_it_is_any_text(serve: Serve) -> None:
    served = serve(policy={"on_failure": "deliver"})
    assert text_of(served.chat(seed=None)) != text_of(served.chat(seed=None))


def test_usage_comes_at_the_end_of_a_stream_if_it_is_asked_for(served: Served) -> None:
    whole = served.chat().json()["usage"]
    *_, last, done = events_of(served.chat(stream=True, stream_options={"include_usage": True}))
    assert done == "[DONE]"
    assert (last["choices"], last["usage"]) == ([], whole)
    for options in (None, {}, {"include_usage": False}, {"include_usage": None}):
        events = events_of(served.chat(stream=True, stream_options=options))
        assert not any("usage" in event for event in events[:-1])


def test_each_choice_is_written_and_marked_by_itself(served: Served) -> None:
    answer = served.chat(n=3)
    texts = [text_of(answer, index) for index in range(3)]
    assert len(set(texts)) == 3
    assert texts[0] == text_of(served.chat())
    content = answer.json()
    marks = [choice["watermark"] for choice in content["choices"]]
    assert all(mark["status"] == "marked" and mark["p_value"] < 0.05 for mark in marks)
    assert content["watermark"]["accepted"] == sum(mark["accepted"] for mark in marks)
    assert content["watermark"]["p_value"] is None  # of several texts there is none
    assert content["usage"]["completion_tokens"] == 3 * TOKENS
    assert content["usage"]["prompt_tokens"] == served.chat().json()["usage"]["prompt_tokens"]
    events = events_of(served.chat(n=3, stream=True))
    assert [streamed(events, index) for index in range(3)] == texts
    roles = [e for e in events[:-1] if e["choices"][0]["delta"].get("role")]
    assert sorted(event["choices"][0]["index"] for event in roles) == [0, 1, 2]
    ends = [e for e in events[:-1] if e["choices"][0]["finish_reason"]]
    assert [end["watermark"]["p_value"] for end in sorted(ends, key=_index)] == [
        mark["p_value"] for mark in marks
    ]


def _index(event: dict[str, Any]) -> int:
    return int(event["choices"][0]["index"])


def test_several_prompts_have_their_answers_in_order(served: Served) -> None:
    prompts = ["It was late.", "It was early."]
    answer = served.complete(prompt=prompts, n=2)
    choices = answer.json()["choices"]
    assert [choice["index"] for choice in choices] == [0, 1, 2, 3]
    assert len({choice["text"] for choice in choices}) == 4
    assert choices[0]["text"] == text_of(served.complete())
    one = served.complete().json()["usage"]["prompt_tokens"]
    assert answer.json()["usage"]["prompt_tokens"] == 2 * one  # of each prompt once
    events = events_of(served.complete(prompt=prompts, n=2, stream=True))
    assert [streamed(events, index) for index in range(4)] == [each["text"] for each in choices]


def test_more_answers_than_allowed_are_refused(serve: Serve) -> None:
    served = serve(limits={"choices": 3})
    assert served.chat(n=3).status_code == 200
    for refused in (
        served.chat(n=4),
        served.complete(prompt=["One.", "Two."], n=2),
        served.complete(prompt=["One.", "Two.", "Three.", "Four."]),
    ):
        assert refused.status_code == 400
        assert error_of(refused)["param"] == "n"


def test_the_official_client_reads_what_it_gets(live: Callable[..., Live], home: Home) -> None:
    root = live().root
    client = openai.OpenAI(base_url=f"{root}/v1", api_key="unused", max_retries=0)
    asked: Any = {"model": "hammingmark", "max_tokens": TOKENS, "seed": 3}
    whole = client.chat.completions.create(messages=QUESTION, **asked)  # type: ignore[arg-type]
    assert whole.choices[0].finish_reason == "length"
    assert whole.choices[0].message.role == "assistant"
    assert whole.model_extra is not None
    assert whole.model_extra["watermark"]["status"] == "marked"
    chunks = list(
        client.chat.completions.create(
            messages=QUESTION,  # type: ignore[arg-type]
            stream=True,
            stream_options={"include_usage": True},
            **asked,
        )
    )
    assert chunks[0].choices[0].delta.role == "assistant"
    text = "".join(each.choices[0].delta.content or "" for each in chunks if each.choices)
    assert text == whole.choices[0].message.content
    assert chunks[-2].choices[0].finish_reason == "length"
    assert chunks[-1].choices == []
    assert chunks[-1].usage == whole.usage
    told = client.completions.create(prompt="It was late.", **asked)
    parts = client.completions.create(prompt="It was late.", stream=True, **asked)
    assert "".join(each.choices[0].text for each in parts) == told.choices[0].text
    assert [model.id for model in client.models.list()] == ["hammingmark"]
    assert client.models.retrieve("hammingmark").owned_by == "hammingmark"
    with pytest.raises(openai.NotFoundError) as missing:
        client.chat.completions.create(messages=QUESTION, model="gpt-9")  # type: ignore[arg-type]
    assert missing.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError) as refused:
        client.chat.completions.create(
            messages=[{"role": "pope", "content": "."}], model="hammingmark"
        )  # type: ignore[list-item]
    assert refused.value.type == "invalid_request_error"


def test_a_model_has_the_name_that_the_settings_give(serve: Serve) -> None:
    served = serve(model_name="scribe/1")
    assert [each["id"] for each in served.get("/v1/models").json()["data"]] == ["scribe/1"]
    assert served.get("/v1/models/scribe/1").json()["id"] == "scribe/1"
    assert served.get("/v1/models/hammingmark").status_code == 404
    for model in (None, "", "scribe/1"):
        assert served.chat(model=model).json()["model"] == "scribe/1"
    missing = served.chat(model="hammingmark")
    assert missing.status_code == 404
    assert error_of(missing)["code"] == "model_not_found"


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (CHAT, {}),
        (CHAT, {"messages": []}),
        (CHAT, {"messages": "Hello."}),
        (CHAT, {"messages": QUESTION, "stream": "yes"}),
        (CHAT, {"messages": QUESTION, "max_tokens": 0}),
        (CHAT, {"messages": QUESTION, "n": 0}),
        (CHAT, {"messages": QUESTION, "temperature": 2.1}),
        (CHAT, {"messages": QUESTION, "model": "m" * 201}),
        (CHAT, {"messages": QUESTION, "top_p": 0}),
        (CHAT, {"messages": QUESTION, "stop": [""]}),
        (CHAT, {"messages": QUESTION, "seed": 2**63}),
        (CHAT, {"messages": QUESTION, "watermark": {"off": True}}),
        (CHAT, {"messages": QUESTION, "watermark": {"label": ""}}),
        (TEXT, {"prompt": []}),
        (TEXT, {"prompt": None}),
        (TEXT, {"prompt": ["One.", 2]}),
    ],
)
def test_a_field_of_another_kind_is_refused_by_its_name(
    served: Served, path: str, body: dict[str, Any]
) -> None:
    answer = served.post(path, body)
    assert answer.status_code == 422
    assert answer.json()["error"]["type"] == "invalid_request_error"
    name = list(body)[-1] if body else "messages"
    assert answer.json()["error"]["param"].split(".")[0] == name


@pytest.mark.parametrize(
    "content",
    [
        b'{"messages": [{"role": "user", "content": "half \\ud800"}]}',
        b'{"messages": [{"role": "user", "content": "."}], "user": "\\udfff"}',
        b'{"messages": [{"role": "user", "content": "."}], "model": "\\ud800"}',
        b'{"messages": [{"role": "user", "content": "."}], "logit_bias": {"5": NaN}}',
        b'{"messages": [{"role": "user", "content": "."}], "tools": [1e999]}',
        b'{"messages": ',
        b"\xff",
    ],
)
def test_what_is_no_json_is_refused_before_it_is_sent_on(served: Served, content: bytes) -> None:
    """What Python reads all the same, a server of models would not take from us."""
    kind = {"content-type": "application/json"}
    answer = served.ask("POST", CHAT, content=content, headers=kind)
    assert answer.status_code in (400, 422)
    assert "JSON" in error_of(answer)["message"]


@pytest.mark.parametrize(
    "messages",
    [
        [{"role": "user"}],
        [{"content": "Hello."}],
        [{"role": "user", "content": None}],
        [{"role": "user", "content": 5}],
        [{"role": "user", "content": [{"type": "text"}]}],
        [{"role": ["user"], "content": "Hello."}],
    ],
)
def test_messages_that_make_no_sense_are_refused(
    served: Served, messages: list[dict[str, Any]]
) -> None:
    answer = served.chat(messages=messages)
    assert answer.status_code == 400
    assert "messages" in error_of(answer)["message"]


def test_content_in_parts_is_one_text(served: Served) -> None:
    parts = [{"type": "text", "text": "What happened "}, {"type": "text", "text": "at night?"}]
    whole = served.chat(messages=[{"role": "user", "content": "What happened at night?"}])
    assert text_of(served.chat(messages=[{"role": "user", "content": parts}])) == text_of(whole)


def test_a_developer_speaks_as_the_system_does(serve: Serve) -> None:
    backend = FakeBackend()
    served = serve(backend=backend)
    for role in ("developer", "system"):
        assert served.chat(messages=[{"role": role, "content": "Be brief."}, *QUESTION]).is_success
    roles = {message.role for drawn in backend.drawn for message in drawn.prompt.messages}
    assert roles == {"system", "user"}


def test_an_answer_that_was_begun_is_continued(serve: Serve) -> None:
    backend = FakeBackend()
    begun = [*QUESTION, {"role": "assistant", "content": "The harbour slept."}]
    assert serve(backend=backend).chat(messages=begun).is_success
    assert {drawn.prompt.messages[-1].role for drawn in backend.drawn} == {"assistant"}


def test_usage_says_which_tokens_are_estimated() -> None:
    mark = Mark("marked", "", "complete", cost=Cost(tokens=7))
    told = [Choice(0, 0, mark=mark, prompt_tokens=5), Choice(1, 1, mark=mark, prompt_tokens=6)]
    assert usage(told, characters=[100, 100]) == {
        "prompt_tokens": 11,
        "completion_tokens": 14,
        "total_tokens": 25,
    }
    untold = [Choice(0, 0, mark=mark), Choice(1, 1, mark=mark, prompt_tokens=6)]
    assert usage(untold, characters=[100, 100]) == {
        "prompt_tokens": 31,
        "completion_tokens": 14,
        "total_tokens": 45,
        "prompt_tokens_estimated": True,
    }


@pytest.mark.parametrize(
    ("mark", "p_value", "status", "cause", "words"),
    [
        (Mark("marked", "Every one.", "complete"), 0.01, "marked", "complete", "Every one."),
        (Mark("marked", "Every one.", "complete"), None, "marked", "complete", "Every one."),
        (
            Mark("marked", "Every one.", "complete"),
            0.25,
            "marked",
            "short",
            "Every one. The answer alone is too short to prove the mark: p = 0.25.",
        ),
        (
            Mark("partly", "It failed.", "failure", accepted=1, cost=Cost(constrained=1)),
            0.25,
            "partly",
            "failure",
            "It failed. The answer alone does not prove the mark: p = 0.25.",
        ),
        (
            Mark("marked", "Half.", "fallbacks", accepted=2, cost=Cost(constrained=4, fallbacks=2)),
            0.25,
            "marked",
            "fallbacks",
            "Half. The answer alone does not prove the mark: p = 0.25.",
        ),
        (
            Mark(
                "marked",
                "Few.",
                "fallbacks",
                sentences=6,
                accepted=2,
                cost=Cost(constrained=5, fallbacks=2, insisted=1),
            ),
            0.25,
            "partly",
            "fallbacks",
            "Only 2 of 6 sentences satisfy the rule, and some do so by chance. The answer alone "
            "proves nothing: p = 0.25.",
        ),
        (
            Mark("marked", "Few.", "fallbacks", accepted=2, cost=Cost(constrained=5, fallbacks=3)),
            0.005,
            "marked",
            "fallbacks",
            "Few.",
        ),
    ],
)
def test_an_answer_says_what_it_proves(
    mark: Mark, p_value: float | None, status: str, cause: str, words: str
) -> None:
    found = with_verdict(mark, verdict_of(p_value), exactly)
    assert (found.status, found.cause, found.p_value) == (status, cause, p_value)
    assert found.reason == words


def exactly(p_value: float | None) -> float | None:
    return p_value


def verdict_of(
    p_value: float | None,
    *,
    unit: str = "sentence",
    watermarked: bool | None = None,
    power: float | None = None,
) -> Verdict:
    return Verdict(
        watermarked=watermarked,
        p_value=p_value,
        reason="",
        level=0.01,
        statistic="",
        evidence=Evidence(unit, (), None, 1.0),
        pieces=(),
        key_id=None,
        power=power,
    )


def test_tokens_that_count_for_nothing_are_not_called_marked() -> None:
    mark = Mark("marked", "All.", "complete", key_id="hm-1", label="a")
    assert with_verdict(mark, None, exactly) == mark
    none = with_verdict(mark, verdict_of(None, unit="token"), exactly)
    assert (none.status, none.cause, none.key_id, none.label) == ("unmarked", "short", None, None)
    few = with_verdict(mark, verdict_of(0.2, unit="token"), exactly)
    assert (few.status, few.cause) == ("marked", "short")
    assert few.reason == "All. The answer alone is too short to prove the mark: p = 0.2."
    some = with_verdict(
        mark, verdict_of(0.1, unit="token", watermarked=False, power=0.5), lambda p_value: p_value
    )
    assert (some.status, some.cause) == ("marked", "complete")
    assert some.reason == "All. The answer alone does not prove the mark: p = 0.1."
    many = with_verdict(
        mark, verdict_of(0.8, unit="token", watermarked=False, power=0.95), lambda p_value: p_value
    )
    assert (many.status, many.cause, many.key_id) == ("partly", "fallbacks", "hm-1")
    assert many.reason.startswith("All. The mark does not show")
    assert (
        with_verdict(
            mark, verdict_of(0.001, unit="token", watermarked=True), lambda p_value: p_value
        ).status
        == "marked"
    )


@pytest.mark.parametrize(
    ("statuses", "together"),
    [
        (["marked", "marked"], "marked"),
        (["marked", "partly"], "partly"),
        (["marked", "unmarked"], "partly"),
        (["partly", "partly"], "partly"),
        (["unmarked", "unmarked"], "unmarked"),
    ],
)
def test_answers_together_are_as_marked_as_all_of_them(statuses: list[str], together: str) -> None:
    marks = [Mark(status, f"It is {status}.", "complete") for status in statuses]
    found = summary([Choice(i, mark=mark) for i, mark in enumerate(marks)])
    assert found.status == together
    worst = next(each for each in ("unmarked", "partly", "marked") if each in statuses)
    assert found.reason == f"It is {worst}."


def test_tokens_of_which_nobody_knows_are_not_called_marked() -> None:
    mark = Mark("marked", "All.", "complete", key_id="hm-1", label="a")
    told = undetected(mark)
    assert (told.status, told.cause, told.key_id, told.label) == ("unmarked", "failure", None, None)
    assert told.reason.startswith("All. It is unknown")


@pytest.mark.parametrize(
    ("stopped", "kind", "finish"),
    [
        ("end", None, "stop"),
        ("tokens", None, "length"),
        ("error", "context_overflow", "length"),
        ("error", "prompt_refused", "length"),
        ("error", "content_filter", "content_filter"),
    ],
)
def test_why_an_answer_ended(stopped: str, kind: FailureKind | None, finish: str) -> None:
    failure = Failure(kind, "content_filter is no word that decides") if kind else None
    made = Generation("It rained.", ("It rained.",), (), Cost(), stopped=stopped, failure=failure)
    assert finish_reason(made) == finish
