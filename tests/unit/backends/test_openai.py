"""The HTTP backend against a real server on this machine that misbehaves on request."""

from __future__ import annotations

import json
import logging
import time
from typing import Any

import pytest
from tests.unit.backends.openai_client import PROMPT, Maker, ask, draw
from tests.unit.backends.openai_server import (
    KEY,
    Server,
    Step,
    break_off,
    half_a_chunk,
    honest,
    one_choice,
    refusing,
    reset,
    saying,
    stall,
    stall_midway,
    status,
    story,
    unstreamed,
    vanish,
)

from hammingmark.assembly.backends import load_backend
from hammingmark.backends.inflight import split_pieces
from hammingmark.backends.openai import OpenAIBackend
from hammingmark.errors import BackendError, FailureKind, InputError
from hammingmark.protocols import Backend
from hammingmark.records import Candidate, Message, Prompt, Sampling

CHAT = Prompt(messages=(Message("system", "Be brief."), Message("user", "Tell me.")))


def test_a_text_goes_to_completions(server: Server, make: Maker) -> None:
    backend = make(name="mine", extra={"typical_p": 1.0})
    assert isinstance(backend, Backend)
    assert (backend.name, backend.parallel, backend.width) == ("mine", 8, 4)
    sampling = Sampling(temperature=0.7, top_k=0, top_p=0.9)
    candidates = draw(backend, ask(3, seed=5, written=" It rained."), sampling=sampling)
    assert candidates == {3: Candidate(3, tuple(story(5)), finished=True)}
    assert server.seen == [
        (
            "/v1/completions",
            {
                "model": "tiny",
                "prompt": "Once upon a time. It rained.",
                "max_tokens": 50,
                "seed": 5,
                "temperature": 0.7,
                "top_p": 0.9,
                "min_p": 0.0,
                "top_k": -1,
                "stream": True,
                "stream_options": {"include_usage": True, "continuous_usage_stats": True},
                "timings_per_token": True,
                "typical_p": 1.0,
            },
        )
    ]
    assert server.keys == [f"Bearer {KEY}"]
    assert backend.refused == frozenset()


def test_a_limit_cuts(make: Maker) -> None:
    assert draw(make(), ask(1, max_tokens=3))[1] == Candidate(
        1, tuple(story(10)[:3]), finished=False, truncated=True
    )


@pytest.mark.parametrize(
    ("prompt", "written", "last", "continues"),
    [
        (CHAT, "", {"role": "user", "content": "Tell me."}, False),
        (CHAT, "Well.", {"role": "assistant", "content": "Well."}, True),
        (
            Prompt(messages=(*CHAT.messages, Message("assistant", "Oh"))),
            " well.",
            {"role": "assistant", "content": "Oh well."},
            True,
        ),
    ],
)
def test_a_chat_is_continued(
    server: Server,
    make: Maker,
    prompt: Prompt,
    written: str,
    last: dict[str, str],
    continues: bool,
) -> None:
    assert draw(make(), ask(1, prompt=prompt, written=written))[1].text == "".join(story(10))
    ((path, body),) = server.seen
    assert path == "/v1/chat/completions"
    assert body["messages"][0] == {"role": "system", "content": "Be brief."}
    assert body["messages"][-1] == last
    assert body["top_k"] == 50
    flags = {"continue_final_message": True, "add_generation_prompt": False}
    assert {name: body[name] for name in flags if name in body} == (flags if continues else {})


def test_candidates_of_one_place_are_one_request(server: Server, make: Maker) -> None:
    """By index in the order of submission, even with other requests between them."""
    requests = [ask(1), ask(2, written=" Other."), ask(3), ask(4, max_tokens=2), ask(5)]
    candidates = draw(make(), *requests)
    sent = sorted((body["seed"], body.get("n")) for body in server.bodies)
    assert sent == [(10, 3), (20, None), (40, None)]
    texts = {number: candidate.pieces[0] for number, candidate in candidates.items()}
    assert texts == {1: " Seed10", 3: " Seed11", 5: " Seed12", 2: " Seed20", 4: " Seed40"}


