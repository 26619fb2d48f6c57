"""Key files and keyrings, which are folders of key files.

A key file is JSON of mode 0600 or stricter; others are refused. The secret leaves this module only
inside a `WatermarkKey`: no message, log line or exception contains it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from hammingmark import registry
from hammingmark.errors import HammingMarkError, InputError, KeyFileError, UnknownName, did_you_mean
from hammingmark.keys import config as method_config
from hammingmark.keys.key import SCHEME, Secret, WatermarkKey
from hammingmark.keys.matrix_text import is_array_text
from hammingmark.keys.private_files import read_private, write_private

FORMAT = "hammingmark-key"
_LARGEST_FILE = 1 << 20  # bytes
_FIELDS = (
    "format", "scheme", "id", "created", "retired", "successor", "parent", "label", "note",
    "method", "parameters", "encoder", "splitter", "tokenizer",
    "name", "language", "fingerprint", "dimension", "size",
)  # fmt: skip
_SCHEME_1 = {"bits": "bits", "threshold": "threshold", "softness": "softness",
             "fresh": "residual"}  # fmt: skip
"""The fields of scheme 1 that are parameters, and their names now."""
_LONGEST_VALUE = 40  # characters of the value of an unknown field: every secret is longer
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def to_json(key: WatermarkKey, *, with_secret: bool) -> dict[str, Any]:
    """The key as plain data; the secret is included only to write the key file."""
    data: dict[str, Any] = {
        "format": FORMAT,
        "scheme": SCHEME,
        "id": key.id,
        "created": key.created.isoformat(),
        "retired": key.retired.isoformat() if key.retired else None,
        "successor": key.successor,
        "parent": key.parent,
        "label": key.label,
        "note": key.note,
        **method_config.to_json(key.config),
    }
    if with_secret:
        data["secret"] = key.secret.reveal().hex()
    return data


def from_json(data: object) -> WatermarkKey:
    """The key that `to_json` wrote, now or in version 0.1.

    Raises:
        KeyFileError: a field is missing, unknown or of the wrong type, the method is not installed,
            or the id does not match the secret.
    """
    if not isinstance(data, Mapping):
        del data  # a traceback may show the variables of a function
        raise KeyFileError("Not a key file: it is not a JSON object.")
    secret = _secret_of(data)
    data = _safe_fields({name: value for name, value in data.items() if name != "secret"})
    if data.get("format") != FORMAT:
        raise KeyFileError(f"Not a key file: its format is not {FORMAT!r}.")
    if data.get("scheme") == 1 and type(data["scheme"]) is int:
        data = _convert_scheme_1(data)
    elif data.get("scheme") != SCHEME:
        raise KeyFileError(
            f"This key has another scheme; this version reads scheme {SCHEME} and older. "
            "Use the version of hammingmark that made the key."
        )
    try:
        if secret is None:
            raise ValueError
        method = registry.find("methods", _short(data["method"]))
        key = WatermarkKey(
            secret=secret,
            config=method_config.from_json(method.Config, data),
            note=_text(data["note"]),
            created=_time(data["created"]),
            retired=_time(data["retired"]) if data.get("retired") else None,
            successor=_text(data["successor"]) if data.get("successor") else None,
            parent=_text(data["parent"]) if data.get("parent") else None,
            label=_text(data["label"]) if data.get("label") else None,
        )
    except UnknownName as error:
        raise KeyFileError(f"The key's method is not installed. {error}") from None
    except HammingMarkError as error:
        raise KeyFileError(f"The key file is damaged: {error}") from None
    except (LookupError, TypeError, ValueError) as error:
        # The exception may quote the file, so only its kind is passed on.
        raise KeyFileError(
            f"The key file is damaged ({type(error).__name__} while reading its fields); "
            "restore it from a copy."
        ) from None
    if key.id != data.get("id"):
        raise KeyFileError(
            "The key file is damaged: its id does not match its secret. Restore it from a copy."
        )
    return key


def _convert_scheme_1(data: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a key of scheme 1, which did not name its method, as those of scheme 2."""
    parameters = {new: data[old] for old, new in _SCHEME_1.items() if data.get(old) is not None}
    others = {name: value for name, value in data.items() if name not in _SCHEME_1}
    missing = {"bits", "threshold"} - parameters.keys()
    return others if missing else {**others, "method": "hamming", "parameters": parameters}


