"""What the service counts and times, for Prometheus.

No label comes from a client: endpoints, statuses and reasons are of fixed lists, and what is on
none of them is counted as ``other``.
"""

from __future__ import annotations

from collections.abc import Collection

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

from hammingmark._version import __version__
from hammingmark.records import Cost
from hammingmark.serialization import cost_to_dict

ENDPOINTS = (
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/models",
    "/v1/watermark/detect",
    "/v1/watermark/keys",
    "/healthz",
    "/readyz",
    "/metrics",
    "/",
    "/docs",
)
"""What can be called; anything else is ``other``."""

STATUSES = ("marked", "partly", "unmarked", "refused")
"""How an answer may turn out; one that is refused was written and could not be marked."""

REASONS = (
    "complete",  # every sentence that can carry the mark was subject to the rule
    "fallbacks",  # for some sentences no candidate was accepted
    "short",  # too few sentences for a mark to show
    "unmarkable",  # code, tables, tool calls
    "switched_off",  # the request asked for it and was allowed to
    "failure",  # marking failed, and the policy is to deliver
    "cut_short",  # the client left, the time was up, or the model or the audit log failed
)
"""Why; anything else is ``other``."""

OTHER = "other"

_COSTS = {
    "candidates": "Candidates judged.",
    "candidates_tried": "Candidates judged by the rule.",
    "candidates_accepted": "Candidates that satisfied the rule; over those tried, the acceptance "
    "rate.",
    "constrained_sentences": "Sentences that were subject to the rule.",
    "fallbacks": "Sentences for which no candidate of the budget was accepted.",
    "drawn_tokens": "Tokens drawn, in all candidates.",
    "emitted_tokens": "Tokens emitted.",
}
"""What is counted of the cost of answers, by the names of `cost_to_dict`."""

_SECONDS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 320.0)
_DETECTION_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class Metrics:
    """The service's metrics in a registry of their own; any thread may count.

    Attributes:
        queue_length: answers waiting or under way.
        active_texts: texts being written.
        audit_failures: records that the audit log could not take when they came; those of ends
            are written later.
        first_sentence_seconds: from a request to its first accepted sentence.
        answer_seconds: from a request to the end of its answer.
        detection_seconds: for the texts of one detection request.
    """

    def __init__(self) -> None:
        self._registry = CollectorRegistry(auto_describe=True)
        ProcessCollector(registry=self._registry)
        Info("hammingmark", "What runs.", registry=self._registry).info({"version": __version__})

        self._requests = self._counter("requests", "Requests.", labels=("endpoint", "status"))
        self._answers = self._counter("answers", "Answers.", labels=("status", "reason"))
        self._costs = {
            name: self._counter(name, description) for name, description in _COSTS.items()
        }
        self._reloads = self._counter(
            "key_reloads", "Times that a file of keys was read again.", labels=("outcome",)
        )
        self.audit_failures = self._counter(
            "audit_failures", "Records that the audit log could not take when they came."
        )

        self.queue_length = self._gauge("queue_length", "Answers waiting or under way.")
        self.active_texts = self._gauge("active_texts", "Texts being written.")

        self.first_sentence_seconds = self._histogram(
            "first_sentence_seconds", "From a request to its first accepted sentence.", _SECONDS
        )
        self.answer_seconds = self._histogram(
            "answer_seconds", "From a request to the end of its answer.", _SECONDS
        )
        self.detection_seconds = self._histogram(
            "detection_seconds", "For the texts of one detection request.", _DETECTION_SECONDS
        )
        for outcome in ("read", "failed"):  # a rate needs a zero to start from
            self._reloads.labels(outcome)

    def count_request(self, endpoint: str, *, status: int) -> None:
        """Count a request.

        Args:
            endpoint: the path, one of `ENDPOINTS`.
            status: of HTTP.
        """
        code = str(status) if 100 <= status <= 599 else OTHER
        self._requests.labels(_known(endpoint, ENDPOINTS), code).inc()

    def count_answer(self, status: str, *, reason: str, cost: Cost | None = None) -> None:
        """Count an answer and what it took.

        Args:
            status: one of `STATUSES`.
            reason: one of `REASONS`.
            cost: of the generation, if there was one.
        """
        self._answers.labels(_known(status, STATUSES), _known(reason, REASONS)).inc()
        if cost is not None:
            counts = cost_to_dict(cost)
            for name, counter in self._costs.items():
                counter.inc(counts[name])

    def count_key_reload(self, *, succeeded: bool) -> None:
        """Count that the keyring, or the file of API keys, was read again."""
        self._reloads.labels("read" if succeeded else "failed").inc()

    def render(self) -> tuple[bytes, str]:
        """All metrics as Prometheus reads them, and the content type."""
        return generate_latest(self._registry), CONTENT_TYPE_LATEST

    def _counter(self, name: str, words: str, *, labels: tuple[str, ...] = ()) -> Counter:
        return Counter(f"hammingmark_{name}", words, labels, registry=self._registry)

    def _gauge(self, name: str, words: str) -> Gauge:
        return Gauge(f"hammingmark_{name}", words, registry=self._registry)

    def _histogram(self, name: str, words: str, buckets: tuple[float, ...]) -> Histogram:
        return Histogram(f"hammingmark_{name}", words, buckets=buckets, registry=self._registry)


def _known(name: str, names: Collection[str]) -> str:
    return name if name in names else OTHER
