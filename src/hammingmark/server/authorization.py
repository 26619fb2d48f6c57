"""API keys and their scopes.

The file has one JSON object per line, with only the SHA-256 of each API key::

    {"name": "website", "sha256": "9f86…", "scopes": ["generate", "detect"], "rate": 60}

A token leaves this module once, from `new_api_key`; no record, message or exception contains it.
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
"""The scopes of API keys; none includes another."""

TOKEN_PREFIX = "hmk_"
"""The prefix of tokens, so that a leaked token is recognized."""

_FIELDS = ("name", "sha256", "scopes", "rate", "may_switch_off")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_MAX_RATE = 1e9  # in effect no limit
_MAX_FILE_BYTES = 1 << 24
_LOCK_TIMEOUT = 10.0  # seconds to wait for another process that writes the file
_CREATE_KEY = "Create one with `hammingmark api-keys new`."


@dataclass(frozen=True, slots=True)
class ApiKey:
    """An API key, without its token.

    Attributes:
        name: the name of its user, which is in the audit log.
        digest: SHA-256 of the token, in hex.
        scopes: its scopes.
        rate: requests per minute; None for the common rate of the service.
        may_switch_off: whether it may request unmarked text.
    """

    name: str
    digest: str = field(repr=False)
    scopes: frozenset[str]
    rate: float | None = None
    may_switch_off: bool = False

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name) or self.name.startswith(TOKEN_PREFIX):
            raise InputError(
                "The name of an API key must be of at most 64 letters, digits, '.', '_', '@' and "
                f"'-', and must not begin with {TOKEN_PREFIX}."
            )
        if not _DIGEST.fullmatch(self.digest):
            raise InputError(
                "sha256 must be the SHA-256 of the token, as 64 lower-case hex digits."
            )
        if not self.scopes or not self.scopes <= set(SCOPES):
            raise InputError(f"scopes must be some of {', '.join(SCOPES)}.")
        if self.rate is not None and not 0 < self.rate <= _MAX_RATE:
            raise InputError("rate must be a number of requests per minute, above 0.")

    def allows(self, scope: str) -> bool:
        """Whether it has a scope."""
        return scope in self.scopes


class _InvalidContentError(InputError):
    """An API key file with invalid content."""


class ApiKeys:
    """The API keys of a file, which is reloaded when it changes; thread-safe.

    If the file is missing, unreadable or has another mode, all requests are refused: it was removed
    on purpose, or others may have changed it. If a line is invalid, as in a half-written file, the
    API keys that were read last stay valid.

    Args:
        path: the file, of mode 0600.
        on_problem: called once with each new problem of the file.
        on_reload: called with the new number of API keys.

    Raises:
        InputError: the file cannot be used, or has no API key.
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
            raise InputError(f"There is no {path}, and so no API key. {_CREATE_KEY}")
        self._state = state_of(path)
        self._keys = read_api_keys(path)
        if not self._keys:
            raise InputError(_no_keys_message(path))

    def __repr__(self) -> str:
        return f"ApiKeys({str(self._path)!r})"

    def __len__(self) -> int:
        return len(self._keys)

    @property
    def is_closed(self) -> bool:
        """Whether all requests are refused because the file cannot be used."""
        return self._is_shut

    def check(self) -> str | None:
        """What is wrong with the file; None if nothing is."""
        self.refresh()
        return self._problem

    def find(self, token: str) -> ApiKey | None:
        """The API key of a token, found in constant time."""
        self.refresh()
        digest = digest_of(token)
        match = None
        for key in self._keys:  # always to the end
            if hmac.compare_digest(key.digest, digest):
                match = key
        return match

    def refresh(self) -> None:
        """Reload the file if it has changed."""
        with self._lock:
            state = state_of(self._path)
            if state is not None and state == self._state:
                return
            try:
                keys = read_api_keys(self._path)
            except _InvalidContentError as error:
                self._state = state
                self._report(str(error))
            except InputError as error:
                # It is read again even if it looks unchanged: it may come back as it was.
                self._is_shut, self._keys, self._state = True, (), None
                self._report(str(error))
            else:
                changed = keys != self._keys
                self._is_shut, self._keys, self._state = False, keys, state
                if keys:
                    self._problem = None
                else:
                    self._report(_no_keys_message(self._path))
                if changed:
                    self._on_reload(len(keys))

    def _report(self, problem: str) -> None:
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
    """A new token, to be shown once, and its API key for `add_to_file`.

    Raises:
        InputError: the name, a scope or the rate is invalid.
    """
    key = ApiKey(
        name, "0" * 64, frozenset(scopes), rate, may_switch_off
    )  # checked before a token exists
    token = TOKEN_PREFIX + secrets.token_urlsafe(32)
    return token, ApiKey(key.name, digest_of(token), key.scopes, key.rate, key.may_switch_off)


