"""Splitting from a place on gives what splitting from the start gives, whatever will follow."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hammingmark.records import Sentences
from hammingmark.text.cutting import WINDOW
from hammingmark.text.punkt import PunktSplitter
from hammingmark.text.sentencex import SentencexSplitter

Restarting = SentencexSplitter | PunktSplitter
BOTH = pytest.mark.parametrize("splitter", [SentencexSplitter(), PunktSplitter()])

PROSE = [
    *("The river rose in the night. ", "He left! ", "Was it so? ", "Then we saw it. ", "\n\n"),
    *("By morning it had reached\nthe mill. ", "Nobody answered. ", "word ", "Word "),
]
TRAPS = [
    *("Dr. Hale ", "J. K. ", "No. 5 ", "U.S. ", "at 6 a.m. ", "On Monday ", "e.g. ", "etc. "),
    *('"Yes." ', "'No!' she said. ", "(Ok.) ", "(Fine. ", "Yes.) ", "“", "” ", "He said “Go.” "),
    *("[1] ", "foo.[2] ", "3.5 ", "5. ", "... ", "?! ", "http://a.b/c. ", "*It.* ", "— Yes. "),
    *(
        "你好。",
        "か！",
        "他说：“走吧。”",
        "।",
        "😀 ",
        "[",
        "]",
        "<",
        ">",
        "{",
        "\\] ",
        "`",
        "`x` ",
        "• ",
    ),
    *("\n", "\r\n", "\r", "\n \n", "\t", "\u2028", "\u2029", "\u200b", "\u0301", "-", "#", "| "),
    *("\n- ", "\n* ", "\n1. ", "\n2. ", "\n3) ", "\n> ", "\n>\n", "\n# Head\n", "\n## ", "\n===\n"),
    *("\n| a | b |\n", "\n| a", "|\n", "\n---\n", "\n```\n", "\n~~~\n", "```", "\n- [x] "),
    *("\n```py\nx = 1. Y = 2.\n```\n", "\n1985. Then "),
    *("А ", "Bсе ", "Тhe rivеr ", "Привет. ", "Да. ", "Ｔｈｅ ", "ﬁ", "１９ ", "！", "．　", "＃ "),
]
TEXT = st.lists(
    st.one_of(st.sampled_from(PROSE), st.sampled_from(PROSE), st.sampled_from(TRAPS)),
    min_size=5,
    max_size=30,
).map("".join)
MORE = st.lists(st.sampled_from(PROSE + TRAPS), max_size=12).map("".join)
ALWAYS = [
    "\n2. One. Two.",
    "\n> One. Two.",
    " |",
    "]. One > Two.",
    "\n~~~\nOne. Two.",
    " • One • Two",
]
GAP = re.compile(r"\s+|(?<=\W)(?=\S)")


def pieces(split: Sentences) -> list[tuple[str, bool]]:
    return [(unit.text, unit.carries) for unit in split.units]


def joints(splitter: Restarting, text: str) -> list[int]:
    """The places where a unit ends and at least three follow."""
    whole = pieces(splitter.split(text))
    found = []
    for place in sorted({match.start() for match in GAP.finditer(text)}):
        after = pieces(splitter.split(text[place:]))
        if len(after) >= 3 and pieces(splitter.split(text[:place])) + after == whole:
            found.append(place)
    return found


def assert_restarts_truly(splitter: Restarting, text: str, mores: list[str]) -> int:
    """How many places splitting can restart from, all of them rightly so."""
    places = [place for place in joints(splitter, text) if splitter.restarts(text, place)]
    for more in mores if places else []:
        whole = pieces(splitter.split(text + more))
        for place in places:
            local = pieces(splitter.split(text[place:] + more))
            assert pieces(splitter.split(text[:place])) + local == whole
    return len(places)


@BOTH
@settings(max_examples=40, deadline=None)
@given(text=TEXT, more=MORE)
def test_local_and_whole_splitting_agree(splitter: Restarting, text: str, more: str) -> None:
    assert_restarts_truly(splitter, text, [more, *ALWAYS])


@BOTH
@pytest.mark.parametrize("before", ["Привет, мир.", "He left."])
@pytest.mark.parametrize("gap", [" ", "\n\n"])
@pytest.mark.parametrize("first", ["А boat", "Bсе boats", "１９ boats", "Тhe boat", "！ A boat"])
def test_a_text_does_not_restart_where_what_stands_before_decides_on_its_letters(
    splitter: Restarting, before: str, gap: str, first: str
) -> None:
    after = f"{gap}{first} came. The river rose. It fell. It left."
    assert not splitter.restarts(before + after, len(before))
    for words in ("The boat", "Привет", "ΠΛΑΤΩΝ's boat"):
        after = f"{gap}{words} came. Тhe rivеr rose. It fell. It left."
        assert splitter.restarts(before + after, len(before))
        whole = pieces(splitter.split(before + after))
        assert whole == [(before, True), *pieces(splitter.split(after))]


THREE = " The river rose in the night. By morning it had gone. Nobody was there."


@BOTH
@pytest.mark.parametrize("before", ["He left.", "# A heading\n\nHe left.", "- He left.", '"Go!"'])
@pytest.mark.parametrize("gap", ["", "\n", "\n\n", "\n\n\n", "\n- "])
def test_a_text_restarts_between_sentences_and_blocks(
    splitter: Restarting, before: str, gap: str
) -> None:
    text = before + gap + THREE
    assert splitter.restarts(text, len(before))
    assert assert_restarts_truly(splitter, text, ALWAYS) >= 1


def test_unspaced_scripts_restart_too() -> None:
    text = "它来了。没有人看见。河水上涨了。早上它走了。"
    assert PunktSplitter("zh").restarts(text, 4)
    assert assert_restarts_truly(SentencexSplitter("zh"), text, ALWAYS) >= 1


@BOTH
@pytest.mark.parametrize(
    ("before", "after", "more"),
    [
        ("```\ncode", "\n\nIt is one. And two. And three.", "\n```\n"),
        ("1. One is here.", THREE, "\n2. Two is here."),
        ("> One is here.", THREE, "\n> Two is here."),
        ("| One is here.", THREE, " |"),
        ("He left.\n| One is here.", THREE, " |"),
        ("He left.\n``` One is here.", THREE, "`"),
        ("# One is here.", THREE, ""),
        ("One is here.\n1.", THREE, "\n2. Two is here."),
        ("One is here.", "\n- ~~~\n\nTwo. Three. Four.", ""),
        ("1. One is here.", "\n- Two. Three. Four.", "\n2. Five."),
        ("One is here.", " 2. It is two. And three. And four.", ""),
        ("One is here.", " (Two. Three. Four.", ""),
    ],
)
def test_where_lines_are_read_otherwise_without_what_stands_before(
    splitter: Restarting, before: str, after: str, more: str
) -> None:
    assert not splitter.restarts(before + after, len(before))
    assert_restarts_truly(splitter, before + after, [more])


@pytest.mark.parametrize(
    ("before", "after", "more"),
    [
        ("It is x < y here.", THREE, " So z > y. Then"),
        ("It is [a here.", THREE, " So b] it is. Then"),
        ("It is `x here.", THREE, " So it is x``. Then"),
        ("It is • One here.", THREE, " So it is • Two. Then"),
        ("It was late.", " Yes. No. On Monday.", " Then at 6 a.m. Ann came."),
        ("它来了！", "J. K. Hale came here. It was late. Then he left. So", ""),
        (
            "The boat came in.",
            ' St. `cf. ``Inc. He said "؟ `f()`',
            "*It.* … `a b` p.m. II. the Yes.) — Yes.",
        ),
    ],
)
def test_where_sentencex_remembers_what_stands_before(before: str, after: str, more: str) -> None:
    splitter = SentencexSplitter()
    whole = pieces(splitter.split(before + after + more))
    local = pieces(splitter.split(before)) + pieces(splitter.split(after + more))
    assert whole != local
    assert not splitter.restarts(before + after, len(before))


@BOTH
def test_a_long_line_is_cut_as_if_there_were_no_window(splitter: Restarting) -> None:
    """Pairs of brackets lie across the ends of windows, wherever those begin."""
    sentences = [
        f"He saw [it number {index}. And he saw no other one] then." for index in range(600)
    ]
    line = " ".join(sentences)
    assert len(line) > 3 * WINDOW
    whole = [text for text, _ in pieces(splitter.split(line))]
    short = [text for text, _ in pieces(splitter.split(" ".join(sentences[:50])))]
    each = len(short) // 50
    assert whole[: len(short)] == short
    assert len(whole) == 600 * each
    for index in (1, 77, 301, 599):
        local = splitter.split(" ".join(sentences[index:]))
        assert [text for text, _ in pieces(local)] == whole[index * each :]
