"""Places for texts: shared between clients, and nobody passed over for ever."""

from __future__ import annotations

from collections import Counter

from hammingmark.generation.scheduler import _TURN, FairScheduler


def clients_of(turns: FairScheduler[str]) -> Counter[str]:
    """How many places each client has; a text's first letter is its client."""
    return Counter(text[0] for text in turns.running)


def begin(places: int, **texts: int) -> FairScheduler[str]:
    turns: FairScheduler[str] = FairScheduler(places)
    for client, number in texts.items():
        turns.add([f"{client}{place:02}" for place in range(number)], client=client)
    return turns


def test_one_client_is_served_in_order_and_never_interrupted() -> None:
    turns = begin(2, a=4)
    for _ in range(3 * _TURN):
        turns.end_sentences("a00", 1)
    assert turns.running == ["a00", "a01"]
    turns.remove("a01")
    assert turns.running == ["a00", "a02"]
    turns.remove("a00")
    assert turns.running == ["a02", "a03"]
    assert len(turns) == 2


def test_a_free_place_goes_to_who_holds_fewest() -> None:
    turns = begin(3, a=9, b=2, c=1)
    assert clients_of(turns) == {"a": 3}
    for text in ("a00", "a01", "a02"):
        turns.remove(text)
    assert clients_of(turns) == {"a": 1, "b": 1, "c": 1}


def test_who_holds_much_makes_room_at_the_next_end_of_a_sentence() -> None:
    turns = begin(8, a=20, b=8)
    assert clients_of(turns) == {"a": 8}
    for number in range(8):
        turns.end_sentences(f"a{number:02}", 1)
    assert clients_of(turns) == {"a": 4, "b": 4}
    for text in turns.running:
        turns.end_sentences(text, 10 * _TURN)
    assert clients_of(turns) == {"a": 4, "b": 4}  # and nothing is interrupted for nothing


def test_a_text_goes_on_where_it_stopped_before_later_ones() -> None:
    turns = begin(2, a=3, b=1)
    turns.end_sentences("a00", 1)
    assert turns.running == ["a01", "b00"]
    turns.remove("b00")
    assert turns.running == ["a01", "a00"]


def test_more_clients_than_places_take_turns_of_some_sentences() -> None:
    turns = begin(1, a=5, b=1, c=1)
    seen = []
    for _ in range(6 * _TURN):
        (text,) = turns.running
        seen.append(text)
        turns.end_sentences(text, 1)
    assert seen[::_TURN] == ["a00", "b00", "c00"] * 2
    assert all(len(set(seen[place : place + _TURN])) == 1 for place in range(0, len(seen), _TURN))


def test_who_comes_again_and_again_does_not_pass_those_who_wait() -> None:
    turns = begin(1, a=1)
    turns.add(["b00"], client="b")
    turns.end_sentences("a00", _TURN)
    for number in range(1, 5):
        assert turns.running == [f"b{number - 1:02}"]
        turns.remove(f"b{number - 1:02}")
        turns.add([f"b{number:02}"], client="b")
        assert turns.running == ["a00"]
        turns.end_sentences("a00", _TURN)


def test_a_text_that_waits_can_be_given_up() -> None:
    turns = begin(1, a=3, b=1)
    turns.remove("a01")
    turns.remove("b00")
    assert "b00" not in turns
    turns.remove("a00")
    assert turns.running == ["a02"]
    turns.remove("a02")
    assert (turns.running, len(turns), turns._clients) == ([], 0, {})
