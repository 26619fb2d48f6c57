from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest
from tests.errors import raises_naming

from hammingmark.errors import InputError
from hammingmark.protocols import Splitter
from hammingmark.records import Unit
from hammingmark.text.cutting import WINDOW, carries, locate, split_with
from hammingmark.text.punkt import PunktSplitter
from hammingmark.text.sentencex import SentencexSplitter
from hammingmark.text.structure import normalise

BOTH = pytest.mark.parametrize("splitter", [SentencexSplitter(), PunktSplitter()])


@pytest.mark.parametrize(
    "sentences",
    [
        ["Dr. Smith met Mr. Jones at 5 p.m. yesterday.", "They left."],
        ["It cost $3.50 in 1999.", "Prices rose 4.5%.", "Version 2.0.1 is out."],
        ["He waited...", "Then he left.", "Well… maybe.", "What?!", "No way!!", "OK."],
        ['"I am here."', "She smiled.", '"Come in!" he said.', "They sat."],
        ['He said "Go.', 'Run."', "Then he left."],
        ["J. K. Rowling wrote it.", "J.R.R. Tolkien did not."],
        ["Use tools, e.g. a hammer, i.e. that one.", "Done."],
        ["See https://example.com/a.b?c=d.", "It works.", "Visit www.x.org."],
        ["He asked (was it true?) and left.", "(It was.)", "Fine."],
        ["The U.S. Army came.", "He lives in the U.S.", "She does not."],
        ["A claim.[1]", "Next claim.[2][3]", "More."],
        ["'Tis the season.", "Don't.", "I can't.", "The dogs' bones.", "'Yes.'", "'No.'"],
        ["**Bold.", "Text.**", "Then _it.", "Is._", "Yes."],
        ["Great!", "😀 Next one."],
    ],
)
def test_sentencex_on_traps(sentences: list[str]) -> None:
    assert SentencexSplitter().split(" ".join(sentences)).carrying == sentences


@pytest.mark.parametrize(
    "sentences",
    [
        ["Dr. Smith met Mr. Jones at 5 p.m. yesterday.", "They left."],
        ["It cost $3.50 in 1999.", "Prices rose 4.5%.", "Version 2.0.1 is out."],
        ['"I am here."', "She smiled.", "They sat."],
        ["J. K. Rowling wrote it.", "See https://example.com/a.b?c=d.", "It works."],
        ["What?!", "No way!!", "OK."],
    ],
)
def test_punkt_on_traps(sentences: list[str]) -> None:
    assert PunktSplitter().split(" ".join(sentences)).carrying == sentences


def test_other_languages() -> None:
    chinese = SentencexSplitter("zh").split("你好。我很好！是吗？对")
    assert chinese.carrying == ["你好。", "我很好！", "是吗？", "对"]
    assert {unit.gap for unit in chinese.units} == {""}
    arabic = SentencexSplitter("ar").split("مرحبا بك. كيف حالك؟ أنا بخير.")
    assert arabic.carrying == ["مرحبا بك.", "كيف حالك؟", "أنا بخير."]
    german = PunktSplitter("de").split("Das ist z.B. ein Satz. Und noch einer.")
    assert german.carrying == ["Das ist z.B. ein Satz.", "Und noch einer."]
    assert PunktSplitter("zh").split("你好。我很好！").carrying == ["你好。", "我很好！"]


@BOTH
def test_how_a_text_travelled_does_not_matter(splitter: Splitter) -> None:
    text = "It's “fine”, he said.\nThe rest of the text\nfollows here.\n\nNew paragraph."
    plain = text.replace("“", '"').replace("”", '"')
    for other in (
        text.replace("\n", "\r\n"),
        plain,
        plain.replace("text\nfollows", "text follows"),
        "\ufeff" + text + "\n\n",
        text.replace("'", "’"),
        text.replace(" ", "\u00a0 "),
    ):
        assert splitter.split(other) == splitter.split(text)


def test_what_carries() -> None:
    text = (
        "# Title\nIntro text\ngoes on. Two.\n- First item. More.\n- [ ] task\n1. x\n\n> quoted\n"
        "> text.\n| a | b |\n```py\nx = 1\n```\n***\n42. https://x.y/z\n\nhttps://x.y/z"
    )
    units = SentencexSplitter().split(text).units
    assert units == (
        Unit("# Title", "\n", False),
        Unit("Intro text goes on.", " ", True),
        Unit("Two.", "\n", True),
        Unit("-", " ", False),
        Unit("First item.", " ", True),
        Unit("More.", "\n", True),
        Unit("- [ ]", " ", False),
        Unit("task", "\n", True),
        Unit("1.", " ", False),
        Unit("x", "\n\n", True),
        Unit(">", " ", False),
        Unit("quoted text.", "\n", True),
        Unit("| a | b |", "\n", False),
        Unit("```py\nx = 1\n```", "\n", False),
        Unit("***", "\n", False),
        Unit("42.", " ", False),
        Unit("https://x.y/z", "\n\n", False),
        Unit("https://x.y/z", "", False),
    )


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("Yes.", True),
        ("对", True),
        ("See https://x.y.", True),
        ("<https://x.y>", False),
        ("www.x.org.", False),
        ("mailto:a@b.c", False),
        ("42.", False),
        ("😀", False),
        ("...", False),
    ],
)
def test_carries(sentence: str, expected: bool) -> None:
    assert carries(sentence) is expected


def test_a_text_that_grows_keeps_its_sentences() -> None:
    text = (
        'He said, "I am here. You are not." (She was not. Really.) "Oh," she said. "It\'s '
        "you! I see.\" 'Yes.' They left... and came back. The U.S. won. OK?"
    )
    units = SentencexSplitter().split(text).units
    for count in range(1, len(units)):
        start = "".join(unit.text + unit.gap for unit in units[:count])
        kept = SentencexSplitter().split(start).units
        assert [unit.text for unit in kept] == [unit.text for unit in units[:count]]


def test_a_library_that_changes_the_text_does_no_harm() -> None:
    assert locate(["  One. ", "Two.", "", "Changed.", "Four."], "One.  Two. Three. Four.") == [
        0,
        6,
        18,
    ]
    text = "One. Two. Three. Four."
    assert split_with(lambda line: ["One.", "2.", "Three. "], text).carrying == [
        "One. Two.",
        "Three. Four.",
    ]
    assert split_with(lambda line: [], text).carrying == [text]


@BOTH
def test_long_lines_are_read_through_a_window(splitter: Splitter) -> None:
    sentences = [f"This is sentence number {index} of a long line." for index in range(2000)]
    assert splitter.split(" ".join(sentences)).carrying == sentences
    for endless in ("word " * 10_000, "x" * 50_000, "«" * 20_000, "'a.\" " * 10_000):
        split = splitter.split(endless)
        assert split.text == normalise(endless)
        assert max(len(unit.text) for unit in split.units) <= WINDOW


@pytest.mark.parametrize("kind", [SentencexSplitter, PunktSplitter])
def test_unknown_language(kind: type[SentencexSplitter] | type[PunktSplitter]) -> None:
    with raises_naming(InputError, "'xx'", ", en,"):
        kind("xx")


@BOTH
def test_it_is_a_frozen_splitter(splitter: SentencexSplitter | PunktSplitter) -> None:
    assert isinstance(splitter, Splitter)
    assert splitter.describe()["name"] == splitter.name
    assert splitter.describe()["language"] == "en"
    with pytest.raises(FrozenInstanceError):
        splitter.language = "de"  # type: ignore[misc]
    assert splitter.split("").units == ()
