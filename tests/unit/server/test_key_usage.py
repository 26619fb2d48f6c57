"""Sentences that keys have marked: counted, shown, warned of, and a reason to take another key."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from tests.errors import raises_naming
from tests.unit.server.harness import (
    Clock,
    GatedBackend,
    Home,
    Live,
    LoopThread,
    Served,
    broken_encoder,
    counts,
    key_of,
    mark_of,
    text_of,
    until,
)

from hammingmark.errors import InputError
from hammingmark.server.clients import Client
from hammingmark.server.marking import usage
from hammingmark.server.marking.schema import CompletionRequest
from hammingmark.server.marking.sentence_record import SentenceRecord

Serve = Callable[..., Served]
DAILY = {"every": "day"}
LONG = 320  # tokens that suffice for a mark to be found among several keys


@pytest.fixture
def clock() -> Clock:
    return Clock(datetime(2026, 1, 3, 12, tzinfo=timezone.utc))


@pytest.fixture
def warned(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The fields of what is logged of keys."""
    told: list[dict[str, Any]] = []

    def log(logger: logging.Logger, event: str, *, level: int, **fields: Any) -> None:
        told.append({"level": level, **fields})

    monkeypatch.setattr(usage, "log_event", log)
    return told


def recorded(home: Home) -> dict[str, int]:
    return dict(SentenceRecord(home.keyring.folder / "marked").counts(key_of().id))


def series(label: str = "") -> str:
    key = key_of().derive(label) if label else key_of()
    return f'key_id="{key.id}",label="{label}"'


def test_sentences_are_counted_across_restarts(serve: Serve, home: Home) -> None:
    served = serve(policy={"switch_off": "allowed"})
    assert counts(served, "marked_sentences_total") == {series(): 0}
    first = mark_of(served.chat())["sentences"]
    served.chat(watermark={"enabled": False})
    second = sum(mark_of(served.chat(stream=True, seed=seed))["sentences"] for seed in (4, 5))
    served.close()
    total = first + second
    assert first > 1
    assert recorded(home) == {"": total}
    again = serve()
    assert counts(again, "marked_sentences_total") == {series(): total}
    mark_of(again.chat())
    until(lambda: counts(again, "marked_sentences_total") == {series(): total + first})


def test_each_derived_key_has_a_count_of_its_own(serve: Serve, home: Home, clock: Clock) -> None:
    served = serve(rotation=DAILY, policy={"labels": ["customer-17"]}, now=clock)
    answers = [served.chat(n=2), served.chat(watermark={"label": "customer-17"})]
    sentences = [
        sum(each["watermark"]["sentences"] for each in a.json()["choices"]) for a in answers
    ]
    served.close()
    labels = ["2026-01-03", "customer-17/2026-01-03"]
    assert recorded(home) == dict(zip(labels, sentences, strict=True))
    shown = counts(served, "marked_sentences_total")
    assert shown == {series(label): n for label, n in zip(labels, sentences, strict=True)}


def test_what_was_sent_of_an_interrupted_answer_counts(
    live: Callable[..., Live], home: Home
) -> None:
    backend = GatedBackend(after=6)
    service = live(backend=backend)
    with service.stream(max_tokens=LONG) as events:
        sent = 0
        for event in events:
            sent += bool(event["choices"][0]["delta"].get("content"))
            if sent == 3:
                break
    until(lambda: recorded(home))
    assert 3 <= recorded(home)[""] <= 6


def test_what_was_not_sent_does_not_count(serve: Serve, home: Home) -> None:
    served = serve(encoder=broken_encoder())
    assert served.chat().status_code == 503
    served.close()
    assert recorded(home) == {}


def test_a_key_that_marked_many_sentences_is_warned_of_once(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, warned: list[dict[str, Any]]
) -> None:
    sentences = mark_of(serve().chat(stream=True))["sentences"]
    monkeypatch.setattr(usage, "ADVISED_SENTENCES", 3 * sentences)
    served = serve()
    for _ in range(3):
        mark_of(served.chat())
    served.close()
    (told,) = warned
    assert told["level"] == logging.WARNING
    assert (told["kind"], told["key_id"], told["label"]) == ("worn_key", key_of().id, None)
    assert told["sentences"] >= told["advised"] == 3 * sentences
    serve()  # says it again where it starts
    assert len(warned) == 2


