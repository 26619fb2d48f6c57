"""Paths that only an upstream answers, and methods that no path names."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest
from tests.unit.backends.openai_server import Handler, Server, saying, status
from tests.unit.server.harness import (
    CHAT,
    DETECT,
    Home,
    Served,
    counts,
    error_of,
    events_of,
)

from hammingmark.server.other_paths import NEVER, OWN

Serve = Callable[..., Served]
EMBEDDINGS = "/v1/embeddings"
VECTORS = {"object": "list", "data": [{"index": 0, "embedding": [0.5, -0.25]}], "odd": 1.0}


@pytest.fixture
def before(serve: Serve, model_server: Server) -> Callable[..., Served]:
    """Makes a service in front of a server of models, which has a path for vectors."""

    def step(handler: Handler, body: dict[str, Any]) -> None:
        if handler.path.partition("?")[0] == EMBEDDINGS:
            handler.plain(VECTORS, X_Request_Id="theirs-1", Set_Cookie="session=alice")
        elif handler.path.endswith("/nothing"):
            status(404)(handler, body)
        else:
            handler.plain({"text": "It rained."})

    model_server.always = step

    def make(upstream: dict[str, Any] | None = None, **settings: Any) -> Served:
        told = {"url": model_server.url, "model": "tiny", "retries": 0, **(upstream or {})}
        return serve(upstream=told, **settings)

    return make


def test_vectors_of_the_upstream_pass_as_they_are(
    before: Serve, model_server: Server, home: Home
) -> None:
    served = before(audit={"file": home.audit}, model_name="house")
    body = {"model": "other", "input": "It rained."}
    answer = served.post(f"{EMBEDDINGS}?version=2", body, headers={"Authorization": "Bearer x"})
    assert answer.json() == VECTORS
    assert answer.headers["x-upstream-request-id"] == "theirs-1"
    assert not {"set-cookie", "x-watermark-status"} & answer.headers.keys()
    assert model_server.seen == [(f"{EMBEDDINGS}?version=2", body)]
    assert model_server.keys == [None], "the client's credentials are its own"
    (row,) = home.records("passed")
    assert (row["endpoint"], row["model"], row["reason"]) == (EMBEDDINGS, "other", "no_text")
    assert counts(served, "answers_total") == {}
    served.post(EMBEDDINGS, {"model": "house", "input": "It rained."})
    assert model_server.bodies[-1]["model"] == "tiny"


def test_what_may_be_text_says_that_it_is_unmarked(
    before: Serve, model_server: Server, home: Home
) -> None:
    served = before(audit={"file": home.audit})
    answer = served.post("/v1/audio/transcriptions", {"x": 1})
    assert answer.json() == {"text": "It rained."}
    assert answer.headers["x-watermark-status"] == "unmarked"
    assert counts(served, "answers_total") == {'reason="unmarkable",status="unmarked"': 1}
    assert home.records("passed")[0]["reason"] == "unmarkable"
    assert served.get("/v1/audio/voices").json() == {"data": [{"id": "tiny"}]}
    assert model_server.seen[-1][0] == "/v1/audio/voices"


def test_files_are_sent_as_they_are_but_not_by_pages_elsewhere(
    before: Serve, model_server: Server
) -> None:
    got: list[tuple[str | None, bytes]] = []
    served = before()

    def take(handler: Handler) -> None:
        length = int(handler.headers["Content-Length"])
        got.append((handler.headers["Content-Type"], handler.rfile.read(length)))
        handler.plain({})

    model_server.RequestHandlerClass = type("Taking", (Handler,), {"do_POST": take})
    files = {"file": ("a.wav", b"\x00\x01", "audio/wav")}
    assert served.ask("POST", "/v1/audio/transcriptions", files=files).status_code == 200
    ((kind, content),) = got
    assert kind is not None
    assert kind.startswith("multipart/form-data; boundary=")
    assert b"\x00\x01" in content
    origin = {"Origin": "https://example.org"}
    refused = served.ask("POST", "/v1/audio/transcriptions", files=files, headers=origin)
    assert refused.status_code == 415
    assert len(got) == 1


@pytest.mark.parametrize(
    "path",
    [
        *(f"/v1/{name}" for name in sorted(NEVER)),
        *(f"/v1/{name}/x/y" for name in sorted(OWN - {"models"})),
        "/v1/Messages",
        "/v1/files/file-1/content",
        "/v1/embeddings/../files",
        "/v1/embeddings/%2e%2e/files",
        "/v1/embeddings%2f..%2ffiles",
        "/v1//files",
        "/v1/.",
        "/v1/",
        "/v2/embeddings",
        "/v1/" + "x/" * 20 + "x",
    ],
)
def test_what_writes_or_keeps_or_administers_is_not_passed_on(
    before: Serve, model_server: Server, path: str
) -> None:
    served = before()
    for method in ("GET", "POST"):
        answer = served.ask(method, path)
        assert answer.status_code == 404, answer.text
        assert error_of(answer)["type"] == "invalid_request_error"
    assert model_server.seen == []


def test_policies_decide_what_passes(before: Serve, model_server: Server) -> None:
    marked = before(policy={"unmarkable": "refuse"})
    assert marked.post(EMBEDDINGS, {}).status_code == 200
    refused = marked.post("/v1/audio/transcriptions", {})
    assert refused.status_code == 403
    assert error_of(refused)["code"] == "path_not_allowed"
    assert before(policy={"other_paths": "refuse"}).post(EMBEDDINGS, {}).status_code == 403
    assert len(model_server.seen) == 1


def test_other_paths_need_the_scope_and_keep_to_the_limits(before: Serve, home: Home) -> None:
    token = home.let_in("reader", "detect")
    served = before(api_keys=home.api_keys)
    assert served.post(EMBEDDINGS, {}).status_code == 401
    served.token = token
    assert served.post(EMBEDDINGS, {}).status_code == 403
    served.token = home.let_in("writer", "generate", rate=1)
    assert [served.post(EMBEDDINGS, {}).status_code for _ in range(2)] == [200, 429]
    small = before(limits={"body_bytes": 100})
    assert small.post(EMBEDDINGS, {"input": "x" * 100}).status_code == 413


def test_errors_of_other_paths_are_told_as_those_of_answers(
    before: Serve, model_server: Server
) -> None:
    served = before()
    missing = served.post("/v1/nothing", {})
    assert missing.status_code == 404
    assert "127.0.0.1" not in missing.text
    for code, told in ((400, 400), (401, 502), (429, 429), (500, 500), (302, 502)):
        model_server.always = status(code, "no such input, org-7")
        answer = served.post(EMBEDDINGS, {"input": "x"})
        assert answer.status_code == told
        assert "org-7" not in answer.text
    broken = served.ask(
        "POST", EMBEDDINGS, content=b"{", headers={"Content-Type": "application/json"}
    )
    assert broken.status_code == 400


ERRORS: list[dict[str, Any]] = [
    {"error": {"message": "org-7: 'a sad story' is bad", "code": 429}},
    {"object": "error", "message": "org-7: 'a sad story' is bad", "code": 429},
    {"choices": [{"error": {"message": "org-7: 'a sad story' is bad", "code": 429}}]},
]


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("is_json", [False, True])
def test_errors_in_the_place_of_other_answers_are_for_the_log(
    before: Serve,
    model_server: Server,
    caplog: pytest.LogCaptureFixture,
    error: dict[str, Any],
    stream: bool,
    is_json: bool,
) -> None:
    """Without what they quote of a request."""
    served = before()
    whole, events = (lambda handler, body: handler.plain(error)), saying({"x": 1}, error, "[DONE]")

    def take(handler: Handler) -> None:
        handler.rfile.read(int(handler.headers["Content-Length"]))
        (events if stream else whole)(handler, {})

    model_server.RequestHandlerClass = type("Taking", (Handler,), {"do_POST": take})
    path, fields = "/v1/audio/speech", {"input": "A sad story."}
    with caplog.at_level(logging.INFO, "hammingmark.server"):
        if is_json:
            answer = served.post(path, fields)
        else:
            answer = served.ask("POST", path, files={"input": (None, fields["input"])})
    assert "org-7" not in answer.text
    if stream:
        first, told, last = events_of(answer)
        assert (first, last) == ({"x": 1}, "[DONE]")
    else:
        assert answer.status_code == 429
        told = answer.json()
    assert told["error"]["type"] == "rate_limit_error"
    logged = " ".join(str(getattr(record, "fields", "")) for record in caplog.records)
    assert "org-7" in logged
    assert "sad story" not in logged


@pytest.mark.parametrize(
    "raw",
    [
        b': a comment\n\nevent: audio\r\ndata: {"audio": "error",\r\ndata: "n": 1}\r\n\r\n',
        b'data: {"error": null}\n\ndata: no error\n\ndata: ["error"]\n\n',
    ],
)
def test_other_streams_pass_as_they_are(before: Serve, model_server: Server, raw: bytes) -> None:
    def step(handler: Handler, body: dict[str, Any]) -> None:
        handler.begin()
        handler.wfile.write(raw)

    model_server.always = step
    assert before().post("/v1/audio/speech", {"input": "x"}).content == raw


@pytest.mark.parametrize("content", [b'RIFF\xff "error" \x00', b'{"error": null}', b'{"error": '])
def test_other_answers_pass_as_they_are(
    before: Serve, model_server: Server, content: bytes
) -> None:
    def step(handler: Handler, body: dict[str, Any]) -> None:
        handler.send_response(200)
        handler.send_header("Content-Type", "audio/wav")
        handler.end_headers()
        handler.wfile.write(content)

    model_server.always = step
    answer = before().post("/v1/audio/speech", {"input": "x"})
    assert (answer.status_code, answer.content) == (200, content)


def test_a_model_server_on_this_machine_has_no_other_paths(serve: Serve) -> None:
    assert serve().post(EMBEDDINGS, {"input": "x"}).status_code == 404


def test_the_services_own_name_is_a_model(before: Serve, serve: Serve) -> None:
    assert serve().get("/v1/models/hammingmark").json()["id"] == "hammingmark"
    assert before().get("/v1/models/hammingmark").json()["id"] == "hammingmark"
    assert before().get("/v1/models/tiny").json()["id"] == "tiny"
    assert before(upstream={"model": ""}).get("/v1/models/hammingmark").status_code == 404


@pytest.mark.parametrize("code", [200, 403, 404, 500])
def test_an_upstream_that_does_not_list_its_models_is_asked_for_one(
    before: Serve, model_server: Server, code: int
) -> None:
    """Such as one whose list is another's page, or not for everybody."""
    known = {"id": "org/tiny", "object": "model"}

    def take(handler: Handler) -> None:
        handler.server.seen.append((handler.path, {}))
        is_known = handler.path == "/v1/models/org/tiny"
        handler.plain(known if is_known else "no", status=200 if is_known else code)

    model_server.RequestHandlerClass = type("Unlisting", (Handler,), {"do_GET": take})
    served = before()
    assert served.get("/v1/models/org/tiny").json() == known
    for name in ("other", "org%2F..%2Ftiny", "org/tiny%3Fx"):
        answer = served.get(f"/v1/models/{name}")
        assert (answer.status_code, error_of(answer)["type"]) == (502, "upstream_error")
    assert served.get("/v1/models").status_code == 502
    assert served.get("/v1/models/hammingmark").json()["id"] == "hammingmark"
    asked = {path for path, _ in model_server.seen}
    assert asked == {"/v1/models", "/v1/models/org/tiny", "/v1/models/other"}


