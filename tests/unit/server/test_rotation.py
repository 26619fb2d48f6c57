"""Keys that change with the date: what marks, what is found, and what the service says of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from tests.unit.server.harness import (
    Clock,
    GatedBackend,
    Home,
    Live,
    Served,
    key_of,
    mark_of,
    marked,
    plain,
    streamed,
    text_of,
)

from hammingmark.assembly.detection import detector
from hammingmark.keys.periods import labels_between
from hammingmark.server.marking.rotation import Rotation
from hammingmark.server.settings import RotationConfig
from hammingmark.testing import FakeEncoder

Serve = Callable[..., Served]
DAILY = {"every": "day"}
DAY = timedelta(days=1)
LONG = 800  # tokens that suffice for a mark to be found among many keys
CREATED = key_of().created  # midnight of 2026-01-02


@pytest.fixture
def clock() -> Clock:
    return Clock(datetime(2026, 1, 3, 12, tzinfo=timezone.utc))


@pytest.mark.parametrize(
    ("every", "label"),
    [("hour", "2026-01-03T12"), ("day", "2026-01-03"), ("week", "2026-W01"), ("month", "2026-01")],
)
def test_the_date_names_the_key_that_marks(
    serve: Serve, clock: Clock, every: str, label: str
) -> None:
    served = serve(rotation={"every": every}, now=clock)
    answer = served.chat(max_tokens=LONG)
    derived = key_of().derive(label)
    mark = mark_of(answer)
    assert (mark["key_id"], mark["label"]) == (derived.id, label)
    assert answer.headers["x-watermark-key-id"] == derived.id
    found = served.detect(text_of(answer))
    assert (found["watermarked"], found["key_id"], found["label"]) == (True, derived.id, label)


def test_texts_of_earlier_days_are_found_after_restarts_and_by_the_library(
    serve: Serve, clock: Clock
) -> None:
    text = text_of(serve(rotation=DAILY, now=clock).chat(max_tokens=LONG))
    clock.time += DAY
    other = serve(rotation=DAILY, now=clock)
    assert mark_of(other.chat())["label"] == "2026-01-04"
    found = other.detect(text)
    assert (found["watermarked"], found["label"], found["keys"]) == (True, "2026-01-03", 4)
    days = labels_between("2026-01-02", "2026-01-04")  # since the key was made
    verdict = detector(key_of(), labels=days, encoder=FakeEncoder()).judge(text)
    assert verdict.label == "2026-01-03"
    assert found["p_value"] == pytest.approx((verdict.p_value or 0.0) * 4 / 3, rel=1e-12)
    assert other.detect(plain())["watermarked"] is False


def test_an_answer_in_progress_at_midnight_keeps_its_key(
    live: Callable[..., Live], clock: Clock
) -> None:
    backend = GatedBackend(after=8)
    service = live(backend=backend, rotation=DAILY, now=clock)
    with service.stream(max_tokens=LONG) as events:
        begun = [next(events)]
        clock.time += DAY
        backend.gate.set()
        begun += list(events)
    assert begun[-2]["watermark"]["label"] == "2026-01-03"
    body = {"text": streamed(begun)}
    (found,) = service.client.post("/v1/watermark/detect", json=body).json()["results"]
    assert (found["watermarked"], found["label"]) == (True, "2026-01-03")
    with service.stream() as events:
        assert list(events)[-2]["watermark"]["label"] == "2026-01-04"


def test_labels_of_the_policy_have_a_key_for_each_day(serve: Serve, clock: Clock) -> None:
    policy = {"labels": ["customer-17"]}
    before = serve(policy=policy, now=clock)
    old = before.chat(watermark={"label": "customer-17"}, max_tokens=LONG)
    served = serve(policy=policy, rotation=DAILY, now=clock)
    answer = served.chat(watermark={"label": "customer-17"}, max_tokens=LONG)
    label = "customer-17/2026-01-03"
    assert mark_of(answer)["label"] == label
    assert mark_of(answer)["key_id"] == key_of().derive(label).id
    assert mark_of(served.chat())["label"] == "2026-01-03"
    for each, expected in ((answer, label), (old, "customer-17")):
        found = served.detect(text_of(each))
        assert (found["watermarked"], found["label"]) == (True, expected)
        assert found["keys"] == 2 + 2 * 2  # the key, the label, and both on each of two days


def test_a_rotated_key_is_searched_on_its_own_days(
    serve: Serve, home: Home, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hammingmark.keys.key._now", clock)
    served = serve(rotation=DAILY, now=clock)
    answer = served.chat(max_tokens=LONG)
    _, new = home.keyring.rotate("default")
    clock.time += DAY
    again = served.chat(max_tokens=LONG)
    assert mark_of(again)["key_id"] == new.key.derive("2026-01-04").id
    for service in (served, serve(rotation=DAILY, now=clock)):
        for each, master, label in (
            (answer, key_of(), "2026-01-03"),
            (again, new.key, "2026-01-04"),
        ):
            found = service.detect(text_of(each))
            assert (found["watermarked"], found["label"]) == (True, label)
            assert found["key_id"] == master.derive(label).id
            assert found["keys"] == 2 + 2 + 2  # until the 3rd, and since then
    listed = {each["id"]: each for each in served.get("/v1/watermark/keys").json()["keys"]}
    told = {
        name: (each["marks"], each["label"], each["derived_keys"]) for name, each in listed.items()
    }
    assert told == {
        key_of().id: (False, None, 2),
        new.key.id: (True, "2026-01-04", 2),
    }


def test_the_horizon_is_what_the_setting_says(serve: Serve, clock: Clock) -> None:
    served = serve(rotation=DAILY | {"search": 3}, now=clock)
    text = text_of(served.chat(max_tokens=LONG))
    clock.time += 2 * DAY
    found = served.detect(text)
    assert (found["watermarked"], found["keys"]) == (True, 4)
    clock.time += DAY
    assert served.detect(text)["watermarked"] is False
    named = served.detect(text, keys=["default"], labels=["2026-01-03"])
    assert (named["watermarked"], named["keys"]) == (True, 1)


@pytest.mark.parametrize(
    ("every", "days", "count"),
    [("hour", 100, 168), ("day", 100, 90), ("week", 1000, 26), ("month", 1000, 12), ("day", 3, 4)],
)
def test_the_horizon_has_a_default_and_begins_with_the_key(
    every: Any, days: int, count: int
) -> None:
    rotation = Rotation(RotationConfig(every=every), now=lambda: CREATED + days * DAY)
    labels = rotation.labels(key_of())
    assert len(labels) == len(set(labels)) == count
    assert labels[0] == rotation.period_label()


def test_a_clock_behind_that_of_the_key_finds_what_it_marks() -> None:
    rotation = Rotation(RotationConfig(every="day"), now=lambda: CREATED - timedelta(hours=1))
    assert rotation.labels(key_of()) == [rotation.label(None)] == ["2026-01-01"]
    retired = replace(key_of(), retired=CREATED)
    late = Rotation(RotationConfig(every="day"), now=lambda: CREATED + 200 * DAY)
    assert late.labels(retired) == []


def test_without_rotation_the_key_itself_marks(serve: Serve, clock: Clock) -> None:
    served = serve(now=clock)
    answer = served.chat(max_tokens=LONG)
    assert (mark_of(answer)["key_id"], mark_of(answer)["label"]) == (key_of().id, None)
    assert served.detect(text_of(answer))["keys"] == 1
    (listed,) = served.get("/v1/watermark/keys").json()["keys"]
    assert (listed["marks"], listed["label"], listed["derived_keys"]) == (True, None, 0)


def test_texts_from_before_the_rotation_are_found(serve: Serve, clock: Clock) -> None:
    found = serve(rotation=DAILY, now=clock).detect(marked(key_of()))
    assert (found["watermarked"], found["key_id"], found["label"]) == (True, key_of().id, None)


def test_each_request_may_have_a_key_of_its_own(serve: Serve, home: Home, clock: Clock) -> None:
    served = serve(
        rotation={"every": "request"},
        policy={"labels": ["customer-17"]},
        audit={"file": home.audit},
        now=clock,
    )
    first = served.chat(max_tokens=LONG)
    second = served.chat(max_tokens=LONG)
    labels = [mark_of(each)["label"] for each in (first, second)]
    assert len(set(labels)) == 2
    for label, answer in zip(labels, (first, second), strict=True):
        assert mark_of(answer)["key_id"] == key_of().derive(label).id
        assert served.detect(text_of(answer))["watermarked"] is False
        found = served.detect(text_of(answer), keys=["default"], labels=labels)
        assert (found["watermarked"], found["label"], found["keys"]) == (True, label, 2)
    assert [row["label"] for row in home.records("begin")] == labels
    named = mark_of(served.chat(watermark={"label": "customer-17"}))
    assert named["label"].startswith("customer-17/")
    streamed_mark = mark_of(served.chat(stream=True))
    assert streamed_mark["label"] not in (None, *labels)
