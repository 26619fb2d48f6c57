"""The page of the service in a real browser, for tests."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

PATIENCE = 180_000  # milliseconds, for what a busy machine writes

_BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
# As root Chromium has no sandbox; the rest keeps it from calling home.
_FLAGS = [
    "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
    *(["--no-sandbox"] if os.geteuid() == 0 else []),
]  # fmt: skip

needs_browser = pytest.mark.skipif(_BROWSER is None, reason="there is no Chromium on this machine")


@contextmanager
def running_browser() -> Iterator[Any]:
    """Chromium; the test is skipped where its driver is not installed."""
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as started:
        made = started.chromium.launch(executable_path=_BROWSER, args=_FLAGS)
        yield made
        made.close()


@contextmanager
def opened(browser: Any, root: str, **named: Any) -> Iterator[Any]:
    """The page; nothing goes wrong on it, and nothing is asked of another host.

    Args:
        browser: the browser.
        root: where the service is.
        named: what a context of the browser takes.
    """
    context = browser.new_context(**{"viewport": {"width": 1000, "height": 900}} | named)
    page = context.new_page()
    wrong: list[str] = []
    page.on("console", lambda said: wrong.append(said.text) if said.type == "error" else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.set_default_timeout(PATIENCE)
    page.goto(root)
    yield page
    context.close()
    assert wrong == []
    assert asked
    assert all(url.startswith((root, "blob:", "data:")) for url in asked)


def judge(page: Any, text: str) -> Any:
    """Have the page judge a text; the section with the result."""
    page.fill("#judge-text", text)
    page.click("#judge-button")
    page.mouse.move(0, 0)  # away from sentences that scroll under it
    page.wait_for_selector("#verdict")
    return page.locator("#result")