def load(path: Path) -> WatermarkKey:
    """Read one key file.

    Raises:
        KeyFileError: it is absent, other users may read it, or it is not a key file.
    """
    # Tracebacks may show the variables of every function, so errors are raised only here, where
    # the file's content has never been.
    data, message = _read(path)
    if message:
        raise KeyFileError(message)
    try:
        return from_json(data)
    except KeyFileError as error:
        raise KeyFileError(f"{path}: {error}") from None


def _read(path: Path) -> tuple[dict[str, Any], str]:
    """The fields of a key file with its secret hidden, or an error message. Does not raise."""
    try:
        content = read_private(path, largest=_LARGEST_FILE, kind="the key", is_kind=_may_be_key)
        data = json.loads(content, object_hook=_safe_fields)
    except InputError as error:
        return {}, str(error)
    except (ValueError, RecursionError):
        return {}, f"{path} is not a key file: it is not JSON."
    if not isinstance(data, dict):
        return {}, f"{path} is not a key file: it is not a JSON object."
    return data, ""


def _may_be_key(content: bytes) -> bool:
    """Whether this may be a key file, even a damaged one."""
    return b"secret" in content or FORMAT.encode() in content


def _safe_fields(data: dict[str, Any]) -> dict[str, Any]:
    """The fields of a JSON object of a key file, with a `Secret` in place of its digits.

    Methods name their parameters freely, so numbers, truth values, short texts and matrices are
    allowed in any field. Any other value of an unknown field could be a secret in the wrong place,
    and is replaced by None.
    """
    fields = {
        name: value if name in _FIELDS or _is_parameter(value) else None
        for name, value in data.items()
        if name != "secret"
    }
    return {**fields, "secret": _secret_of(data)} if "secret" in data else fields


def _is_parameter(value: object) -> bool:
    if isinstance(value, str):
        return len(value) <= _LONGEST_VALUE or is_array_text(value)
    return isinstance(value, (bool, int, float))


def _secret_of(data: Mapping[str, Any]) -> Secret | None:
    """The secret among the fields of a key; None if it is missing or invalid."""
    try:
        secret = data["secret"]
        return secret if isinstance(secret, Secret) else Secret(bytes.fromhex(secret))
    except (LookupError, TypeError, ValueError, HammingMarkError):
        return None


