"""Detection under the keys of a keyring, with detectors shared among requests."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from hammingmark.assembly.detection import detector as make_detector
from hammingmark.assembly.keys import method_of
from hammingmark.detection.detector import Detector
from hammingmark.detection.group import DetectorGroup
from hammingmark.keys.file_changes import FileState, state_of
from hammingmark.keys.key import WatermarkKey, as_label
from hammingmark.keys.keyring import Entry, Keyring
from hammingmark.lazy import SingleFlightCache
from hammingmark.records import Verdict
from hammingmark.reports.text import counted
from hammingmark.server.api_error import APIError
from hammingmark.server.components import ComponentCache
from hammingmark.server.detection.checkpoints import with_checkpoints
from hammingmark.server.marking.marks import PROOF_LEVEL
from hammingmark.server.settings import MAX_DERIVED_KEYS

_MAX_DETECTORS = 16  # each may hold some megabytes of reference keys
_MAX_CACHED_KEYS = 1000  # a detector of more keys is unlikely to be used again


class DetectionService:
    """Detects watermarks; thread-safe.

    Args:
        keyring: the keys to search; reloaded when its folder or a file changes.
        components: the encoders and tokenizers of keys.
        marking_keys: gives the keys that mark, which are searched even outside the keyring.
        labels: gives the labels under which a key that marks, or did before it was rotated, may
            have marked; the keys derived by them are searched too.
        on_problem: called with the error of a key file that cannot be read.
    """

    def __init__(
        self,
        keyring: Keyring,
        components: ComponentCache,
        *,
        marking_keys: Callable[[], Sequence[Entry]] = lambda: (),
        labels: Callable[[WatermarkKey], Sequence[str]] = lambda key: (),
        on_problem: Callable[[str], None] = lambda problem: None,
    ) -> None:
        self._keyring = keyring
        self._components = components
        self._marking_keys = marking_keys
        self._labels = labels
        self._on_problem = on_problem
        self._lock = threading.Lock()
        self._detectors: SingleFlightCache[Detector | DetectorGroup] = SingleFlightCache(
            _MAX_DETECTORS
        )
        self._answer_detectors: SingleFlightCache[Detector | DetectorGroup] = SingleFlightCache(
            _MAX_DETECTORS
        )
        self._entries: list[Entry] = []
        self._state: FileState | None = None
        self._problems: set[str] = set()

    def entries(self) -> list[Entry]:
        """The keys of the keyring, oldest first, then the other keys that mark.

        Files that have not changed are not read again.
        """
        with self._lock:
            folder = self._keyring.folder
            state = state_of(folder, *sorted(folder.glob("*.json")))
            if state is None or state != self._state:
                self._entries, errors = self._keyring.survey()
                self._state = state
                problems = {str(error) for error in errors}
                for problem in sorted(problems - self._problems):
                    self._on_problem(problem)
                self._problems = problems
            entries = list(self._entries)
        ids = {entry.key.id for entry in entries}
        return entries + [entry for entry in self._marking_keys() if entry.key.id not in ids]

    def select(
        self, names: Sequence[str] | None, labels: Sequence[str] | None = None
    ) -> list[WatermarkKey]:
        """The keys with these names or ids, or all keys of the keyring.

        Keys of methods whose detection needs a language model are not among all keys. A key that
        marks, or did before it was rotated, comes with the keys derived from it by the labels
        under which this service marks.

        Args:
            names: names or ids, also of those derived keys; None for all keys.
            labels: select the keys derived from those keys by these labels instead.

        Raises:
            APIError: there is no such key, or there are too many.
            InputError: a label is invalid.
        """
        if labels is None:
            return self._named(names)
        keys = self._named(names, with_derived=False)
        masters = keys if names is not None else [key for key in keys if not key.parent]
        distinct_labels = list(dict.fromkeys(map(as_label, labels)))
        if len(masters) * len(distinct_labels) > MAX_DERIVED_KEYS:
            raise APIError(
                413,
                f"At most {MAX_DERIVED_KEYS:,} derived keys are searched at once, one per label "
                f"for each of {counted(len(masters), 'key')}. Send fewer labels, or name the key "
                "to which they belong.",
                param="labels",
            )
        return [master.derive(label) for master in masters for label in distinct_labels]

    def _named(
        self, names: Sequence[str] | None, *, with_derived: bool = True
    ) -> list[WatermarkKey]:
        entries = self.entries()
        derived = self._derived(entries) if with_derived else {}
        if names is None:
            keys = [entry.key for entry in entries]
            by_config = {key.config: key for key in keys}
            resampled = {
                config for config, key in by_config.items() if method_of(key).capabilities.samples
            }
            keys = [key for key in keys if key.config not in resampled]
            if not keys:
                raise APIError(404, "The keyring is empty. Make a key with `hammingmark keys new`.")
            return _distinct([*keys, *(each for key in keys for each in derived.get(key.id, ()))])
        # Of two entries with the same name, the first counts, which is that of the keyring.
        by_name = {each.id: [each] for group in derived.values() for each in group}
        for entry in reversed(entries):
            by_name[entry.name] = [entry.key, *derived.get(entry.key.id, ())]
        by_name |= {entry.key.id: [entry.key, *derived.get(entry.key.id, ())] for entry in entries}
        for name in names:
            if name not in by_name:
                raise APIError(404, f"No such key: {name!r:.100}.", param="keys")
        return _distinct([key for name in names for key in by_name[name]])

    def own_ids(self, entries: Sequence[Entry]) -> set[str]:
        """The ids of the keys with which the service marks, or did before they were rotated.

        Args:
            entries: the keys, as of `entries`.
        """
        ids = {entry.key.id for entry in self._marking_keys()}
        predecessors = {entry.key.successor: entry.key.id for entry in entries}
        while earlier := {predecessors[each] for each in ids if each in predecessors} - ids:
            ids |= earlier
        return ids

    def _derived(self, entries: Sequence[Entry]) -> dict[str, list[WatermarkKey]]:
        """The derived keys under which the service marks, or may have marked, by their master."""
        masters = self.own_ids(entries)
        return {
            entry.key.id: [entry.key.derive(label) for label in self._labels(entry.key)]
            for entry in entries
            if entry.key.id in masters
        }

    def derived_keys(self) -> dict[str, int]:
        """The number of derived keys that a search includes, by the id of their master."""
        return {name: len(keys) for name, keys in self._derived(self.entries()).items()}

    def detect(
        self,
        texts: Sequence[str],
        *,
        keys: Sequence[WatermarkKey],
        level: float,
        edits: bool = False,
        checkpoint: Callable[[], None] = lambda: None,
    ) -> Iterator[Verdict]:
        """The verdict on each text, corrected for all keys.

        Args:
            texts: the texts.
            keys: the keys to search.
            level: the false-positive rate for each text.
            edits: whether sentences may have been joined, split or inserted.
            checkpoint: called between slices of the work; an exception from it ends the detection.

        Raises:
            HammingMarkError: a key's encoder or tokenizer cannot be loaded, or no method allows
                for edits.
        """
        detector = with_checkpoints(self._detector(keys, level=level, edits=edits), checkpoint)
        for text in texts:
            checkpoint()
            yield detector.judge(text)

    def detect_answer(self, key: WatermarkKey, text: str) -> Verdict:
        """The verdict on an answer of this service under the key that marks it."""

        def make() -> Detector | DetectorGroup:
            return self._detector([key], level=PROOF_LEVEL, edits=False)

        return self._answer_detectors.get(key, make).judge(text)

    def _detector(
        self, keys: Sequence[WatermarkKey], *, level: float, edits: bool
    ) -> Detector | DetectorGroup:
        def make() -> Detector | DetectorGroup:
            components = self._components
            return make_detector(
                keys, edits=edits, encoders=components.encoder, tokenizers=components.tokenizer
            )

        if len(keys) > _MAX_CACHED_KEYS:
            return replace(make(), level=level)
        name = (tuple((key.id, key.label, key.config) for key in keys), edits)
        return replace(self._detectors.get(name, make), level=level)


def _distinct(keys: Sequence[WatermarkKey]) -> list[WatermarkKey]:
    return list({key.id: key for key in keys}.values())