def read_api_keys(path: Path) -> tuple[ApiKey, ...]:
    """The API keys of a file, in its order.

    Raises:
        InputError: the file cannot be used.
    """
    content = read_private(path, largest=_MAX_FILE_BYTES)
    keys, problem = _parse(content)
    if problem:
        # The file may contain a token by mistake, and a traceback may show local variables.
        del content
        raise _InvalidContentError(f"{path}{problem}")
    return keys


def add_to_file(path: Path, key: ApiKey) -> None:
    """Add an API key to a file, which is created if missing; the change is atomic.

    Raises:
        InputError: its name is in use, or the file cannot be used.
    """
    with _writing(path):
        keys = read_api_keys(path) if path.exists() else ()
        if key.name in {existing.name for existing in keys}:
            raise InputError(f"{path} already has an API key {key.name!r}; choose another name.")
        write_private(path, lambda: _lines_of([*keys, key]))


def remove_from_file(path: Path, name: str) -> None:
    """Remove an API key from a file; a service that uses the file then refuses it.

    Raises:
        InputError: there is none of this name, or the file cannot be used.
    """
    with _writing(path):
        keys = read_api_keys(path)
        remaining = [key for key in keys if key.name != name]
        if len(remaining) == len(keys):
            raise InputError(f"{path} has no API key with this name.")
        write_private(path, lambda: _lines_of(remaining))


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Lock a file against other writers."""
    if not path.parent.is_dir():  # the lock would create it
        raise InputError(f"Cannot write {path}: its folder does not exist. Create it.")
    lock = FileLock(f"{path}.lock", mode=0o600)
    try:
        lock.acquire(timeout=_LOCK_TIMEOUT)
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
    """The API keys of a file's content, or its problem. Raises no error and quotes nothing."""
    keys: list[ApiKey] = []
    for number, line in enumerate(content.split(b"\n"), start=1):
        if line.strip():
            key, problem = _from_line(line)
            if key is None:
                return (), f":{number} is not an API key: {problem}"
            keys.append(key)
    if len({key.name for key in keys}) < len(keys):
        return (), " has two API keys with the same name; remove one."
    if len({key.digest for key in keys}) < len(keys):
        return (), " has the same API key under two names; remove one."
    return tuple(keys), ""


def _from_line(line: bytes) -> tuple[ApiKey | None, str]:
    try:
        row: Any = json.loads(line)
    except (ValueError, RecursionError):
        row = None
    if not isinstance(row, dict):
        return None, 'it must be like {"name": "…", "sha256": "…", "scopes": ["generate"]}.'
    if not set(row) <= set(_FIELDS):
        return None, f"it has a field other than {', '.join(_FIELDS)}."
    name, digest, scopes = row.get("name"), row.get("sha256"), row.get("scopes")
    rate, may_switch_off = row.get("rate"), row.get("may_switch_off", False)
    if not isinstance(name, str) or not isinstance(digest, str):
        return None, "it lacks a name, or the sha256 of its token."
    if not isinstance(scopes, list) or not all(isinstance(scope, str) for scope in scopes):
        return None, f"scopes must be a list of some of {', '.join(SCOPES)}."
    if isinstance(rate, bool) or not isinstance(rate, (int, float, type(None))):
        return None, "rate must be a number of requests per minute, above 0."
    if not isinstance(may_switch_off, bool):
        return None, "may_switch_off must be true or false."
    try:
        return ApiKey(name, digest, frozenset(scopes), rate, may_switch_off), ""
    except InputError as error:
        return None, str(error)


def _no_keys_message(path: Path) -> str:
    return f"{path} contains no API key, so every request would be refused. {_CREATE_KEY}"
