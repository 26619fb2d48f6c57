"""Key files, and the folder that holds many of them.

A key file is JSON of mode 0600; anything laxer is refused. The secret leaves this module only
inside a `WatermarkKey`: no message, log line or exception carries it.
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
from hammingmark.errors import HammingMarkError, InputError, KeyFileError, UnknownName
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
_BEFORE_METHODS = {"bits": "bits", "threshold": "threshold", "softness": "softness",
                   "fresh": "residual"}  # fmt: skip
_LONGEST_VALUE = 40  # characters of a value under a name that is not known: no secret is so short
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def to_json(key: WatermarkKey, *, with_secret: bool) -> dict[str, Any]:
    """The key as plain data; with the secret only for its own file."""
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
        KeyFileError: a field is missing, unknown or of the wrong kind, its method is not installed,
            or the id does not fit.
    """
    if not isinstance(data, Mapping):
        del data  # a traceback may show what a function holds
        raise KeyFileError("This is not a key file: it holds no JSON object.")
    secret = _secret_of(data)
    data = _known_fields({name: value for name, value in data.items() if name != "secret"})
    if data.get("format") != FORMAT:
        raise KeyFileError(f"This is not a key file: its format is not {FORMAT!r}.")
    if data.get("scheme") == 1 and type(data["scheme"]) is int:
        data = _with_method(data)
    elif data.get("scheme") != SCHEME:
        raise KeyFileError(
            f"This key is of another scheme; this version reads scheme {SCHEME} and older. "
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
            "The key file is damaged: its id does not fit its secret. Restore it from a copy."
        )
    return key


