"""How far an answer is marked, whatever fails on the way, and that it says so."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

import httpx
import numpy as np
import pytest
from tests.unit.server.harness import (
    PATIENCE,
    TOKENS,
    BrokenEncoder,
    GatedBackend,
    Home,
    Served,
    TurningBackend,
    broken_encoder,
    counts,
    error_of,
    events_of,
    key_of,
    mark_of,
    streamed,
    text_of,
    until,
)

from hammingmark.assembly.keys import method_of
from hammingmark.errors import BackendError
from hammingmark.protocols import BackendCapabilities
from hammingmark.records import Request
from hammingmark.testing import FakeBackend, FakeEncoder, FakeSession
from hammingmark.testing import fakes as grammar
from hammingmark.testing.method_examples import sentence_mark

Serve = Callable[..., Served]
DELIVER = {"on_failure": "deliver"}
CODE = "```python\nprint('a river')\n```"


def failed(answer: httpx.Response) -> dict[str, Any]:
    """The error with which a stream ends, in place of ``[DONE]``."""
    assert answer.status_code == 200, answer.text
    *before, last = events_of(answer)
    assert all("choices" in event and "watermark" not in event for event in before)
    error: dict[str, Any] = last["error"]
    return error


def a_sentence(*, accepted: bool) -> str:
    """A sentence that satisfies the rule of the key at the beginning of a text, or does not."""
    mark = sentence_mark(method_of(key_of()))
    for number in range(100):
        sentence = grammar.sentence(Random(number))
        embedded = FakeEncoder().encode([sentence])
        if mark.choose(None, np.asarray(embedded)).accepted is accepted:
            return sentence
    raise AssertionError("they are all alike")


def sentences_that_are(*accepted: bool) -> list[str]:
    """Sentences that satisfy the rule after the one before, or do not."""
    mark = sentence_mark(method_of(key_of()))
    found: list[str] = []
    previous = None
    for number in range(1000):
        sentence = grammar.sentence(Random(number))
        embedded = np.asarray(FakeEncoder().encode([sentence]))
        wanted = accepted[len(found)]
        if sentence not in found and mark.choose(previous, embedded).accepted is wanted:
            found.append(sentence)
            previous = embedded[0]
        if len(found) == len(accepted):
            return found
    raise AssertionError("they are all alike")


def breaking(serve: Serve, **settings: Any) -> Served:
    """A service whose encoder fails after two sentences."""
    encoder = BrokenEncoder()
    backend = TurningBackend(lambda backend: encoder.down.set())
    return serve(backend=backend, encoder=encoder, **settings)


def saying(*texts: str) -> FakeBackend:
    """A model that says these, one by one, and has nothing else in mind."""
    whole = " ".join(texts)
    return FakeBackend(sentences=lambda request: whole[len(request.written) :])


def undecided(*accepted: bool) -> FakeBackend:
    """A model with ever new sentences in mind: at each place all satisfy the rule, or none does."""
    mark = sentence_mark(method_of(key_of()))

    def say(request: Request) -> str:
        written = request.written.strip()
        place = written.count(".")
        if place == len(accepted):
            return ""
        last = written.removesuffix(".").rpartition(". ")[2] + "."
        previous = np.asarray(FakeEncoder().encode([last]))[0] if written else None
        rng = Random(request.seed)
        while True:
            sentence = grammar.sentence(rng)
            embedded = np.asarray(FakeEncoder().encode([sentence]))
            if mark.choose(previous, embedded).accepted is accepted[place]:
                rest = " Then" if place + 1 < len(accepted) else ""
                return f"{' ' if written else ''}{sentence}{rest}"

    return FakeBackend(sentences=say)


def assert_not_told(answer: str) -> None:
    """An encoder's own words may name files and hosts, or quote somebody else's sentence."""
    assert "The encoder is down." not in answer


def test_an_encoder_that_fails_at_once_refuses_the_answer(serve: Serve) -> None:
    served = serve(encoder=broken_encoder())
    for stream in (False, True):
        answer = served.chat(stream=stream)
        assert answer.status_code == 503
        error = error_of(answer)
        assert (error["type"], error["code"]) == ("watermark_error", "watermark_failed")
        assert "The encoder failed" in error["message"]
        assert_not_told(answer.text)


def test_an_encoder_that_fails_before_a_text_begins_refuses_it_too(serve: Serve) -> None:
    """Some methods embed the last sentence of the prompt."""
    served = serve(key=key_of(method="hamming"), encoder=broken_encoder())
    answer = served.complete()
    assert answer.status_code == 503
    assert error_of(answer)["type"] == "watermark_error"


@pytest.mark.parametrize("method", ["bilinear", "hamming"])
@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_that_cannot_be_marked_is_delivered_and_says_so(
    serve: Serve, method: str, stream: bool
) -> None:
    served = serve(key=key_of(method=method), encoder=broken_encoder(), policy=DELIVER)
    answer = served.complete(stream=stream)
    mark = mark_of(answer)
    assert (mark["status"], mark["key_id"], mark["label"]) == ("unmarked", None, None)
    assert (mark["accepted"], mark["p_value"]) == (0, None)
    assert mark["reason"].startswith("Marking failed: The encoder failed")
    assert_not_told(answer.text)
    assert len(text_of(answer).split()) == mark["emitted_tokens"] == TOKENS
    assert counts(served, "answers_total") == {'reason="failure",status="unmarked"': 1}
    assert answer.headers["x-watermark-status"] == "unmarked"
    assert "x-watermark-key-id" not in answer.headers


def test_an_encoder_that_fails_in_the_middle_refuses_the_answer(serve: Serve) -> None:
    whole = breaking(serve).chat()
    assert whole.status_code == 503
    assert error_of(whole)["code"] == "watermark_failed"
    stream = breaking(serve).chat(stream=True)
    assert failed(stream)["code"] == "watermark_failed"
    assert streamed(events_of(stream)).count(".") == 2


@pytest.mark.parametrize("stream", [False, True])
def test_what_follows_a_failure_is_unmarked_and_says_so(serve: Serve, stream: bool) -> None:
    marked = text_of(serve().chat())
    served = breaking(serve, policy=DELIVER)
    answer = served.chat(stream=stream)
    mark = mark_of(answer)
    assert (mark["status"], mark["key_id"]) == ("partly", key_of().id)
    assert mark["reason"].startswith("Marking failed: The encoder failed")
    assert_not_told(answer.text)
    assert mark["p_value"] is None  # which takes an encoder
    assert 0 < mark["accepted"] <= 2 < mark["sentences"]
    text = text_of(answer)
    assert text.split(". ")[:2] == marked.split(". ")[:2]  # also: a space before what is not
    assert text.split(". ")[2] != marked.split(". ")[2]
    assert len(text.split()) == mark["emitted_tokens"] == TOKENS
    assert counts(served, "answers_total") == {'reason="failure",status="partly"': 1}


def test_the_model_goes_on_after_what_was_marked(serve: Serve) -> None:
    served = breaking(serve, policy=DELIVER)
    text = text_of(served.chat())
    backend = served.service.backend
    assert isinstance(backend, FakeBackend)
    last = backend.drawn[-1].prompt.messages[-1]
    assert last.role == "assistant"
    assert text.startswith(f"{last.content} ")
    assert last.content.count(".") == 2


def test_a_string_to_stop_at_is_found_across_a_failure(serve: Serve) -> None:
    """Its beginning was marked and is held back, its end is not."""

    def tell(request: Request) -> str:
        goes_on = request.prompt.messages[-1].role == "assistant"
        told = "The river froze. The garden slept."
        return "The mill turned." if goes_on else f"{told} The hill burned."[len(request.written) :]

    encoder = BrokenEncoder()
    backend = TurningBackend(lambda backend: encoder.down.set(), sentences=tell)
    served = serve(backend=backend, encoder=encoder, policy=DELIVER)
    answer = served.chat(stop="slept. The mill")
    assert text_of(answer) == "The river froze. The garden"
    assert answer.json()["choices"][0]["finish_reason"] == "stop"
    mark = mark_of(answer)
    assert mark["sentences"] == 2, "the second as far as it goes"
    assert mark["accepted"] + mark["fallbacks"] <= 1, "of which nothing is known"
    assert 3 <= mark["emitted_tokens"] <= 5
    assert answer.json()["usage"]["completion_tokens"] == mark["emitted_tokens"]


def test_an_answer_of_which_nothing_is_accepted_is_refused(serve: Serve) -> None:
    served = serve(backend=undecided(False, False, False, False))
    for stream in (False, True):
        answer = served.chat(stream=stream)
        assert answer.status_code == 503, "nothing of it was sent"
        assert error_of(answer)["code"] == "watermark_failed"
    assert counts(served, "answers_total") == {'reason="fallbacks",status="refused"': 2}


def test_a_short_answer_without_a_choice_is_unmarkable(serve: Serve) -> None:
    """A model that has one thing to say says it, and the answer says that it is unmarked."""
    served = serve(backend=saying(a_sentence(accepted=False)))
    mark = mark_of(served.chat())
    assert (mark["status"], mark["key_id"]) == ("unmarked", None)
    assert "short" in mark["reason"]
    strict = serve(backend=saying(a_sentence(accepted=False)), policy={"unmarkable": "refuse"})
    assert strict.chat().status_code == strict.chat(stream=True).status_code == 503


PASS = {"on_failure": "deliver", "unmarkable": "pass"}
REFUSE = {"on_failure": "refuse", "unmarkable": "refuse"}


@pytest.mark.parametrize(
    ("policy", "pattern", "together"),
    [
        (PASS, [False, False, True, False], 1),
        ({}, [False, False, True, False], 3),
        ({}, [False, False, False, False, True, True], 5),
        ({}, [True, True, False], 2),
        ({}, [True, False, False], 3),
        (REFUSE, [False, True, True], 2),
        ({**REFUSE, "on_failure": "deliver"}, [False, False, False, False, True], 5),
        ({**REFUSE, "on_failure": "deliver"}, [False, True, False], 2),
    ],
)
def test_nothing_is_sent_of_an_answer_that_may_yet_be_refused(
    serve: Serve, policy: dict[str, str], pattern: list[bool], together: int
) -> None:
    """So that it can be, whatever becomes of it; from its first accepted sentence on it flows."""
    tale = sentences_that_are(*pattern)
    served = serve(backend=saying(*tale), policy=policy)
    answer = served.chat(stream=True, max_tokens=200)
    assert text_of(answer) == " ".join(tale)
    added = [event["choices"][0]["delta"].get("content") for event in events_of(answer)[1:-2]]
    assert len(added) == len(tale) - together + 1
    assert added[0] == " ".join(tale[:together])
    assert mark_of(answer)["accepted"] == sum(pattern[1:]), "the first one is free"


def test_an_answer_that_is_not_short_any_more_flows_where_failures_are_delivered(
    serve: Serve,
) -> None:
    """Of a model that insists on nothing."""
    served = serve(
        backend=undecided(False, False, False, False, True),
        policy={**REFUSE, "on_failure": "deliver"},
    )
    answer = served.chat(stream=True, max_tokens=200)
    added = [event["choices"][0]["delta"].get("content") for event in events_of(answer)[1:-2]]
    assert [text.count(".") for text in added] == [4, 1]


def test_an_answer_that_the_model_insists_on_is_refused_unsent(serve: Serve) -> None:
    tale = sentences_that_are(False, False, False, False, False)
    policy = {**REFUSE, "on_failure": "deliver"}
    served = serve(backend=saying(*tale), policy=policy)
    answer = served.chat(stream=True, max_tokens=200)
    assert answer.status_code == 503, "nothing of it was sent"
    assert counts(served, "answers_total") == {'reason="insisted",status="refused"': 1}
    passed = serve(backend=saying(*tale)).chat(max_tokens=200)
    mark = mark_of(passed)
    assert (mark["status"], mark["accepted"], mark["sentences"]) == ("unmarked", 0, 5)
    assert text_of(passed) == " ".join(tale)


def test_code_before_the_first_accepted_sentence_waits_for_it(serve: Serve) -> None:
    tale = sentences_that_are(False, True)
    text = f"{CODE}\n\n{' '.join(tale)}"
    answer = serve(backend=saying(text), policy=REFUSE).chat(stream=True)
    assert text_of(answer) == text
    assert [event["choices"][0]["delta"].get("content") for event in events_of(answer)[1:-2]] == [
        text
    ]


@dataclass
class Staged(FakeBackend):
    """Goes on in the middle of a sentence, so that sentences are drawn in stages."""

    capabilities: BackendCapabilities = field(
        default_factory=lambda: BackendCapabilities(continues=lambda prompt, sampling: True)
    )


def test_a_string_to_stop_at_that_takes_the_only_accepted_sentence_refuses_the_answer_unsent(
    serve: Serve,
) -> None:
    """It may begin in that sentence and end in the next, which is drawn later."""
    first, second = sentences_that_are(True, False)
    tale = f"{first} {second}"
    backend = Staged(sentences=lambda request: tale[len(request.written) :])
    served = serve(backend=backend, budget=2, policy=REFUSE)
    refused = 0
    for place in range(len(first) // 2, len(first)):
        answer = served.chat(stream=True, stop=tale[place : len(first) + 12])
        if answer.status_code == 503:
            refused += 1
        else:
            assert events_of(answer)[-1] == "[DONE]"
            assert mark_of(answer)["accepted"] == 1
            assert text_of(answer).rstrip() == tale[:place].rstrip()
    assert refused > 0


@pytest.mark.parametrize("stream", [False, True])
def test_a_failure_before_the_first_accepted_sentence_refuses_an_answer_unsent(
    serve: Serve, home: Home, stream: bool
) -> None:
    encoder, told = BrokenEncoder(), " ".join(sentences_that_are(False, False, False))
    backend = TurningBackend(
        lambda backend: encoder.down.set(),
        sentences=lambda request: told[len(request.written) :],
    )
    served = serve(backend=backend, encoder=encoder, audit={"file": home.audit})
    answer = served.chat(stream=stream)
    assert answer.status_code == 503
    assert error_of(answer)["code"] == "watermark_failed"
    (row,) = home.records("end")
    assert (row["error"], row["text_characters"]) == ("refused", 0)
    assert counts(served, "answers_total") == {'reason="failure",status="refused"': 1}


def test_a_record_tells_what_was_refused_unsent_from_what_was_cut_short(
    serve: Serve, home: Home
) -> None:
    """Of one that is not streamed nothing is sent before its end."""
    encoder = BrokenEncoder()
    backend = TurningBackend(lambda backend: encoder.down.set())
    served = serve(backend=backend, encoder=encoder, audit={"file": home.audit})
    assert served.chat().status_code == 503
    encoder.down.clear()
    text = streamed(events_of(served.chat(stream=True)))
    until(lambda: len(home.records("end")) == 2)
    refused, cut = home.records("end")
    assert (refused["error"], refused["text_characters"]) == ("refused", 0)
    assert (cut["error"], cut["text_characters"]) == ("cut short", len(text))
    assert (refused["status"], cut["status"]) == ("unmarked", "partly")
    assert len(text) > 0


def test_sentences_that_satisfy_the_rule_by_chance_do_not_make_an_answer_marked(
    serve: Serve,
) -> None:
    for stream in (False, True):
        served = serve(backend=undecided(False, True, False, False, False))
        answer = served.chat(stream=stream, max_tokens=200)
        assert text_of(answer).count(".") == 5, "it is delivered, and says what it is"
        mark = mark_of(answer)
        assert (mark["status"], mark["key_id"]) == ("partly", key_of().id)
        assert (mark["accepted"], mark["fallbacks"], mark["sentences"]) == (1, 3, 5)
        assert mark["p_value"] > 0.01
        assert "Only 1 of 5 sentences satisfy the rule" in mark["reason"]
        assert f"proves nothing: p = {mark['p_value']:.2g}." in mark["reason"]
        assert counts(served, "answers_total") == {'reason="fallbacks",status="partly"': 1}


def test_an_answer_of_which_nothing_is_accepted_is_delivered_as_unmarked(serve: Serve) -> None:
    served = serve(backend=undecided(False, False, False, False), policy=DELIVER)
    answer = served.chat()
    assert text_of(answer).count(".") == 4
    mark = mark_of(answer)
    assert (mark["status"], mark["key_id"], mark["p_value"]) == ("unmarked", None, None)
    assert (mark["accepted"], mark["fallbacks"], mark["candidates"]) == (0, 3, 49)
    assert counts(served, "answers_total") == {'reason="fallbacks",status="unmarked"': 1}


def test_sentences_for_which_nothing_was_accepted_are_counted(serve: Serve) -> None:
    mark = mark_of(serve(budget=3).complete())
    assert mark["status"] == "marked"
    assert mark["fallbacks"] > 0
    assert mark["accepted"] + mark["fallbacks"] == mark["sentences"]
    accepted = f"{mark['accepted']} of {mark['sentences']} sentences are marked."
    assert mark["reason"].startswith(accepted)
    assert ("does not prove the mark" in mark["reason"]) is (mark["p_value"] > 0.01)


@pytest.mark.parametrize("on_failure", ["refuse", "deliver"])
def test_an_answer_without_a_sentence_follows_its_own_policy(serve: Serve, on_failure: str) -> None:
    """Whatever is to happen where marking fails."""
    backend = saying(CODE)
    passed = serve(backend=backend, policy={"on_failure": on_failure})
    answer = passed.chat()
    assert text_of(answer) == CODE
    mark = mark_of(answer)
    assert (mark["status"], mark["key_id"], mark["sentences"]) == ("unmarked", None, 0)
    assert "No sentence" in mark["reason"]
    assert counts(passed, "answers_total") == {'reason="unmarkable",status="unmarked"': 1}
    policy = {"on_failure": on_failure, "unmarkable": "refuse"}
    for stream in (False, True):
        refused = serve(backend=backend, policy=policy).chat(stream=stream)
        assert refused.status_code == 503, "nothing of it was sent"
        assert error_of(refused)["code"] == "watermark_failed"


def test_a_short_answer_says_that_it_proves_nothing(serve: Serve) -> None:
    mark = mark_of(serve(backend=saying(a_sentence(accepted=True))).complete())
    assert (mark["status"], mark["accepted"]) == ("marked", 1)
    assert mark["p_value"] > 0.01
    assert "too short to prove the mark" in mark["reason"]


def test_sentences_that_never_end_cannot_be_marked(serve: Serve) -> None:
    """A failure of the mark, and no fault of the prompt's length."""
    backend = FakeBackend(sentences=lambda request: " ".join(["and on"] * 200))
    refused = serve(backend=backend).chat(max_tokens=200)
    assert refused.status_code == 503
    assert error_of(refused)["code"] == "watermark_failed"
    delivered = serve(backend=backend, policy=DELIVER).chat(max_tokens=200)
    assert mark_of(delivered)["status"] == "unmarked"
    assert len(text_of(delivered).split()) == 200


