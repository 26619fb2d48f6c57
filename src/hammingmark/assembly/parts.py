"""One way from what a user types to a part: an encoder, a backend, a splitter, an attack.

A part is typed as ``NAME`` or ``NAME:ARGUMENT``, where NAME is registered, ours or that of an
installed package, and ARGUMENT is the first thing that its constructor takes. Each kind of part may
have short forms of its own, such as the name of a model in the catalogue. Whatever else the
constructor takes is given as parameters, which are read off it and refused when unknown.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
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
"""What a part of each room is called in a sentence."""

_ROOMS: Mapping[object, str] = {Backend: "backends", Encoder: "encoders", Attack: "attacks"}
_ERRORS: Mapping[str, type[HammingMarkError]] = {
    "encoders": EncoderError,
    "splitters": InputError,
}


@dataclass(frozen=True)
class PartSpec:
    """What to build. It can be pickled, and holds no secret: a worker builds its own part of it.

    Attributes:
        room: what kind of part it is.
        text: what a user types to get it.
        parameters: what else its constructor is told.
    """

    room: str
    text: str
    parameters: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if any(map(is_secret, self.parameters)) or without_login(self.text) != self.text:
            raise InputError(
                "A specification is sent to others and holds no secret: set OPENAI_API_KEY where "
                "the part is built, and leave passwords out of URLs."
            )

    def build(self) -> Any:
        """The part."""
        return build(self.room, self.text, self.parameters, splitter=load_splitter())


@dataclass(frozen=True)
class Resolved:
    """A registered name, and what its constructor is given because of what a user typed.

    Attributes:
        name: the registered name.
        arguments: gives them; may fetch a model.
        libraries: that it needs beside those that the part itself names.
    """

    name: str
    arguments: Callable[[ModelStore], Mapping[str, Any]] = lambda store: {}
    libraries: tuple[str, ...] = ()


def resolve_name(room: str, text: str) -> Resolved | None:
    """``NAME`` or ``NAME:ARGUMENT`` of a registered part; None if there is no such name."""
    name, colon, argument = text.partition(":")
    if name not in registry.names(room):
        return None
    known = parameters_of(registry.find(room, name))
    typed = {"name": without_login(text)} if "name" in known else {}
    if not colon:
        return Resolved(name, lambda store: typed)
    takes = next(iter(known), None)
    if takes is None:
        raise InputError(f"The {KINDS[room]} {name!r} takes no argument; {argument!r} is given.")
    return Resolved(name, lambda store: {**typed, takes: known[takes].read(argument)})


def known_parameters(
    room: str, resolved: Resolved, given: Mapping[str, object]
) -> dict[str, Parameter]:
    """What a part can be told, and behind a dot what the parts can that it is given by name.

    Args:
        room: what kind of part it is.
        resolved: the part.
        given: parameters, of which the names of other parts matter here.
    """
    part = registry.find(room, resolved.name)
    return _with_nested(part, parameters_of(part), given)


def _with_nested(
    part: Any, own: Mapping[str, Parameter], given: Mapping[str, object]
) -> dict[str, Parameter]:
    """A part's own parameters, and behind a dot those of the parts that it is given by name."""
    known = dict(own)
    for name, inner_room, value in _nested(own, {**_defaults(part, own), **given}):
        inner = resolve(inner_room, value)
        for other, its in known_parameters(inner_room, inner, _behind(name, given)).items():
            known[f"{name}.{other}"] = replace(its, name=f"{name}.{other}")
    return known


def check(room: str, text: str, parameters: Mapping[str, object]) -> None:
    """Refuse a part if it or a part it is given lacks libraries, before anything is fetched.

    Raises:
        HammingMarkError: saying what to install.
    """
    resolved = resolve(room, text)
    part = registry.find(room, resolved.name)
    _check(room, text, resolved, part, parameters_of(part), parameters)


def _check(
    room: str,
    text: str,
    resolved: Resolved,
    part: Any,
    known: Mapping[str, Parameter],
    parameters: Mapping[str, object],
) -> None:
    """The same of a part that has been found."""
    ours = part.__module__.startswith("hammingmark.")
    extra = getattr(part, "extra", "attacks" if room == "attacks" else "")
    require_libraries(
        (*getattr(part, "libraries", ()), *resolved.libraries),
        part=f"The {KINDS[room]} {text!r}",
        get=f"hammingmark[{extra}]" if ours and extra else "",
        error=_ERRORS.get(room, BackendError),
    )
    for name, inner_room, value in _nested(known, {**_defaults(part, known), **parameters}):
        check(inner_room, value, _behind(name, parameters))


