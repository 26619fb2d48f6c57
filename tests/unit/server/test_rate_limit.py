"""How often each client may ask."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.errors import raises_naming

from hammingmark.errors import InputError
from hammingmark.server.admission import RateLimiter
from hammingmark.server.clients import client_network


class Clock:
    """A clock that stands still until it is set."""

    def __init__(self, now: float = 0.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def test_a_minutes_worth_at_once_and_then_a_steady_rate() -> None:
    clock = Clock(1e6)
    limiter = RateLimiter(60, clock=clock)
    assert [limiter.take("web") for _ in range(60)] == [0.0] * 60
    assert limiter.take("web") == pytest.approx(1.0)
    clock.now += 0.25
    assert limiter.take("web") == pytest.approx(0.75)
    clock.now += 0.75
    assert limiter.take("web") == 0.0
    assert limiter.take("web") == pytest.approx(1.0)
    clock.now += 3600.0
    assert [limiter.take("web") for _ in range(60)] == [0.0] * 60
    assert limiter.take("web") > 0.0


def test_a_client_does_not_pay_for_another() -> None:
    limiter = RateLimiter(1, clock=Clock())
    assert limiter.take("one") == 0.0
    assert limiter.take("one") == pytest.approx(60.0)
    assert limiter.take("other") == 0.0


def test_less_than_one_request_a_minute() -> None:
    clock = Clock()
    limiter = RateLimiter(0.5, clock=clock)
    assert limiter.take("web") == 0.0
    assert limiter.take("web") == pytest.approx(120.0)
    clock.now += 120.0
    assert limiter.take("web") == 0.0


def test_a_client_may_have_a_rate_of_its_own() -> None:
    limiter = RateLimiter(1, clock=Clock())
    assert [limiter.take("partner", rate=3) for _ in range(3)] == [0.0] * 3
    assert limiter.take("partner", rate=3) == pytest.approx(20.0)
    unlimited = RateLimiter(None, clock=Clock())
    assert all(unlimited.take("web") == 0.0 for _ in range(1000))
    assert len(unlimited) == 0
    assert unlimited.take("guest", rate=1) == 0.0
    assert unlimited.take("guest", rate=1) > 0.0


def test_a_lower_rate_holds_at_once() -> None:
    limiter = RateLimiter(None, clock=Clock())
    assert limiter.take("web", rate=100) == 0.0
    assert limiter.take("web", rate=1) == 0.0
    assert limiter.take("web", rate=1) == pytest.approx(60.0)


def test_only_so_many_are_remembered_and_the_least_recent_is_forgotten() -> None:
    limiter = RateLimiter(1, clock=Clock(), capacity=2)
    limiter.take("a")
    limiter.take("b")
    assert limiter.take("a") > 0.0  # so b is now the least recent
    limiter.take("c")
    assert len(limiter) == 2
    assert limiter.take("a") > 0.0
    assert limiter.take("b") == 0.0  # forgotten
    for number in range(1000):
        limiter.take(f"client {number}")
    assert len(limiter) == 2


@given(
    rate=st.floats(0.1, 1000.0),
    start=st.floats(0.0, 1e7),
    steps=st.lists(st.floats(0.0, 100.0), min_size=1, max_size=60),
)
def test_nobody_gets_more_than_the_rate_and_waiting_as_told_helps(
    rate: float, start: float, steps: list[float]
) -> None:
    clock = Clock(start)
    limiter = RateLimiter(rate, clock=clock)
    allowed = 0
    for step in steps:
        clock.now += step
        wait = limiter.take("web")
        assert 0.0 <= wait <= 60.0 / rate + 1e-6
        allowed += wait == 0.0
        # A request at most is forgiven to rounding, 1e-6 of it at a time.
        assert allowed <= max(1.0, rate) + rate * (clock.now - start) / 60.0 + 1e-3
        if wait:
            clock.now += wait
            assert limiter.take("web") == 0.0
            allowed += 1


def test_a_clock_that_goes_back_gives_nothing_away() -> None:
    clock = Clock(100.0)
    limiter = RateLimiter(1, clock=clock)
    assert limiter.take("web") == 0.0
    clock.now = 50.0
    assert limiter.take("web") == pytest.approx(60.0)
    clock.now = 100.0
    assert limiter.take("web") == pytest.approx(60.0)


def test_threads_together_get_no_more() -> None:
    limiter = RateLimiter(100, clock=Clock())
    waits: list[float] = []

    def ask() -> None:
        for _ in range(50):
            waits.append(limiter.take("web"))  # noqa: PERF401

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(waits) == 400
    assert sum(wait == 0.0 for wait in waits) == 100


@pytest.mark.parametrize("rate", [0.0, -1.0, float("inf"), float("nan")])
def test_a_rate_that_is_none_is_refused(rate: float) -> None:
    with raises_naming(InputError, rate):
        RateLimiter(rate)
    with raises_naming(InputError, rate):
        RateLimiter(None).take("web", rate=rate)
    with raises_naming(InputError, "capacity", 0):
        RateLimiter(1, capacity=0)


@pytest.mark.parametrize(
    ("address", "client"),
    [
        ("10.1.2.3", "10.1.2.3"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::9", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::ffff:10.1.2.3", "10.1.2.3"),
        ("testclient", "testclient"),
        ("", ""),
    ],
)
def test_whoever_has_an_ipv6_network_is_one_client(address: str, client: str) -> None:
    assert client_network(address) == client
