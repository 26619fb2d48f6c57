"""How long a text waits, from what was measured."""

from __future__ import annotations

import pytest

from hammingmark.generation.pace import Pace


def measured(*, draws_apart: bool, texts: int = 4, per_second: int = 64) -> Pace:
    pace = Pace(4, draws_apart=draws_apart)
    for _ in range(16):
        pace.record(per_second, 1.0, texts=texts)
    pace.record_first(128)
    pace.record_whole(1024, is_complete=True)
    return pace


@pytest.mark.parametrize("draws_apart", [False, True])
def test_nothing_is_known_before_it_was_measured(draws_apart: bool) -> None:
    pace = Pace(4, draws_apart=draws_apart)
    assert pace.wait_for_first(unbegun=100, begun=100) == 0.0
    assert pace.wait_for_all(unbegun=100, begun=100) == 0.0
    pace.record_first(100)
    pace.record_whole(100, is_complete=True)
    pace.record(10, 0.5, texts=1)  # too short to be believed
    assert pace.wait_for_all(unbegun=100, begun=100) == 0.0


@pytest.mark.parametrize("draws_apart", [False, True])
def test_the_last_of_many_waits_for_the_first_sentences_of_all(draws_apart: bool) -> None:
    pace = measured(draws_apart=draws_apart)
    assert pace.wait_for_first(unbegun=32, begun=0) == pytest.approx(32 * 128 / 64)
    assert pace.wait_for_first(unbegun=32, begun=50) == pytest.approx(32 * 128 / 64)
    assert pace.wait_for_all(unbegun=32, begun=8) == pytest.approx(36 * 1024 / 64)


def test_texts_that_have_begun_count_where_they_are_drawn_beside() -> None:
    assert measured(draws_apart=True).wait_for_first(unbegun=1, begun=9) == pytest.approx(2.0)
    assert measured(draws_apart=False).wait_for_first(unbegun=1, begun=9) == pytest.approx(8.0)


def test_what_was_measured_for_few_texts_is_no_reason_to_refuse_many() -> None:
    """A model that draws together is taken to be as fast for each text until more are measured."""
    together = measured(draws_apart=False, texts=1)
    assert together.wait_for_first(unbegun=4, begun=0) == pytest.approx(4 * 128 / (4 * 64))
    apart = measured(draws_apart=True, texts=1)
    assert apart.wait_for_first(unbegun=4, begun=0) == pytest.approx(4 * 128 / 64)
    assert measured(draws_apart=True).wait_for_first(unbegun=1, begun=0) == pytest.approx(2.0)


def test_a_rate_follows_the_latest_minutes() -> None:
    pace = measured(draws_apart=True)
    for _ in range(1000):
        pace.record(32, 1.0, texts=4)
    assert pace.wait_for_first(unbegun=1, begun=0) == pytest.approx(4.0, rel=1e-3)


def test_a_text_cut_short_counts_twice_if_it_was_long() -> None:
    pace = measured(draws_apart=True)
    pace.record_whole(100, is_complete=False)
    assert pace.whole_tokens == 1024
    pace.record_whole(1024, is_complete=False)
    assert 1024 < pace.whole_tokens < 2048
    pace.record_whole(24, is_complete=True)
    assert pace.whole_tokens < 1200


def test_where_all_answers_are_cut_short_fewer_are_expected_to_end_in_time() -> None:
    """So many are admitted in the end that they end: 300 seconds for 2,000 tokens of each."""
    pace = measured(draws_apart=True, per_second=70)
    texts = 32
    for _ in range(100):
        while pace.wait_for_all(unbegun=texts, begun=0) > 300.0:
            texts -= 1
        each = 300 * 70 // texts
        for _ in range(texts):
            pace.record_whole(min(each, 2000), is_complete=each >= 2000)
    assert 300 * 70 / texts >= 2000
    assert texts >= 5