def test_a_list_of_models_is_enough(before: Serve, model_server: Server) -> None:
    assert before().get("/v1/models/other").status_code == 404
    assert [path for path, _ in model_server.seen] == ["/v1/models"]


@pytest.mark.parametrize("path", ["/", "/healthz", "/readyz", "/v1/models", "/openapi.json"])
def test_head_is_get_without_a_body(serve: Serve, path: str) -> None:
    served = serve()
    got, head = served.get(path), served.ask("HEAD", path)
    assert (head.status_code, head.content) == (got.status_code, b"")
    for name in ("content-type", "content-length"):
        assert head.headers[name] == got.headers[name]


@pytest.mark.parametrize(
    ("path", "methods"),
    [
        (CHAT, "POST, OPTIONS"),
        (DETECT, "POST, OPTIONS"),
        ("/v1/models", "GET, HEAD, OPTIONS"),
        ("/v1/models/x/y", "GET, HEAD, OPTIONS"),
        ("/healthz", "GET, HEAD, OPTIONS"),
        ("/", "GET, HEAD, OPTIONS"),
    ],
)
@pytest.mark.parametrize("is_proxy", [False, True])
def test_methods_are_told(
    serve: Serve, before: Serve, path: str, methods: str, is_proxy: bool
) -> None:
    served = (before if is_proxy else serve)()
    options = served.ask("OPTIONS", path)
    assert (options.status_code, options.headers["allow"]) == (204, methods)
    assert not any(name.startswith("access-control") for name in options.headers)
    for method in {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"} - set(methods.split(", ")):
        answer = served.ask(method, path)
        assert (answer.status_code, answer.headers["allow"]) == (405, methods), method
        assert bool(answer.content) is (method != "HEAD")


def test_methods_of_what_there_is_not_are_none(before: Serve) -> None:
    served = before()
    assert served.ask("OPTIONS", EMBEDDINGS).headers["allow"] == "GET, POST, HEAD, OPTIONS"
    for path in ("/nothing", "/v1/files"):
        assert served.ask("OPTIONS", path).status_code == 404
        assert served.ask("HEAD", path).status_code == 404
