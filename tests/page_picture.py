"""Makes the picture of the page for the README, or checks the page by the rules of axe-core.

    python -m tests.page_picture docs/images/page.png
    python -m tests.page_picture --axe node_modules/axe-core/axe.min.js

Both need Chromium, playwright and the default models. The marked text differs between machines.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx

from tests.browser import judge, opened, running_browser
from tests.serving import Served, keep_key, serve

QUESTION = "Write a short story about a lighthouse keeper and a storm."
BEFORE = (
    "Class 7b was asked to write about the sea. Twenty-six children handed something in before "
    "the holidays. Two had drawn a map instead. Mrs Okafor read the stories on the train, and "
    "laughed so loudly that a man moved to another seat. One story had no name on it.\n\n"
)
AFTER = (
    "\n\nNobody in the class wanted to own up to it. The marks will be given out on Friday. "
    "Parents may look at the maps in the corridor until the end of term. The next subject is the "
    "desert, and Mrs Okafor has asked for fewer shipwrecks."
)
GERMAN = (
    "Der Rat trat am Dienstag zusammen, um über die Brücke zu sprechen. Niemand konnte sagen, was "
    "sie kosten würde. Eine zweite Sitzung wurde für das Ende des Monats einberufen. Bis dahin "
    "fährt die Fähre. Die Läden am Fluss hoffen auf eine schnelle Entscheidung."
)
JUDGED = {"unmarked": BEFORE + AFTER, "short": "Hello there.", "German": GERMAN}
SENTENCES = 7
WIDTH = 820  # pixels
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]
SCREENS: tuple[dict[str, Any], ...] = (
    {"viewport": {"width": 1000, "height": 900}, "color_scheme": "light"},
    {"viewport": {"width": 360, "height": 740}, "color_scheme": "dark"},
)


def main() -> None:
    """Make the picture, or check the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("picture", nargs="?", type=Path, help="PNG file to write")
    parser.add_argument("--axe", type=Path, help="axe.min.js of axe-core")
    options = parser.parse_args()
    if (options.picture is None) is (options.axe is None):
        parser.error("name a picture to write, or --axe")
    with tempfile.TemporaryDirectory() as folder, running_browser() as browser:
        keep_key(Path(folder))
        with serve(Path(folder), "--set", "operator.name=Example News") as served:
            text = BEFORE + story(served) + AFTER
            if options.picture:
                take_picture(browser, served.root, text, options.picture)
            elif found := [*faults(browser, served.root, text, options.axe.read_text("utf-8"))]:
                sys.exit("\n".join(found))


def story(served: Served) -> str:
    """A marked answer of the service: whole sentences."""
    asked = {"messages": [{"role": "user", "content": QUESTION}], "max_tokens": 400, "seed": 1}
    answer = httpx.post(f"{served.url}/chat/completions", json=asked, timeout=600).json()
    sentences = answer["choices"][0]["message"]["content"].split(". ")
    return ". ".join(sentences[:SENTENCES]).strip().rstrip(".") + "."


def take_picture(browser: Any, root: str, text: str, file: Path) -> None:
    """Write a picture of the verdict and of the text, without the form and what follows."""
    with opened(browser, root, viewport={"width": WIDTH, "height": 900}) as page:
        judge(page, text)
        top, bottom = page.evaluate(
            "['.verdict', '#tinted-text'].map(name => document.querySelector(name)"
            ".getBoundingClientRect()).map((box, i) => (i ? box.bottom + 16 : box.top - 16)"
            " + window.scrollY)"
        )
        clip = {"x": 0, "y": top, "width": WIDTH, "height": bottom - top}
        page.screenshot(path=file, full_page=True, clip=clip)


def faults(browser: Any, root: str, text: str, axe: str) -> Iterator[str]:
    """What axe-core finds on each view of the page, as lines."""
    for screen in SCREENS:
        with opened(browser, root, bypass_csp=True, reduced_motion="reduce", **screen) as page:
            for view in views(page, text):
                page.evaluate(axe)
                for fault in page.evaluate("rules => axe.run({runOnly: rules})", RULES)[
                    "violations"
                ]:
                    nodes = "; ".join(node["html"][:100] for node in fault["nodes"])
                    yield f"{screen['color_scheme']}, {view}: {fault['id']}: {nodes}"


def views(page: Any, text: str) -> Iterator[str]:
    """Go from view to view; the name of each."""
    page.wait_for_selector("#key-list li")
    yield "empty form"
    for name, judged in {**JUDGED, "marked": text}.items():
        judge(page, judged)
        page.wait_for_selector("#result:not(.waiting)")
        yield f"{name} text"
    page.click("#evidence-table summary")
    page.wait_for_selector("#evidence-table table")
    yield "table"
    page.click("#api-key-button")
    yield "API key"
    page.keyboard.press("Escape")
    page.click("#tab-playground")
    page.fill("#length", "40")
    page.click("#write-button")
    page.wait_for_selector("#write-button[aria-disabled=false]")
    yield "playground"
    page.click("text=API documentation")
    page.wait_for_url("**/docs")
    yield "API documentation"


if __name__ == "__main__":
    main()
