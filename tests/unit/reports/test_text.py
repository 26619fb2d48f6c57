"""A verdict as text and as HTML."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from hammingmark.records import Evidence, Passage, UnitScore, Verdict
from hammingmark.reports import text as report

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


@pytest.mark.parametrize("watermarked", [True, False, None])
def test_power_is_said_with_what_it_assumes(watermarked: bool | None) -> None:
    told = {"power_as_written": 0.8, "power_reworded": 0.42, "detectable_passage": 7}
    judged = verdict(watermarked=watermarked, power=0.6, **told)
    for words in (report.as_text(judged), report.as_html(judged), report.power_in_words(judged)):
        for figure in ("about 80 of 100", "about 42 of 100", "7 sentences"):
            assert figure in words
        assert "every sentence" in words, "what the model insisted on was not chosen"
    assert report.power_in_words(verdict(power=0.6)) == ""
    assert "about 1 of 100" not in report.as_text(verdict(power_as_written=0.001))
    assert "100 of 100" not in report.as_text(verdict(power_as_written=0.999)).replace("99 of", "")


def test_weak_evidence_is_called_so() -> None:
    weak = verdict(watermarked=None, passages=(), likelihood_ratio=4.8)
    assert report.as_text(weak).startswith("WEAK EVIDENCE. ")
    assert "✓" not in report.as_text(weak)
    assert (report.times(4.8), report.times(48.3)) == ("about 4.8 times", "about 48 times")


def test_a_tail_estimate_is_called_one() -> None:
    assert "3e-09 (an estimate, not a test)" in report.as_text(verdict(tail_estimate=3e-9))


def test_each_sentence_has_a_line_and_the_sentences_line_up() -> None:
    first, second, third = report.as_text(verdict()).splitlines()[-3:]
    assert "█" * 7 + "·" in second
    assert "7/8 ✓" in second
    assert "░░░·····" in third  # outside of the passage a score is no evidence
    assert "✓" not in third
    assert first.index("First") == second.index("<script>") == third.index("Third")
    assert [line[1] for line in (first, second, third)] == ["┊", "┊", " "]


def sentences(valid: Sequence[bool], **changes: object) -> Verdict:
    """A verdict on sentences, all scored, some of which satisfy the rule."""
    scores = tuple(UnitScore(7.0 if each else 3.0, each) for each in valid)
    fields: dict[str, object] = {
        "evidence": Evidence("sentence", scores, 8, 6),
        "pieces": tuple(f"Sentence {i}." for i in range(1, len(valid) + 1)),
        "passages": (),
    }
    return verdict(**(fields | changes))


@pytest.mark.parametrize("watermarked", [False, None])
def test_where_nothing_was_found_no_sentence_looks_like_evidence(watermarked: bool | None) -> None:
    nothing = sentences([True, False, True], watermarked=watermarked)
    text, page = report.as_text(nothing), report.as_html(nothing)
    assert "✓" not in text
    assert "█" not in text
    assert "that is no evidence" in text
    assert "that is no evidence" in page
    assert "#ea580c" not in page
    found = sentences([True, False, True])
    assert report.as_text(found).count("✓") == 2
    assert report.as_html(found).count("#ea580c") == 2
    assert "that is no evidence" not in report.as_text(found)


def test_outside_of_the_passages_no_token_is_tinted() -> None:
    page = report.as_html(replace(tokens(), watermarked=False, passages=(Passage(2, 4, 0.004),)))
    assert page.count("background:#fed7aa") == 1
    text = report.as_text(replace(tokens(), watermarked=False, passages=()))
    assert "▔" not in text


def test_the_edges_of_a_passage_are_shown_and_called_uncertain() -> None:
    judged = sentences([True] * 12, passages=(Passage(1, 11, 0.004),))
    text = report.as_text(judged)
    assert "about sentences 2 to 11, p = 0.004; each edge may be off by 3" in text
    assert "".join(line[1] for line in text.splitlines()[-12:]) == " ┊┊┊┃┃┃┃┊┊┊ "
    page = report.as_html(judged)
    assert page.count("border-left:3px dotted #ea580c") == 6
    assert page.count("border-left:3px solid #ea580c") == 4


def bars(judged: Verdict) -> str:
    """What stands on the left of each sentence."""
    return "".join(line[1] for line in report.as_text(judged).splitlines()[-len(judged.pieces) :])


@pytest.mark.parametrize(
    ("count", "expected"), [(12, "┊┊┊┃┃┃┃┃┃┊┊┊"), (7, "┊┊┊┃┊┊┊"), (4, "┊┃┃┊"), (2, "┊┊")]
)
def test_a_passage_that_is_the_whole_text_may_begin_later_and_end_earlier(
    count: int, expected: str
) -> None:
    whole = sentences([True] * count, passages=(Passage(0, count, 0.004),))
    assert bars(whole) == expected, "of three sentences, one is certain at least"
    inner = expected.count("┊") // 2
    words = f"up to {inner} later or end up to {inner} earlier"
    assert f"about sentences 1 to {count}, p = 0.004; it may begin {words}" in report.as_text(whole)
    assert f"end up to {inner} earlier" in report.edges_in_words(whole)


@pytest.mark.parametrize(
    ("passages", "begins", "ends"),
    [
        ([(3, 12)], "begin and end up to 3 sentences earlier or later", ""),
        ([(0, 12)], "begin up to 3 sentences later", "end up to 3 earlier or later"),
        ([(3, 20)], "begin up to 3 sentences earlier or later", "end up to 3 earlier,"),
        ([(0, 20)], "begin up to 3 sentences later", "end up to 3 earlier,"),
        ([(0, 6), (10, 20)], "begin and end up to 3 sentences earlier or later", ""),
    ],
)
def test_no_edge_lies_outside_of_the_text(
    passages: list[tuple[int, int]], begins: str, ends: str
) -> None:
    found = tuple(Passage(begin, end, 0.004) for begin, end in passages)
    words = report.edges_in_words(sentences([True] * 20, passages=found))
    assert begins in words
    assert ends in words
    assert report.edges_in_words(sentences([True] * 20)) == ""


def test_of_a_rough_passage_no_sentence_is_certain() -> None:
    told = sentences([True] * 12, passages=(Passage(0, 6, 0.001, rough=True),))
    assert bars(told) == "┊" * 6 + " " * 6
    assert "somewhere within sentences 1 to 6, p = 0.001" in report.as_text(told)
    assert "anywhere" in report.edges_in_words(told)
    page = report.as_html(told)
    assert page.count("border-left:3px dotted #ea580c") == 6
    assert "border-left:3px solid #ea580c" not in page
    everything = replace(told, passages=(Passage(0, 12, 0.001, rough=True),))
    assert bars(everything) == "┊" * 12


def test_a_verdict_says_whether_its_p_value_is_exact() -> None:
    keyless = verdict(exact=False)
    assert "no secret" in report.caveat_in_words(keyless)
    assert report.caveat_in_words(verdict()) == ""


def test_a_power_that_nobody_knows_makes_no_text_short() -> None:
    nothing = {"watermarked": None, "passages": ()}
    unknown = verdict(**nothing, attainable=0.001)
    assert report.is_power_unknown(unknown)
    for short in (
        EMPTY,
        verdict(**nothing, attainable=0.2),
        verdict(**nothing, attainable=0.001, power_as_written=0.3),
        verdict(**nothing, attainable=0.001, pieces=("One.",)),
        verdict(**nothing, attainable=0.001, likelihood_ratio=5.0),
        verdict(watermarked=False, attainable=0.001),
    ):
        assert not report.is_power_unknown(short)


@pytest.mark.parametrize(
    ("p_value", "text"),
    [
        (0.00025, "0.00025"),
        (5.14e-8, "5.2e-08"),
        (0.01, "0.01"),
        (0.0100001, "0.011"),  # above a level of 0.01, and so it is shown
        (0.00999, "0.01"),
        (0.0000995, "0.0001"),
        (1.0, "1"),
        (0.0, "0"),
        (1e-300, "1e-300"),
    ],
)
def test_a_p_value_is_rounded_up_to_two_digits(p_value: float, text: str) -> None:
    assert report.format_p_value(p_value) == text


def test_a_p_value_has_the_same_digits_everywhere() -> None:
    judged = verdict(p_value=0.00012345, passages=(Passage(0, 2, 0.00012345),))
    for shown in (report.as_text(judged), report.as_html(judged)):
        assert shown.count("0.00013") == 2
        assert "0.00012" not in shown


def test_wide_characters_are_cut_by_their_columns_and_languages_keep_their_direction() -> None:
    mixed = verdict(pieces=("水" * 200, "שלום לכולם.", "مرحبا بالعالم."))
    first, *_ = report.as_text(mixed, width=60).splitlines()[-3:]
    assert first.endswith("水…")
    assert first.count("水") < 30
    assert report.as_html(mixed).count("<td dir='auto'") == 3


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
    assert brackets == " " * 3 + "└" + "╌" * 10 + "─" * 5 + "╌" * 5 + "┘"
    assert "exact binomial)" in text
    assert "tokens 2 to 4, p = 0.004" in text
    assert re.search(r"  key +hm-\w+, label 2026-11-16", text)


def test_a_passage_is_bracketed_over_several_lines() -> None:
    lines = report.as_text(tokens(), width=14).splitlines()[-6:]
    assert lines[:3] == ["The <b>old</b>", " " * 3 + "▔" * 11, " " * 3 + "└" + "╌" * 10]
    assert lines[3:] == [" mill stood", " " * 5 + "▔" * 6, "─" * 5 + "╌" * 5 + "┘"]
    without = report.as_text(replace(tokens(), passages=()), width=14).splitlines()[-4:]
    assert without == [*lines[:2], *lines[3:5]]


@pytest.mark.parametrize(
    ("pieces", "marks", "brackets"),
    [
        # Two columns for each character.
        (("水", "车站", "在", "河"), "  ▔▔▔▔  ▔▔", "  └╌╌╌──╌┘"),
        # Half a character each; the whole of it comes with the second.
        (("水", "", "车", "站"), "  " + "  ▔▔", "  └─╌┘"),
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
    assert "p = 0.004; each" in report.as_text(verdict(passages=(own,)))


def test_a_sentence_cannot_steer_the_terminal() -> None:
    assert "\x1b" not in report.as_text(verdict(pieces=("a\x1b[2J", "b", "c")))
