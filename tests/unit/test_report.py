"""A verdict as text and as HTML."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from hammingmark import report
from hammingmark.records import Evidence, Passage, UnitScore, Verdict

HOSTILE = '<script>alert("x")</script> & more.'


def evidence(scale: float = 8) -> Evidence:
    return Evidence(
        unit="transition",
        scores=(
            UnitScore(7.0, True, {"match": 7, "cosine": 0.25, "expected": 4.6}),
            UnitScore(3.0, False, {"match": 3, "cosine": -0.5, "expected": 2.7}),
        ),
        max_score=scale,
        threshold=6,
        means={"edge_vote": 0.5, "global_bits": 0.625, "soft": 0.6},
        sums={"likelihood": 1.5, "margin": -0.25},
    )


def verdict(**changes: object) -> Verdict:
    fields: dict[str, object] = {
        "watermarked": True,
        "p_value": 0.00025,
        "reason": "p = 0.00025 is at most the level 0.01.",
        "level": 0.01,
        "statistic": "margin",
        "evidence": evidence(),
        "pieces": ("First one.", HOSTILE, "Third one."),
        "key_id": "hm-0123456789ab",
        "null": "exact over reference keys",
        "references": 4000,
        "passages": (Passage(begin=0, end=2, p_value=0.004),),
    }
    return Verdict(**(fields | changes))  # type: ignore[arg-type]


EMPTY = verdict(
    watermarked=None,
    p_value=None,
    reason="The text has no sentence that can carry the watermark; at least two are needed.",
    evidence=Evidence("transition", (), 8, 6, sums={"likelihood": 0.0, "margin": 0.0}),
    pieces=(),
    key_id=None,
    passages=(),
)


@pytest.mark.parametrize(
    ("watermarked", "headline"),
    [
        (True, "WATERMARKED"),
        (False, "NO WATERMARK FOUND"),
        (None, "CANNOT TELL"),
    ],
)
def test_a_verdict_on_the_whole_does_not_contradict_a_passage(
    watermarked: bool | None, headline: str
) -> None:
    plain = verdict(watermarked=watermarked, passages=())
    assert report.as_text(plain).startswith(f"{headline}. ")
    assert f">{headline}</strong>" in report.as_html(plain)
    judged = verdict(watermarked=watermarked)
    of_the_whole = {
        True: "WATERMARKED",
        False: "NOT THE WHOLE TEXT",
        None: "CANNOT TELL ABOUT THE WHOLE TEXT",
    }[watermarked]
    assert report.as_text(judged).startswith(f"{of_the_whole}. ")
    assert f">{of_the_whole}</strong>" in report.as_html(judged)


def test_the_text_has_the_figures() -> None:
    text = report.as_text(verdict())
    assert "0.00025 (margin, exact over 4,000 reference keys)" in text
    assert re.search(r"valid +1 of 2 transitions", text)
    assert re.search(r"edge vote +0.500", text)
    assert re.search(r"global bits +0.625", text)
    assert re.search(r"likelihood +\+1.50", text)
    assert re.search(r"margin +-0.25", text)
    assert "hm-0123456789ab" in text
    assert "sentences 1 to 2, p = 0.004" in text
    assert str(verdict()) == text


def test_the_page_has_heads_and_a_tick_at_the_threshold() -> None:
    page = report.as_html(verdict())
    assert page.count("<th scope='col'") == 4
    assert page.count("class='tick'") == 2
    assert "left:75.0%" in page  # 6 of 8
    assert "6 of 8 are required" in page
    assert "<th" not in report.as_html(EMPTY)


def test_what_steers_a_terminal_is_spelled_out() -> None:
    steering = "a\x1b[31mred\x07\u202e\r\x9b2J\tb\nc é 你"
    assert report.printable(steering) == ("a\\x1b[31mred\\x07\\u202e\\r\\x9b2J\\tb\nc é 你")


def test_reprs_are_short() -> None:
    long = verdict(pieces=("A sentence. " * 20,) * 50)
    for part in (long, long.evidence):
        assert len(repr(part)) < 200
        assert "\n" not in repr(part)
    assert "0.00025" in repr(long)
    assert "hm-0123456789ab" in repr(long)


def test_the_number_of_keys_searched_is_said() -> None:
    assert "corrected for 3 keys" in report.as_text(verdict(keys=3))
    assert "corrected" not in report.as_text(verdict())


def test_power_is_said_where_nothing_was_found() -> None:
    assert "about 42%" in report.as_text(verdict(watermarked=False, power=0.42))
    assert "about 42%" not in report.as_text(verdict(watermarked=True, power=0.42))


def test_a_tail_estimate_is_called_one() -> None:
    assert "3e-09 (an estimate, not a test)" in report.as_text(verdict(tail_estimate=3e-9))


def test_each_sentence_has_a_line_and_the_sentences_line_up() -> None:
    first, second, third = report.as_text(verdict()).splitlines()[-3:]
    assert "█" * 7 + "·" in second
    assert "7/8 ✓" in second
    assert "███·····" in third
    assert "✓" not in third
    assert first.index("First") == second.index("<script>") == third.index("Third")
    assert [line[1] for line in (first, second, third)] == ["┃", "┃", " "]


def test_two_digits_of_bits_line_up_too() -> None:
    lines = report.as_text(verdict(evidence=evidence(16))).splitlines()[-3:]
    assert lines[0].index("First") == lines[1].index("<script>") == lines[2].index("Third")


def test_the_sentences_can_be_left_out() -> None:
    text = report.as_text(verdict(), sentences=False)
    assert "First one." not in text
    assert "█" not in text


@pytest.mark.parametrize("width", [1, 40, 80, 200])
def test_no_line_about_a_sentence_is_much_wider_than_asked(width: int) -> None:
    long = verdict(pieces=("a" * 500, "b" * 500, "c" * 500))
    lines = report.as_text(long, width=width).splitlines()[-3:]
    assert all(len(line) <= max(width, 52) + 2 for line in lines)
    assert all("…" in line for line in lines) or width < 60


@pytest.mark.parametrize("each", [EMPTY, replace(EMPTY, pieces=("Only one.",))])
def test_a_text_without_neighbours_can_be_shown(each: Verdict) -> None:
    text = report.as_text(each)
    assert text.startswith("CANNOT TELL. The text has no sentence")
    assert "p-value" not in text
    assert "edge vote" not in text
    assert "CANNOT TELL" in report.as_html(each)


class Balance(HTMLParser):
    """Checks that every tag is closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()
        self.text = ""

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.open.append(tag)
        self.seen.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_html_is_escaped_and_well_formed() -> None:
    hostile = verdict(reason=HOSTILE, key_id=HOSTILE)
    page = report.as_html(hostile)
    assert "<script" not in page
    assert page == hostile._repr_html_()
    parser = Balance()
    parser.feed(page)
    parser.close()
    assert parser.open == []
    assert parser.seen <= {"div", "p", "strong", "table", "thead", "tbody", "tr", "th", "td"}
    assert parser.text.count(HOSTILE) == 3
    assert "First one." in parser.text
    assert "7/8" in parser.text
    assert "sentences 1 to 2" in parser.text


