"""A dated report on a text: its words, its page and its data."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from html.parser import HTMLParser
from typing import Any

import pytest
from tests.schemas import assert_valid
from tests.unit.reports.test_text import EMPTY, HOSTILE, tokens, verdict

from hammingmark import __version__
from hammingmark.records import DetectionWarning, Passage, Verdict
from hammingmark.reports.dated import DatedReport, Judge, cases
from hammingmark.reports.page import STYLE_HASH, as_page

MADE = datetime(2026, 3, 1, 23, 30, tzinfo=timezone(timedelta(hours=-5, minutes=-30)))
NEWS = Judge("Example News", "desk@example.org", "https://example.org")
TEXT = f"First one.\n\n# A heading\n\n> {HOSTILE}  Third one.\n"


def report(judged: Verdict | None = None, **changes: Any) -> DatedReport:
    fields = {"text": TEXT, "verdict": judged or verdict(), "made": MADE, "judge": NEWS}
    return DatedReport(**(fields | changes))


class Reader(HTMLParser):
    """The text of a page without its head, and the elements in it."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.parts: list[str] = []
        self.data = ""
        self._in_data = False
        self.feed(page)
        self.text = "".join(self.parts)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append(tag)
        self._in_data = tag == "script"

    def handle_data(self, data: str) -> None:
        if self._in_data:
            self.data += data
        else:
            self.parts.append(data)

    def handle_endtag(self, tag: str) -> None:
        self._in_data = False


@pytest.mark.parametrize(
    ("judged", "outcome"),
    [
        (verdict(), "found"),
        (verdict(watermarked=False, p_value=0.2), "part"),
        (verdict(watermarked=False, p_value=0.2, passages=()), "absent"),
        (EMPTY, "short"),
    ],
)
def test_a_report_says_when_by_whom_and_what_follows(judged: Verdict, outcome: str) -> None:
    made = report(judged)
    assert made.outcome == outcome
    page = Reader(as_page(made))
    assert "2026-03-02 05:00:00 UTC" in page.text
    assert "2026-03-01 23:30:00 (UTC-05:30)" in page.text
    assert "Example News" in page.text
    assert "desk@example.org, https://example.org" in page.text
    assert hashlib.sha256(TEXT.encode()).hexdigest() in page.text
    assert f"HammingMark {__version__}" in page.text
    for sentence in (*made.sentences, *made.possible, *made.impossible):
        assert sentence in page.text
    assert made.impossible
    named = "hm-0123456789ab" in "".join(made.sentences)
    assert named is (outcome in ("found", "part"))


def test_the_text_stands_as_it_was_with_its_passages_in_frames() -> None:
    page = as_page(report())
    (frame,) = re.findall(r'<div class="passage.*?</div>', page, re.S)
    assert "First one." in frame
    assert "# A heading" in frame
    assert "alert" in frame
    assert "Third one." not in frame
    body = page[page.index('<div class="text"') : page.index("</main>")]
    bare = re.sub(r'<sup>.*?</sup>|<span class="name">.*?</span>', "", body)
    assert "".join(Reader(bare).text.split()) == "".join(TEXT.split())


def test_look_alikes_of_letters_stand_as_they_were() -> None:
    pieces = ("A difficult find.", "The river rose!", "It fell.")
    text = "A diﬃcult ﬁnd．\nТhe rivеr 𝐫𝐨𝐬𝐞！ It fell."
    page = as_page(report(verdict(pieces=pieces), text=text))
    bare = re.sub(r'<sup>.*?</sup>|<span class="name">.*?</span>', "", page)
    assert "".join(text.split()) in "".join(Reader(bare).text.split())
    assert "difficult" not in Reader(bare).text


def test_pieces_that_are_not_in_the_text_are_shown_one_after_another() -> None:
    shown = Reader(as_page(report(text="Something else."))).text
    assert f"First one. 2{HOSTILE}3Third one." in shown  # a frame ends before the third


