"""The key that marks, reloaded when its file changes, and the writers of keys."""

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

_MAX_SUCCESSORS = 1000  # ends a cycle of successors in edited files
_MAX_WRITERS = 64  # each holds the matrices of its key


class MarkingKey:
    """The key that marks: that of a name, as its file is now, or the successor of a retired key.

    A key is rotated without a restart. If its file cannot be read any more, the key that was read
    last stays in use.

    Args:
        reference: the name or the file of the key.
        keyring: where names are looked up.
        on_reload: called with whether reading succeeded, and with a message.

    Raises:
        KeyProblem: there is no such key.
    """

    def __init__(
        self,
        reference: str,
        *,
        keyring: Keyring,
        on_reload: Callable[[bool, str], None] = lambda succeeded, message: None,
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
        """The key as its file is now; thread-safe."""
        with self._lock:
            state = self._state_now()
            if state is None or state != self._state or self._problem:
                self._read(state)
            return self._entry.key

    def used(self) -> list[Entry]:
        """Every key that this process has marked with, wherever its file is."""
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
        # A retired key that kept its name no longer marks.
        while entry.key.retired and entry.key.successor and len(paths) < _MAX_SUCCESSORS:
            entry = Keyring(entry.path.parent).find(entry.key.successor)
            paths.append(entry.path)
        return entry, tuple(paths)

    def _state_now(self) -> FileState | None:
        return state_of(*self._paths)


class WriterCache:
    """A cache of writers by key and label, with the least recently used removed first.

    Args:
        backend: the language model.
        components: the encoders of keys.
    """

    def __init__(self, backend: Backend, components: ComponentCache) -> None:
        self._backend = backend
        self._components = components
        self._writers: SingleFlightCache[Writer] = SingleFlightCache(_MAX_WRITERS)

    def writer(self, key: WatermarkKey | None, *, config: GenerationConfig) -> Writer:
        """The writer of a key; without a key, a writer of unmarked text.

        Raises:
            HammingMarkError: the key does not fit the model, or its encoder cannot be loaded.
        """
        return replace(self._writers.get(key, lambda: self._make(key)), config=config)

    def _make(self, key: WatermarkKey | None) -> Writer:
        encoder = None
        if key is not None and isinstance(key.config, EMBEDDING):
            encoder = self._components.encoder(key.config.encoder.name)
        return writer(key, backend=self._backend, encoder=encoder)
