"""Room for answers: of all, of one client, and when to come again."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from hammingmark.server.admission import Admission
from hammingmark.server.api_error import APIError


def refusal(room: Admission, answers: int, client: str) -> APIError:
    with pytest.raises(APIError) as refused, room.admitted(answers, client=client):
        pass
    assert (refused.value.status, refused.value.code) == (429, "queue_full")
    return refused.value


def test_one_client_leaves_room_for_others() -> None:
    room = Admission(capacity=16, parallel=2)
    with ExitStack() as held:
        for _ in range(7):
            held.enter_context(room.admitted(2, client="much"))
        refusal(room, 1, "much")
        held.enter_context(room.admitted(2, client="little"))
        assert len(room) == 16
        refusal(room, 1, "nobody yet")
    assert len(room) == 0
    with room.admitted(1, client="much"):
        assert len(room) == 1


@pytest.mark.parametrize("most", [1, 2, 7])
def test_few_places_are_anybodys(most: int) -> None:
    room = Admission(capacity=most, parallel=1)
    with ExitStack() as held:
        for _ in range(most):
            held.enter_context(room.admitted(1, client="one"))
        assert 0.0 < (refusal(room, 1, "other").retry_after or 0.0) <= 120.0


def test_where_there_is_nothing_to_do_any_request_has_room() -> None:
    room = Admission(capacity=8, parallel=8)
    with room.admitted(20, client="one"):
        refusal(room, 1, "other")
    assert len(room) == 0


def test_what_fails_gives_its_room_back() -> None:
    room = Admission(capacity=8, parallel=8)
    with pytest.raises(RuntimeError), room.admitted(3, client="one"):
        raise RuntimeError
    assert len(room) == 0