def tokens() -> Verdict:
    """Four tokens, of which the last three have a score."""
    scores = tuple(UnitScore(float(green), green) for green in (True, False, True))
    built = Evidence("token", scores, 1, 1, means={"green": 2 / 3})
    return verdict(
        evidence=built,
        pieces=("The", " <b>old</b>", " mill", " stood"),
        null="exact binomial",
        passages=(Passage(1, 4, 0.004),),
        label="2026-11-16",
    )


def test_tokens_are_marked_where_they_stand() -> None:
    text = report.as_text(tokens())
    *_, line, marks, brackets = text.splitlines()
    assert line == "The <b>old</b> mill stood"
    assert marks.rstrip() == " " * 3 + "▔" * 11 + " " * 5 + "▔" * 6
    assert brackets == " " * 3 + "└" + "─" * 20 + "┘"
    assert "exact binomial)" in text
    assert "tokens 2 to 4, p = 0.004" in text
    assert re.search(r"  key +hm-\w+, label 2026-11-16", text)


def test_a_passage_is_bracketed_over_several_lines() -> None:
    lines = report.as_text(tokens(), width=14).splitlines()[-6:]
    assert lines[:3] == ["The <b>old</b>", " " * 3 + "▔" * 11, " " * 3 + "└" + "─" * 10]
    assert lines[3:] == [" mill stood", " " * 5 + "▔" * 6, "─" * 10 + "┘"]
    without = report.as_text(replace(tokens(), passages=()), width=14).splitlines()[-4:]
    assert without == [*lines[:2], *lines[3:5]]


