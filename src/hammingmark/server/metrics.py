"""Metrics for Prometheus.

No label value comes from a client: endpoints, statuses and reasons are from fixed lists, and other
values are counted as ``other``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Info,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from hammingmark._version import __version__
from hammingmark.records import Cost
from hammingmark.serialization import cost_to_dict

ENDPOINTS = (
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/responses",
    "/v1/models",
    "/v1/watermark/detect",
    "/v1/watermark/keys",
    "/healthz",
    "/readyz",
    "/metrics",
    "/",
    "/docs",
)
"""The endpoints; other paths are ``other``."""

STATUSES = ("marked", "partly", "unmarked", "refused")
"""The statuses of answers; a refused answer was generated and could not be marked."""

REASONS = (
    "complete",  # every sentence that can carry the mark was subject to the rule
    "fallbacks",  # no candidate was accepted for some sentences
    "insisted",  # the model insists on every sentence
    "short",  # too few sentences to show a mark
    "unmarkable",  # code, tables, tool calls
    "restarting",  # the upstream begins a new answer instead of continuing an unfinished one
    "switched_off",  # the request turned the watermark off, as the policy allows
    "failure",  # marking failed, and the policy delivers unmarked text
    "cut_short",  # the client disconnected, the time was up, or the model or audit log failed
)
"""The reasons of a status; others are ``other``."""

OTHER = "other"

_COSTS = {
    "candidates": "Candidates judged.",
    "candidates_tried": "Candidates judged by the rule.",
    "candidates_accepted": "Candidates that satisfied the rule; over those tried, the acceptance "
    "rate.",
    "constrained_sentences": "Sentences that were subject to the rule.",
    "fallbacks": "Sentences for which no candidate of the budget was accepted.",
    "insisted": "Sentences that the rule refuses, kept because the model insists on them.",
    "drawn_tokens": "Tokens drawn, in all candidates judged.",
    "emitted_tokens": "Tokens emitted.",
    "written_tokens": "Tokens that the model wrote, also those that were discarded.",
    "read_tokens": "Tokens of the prompts of all requests to the model.",
    "cached_tokens": "Those of them that were in its cache, as far as the upstream reports them.",
    "model_requests": "Requests to the model, also those that failed or were refused.",
    "estimated_requests": "Requests to the model whose tokens are counted from the text that "
    "arrived.",
}
"""The counted fields of the cost of answers, by the names of `cost_to_dict`."""

_SECONDS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 320.0)
_DETECTION_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class Metrics:
    """The metrics of the service, in a registry of their own; thread-safe.

    Attributes:
        queue_length: answers waiting or in progress.
        active_texts: texts being generated.
        audit_failures: audit records that could not be written in time; those of ends are
            written later.
        first_sentence_seconds: seconds from a request to its first accepted sentence.
        answer_seconds: seconds from a request to the end of its answer.
        detection_seconds: seconds of detection per request.
    """

    def __init__(self) -> None:
        self._registry = CollectorRegistry(auto_describe=True)
        ProcessCollector(registry=self._registry)
        Info("hammingmark", "The running version.", registry=self._registry).info(
            {"version": __version__}
        )

        self._requests = self._counter("requests", "Requests.", labels=("endpoint", "status"))
        self._answers = self._counter("answers", "Answers.", labels=("status", "reason"))
        self._costs = {
            name: self._counter(name, description) for name, description in _COSTS.items()
        }
        self._reloads = self._counter("key_reloads", "Reloads of key files.", labels=("outcome",))
        self.audit_failures = self._counter(
            "audit_failures", "Audit records that could not be written in time."
        )

        self.queue_length = self._gauge("queue_length", "Answers waiting or in progress.")
        self.active_texts = self._gauge("active_texts", "Texts being generated.")

        self.first_sentence_seconds = self._histogram(
            "first_sentence_seconds",
            "Seconds from a request to its first accepted sentence.",
            _SECONDS,
        )
        self.answer_seconds = self._histogram(
            "answer_seconds", "Seconds from a request to the end of its answer.", _SECONDS
        )
        self.detection_seconds = self._histogram(
            "detection_seconds", "Seconds of detection per request.", _DETECTION_SECONDS
        )
        self._marked = _MarkedSentences()
        self._registry.register(self._marked)
        for outcome in ("read", "failed"):  # a rate needs a zero to start from
            self._reloads.labels(outcome)

    def count_request(self, endpoint: str, *, status: int) -> None:
        """Count a request.

        Args:
            endpoint: the path, one of `ENDPOINTS`.
            status: the HTTP status.
        """
        code = str(status) if 100 <= status <= 599 else OTHER
        self._requests.labels(_known(endpoint, ENDPOINTS), code).inc()

    def count_answer(self, status: str, *, reason: str, cost: Cost | None = None) -> None:
        """Count an answer and its cost.

        Args:
            status: one of `STATUSES`.
            reason: one of `REASONS`.
            cost: the cost of the generation, if there was one.
        """
        self._answers.labels(_known(status, STATUSES), _known(reason, REASONS)).inc()
        if cost is not None:
            counts = cost_to_dict(cost)
            for name, counter in self._costs.items():
                counter.inc(counts[name])

    def count_key_reload(self, *, succeeded: bool) -> None:
        """Count a reload of the keyring or of the file of API keys."""
        self._reloads.labels("read" if succeeded else "failed").inc()

    def show_marked_sentences(self, totals: Callable[[], Mapping[tuple[str, str], int]]) -> None:
        """Show how many sentences keys have marked.

        Args:
            totals: gives the numbers, by the id and the label of the key.
        """
        self._marked.totals = totals

    def render(self) -> tuple[bytes, str]:
        """All metrics in Prometheus's format, and the content type."""
        return generate_latest(self._registry), CONTENT_TYPE_LATEST

    def _counter(self, name: str, description: str, *, labels: tuple[str, ...] = ()) -> Counter:
        return Counter(f"hammingmark_{name}", description, labels, registry=self._registry)

    def _gauge(self, name: str, description: str) -> Gauge:
        return Gauge(f"hammingmark_{name}", description, registry=self._registry)

    def _histogram(self, name: str, description: str, buckets: tuple[float, ...]) -> Histogram:
        return Histogram(
            f"hammingmark_{name}", description, buckets=buckets, registry=self._registry
        )


class _MarkedSentences(Collector):
    """The sentences that keys have marked, also before this process started."""

    def __init__(self) -> None:
        self.totals: Callable[[], Mapping[tuple[str, str], int]] = dict

    def collect(self) -> Iterator[Metric]:
        family = CounterMetricFamily(
            "hammingmark_marked_sentences",
            "Sentences that a key has marked, also before the start and in other processes, as far "
            "as is recorded.",
            labels=("key_id", "label"),
        )
        for labels, total in self.totals().items():
            family.add_metric(labels, total)
        yield family


def _known(name: str, names: Collection[str]) -> str:
    return name if name in names else OTHER