def _with_method(data: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a key from before it named its method."""
    parameters = {
        new: data[old] for old, new in _BEFORE_METHODS.items() if data.get(old) is not None
    }
    kept = {name: value for name, value in data.items() if name not in _BEFORE_METHODS}
    missing = {"bits", "threshold"} - parameters.keys()
    return kept if missing else {**kept, "method": "hamming", "parameters": parameters}


def load(path: Path) -> WatermarkKey:
    """Read one key file.

    Raises:
        KeyFileError: it is absent, others may read it, or it is no key.
    """
    # What is raised below comes from a function that has never seen the secret: tracebacks may
    # show what each function holds.
    data, problem = _read(path)
    if problem:
        raise KeyFileError(problem)
    try:
        return from_json(data)
    except KeyFileError as error:
        raise KeyFileError(f"{path}: {error}") from None


def _read(path: Path) -> tuple[dict[str, Any], str]:
    """The fields of a key file, its secret out of sight; or what is wrong. Raises nothing."""
    try:
        content = read_private(path, largest=_LARGEST_FILE, kind="the key")
        data = json.loads(content, object_hook=_known_fields)
    except InputError as error:
        return {}, str(error)
    except (ValueError, RecursionError):
        return {}, f"{path} is not a key file: it is not JSON."
    if not isinstance(data, dict):
        return {}, f"{path} is not a key file: it holds no JSON object."
    return data, ""


def _known_fields(data: dict[str, Any]) -> dict[str, Any]:
    """The fields of a JSON object that a key may have, with a `Secret` in place of its digits.

    What a method's parameters are called is its own affair, so that numbers, truth values, short
    words and matrices pass under any name. Anything else under a name that is not known is blotted
    out.
    """
    kept = {
        name: value if name in _FIELDS or _is_parameter(value) else None
        for name, value in data.items()
        if name != "secret"
    }
    return {**kept, "secret": _secret_of(data)} if "secret" in data else kept


def _is_parameter(value: object) -> bool:
    if isinstance(value, str):
        return len(value) <= _LONGEST_VALUE or is_array_text(value)
    return isinstance(value, (bool, int, float))


def _secret_of(data: Mapping[str, Any]) -> Secret | None:
    """The secret among a key's fields; None if there is no whole one."""
    try:
        secret = data["secret"]
        return secret if isinstance(secret, Secret) else Secret(bytes.fromhex(secret))
    except (LookupError, TypeError, ValueError, HammingMarkError):
        return None


def save(key: WatermarkKey, path: Path, *, replace: bool = False) -> None:
    """Write one key file of mode 0600, whole or not at all.

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
            kind="the key",
            error=KeyFileError,
        )
    except FileExistsError:
        raise KeyFileError(
            f"{path} exists; choose another name, since a lost key cannot be made again."
        ) from None


@dataclass(frozen=True, slots=True)
class Entry:
    """One key of a keyring and where it lies."""

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
                f"{name!r} cannot name a key: use letters, digits, '.', '_' and '-'."
            )
        path = self.folder / f"{name}.json"
        save(key, path)
        return Entry(name, path, key)

    def entries(self) -> list[Entry]:
        """Every readable key of the folder, oldest first."""
        return self.survey()[0]

    def survey(self) -> tuple[list[Entry], list[KeyFileError]]:
        """Every readable key of the folder, oldest first, and what is wrong with the others.

        Raises:
            KeyFileError: the folder itself cannot be read.
        """
        found: list[Entry] = []
        wrong: list[KeyFileError] = []
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
                found.append(Entry(path.stem, path, load(path)))
            except KeyFileError as error:
                wrong.append(error)
        return sorted(found, key=lambda entry: (entry.key.created, entry.name)), wrong

    def find(self, reference: str) -> Entry:
        """The key meant by a path, a name, an id, or the beginning of an id.

        Raises:
            KeyFileError: there is none, or more than one.
        """
        if not reference.strip():
            raise KeyFileError("The key's name is empty; give a file, a name or an id.")
        path = Path(reference)
        if path.suffix == ".json" or len(path.parts) > 1 or _is_file(path):
            return Entry(path.stem, path, load(path))
        named = self.folder / f"{reference}.json"
        if _NAME.fullmatch(reference) and _is_file(named):
            return Entry(reference, named, load(named))
        found = [entry for entry in self.entries() if entry.key.id.startswith(reference)]
        if len(found) == 1:
            return found[0]
        if found:
            raise KeyFileError(
                f"{reference!r} fits {len(found)} keys: "
                f"{', '.join(entry.key.id for entry in found)}. Give more of the id."
            )
        raise KeyFileError(
            f"No key {reference!r} in {self.folder}. `hammingmark keys list` shows the keys there; "
            f"`hammingmark keys new --name {reference}` makes one."
        )

    def rotate(self, reference: str, *, name: str | None = None) -> tuple[Entry, Entry]:
        """Retire a key and make one like it, which takes over its name.

        The retired key is kept as NAME-ID and still detects. A key that is only
        known by its id keeps it, and so does one whose successor is given a name of its own.

        Args:
            reference: the key.
            name: of the new key; by default that of the old one.
        """
        old = self.find(reference)
        if old.key.retired:
            raise KeyFileError(
                f"{old.key.id} was retired on {old.key.retired:%Y-%m-%d}; "
                f"its successor is {old.key.successor}."
            )
        if old.key.parent:
            raise KeyFileError(
                f"{old.key.id} is the key that {old.key.parent} has for the label "
                f"{old.key.label!r}; rotate that key, or derive one by another label."
            )
        retired, fresh = old.key.rotate()
        beside = Keyring(old.path.parent)
        if name is not None or old.name == old.key.id:
            new = beside.add(fresh, name=name)
            save(retired, old.path, replace=True)
            return Entry(old.name, old.path, retired), new
        kept = beside.add(retired, name=f"{old.name[:40]}-{retired.id.removeprefix('hm-')}")
        save(fresh, old.path, replace=True)
        return kept, Entry(old.name, old.path, fresh)


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a name too long to be one
        return False


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _short(value: object) -> str:
    """A text that is too short to be a secret, and may be quoted."""
    text = _text(value)
    if len(text) > _LONGEST_VALUE:
        raise ValueError
    return text


def _time(value: object) -> datetime:
    time = datetime.fromisoformat(_text(value))
    return time if time.tzinfo else time.replace(tzinfo=timezone.utc)