@pytest.mark.parametrize(
    ("pieces", "marks", "brackets"),
    [
        # Two columns for each character.
        (("水", "车站", "在", "河"), "  ▔▔▔▔  ▔▔", "  └──────┘"),
        # Half a character each; the whole of it comes with the second.
        (("水", "", "车", "站"), "  " + "  ▔▔", "  └──┘"),
        # An accent of its own takes none.
        (("e", "e\u0301", " x", "!"), " ▔  ▔", " └──┘"),
    ],
)
def test_marks_stand_under_their_characters(
    pieces: tuple[str, ...], marks: str, brackets: str
) -> None:
    *_, line, below, passage = report.as_text(replace(tokens(), pieces=pieces)).splitlines()
    assert line == "".join(pieces)
    assert (below, passage) == (marks, brackets)


def scored(scores: list[float], *, counted: Sequence[bool] | None = None) -> str:
    built = tuple(
        UnitScore(each, each >= 0.5625, counted=counts)
        for each, counts in zip(scores, counted or [True] * len(scores), strict=True)
    )
    evidence = Evidence("token", built, 1, 0.5625)
    pieces = tuple("abcdefgh"[: len(scores) + 1])
    return report.as_html(verdict(evidence=evidence, pieces=pieces, passages=()))


def test_a_token_says_its_own_score() -> None:
    page = scored([0.6328125, 0.25])
    assert "title='score 0.633, at least 0.562 counts as evidence'" in page
    assert "title='score 0.25, at least 0.562 counts as evidence'" in page
    assert page.count("title='not scored'") == 1
    assert "required" not in page
    assert "repeated" not in page


def test_a_token_that_is_not_counted_says_so() -> None:
    page = scored([0.6, 0.7, 0.0], counted=[True, False, True])
    assert page.count("title='repeated, not counted'") == 1
    assert page.count("background:#fed7aa") == 1
    assert "; 1 repeated, not counted" in page
    assert "1 of 2 tokens" in page


def test_tokens_are_tinted_on_a_page() -> None:
    page = report.as_html(tokens())
    assert page.count("background:#fed7aa") == 2
    assert page.count("border-bottom:2px") == 3
    assert "&lt;b&gt;old" in page
    assert "<table style='border-collapse" not in page


def test_a_key_that_is_only_nearest_is_called_so() -> None:
    nothing = {"watermarked": False, "keys": 9, "passages": (), "label": "alice"}
    assert re.search(r"nearest key +hm-\w+, label alice", report.as_text(verdict(**nothing)))
    assert "nearest" not in report.as_text(verdict(**{**nothing, "watermarked": True}))
    assert "nearest" not in report.as_text(verdict(**{**nothing, "keys": 1}))


def test_a_passage_of_another_key_names_it() -> None:
    other = Passage(0, 2, 0.004, key_id="hm-ffffffffffff", label="bob")
    assert "p = 0.004, bob" in report.as_text(verdict(passages=(other,)))
    own = Passage(0, 2, 0.004, key_id="hm-0123456789ab")
    assert "p = 0.004\n" in report.as_text(verdict(passages=(own,)))


def test_a_sentence_cannot_steer_the_terminal() -> None:
    assert "\x1b" not in report.as_text(verdict(pieces=("a\x1b[2J", "b", "c")))
