"""From specifications to components: encoders, backends, tokenizers, splitters and attacks.

A specification is ``NAME`` or ``NAME:ARGUMENT``, where NAME is registered, by this package or an
installed one, and ARGUMENT is the first argument of the constructor. A kind of component may have
short forms, such as the name of a model in the catalogue. The other arguments of the constructor
are its parameters; their names and types are read from its signature.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from inspect import getdoc
from pathlib import Path
from typing import Any

from hammingmark import registry
from hammingmark.assembly.environment import keep_offline, model_store
from hammingmark.errors import BackendError, EncoderError, HammingMarkError, InputError
from hammingmark.keys.parameters import (
    REQUIRED,
    SECRET,
    Parameter,
    is_secret,
    meanings_of,
    parameters_of,
    read_parameters,
    takes_splitter,
    without_login,
)
from hammingmark.models.catalogue import CATALOGUE, DEFAULT_GENERATOR
from hammingmark.models.store import ModelStore
from hammingmark.protocols import Attack, Backend, Encoder, Splitter
from hammingmark.registry import require_libraries

DEFAULT_SPLITTER = "sentencex"

KINDS: Mapping[str, str] = {
    "encoders": "encoder",
    "backends": "language model",
    "splitters": "splitter",
    "tokenizers": "tokenizer",
    "attacks": "attack",
    "methods": "method",
}
"""What a component of each room is called in a message."""

_ROOMS: Mapping[object, str] = {Backend: "backends", Encoder: "encoders", Attack: "attacks"}
_ERRORS: Mapping[str, type[HammingMarkError]] = {
    "encoders": EncoderError,
    "splitters": InputError,
}


@dataclass(frozen=True)
class PartSpec:
    """A picklable description without secrets, from which a worker builds its own component.

    Attributes:
        room: the kind of component.
        text: its specification.
        parameters: further arguments of its constructor.
    """

    room: str
    text: str
    parameters: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if any(map(is_secret, self.parameters)) or without_login(self.text) != self.text:
            raise InputError(
                "A specification may be sent to other processes and must contain no secret. Set "
                "OPENAI_API_KEY where the component is built, and omit passwords from URLs."
            )

    def build(self) -> Any:
        """Build the component."""
        return build(self.room, self.text, self.parameters, splitter=load_splitter())


@dataclass(frozen=True)
class Resolved:
    """A registered name, and the arguments of its constructor that a specification implies.

    Attributes:
        name: the registered name.
        arguments: returns the arguments; may download a model.
        libraries: required libraries beyond those that the component declares.
    """

    name: str
    arguments: Callable[[ModelStore], Mapping[str, Any]] = lambda store: {}
    libraries: tuple[str, ...] = ()


def resolve_name(room: str, text: str) -> Resolved | None:
    """Resolve ``NAME`` or ``NAME:ARGUMENT``; None if no component has the name."""
    name, colon, argument = text.partition(":")
    if name not in registry.names(room):
        return None
    signature = parameters_of(registry.find(room, name))
    arguments = {"name": without_login(text)} if "name" in signature else {}
    if not colon:
        return Resolved(name, lambda store: arguments)
    first = next(iter(signature), None)
    if first is None:
        raise InputError(
            f"The {KINDS[room]} {name!r} takes no argument, but {argument!r} was given."
        )
    return Resolved(name, lambda store: {**arguments, first: signature[first].read(argument)})


def known_parameters(room: str, text: str, values: Mapping[str, object]) -> dict[str, Parameter]:
    """The parameters of a component and, after a dot, those of its nested components.

    Args:
        room: the kind of component.
        text: its specification.
        values: of its parameters; those that specify a component matter here.

    Raises:
        InputError: no component fits the specification.
    """
    part = registry.find(room, resolve(room, text).name)
    return _with_nested(part, parameters_of(part), values)


def _with_nested(
    part: Any, parameters: Mapping[str, Parameter], values: Mapping[str, object]
) -> dict[str, Parameter]:
    """The parameters of a component and, after a dot, those of its nested components."""
    signature = dict(parameters)
    for outer, inner_room, text in _nested(parameters, {**_defaults(part, parameters), **values}):
        inner = known_parameters(inner_room, text, _nested_values(outer, values))
        for name, parameter in inner.items():
            signature[f"{outer}.{name}"] = replace(parameter, name=f"{outer}.{name}")
    return signature


def check(room: str, text: str, parameters: Mapping[str, object]) -> None:
    """Refuse a component if it or a nested one lacks libraries, before anything is downloaded.

    Raises:
        HammingMarkError: with what to install.
    """
    resolved = resolve(room, text)
    part = registry.find(room, resolved.name)
    _check(room, text, resolved, part, parameters_of(part), parameters)


def _check(
    room: str,
    text: str,
    resolved: Resolved,
    part: Any,
    signature: Mapping[str, Parameter],
    parameters: Mapping[str, object],
) -> None:
    """Check a component whose class and signature are known."""
    ours = part.__module__.startswith("hammingmark.")
    extra = getattr(part, "extra", "attacks" if room == "attacks" else "")
    require_libraries(
        (*getattr(part, "libraries", ()), *resolved.libraries),
        part=f"The {KINDS[room]} {text!r}",
        extra=extra if ours else "",
        error=_ERRORS.get(room, BackendError),
    )
    for name, inner_room, value in _nested(signature, {**_defaults(part, signature), **parameters}):
        check(inner_room, value, _nested_values(name, parameters))


def build(
    room: str,
    text: str,
    parameters: Mapping[str, object] | None = None,
    *,
    store: ModelStore | None = None,
    splitter: Splitter | None = None,
    within: str = "",
) -> Any:
    """Build a component from its specification and parameters.

    Args:
        room: the kind of component.
        text: its specification.
        parameters: as values, or as a user types them: a language model, an encoder or an attack
            by its specification, with its own parameters after a dot (``inner`` and
            ``inner.share``), and a folder by its path or the name of a catalogue model.
        store: where catalogue models are kept.
        splitter: for components that take one.
        within: the prefix of its parameters' names, if it is nested in another component.

    Raises:
        InputError: a parameter is unknown, missing or of the wrong type.
        HammingMarkError: a library is missing; then nothing has been downloaded.
    """
    parameters = parameters or {}
    resolved = resolve(room, text)
    part = registry.find(room, resolved.name)
    signature = parameters_of(part)
    _check(room, text, resolved, part, signature, parameters)
    store = store or model_store()
    keep_offline(store)
    values = read_parameters(
        _with_nested(part, signature, parameters),
        parameters,
        of=f"the {KINDS[room]} {resolved.name!r}",
    )
    arguments: dict[str, Any] = {
        **_defaults(part, signature),
        **resolved.arguments(store),
        **{name: value for name, value in values.items() if name in signature},
    }
    if SECRET in signature:
        arguments.setdefault(SECRET, os.environ.get("OPENAI_API_KEY") or None)
    for name, parameter in signature.items():
        if parameter.default is REQUIRED and name not in arguments:
            raise InputError(
                f"The {KINDS[room]} {resolved.name!r} needs the parameter {name!r}: "
                f"{parameter.description}. "
                f"On the command line, set it with --set {within}{name}=… or, from a file, "
                f"--set {within}{name}=@FILE."
            )
    for name, inner_room, inner_text in list(_nested(signature, arguments)):
        arguments[name] = build(
            inner_room,
            inner_text,
            _nested_values(name, values),
            store=store,
            splitter=splitter,
            within=f"{within}{name}.",
        )
    for name, parameter in signature.items():
        path = arguments.get(name)
        if isinstance(path, str) and parameter.wants(Path):
            if path in CATALOGUE:
                arguments[name] = store.ensure(path)
            elif not parameter.wants(str):
                arguments[name] = Path(path).expanduser()
    if splitter is not None and takes_splitter(part):
        arguments["splitter"] = splitter
    return part(**arguments)


def resolve(room: str, text: str) -> Resolved:
    """The registered component of a specification, and its arguments.

    Raises:
        InputError: no component fits.
        UnknownName: likewise, with the most similar name.
    """
    # Rooms with short forms beside registered names. Their modules import this one.
    from hammingmark.assembly.backends import resolve_backend, resolve_tokenizer
    from hammingmark.assembly.encoders import resolve_encoder

    short_forms = {
        "encoders": resolve_encoder,
        "backends": resolve_backend,
        "tokenizers": resolve_tokenizer,
    }
    if room in short_forms:
        return short_forms[room](text)
    resolved = resolve_name(room, text)
    if resolved is None:
        registry.find(room, text)  # raises UnknownName
    assert resolved is not None
    return resolved


def _nested(
    signature: Mapping[str, Parameter], values: Mapping[str, object]
) -> Iterator[tuple[str, str, str]]:
    """Parameters that are components and have a specification: name, room and specification."""
    for name, parameter in signature.items():
        value = values.get(name)
        for kind, room in _ROOMS.items():
            if parameter.wants(kind) and isinstance(value, str):
                yield name, room, value


def _defaults(part: Any, signature: Mapping[str, Parameter]) -> dict[str, Any]:
    """The models that a component needs; a required language model is the default one."""
    models = {
        name: DEFAULT_GENERATOR
        for name, parameter in signature.items()
        if parameter.default is REQUIRED and parameter.wants(Backend)
    }
    return {**models, **getattr(part, "needs", {})}


def _nested_values(name: str, values: Mapping[str, object]) -> dict[str, object]:
    """The values for the component in parameter ``name``, without the prefix of their names."""
    prefix = f"{name}."
    return {k.removeprefix(prefix): v for k, v in values.items() if k.startswith(prefix)}


def model_and_url(text: str) -> tuple[str, str]:
    """Split ``MODEL@URL``.

    Raises:
        InputError: there is no URL.
    """
    model, at, url = text.partition("@http")  # the name of a model may contain an @
    if not at:
        raise InputError(f"'openai:{text}' should look like openai:MODEL@URL.")
    return model, f"http{url}"


def load_splitter(name: str = DEFAULT_SPLITTER, *, language: str = "en") -> Splitter:
    """A splitter by its registered name."""
    splitter: Splitter = build("splitters", name, {"language": language})
    return splitter


def load_attack(
    name: str,
    *,
    splitter: Splitter,
    parameters: Mapping[str, object] | None = None,
    store: ModelStore | None = None,
) -> Attack:
    """An attack by its registered name.

    Args:
        name: the name.
        splitter: finds sentences, for attacks that need them.
        parameters: further arguments of its constructor (`build`).
        store: where catalogue models are kept.

    Raises:
        InputError: a parameter is unknown, missing or of the wrong type.
        HammingMarkError: a library is missing; then nothing has been downloaded.
    """
    attack: Attack = build("attacks", name, parameters, store=store, splitter=splitter)
    return attack


def attack_names() -> list[str]:
    """The name of every attack, of this package and of installed ones."""
    return registry.names("attacks")


def describe_attack(name: str) -> tuple[str, dict[str, Parameter], dict[str, str]]:
    """The first line of an attack's docstring, its parameters, and what they mean by name."""
    part = registry.find("attacks", name)
    return (getdoc(part) or "").partition("\n")[0], parameters_of(part), meanings_of(part)
