from __future__ import annotations

import pytest

from hammingmark.text.characters import LONGEST_MARKS, clean, even_line_ends
from hammingmark.text.structure import normalise


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        (" \t\n \n", ""),
        ("a\r\nb\rc", "a b c"),
        ("a\vb\fc\u2028d\x85e", "a b c d e"),
        ("a\u2029b", "a\n\nb"),
        ("a\n \n\t\n\nb", "a\n\nb"),
        ("a  b\u00a0c\u3000d\te", "a b c d e"),
        ("z\u200be\u200cr\u200do\ufeff \u00adwidth\u202e", "zero width"),
        ("nul\x00 bell\x07 esc\x1b", "nul bell esc"),
        ("half \ud83d pair", "half \ufffd pair"),
        ("cafe\u0301", "café"),
        ("cafe\u200b\u0301", "café"),
        ("“a” ‘b’ „c‟ ‚d‛", "\"a\" 'b' \"c\" 'd'"),
        ("私は猫です。名前は\nまだない。", "私は猫です。名前はまだない。"),
        ("か\n\u3099", "か \u3099"),
    ],
)
def test_characters(text: str, expected: str) -> None:
    assert normalise(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("# Title\ntext\ngoes on", "# Title\ntext goes on"),
        ("text\n## Title", "text\n## Title"),
        ("#hashtag is\nprose", "#hashtag is prose"),
        ("Steps:\n- one\n  goes on\n* two\n+ three", "Steps:\n- one goes on\n* two\n+ three"),
        ("1. one\n2. two\n   - sub\n3) three", "1. one\n2. two\n- sub\n3) three"),
        ("He was born in\n1985. Then he left.", "He was born in 1985. Then he left."),
        ("1. Born in\n1985. Then\n2. Left", "1. Born in 1985. Then\n2. Left"),
        ("> a\n> b\nc", "> a b\nc"),
        ("> a\n>\n> b", "> a\n\n> b"),
        (">> a\n> > b", ">> a b"),
        ("> - a\n> - b", "> - a\n> - b"),
        ("| a | b |\n|---|---|\ntext", "| a | b |\n|---|---|\ntext"),
        ("|x| is the size\nof x", "|x| is the size of x"),
        ("a\n---\nb\n* * *\nc\n===\nd", "a\n---\nb\n* * *\nc\n===\nd"),
        ("-\nafter", "-\nafter"),
        ("Title\n~~~~~\nText\ngoes on", "Title\n~~~~~\nText goes on"),
        ("1.5 million\n-5 degrees", "1.5 million -5 degrees"),
        ("--\n-", "-- -"),
    ],
)
def test_structure_keeps_its_lines(text: str, expected: str) -> None:
    assert normalise(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\n```py\nx  =  “1”\t\n\n\n  y\u200b\n```\nb", None),
        ("~~~\n```\n~~~\nb", None),
        ("````\n```\n````\nb", None),
        ("```\r\nx\r\n```", "```\nx\n```"),
        ("  ```\n  x\n  ```  ", "```\n  x\n```"),
        ("```\nnever closed\n\n  ", "```\nnever closed"),
        ("```inline``` and\nmore", "```inline``` and more"),
        ("> ```\n> x  y\n> ```\n> b", None),
        ("> ```\n> x  y\nb", None),
        ("- ```\n  x  y\n  ```", "- ```\n  x  y\n```"),
    ],
)
def test_code_is_left_alone(text: str, expected: str | None) -> None:
    assert normalise(text) == (text if expected is None else expected)


def test_a_wrapped_mail_reads_like_an_unwrapped_one() -> None:
    wrapped = (
        "Dear all,\r\n\r\nthe meeting of Dr. Smith is\r\nmoved to 5 p.m. on the\r\n"
        "1st. Please bring “your own”\r\nlunch.\r\n\r\n-- \r\nAnn\r\n"
    )
    plain = (
        "Dear all,\n\nthe meeting of Dr. Smith is moved to 5 p.m. on the 1st. Please bring "
        '"your own" lunch.\n\n-- Ann'
    )
    assert normalise(wrapped) == normalise(plain) == plain


def test_each_code_point_is_settled_at_once() -> None:
    # One long text rather than many short ones; the letters keep neighbours apart.
    points = [*range(0x20000), 0x20000, 0x2F800, *range(0xE0000, 0xE1001), 0x10FFFF]
    text = even_line_ends("".join(f"a{chr(point)}b" for point in points))
    once = clean(text)
    assert clean(once) == once
    assert once.count("\n") == text.count("\n")
    once.encode()


def test_a_tower_of_marks_is_lowered() -> None:
    tower = normalise("a" + "\u0316\u0301" * 200_000 + "b")
    assert len(tower) <= LONGEST_MARKS + 3
    assert normalise(tower) == tower
    assert normalise("x" + "\u0344" * 30) == normalise(normalise("x" + "\u0344" * 30))
    assert normalise("😀" * 100) == "😀" * 100