def test_another_key_follows_after_so_many_sentences(
    serve: Serve, home: Home, clock: Clock
) -> None:
    rotation = DAILY | {"sentences": 30}
    served = serve(rotation=rotation, now=clock)
    told = [mark_of(served.chat(seed=seed)) for seed in range(6)]
    served.close()
    again = serve(rotation=rotation, now=clock)  # which goes on counting
    told += [mark_of(again.chat(seed=seed)) for seed in range(6, 12)]
    again.close()
    labels = list(dict.fromkeys(mark["label"] for mark in told))
    assert labels[:3] == ["2026-01-03", "2026-01-03.2", "2026-01-03.3"]
    sums = dict.fromkeys(labels, 0)
    for mark in told:
        sums[mark["label"]] += mark["sentences"]
        assert mark["key_id"] == key_of().derive(mark["label"]).id
    assert recorded(home) == sums
    assert max(sums.values()) <= 30 + max(mark["sentences"] for mark in told)
    assert sorted(sums.values())[1] > 15  # they are filled
    (listed,) = serve(rotation=rotation, now=clock).get("/v1/watermark/keys").json()["keys"]
    assert (listed["label"], listed["derived_keys"]) == (labels[-1], len(labels) + 1)


def test_answers_in_progress_count_for_their_key(live: Callable[..., Live], clock: Clock) -> None:
    service = live(backend=GatedBackend(after=0), rotation=DAILY | {"sentences": 5}, now=clock)
    key, rotation = key_of(), service.service.rotation
    with service.asking(), service.asking():
        until(lambda: rotation.label_in_use(key) == "2026-01-03.2")
    # Nothing was sent, so both are free again.
    until(lambda: rotation.label_in_use(key) == "2026-01-03" and len(rotation.labels(key)) == 2)


def test_numbered_labels_are_found_by_other_processes_and_after_the_day(
    serve: Serve, clock: Clock
) -> None:
    rotation = DAILY | {"sentences": 3}
    served = serve(rotation=rotation, now=clock)
    answers = [served.chat(max_tokens=LONG) for _ in range(2)]
    assert [mark_of(each)["label"] for each in answers] == ["2026-01-03", "2026-01-03.2"]
    other = serve(rotation=rotation, now=clock)
    clock.time += timedelta(days=1)
    late = serve(rotation=DAILY, now=clock)
    off = serve(now=clock)
    for service, keys in ((served, 5), (other, 5), (late, 5), (off, 3)):
        found = service.detect(text_of(answers[1]))
        assert (found["watermarked"], found["label"]) == (True, "2026-01-03.2")
        assert found["keys"] == keys
    clock.time += timedelta(days=90)
    assert off.detect(text_of(answers[1]))["keys"] == 1


def test_texts_of_a_clock_that_was_ahead_are_found(serve: Serve, clock: Clock) -> None:
    ahead = Clock(clock.time + timedelta(days=30))
    served = serve(rotation=DAILY, now=ahead)
    answer = served.chat(max_tokens=LONG)
    served.close()
    found = serve(rotation=DAILY, now=clock).detect(text_of(answer))
    assert (found["watermarked"], found["label"], found["keys"]) == (True, "2026-02-02", 4)


def test_a_change_of_the_period_loses_no_text(serve: Serve, clock: Clock) -> None:
    served = serve(rotation=DAILY, now=clock)
    answer = served.chat(max_tokens=LONG)
    served.close()
    clock.time += timedelta(days=20)
    found = serve(rotation={"every": "month"}, now=clock).detect(text_of(answer))
    assert (found["watermarked"], found["label"], found["keys"]) == (True, "2026-01-03", 3)


def test_what_cannot_be_recorded_is_marked_under_the_date(
    serve: Serve, home: Home, clock: Clock
) -> None:
    rotation = DAILY | {"sentences": 3}
    served = serve(rotation=rotation, now=clock)
    folder = home.keyring.folder / "marked"
    (folder / f"{key_of().id}.json").write_text("{")
    answers = [served.chat(max_tokens=LONG) for _ in range(2)]
    assert [mark_of(each)["label"] for each in answers] == ["2026-01-03"] * 2
    assert served.detect(text_of(answers[1]))["watermarked"] is True
    with raises_naming(InputError, folder):
        home.service(rotation=rotation)
    assert home.service(rotation=DAILY)  # which needs no record


def test_the_folder_of_the_counts_is_a_setting(serve: Serve, home: Home) -> None:
    served = serve(rotation={"record": home.folder / "counts"})
    mark_of(served.chat())
    served.close()
    assert SentenceRecord(home.folder / "counts").counts(key_of().id)
    assert not (home.keyring.folder / "marked").exists()


def test_a_client_who_leaves_before_the_label_is_there_costs_nothing(
    home: Home, loop: LoopThread, clock: Clock
) -> None:
    service = home.service(rotation=DAILY | {"sentences": 30}, now=clock)
    client = Client("r", "127.0.0.1", None)
    plan = service.planner.plan(CompletionRequest(prompt="It was late.", max_tokens=100), client)
    held = threading.Event()
    service.usage._writing.submit(held.wait)

    async def leave() -> None:
        assigning = asyncio.ensure_future(service.usage.assign(plan))
        await asyncio.sleep(0)
        assigning.cancel()
        held.set()
        await asyncio.gather(assigning, return_exceptions=True)

    loop.run(leave())
    for _ in range(2):  # what has been queued is done, and what that queued
        service.usage._writing.submit(int).result()
    assert recorded(home) == {}
    loop.run(service.close())
