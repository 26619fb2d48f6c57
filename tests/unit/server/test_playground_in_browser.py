"""The playground of the page, in a real browser, before services over fakes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.browser import needs_browser, opened, running_browser
from tests.unit.backends.openai_server import Server
from tests.unit.server.harness import Live

pytestmark = needs_browser

Serve = Callable[..., Live]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with running_browser() as made:
        yield made


def write(page: Any) -> dict[str, dict[str, str]]:
    """Have the playground write both texts; what each column shows of the cost."""
    page.click("#tab-playground")
    page.fill("#length", "60")
    page.click("#write-button")
    page.wait_for_selector("#write-button[aria-disabled=false]")
    return {name: figures(page, name) for name in ("marked", "plain")}


def figures(page: Any, column: str) -> dict[str, str]:
    rows = page.locator(f"#column-{column} dl > div")
    return {
        rows.nth(i).locator("dt").text_content(): rows.nth(i).locator("dd").text_content()
        for i in range(rows.count())
    }


def length(text: str) -> str:
    """A fake's text in words: every full stop ends a sentence; the last may lack its end."""
    sentences = text.count(".") + (not text.rstrip().endswith("."))
    return f"{sentences} sentences, {len(text.split())} words"


def seconds(shown: dict[str, str]) -> float:
    return float(re.fullmatch(r"([\d.]+) seconds", shown["Time"])[1])  # type: ignore[index]


def test_both_texts_are_written_on_a_service_of_this_machine(browser: Any, live: Serve) -> None:
    with opened(browser, live().root) as page:
        costs = write(page)
        assert page.locator("#columns [data-part=problem] p").count() == 0
        for name in ("marked", "plain"):
            text = page.text_content(f"#column-{name} [data-part=text]")
            assert costs[name]["Length"] == length(text)
            assert seconds(costs[name]) > 0
        assert "Not marked." in page.text_content("#column-plain")
    assert "times this text" in costs["marked"]["The model wrote"]
    assert "this text alone" in costs["plain"]["The model wrote"]
    assert "Sentences with the mark" not in costs["plain"]


def test_the_length_of_a_text_is_not_the_number_of_parts_in_which_it_comes(
    browser: Any, live: Serve, model_server: Server
) -> None:
    """An upstream sends a token at a time, and does not count what it writes unmarked."""
    served = live(upstream={"url": model_server.url, "model": "tiny"})
    with opened(browser, served.root) as page:
        shown = write(page)["plain"]
        text = page.text_content("#column-plain [data-part=text]")
    assert len(text.split()) > text.count(".") > 1
    assert shown["Length"] == length(text)
    assert seconds(shown) > 0


def test_every_sentence_is_accounted_for(browser: Any, live: Serve) -> None:
    """Marked, or why not; the first of an answer is always the model's own."""
    with opened(browser, live().root) as page:
        shown = write(page)["marked"]["Sentences with the mark"]
    marked, all_of_them = map(int, re.match(r"(\d+) of (\d+) ", shown).groups())  # type: ignore[union-attr]
    others = re.findall(r"for (\d+) no draft fitted|(\d+) left as the model wanted", shown)
    assert marked + sum(int(number) for pair in others for number in pair if number) == all_of_them
    assert "left as the model wanted" in shown


def test_where_plain_text_is_refused_the_page_says_so_and_writes_the_marked_one(
    browser: Any, live: Serve
) -> None:
    served = live(policy={"switch_off": "never"})
    context = browser.new_context()
    page = context.new_page()
    page.goto(served.root)
    costs = write(page)
    assert page.locator("#column-plain .message:not(.error)").is_visible()
    assert costs["plain"] == {}
    assert "Sentences with the mark" in costs["marked"]
    context.close()
