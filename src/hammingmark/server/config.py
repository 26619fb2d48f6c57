"""The settings of the service, from flags, environment variables and a file."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin

import annotated_types
from pydantic import SecretStr, ValidationError
from pydantic.fields import FieldInfo

from hammingmark.errors import InputError, did_you_mean
from hammingmark.keys.parameters import kinds_of
from hammingmark.keys.private_files import read_private
from hammingmark.server.settings import (
    DEFAULT,
    UPSTREAM_API_KEY,
    ServerConfig,
    Table,
    without_secrets,
)

__all__ = [
    "CONFIG_FILE",
    "PREFIX",
    "ServerConfig",
    "Setting",
    "describe",
    "read_config",
    "variable_of",
]

# mypy checks for Python 3.10, where the one is missing and the other need not be installed.
_toml: Any = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")

PREFIX = "HAMMINGMARK_SERVE_"
"""What the environment variables of all settings begin with."""

CONFIG_FILE = f"{PREFIX}CONFIG"
"""The environment variable that names the file, where no flag does."""

_COMMAND_LINE = "the command line"
_SECRET = "upstream.api_key"
_SECRET_NAMES = frozenset({_SECRET, "upstream_api_key", "api_key"})
_LARGEST_SECRET = 1 << 16
_BOUNDS: Mapping[type, tuple[str, str]] = {
    annotated_types.Ge: ("ge", "at least"),
    annotated_types.Gt: ("gt", "above"),
    annotated_types.Le: ("le", "at most"),
    annotated_types.Lt: ("lt", "below"),
}
_KINDS: Mapping[Any, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    Path: "a path",
    str: "a text that is not empty",
}


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting for people to read.

    Attributes:
        name: with its table, such as ``limits.queue``.
        value: in words; of a secret, only whether there is one.
        source: the file, the variable, the command line or ``default``.
        meaning: what it decides.
    """

    name: str
    value: str
    source: str
    meaning: str


@dataclass(frozen=True, slots=True)
class _SourcedValue:
    value: object
    source: str


def read_config(
    file: Path | None, *, environ: Mapping[str, str], flags: Mapping[str, object]
) -> ServerConfig:
    """The settings, from flags before environment variables before a file before the defaults.

    Paths in the file are relative to its folder, others to the working directory.

    Args:
        file: TOML; by default what ``HAMMINGMARK_SERVE_CONFIG`` names, if anything.
        environ: the environment. ``HAMMINGMARK_SERVE_PORT`` sets ``port``,
            ``HAMMINGMARK_SERVE_POLICY_ON_FAILURE`` sets ``policy.on_failure``; lists are separated
            by commas; an empty variable counts as unset.
        flags: values by name, such as ``policy.on_failure``; None and an empty tuple count as
            not given.

    Raises:
        InputError: a name is unknown, a value is of the wrong kind, or settings contradict
            each other.
    """
    if file is None and environ.get(CONFIG_FILE):
        file = Path(environ[CONFIG_FILE])
    given = {
        **(_from_file(file.expanduser()) if file is not None else {}),
        **_from_environ(environ),
        **_from_flags(flags),
    }
    nested: dict[str, Any] = {}
    for name, each in given.items():
        _refuse_truth_value(name, each)
        table, _, own = name.rpartition(".")
        (nested.setdefault(table, {}) if table else nested)[own] = each.value
    sources = {name: each.source for name, each in given.items()}
    if "upstream.url" in given:
        secret, source = _upstream_api_key(given, environ)
        if secret is not None:
            nested["upstream"]["api_key"] = secret
            sources[_SECRET] = source
    try:
        config = ServerConfig.model_validate(nested, context={"sources": sources})
    except ValidationError as error:
        name = ".".join(str(part) for part in error.errors(include_input=False)[0]["loc"])
        name = next(known for known in _fields() if name == known or name.startswith(f"{known}."))
        raise _wrong(name, given[name]) from None
    for name in ("api_keys", "audit.file"):
        _check_folder(name, given.get(name))
    return config


