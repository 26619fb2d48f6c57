"""The laws every text must obey, on arbitrary Unicode and on composed Markdown."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hammingmark.protocols import Splitter
from hammingmark.text.punkt import PunktSplitter
from hammingmark.text.sentencex import SentencexSplitter
from hammingmark.text.structure import normalise

ANY_TEXT = st.text(alphabet=st.characters(codec=None), max_size=60)
PIECES = [
    *("-", "--", "---", "*", "**", "_", "__", "===", "+", "1.", "2.", "5)", "1985.", "[ ]", "["),
    *(
        "а",
        "Тhe ",
        "да. ",
        "Ｔｈｅ",
        "ﬃ",
        "１",
        "！",
        "．",
        "＞ ",
        "－ ",
        "｀｀｀",
        "｜",
        "＇",
        "ⓐ",
        "α",
    ),
    *(" ", "  ", "\n", "\n", "\n", "\n\n", "\r\n", "\t", "|", "|a", "b|", "> ", ">", "#", "# x"),
    *("```", "~~~", "````", "`", "x", "Hello world.", "Yes!", '"', "“", "’", "(", ")", "e.g."),
    *("\u200b", "\u0301", "\u3099", "か", "。", "中", "\u2028", "\u2029", "\x0c", "\x00", "\u1fef"),
    *("\ud800", "http://a.b", "42.", "\u0344", "\u00a0", "\x1c", "\x85", "\u302a", "]"),
]
MARKDOWN = st.lists(st.sampled_from(PIECES), max_size=14).map("".join)


@pytest.mark.parametrize("splitter", [SentencexSplitter(), PunktSplitter()])
@settings(max_examples=250, deadline=None)
@given(text=st.one_of(ANY_TEXT, MARKDOWN))
@example(text="-\n--")
@example(text="|a\nb|")
@example(text="*\n[ ] ````\n```")
@example(text="- [\n] ````\n```")
@example(text="か\n\u3099")
def test_laws(splitter: Splitter, text: str) -> None:
    plain = normalise(text)
    assert normalise(plain) == plain
    plain.encode()
    split = splitter.split(text)
    assert split.text == plain
    assert splitter.split(plain) == split
    for unit in split.units:
        assert unit.text
        assert unit.text == unit.text.strip()
        assert unit.gap in ("", " ", "\n", "\n\n")
    assert all(unit.gap == "" for unit in split.units[-1:])