def build(
    room: str,
    text: str,
    parameters: Mapping[str, object] | None = None,
    *,
    store: ModelStore | None = None,
    splitter: Splitter | None = None,
    within: str = "",
) -> Any:
    """A part, from what a user typed and the parameters that were given.

    Args:
        room: what kind of part it is.
        text: what a user typed.
        parameters: as values or as a user types them: a language model, an encoder or an attack
            by what a user types to get it, with its own parameters behind a dot (``inner`` and
            ``inner.share``), a folder by its path or by a name of the catalogue.
        store: where catalogue models are kept.
        splitter: for parts that take one.
        within: what stands before the names of its parameters, if it is one of another part.

    Raises:
        InputError: a parameter is unknown, missing or of another kind.
        HammingMarkError: a library is missing; then nothing has been fetched.
    """
    parameters = parameters or {}
    resolved = resolve(room, text)
    part = registry.find(room, resolved.name)
    known = parameters_of(part)
    _check(room, text, resolved, part, known, parameters)
    store = store or model_store()
    keep_offline(store)
    given = read_parameters(
        _with_nested(part, known, parameters),
        parameters,
        of=f"the {KINDS[room]} {resolved.name!r}",
    )
    chosen: dict[str, Any] = {
        **_defaults(part, known),
        **resolved.arguments(store),
        **{name: value for name, value in given.items() if name in known},
    }
    if SECRET in known:
        chosen.setdefault(SECRET, os.environ.get("OPENAI_API_KEY") or None)
    for name, each in known.items():
        if each.default is REQUIRED and name not in chosen:
            raise InputError(
                f"The {KINDS[room]} {resolved.name!r} needs the parameter {name!r}: "
                f"{each.description}. "
                f"On the command line it is given with --set {within}{name}=…, or with a file: "
                f"--set {within}{name}=@FILE."
            )
    for name, inner_room, value in list(_nested(known, chosen)):
        chosen[name] = build(
            inner_room,
            value,
            _behind(name, given),
            store=store,
            splitter=splitter,
            within=f"{within}{name}.",
        )
    for name, each in known.items():
        typed = chosen.get(name)
        if isinstance(typed, str) and each.wants(Path):
            if typed in CATALOGUE:
                chosen[name] = store.ensure(typed)
            elif not each.wants(str):
                chosen[name] = Path(typed).expanduser()
    if splitter is not None and takes_splitter(part):
        chosen["splitter"] = splitter
    return part(**chosen)


def resolve(room: str, text: str) -> Resolved:
    """The registered part that a user means, and what it is given.

    Raises:
        InputError: there is none.
        UnknownName: likewise, with the nearest name that there is.
    """
    # Rooms whose parts have short forms beside their registered names; these modules use this one.
    from hammingmark.assembly.backends import resolve_backend, resolve_tokenizer
    from hammingmark.assembly.encoders import resolve_encoder

    short_forms = {
        "encoders": resolve_encoder,
        "backends": resolve_backend,
        "tokenizers": resolve_tokenizer,
    }
    if room in short_forms:
        return short_forms[room](text)
    found = resolve_name(room, text)
    if found is None:
        registry.find(room, text)  # says which name is near
    assert found is not None
    return found


def _nested(
    known: Mapping[str, Parameter], given: Mapping[str, object]
) -> Iterator[tuple[str, str, str]]:
    """Parameters that are parts and given by what a user types: name, room and text."""
    for name, each in known.items():
        value = given.get(name)
        for kind, room in _ROOMS.items():
            if each.wants(kind) and isinstance(value, str):
                yield name, room, value


def _defaults(part: Any, known: Mapping[str, Parameter]) -> dict[str, Any]:
    """The models that a part needs; a language model that must be given is the default one."""
    models = {
        name: DEFAULT_GENERATOR
        for name, each in known.items()
        if each.default is REQUIRED and each.wants(Backend)
    }
    return {**models, **getattr(part, "needs", {})}


def _behind(name: str, given: Mapping[str, object]) -> dict[str, object]:
    """The parameters of the part that is the parameter ``name``, under their own names."""
    dotted = f"{name}."
    return {k.removeprefix(dotted): v for k, v in given.items() if k.startswith(dotted)}


def model_and_url(text: str) -> tuple[str, str]:
    """``MODEL@URL`` taken apart.

    Raises:
        InputError: there is no URL.
    """
    model, at, url = text.partition("@http")  # names of models may have an @ of their own
    if not at:
        raise InputError(f"'openai:{text}' should look like openai:MODEL@URL.")
    return model, f"http{url}"


def load_splitter(name: str = DEFAULT_SPLITTER, *, language: str = "en") -> Splitter:
    """A splitter by its registered name."""
    splitter: Splitter = build("splitters", name, {"language": language})
    return splitter