def save(key: WatermarkKey, path: Path, *, replace: bool = False) -> None:
    """Write one key file of mode 0600 atomically.

    Raises:
        KeyFileError: the file exists and ``replace`` is off, or it cannot be written.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise KeyFileError(f"Cannot write the key {path}: {error.strerror}.") from None
    try:
        write_private(
            path,
            lambda: (json.dumps(to_json(key, with_secret=True), indent=2) + "\n").encode(),
            replace=replace,
            follow=False,  # the key that a link names may be in use elsewhere
            kind="the key",
            error=KeyFileError,
        )
    except FileExistsError:
        raise KeyFileError(
            f"{path} exists and is not overwritten, because a lost key cannot be recreated. Choose "
            "another name."
        ) from None


@dataclass(frozen=True, slots=True)
class Entry:
    """One key of a keyring, its name and its file."""

    name: str
    path: Path
    key: WatermarkKey


@dataclass(frozen=True, slots=True)
class Keyring:
    """A folder of key files, one key per file, named ``NAME.json``."""

    folder: Path

    def add(self, key: WatermarkKey, *, name: str | None = None) -> Entry:
        """Store a key under a name, its id by default."""
        name = name or key.id
        if not _NAME.fullmatch(name):
            raise KeyFileError(
                f"{name!r} is not a valid key name. Use letters, digits, '.', '_' and '-'."
            )
        path = self.folder / f"{name}.json"
        save(key, path)
        return Entry(name, path, key)

    def entries(self) -> list[Entry]:
        """All readable keys of the folder, oldest first."""
        return self.survey()[0]

    def survey(self) -> tuple[list[Entry], list[KeyFileError]]:
        """All readable keys of the folder, oldest first, and the errors of the other files.

        Raises:
            KeyFileError: the folder itself cannot be read.
        """
        entries: list[Entry] = []
        errors: list[KeyFileError] = []
        try:
            paths = sorted(self.folder.iterdir())
        except FileNotFoundError:
            paths = []
        except OSError as error:
            raise KeyFileError(
                f"Cannot read the keyring {self.folder}: {error.strerror}."
            ) from None
        for path in paths:
            if path.suffix != ".json" or path.name.startswith("."):
                continue
            try:
                entries.append(Entry(path.stem, path, load(path)))
            except KeyFileError as error:
                errors.append(error)
        return sorted(entries, key=lambda entry: (entry.key.created, entry.name)), errors

    def find(self, reference: str) -> Entry:
        """The key with this path, name, id, or beginning of an id.

        Raises:
            KeyFileError: there is no such key, or more than one.
        """
        if not reference.strip():
            raise KeyFileError("The key's name is empty; give a file, a name or an id.")
        path = Path(reference)
        if path.suffix == ".json" or len(path.parts) > 1 or _is_file(path):
            return Entry(path.stem, path, load(path))
        named = self.folder / f"{reference}.json"
        if _NAME.fullmatch(reference) and _is_file(named):
            return Entry(reference, named, load(named))
        entries = self.entries()
        matches = [entry for entry in entries if entry.key.id.startswith(reference)]
        if len(matches) == 1:
            return matches[0]
        if matches:
            raise KeyFileError(
                f"{reference!r} matches {len(matches)} keys: "
                f"{', '.join(entry.key.id for entry in matches)}. Give more digits of the id."
            )
        hint = did_you_mean(reference, [entry.name for entry in entries])
        raise KeyFileError(
            f"No key {reference!r} in {self.folder}.{hint} List keys with `hammingmark keys list`, "
            f"or make one with `hammingmark keys new --name {reference}`."
        )

    def rotate(self, reference: str, *, name: str | None = None) -> tuple[Entry, Entry]:
        """Retire a key and make a new one with the same configuration and name.

        The retired key is renamed to NAME-ID and still detects. It keeps its name if that is its
        id, or if the new key gets another name.

        Args:
            reference: the key.
            name: the name of the new key; by default that of the old one.
        """
        old = self.find(reference)
        if old.key.retired:
            raise KeyFileError(
                f"{old.key.id} was retired on {old.key.retired:%Y-%m-%d}; "
                f"its successor is {old.key.successor}."
            )
        if old.key.parent:
            raise KeyFileError(
                f"{old.key.id} is derived from {old.key.parent} by the label {old.key.label!r}. "
                f"Rotate {old.key.parent}, or derive a key by another label."
            )
        retired, successor = old.key.rotate()
        keyring = Keyring(old.path.parent)
        if name is not None or old.name == old.key.id:
            new = keyring.add(successor, name=name)
            save(retired, old.path, replace=True)
            return Entry(old.name, old.path, retired), new
        renamed = keyring.add(retired, name=f"{old.name[:40]}-{retired.id.removeprefix('hm-')}")
        save(successor, old.path, replace=True)
        return renamed, Entry(old.name, old.path, successor)


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a name that is too long for a file
        return False


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _short(value: object) -> str:
    """A text that is too short to be a secret, so it may be quoted."""
    text = _text(value)
    if len(text) > _LONGEST_VALUE:
        raise ValueError
    return text


def _time(value: object) -> datetime:
    time = datetime.fromisoformat(_text(value))
    return time if time.tzinfo else time.replace(tzinfo=timezone.utc)