def test_a_model_that_fails_at_once_is_told_as_a_status(serve: Serve) -> None:
    class Absent(FakeBackend):
        def open(self) -> FakeSession:
            raise BackendError("There is no model.")

    for backend in (FakeBackend(fail_after=0), Absent()):
        for stream in (False, True):
            answer = serve(backend=backend).chat(stream=stream)
            assert answer.status_code == 502
            assert error_of(answer)["type"] == "upstream_error"


def test_a_model_that_fails_in_the_middle_ends_the_answer(serve: Serve) -> None:
    def go_away(backend: FakeBackend) -> None:
        backend.fail_after = 0

    for policy in ({}, DELIVER):
        whole = serve(backend=TurningBackend(go_away), policy=policy).chat()
        assert (whole.status_code, error_of(whole)["message"]) == (502, "The model went away.")
        served = serve(backend=TurningBackend(go_away), policy=policy)
        stream = served.chat(stream=True)
        assert failed(stream)["message"] == "The model went away."
        assert streamed(events_of(stream)).count(".") == 2
        assert counts(served, "answers_total") == {'reason="cut_short",status="partly"': 1}


def test_a_model_that_comes_back_is_used_again(serve: Serve) -> None:
    backend = FakeBackend(fail_after=0)
    served = serve(backend=backend)
    assert served.chat().status_code == 502
    backend.fail_after = None
    assert served.chat().status_code == 200


