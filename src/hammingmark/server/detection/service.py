"""Texts under the keys of a keyring, with what it takes shared among requests."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from hammingmark.assembly.detection import detector
from hammingmark.assembly.keys import method_of
from hammingmark.detection.detector import Detector
from hammingmark.detection.group import DetectorGroup
from hammingmark.keys.file_changes import FileState, state_of
from hammingmark.keys.key import WatermarkKey, as_label
from hammingmark.keys.keyring import Entry, Keyring
from hammingmark.lazy import SingleFlightCache
from hammingmark.records import Verdict
from hammingmark.report import counted
from hammingmark.server.api_error import APIError
from hammingmark.server.components import ComponentCache
from hammingmark.server.detection.checkpoints import with_checkpoints
from hammingmark.server.marking.marks import PROOF_LEVEL

MOST_DERIVED = 10_000
"""Derived keys that are searched at once."""

_MOST_DETECTORS = 16  # each may hold some megabytes of reference keys
_MOST_REMEMBERED = 100  # keys of a detector that is kept; one of more is not likely asked for again


class Detection:
    """Judges texts; any thread may call.

    Args:
        keyring: whose keys are searched. It is read again when it or a file of it changes.
        parts: has the encoders and tokenizers of keys.
        further: gives keys that are searched wherever their files lie.
        on_problem: told of key files that cannot be read.
    """

    def __init__(
        self,
        keyring: Keyring,
        parts: ComponentCache,
        *,
        further: Callable[[], Sequence[Entry]] = lambda: (),
        on_problem: Callable[[str], None] = lambda problem: None,
    ) -> None:
        self._keyring = keyring
        self._parts = parts
        self._further = further
        self._on_problem = on_problem
        self._lock = threading.Lock()
        self._detectors: SingleFlightCache[Detector | DetectorGroup] = SingleFlightCache(
            _MOST_DETECTORS
        )
        self._entries: list[Entry] = []
        self._state: FileState | None = None
        self._wrong: set[str] = set()

    def entries(self) -> list[Entry]:
        """The keys of the ring, oldest first, then further ones.

        Files that have not changed are not read again.
        """
        with self._lock:
            folder = self._keyring.folder
            state = state_of(folder, *sorted(folder.glob("*.json")))
            if state is None or state != self._state:
                self._entries, errors = self._keyring.survey()
                self._state = state
                wrong = {str(error) for error in errors}
                for problem in sorted(wrong - self._wrong):
                    self._on_problem(problem)
                self._wrong = wrong
            entries = list(self._entries)
        known = {entry.key.id for entry in entries}
        return entries + [entry for entry in self._further() if entry.key.id not in known]

    def choose(
        self, names: Sequence[str] | None, labels: Sequence[str] | None = None
    ) -> list[WatermarkKey]:
        """The keys of these names or ids, or those of the whole ring.

        Those of methods that are judged with a language model are left out of the ring.

        Args:
            names: names or ids; None for all.
            labels: choose the keys that are derived from those by these labels, in their place.

        Raises:
            APIError: there is no such key, or there are too many.
            InputError: a label is none.
        """
        keys = self._named(names)
        if labels is None:
            return keys
        masters = keys if names is not None else [key for key in keys if not key.parent]
        wanted = list(dict.fromkeys(map(as_label, labels)))
        if len(masters) * len(wanted) > MOST_DERIVED:
            raise APIError(
                413,
                f"{MOST_DERIVED:,} derived keys at most are searched at once, and each of "
                f"{counted(len(masters), 'key')} has one for each label. Give fewer labels, or "
                "name the key that they belong to.",
                param="labels",
            )
        return [master.derive(label) for master in masters for label in wanted]

    def _named(self, names: Sequence[str] | None) -> list[WatermarkKey]:
        entries = self.entries()
        if names is None:
            keys = [entry.key for entry in entries]
            marks = {key.config: method_of(key) for key in {k.config: k for k in keys}.values()}
            keys = [key for key in keys if not marks[key.config].capabilities.samples]
            if not keys:
                raise APIError(404, "The keyring holds no key. Make one: hammingmark keys new.")
            return keys
        # Of two of one name the first is meant, which is that of the ring.
        known = {entry.name: entry.key for entry in reversed(entries)}
        known |= {entry.key.id: entry.key for entry in entries}
        for name in names:
            if name not in known:
                raise APIError(404, f"There is no key {name!r:.100}.", param="keys")
        return list({known[name].id: known[name] for name in names}.values())

    def judge(
        self,
        texts: Sequence[str],
        *,
        keys: Sequence[WatermarkKey],
        level: float,
        edits: bool = False,
        pause: Callable[[], None] = lambda: None,
    ) -> Iterator[Verdict]:
        """The verdict on each text, corrected for all keys.

        Args:
            texts: the texts.
            keys: that are searched.
            level: false-positive rate to keep for each text.
            edits: whether sentences may have been joined, split or inserted.
            pause: called between slices of the work; what it raises ends it.

        Raises:
            HammingMarkError: a key's encoder or tokenizer cannot be had, or no method allows for
                edits.
        """
        made = with_checkpoints(self._detector(keys, level=level, edits=edits), pause)
        for text in texts:
            pause()
            yield made.judge(text)

    def judge_answer(self, key: WatermarkKey, text: str) -> Verdict:
        """The verdict on a text of this service under the key that marks it."""
        return self._detector([key], level=PROOF_LEVEL, edits=False).judge(text)

    def _detector(
        self, keys: Sequence[WatermarkKey], *, level: float, edits: bool
    ) -> Detector | DetectorGroup:
        def make() -> Detector | DetectorGroup:
            parts = self._parts
            return detector(keys, edits=edits, encoders=parts.encoder, tokenizers=parts.tokenizer)

        if len(keys) > _MOST_REMEMBERED:
            return replace(make(), level=level)
        name = (tuple((key.id, key.label, key.config) for key in keys), edits)
        return replace(self._detectors.get(name, make), level=level)
