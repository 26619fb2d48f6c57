"""API keys: who may ask the service for what.

The file holds one JSON object per line, and of each API key only its SHA-256::

    {"name": "website", "sha256": "9f86…", "scopes": ["generate", "detect"], "rate": 60}

A token leaves this module once, from `new_api_key`: no record, message or exception carries it.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import re
import secrets
import threading
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from hammingmark.errors import InputError
from hammingmark.keys.file_changes import state_of
from hammingmark.keys.private_files import read_private, write_private

SCOPES = ("generate", "detect", "admin")
"""What an API key may be good for; none includes another."""

TOKEN_PREFIX = "hmk_"
"""What a token begins with, so that one that leaked is recognized."""

_FIELDS = ("name", "sha256", "scopes", "rate", "may_switch_off")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_HIGHEST_RATE = 1e9  # no limit at all, in effect
_LARGEST_FILE = 1 << 24
_LONGEST_WAIT = 10.0  # seconds, for another who writes the file
_MAKE_ONE = "make one with `hammingmark api-keys new`"


@dataclass(frozen=True, slots=True)
class ApiKey:
    """What the service knows of one API key.

    Attributes:
        name: of whoever uses it; in the audit log.
        digest: SHA-256 of the token, in hex.
        scopes: what it is good for.
        rate: requests per minute; None is what the service allows everybody.
        may_switch_off: whether it may ask for unmarked text.
    """

    name: str
    digest: str = field(repr=False)
    scopes: frozenset[str]
    rate: float | None = None
    may_switch_off: bool = False

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name) or self.name.startswith(TOKEN_PREFIX):
            raise InputError(
                "The name of an API key should be of letters, digits, '.', '_', '@' and '-', 64 at "
                f"most, and not begin with {TOKEN_PREFIX}."
            )
        if not _DIGEST.fullmatch(self.digest):
            raise InputError("sha256 should be the SHA-256 of the token in 64 small hex digits.")
        if not self.scopes or not self.scopes <= set(SCOPES):
            raise InputError(f"scopes should be some of {', '.join(SCOPES)}.")
        if self.rate is not None and not 0 < self.rate <= _HIGHEST_RATE:
            raise InputError("rate should be a number of requests per minute, above 0.")

    def allows(self, scope: str) -> bool:
        """Whether it is good for a scope."""
        return scope in self.scopes


class _NotKeysError(InputError):
    """A file that can be read, and holds something else than API keys."""


class ApiKeys:
    """The API keys of a file, which is read again when it changes; any thread may ask.

    A file that is gone, cannot be read, or has another mode lets nobody in: whoever took it away
    meant it, and one that others may have changed proves nothing. A file with a line that is no
    API key, such as one that is half written, leaves those in force that were read last.

    Args:
        path: the file, of mode 0600.
        on_problem: told, once, what is wrong with the file now.
        on_reload: told how many API keys there are now.

    Raises:
        InputError: the file cannot be used, or holds no API key.
    """

    def __init__(
        self,
        path: Path,
        *,
        on_problem: Callable[[str], None] = lambda problem: None,
        on_reload: Callable[[int], None] = lambda count: None,
    ) -> None:
        self._path = path
        self._on_problem = on_problem
        self._on_reload = on_reload
        self._lock = threading.Lock()
        self._problem: str | None = None
        self._is_shut = False
        if not os.path.lexists(path):
            raise InputError(f"There is no {path}, and so no API key; {_MAKE_ONE}.")
        self._state = state_of(path)
        self._keys = read_api_keys(path)
        if not self._keys:
            raise InputError(_none_in(path))

    def __repr__(self) -> str:
        return f"ApiKeys({str(self._path)!r})"

    def __len__(self) -> int:
        return len(self._keys)

    @property
    def is_closed(self) -> bool:
        """Whether nobody is let in because the file cannot be used; a file without keys can."""
        return self._is_shut

    def check(self) -> str | None:
        """What is wrong with the file now; None if nothing is."""
        self.refresh()
        return self._problem

    def find(self, token: str) -> ApiKey | None:
        """The API key that a token proves; how long it takes does not tell how near it was."""
        self.refresh()
        digest = digest_of(token)
        found = None
        for key in self._keys:  # to the end, wherever it is
            if hmac.compare_digest(key.digest, digest):
                found = key
        return found

    def refresh(self) -> None:
        """Read the file if it has changed."""
        with self._lock:
            state = state_of(self._path)
            if state is not None and state == self._state:
                return
            try:
                keys = read_api_keys(self._path)
            except _NotKeysError as error:
                self._complain(str(error))
            except InputError as error:
                self._is_shut, self._keys = True, ()
                self._complain(str(error))
            else:
                changed = keys != self._keys
                self._is_shut, self._keys, self._state = False, keys, state
                if keys:
                    self._problem = None
                else:
                    self._complain(_none_in(self._path))
                if changed:
                    self._on_reload(len(keys))

    def _complain(self, problem: str) -> None:
        self._state = None  # what comes next may look like what was read last
        if problem != self._problem:
            self._problem = problem
            self._on_problem(problem)


def bearer_token(header: str | None) -> str | None:
    """The token of an ``Authorization`` header; None if it has none."""
    kind, _, token = (header or "").strip().partition(" ")
    return token.strip() or None if kind.lower() == "bearer" else None


def digest_of(token: str) -> str:
    """SHA-256 of a token, in hex."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def new_api_key(
    name: str,
    *,
    scopes: Collection[str],
    rate: float | None = None,
    may_switch_off: bool = False,
) -> tuple[str, ApiKey]:
    """A token, to be shown once, and what `add_to_file` keeps of it.

    Raises:
        InputError: the name, a scope or the rate makes no sense.
    """
    key = ApiKey(name, "0" * 64, frozenset(scopes), rate, may_switch_off)  # checked before it is
    token = TOKEN_PREFIX + secrets.token_urlsafe(32)
    return token, ApiKey(key.name, digest_of(token), key.scopes, key.rate, key.may_switch_off)


