"""The wear of keys: how many sentences each has marked, and which key marks the next answer."""

from __future__ import annotations

import asyncio
import logging
import math
import threading
from collections import OrderedDict
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace

from hammingmark.keys.key import WatermarkKey
from hammingmark.server.logs import log_event
from hammingmark.server.marking.planning import GenerationPlan
from hammingmark.server.marking.sentence_record import SentenceRecord
from hammingmark.server.settings import RotationConfig

ADVISED_SENTENCES = 1_000
"""The sentences after which ``docs/security.md`` advises another key, even where only the removal
of the mark would do harm."""

_LOG = logging.getLogger("hammingmark.server")
_TYPICAL_SENTENCES = 10  # of an answer, counted until its end
_SENTENCE_TOKENS = 20
_MOST_KEYS = 100  # whose counts the metrics show


class KeyUsage:
    """Counts the sentences that each key has marked, and warns once of a key that marked many.

    Files are written in a thread of their own, so that no answer waits for the disk, except for its
    label where labels have numbers.

    Args:
        config: the settings.
        record: the counts.
    """

    def __init__(self, config: RotationConfig, record: SentenceRecord) -> None:
        self._most = config.sentences
        self._counts_keys = config.every != "request"
        self._record = record
        self._writing = ThreadPoolExecutor(1, "hammingmark-usage")
        self._lock = threading.Lock()
        self._waiting = 0  # counts that have not been added
        self._totals: OrderedDict[tuple[str, str], int] = OrderedDict()
        self._worn: set[str] = set()

    @property
    def totals(self) -> Mapping[tuple[str, str], int]:
        """The sentences of the keys used last, by the id and the label of the key."""
        with self._lock:
            return dict(self._totals)

    def begin(self, key: WatermarkKey, label: str | None) -> None:
        """Read the count of the key that marks.

        Args:
            key: the key.
            label: the label of the derived key that marks in its place.

        Raises:
            HammingMarkError: labels have numbers, which cannot be recorded.
        """
        if self._most is not None:
            self._record.require_writable(key.id)
        if self._counts_keys:
            self._look(key, key.derive(label) if label else key)

    async def assign(self, plan: GenerationPlan) -> GenerationPlan:
        """The plan, with a key that has not marked enough sentences yet."""
        if self._most is None or plan.key is None or plan.master is None or not plan.key.label:
            return plan
        answers = plan.choices * max(1, len(plan.prompts))
        typical = min(_TYPICAL_SENTENCES, math.ceil(plan.config.max_tokens / _SENTENCE_TOKENS))
        plan = replace(plan, reserved=answers * typical)
        taking = self._writing.submit(self._take, plan, self._most)
        try:
            return await asyncio.wrap_future(taking)
        except asyncio.CancelledError:
            taking.add_done_callback(self._give_back)
            raise

    def settle(self, plan: GenerationPlan, sentences: int) -> None:
        """Count the sentences of a plan that has ended.

        Args:
            plan: the plan, as of `assign`.
            sentences: those that clients were sent under its key.
        """
        if self._counts_keys and plan.key is not None and (sentences or plan.reserved):
            with suppress(RuntimeError):  # it is closed
                self._writing.submit(self._count, plan, sentences)
                with self._lock:
                    self._waiting += 1

    def close(self) -> None:
        """Write what is left."""
        self._writing.shutdown()

    def _take(self, plan: GenerationPlan, most: int) -> GenerationPlan:
        assert plan.key is not None
        assert plan.master is not None
        first = plan.key.label or ""
        label = self._record.take(plan.master.id, first, count=plan.reserved, most=most)
        return plan if label == first else replace(plan, key=plan.master.derive(label))

    def _give_back(self, taking: Future[GenerationPlan]) -> None:
        if not taking.cancelled() and taking.exception() is None:
            self.settle(taking.result(), 0)

    def _count(self, plan: GenerationPlan, sentences: int) -> None:
        assert plan.key is not None
        assert plan.master is not None
        label = _label(plan.key, plan.master)
        self._record.add(plan.master.id, label, sentences - plan.reserved)
        with self._lock:
            self._waiting -= 1
            is_last = self._waiting <= 0
        if is_last:  # otherwise those that wait are written together
            self._record.write()
        self._look(plan.master, plan.key)

    def _look(self, master: WatermarkKey, key: WatermarkKey) -> None:
        """Show the count of a key, and warn if it is large."""
        label = _label(key, master)
        total = self._record.counts(master.id).get(label, 0)
        with self._lock:
            self._totals[key.id, label] = total
            self._totals.move_to_end((key.id, label))
            while len(self._totals) > _MOST_KEYS:
                self._totals.popitem(last=False)
        if total >= ADVISED_SENTENCES and key.id not in self._worn:
            self._worn.add(key.id)
            log_event(
                _LOG,
                "key has marked many sentences",
                level=logging.WARNING,
                kind="worn_key",
                key_id=key.id,
                label=label or None,
                sentences=total,
                advised=ADVISED_SENTENCES,
                advice="Set rotation.every, or run `hammingmark keys rotate`.",
            )


def _label(key: WatermarkKey, master: WatermarkKey) -> str:
    """The label by which a key was derived from a master; empty for the master itself."""
    return "" if key.id == master.id else key.label or ""
