"""Progress of a stage."""

from __future__ import annotations

import pytest

from hammingmark.evaluation import progress


def test_lines_give_the_time_left(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    with progress.shown("texts", 10) as advance:
        for _ in range(4):
            now[0] += 20.0
            advance(1)
    assert capsys.readouterr().err.splitlines() == [
        "texts: 2 of 10, 3 min left",
        "texts: 4 of 10, 2 min left",
    ]


@pytest.mark.parametrize("count", [progress.silent, progress.shown])
def test_without_work_nothing_is_printed(
    count: progress.Progress, capsys: pytest.CaptureFixture[str]
) -> None:
    with count("texts", 0) as advance:
        advance(0)
    assert capsys.readouterr() == ("", "")
