"""Whatever is sent to it, the service keeps to the interface that it describes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import Case, GenerationMode
from schemathesis.specs.openapi.checks import positive_data_acceptance
from tests.unit.server.harness import QUESTION, Home, Live

OPERATIONS = [
    ("POST", "/v1/chat/completions"),
    ("POST", "/v1/completions"),
    ("GET", "/v1/models"),
    ("GET", "/v1/models/{name}"),
    ("POST", "/v1/watermark/detect"),
    ("GET", "/v1/watermark/keys"),
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
    return schemathesis.openapi.from_dict(service.client.get("/openapi.json").json())


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
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions"])
def test_answers_are_what_the_schema_says(
    service: Live, schema: Any, path: str, stream: bool
) -> None:
    asked: dict[str, Any] = {"stream": stream, "seed": 3}
    asked |= {"messages": QUESTION} if "chat" in path else {"prompt": "It was late."}
    operation = schema[path]["POST"]
    assert call(operation.Case(body=asked, media_type="application/json"), service) == 200
