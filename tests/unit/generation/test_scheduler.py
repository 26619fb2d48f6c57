"""Slots for texts: shared fairly between clients, without starvation."""

from __future__ import annotations

from collections import Counter

from hammingmark.generation.scheduler import _TURN, FairScheduler


def clients_of(scheduler: FairScheduler[str]) -> Counter[str]:
    """How many slots each client has; a text's first letter is its client."""
    return Counter(text[0] for text in scheduler.running)


def begin(slots: int, **texts: int) -> FairScheduler[str]:
    scheduler: FairScheduler[str] = FairScheduler(slots)
    for client, number in texts.items():
        scheduler.add([f"{client}{place:02}" for place in range(number)], client=client)
    return scheduler


def test_one_client_is_served_in_order_and_never_interrupted() -> None:
    scheduler = begin(2, a=4)
    for _ in range(3 * _TURN):
        scheduler.end_sentences("a00", 1)
    assert scheduler.running == ["a00", "a01"]
    scheduler.remove("a01")
    assert scheduler.running == ["a00", "a02"]
    scheduler.remove("a00")
    assert scheduler.running == ["a02", "a03"]
    assert len(scheduler) == 2


def test_a_free_place_goes_to_who_holds_fewest() -> None:
    scheduler = begin(3, a=9, b=2, c=1)
    assert clients_of(scheduler) == {"a": 3}
    for text in ("a00", "a01", "a02"):
        scheduler.remove(text)
    assert clients_of(scheduler) == {"a": 1, "b": 1, "c": 1}


def test_who_holds_much_makes_room_at_the_next_end_of_a_sentence() -> None:
    scheduler = begin(8, a=20, b=8)
    assert clients_of(scheduler) == {"a": 8}
    for number in range(8):
        scheduler.end_sentences(f"a{number:02}", 1)
    assert clients_of(scheduler) == {"a": 4, "b": 4}
    for text in scheduler.running:
        scheduler.end_sentences(text, 10 * _TURN)
    assert clients_of(scheduler) == {"a": 4, "b": 4}  # and nothing is interrupted for nothing


def test_a_text_goes_on_where_it_stopped_before_later_ones() -> None:
    scheduler = begin(2, a=3, b=1)
    scheduler.end_sentences("a00", 1)
    assert scheduler.running == ["a01", "b00"]
    scheduler.remove("b00")
    assert scheduler.running == ["a01", "a00"]


def test_more_clients_than_places_take_turns_of_some_sentences() -> None:
    scheduler = begin(1, a=5, b=1, c=1)
    seen = []
    for _ in range(6 * _TURN):
        (text,) = scheduler.running
        seen.append(text)
        scheduler.end_sentences(text, 1)
    assert seen[::_TURN] == ["a00", "b00", "c00"] * 2
    assert all(len(set(seen[place : place + _TURN])) == 1 for place in range(0, len(seen), _TURN))


def test_who_comes_again_and_again_does_not_pass_those_who_wait() -> None:
    scheduler = begin(1, a=1)
    scheduler.add(["b00"], client="b")
    scheduler.end_sentences("a00", _TURN)
    for number in range(1, 5):
        assert scheduler.running == [f"b{number - 1:02}"]
        scheduler.remove(f"b{number - 1:02}")
        scheduler.add([f"b{number:02}"], client="b")
        assert scheduler.running == ["a00"]
        scheduler.end_sentences("a00", _TURN)


def test_a_text_that_waits_can_be_given_up() -> None:
    scheduler = begin(1, a=3, b=1)
    scheduler.remove("a01")
    scheduler.remove("b00")
    assert "b00" not in scheduler
    scheduler.remove("a00")
    assert scheduler.running == ["a02"]
    scheduler.remove("a02")
    assert (scheduler.running, len(scheduler), scheduler._clients) == ([], 0, {})
