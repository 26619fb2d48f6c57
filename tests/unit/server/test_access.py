"""Who is let in, how often, and how many at once."""

from __future__ import annotations

import threading
from collections.abc import Callable

import httpx
import pytest
from tests.unit.server.harness import (
    CHAT,
    DETECT,
    PATIENCE,
    GatedBackend,
    Home,
    Live,
    Served,
    counts,
    error_of,
    until,
)

from hammingmark.server.authorization import remove_from_file

Serve = Callable[..., Served]

ROUTES = [
    ("POST", CHAT, "generate"),
    ("POST", "/v1/completions", "generate"),
    ("GET", "/v1/models", "generate"),
    ("GET", "/v1/models/hammingmark", "generate"),
    ("POST", DETECT, "detect"),
    ("GET", "/v1/watermark/keys", "detect"),
    ("GET", "/metrics", "admin"),
]
BODIES = {
    CHAT: {"messages": [{"role": "user", "content": "Hello."}], "max_tokens": 5},
    "/v1/completions": {"prompt": "It was late.", "max_tokens": 5},
    DETECT: {"text": "It was late."},
}


def test_each_route_needs_an_api_key_of_its_scope(serve: Serve, home: Home) -> None:
    tokens = {scope: home.let_in(scope, scope) for scope in ("generate", "detect", "admin")}
    served = serve(api_keys=home.api_keys, policy={"on_failure": "deliver"})
    for method, path, wanted in ROUTES:
        for headers in ({}, {"Authorization": "Bearer hmk_wrong"}, {"Authorization": "Basic eA=="}):
            answer = served.ask(method, path, json=BODIES.get(path), headers=headers)
            assert answer.status_code == 401, path
            assert answer.headers["www-authenticate"] == "Bearer"
            assert error_of(answer)["code"] == "invalid_api_key"
        for scope, token in tokens.items():
            headers = {"Authorization": f"Bearer {token}"}
            answer = served.ask(method, path, json=BODIES.get(path), headers=headers)
            assert answer.status_code == (200 if scope == wanted else 403), (path, scope)
            if scope != wanted:
                assert error_of(answer)["type"] == "permission_error"


def test_an_api_key_is_asked_for_before_the_body_is_looked_at(serve: Serve, home: Home) -> None:
    home.let_in("somebody")
    served = serve(api_keys=home.api_keys)
    answer = served.post(CHAT, {"messages": "nonsense"})
    assert answer.status_code == 401


def test_what_tells_nothing_needs_no_api_key(serve: Serve, home: Home) -> None:
    home.let_in("somebody")
    served = serve(api_keys=home.api_keys)
    for path in ("/healthz", "/", "/web/page.js", "/openapi.json", "/docs"):
        assert served.get(path).status_code == 200
    assert served.get("/readyz").status_code == 503


def test_an_api_key_comes_and_goes_without_a_restart(serve: Serve, home: Home) -> None:
    first = home.let_in("first")
    served = serve(api_keys=home.api_keys)
    served.token = home.let_in("second")
    assert served.get("/v1/models").status_code == 200
    remove_from_file(home.api_keys, "second")
    assert served.get("/v1/models").status_code == 401
    served.token = first
    assert served.get("/v1/models").status_code == 200


@pytest.mark.parametrize("mode", [0o644, None])
def test_a_key_is_refused_whose_file_cannot_be_trusted_any_more(
    serve: Serve, home: Home, mode: int | None
) -> None:
    home.let_in("first")
    served = serve(api_keys=home.api_keys)
    served.loop.run(served.service.load())
    served.token = home.let_in("second")
    assert served.get("/v1/models").status_code == 200
    remove_from_file(home.api_keys, "first")
    if mode is None:
        home.api_keys.unlink()
    else:
        home.api_keys.chmod(mode)
    for _ in range(2):
        refused = served.get("/v1/models")
        assert refused.status_code == 503
        assert error_of(refused)["type"] == "server_error"
        assert str(home.folder) not in refused.text
        ready = served.get("/readyz")
        assert ready.status_code == 503
        assert "API keys" in ready.json()["reasons"][0]
    assert counts(served, "key_reloads_total")['outcome="failed"'] == 1
    if mode is None:
        served.token = home.let_in("second")
    else:
        home.api_keys.chmod(0o600)
    assert served.get("/readyz").status_code == 200  # without anybody asking for something
    assert served.get("/v1/models").status_code == 200
    assert counts(served, "key_reloads_total")['outcome="failed"'] == 1


