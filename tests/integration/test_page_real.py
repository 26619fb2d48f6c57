"""The page in a real browser, before the service with the embedded models."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from tests.browser import judge, needs_browser, opened, running_browser
from tests.conftest import Texts
from tests.serving import Served, keep_key, serve

playwright = pytest.importorskip("playwright.sync_api")

PLAIN = (
    "The council met on Tuesday to talk about the bridge. Nobody could say what it would cost. "
    "A second meeting was called for the end of the month. The ferry will run until then. "
    "Shops near the river hope for a quick decision. The last flood is not forgotten."
)
DROP = """text => {
  const dataTransfer = new DataTransfer();
  dataTransfer.items.add(new File([text], "b.txt", {type: "text/plain"}));
  const how = {dataTransfer, bubbles: true, cancelable: true};
  document.querySelector("#judge-text").dispatchEvent(new DragEvent("drop", how));
}"""

pytestmark = [pytest.mark.slow, needs_browser]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("page")
    keep_key(folder)
    with serve(folder) as made:
        yield made


@pytest.fixture(scope="module")
def marked(served: Served, texts: Texts) -> str:
    """The text, of those written under the same key, that shows the mark the most."""
    written = [each.text.strip() for each in texts.marked]
    question = {"texts": written}
    answer = httpx.post(f"{served.url}/watermark/detect", json=question, timeout=300).json()
    return min(zip(answer["results"], written, strict=True), key=lambda two: two[0]["p_value"])[1]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with running_browser() as made:
        yield made


@pytest.fixture
def page(browser: Any, served: Served) -> Iterator[Any]:
    with opened(browser, served.root) as made:
        yield made


def test_a_marked_text_is_found_and_its_sentences_say_why(page: Any, marked: str) -> None:
    result = judge(page, marked)
    assert "found" in result.get_attribute("class")
    assert "The watermark was found" in page.text_content("#verdict")
    assert "of" in page.text_content("#result")
    pieces = page.locator("#tinted-text .piece")
    strong = page.locator("#tinted-text mark.piece")
    assert 0 < strong.count() <= pieces.count()
    # By the keyboard alone: the first piece is focused and described, the next by an arrow.
    pieces.first.focus()
    assert page.locator("#piece-tooltip").is_visible()
    said = page.text_content("#piece-tooltip")
    page.keyboard.press("ArrowRight")
    assert page.text_content("#piece-tooltip") != said
    page.keyboard.press("Escape")
    assert not page.locator("#piece-tooltip").is_visible()


def test_a_plain_text_is_not_and_the_page_does_not_accuse(page: Any) -> None:
    judge(page, PLAIN)
    assert "No watermark was found" in page.text_content("#verdict")
    assert "does not mean that a person wrote" in page.text_content("#result")


def test_the_marked_passage_of_a_mixed_text_is_shown(page: Any, marked: str) -> None:
    judge(page, f"{PLAIN} {marked} {PLAIN.replace('Tuesday', 'Friday')}")
    link = page.locator("#passages a").first
    assert link.is_visible()
    link.click()
    inside = page.locator("#passage-1, #passage-0").first.text_content()
    shared = [part for part in marked.split(". ") if part[:40] in inside]
    assert shared
    assert PLAIN.split(". ")[0] not in inside


def test_texts_are_written_side_by_side(page: Any) -> None:
    page.click("#tab-playground")
    page.fill("#prompt", "Why does it rain?")
    page.fill("#length", "50")
    page.click("#write-button")
    for column in ("marked", "plain"):
        page.wait_for_selector(f"#column-{column} [data-part=text] .arrived")
    page.wait_for_selector("#write-button:not([aria-disabled=true])")
    told = {name: page.text_content(f"#column-{name}") for name in ("marked", "plain")}
    # Of one sentence now and then no candidate satisfies the rule.
    assert "Marked." in told["marked"] or "Partly marked." in told["marked"]
    assert "Not marked." in told["plain"]
    page.click("#column-marked [data-part=judge]")
    page.wait_for_selector("#verdict")


def test_it_fits_a_telephone_in_the_dark(browser: Any, served: Served, marked: str) -> None:
    telephone = {"viewport": {"width": 320, "height": 640}}
    with opened(
        browser, served.root, color_scheme="dark", reduced_motion="reduce", **telephone
    ) as page:
        judge(page, marked)
        wide = page.evaluate("document.documentElement.scrollWidth")
        background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert wide <= 320
    red, green, blue = (int(part) for part in background[4:-1].split(",")[:3])
    assert red + green + blue < 3 * 80


def test_a_file_is_read_and_no_text_is_kept(page: Any, marked: str) -> None:
    page.set_input_files(
        "#file-input", {"name": "a.txt", "mimeType": "text/plain", "buffer": marked.encode()}
    )
    playwright.expect(page.locator("#judge-text")).to_have_value(marked)
    page.evaluate(DROP, PLAIN)
    playwright.expect(page.locator("#judge-text")).to_have_value(PLAIN)
    kept = page.evaluate(
        "JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie])"
    )
    assert marked[:30] not in kept
    page.reload()
    assert page.input_value("#judge-text") == ""


def test_the_bits_of_a_transition_are_shown(
    browser: Any, tmp_path_factory: pytest.TempPathFactory, marked: str
) -> None:
    """Under a key of bits, whatever the text: as squares, and in words for who cannot see them."""
    folder = tmp_path_factory.mktemp("bits")
    keep_key(folder, method="hamming")
    with serve(folder) as made, opened(browser, made.root) as page:
        judge(page, marked)
        page.locator("#tinted-text .piece").nth(1).focus()
        row = page.locator("#piece-tooltip .bits")
        assert row.locator(".bit").count() == 8
        said = row.get_attribute("aria-label")
        assert said.startswith(f"{row.locator('.bit.matches').count()} of 8 bits match: ")
