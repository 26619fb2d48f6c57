"""How many sentences each key has marked: small files that the processes of a keyring share."""

from __future__ import annotations

import json
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path

from filelock import FileLock, Timeout

from hammingmark.errors import HammingMarkError, InputError
from hammingmark.keys.file_changes import FileState, state_of
from hammingmark.keys.private_files import read_private, write_private

MARKED = "marked"
"""The folder of the files in a keyring."""

FORMAT = "hammingmark-marked-1"
_LARGEST_FILE = 1 << 22
_MOST_LABELS = 10_000  # kept per key, the last ones used
_LOCK_TIMEOUT = 10.0  # seconds

Counts = Mapping[str, int]
"""Sentences by label; those of the key itself have the label ""."""


class SentenceRecord:
    """Counts of marked sentences by key and label; thread-safe.

    A file ``ID.json`` of mode 0600 has the counts of the key with this id and of the keys derived
    from it. It is replaced at every change, under a lock that all processes respect. What cannot be
    written is kept in memory, and written with the next change.

    Args:
        folder: the folder of the files, made when it is needed.
        on_problem: called with what is wrong, and with None when it is over.
    """

    def __init__(
        self, folder: Path, *, on_problem: Callable[[str | None], None] = lambda problem: None
    ) -> None:
        self._folder = folder
        self._on_problem = on_problem
        self._problem: str | None = None
        self._lock = threading.Lock()
        self._pending: dict[str, Counter[str]] = defaultdict(Counter)  # not in the files yet
        self._known: dict[str, tuple[FileState | None, Counts]] = {}

    def require_writable(self, key_id: str) -> None:
        """Refuse a folder in which nothing can be recorded.

        Raises:
            InputError: it cannot be written, or the file of the key is damaged.
        """
        with self._lock:
            self._update(key_id, lambda counts: None)

    def counts(self, key_id: str) -> Counts:
        """The sentences that a key and those derived from it have marked, as far as is known."""
        with self._lock:
            path = self._path(key_id)
            state = state_of(path)
            last_state, counts = self._known.get(key_id, (None, {}))
            if state is None or state != last_state:
                try:
                    counts = _read(path)
                except HammingMarkError as error:
                    self._report(str(error))
                else:
                    self._known[key_id] = (state, counts)
            return Counter(counts) + self._pending[key_id]

    def add(self, key_id: str, label: str, count: int) -> None:
        """Count sentences in memory, until `write`.

        Args:
            key_id: the id of the key, or of the one from which the key that marked was derived.
            label: the label of the derived key; empty for the key itself.
            count: the number of sentences; a negative number takes back some of those taken.
        """
        with self._lock:
            self._pending[key_id][label] += count

    def write(self) -> None:
        """Write the counts that are in memory."""
        with self._lock:
            for key_id in [key_id for key_id, counts in self._pending.items() if counts]:
                self._try_to_update(key_id, lambda counts: None)

    def take(self, key_id: str, label: str, *, count: int, most: int) -> str:
        """Count sentences that are about to be marked, under a label that has room for them.

        It is the given label or, if that is full, the same with a number: ``LABEL.2``, ``LABEL.3``
        and so on. If nothing can be recorded it is the given label, which detection searches in any
        case.

        Args:
            key_id: the id of the key.
            label: the first label.
            count: the number of sentences.
            most: the number of sentences after which a label is full; an unused one has room.
        """

        def choose(counts: Counter[str]) -> str:
            number, name = 1, label
            while counts[name] and counts[name] + count > most:
                number += 1
                name = f"{label}.{number}"
            counts[name] += count
            return name

        with self._lock:
            name = self._try_to_update(key_id, choose)
            if name is None:
                self._pending[key_id][label] += count
            return name or label

    def _try_to_update(
        self, key_id: str, change: Callable[[Counter[str]], str | None]
    ) -> str | None:
        try:
            result = self._update(key_id, change)
        except InputError as error:
            self._report(str(error))
            return None
        self._report(None)
        return result

    def _update(self, key_id: str, change: Callable[[Counter[str]], str | None]) -> str | None:
        """Replace the counts of a key by changed ones.

        Raises:
            InputError: they cannot be read or written.
        """
        path = self._path(key_id)
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with FileLock(f"{path}.lock", mode=0o600, timeout=_LOCK_TIMEOUT):
                counts = Counter(_read(path))
                counts.update(self._pending[key_id])
                result = change(counts)
                data = {"format": FORMAT, "key_id": key_id, "sentences": _kept(counts)}
                write_private(path, (json.dumps(data) + "\n").encode, kind="the record")
        except Timeout:
            raise InputError(f"Another process holds {path}.lock; nothing is recorded.") from None
        except OSError as error:
            raise InputError(f"Cannot write the record {path}: {error.strerror}.") from None
        self._pending[key_id].clear()
        return result

    def _path(self, key_id: str) -> Path:
        return self._folder / f"{key_id}.json"

    def _report(self, problem: str | None) -> None:
        if problem != self._problem:
            self._problem = problem
            self._on_problem(problem)


def _read(path: Path) -> dict[str, int]:
    """The counts of a file; none if there is no file.

    Raises:
        InputError: it cannot be read, or is not such a file.
    """
    if not path.exists():
        return {}
    content = read_private(path, largest=_LARGEST_FILE, kind="the record")
    try:
        data = json.loads(content)
        if data["format"] != FORMAT:
            raise ValueError
        return {str(label): int(count) for label, count in data["sentences"].items()}
    except (AttributeError, LookupError, RecursionError, TypeError, ValueError):
        raise InputError(
            f"{path} is not a record of marked sentences, or is damaged. Restore it from a copy. "
            "Without it texts under labels with numbers are found only by these labels."
        ) from None


def _kept(counts: Counter[str]) -> dict[str, int]:
    """The counts above zero, of the last labels used."""
    used = [(label, count) for label, count in counts.items() if count > 0]
    return dict([entry for entry in used if not entry[0]] + used[-_MOST_LABELS:])