@pytest.mark.parametrize("stream", [False, True])
def test_a_prompt_that_is_too_long_is_the_clients_fault(serve: Serve, stream: bool) -> None:
    served = serve(backend=FakeBackend(context=4))
    for answer in (served.chat(stream=stream), served.complete(prompt="a " * 9, stream=stream)):
        assert answer.status_code == 400
        error = error_of(answer)
        assert error["code"] == "context_length_exceeded"
        assert "context holds 4" in error["message"]


@pytest.mark.parametrize("stream", [False, True])
def test_a_full_context_ends_an_answer_at_its_length(serve: Serve, stream: bool) -> None:
    answer = serve(backend=FakeBackend(context=40)).chat(stream=stream, max_tokens=500)
    mark = mark_of(answer)
    assert mark["status"] == "marked"
    assert "The answer ended early: The " in mark["reason"]
    assert text_of(answer).endswith(".")
    last = events_of(answer)[-2] if stream else answer.json()
    assert last["choices"][0]["finish_reason"] == "length"


def test_what_takes_long_before_the_model_writes_counts_too(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as loading an encoder; what was asked for meanwhile is written for nobody."""
    served = serve(limits={"request_timeout": 0.05})
    go_on = threading.Event()
    make = served.service._writers.writer

    def slow(*given: Any, **named: Any) -> Any:
        assert go_on.wait(PATIENCE)
        return make(*given, **named)

    monkeypatch.setattr(served.service._writers, "writer", slow)
    try:
        answer = served.chat()
    finally:
        go_on.set()
    assert answer.status_code == 504
    until(lambda: served.service._engine.unfinished == 0)


def test_an_answer_does_not_wait_for_ever_to_be_judged(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hammingmark.server.marking.completion_stream._DETECTION_GRACE", 0.05)
    go_on = threading.Event()

    def slow(*given: Any) -> None:
        assert go_on.wait(PATIENCE)

    try:
        for seconds in (0.5, 4.0, 32.0):  # a machine may be slow
            served = serve(limits={"request_timeout": seconds})
            monkeypatch.setattr(served.service.detection, "detect_answer", slow)
            answer = served.chat(max_tokens=20)
            if answer.status_code == 200:
                break
    finally:
        go_on.set()
    mark = mark_of(answer)
    assert (mark["status"], mark["p_value"]) == ("marked", None)


@pytest.mark.parametrize("limits", [{"request_timeout": 0.05}, {"first_sentence_timeout": 0.05}])
def test_an_answer_that_takes_too_long_is_given_up(serve: Serve, limits: dict[str, float]) -> None:
    served = serve(backend=GatedBackend(), limits=limits)
    for stream in (False, True):
        answer = served.chat(stream=stream)
        assert answer.status_code == 504
        assert error_of(answer)["type"] == "timeout"


def test_a_stream_that_takes_too_long_ends_with_an_error(serve: Serve) -> None:
    """Not before its whole time is up, once its first marked sentence came in time."""
    for seconds in (0.2, 1.0, 5.0, 25.0):  # a machine may be slow
        limits = {"first_sentence_timeout": seconds, "request_timeout": 2 * seconds}
        served = serve(backend=GatedBackend(after=2), limits=limits)
        began = time.monotonic()
        answer = served.chat(stream=True)
        if answer.status_code == 200:
            break
    assert failed(answer)["type"] == "timeout"
    assert time.monotonic() - began >= 2 * seconds
    assert streamed(events_of(answer)).count(".") == 2


@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_that_cannot_be_judged_is_sent_without_a_p_value(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, stream: bool
) -> None:
    """Its sentences are known to be marked; whatever library fails in judging them."""
    served = serve()

    def fail(*anything: object) -> None:
        raise RuntimeError("odd")

    monkeypatch.setattr(served.service.detection, "detect_answer", fail)
    mark = mark_of(served.chat(stream=stream))
    assert (mark["status"], mark["key_id"], mark["p_value"]) == ("marked", key_of().id, None)