def describe(config: ServerConfig) -> list[Setting]:
    """Every setting with its value and where that came from; no secret is among them."""
    found = []
    for name, info in _fields().items():
        table, _, own = name.rpartition(".")
        value = getattr(getattr(config, table) if table else config, own)
        found.append(Setting(name, _words(value), config.source(name), info.description or ""))
    return found


def variable_of(name: str) -> str:
    """The environment variable of a setting such as ``policy.on_failure``."""
    return UPSTREAM_API_KEY if name == _SECRET else PREFIX + name.upper().replace(".", "_")


def _fields() -> dict[str, FieldInfo]:
    """The settings by name, those of the top before those in tables."""
    tables = _tables()
    top = {name: info for name, info in ServerConfig.model_fields.items() if name not in tables}
    below = {
        f"{table}.{name}": info
        for table, kind in tables.items()
        for name, info in kind.model_fields.items()
    }
    return top | below


def _tables() -> dict[str, type[Table]]:
    kinds = {name: info.annotation for name, info in ServerConfig.model_fields.items()}
    return {
        name: kind
        for name, kind in kinds.items()
        if isinstance(kind, type) and issubclass(kind, Table)
    }


def _from_file(path: Path) -> dict[str, _SourcedValue]:
    try:
        data = _toml.loads(path.read_bytes().decode("utf-8"))
    except OSError as error:
        raise InputError(f"Cannot read the settings {path}: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise InputError(f"{path} is no file of settings: it is not UTF-8.") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is no file of settings: it is not TOML ({error}).") from None
    tables = _tables()
    found: dict[str, _SourcedValue] = {}
    for name, value in data.items():
        if name not in tables:
            found[name] = _SourcedValue(value, str(path))
        elif isinstance(value, dict):
            found |= {
                f"{name}.{own}": _SourcedValue(each, str(path)) for own, each in value.items()
            }
        else:
            raise InputError(
                f"{name} from {path} is a value; it should be a table: [{name}], and settings "
                "below it."
            )
    return _typed(found, folder=path.absolute().parent)


def _from_environ(environ: Mapping[str, str]) -> dict[str, _SourcedValue]:
    known = {variable_of(name): name for name in _fields()}
    found = {}
    for variable, value in environ.items():
        if not variable.startswith(PREFIX) or variable == CONFIG_FILE or not value:
            continue
        if variable not in known:
            hint = did_you_mean(variable, [*known, CONFIG_FILE])
            if variable == f"{PREFIX}UPSTREAM_API_KEY":  # to spelling, that of the file is nearer
                hint = f" Did you mean {UPSTREAM_API_KEY!r}?"
            raise InputError(
                f"The variable {variable} sets nothing.{hint} Unset it, or correct its name."
            )
        found[known[variable]] = _SourcedValue(value, variable)
    return _typed(found, folder=Path.cwd())


def _from_flags(flags: Mapping[str, object]) -> dict[str, _SourcedValue]:
    found = {
        name: _SourcedValue(value, _COMMAND_LINE)
        for name, value in flags.items()
        if value is not None and value != ()
    }
    return _typed(found, folder=Path.cwd())


def _typed(found: Mapping[str, _SourcedValue], *, folder: Path) -> dict[str, _SourcedValue]:
    """What was given, its names checked, its paths absolute, its lists split."""
    fields = _fields()
    typed = {}
    for name, given in found.items():
        if name in _SECRET_NAMES:
            raise _misplaced_secret(f"{name} from {given.source}")
        if name not in fields:
            raise InputError(
                f"{name!r:.60} from {given.source} is no setting.{did_you_mean(name, fields)} "
                "`hammingmark serve --check` lists the settings."
            )
        value = given.value
        if Path in _kinds(fields[name]) and isinstance(value, (str, os.PathLike)):
            try:
                value = folder / Path(value).expanduser()
            except RuntimeError:  # ~NAME, and there is no such user
                raise _wrong(name, given) from None
            if not str(given.value).strip() or "\0" in str(value):
                raise _wrong(name, given)
        elif _is_list(fields[name]) and isinstance(value, str):
            value = [part.strip() for part in value.split(",") if part.strip()]
        typed[name] = _SourcedValue(value, given.source)
    return typed


