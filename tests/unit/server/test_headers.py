"""The headers of answers, which tell what proxies that rewrite bodies would lose."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

import httpx
import pytest
from tests.unit.server.harness import Served, key_of, mark_of

Serve = Callable[..., Served]
OFF = {"enabled": False}


def told(answer: httpx.Response) -> dict[str, str]:
    """The headers about the watermark, without their prefix."""
    headers = {name.lower(): value for name, value in answer.headers.items()}
    prefix = "x-watermark-"
    return {name.removeprefix(prefix): headers[name] for name in headers if prefix in name}


@pytest.mark.parametrize("ask", ["chat", "complete"])
def test_an_answer_has_all_that_its_body_says(serve: Serve, ask: str) -> None:
    answer = getattr(serve(), ask)()
    mark = mark_of(answer)
    assert told(answer) == {
        "status": "marked",
        "key-id": key_of().id,
        "p-value": str(mark["p_value"]),
        "candidates": str(mark["candidates"]),
        "drawn-tokens": str(mark["drawn_tokens"]),
        "emitted-tokens": str(mark["emitted_tokens"]),
        "written-tokens": str(mark["written_tokens"]),
    }
    assert float(told(answer)["p-value"]) == mark["p_value"]


@pytest.mark.parametrize("ask", ["chat", "complete"])
def test_a_stream_has_what_is_known_at_its_beginning(serve: Serve, ask: str) -> None:
    answer = getattr(serve(), ask)(stream=True)
    assert told(answer) == {"status": "marking", "key-id": key_of().id}


@pytest.mark.parametrize("stream", [False, True])
def test_the_responses_api_has_the_same(serve: Serve, stream: bool) -> None:
    body = {"input": "What happened?", "max_output_tokens": 60, "seed": 3, "stream": stream}
    found = told(serve().post("/v1/responses", body))
    assert found["status"] == ("marking" if stream else "marked")
    assert found["key-id"] == key_of().id
    assert ("p-value" in found) is not stream


@pytest.mark.parametrize("label", ["2026-11-19", "Kunde Größe & Söhne, 100 %"])
@pytest.mark.parametrize("stream", [False, True])
def test_a_label_is_percent_encoded(serve: Serve, label: str, stream: bool) -> None:
    served = serve(policy={"labels": [label]})
    answer = served.chat(stream=stream, watermark={"label": label})
    assert told(answer)["label"].isascii()
    assert unquote(told(answer)["label"]) == mark_of(answer)["label"] == label


@pytest.mark.parametrize("stream", [False, True])
def test_an_unmarked_answer_names_no_key(serve: Serve, stream: bool) -> None:
    found = told(serve().chat(stream=stream, watermark=OFF))
    assert found["status"] == "unmarked"
    assert not {"key-id", "label", "p-value"} & found.keys()


def test_several_answers_have_their_total_and_no_p_value(serve: Serve) -> None:
    answer = serve().chat(n=2)
    mark: dict[str, Any] = mark_of(answer)
    assert told(answer)["emitted-tokens"] == str(mark["emitted_tokens"])
    assert "p-value" not in told(answer)


def test_pages_of_other_origins_may_read_them(serve: Serve) -> None:
    served = serve(cors_origins=["https://example.org"])
    answer = served.post(
        "/v1/chat/completions",
        {"messages": [{"role": "user", "content": "What?"}], "max_tokens": 60, "seed": 3},
        headers={"Origin": "https://example.org"},
    )
    exposed = {
        each.strip().lower() for each in answer.headers["access-control-expose-headers"].split(",")
    }
    assert {f"x-watermark-{name}" for name in told(answer)} <= exposed