def test_nothing_in_a_text_can_become_markup_or_run() -> None:
    hostile = HOSTILE + "</script></style><img src=x onerror=alert(1)>"
    page = as_page(report(verdict(pieces=("First one.", hostile, "Third.")), text=hostile))
    reader = Reader(page)
    assert reader.tags.count("script") == reader.tags.count("style") == 1
    assert "img" not in reader.tags
    assert hostile in reader.text
    assert f"default-src 'none'; style-src '{STYLE_HASH}'" in page


def test_the_page_holds_the_report_as_data() -> None:
    made = report(verdict(warnings=(DetectionWarning("language", "Not English."),)))
    page = Reader(as_page(made))
    assert json.loads(page.data) == made.to_dict()
    assert_valid(json.loads(page.data), "report-1")
    assert made.to_dict()["made"] == "2026-03-02T05:00:00+00:00"
    assert made.to_dict()["made_local"] == "2026-03-01T23:30:00-05:30"
    assert "Not English." in page.text


def test_whose_watermark_it_is() -> None:
    def origin(**changes: Any) -> str:
        return report(**changes).sentences[0]

    key = "key hm-0123456789ab"
    assert origin(is_own=True) == f"Marked by Example News’s service ({key})."
    assert origin() == f"Marked with a key of Example News ({key})."
    assert origin(judge=Judge(), key_name="mine") == f"Marked with the key “mine” ({key})."
    assert origin(judge=Judge()) == f"Marked with the {key}."
    labelled = replace(verdict(), label="2026-03-01")
    assert f"({key}, label 2026-03-01)" in origin(judged=labelled, is_own=True)


def test_tokens_are_put_together_as_they_are() -> None:
    judged = replace(tokens(), passages=(Passage(1, 3, 0.004),))
    page = as_page(report(judged, text="".join(judged.pieces)))
    assert "<sup>" not in page
    assert "about tokens 2 to 3" in page
    assert "<b>" not in page


@pytest.mark.parametrize(
    ("p_value", "words"),
    [
        (1.0, "nearly all cases"),
        (0.4811, "about 49 in 100 cases"),
        (0.00012345, "1 in 7,600 cases"),
        (0.01, "1 in 100 cases"),
        (1e-12, "fewer than 1 in a billion cases"),
    ],
)
def test_p_values_in_words_are_never_rarer_than_they_are(p_value: float, words: str) -> None:
    assert cases(p_value) == words


@pytest.mark.parametrize(
    ("p_value", "shown"),
    [(0.00025, "0.00025"), (0.0000995, "0.0001"), (5.14e-8, "5.2 × 10⁻⁸"), (1e-300, "1 × 10⁻³⁰⁰")],
)
def test_a_p_value_is_written_as_on_the_page(p_value: float, shown: str) -> None:
    page = Reader(as_page(report(verdict(p_value=p_value, passages=()))))
    assert f"p-value{shown}Level" in page.text


def test_a_text_that_is_marked_as_a_whole_has_one_p_value() -> None:
    whole = verdict(passages=(Passage(0, 3, 0.00017),))
    assert "p-value of passage 1" not in Reader(as_page(report(whole))).text
    assert "0.00017" not in Reader(as_page(report(whole))).text
    part = Reader(as_page(report())).text
    assert "p-value of the whole text0.00025" in part
    assert "p-value of passage 10.004 (about sentences 1 to 2)" in part


def frames(page: str) -> list[str]:
    return re.findall(r'<div class="passage.*?</div>', page, re.S)


def test_a_rough_passage_is_said_to_lie_somewhere_within_its_quarters() -> None:
    told = verdict(watermarked=False, p_value=0.2, passages=(Passage(0, 2, 0.001, rough=True),))
    made = report(told)
    assert any("somewhere within sentences 1 to 2" in sentence for sentence in made.sentences)
    [frame] = frames(as_page(made))
    assert frame.count('class="edge"') == 2, "no sentence is certain"
    assert "anywhere" in Reader(as_page(made)).text
    whole = replace(told, watermarked=True, passages=(Passage(0, 3, 0.001, rough=True),))
    assert "somewhere within sentences 1 to 3" in Reader(as_page(report(whole))).text