def read_api_keys(path: Path) -> tuple[ApiKey, ...]:
    """The API keys of a file, in its order.

    Raises:
        InputError: the file cannot be used.
    """
    content = read_private(path, largest=_LARGEST_FILE)
    keys, problem = _parse(content)
    if problem:
        # Somebody may have put a token in the file, and a traceback may show what a function holds.
        del content
        raise _NotKeysError(f"{path}{problem}")
    return keys


def add_to_file(path: Path, key: ApiKey) -> None:
    """Add an API key to a file, which need not be there; others see all of it or nothing.

    Raises:
        InputError: its name is taken, or the file cannot be used.
    """
    with _writing(path):
        keys = read_api_keys(path) if path.exists() else ()
        if any(each.name == key.name for each in keys):
            raise InputError(f"{path} has an API key {key.name!r} already; choose another name.")
        write_private(path, lambda: _lines_of([*keys, key]))


def remove_from_file(path: Path, name: str) -> None:
    """Take an API key out of a file; a service that uses the file refuses it from then on.

    Raises:
        InputError: there is none of this name, or the file cannot be used.
    """
    with _writing(path):
        keys = read_api_keys(path)
        kept = [key for key in keys if key.name != name]
        if len(kept) == len(keys):
            raise InputError(f"{path} has no API key of this name.")
        write_private(path, lambda: _lines_of(kept))


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Keeps two writers of a file apart."""
    if not path.parent.is_dir():  # which the lock would make
        raise InputError(f"Cannot write {path}: its folder does not exist; make it.")
    lock = FileLock(f"{path}.lock", mode=0o600)
    try:
        lock.acquire(timeout=_LONGEST_WAIT)
    except Timeout:
        raise InputError(f"Another process is writing {path}; try again.") from None
    except OSError as error:
        raise InputError(f"Cannot write {path}: {error.strerror}.") from None
    try:
        yield
    finally:
        lock.release()


def _lines_of(keys: Iterable[ApiKey]) -> bytes:
    return b"".join(json.dumps(_row_of(key)).encode() + b"\n" for key in keys)


def _row_of(key: ApiKey) -> dict[str, object]:
    row: dict[str, object] = {
        "name": key.name,
        "sha256": key.digest,
        "scopes": [scope for scope in SCOPES if scope in key.scopes],
    }
    if key.rate is not None:
        row["rate"] = key.rate
    if key.may_switch_off:
        row["may_switch_off"] = True
    return row


def _parse(content: bytes) -> tuple[tuple[ApiKey, ...], str]:
    """The API keys of a file's content, or what is wrong with it. Raises and quotes nothing."""
    found: list[ApiKey] = []
    for number, line in enumerate(content.split(b"\n"), start=1):
        if line.strip():
            key, problem = _from_line(line)
            if key is None:
                return (), f":{number} is no API key: {problem}"
            found.append(key)
    if len({key.name for key in found}) < len(found):
        return (), " has two API keys of the same name; take one out."
    if len({key.digest for key in found}) < len(found):
        return (), " has the same API key under two names; take one out."
    return tuple(found), ""


def _from_line(line: bytes) -> tuple[ApiKey | None, str]:
    try:
        row: Any = json.loads(line)
    except (ValueError, RecursionError):
        row = None
    if not isinstance(row, dict):
        return None, 'it should be like {"name": "…", "sha256": "…", "scopes": ["generate"]}.'
    if not set(row) <= set(_FIELDS):
        return None, f"it has another field than {', '.join(_FIELDS)}."
    name, digest, scopes = row.get("name"), row.get("sha256"), row.get("scopes")
    rate, may_switch_off = row.get("rate"), row.get("may_switch_off", False)
    if not isinstance(name, str) or not isinstance(digest, str):
        return None, "it lacks a name, or the sha256 of its token."
    if not isinstance(scopes, list) or not all(isinstance(scope, str) for scope in scopes):
        return None, f"scopes should be a list of some of {', '.join(SCOPES)}."
    if isinstance(rate, bool) or not isinstance(rate, (int, float, type(None))):
        return None, "rate should be a number of requests per minute, above 0."
    if not isinstance(may_switch_off, bool):
        return None, "may_switch_off should be true or false."
    try:
        return ApiKey(name, digest, frozenset(scopes), rate, may_switch_off), ""
    except InputError as error:
        return None, str(error)


def _none_in(path: Path) -> str:
    return f"{path} holds no API key, so that nobody gets in; {_MAKE_ONE}."
