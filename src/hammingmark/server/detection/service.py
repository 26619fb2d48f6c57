"""Texts under the keys of a keyring, with what it takes shared among requests."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from hammingmark import registry
from hammingmark.assembly.detection import detector_of_all
from hammingmark.assembly.encoders import load_encoder
from hammingmark.keyring import Entry, Keyring
from hammingmark.keys import WatermarkKey
from hammingmark.method_config import MethodConfig
from hammingmark.pipeline.detect import Detector
from hammingmark.pipeline.detector_group import DetectorGroup
from hammingmark.protocols import Encoder
from hammingmark.records import Verdict
from hammingmark.server.detection.schema import FoundPassage, Piece, Result
from hammingmark.server.problems import Problem

_MOST_DETECTORS = 16  # each may hold some megabytes of reference keys
_TICK = 2_000_000_000  # nanoseconds; a folder may change twice within one tick of its clock

_WORDS = {
    True: "The watermark was found.",
    False: "No watermark was found.",
    None: "Too short to tell.",
}


class Detection:
    """Judges texts; any thread may call.

    Args:
        keyring: whose keys are searched. It is read again when it changes.
        encoder: by default the one that a key was made for.
        on_problem: told of key files that cannot be read.
    """

    def __init__(
        self,
        keyring: Keyring,
        *,
        encoder: Encoder | None = None,
        on_problem: Callable[[str], None] = lambda problem: None,
    ) -> None:
        self._keyring = keyring
        self._encoder = encoder
        self._on_problem = on_problem
        self._lock = threading.Lock()
        self._detectors: OrderedDict[tuple[Any, ...], Detector | DetectorGroup] = OrderedDict()
        self._entries: list[Entry] = []
        self._state: tuple[int, ...] | None = None

    def entries(self) -> list[Entry]:
        """The keys of the ring, oldest first; a folder that has not changed is not read again."""
        with self._lock:
            state = _state(self._keyring.folder)
            if state is None or state != self._state:
                self._entries, wrong = self._keyring.survey()
                self._state = state
                for problem in wrong:
                    self._on_problem(str(problem))
            return self._entries

    def choose(self, names: Sequence[str] | None) -> list[WatermarkKey]:
        """The keys of these names or ids, or those of the whole ring.

        Those of methods that are judged with a language model are left out of the ring.

        Raises:
            Problem: there is no such key.
        """
        entries = self.entries()
        if names is None:
            keys = [entry.key for entry in entries]
            alone = {config for config in {key.config for key in keys} if _needs_no_model(config)}
            keys = [key for key in keys if key.config in alone]
            if not keys:
                raise Problem(404, "The keyring holds no key. Make one: hammingmark keys new.")
            return keys
        known = {entry.name: entry.key for entry in entries}
        known |= {entry.key.id: entry.key for entry in entries}
        for name in names:
            if name not in known:
                raise Problem(404, f"There is no key {name!r:.100}.", param="keys")
        return list({known[name].id: known[name] for name in names}.values())

    def judge(
        self,
        texts: Sequence[str],
        *,
        keys: Sequence[WatermarkKey],
        level: float,
        edits: bool = False,
    ) -> list[tuple[Verdict, WatermarkKey | None]]:
        """The verdict on each text, corrected for all keys, and the key that it names.

        Raises:
            HammingMarkError: a key's encoder or tokenizer cannot be had, or no method allows for
                edits.
        """
        by_id = {key.id: key for key in keys}
        verdicts = self._detector(keys, level=level, edits=edits).judge_many(texts)
        return [(verdict, by_id.get(verdict.key_id or "")) for verdict in verdicts]

    def p_value(self, key: WatermarkKey, text: str) -> float | None:
        """The p-value of a text under one key; None if it has nothing to judge."""
        return self._detector([key], level=0.01, edits=False).judge(text).p_value

    def _detector(
        self, keys: Sequence[WatermarkKey], *, level: float, edits: bool
    ) -> Detector | DetectorGroup:
        name = (tuple((key.id, key.label, key.config) for key in keys), edits)
        with self._lock:
            made = self._detectors.pop(name, None)
            if made is None:
                made = detector_of_all(keys, edits=edits, encoders=self._load)
            self._detectors[name] = made
            while len(self._detectors) > _MOST_DETECTORS:
                self._detectors.popitem(last=False)
        return replace(made, level=level)

    def _load(self, name: str) -> Encoder:
        return self._encoder or load_encoder(name)


def result_of(verdict: Verdict, key: WatermarkKey | None) -> Result:
    """A verdict as it is told."""
    evidence = verdict.evidence
    before = len(verdict.pieces) - len(evidence.scores)
    inside = {i for passage in verdict.passages for i in range(passage.begin, passage.end)}
    pieces = [
        Piece(text=text, in_passage=i in inside)
        if i < before
        else Piece(
            text=text,
            score=evidence.scores[i - before].score,
            valid=evidence.scores[i - before].valid,
            details=dict(evidence.scores[i - before].details),
            in_passage=i in inside,
        )
        for i, text in enumerate(verdict.pieces)
    ]
    return Result(
        watermarked=verdict.watermarked,
        verdict=_WORDS[verdict.watermarked],
        reason=verdict.reason,
        p_value=verdict.p_value,
        level=verdict.level,
        key_id=verdict.key_id,
        label=verdict.label,
        method=key.config.method if key else None,
        keys=verdict.keys,
        unit=evidence.unit,
        threshold=evidence.threshold,
        scale=evidence.scale,
        power=verdict.power,
        passages=[
            FoundPassage(
                begin=each.begin,
                end=each.end,
                p_value=each.p_value,
                key_id=each.key_id,
                label=each.label,
            )
            for each in verdict.passages
        ],
        pieces=pieces,
    )


def _needs_no_model(config: MethodConfig) -> bool:
    """Whether a method's texts are judged without the model that wrote them."""
    return not hasattr(registry.find("methods", config.method), "read_sampled")


def _state(folder: Path) -> tuple[int, ...] | None:
    """By which a folder is known again; None if a change might not show yet."""
    try:
        found = folder.stat()
    except OSError:
        return None
    settled = time.time_ns() - found.st_mtime_ns > _TICK
    return (found.st_dev, found.st_ino, found.st_mtime_ns) if settled else None
