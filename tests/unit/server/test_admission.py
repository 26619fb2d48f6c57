"""Room for answers: of all, of one client, and when to come again."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field

import pytest

from hammingmark.generation.pace import Pace
from hammingmark.server.admission import Admission, IncomingBodies, WaitLimit
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


def test_bodies_of_one_client_are_bounded_until_they_have_arrived() -> None:
    bodies = IncomingBodies(capacity=3, timeout=30.0, patient=2)
    with ExitStack() as held:
        seconds = [held.enter_context(bodies.expected("much")) for _ in range(3)]
        assert seconds == [30.0, 30.0, 1.0]
        with pytest.raises(APIError) as refused, bodies.expected("much"):
            pass
        assert (refused.value.status, refused.value.code) == (429, "too_many_requests")
        assert held.enter_context(bodies.expected("little")) == 30.0
    with bodies.expected("much") as timeout:
        assert timeout == 30.0


def test_no_body_has_longer_than_the_setting_says() -> None:
    bodies = IncomingBodies(capacity=2, timeout=0.5, patient=0)
    with bodies.expected("one") as timeout:
        assert timeout == 0.5


@dataclass
class Engine:
    """An engine that draws 64 tokens a second, 128 until a first sentence and 1,024 in all."""

    pace: Pace = field(default_factory=lambda: Pace(4, draws_apart=True))
    begun: int = 0

    def measure(self) -> Engine:
        for _ in range(8):
            self.pace.record(64, 1.0, texts=4)
        self.pace.record_first(128)
        self.pace.record_whole(1024, is_complete=True)
        return self


def test_a_first_sentence_that_would_come_too_late_is_refused() -> None:
    limit = WaitLimit(Engine().measure(), first=9.0, whole=1000.0)
    with ExitStack() as held:
        for _ in range(4):
            held.enter_context(limit.admitted(1))
        with pytest.raises(APIError) as refused, limit.admitted(1):
            pass
        assert (refused.value.status, refused.value.code) == (429, "busy")
        assert refused.value.retry_after == pytest.approx(1.0)
        with pytest.raises(APIError), limit.admitted(4):
            pass
    with limit.admitted(40):  # of an idle service
        pass


def test_who_has_a_first_sentence_makes_room_for_others() -> None:
    engine = Engine().measure()
    limit = WaitLimit(engine, first=9.0, whole=1000.0)
    with limit.admitted(4):
        engine.begun = 4
        with limit.admitted(4), pytest.raises(APIError), limit.admitted(1):
            pass


def test_an_answer_that_could_not_end_in_time_is_refused() -> None:
    engine = Engine().measure()
    limit = WaitLimit(engine, first=9.0, whole=30.0)
    with limit.admitted(1):
        engine.begun = 1
        with pytest.raises(APIError) as refused, limit.admitted(2):
            pass
        assert refused.value.retry_after == pytest.approx(2.5 * 16.0 - 30.0)
        with limit.admitted(1):
            pass


@pytest.mark.parametrize(
    "limit",
    [
        WaitLimit(Engine(), first=9.0, whole=30.0),  # nothing was measured
        WaitLimit(Engine().measure(), first=0.0, whole=30.0),
    ],
)
def test_without_a_measure_or_without_the_limit_all_are_admitted(limit: WaitLimit) -> None:
    with ExitStack() as held:
        for _ in range(100):
            held.enter_context(limit.admitted(8))
