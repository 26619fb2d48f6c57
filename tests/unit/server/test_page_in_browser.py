"""What the page shows of a verdict, in a real browser, before a service over fakes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.browser import judge, needs_browser, opened, running_browser
from tests.unit.reports.test_text import evidence, verdict
from tests.unit.server.harness import DETECT, Home, Live, key_of, marked, plain

from hammingmark.attacks.spelling import Homoglyphs
from hammingmark.records import Passage
from hammingmark.reports.text import edges_in_words, format_p_value

pytestmark = needs_browser

P_VALUES = [1.0, 0.5, 0.0100001, 0.01, 0.00999, 0.000995, 0.0000995, 5.14e-8, 1e-300, 0.0]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    made = Live(Home(tmp_path_factory.mktemp("page")).service())
    yield made
    made.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with running_browser() as made:
        yield made


@pytest.fixture
def page(browser: Any, served: Live) -> Iterator[Any]:
    with opened(browser, served.root) as made:
        yield made


SHOW = """([result, source]) => import('/web/result.js').then(({ showResult }) => {
  const section = document.querySelector("#result");
  showResult(section, { result, source, keys: [], detail: "scores", question: {} });
})"""


def show(page: Any, served: Live, text: str, **changes: Any) -> Any:
    """Show the verdict on a text after some of its fields are changed; the section."""
    answer = served.client.post(DETECT, json={"text": text}).json()
    page.evaluate(SHOW, [answer["results"][0] | changes, text])
    return page.locator("#result")


def mixed() -> str:
    before, after = (" ".join(plain(seed) for seed in seeds) for seeds in ((1, 2), (3, 4)))
    return f"{before} {marked(key_of())} {after}"


def test_a_passage_has_uncertain_edges(page: Any) -> None:
    judge(page, mixed())
    frame = page.locator("#passage-1")
    assert "about sentences" in frame.get_attribute("aria-label")
    assert "uncertain" in frame.get_attribute("aria-label")
    style = "frame => getComputedStyle(frame).borderTopStyle"
    assert frame.evaluate(style) == "dashed"
    inside = frame.locator(".piece")
    first = int(inside.first.get_attribute("data-index"))
    last = first + inside.count() - 1
    assert hatched(page) == [first, first + 1, first + 2, last - 2, last - 1, last]
    inside.first.focus()
    assert "perhaps not part of it" in page.text_content("#piece-tooltip")


def test_a_text_is_shown_with_the_letters_that_it_has(page: Any) -> None:
    original = marked(key_of())
    text = Homoglyphs(share=0.5).apply([original], rng=np.random.default_rng(0))[0]
    judge(page, text.replace("fi", "\ufb01").replace(".", "\uff0e"))
    assert page.locator("#tinted-text .piece").count() > 2
    shown = page.text_content("#tinted-text")
    assert set(text) - set(original) <= set(shown)
    assert "\uff0e" in shown
    assert page.locator("#tinted-text").locator(".strong, .enough").count() > 0


def hatched(page: Any) -> list[int]:
    pieces = page.locator("#tinted-text .piece")
    return [
        i for i in range(pieces.count()) if "edge" in pieces.nth(i).get_attribute("class").split()
    ]


def test_a_text_that_is_marked_as_a_whole_may_begin_later_and_end_earlier(page: Any) -> None:
    judge(page, marked(key_of()))
    frame = page.locator("#passage-1")
    assert frame.evaluate("frame => getComputedStyle(frame).borderTopStyle") == "dashed"
    count = page.locator("#tinted-text .piece").count()
    inner = min(3, (count - 1) // 2)
    assert hatched(page) == [*range(inner), *range(count - inner, count)]
    note = page.text_content("#edges")
    assert f"begin up to {inner} sentences later, or end up to {inner} earlier" in note
    assert page.locator("#tinted-text").locator(".strong, .enough").count() > 0


@pytest.mark.parametrize(
    ("begin", "end", "words"),
    [
        (3, 12, "begin and end up to 3 sentences earlier or later"),
        (0, 12, "begin up to 3 sentences later, and end up to 3 earlier or later"),
        (3, 20, "begin up to 3 sentences earlier or later, or end up to 3 earlier"),
        (0, 5, "begin up to 2 sentences later"),
    ],
)
def test_no_edge_lies_outside_of_the_text(page: Any, begin: int, end: int, words: str) -> None:
    """In the words of the report."""
    passage = {"begin": begin, "end": end, "edge_margin": 3, "rough": False}
    result = {"passages": [passage], "pieces": [{}] * 20, "unit": "sentence"}
    said = page.evaluate(
        "result => import('/web/evidence.js').then(module => module.edgesInWords(result))", result
    )
    judged = verdict(
        pieces=("One.",) * 20,
        evidence=replace(evidence(), unit="sentence"),
        passages=(Passage(begin, end, 0.004),),
    )
    assert words in said
    assert said == edges_in_words(judged)


def test_of_a_rough_passage_no_sentence_is_certain(browser: Any, live: Callable[..., Live]) -> None:
    with opened(browser, live(policy={"detection": "verdict"}).root) as page:
        shown = judge(page, mixed()).text_content()
        frame = page.locator("#passage-1")
        assert "somewhere within sentences" in frame.get_attribute("aria-label")
        assert "is somewhere within sentences" in shown
        assert "anywhere within" in page.text_content("#edges")
        inside = frame.locator(".piece").count()
        assert len(hatched(page)) == inside > 2
        stripes = "piece => getComputedStyle(piece).backgroundImage"
        assert "gradient" in frame.locator(".piece").first.evaluate(stripes)
        assert "Hatched" in page.text_content("#legend")
        assert "threshold" not in page.text_content("#legend")


def test_a_method_without_a_secret_names_no_author(browser: Any, tmp_path: Path) -> None:
    home = Home(tmp_path)
    keyless = key_of(7, method="continuous", gamma=0.001, threshold=-0.99)
    home.keyring.add(keyless, name="cosine")
    operator = {"name": "Example News"}
    for told in ("scores", "verdict"):
        served = Live(home.service(operator=operator, policy={"detection": told}))
        with opened(browser, served.root) as page:
            page.wait_for_selector("#key-list li:nth-child(2)")
            page.uncheck(f"#key-list input[value={key_of().id}]")
            shown = judge(page, plain(1)).text_content()
            assert page.text_content("#verdict") == "The watermark was found"
            assert "no secret" in page.text_content("#result .warning")
            assert "Marked by" not in shown
            assert "Watermark of" not in shown
            assert "By an estimate" in shown
        served.close()


def test_a_text_is_called_short_only_if_that_is_why_nothing_is_said(
    page: Any, served: Live
) -> None:
    nothing = {"watermarked": None, "p_value": 0.66, "passages": [], "attainable_p_value": 0.001}
    unknown = show(page, served, plain(1), **nothing, power_as_written=None).text_content()
    assert "not known for this method" in unknown
    assert "longer text" not in unknown
    assert "short" not in page.text_content("#verdict")
    short = show(page, served, plain(1), **nothing, power_as_written=0.3).text_content()
    assert "A longer text would decide" in short
    nothing["attainable_p_value"] = 0.1
    show(page, served, plain(1), **nothing, power_as_written=None)
    assert page.text_content("#verdict") == "Too short to tell"


@pytest.mark.parametrize("text", ["nothing", "a part"])
def test_only_what_was_found_is_tinted(page: Any, text: str) -> None:
    judge(page, mixed() if text == "a part" else plain(1) + plain(2))
    tinted = page.locator("#tinted-text").locator(".strong, .enough, .below, .far")
    inside = page.locator("#passage-1").locator(".strong, .enough, .below, .far")
    assert tinted.count() == inside.count()
    assert (tinted.count() > 0) is (text == "a part")
    # Some sentences of any text satisfy the rule; here they are called what they are.
    page.locator("#tinted-text .chance").first.focus()
    assert "no evidence" in page.text_content("#piece-tooltip")
    assert "evidence for" not in page.text_content("#legend") or text == "a part"


def test_a_warning_is_part_of_the_verdict(page: Any, served: Live) -> None:
    warning = {"kind": "language", "message": "The text does not look like <b>English</b>."}
    result = show(page, served, plain(1), warnings=[warning])
    shown = result.locator(".verdict .warning")
    assert shown.text_content() == f"Warning. {warning['message']}"
    result = show(page, served, plain(1), warnings=[])
    assert result.locator(".warning").count() == 0


@pytest.mark.parametrize("p_value", [0.004, 0.02])
def test_weak_evidence_is_neither_found_nor_absent(page: Any, served: Live, p_value: float) -> None:
    """The p-value may be that of a passage, and that of the whole above the level."""
    weak = {"watermarked": None, "p_value": p_value, "likelihood_ratio": 5.0, "passages": []}
    shown = show(page, served, plain(1), **weak).text_content()
    assert page.text_content("#verdict") == "Weak evidence for the watermark"
    assert "about 5.0 times as probable" in shown
    assert "rare enough" not in shown
    assert "rarer than" not in shown


def test_a_small_p_value_that_is_no_finding_is_explained(page: Any, served: Live) -> None:
    """The passages that were searched, too, can make it one."""
    reason = "p = 0.009, but p = 0.012 for the whole text and its passages together."
    changes = {"watermarked": False, "p_value": 0.009, "joint_p_value": 0.012, "reason": reason}
    result = show(page, served, plain(1) + plain(2), **changes, passages=[])
    assert page.text_content("#verdict") == "No watermark was found"
    assert reason in result.text_content()
    assert "rarer than" not in result.text_content()
    # Where the sentences say it all, its figures are not told twice.
    show(page, served, plain(1) + plain(2), watermarked=False, p_value=0.4, passages=[])
    assert page.locator("#reason").count() == 0


@pytest.mark.parametrize("watermarked", [True, False, None])
def test_what_would_be_found_is_said_of_every_verdict(
    page: Any, served: Live, watermarked: bool | None
) -> None:
    changes = {"power_as_written": 0.876, "power_reworded": 0.001, "detectable_passage": 6}
    shown = show(page, served, plain(1), watermarked=watermarked, **changes).text_content()
    assert "every sentence but the first" in shown, "what the model insisted on was not chosen"
    assert "about 88 of 100 such texts would be found" in shown
    assert "reworded, fewer than 1 of 100." in shown
    assert "passage of about 6 sentences or more" in shown
    nothing = dict.fromkeys(changes)
    shown = show(page, served, plain(1), watermarked=watermarked, **nothing).text_content()
    assert "such texts would be found" not in shown


def test_a_verdict_without_a_p_value_names_its_level(page: Any, served: Live) -> None:
    """As strangers are told it."""
    reason = "p is above the level 0.001."
    changes = {"watermarked": False, "p_value": None, "level": 0.001, "reason": reason}
    shown = show(page, served, plain(1), **changes, passages=[]).text_content()
    assert "False alarms allowed0.1 %" in shown
    assert reason not in shown


def test_where_no_scores_are_told_nothing_is_said_of_sentences(
    browser: Any, live: Callable[..., Live]
) -> None:
    with opened(browser, live(policy={"detection": "verdict"}).root) as page:
        judge(page, mixed())
        assert page.locator("#passage-1").is_visible()
        assert page.locator("#text-hint").count() == page.locator("#piece-tooltip").count() == 0
        assert page.locator("#tinted-text [tabindex='0']").count() == 0
        page.locator("#passages a").first.click()
        assert page.evaluate("document.activeElement.id") == "passage-1"


def test_keys_that_could_not_be_searched_are_named(page: Any, served: Live) -> None:
    excluded = [{"key_id": "hm-0123456789ab", "method": "simmark", "reason": "keyless"}]
    assert "hm-0123456789ab" in show(page, served, plain(1), excluded_keys=excluded).text_content()
    assert "could not be searched" not in show(page, served, plain(1)).text_content()


def test_no_key_is_named_where_nothing_was_found(page: Any, served: Live) -> None:
    """Of several keys one is always nearest."""
    text = plain(1) + plain(2)
    shown = show(page, served, text, watermarked=False, passages=[], keys=3).text_content()
    assert key_of().id not in shown
    assert "Keys searched" in shown


def test_a_text_that_is_marked_as_a_whole_has_one_p_value(page: Any) -> None:
    result = judge(page, marked(key_of()))
    assert page.locator("#passage-1").is_visible()
    assert page.locator("#passages").count() == 0
    assert result.text_content().count("p-value of") == 0
    assert page.locator("#result .verdict > .figures dt:has-text('p-value')").count() == 1


def test_of_two_p_values_each_says_of_what_it_is(page: Any, served: Live) -> None:
    passage = {
        "begin": 1, "end": 5, "edge_margin": 3, "rough": False, "p_value": 0.0004, "key_id": None,
        "label": None,
    }  # fmt: skip
    for watermarked in (True, False):
        changes = {"watermarked": watermarked, "p_value": 0.003, "passages": [passage]}
        result = show(page, served, plain(1) + plain(2), **changes)
        shown = dict(
            zip(
                result.locator(".verdict > .figures dt").all_text_contents(),
                result.locator(".verdict > .figures dd").all_text_contents(),
                strict=True,
            )
        )
        assert shown["p-value of the whole text"] == "0.003"
        assert shown["p-value of the marked passage"] == "0.0004"
        assert "p-value" not in shown
        assert "p =" not in page.text_content("#passages")


def test_a_p_value_is_rounded_as_in_the_report(page: Any) -> None:
    shown = page.evaluate(
        "numbers => import('/web/words.js').then(words => numbers.map(words.roundedUp))", P_VALUES
    )
    assert shown == [float(format_p_value(each)) for each in P_VALUES]
    words = page.evaluate(
        "numbers => import('/web/words.js').then(words => numbers.map(words.pValue))",
        [0.0100001, 5.14e-8, 0.00999],
    )
    assert words == ["0.011", "5.2 × 10⁻⁸", "0.01"]


def test_the_page_shows_one_p_value(page: Any) -> None:
    """As a number and as a number of cases, from the same two digits."""
    cases = page.evaluate("import('/web/words.js').then(words => words.cases(0.00012345))")
    assert cases == "1 in 7,600 cases"  # 1 / 0.00013, rounded down


@pytest.mark.parametrize("keys", ["Control+Enter", "Meta+Enter", "Tab Enter"])
def test_a_text_is_judged_by_the_keyboard_and_the_verdict_has_the_focus(
    page: Any, keys: str
) -> None:
    page.fill("#judge-text", f"{plain(1)}\n\n" * 20)
    page.locator("#judge-text").focus()
    for key in keys.split():
        page.keyboard.press(key)
    page.wait_for_selector("#verdict:focus")
    top, bottom = page.evaluate(
        "(({top, bottom}) => [top, bottom])(document.querySelector('#verdict')"
        ".getBoundingClientRect())"
    )
    assert 0 <= top < bottom < 900 / 2
    above = "document.querySelector('#result').compareDocumentPosition(%s)"
    assert page.evaluate(above % "document.querySelector('#options')") == 4  # follows it


def test_a_text_is_judged_again_with_other_options(page: Any) -> None:
    judge(page, plain(1) + plain(2))
    assert "1 %" in page.text_content("#result")
    page.check("input[name=level][value='0.001']")
    page.click("#judge-again")
    page.wait_for_selector("#result:has-text('0.1 %')")


def test_a_key_that_is_missing_is_asked_for(page: Any) -> None:
    """Where the options lie outside of the form."""
    page.fill("#judge-text", plain())
    page.uncheck("#key-list input")
    page.click("#judge-button")
    assert page.locator("#key-error").is_visible()
    assert page.locator("#key-list input").evaluate("box => box === document.activeElement")


def test_the_operator_is_named_on_the_page_and_in_the_verdict(
    browser: Any, live: Callable[..., Live]
) -> None:
    operator = {
        "name": "Example <b>News</b>",
        "contact": "desk@example.org",
        "url": "https://example.org/about",
    }
    with opened(browser, live(operator=operator).root) as page:
        page.wait_for_selector("#operator:has-text('Example <b>News</b>')")
        links = page.locator("#operator-contact a")
        assert [links.nth(i).get_attribute("href") for i in range(links.count())] == [
            "mailto:desk@example.org",
            "https://example.org/about",
        ]
        result = judge(page, marked(key_of())).text_content()
        assert "Marked by Example <b>News</b>’s service." in result
        assert "Watermark ofExample <b>News</b>’s service" in result
        assert "Example <b>News</b>’s service" in page.text_content("#key-list")
        for place in ("#result", "#options"):  # ids and methods are for experts
            assert key_of().id not in page.inner_text(place)
            assert "bilinear" not in page.inner_text(place)
        page.click("#technical-details summary")
        page.click("#key-details summary")
        for place in ("#result", "#options"):
            assert "default" in page.inner_text(place)
            assert key_of().id in page.inner_text(place)
            assert "bilinear" in page.inner_text(place)
        judge(page, mixed())
        page.wait_for_selector("#result.part")
        assert "Marked by Example <b>News</b>’s service" in page.text_content("#result")
        judge(page, plain(1) + plain(2))
        page.wait_for_selector("#result.absent")
        assert "Marked by" not in page.text_content("#result")
        page.click("text=API documentation")
        page.wait_for_selector(".tagline:has-text('Run by Example <b>News</b>.')")


def test_a_report_is_opened_in_a_tab_of_its_own_and_saved(page: Any, tmp_path: Path) -> None:
    text = marked(key_of())
    judge(page, text)
    wrong: list[str] = []
    with page.context.expect_page() as opening:
        page.click("#open-report")
    tab = opening.value
    tab.on("console", lambda said: wrong.append(said.text))
    tab.wait_for_selector("h2:has-text('The watermark was found')")
    assert tab.evaluate("getComputedStyle(document.querySelector('dl')).display") == "grid"
    assert tab.evaluate("opener") is None
    assert key_of().id in tab.text_content("main")
    saved = {}
    for kind in ("report", "json"):
        with page.expect_download() as saving:
            page.click(f"#save-{kind}")
        download = saving.value
        download.save_as(tmp_path / kind)
        saved[download.suggested_filename.rpartition(".")[2]] = (tmp_path / kind).read_text("utf-8")
    data = json.loads(saved["json"])
    assert json.dumps(data["text_sha256"]) in saved["html"]
    assert data["text_sha256"] == hashlib.sha256(text.encode()).hexdigest()
    assert data["made_local"][-6:] == "+00:00" or "UTC" in saved["html"]
    assert wrong == []


def test_the_verdict_is_printed_dark_on_light_and_without_the_form(
    browser: Any, served: Live
) -> None:
    with opened(browser, served.root, color_scheme="dark") as page:
        judge(page, marked(key_of()))
        page.emulate_media(media="print")
        assert page.locator("#tinted-text").is_visible()
        for hidden in ("#judge-form", "#options", "#report", "#text-hint", "#evidence-table"):
            assert not page.locator(hidden).is_visible()
        shade = "getComputedStyle(document.body).%s.match(/\\d+/g).slice(0, 3).map(Number)"
        assert sum(page.evaluate(shade % "color")) < 150
        assert sum(page.evaluate(shade % "backgroundColor")) > 700


def test_without_an_operator_the_key_is_named(page: Any) -> None:
    result = judge(page, marked(key_of())).text_content()
    assert "Marked with the key “default”." in result
    assert key_of().id in page.text_content("#technical-details")
    assert not page.locator("#operator").is_visible()
    assert not page.locator("#operator-contact").is_visible()


def test_the_api_documentation_is_one_click_away_and_fits_a_telephone(
    browser: Any, served: Live
) -> None:
    with opened(browser, served.root, viewport={"width": 320, "height": 640}) as page:
        page.click("text=API documentation")
        page.wait_for_url("**/docs")
        assert page.locator("#post-v1-watermark-detect .fields").first.is_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= 320
