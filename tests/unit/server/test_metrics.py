"""What the service counts."""

from __future__ import annotations

import threading

import pytest
from prometheus_client.parser import text_string_to_metric_families

from hammingmark._version import __version__
from hammingmark.records import Cost
from hammingmark.server.metrics import ENDPOINTS, OTHER, REASONS, STATUSES, Metrics

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def samples(metrics: Metrics) -> Samples:
    """The value of each series, by its name and labels, as Prometheus would read it."""
    content, kind = metrics.render()
    assert kind.startswith("text/plain")
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(content.decode())
        for sample in family.samples
    }


def value(metrics: Metrics, name: str, **labels: str) -> float:
    return samples(metrics)[f"hammingmark_{name}", tuple(sorted(labels.items()))]


def test_requests_are_counted_by_endpoint_and_status() -> None:
    metrics = Metrics()
    for status in (200, 200, 429):
        metrics.count_request("/v1/chat/completions", status=status)
    counted = {"endpoint": "/v1/chat/completions"}
    assert value(metrics, "requests_total", status="200", **counted) == 2
    assert value(metrics, "requests_total", status="429", **counted) == 1


def test_answers_are_counted_with_what_they_took() -> None:
    metrics = Metrics()
    cost = Cost(
        candidates=19,
        tokens=160,
        drawn_tokens=410,
        fallbacks=1,
        constrained=7,
        tried=17,
        passed=6,
        requests=40,
        read_tokens=5000,
        cached_tokens=4000,
        written_tokens=600,
        estimated_requests=12,
    )
    metrics.count_answer("marked", reason="complete", cost=cost)
    metrics.count_answer("partly", reason="fallbacks", cost=cost)
    metrics.count_answer("unmarked", reason="switched_off")
    assert value(metrics, "answers_total", status="marked", reason="complete") == 1
    assert value(metrics, "answers_total", status="partly", reason="fallbacks") == 1
    assert value(metrics, "answers_total", status="unmarked", reason="switched_off") == 1
    for name, count in {
        "candidates": 19,
        "candidates_tried": 17,
        "candidates_accepted": 6,
        "constrained_sentences": 7,
        "fallbacks": 1,
        "drawn_tokens": 410,
        "emitted_tokens": 160,
        "model_requests": 40,
        "read_tokens": 5000,
        "cached_tokens": 4000,
        "written_tokens": 600,
        "estimated_requests": 12,
    }.items():
        assert value(metrics, f"{name}_total") == 2 * count


def test_what_a_client_says_makes_no_new_series() -> None:
    metrics = Metrics()
    for number in range(500):
        metrics.count_request(f"/v1/{number}", status=1000 + number)
        metrics.count_answer(f"status {number}", reason=f"reason {number}")
    after = samples(metrics)
    assert after["hammingmark_requests_total", (("endpoint", OTHER), ("status", OTHER))] == 500
    assert after["hammingmark_answers_total", (("reason", OTHER), ("status", OTHER))] == 500
    for endpoint in ENDPOINTS:
        metrics.count_request(endpoint, status=200)
    for status in STATUSES:
        for reason in REASONS:
            metrics.count_answer(status, reason=reason)
    names = [name for name, _ in samples(metrics)]
    assert names.count("hammingmark_requests_total") == 1 + len(ENDPOINTS)
    assert names.count("hammingmark_answers_total") == 1 + len(STATUSES) * len(REASONS)


@pytest.mark.parametrize("name", ["first_sentence_seconds", "answer_seconds", "detection_seconds"])
def test_times_are_histograms(name: str) -> None:
    metrics = Metrics()
    for seconds in (0.3, 3.0, 1e6):
        getattr(metrics, name).observe(seconds)
    assert value(metrics, f"{name}_count") == 3
    assert value(metrics, f"{name}_sum") == pytest.approx(1_000_003.3)
    assert value(metrics, f"{name}_bucket", le="0.5") == 1
    assert value(metrics, f"{name}_bucket", le="5.0") == 2
    assert value(metrics, f"{name}_bucket", le="+Inf") == 3


def test_gauges_and_failures() -> None:
    metrics = Metrics()
    metrics.queue_length.inc()
    metrics.queue_length.inc()
    metrics.queue_length.dec()
    metrics.active_texts.set(4)
    metrics.audit_failures.inc()
    metrics.count_key_reload(succeeded=True)
    metrics.count_key_reload(succeeded=False)
    metrics.count_key_reload(succeeded=False)
    assert value(metrics, "queue_length") == 1
    assert value(metrics, "active_texts") == 4
    assert value(metrics, "audit_failures_total") == 1
    assert value(metrics, "key_reloads_total", outcome="read") == 1
    assert value(metrics, "key_reloads_total", outcome="failed") == 2


def test_what_has_not_happened_yet_is_zero_and_the_version_is_there() -> None:
    metrics = Metrics()
    assert value(metrics, "audit_failures_total") == 0
    assert value(metrics, "key_reloads_total", outcome="failed") == 0
    assert value(metrics, "fallbacks_total") == 0
    assert value(metrics, "info", version=__version__) == 1


def test_two_services_in_one_process_count_apart() -> None:
    one, other = Metrics(), Metrics()
    one.audit_failures.inc()
    assert value(one, "audit_failures_total") == 1
    assert value(other, "audit_failures_total") == 0


def test_threads_lose_no_count() -> None:
    metrics = Metrics()

    def count() -> None:
        for _ in range(500):
            metrics.count_request("/", status=200)

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert value(metrics, "requests_total", endpoint="/", status="200") == 2000
