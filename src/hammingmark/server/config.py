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
"""The prefix of the environment variables of all settings."""

CONFIG_FILE = f"{PREFIX}CONFIG"
"""The environment variable that names the file, if no flag does."""

_COMMAND_LINE = "the command line"
_SECRET = "upstream.api_key"
_SECRET_NAMES = frozenset({_SECRET, "upstream_api_key", "api_key"})
_MAX_SECRET_BYTES = 1 << 16
_BOUNDS: Mapping[type, tuple[str, str]] = {
    annotated_types.Ge: ("ge", "at least"),
    annotated_types.Gt: ("gt", "above"),
    annotated_types.Le: ("le", "at most"),
    annotated_types.Lt: ("lt", "below"),
}
_TYPE_NAMES: Mapping[Any, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    Path: "a path",
    str: "a text that is not empty",
}


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting, as shown to users.

    Attributes:
        name: its name with its table, such as ``limits.queue``.
        value: its value as text; for a secret, only whether it is set.
        source: the file, the variable, the command line or ``default``.
        meaning: its description.
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
    """Read the settings: flags override environment variables, which override the file.

    Paths in the file are relative to its folder, others to the working directory.

    Args:
        file: a TOML file; by default the one that ``HAMMINGMARK_SERVE_CONFIG`` names, if any.
        environ: the environment. ``HAMMINGMARK_SERVE_PORT`` sets ``port``,
            ``HAMMINGMARK_SERVE_POLICY_ON_FAILURE`` sets ``policy.on_failure``; lists are separated
            by commas; an empty variable counts as unset.
        flags: values by name, such as ``policy.on_failure``; None and an empty tuple count as
            unset.

    Raises:
        InputError: a name is unknown, a value has the wrong type, or settings contradict
            each other.
    """
    if file is None and environ.get(CONFIG_FILE):
        file = Path(environ[CONFIG_FILE])
    values = {
        **(_from_file(file.expanduser()) if file is not None else {}),
        **_from_environ(environ),
        **_from_flags(flags),
    }
    nested: dict[str, Any] = {}
    for name, setting in values.items():
        _refuse_boolean(name, setting)
        table, _, field = name.rpartition(".")
        (nested.setdefault(table, {}) if table else nested)[field] = setting.value
    sources = {name: setting.source for name, setting in values.items()}
    if "upstream.url" in values:
        secret, source = _upstream_api_key(values, environ)
        if secret is not None:
            nested["upstream"]["api_key"] = secret
            sources[_SECRET] = source
    try:
        config = ServerConfig.model_validate(nested, context={"sources": sources})
    except ValidationError as error:
        name = ".".join(str(part) for part in error.errors(include_input=False)[0]["loc"])
        name = next(known for known in _fields() if name == known or name.startswith(f"{known}."))
        raise _invalid(name, values[name]) from None
    for name in ("api_keys", "audit.file", "rotation.record"):
        _check_folder(name, values.get(name))
    return config


def describe(config: ServerConfig) -> list[Setting]:
    """Every setting with its value and its source, without secrets."""
    settings = []
    for name, info in _fields().items():
        table, _, field = name.rpartition(".")
        value = getattr(getattr(config, table) if table else config, field)
        settings.append(Setting(name, _as_text(value), config.source(name), info.description or ""))
    return settings


def variable_of(name: str) -> str:
    """The environment variable of a setting such as ``policy.on_failure``."""
    return UPSTREAM_API_KEY if name == _SECRET else PREFIX + name.upper().replace(".", "_")


def _fields() -> dict[str, FieldInfo]:
    """The settings by name, top-level ones before those in tables."""
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
        raise InputError(f"{path} is not a settings file: it is not UTF-8.") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not a settings file: it is not TOML ({error}).") from None
    tables = _tables()
    values: dict[str, _SourcedValue] = {}
    for name, value in data.items():
        if name not in tables:
            values[name] = _SourcedValue(value, str(path))
        elif isinstance(value, dict):
            values |= {
                f"{name}.{field}": _SourcedValue(item, str(path)) for field, item in value.items()
            }
        else:
            raise InputError(
                f"{name} from {path} is a value; it must be a table: [{name}], with settings "
                "below it."
            )
    typed = _typed(values, folder=path.absolute().parent)
    for name, setting in typed.items():
        _refuse_other_type(name, setting)
    return typed


def _from_environ(environ: Mapping[str, str]) -> dict[str, _SourcedValue]:
    names = {variable_of(name): name for name in _fields()}
    values = {}
    for variable, value in environ.items():
        if not variable.startswith(PREFIX) or variable == CONFIG_FILE or not value:
            continue
        if variable not in names:
            hint = did_you_mean(variable, [*names, CONFIG_FILE])
            if (
                variable == f"{PREFIX}UPSTREAM_API_KEY"
            ):  # the name of the file would be closer in spelling
                hint = f" Did you mean {UPSTREAM_API_KEY!r}?"
            raise InputError(f"Unknown variable: {variable}.{hint} Unset it, or correct its name.")
        values[names[variable]] = _SourcedValue(value, variable)
    return _typed(values, folder=Path.cwd())


def _from_flags(flags: Mapping[str, object]) -> dict[str, _SourcedValue]:
    values = {
        name: _SourcedValue(value, _COMMAND_LINE)
        for name, value in flags.items()
        if value is not None and value != ()
    }
    return _typed(values, folder=Path.cwd())