def test_a_passage_that_is_the_whole_text_has_uncertain_edges() -> None:
    whole = verdict(passages=(Passage(0, 3, 0.00017),))
    page = as_page(report(whole))
    assert [frame.count('class="edge"') for frame in frames(page)] == [2]
    assert "begin up to 1 sentence later, or end up to 1 earlier" in Reader(page).text


KEYLESS = {"exact": False, "method": "simmark"}


@pytest.mark.parametrize("watermarked", [True, False])
def test_a_method_without_a_secret_proves_no_author(watermarked: bool) -> None:
    made = report(verdict(watermarked=watermarked, p_value=0.00037, **KEYLESS), is_own=True)
    said = " ".join(made.sentences)
    concluded = " ".join(made.possible)
    assert made.outcome == ("found" if watermarked else "part")
    assert "Marked by" not in said
    assert "no secret" in said
    assert "not exact" in said
    assert "By an estimate" in said
    assert "no secret" in concluded
    assert "only as often as" not in concluded
    assert any("not exact" in each for each in made.impossible)
    assert "no secret" not in "".join(report(verdict(watermarked=watermarked)).sentences)


@pytest.mark.parametrize("watermarked", [True, False])
def test_a_report_is_worded_by_the_threshold_that_decided(watermarked: bool) -> None:
    reason = "global_bits = 0.625 is above the threshold 0.500."
    judged = verdict(
        watermarked=watermarked, p_value=0.21, threshold=0.5, reason=reason, passages=(),
        power_as_written=0.8,
    )  # fmt: skip
    made = report(judged, is_own=True)
    said = " ".join(made.sentences)
    assert "Marked by" not in said
    assert reason in said
    assert "21 in 100 cases. That did not decide." in said
    assert "rarer" not in said
    assert "1 %" not in said
    assert "would be found" not in said, "that is at the level"
    assert "threshold" in "".join(made.possible)
    assert "p-value says" not in "".join(made.possible)
    page = Reader(as_page(made)).text
    assert "Threshold0.500" in page
    assert "did not decide" in page
    assert "Level (" not in page


def test_a_text_is_called_short_only_if_that_is_why_nothing_is_said() -> None:
    nothing = {"watermarked": None, "p_value": 0.66, "passages": (), "attainable": 0.001}
    unknown = report(verdict(**nothing))
    short = report(verdict(**nothing, power_as_written=0.3))
    assert (unknown.outcome, short.outcome) == ("unknown", "short")
    assert "not known for this method" in " ".join(unknown.sentences)
    for words in (" ".join(unknown.sentences), as_page(unknown).partition("<script")[0]):
        assert "short to" not in words
        assert "longer text" not in words
    assert "longer text would decide" in " ".join(short.sentences)


def test_no_key_is_named_where_nothing_was_found() -> None:
    """Of several keys one is always nearest."""
    absent = verdict(watermarked=False, p_value=0.2, passages=(), keys=3)
    assert "hm-0123456789ab" not in Reader(as_page(report(absent))).text
    assert "hm-0123456789ab" in Reader(as_page(report(replace(absent, keys=1)))).text


def test_a_small_p_value_that_is_no_finding_is_explained() -> None:
    """The passages that were searched, too, can make it one."""
    reason = "p = 0.009, but p = 0.012 for the whole text and its passages together."
    judged = verdict(watermarked=False, p_value=0.009, passages=(), reason=reason)
    made = report(judged)
    assert reason in made.sentences
    assert "rarer" not in "".join(made.sentences)


def test_weak_evidence_of_a_passage_is_not_contradicted_by_the_whole() -> None:
    weak = verdict(watermarked=None, p_value=0.02, likelihood_ratio=5.0, passages=())
    made = report(weak)
    assert made.outcome == "weak"
    assert "rarer" not in "".join(made.sentences)