@pytest.mark.parametrize(
    "step",
    [
        one_choice,
        refusing("n"),
        refusing("n", code=422, message="n must be 1"),
        refusing("n", code=500, message="Only one completion choice is allowed"),
        refusing("n", code=501, message="not here: {}"),
        lambda handler, body: unstreamed(handler, {**body, "n": 1}),
    ],
)
def test_a_server_without_n_is_asked_one_by_one(server: Server, make: Maker, step: Step) -> None:
    server.always = step
    backend = make(backoff=30.0)  # waiting that long would fail the test
    candidates = draw(backend, *map(ask, range(1, 5)))
    assert {number: each.text for number, each in candidates.items()} == {
        number: "".join(story(10 * number)) for number in range(1, 5)
    }
    assert server.bodies[0]["n"] == 4
    assert sorted(body["seed"] for body in server.bodies[1:]) in ([20, 30, 40], [10, 20, 30, 40])
    assert backend.refused == {"n"}
    before = len(server.seen)
    draw(backend, ask(1), ask(2))
    assert [body.get("n") for body in server.bodies[before:]] == [None, None]


FLAGS = {"continue_final_message", "add_generation_prompt"}


@pytest.mark.parametrize(
    ("step", "dropped"),
    [
        (refusing("top_k"), {"top_k"}),
        (refusing("min_p"), {"min_p"}),
        (
            refusing("top_k", "continue_final_message", message="Bad Request"),
            FLAGS | {"top_k", "min_p", "stream_options", "timings_per_token"},
        ),
        (refusing("add_generation_prompt", code=422), FLAGS),
        (refusing("seed", message="extra fields not permitted: {}"), {"seed"}),
        (refusing("max_tokens", message="Use 'max_completion_tokens' instead."), {"max_tokens"}),
    ],
)
def test_what_is_refused_is_left_out_from_then_on(
    server: Server, make: Maker, step: Step, dropped: set[str]
) -> None:
    server.always = step
    backend = make()
    request = ask(1, prompt=CHAT, written="Well.")
    assert draw(backend, request)[1].finished
    assert backend.refused == dropped
    assert draw(backend, request)[1].finished
    assert len(server.seen) == 3
    first, second, third = server.bodies
    assert second == third
    assert first.keys() - second.keys() == dropped
    assert "max_completion_tokens" in second or "max_tokens" in second


def test_a_refusal_that_nothing_mends_is_told_and_not_remembered(
    server: Server, make: Maker
) -> None:
    backend = make()
    server.always = status(400, "The prompt is too long.")
    with pytest.raises(BackendError) as caught:
        draw(backend, ask(1), ask(2))
    assert (caught.value.kind, caught.value.status) == ("invalid_request", 400)
    assert caught.value.failure.detail == "The prompt is too long"
    server.always = honest
    assert backend.refused == frozenset()
    draw(backend, ask(1), ask(2))
    assert server.bodies[-1]["n"] == 2
    assert server.bodies[-1]["top_k"] == 50


def test_what_the_user_adds_is_not_taken_away(server: Server, make: Maker) -> None:
    server.always = refusing("typical_p")
    with pytest.raises(BackendError) as caught:
        draw(make(extra={"typical_p": 0.1}), ask(1))
    assert caught.value.kind == "invalid_request"
    assert all(body["typical_p"] == 0.1 for body in server.bodies)


@pytest.mark.parametrize(
    "script",
    [
        [status(429, Retry_After="0")],
        [status(408), status(409)],
        [status(425), status(500)],
        [status(503, Retry_After="Wed, 21 Oct 2015 07:28:00 GMT")],
        [vanish],
        [break_off, reset],
        [half_a_chunk],
        [saying({"choices": [{"index": 0, "text": " Never"}]}, {"error": "out of memory"})],
        [saying({"error": {"code": 503, "message": "restarting"}})],
        [saying()],
    ],
)
def test_passing_trouble_is_sat_out(server: Server, make: Maker, script: list[Step]) -> None:
    """Also in mid-stream: the candidate is drawn again from the start, with its seed."""
    server.script = list(script)
    assert draw(make(), ask(1)) == {1: Candidate(1, tuple(story(10)), finished=True)}
    assert [body["seed"] for body in server.bodies] == [10] * (len(script) + 1)


def test_a_group_that_breaks_off_keeps_what_it_has(server: Server, make: Maker) -> None:
    ended = {"index": 0, "text": " Whole.", "finish_reason": "stop"}
    server.script = [saying({"choices": [ended, {"index": 1, "text": " Half"}]})]
    candidates = draw(make(), ask(1), ask(2))
    assert candidates[1].pieces == (" Whole.",)
    assert candidates[2].pieces == tuple(story(11))
    assert server.bodies[0] == server.bodies[1]