def _typed(values: Mapping[str, _SourcedValue], *, folder: Path) -> dict[str, _SourcedValue]:
    """The values with their names checked, paths made absolute and lists split."""
    fields = _fields()
    typed = {}
    for name, setting in values.items():
        if name in _SECRET_NAMES:
            raise _misplaced_secret(f"{name} from {setting.source}")
        if name not in fields:
            raise InputError(
                f"Unknown setting: {name!r:.60} from {setting.source}.{did_you_mean(name, fields)} "
                "`hammingmark serve --check` lists the settings."
            )
        value = setting.value
        if Path in _types(fields[name]) and isinstance(value, (str, os.PathLike)):
            try:
                value = folder / Path(value).expanduser()
            except RuntimeError:  # ~NAME, and there is no such user
                raise _invalid(name, setting) from None
            if not str(setting.value).strip() or "\0" in str(value):
                raise _invalid(name, setting)
        elif _is_list(fields[name]) and isinstance(value, str):
            value = [part.strip() for part in value.split(",") if part.strip()]
        typed[name] = _SourcedValue(value, setting.source)
    return typed


def _refuse_boolean(name: str, setting: _SourcedValue) -> None:
    """Refuse booleans for numbers, which pydantic would accept."""
    if isinstance(setting.value, bool) and bool not in _types(_fields()[name]):
        raise _invalid(name, setting)


def _refuse_other_type(name: str, setting: _SourcedValue) -> None:
    """Refuse texts for numbers, and what is not true or false: a file has types of its own."""
    types = set(_types(_fields()[name])) - {NoneType}
    is_number = types <= {bool, int, float}
    if (is_number and isinstance(setting.value, str)) or (
        types == {bool} and not isinstance(setting.value, bool)
    ):
        raise _invalid(name, setting)


def _invalid(name: str, setting: _SourcedValue) -> InputError:
    expected = _expected(_fields()[name])
    if name in ("upstream.url", "backend"):  # an invalid value may still contain a password
        return InputError(f"{name} from {setting.source} must be {expected}.")
    return InputError(
        f"{name} from {setting.source} is {setting.value!r:.60}; it must be {expected}."
    )


def _expected(info: FieldInfo) -> str:
    """A description of the valid values of a setting."""
    if info.examples:
        return f"{info.title or 'a URL'} such as {info.examples[0]}"
    (kind,) = (kind for kind in _types(info) if kind is not NoneType)
    if get_origin(kind) is Literal:
        return " or ".join(map(repr, get_args(kind)))
    bounds = [
        f"{phrase} {getattr(bound, attribute)}"
        for bound in [*info.metadata, *_annotations(info.annotation)]
        for attribute, phrase in [_BOUNDS.get(type(bound), ("", ""))]
        if attribute
    ]
    return f"{_TYPE_NAMES[kind]}, {' and '.join(bounds)}" if bounds else _TYPE_NAMES[kind]


def _types(info: FieldInfo) -> tuple[Any, ...]:
    """The types of a setting, through unions and annotations."""
    return tuple(kinds_of(info.annotation))


def _annotations(hint: Any) -> Iterator[Any]:
    """The annotations of the members of a union, which pydantic leaves in place."""
    if get_origin(hint) is Annotated:
        yield from hint.__metadata__
    elif get_origin(hint) is not Literal:
        for member in get_args(hint):
            yield from _annotations(member)


def _is_list(info: FieldInfo) -> bool:
    return any(get_origin(kind) is tuple for kind in _types(info))


def _upstream_api_key(
    values: Mapping[str, _SourcedValue], environ: Mapping[str, str]
) -> tuple[SecretStr | None, str]:
    """The upstream's API key and its source.

    ``OPENAI_API_KEY`` is last, since it may be set for other programs.
    """
    if environ.get(UPSTREAM_API_KEY):
        source, secret = UPSTREAM_API_KEY, SecretStr(environ[UPSTREAM_API_KEY].strip())
    elif "upstream.api_key_file" in values:
        path = values["upstream.api_key_file"].value
        if not isinstance(path, Path):
            raise _invalid("upstream.api_key_file", values["upstream.api_key_file"])
        source, secret = str(path), _secret_of(path)
    elif environ.get("OPENAI_API_KEY"):
        source, secret = "OPENAI_API_KEY", SecretStr(environ["OPENAI_API_KEY"].strip())
    else:
        return None, DEFAULT
    if not re.fullmatch(r"[!-~]+", secret.get_secret_value()):
        raise InputError(
            f"The upstream's API key from {source} is empty or has characters that are invalid in "
            "a header; it must be one word of ASCII."
        )
    return secret, source


def _secret_of(path: Path) -> SecretStr:
    # Invalid UTF-8 becomes a replacement character, which is refused later.
    return SecretStr(
        read_private(path, largest=_MAX_SECRET_BYTES).decode("utf-8", "replace").strip()
    )


def _misplaced_secret(name: str) -> InputError:
    return InputError(
        f"{name} would expose a secret to others. Set the variable {UPSTREAM_API_KEY}, or name a "
        "file of mode 0600 with upstream.api_key_file."
    )


def _check_folder(name: str, setting: _SourcedValue | None) -> None:
    if setting is None or not isinstance(setting.value, Path):
        return
    if not setting.value.parent.is_dir():
        raise InputError(
            f"{name} from {setting.source} is {str(setting.value)!r}, whose folder does not exist. "
            "Create the folder, or name another file."
        )


def _as_text(value: object) -> str:
    """A value as text for users."""
    if isinstance(value, SecretStr):
        return "set"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        value = ", ".join(value)
    return "none" if value is None or value == "" else without_secrets(str(value))