def _refuse_truth_value(name: str, given: _SourcedValue) -> None:
    """To pydantic, true is also the number 1."""
    if isinstance(given.value, bool) and bool not in _kinds(_fields()[name]):
        raise _wrong(name, given)


def _wrong(name: str, given: _SourcedValue) -> InputError:
    expected = _expected(_fields()[name])
    if name in ("upstream.url", "backend"):  # it may hold a password, well-formed or not
        return InputError(f"{name} from {given.source} should be {expected}.")
    return InputError(
        f"{name} from {given.source} is {given.value!r:.60}; it should be {expected}."
    )


def _expected(info: FieldInfo) -> str:
    """What the value of a setting should be, in words."""
    if info.examples:
        return f"{info.title or 'a URL'} such as {info.examples[0]}"
    (kind,) = (each for each in _kinds(info) if each is not NoneType)
    if get_origin(kind) is Literal:
        return " or ".join(map(repr, get_args(kind)))
    bounds = [
        f"{words} {getattr(each, attribute)}"
        for each in [*info.metadata, *_annotations(info.annotation)]
        for attribute, words in [_BOUNDS.get(type(each), ("", ""))]
        if attribute
    ]
    return f"{_KINDS[kind]}, {' and '.join(bounds)}" if bounds else _KINDS[kind]


def _kinds(info: FieldInfo) -> tuple[Any, ...]:
    """The types of a setting, through unions and annotations."""
    return tuple(kinds_of(info.annotation))


def _annotations(hint: Any) -> Iterator[Any]:
    """What the members of a union are annotated with; pydantic moves only a type's own away."""
    if get_origin(hint) is Annotated:
        yield from hint.__metadata__
    elif get_origin(hint) is not Literal:
        for each in get_args(hint):
            yield from _annotations(each)


def _is_list(info: FieldInfo) -> bool:
    return any(get_origin(kind) is tuple for kind in _kinds(info))


def _upstream_api_key(
    given: Mapping[str, _SourcedValue], environ: Mapping[str, str]
) -> tuple[SecretStr | None, str]:
    """The upstream's API key and where it came from.

    ``OPENAI_API_KEY`` is last: it may be there for other programs.
    """
    if environ.get(UPSTREAM_API_KEY):
        source, secret = UPSTREAM_API_KEY, SecretStr(environ[UPSTREAM_API_KEY].strip())
    elif "upstream.api_key_file" in given:
        path = given["upstream.api_key_file"].value
        if not isinstance(path, Path):
            raise _wrong("upstream.api_key_file", given["upstream.api_key_file"])
        source, secret = str(path), _secret_of(path)
    elif environ.get("OPENAI_API_KEY"):
        source, secret = "OPENAI_API_KEY", SecretStr(environ["OPENAI_API_KEY"].strip())
    else:
        return None, DEFAULT
    if not re.fullmatch(r"[!-~]+", secret.get_secret_value()):
        raise InputError(
            f"The upstream's API key from {source} is empty or has characters that no header can "
            "carry; it should be one word of ASCII."
        )
    return secret, source


def _secret_of(path: Path) -> SecretStr:
    # Bytes that are no text become a character that is refused.
    return SecretStr(read_private(path, largest=_LARGEST_SECRET).decode("utf-8", "replace").strip())


def _misplaced_secret(what: str) -> InputError:
    return InputError(
        f"{what} would hold a secret where others may see it; set the variable "
        f"{UPSTREAM_API_KEY}, or name a file of mode 0600 with upstream.api_key_file."
    )


def _check_folder(name: str, given: _SourcedValue | None) -> None:
    if given is not None and isinstance(given.value, Path) and not given.value.parent.is_dir():
        raise InputError(
            f"{name} from {given.source} is {str(given.value)!r}, whose folder does not exist; "
            "make the folder, or name another file."
        )


def _words(value: object) -> str:
    """A value for people."""
    if isinstance(value, SecretStr):
        return "set"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        value = ", ".join(value)
    return "none" if value is None or value == "" else without_secrets(str(value))