def test_the_server_says_how_long_to_wait(server: Server, make: Maker) -> None:
    server.script = [status(429, Retry_After="0.4")]
    began = time.monotonic()
    draw(make(), ask(1))
    assert time.monotonic() - began >= 0.4
    server.script = [status(429, Retry_After="0")]
    began = time.monotonic()
    draw(make(backoff=30.0), ask(1))
    assert time.monotonic() - began < 20  # not the 30 seconds of the back-off


def test_a_slow_answer_is_given_up_and_asked_again(server: Server, make: Maker) -> None:
    server.script = [stall, stall_midway]
    # On a slow machine the honest answer may also time out, which costs one more request.
    assert draw(make(timeout=0.2, retries=50), ask(1))[1].pieces == tuple(story(10))
    assert len(server.seen) >= 3
    server.always = stall
    before = len(server.seen)
    with pytest.raises(BackendError) as caught:
        draw(make(timeout=0.1), ask(1))
    assert (caught.value.kind, caught.value.status) == ("timeout", None)
    assert len(server.seen) == before + 3


@pytest.mark.parametrize(
    ("step", "kind", "code", "detail", "tries"),
    [
        (status(500), "unavailable", 500, "no, [key] is bad", 3),
        (status(503), "unavailable", 503, "no, [key] is bad", 3),
        (status(429), "rate_limited", 429, "no, [key] is bad", 3),
        (status(408), "timeout", 408, "no, [key] is bad", 3),
        (status(409), "unavailable", 409, "no, [key] is bad", 3),
        (status(504), "timeout", 504, "no, [key] is bad", 3),
        (vanish, "unavailable", None, "", 3),
        (break_off, "unavailable", None, "", 3),
        (saying({"error": f"{KEY} is out"}), "unavailable", None, "[key] is out", 3),
        (saying({"error": {"code": 401, "message": "who?"}}), "unauthorized", 401, "who?", 1),
        (saying({"error": {"code": 429, "message": "slow"}}), "rate_limited", 429, "slow", 3),
        (status(401), "unauthorized", 401, "no, [key] is bad", 1),
        (status(403), "unauthorized", 403, "no, [key] is bad", 1),
        (status(404), "not_found", 404, "no, [key] is bad", 1),
        (status(413), "invalid_request", 413, "no, [key] is bad", 1),
        (status(405), "unavailable", 405, "no, [key] is bad", 1),
        (lambda handler, body: handler.plain("<html>"), "unavailable", None, "", 1),
        (lambda handler, body: handler.plain([1]), "unavailable", None, "", 1),
        (lambda handler, body: handler.plain({"choices": 1}), "unavailable", None, "", 1),
        (lambda handler, body: handler.plain({"choices": []}), "unavailable", None, "", 1),
        (saying("no json"), "unavailable", None, "", 1),
        (saying("[" * 100_000), "unavailable", None, "", 1),
        (saying('{"choices": [{"index": 1e999}]}'), "unavailable", None, "", 1),
        (saying("[DONE]"), "unavailable", None, "", 1),
    ],
)
def test_lasting_trouble_is_told_without_the_key(
    server: Server,
    make: Maker,
    caplog: pytest.LogCaptureFixture,
    step: Step,
    kind: FailureKind,
    code: int | None,
    detail: str,
    tries: int,
) -> None:
    caplog.set_level(logging.DEBUG)
    server.always = step
    with pytest.raises(BackendError) as caught:
        draw(make(), ask(1), sampling=Sampling(top_k=0))
    assert len(server.seen) == tries
    failure = caught.value.failure
    assert (failure.kind, failure.origin, failure.status) == (kind, "model", code)
    assert failure.detail == detail
    assert not failure.is_about_text
    assert server.url not in failure.summary
    assert server.url in failure.advice
    assert KEY not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caplog.records
    assert KEY not in caplog.text


def test_the_time_to_wait_is_told_where_all_tries_fail(server: Server, make: Maker) -> None:
    for header, seconds in (("0.25", 0.25), ("soon", None)):
        server.always = status(429, Retry_After=header)
        with pytest.raises(BackendError) as caught:
            draw(make(retries=0), ask(1))
        assert (caught.value.kind, caught.value.retry_after) == ("rate_limited", seconds)


