"""Whatever is sent to it, the service keeps to the interface that it describes."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import Case, GenerationMode
from schemathesis.config import SchemathesisConfig
from schemathesis.specs.openapi.checks import positive_data_acceptance
from tests.unit.server.harness import CHAT, DETECT, QUESTION, TEXT, Home, Live, error_of

RESPONSES = "/v1/responses"
OPERATIONS = [
    ("POST", "/v1/chat/completions"),
    ("POST", "/v1/completions"),
    ("POST", "/v1/responses"),
    ("GET", "/v1/models"),
    ("GET", "/v1/models/{name}"),
    ("POST", "/v1/watermark/detect"),
    ("POST", "/v1/watermark/report"),
    ("GET", "/v1/watermark/keys"),
    ("GET", "/v1/watermark/about"),
    ("GET", "/healthz"),
    ("GET", "/readyz"),
    ("GET", "/metrics"),
]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    made = Live(
        Home(tmp_path_factory.mktemp("service")).service(
            max_tokens=12,
            budget=2,
            limits={"tokens": 24, "choices": 2},
            policy={"on_failure": "deliver", "switch_off": "allowed"},
        )
    )
    yield made
    made.close()


@pytest.fixture(scope="module")
def schema(service: Live) -> Any:
    # A body that is forbidden may also be too large, which is told first.
    rejected = {"negative_data_rejection": {"expected-statuses": ["4xx"]}}
    config = SchemathesisConfig.from_dict({"checks": rejected})
    return schemathesis.openapi.from_dict(service.client.get("/openapi.json").json(), config=config)


def test_all_operations_are_called_here(schema: Any) -> None:
    found = {(each.ok().method.upper(), each.ok().path) for each in schema.get_all_operations()}
    assert found == set(OPERATIONS)


def call(case: Case, service: Live) -> int:
    """The status of an answer, which is what the schema says of it."""
    with requests.Session() as session:
        session.trust_env = False
        answer = case.call_and_validate(
            base_url=service.root,
            session=session,
            # That messages have roles, or that a text is not empty, is told by an error.
            excluded_checks=[positive_data_acceptance],
        )
    assert answer.status_code < 500
    return answer.status_code


def run_many(service: Live, operation: Any, mode: GenerationMode) -> Counter[int]:
    """Call an operation with what the schema allows, or forbids; how often it had each status."""
    statuses: Counter[int] = Counter()

    @settings(
        max_examples=15,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def keeps_to_it(case: Case) -> None:
        statuses[call(case, service)] += 1

    keeps_to_it()
    return statuses


@pytest.mark.parametrize(("method", "path"), OPERATIONS)
def test_what_is_allowed_gets_what_the_schema_says(
    service: Live, schema: Any, method: str, path: str
) -> None:
    statuses = run_many(service, schema[path][method], GenerationMode.POSITIVE)
    if method == "GET":
        assert statuses.keys() == {404 if "{" in path else 200}


@pytest.mark.parametrize(("method", "path"), [each for each in OPERATIONS if each[0] == "POST"])
def test_what_is_forbidden_is_refused(service: Live, schema: Any, method: str, path: str) -> None:
    statuses = run_many(service, schema[path][method], GenerationMode.NEGATIVE)
    assert statuses
    assert all(400 <= status < 500 for status in statuses)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("path", [CHAT, TEXT, RESPONSES])
def test_answers_are_what_the_schema_says(
    service: Live, schema: Any, path: str, stream: bool
) -> None:
    asked: dict[str, Any] = {"stream": stream, "seed": 3}
    asked |= {CHAT: {"messages": QUESTION}, TEXT: {"prompt": "It was late."}}.get(
        path, {"input": "What happened?"}
    )
    operation = schema[path]["POST"]
    assert call(operation.Case(body=asked, media_type="application/json"), service) == 200


ODD = st.sampled_from(
    ["user", "tool", "text", "image_url", None, 0, True, [], {}, ["text"], {"type": "text"}]
)
PART = st.fixed_dictionaries({"type": ODD, "text": ODD}) | ODD
MESSAGE = st.fixed_dictionaries(
    {"role": ODD, "content": ODD | st.lists(PART, min_size=1, max_size=2)},
    optional={"tool_calls": ODD, "name": ODD},
)
FURTHER = st.dictionaries(
    st.sampled_from(["tools", "response_format", "logprobs", "modalities", "best_of", "stop"]),
    ODD,
    max_size=2,
)


@pytest.mark.parametrize("path", [CHAT, RESPONSES])
def test_whatever_messages_hold_is_no_fault_of_the_service(service: Live, path: str) -> None:
    """The schema leaves them open, since an upstream may know more of them."""

    @settings(
        max_examples=40,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(message=MESSAGE, further=FURTHER)
    def is_answered(message: Any, further: dict[str, Any]) -> None:
        body = {**further, "messages": [message], "max_tokens": 1}
        if path == RESPONSES:
            body = {**further, "input": [message], "max_output_tokens": 1}
        answer = service.client.post(path, json=body)
        assert answer.status_code < 500, body

    is_answered()


@pytest.mark.parametrize("kind", ["application/x-www-form-urlencoded", "text/plain", "", "odd"])
@pytest.mark.parametrize("path", [CHAT, TEXT, RESPONSES, DETECT])
def test_a_body_of_another_type_is_told_what_to_be(service: Live, path: str, kind: str) -> None:
    names = ("prompt", "text", "input")
    body = json.dumps({"messages": QUESTION} | dict.fromkeys(names, "It was late."))
    headers = {"Content-Type": kind} if kind else {}
    answer = service.client.post(path, content=body.encode(), headers=headers)
    assert answer.status_code == 415
    assert "Content-Type: application/json" in error_of(answer)["message"]


@pytest.mark.parametrize("path", [CHAT, TEXT, RESPONSES])
def test_a_body_may_not_be_nested_without_end(service: Live, path: str) -> None:
    """Where Python gives up depends on who calls, and it reads deeper than it writes."""
    asked = {"messages": QUESTION, "prompt": "It was late.", "max_tokens": 1, "odd": None}
    if path == RESPONSES:
        asked = {"input": "It was late.", "max_output_tokens": 1, "odd": None}

    def status(depth: int) -> int:
        body = json.dumps(asked).replace("null", "[" * depth + "]" * depth)
        headers = {"Content-Type": "application/json"}
        return service.client.post(path, content=body, headers=headers).status_code

    assert status(90) == 200
    assert [status(depth) for depth in (101, 300)] == [422, 422]
    for depth in (*range(940, 1000, 4), 100_000):
        assert status(depth) in (400, 422), depth


def test_answers_and_their_mark_are_described(schema: Any) -> None:
    for path, name in (
        (CHAT, "ChatCompletionResponse"),
        (TEXT, "CompletionResponse"),
        (RESPONSES, "ResponsesResponse"),
    ):
        told = schema.raw_schema["paths"][path]["post"]["responses"]["200"]
        assert told["content"]["application/json"]["schema"]["$ref"].endswith(f"/{name}")
        assert "watermark" in told["content"]["text/event-stream"]["schema"]["description"]
        assert {"X-Watermark-Status", "X-Watermark-Key-Id"} <= told["headers"].keys()
        found = schema.raw_schema["components"]["schemas"]
        assert found[name]["properties"]["watermark"]["$ref"].endswith("/WatermarkInfo")
        assert "p_value" in found["WatermarkInfo"]["properties"]


def test_every_operation_and_every_field_is_described(schema: Any) -> None:
    raw = schema.raw_schema
    operations = [
        (f"{method} {path}", operation)
        for path, methods in raw["paths"].items()
        for method, operation in methods.items()
    ]
    for name, operation in operations:
        assert operation["summary"], name
        assert operation["description"], name
        assert operation["responses"]["200"]["description"] != "Successful Response", name
        assert all(each.get("description") for each in operation.get("parameters", ())), name
    for name, described in raw["components"]["schemas"].items():
        assert described["description"], name
        fields = described["properties"].items()
        assert [field for field, each in fields if not each.get("description")] == [], name
