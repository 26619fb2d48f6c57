"""The API documentation: complete, without a script, and its examples work."""

from __future__ import annotations

import contextlib
import html
import io
import re
import shutil
import subprocess
from collections.abc import Callable
from typing import Any

import pytest
from tests.unit.server.harness import Home, Live, Served

SMALL = {"max_tokens": 20, "budget": 2, "policy": {"on_failure": "deliver"}}


def unescaped(page: str) -> str:
    return html.unescape(re.sub(r"<[^>]+>", "", page))


def examples(page: str, kind: str) -> list[str]:
    return [
        html.unescape(code)
        for code in re.findall(rf'<code class="{kind}">(.*?)</code></pre>', page, re.S)
    ]


def test_everything_in_the_openapi_document_is_in_the_page(serve: Callable[..., Served]) -> None:
    served = serve()
    document = served.get("/openapi.json").json()
    answer = served.get("/docs")
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    page, text = answer.text, re.sub(r"\s+", " ", unescaped(answer.text))
    assert "<script" not in page
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            assert f"{method.upper()} {path}" in text
            assert operation["summary"] in text
            assert set(operation["responses"]) - {"200"} <= set(re.findall(r"<dt>(\d+)", page))
    for schema in document["components"]["schemas"].values():
        for name, field in schema["properties"].items():
            assert f"<code>{name}</code>" in page
            assert re.sub(r"`", "", field["description"]) in text
    assert "1 to 200 characters" in text  # the limits of a label
    assert "0 to 2" in text  # those of the temperature
    named = re.findall(r'(?:href|src)="([^"#]+)"', page)
    assert all(served.get(f"/{path.removeprefix('./')}").status_code == 200 for path in named)
    anchors = set(re.findall(r'id="([^"]+)"', page))
    assert set(re.findall(r'href="#([^"]+)"', page)) <= anchors


@pytest.mark.parametrize("with_keys", [False, True])
def test_the_examples_work(
    home: Home, live: Callable[..., Live], monkeypatch: pytest.MonkeyPatch, with_keys: bool
) -> None:
    monkeypatch.chdir(home.folder)  # one of them writes a file
    settings: dict[str, Any] = dict(SMALL)
    if with_keys:
        token = home.let_in("reader", "generate", "detect", "admin")
        monkeypatch.setenv("HAMMINGMARK_API_KEY", token)
        settings["api_keys"] = home.api_keys
    client = live(**settings).client
    page, paths = client.get("/docs").text, client.get("/openapi.json").json()["paths"]
    commands, programs = examples(page, "shell"), examples(page, "python")
    assert len(commands) == sum("{" not in path for path in paths)
    assert len(programs) == len(commands) + 1  # one of them streams
    for code in programs:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(code, {})
        assert printed.getvalue().strip(), code
    if shutil.which("curl"):
        for command in commands:
            done = subprocess.run(
                ["sh", "-c", command.replace("curl ", "curl -sS --fail-with-body ", 1)],
                capture_output=True,
                text=True,
            )
            assert done.returncode == 0, (command, done.stdout, done.stderr)
            assert done.stdout


def test_the_examples_name_the_service_as_the_reader_does(serve: Callable[..., Served]) -> None:
    served = serve(open=True)
    page = served.get("/docs", headers={"Host": "mark.example:8443"}).text
    assert "http://mark.example:8443/v1/watermark/detect" in page
    odd = served.get("/docs", headers={"Host": "a;touch$IFS/tmp/b"}).text
    assert "$IFS" not in odd


def test_without_the_page_the_document_itself_is_shown(serve: Callable[..., Served]) -> None:
    answer = serve(page=False).get("/docs")
    assert answer.is_redirect
    assert answer.headers["location"] == "openapi.json"