@pytest.mark.parametrize(
    "error",
    [
        {"message": "This model's maximum context length is 512 tokens."},
        {"message": "too many", "code": "context_length_exceeded"},
        {"message": "too many", "type": "exceed_context_size_error", "code": 400},
    ],
)
def test_a_context_that_overflows_is_the_prompts(
    server: Server, make: Maker, error: dict[str, Any]
) -> None:
    """Candidates carry this failure, and no exception is raised, because the model works."""
    server.always = lambda handler, body: handler.plain({"error": error}, status=400)
    session = make().open()
    session.submit(ask(1))
    failure = session.wait()[0].failure
    session.close()
    assert failure is not None
    assert (failure.kind, failure.status) == ("context_overflow", 400)
    assert failure.is_about_text
    assert failure.detail == error["message"].rstrip(".")
    assert len(server.seen) == 1


@pytest.mark.parametrize(
    ("event", "kind"),
    [
        ({"text": " It", "finish_reason": "content_filter"}, "content_filter"),
        ({"text": " It", "finish_reason": "length"}, "context_overflow"),
    ],
)
def test_a_candidate_says_why_it_ends_early(
    server: Server, make: Maker, event: dict[str, Any], kind: FailureKind
) -> None:
    timings = {"timings": {"predicted_n": 1}}
    server.script = [saying({"choices": [{"index": 0, **event}], **timings}, "[DONE]")]
    candidate = draw(make(), ask(1))[1]
    assert candidate.text == " It"
    assert candidate.failure is not None
    assert candidate.failure.kind == kind
    assert candidate.failure.is_about_text


def test_no_server() -> None:
    backend = OpenAIBackend("http://127.0.0.1:9/v1", "tiny", retries=0, timeout=1)
    with pytest.raises(BackendError) as caught:
        draw(backend, ask(1))
    assert (caught.value.kind, caught.value.status) == ("unavailable", None)


@pytest.mark.parametrize("prompt", [PROMPT, CHAT])
def test_an_answer_that_is_not_streamed(server: Server, make: Maker, prompt: Prompt) -> None:
    server.always = unstreamed
    candidates = draw(make(), ask(1, prompt=prompt), ask(2, prompt=prompt))
    assert candidates[1] == Candidate(1, tuple(story(10)), finished=True)
    assert candidates[2] == Candidate(2, tuple(story(11)), finished=True)
    assert len(server.seen) == 1


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        (" the", [" the"]),
        ("):\n\n", ["):\n\n"]),
        ("        return", ["        return"]),
        (" It rained.\n\nThen", [" It", " rained.", "\n\nThen"]),
        ("Two words ", ["Two", " words", " "]),
        ("x" * 40, ["x" * 16, "x" * 16, "x" * 8]),
        ("\n" * 40, ["\n" * 40]),
    ],
)
def test_what_comes_at_once_counts_as_words(text: str, pieces: list[str]) -> None:
    assert split_pieces(text) == pieces
    assert "".join(pieces) == text


def test_odd_streams(server: Server, make: Maker) -> None:
    """Line separators inside JSON, comments, an end without a reason, roles without content."""
    server.script = [
        saying(
            {"choices": [{"index": 0, "delta": {"role": "assistant", "content": None}}]},
            {"choices": [{"index": 0, "delta": {"content": " one\u2028two\x85"}}]},
            {"choices": [{"index": 7, "delta": {"content": "nobody asked"}}]},
            {"choices": [{"index": 0, "delta": {"reasoning_content": "Hm."}}]},
            "[DONE]",
        )
    ]
    assert draw(make(), ask(1))[1] == Candidate(1, (" one", "\u2028two", "\x85"), finished=True)

    def crlf(handler: Any, body: dict[str, Any]) -> None:
        handler.begin()
        handler.wfile.write(b": ping\r\n\r\nevent: message\r\nid: 1\r\n")
        choice = {"index": 0, "text": " é", "finish_reason": "length"}
        handler.wfile.write(b"data:" + json.dumps({"choices": [choice]}).encode() + b"\r\n\r\n")
        handler.wfile.write(b"data: [DONE]")

    server.script = [crlf]
    assert draw(make(), ask(1))[1] == Candidate(1, (" é",), finished=False, truncated=True)

    def abrupt(handler: Any, body: dict[str, Any]) -> None:
        handler.begin()
        handler.wfile.write(b": ping\n\nid: 1\n\nevent: ping\n\n")
        handler.event({"choices": [{"index": 0, "text": " all"}]})
        handler.wfile.write(b": ping\n\ndata: [DONE]")

    server.script = [abrupt]
    assert draw(make(), ask(1))[1] == Candidate(1, (" all",), finished=True)

    def mislabelled(handler: Any, body: dict[str, Any]) -> None:
        handler.send_response(200)
        handler.send_header("Content-Type", "text/plain; charset=iso-8859-1")
        handler.end_headers()
        handler.piece(0, " é", "stop")

    server.script = [mislabelled]
    assert draw(make(), ask(1))[1] == Candidate(1, (" é",), finished=True)
    assert len(server.seen) == 4