def test_a_file_that_is_half_written_is_counted_and_refuses_nobody(
    serve: Serve, home: Home
) -> None:
    token = home.let_in("first")
    served = serve(api_keys=home.api_keys)
    served.loop.run(served.service.load())
    served.token = token
    good = home.api_keys.read_bytes()
    home.api_keys.write_bytes(good + b'{"name": "sec')
    assert served.get("/v1/models").status_code == 200
    assert served.get("/readyz").status_code == 200
    assert counts(served, "key_reloads_total")['outcome="failed"'] == 1


def test_each_api_key_has_its_rate(serve: Serve, home: Home) -> None:
    slow, usual = home.let_in("slow", rate=1), home.let_in("usual")
    served = serve(api_keys=home.api_keys, limits={"requests_per_minute": 2})

    def allowed(token: str) -> int:
        served.token = token
        answers = [served.get("/v1/models") for _ in range(4)]
        for answer in answers:
            if answer.status_code != 200:
                assert answer.status_code == 429
                assert error_of(answer)["type"] == "rate_limit_error"
                assert 1 <= int(answer.headers["retry-after"]) <= 60
        return sum(answer.status_code == 200 for answer in answers)

    assert allowed(slow) == 1
    assert allowed(usual) == 2
    served.token = None
    assert served.get("/v1/models").status_code == 401  # which is no matter of rates


def test_without_api_keys_each_address_has_its_rate(serve: Serve) -> None:
    served = serve(limits={"requests_per_minute": 1})

    def status(address: str) -> int:
        served.address = address
        return served.get("/v1/models").status_code

    assert [status("192.0.2.1"), status("192.0.2.1"), status("192.0.2.2")] == [200, 429, 200]
    # Whoever has one address of this kind has all of its network.
    assert [status("2001:db8::1"), status("2001:db8::2"), status("2001:db9::1")] == [200, 429, 200]


def test_signs_of_life_have_no_rate(serve: Serve) -> None:
    served = serve(limits={"requests_per_minute": 1})
    assert [served.get("/healthz").status_code for _ in range(3)] == [200] * 3


@pytest.mark.parametrize("stream", [False, True])
def test_one_more_than_the_queue_holds_is_sent_away(
    live: Callable[..., Live], stream: bool
) -> None:
    backend = GatedBackend()
    service = live(backend=backend, limits={"queue": 2})
    body = {**BODIES[CHAT], "seed": 3, "max_tokens": 30, "stream": stream}
    statuses: list[int] = []

    def ask() -> None:
        statuses.append(httpx.post(service.root + CHAT, json=body, timeout=PATIENCE).status_code)

    waiting = [threading.Thread(target=ask) for _ in range(2)]
    for each in waiting:
        each.start()
    until(lambda: service.service._engine.unfinished == 2)
    refused = service.client.post(CHAT, json=body)
    assert refused.status_code == 429
    assert error_of(refused)["code"] == "queue_full"
    assert int(refused.headers["retry-after"]) >= 1
    # Texts to judge have a queue of their own.
    assert service.client.post(DETECT, json=BODIES[DETECT]).status_code == 200
    backend.gate.set()
    for each in waiting:
        each.join(PATIENCE)
    assert statuses == [200, 200]
    assert service.client.post(CHAT, json=body).status_code == 200
