"""The page's files: served with the right types and a strict policy, and nothing from elsewhere."""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib.resources import files

import pytest
from tests.unit.server.harness import Served, error_of

from hammingmark.reports.page import STYLE_HASH

NAMES = sorted(each.name for each in (files("hammingmark.server") / "web").iterdir())
KINDS = {
    "js": "text/javascript",
    "css": "text/css",
    "html": "text/html",
    "svg": "image/svg+xml",
}
NAMESPACE = "http://www.w3.org/2000/svg"  # the name of a language, where nothing is fetched


@pytest.fixture
def served(serve: Callable[..., Served]) -> Served:
    return serve()


@pytest.mark.parametrize("name", NAMES)
def test_a_file_is_served_with_its_type_and_a_policy(served: Served, name: str) -> None:
    answer = served.get(f"/web/{name}")
    assert answer.status_code == 200
    kind = answer.headers["content-type"]
    assert kind.partition(";")[0] == KINDS[name.rpartition(".")[2]]
    assert ("charset=utf-8" in kind) is kind.startswith("text/")
    assert answer.headers["x-content-type-options"] == "nosniff"
    rules = dict(
        each.strip().split(" ", 1) for each in answer.headers["content-security-policy"].split(";")
    )
    assert rules["default-src"] == "'none'"
    assert rules["script-src"] == rules["connect-src"] == "'self'"
    assert rules["style-src"] == f"'self' '{STYLE_HASH}'"
    assert rules["frame-ancestors"] == rules["base-uri"] == rules["form-action"] == "'none'"
    assert "unsafe" not in answer.headers["content-security-policy"]


@pytest.mark.parametrize("name", NAMES)
def test_a_file_names_no_other_host_and_needs_no_exception(served: Served, name: str) -> None:
    text = served.get(f"/web/{name}").text.replace(NAMESPACE, "")
    assert not re.search(r"(?:https?|wss?):|[\"'(=]\s*//", text)
    if name.endswith(".html"):
        assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son\w+=", text)


def test_the_page_is_at_the_root_and_all_that_it_names_is_there(served: Served) -> None:
    page = served.get("/")
    assert page.text == served.get("/web/index.html").text
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    named = re.findall(r"(?:src|href)=\"(web/[^\"]+)\"", page.text)
    assert len(named) >= 2
    for path in named:
        assert served.get(f"/{path}").status_code == 200
    for name in NAMES:
        if name.endswith(".js"):
            imported = re.findall(r"from \"\./([^\"]+)\"", served.get(f"/web/{name}").text)
            assert set(imported) <= set(NAMES)


@pytest.mark.parametrize("name", ["nothing.js", "..%2fapp.py", "%2e%2e/app.py", "../app.py", "."])
def test_nothing_else_is_served(served: Served, name: str) -> None:
    answer = served.get(f"/web/{name}")
    assert answer.status_code == 404
    assert error_of(answer)