def test_a_large_group_is_sent_in_parts(server: Server, make: Maker) -> None:
    candidates = draw(make(parallel=3), *map(ask, range(1, 8)))
    assert sorted(body.get("n", 1) for body in server.bodies) == [1, 3, 3]
    assert candidates[4].pieces[0] == " Seed40"


def test_our_own_mistakes_are_not_called_the_servers(
    make: Maker, caplog: pytest.LogCaptureFixture
) -> None:
    def wrong(text: str) -> bool:
        raise ZeroDivisionError

    with pytest.raises(BackendError) as caught:
        draw(make(), ask(1, stop_condition=wrong))
    assert caught.value.kind == "internal"
    assert "ZeroDivisionError" in caught.value.failure.summary
    assert "ZeroDivisionError" in caplog.text


def test_half_a_surrogate_pair_is_replaced(server: Server, make: Maker) -> None:
    """JSON may contain it, and it could not be sent back."""
    halves = r'{"choices": [{"index": 0, "text": " \ud83d \ud83d\ude00 \ude00."}]}'
    server.script = [saying(halves, "[DONE]")]
    backend = make()
    candidate = draw(backend, ask(1))[1]
    assert candidate.text == " \ufffd \U0001f600 \ufffd."
    assert draw(backend, ask(2, written=candidate.text))[2].finished
    server.script = [saying(r'{"error": {"code": 401, "message": "\ud83d"}}')]
    with pytest.raises(BackendError) as caught:
        draw(backend, ask(3))
    assert caught.value.status == 401
    assert caught.value.failure.detail == "\ufffd"


@pytest.mark.parametrize(
    ("models", "advice"),
    [
        ({"data": [{"id": "tiny"}]}, None),
        ({"data": [{"id": "tiny"}, {"id": "large"}]}, "tiny, large"),
        ({"data": []}, "none"),
        ({"models": []}, "Name the model"),
    ],
)
def test_a_spec_names_an_endpoint(
    server: Server, monkeypatch: pytest.MonkeyPatch, models: Any, advice: str | None
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    server.models = models
    backend = load_backend(f"openai:@{server.url}")
    assert isinstance(backend, OpenAIBackend)
    if advice:
        with pytest.raises(BackendError) as caught:
            backend.open()
        assert advice in caught.value.failure.advice
    else:
        draw(backend, ask(1))
        assert server.bodies[-1]["model"] == "tiny"
        assert server.keys == [f"Bearer {KEY}"]
    assert server.seen[0][0] == "/v1/models"
    backend.close()


def test_what_is_refused_and_what_is_shown(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "")
    named = load_backend(f"openai:@cf/tiny@{server.url}")
    assert named.name == f"openai:@cf/tiny@{server.url}"
    for spec in ("openai:tiny", "openai:tiny@localhost:80"):
        with pytest.raises(InputError):
            load_backend(spec)
    for option in ({"parallel": 0}, {"width": 0}, {"retries": -1}, {"api_key": "a b"}):
        with pytest.raises(InputError):
            OpenAIBackend("http://x", "m", **option)  # type: ignore[arg-type]
    backend = OpenAIBackend(f"http://user:{KEY}@x/v1?token={KEY}", "m", api_key=KEY)
    assert repr(backend) == "OpenAIBackend('http://x/v1', 'm')"
    assert KEY not in backend.name + str(vars(backend))
