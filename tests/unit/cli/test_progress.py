"""Progress of long work without a terminal."""

from __future__ import annotations

import pytest

from hammingmark.cli.progress import counting
from hammingmark.reports.text import counted


def test_where_there_is_no_terminal_a_line_comes_from_time_to_time(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with counting("sentences embedded", visible=False, every=0.0) as tick:
        tick(1000)
        tick(234)
    captured = capsys.readouterr()
    assert captured.out == ""
    first, second = captured.err.splitlines()
    assert first.startswith("1,000 sentences embedded after ")
    assert second.startswith("1,234 sentences embedded after ")


def test_what_is_done_soon_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with counting("texts", every=3600.0) as tick:
        tick(1000)
    assert capsys.readouterr() == ("", "")


def test_one_is_not_several() -> None:
    assert [counted(n, "text") for n in (0, 1, 2, 1234)] == [
        "0 texts",
        "1 text",
        "2 texts",
        "1,234 texts",
    ]
