"""What a client may ask for: unmarked text, labels, and what cannot be marked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest
from tests.unit.server.harness import (
    Home,
    Served,
    counts,
    error_of,
    events_of,
    key_of,
    mark_of,
    text_of,
)

from hammingmark.assembly.detection import detector
from hammingmark.testing import FakeEncoder

Serve = Callable[..., Served]
OFF = {"enabled": False}
TOOLS = [{"type": "function", "function": {"name": "f"}}]


def assert_unmarked(answer: httpx.Response, reason: str) -> None:
    mark = mark_of(answer)
    assert (mark["status"], mark["key_id"], mark["label"]) == ("unmarked", None, None)
    assert (mark["accepted"], mark["p_value"]) == (0, None)
    assert reason in mark["reason"]
    assert answer.headers["x-watermark-status"] == "unmarked"
    assert "x-watermark-key-id" not in answer.headers


def test_nobody_switches_the_mark_off_where_others_reach_the_service(serve: Serve) -> None:
    served = serve(open=True)
    for answer in (served.chat(watermark=OFF), served.complete(watermark=OFF, stream=True)):
        assert answer.status_code == 403
        error = error_of(answer)
        assert (error["type"], error["code"]) == ("permission_error", "watermark_required")
    assert mark_of(served.chat(watermark={"enabled": True}))["status"] == "marked"
    assert mark_of(served.chat(watermark={}))["status"] == "marked"
    assert mark_of(served.chat(watermark=None))["status"] == "marked"


def test_who_is_alone_on_this_machine_may_switch_the_mark_off(serve: Serve) -> None:
    assert_unmarked(serve().chat(watermark=OFF), "turned off the watermark")
    never = serve(policy={"switch_off": "never"})
    assert error_of(never.chat(watermark=OFF))["code"] == "watermark_required"


def test_everybody_may_where_the_policy_says_so(serve: Serve, home: Home) -> None:
    served = serve(policy={"switch_off": "allowed"})
    whole = served.chat(watermark=OFF, max_tokens=100)
    assert_unmarked(whole, "turned off the watermark")
    stream = served.chat(watermark=OFF, max_tokens=100, stream=True)
    assert_unmarked(stream, "turned off the watermark")
    assert text_of(stream) == text_of(whole)
    assert served.detect(text_of(whole))["watermarked"] is not True
    assert counts(served, "answers_total") == {'reason="switched_off",status="unmarked"': 2}


def test_those_may_whose_api_key_says_so(serve: Serve, home: Home) -> None:
    trusted = home.let_in("trusted", may_switch_off=True)
    other = home.let_in("other")
    served = serve(policy={"switch_off": "by_api_key"}, api_keys=home.api_keys)
    served.token = other
    assert served.chat(watermark=OFF).status_code == 403
    assert mark_of(served.chat())["status"] == "marked"
    served.token = trusted
    assert_unmarked(served.chat(watermark=OFF), "turned off the watermark")
    assert mark_of(served.chat())["status"] == "marked"


def test_an_api_key_that_may_does_not_overrule_the_policy(serve: Serve, home: Home) -> None:
    served = serve(policy={"switch_off": "never"}, api_keys=None)
    assert served.chat(watermark=OFF).status_code == 403
    token = home.let_in("trusted", may_switch_off=True)
    served = serve(policy={"switch_off": "never"}, api_keys=home.api_keys)
    served.token = token
    assert served.chat(watermark=OFF).status_code == 403


def test_a_label_marks_with_its_derived_key(serve: Serve) -> None:
    served = serve(policy={"labels": ["customer-17", "customer-18"]})
    answer = served.chat(watermark={"label": " customer-17 "}, max_tokens=120)
    derived = key_of().derive("customer-17")
    mark = mark_of(answer)
    assert (mark["key_id"], mark["label"]) == (derived.id, "customer-17")
    assert answer.headers["x-watermark-key-id"] == derived.id
    assert mark["p_value"] < 1e-4

    def p_value(label: str) -> float:
        made = detector(key_of(), labels=[label], encoder=FakeEncoder())
        return made.judge(text_of(answer)).p_value or 0.0

    assert p_value("customer-17") == mark["p_value"]
    assert p_value("customer-18") > 0.01
    stream = served.chat(watermark={"label": "customer-17"}, max_tokens=120, stream=True)
    assert text_of(stream) == text_of(answer)
    assert stream.headers["x-watermark-key-id"] == derived.id


def test_the_detector_follows_the_labels_that_the_policy_names(serve: Serve) -> None:
    served = serve(policy={"labels": ["customer-17", "customer-18"]})
    answer = served.chat(watermark={"label": "customer-17"}, max_tokens=120)
    derived = key_of().derive("customer-17")
    for named in ({}, {"keys": ["default"]}, {"keys": [key_of().id]}):
        found = served.detect(text_of(answer), **named)
        assert (found["watermarked"], found["keys"]) == (True, 3)
        assert (found["key_id"], found["label"]) == (derived.id, "customer-17")
    alone = served.detect(text_of(answer), keys=[derived.id])
    assert (alone["watermarked"], alone["keys"]) == (True, 1)
    unlabelled = served.detect(text_of(served.chat(max_tokens=120)))
    assert (unlabelled["key_id"], unlabelled["label"]) == (key_of().id, None)


def test_labels_of_a_rotated_key_are_found_still(serve: Serve, home: Home) -> None:
    served = serve(policy={"labels": ["customer-17"]})
    answer = served.chat(watermark={"label": "customer-17"}, max_tokens=120)
    for _ in range(2):
        home.keyring.rotate("default")
    again = serve(policy={"labels": ["customer-17"]})
    found = again.detect(text_of(answer))
    assert (found["watermarked"], found["label"], found["keys"]) == (True, "customer-17", 6)


def test_a_label_that_is_none_is_refused(serve: Serve) -> None:
    served = serve(policy={"labels": ["customer-17"]})
    for label in (" ", "two\nlines", "\u202e", 17):
        answer = served.chat(watermark={"label": label})
        assert answer.status_code in (400, 422)
    assert served.chat(watermark={"label": "x" * 201}).status_code == 422


@pytest.mark.parametrize("policy", [{}, {"labels": ["customer-18"]}])
def test_labels_that_the_policy_does_not_name_are_refused(
    serve: Serve, policy: dict[str, Any]
) -> None:
    served = serve(policy=policy)
    for stream in (False, True):
        refused = served.chat(watermark={"label": "customer-17"}, stream=stream)
        assert refused.status_code == 403
        error = error_of(refused)
        assert (error["type"], error["code"]) == ("permission_error", "label_not_allowed")
    assert mark_of(served.chat(watermark={"label": None}))["status"] == "marked"


def test_at_temperature_0_there_is_nothing_to_choose(serve: Serve) -> None:
    served = serve()
    answer = served.chat(temperature=0)
    assert_unmarked(answer, "only one candidate")
    assert text_of(served.chat(temperature=0, seed=4)) == text_of(answer)
    assert text_of(served.chat(temperature=0, stream=True)) == text_of(answer)
    assert counts(served, "answers_total") == {'reason="unmarkable",status="unmarked"': 3}
    strict = serve(policy={"unmarkable": "refuse"})
    refused = strict.chat(temperature=0)
    assert refused.status_code == 400
    assert error_of(refused)["code"] == "unmarkable"
    assert mark_of(strict.chat(temperature=0.1))["status"] == "marked"


@pytest.mark.parametrize("named", [{"top_k": 1}, {"top_p": 1e-9}, {"min_p": 1}])
def test_where_one_token_may_be_drawn_there_is_nothing_to_choose(
    serve: Serve, named: dict[str, float]
) -> None:
    """As at temperature 0."""
    served = serve()
    for stream in (False, True):
        assert_unmarked(served.chat(stream=stream, **named), "only one candidate")
    assert counts(served, "answers_total") == {'reason="unmarkable",status="unmarked"': 2}
    refused = serve(policy={"unmarkable": "refuse"}).chat(**named)
    assert refused.status_code == 400
    assert error_of(refused)["code"] == "unmarkable"


@pytest.mark.parametrize("unmarkable", ["pass", "refuse"])
@pytest.mark.parametrize(
    "named",
    [
        {"tools": TOOLS, "tool_choice": "required"},
        {"response_format": {"type": "json_object"}},
        {"logprobs": True},
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]},
    ],
)
def test_the_embedded_model_writes_text_alone(
    serve: Serve, unmarkable: str, named: dict[str, Any]
) -> None:
    """Whatever the policy: what it would write is no answer to these."""
    answer = serve(policy={"unmarkable": unmarkable}).chat(**named)
    assert answer.status_code == 400
    assert error_of(answer)["code"] == "unmarkable"


def test_the_embedded_model_takes_no_tokens(serve: Serve) -> None:
    for prompt in ([1, 2, 3], [[1, 2], [3]]):
        answer = serve().complete(prompt=prompt)
        assert answer.status_code == 400
        assert error_of(answer)["code"] == "unmarkable"


def test_switching_off_does_not_lift_what_the_embedded_model_cannot(serve: Serve) -> None:
    served = serve(policy={"switch_off": "allowed"})
    answer = served.chat(watermark=OFF, response_format={"type": "json_object"})
    assert answer.status_code == 400
    plain = served.chat(watermark=OFF, temperature=0)
    assert_unmarked(plain, "turned off the watermark")


def test_unmarked_text_is_streamed_in_one_go(serve: Serve) -> None:
    served = serve(policy={"switch_off": "allowed"})
    events = events_of(served.chat(watermark=OFF, stream=True))
    assert len(events) == 4  # role, text, end, [DONE]
