"""The key that marks: read again when its file changes, so that rotating it needs no restart."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from hammingmark.assembly.marking import writer
from hammingmark.errors import HammingMarkError
from hammingmark.generation.generate import GenerationConfig, Writer
from hammingmark.keys.config import EMBEDDING
from hammingmark.keys.file_changes import FileState, state_of
from hammingmark.keys.key import WatermarkKey
from hammingmark.keys.keyring import Entry, Keyring
from hammingmark.lazy import SingleFlightCache
from hammingmark.protocols import Backend
from hammingmark.server.components import ComponentCache

_MOST_SUCCESSORS = 1000  # a key does not succeed itself, unless somebody wrote so
_MOST_WRITERS = 64  # of labels; each holds the numbers of its key


class MarkingKey:
    """The key of a name, as its file is now; where that was retired, its successor.

    A file that cannot be read any more leaves the key that was read last in force: a text marked
    with that is marked.

    Args:
        reference: its name or its file.
        keyring: where names are looked up.
        on_reload: told whether reading succeeded, and what was wrong.

    Raises:
        KeyProblem: there is no such key.
    """

    def __init__(
        self,
        reference: str,
        *,
        keyring: Keyring,
        on_reload: Callable[[bool, str], None] = lambda succeeded, words: None,
    ) -> None:
        self._reference = reference
        self._keyring = keyring
        self._on_reload = on_reload
        self._lock = threading.Lock()
        self._entry, self._paths = self._find()
        self._used = {self._entry.key.id: self._entry}
        self._state = self._state_now()
        self._problem = ""

    @property
    def problem(self) -> str:
        """What is wrong with the file; empty if nothing is."""
        return self._problem

    def current(self) -> WatermarkKey:
        """The key as its file is now; any thread may ask."""
        with self._lock:
            state = self._state_now()
            if state is None or state != self._state or self._problem:
                self._read(state)
            return self._entry.key

    def used(self) -> list[Entry]:
        """Every key that has been in force in this process, wherever its file lies."""
        self.current()
        with self._lock:
            return list(self._used.values())

    def _read(self, state: FileState | None) -> None:
        try:
            entry, paths = self._find()
        except HammingMarkError as error:
            if str(error) != self._problem:
                self._problem = str(error)
                self._on_reload(False, self._problem)
            return
        if paths != self._paths:
            self._paths, state = paths, self._state_now()
        changed = entry.key != self._entry.key
        self._entry, self._state, self._problem = entry, state, ""
        self._used[entry.key.id] = entry
        if changed:
            self._on_reload(True, f"the key is {entry.key.id} now")

    def _find(self) -> tuple[Entry, tuple[Path, ...]]:
        entry = self._keyring.find(self._reference)
        paths = [entry.path]
        # A key that was rotated out and kept its name no longer marks.
        while entry.key.retired and entry.key.successor and len(paths) < _MOST_SUCCESSORS:
            entry = Keyring(entry.path.parent).find(entry.key.successor)
            paths.append(entry.path)
        return entry, tuple(paths)

    def _state_now(self) -> FileState | None:
        return state_of(*self._paths)


class WriterCache:
    """A writer for each key and label; those of labels that were not used lately are forgotten.

    Args:
        backend: the language model.
        parts: has the encoders of keys.
    """

    def __init__(self, backend: Backend, parts: ComponentCache) -> None:
        self._backend = backend
        self._parts = parts
        self._made: SingleFlightCache[Writer] = SingleFlightCache(_MOST_WRITERS)

    def writer(self, key: WatermarkKey | None, *, config: GenerationConfig) -> Writer:
        """A writer of marked text, or of unmarked text without a key.

        Raises:
            HammingMarkError: the key does not go with the model, or its encoder cannot be had.
        """
        return replace(self._made.get(key, lambda: self._make(key)), config=config)

    def _make(self, key: WatermarkKey | None) -> Writer:
        encoder = None
        if key is not None and isinstance(key.config, EMBEDDING):
            encoder = self._parts.encoder(key.config.encoder.name)
        return writer(key, backend=self._backend, encoder=encoder)
