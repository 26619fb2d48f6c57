"""``/v1/watermark/report``: a dated report on a text, of which nothing is kept."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, timezone

import pytest
from tests.unit.server.harness import Home, Served, key_of, marked, plain

REPORT = "/v1/watermark/report"
Serve = Callable[..., Served]


def test_a_report_has_the_verdict_of_detection(serve: Serve) -> None:
    served = serve(operator={"name": "Example News"})
    text = marked(key_of())
    answer = served.post(REPORT, {"text": text, "level": 0.001, "utc_offset": 90}).json()
    report = answer["report"]
    assert report["verdict"] == served.detect(text, level=0.001)
    assert report["key_name"] == "default"
    assert report["operator"]["name"] == "Example News"
    assert f"Marked by Example News’s service (key {key_of().id})." in report["sentences"]
    made, local = (datetime.fromisoformat(report[name]) for name in ("made", "made_local"))
    assert made == local
    assert local.utcoffset() == timedelta(minutes=90)
    assert abs(datetime.now(timezone.utc) - made) < timedelta(minutes=5)
    assert report["text_sha256"] in answer["html"]


def test_a_key_of_somebody_else_is_not_called_the_services(serve: Serve, home: Home) -> None:
    served = serve(operator={"name": "Example News"})
    home.keyring.add(key_of(9), name="of-another")
    report = served.post(REPORT, {"text": marked(key_of(9))}).json()["report"]
    assert report["key_name"] == "of-another"
    assert f"Marked with a key of Example News (key {key_of(9).id})." in report["sentences"]


def test_a_derived_key_of_the_service_is_its_own(serve: Serve) -> None:
    served = serve(operator={"name": "Example News"}, policy={"labels": ["shop"]})
    key = key_of().derive("shop")
    report = served.post(REPORT, {"text": marked(key)}).json()["report"]
    assert f"Marked by Example News’s service (key {key.id}, label shop)." in report["sentences"]


def test_a_report_tells_no_more_than_detection_does(serve: Serve) -> None:
    served = serve(open=True)
    answer = served.post(REPORT, {"text": plain(1) + plain(2)}).json()
    verdict = answer["report"]["verdict"]
    assert verdict == served.detect(plain(1) + plain(2))
    assert verdict["p_value"] is None
    assert all(piece["score"] is None for piece in verdict["pieces"])


def test_the_limits_of_detection_hold(serve: Serve) -> None:
    served = serve(limits={"text_characters": 100, "texts_per_minute": 2})
    assert served.post(REPORT, {"text": "a" * 101}).status_code == 413
    assert [served.post(REPORT, {"text": "It rained."}).status_code for _ in range(3)][1:] == [
        200,
        429,
    ]


def test_a_report_on_what_was_just_judged_is_no_near_copy(serve: Serve) -> None:
    served = serve(limits={"near_copies": 1})
    text = " ".join(plain(seed) for seed in range(4))
    for path in ("/v1/watermark/detect", REPORT, REPORT, REPORT):
        assert served.post(path, {"text": text}).status_code == 200


@pytest.mark.parametrize(
    "wrong",
    [{}, {"texts": ["a"]}, {"text": "a", "utc_offset": 841}, {"text": "a", "pieces": True}],
)
def test_other_requests_are_refused(serve: Serve, wrong: dict[str, object]) -> None:
    answer = serve().post(REPORT, wrong)
    assert answer.status_code == 422
    assert answer.json()["error"]["param"] in ("text", "texts", "utc_offset", "pieces")
