"""What takes long to make, made once for each name."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from hammingmark.lazy import SingleFlightCache


def test_it_is_made_once_for_all_who_ask_and_nobody_else_waits() -> None:
    kept: SingleFlightCache[str] = SingleFlightCache(4)
    began, may_end = threading.Event(), threading.Event()
    made: list[str] = []

    def slow() -> str:
        began.set()
        assert may_end.wait(60)
        made.append("slow")
        return "slow"

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(kept.get, "a", slow)
        assert began.wait(60)
        second = pool.submit(kept.get, "a", slow)
        assert kept.get("b", lambda: "quick") == "quick"
        may_end.set()
        assert first.result(60) is second.result(60)
    assert made == ["slow"]


def test_what_was_not_used_lately_is_forgotten() -> None:
    kept: SingleFlightCache[int] = SingleFlightCache(2)
    for name in (1, 2, 1, 3):
        assert kept.get(name, lambda name=name: name) == name  # type: ignore[misc]
    assert len(kept) == 2
    assert kept.get(1, lambda: 7) == 1
    assert kept.get(2, lambda: 7) == 7


def test_what_failed_is_tried_again() -> None:
    kept: SingleFlightCache[int] = SingleFlightCache(2)

    def fail() -> int:
        raise ValueError("no")

    for _ in range(2):
        with pytest.raises(ValueError, match="no"):
            kept.get("a", fail)
    assert len(kept) == 0
    assert kept.get("a", lambda: 5) == 5


def test_after_a_fork_what_was_made_is_there_and_what_was_being_made_is_made_anew() -> None:
    kept: SingleFlightCache[str] = SingleFlightCache(4)
    kept.get("made", lambda: "before")
    began, may_end = threading.Event(), threading.Event()

    def slow() -> str:
        began.set()
        assert may_end.wait(60)
        return "slow"

    with ThreadPoolExecutor(1) as pool:
        pool.submit(kept.get, "unfinished", slow)
        assert began.wait(60)
        kept.renew_after_fork()
        assert kept.get("made", lambda: "after") == "before"
        assert kept.get("unfinished", lambda: "after") == "after"
        may_end.set()
