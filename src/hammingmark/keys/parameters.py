"""What a part can be told: read off its constructor, typed, and refused when unknown.

Attacks, backends, encoders, splitters and the configurations of methods are all read this way.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from hammingmark.errors import InputError, did_you_mean
from hammingmark.protocols import Attack, Backend, Encoder, Splitter

REQUIRED = inspect.Parameter.empty
SECRET = "api_key"
"""A parameter of this name is never recorded, shown or sent."""

_LOGIN = re.compile(r"(?<=://)[^/@\s]*@")
_SWITCH = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
_WORDS: Mapping[object, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a text",
    Path: "a folder",
    tuple: "a list of texts",
    NoneType: "none",
    Backend: "a language model",
    Encoder: "an encoder",
    Attack: "an attack",
}


@dataclass(frozen=True, slots=True)
class Parameter:
    """One thing a part can be told.

    Attributes:
        name: what to call it.
        kinds: what it may be; ``tuple`` for a list of texts.
        choices: the words it may be, where it is one of a few.
        default: what it is otherwise; ``REQUIRED`` if it must be given.
    """

    name: str
    kinds: tuple[object, ...]
    choices: tuple[str, ...]
    default: object

    @property
    def typed(self) -> bool:
        """Whether a user can type it."""
        return bool(self.choices) or any(kind in _WORDS for kind in self.kinds)

    def wants(self, kind: object) -> bool:
        """Whether it may be of this kind."""
        return kind in self.kinds

    def read(self, value: object) -> object:
        """The value as the constructor wants it, from what a user typed or a program gave.

        Raises:
            InputError: it is of another kind.
        """
        try:
            return self._parse(value) if isinstance(value, str) else self._check(value)
        except ValueError:
            shown = value if isinstance(value, str) else repr(value)
            raise InputError(f"{self.name} takes {self.description}, not {shown!s:.60}.") from None

    @property
    def description(self) -> str:
        """What it takes, in words."""
        found = [*self.choices, *(_WORDS[kind] for kind in self.kinds if kind in _WORDS)]
        return " or ".join(dict.fromkeys(found)) or "nothing that can be typed"

    def _parse(self, text: str) -> object:
        if text in self.choices:
            return text
        if self.wants(NoneType) and text.lower() == "none":
            return None
        if self.wants(bool) and text.lower() in _SWITCH:
            return _SWITCH[text.lower()]
        for kind, make in ((int, int), (float, float)):
            if self.wants(kind) and _succeeds(make, text):
                return make(text)
        if self.wants(tuple):
            return (text,)
        if any(self.wants(kind) for kind in (str, Path, Backend, Encoder, Attack)):
            return text
        raise ValueError

    def _check(self, value: object) -> object:
        if isinstance(value, (list, tuple)) and self.wants(tuple):
            if all(isinstance(each, str) for each in value):
                return tuple(value)
            raise ValueError
        if isinstance(value, int) and not isinstance(value, bool) and self.wants(float):
            return value if self.wants(int) else float(value)
        kinds = tuple(kind for kind in self.kinds if isinstance(kind, type))
        if (type(value) in kinds) or (not _is_plain(value) and isinstance(value, kinds)):
            return value
        raise ValueError


def is_secret(name: str) -> bool:
    """Whether a parameter, perhaps one of a part behind dots, is a secret."""
    return name.rpartition(".")[2] == SECRET


def without_login(text: str) -> str:
    """What a user typed, without the name and password that a URL in it may have."""
    return _LOGIN.sub("", text)


def parameters_of(part: Callable[..., object]) -> dict[str, Parameter]:
    """What the constructor of a part takes, in its order, besides a splitter.

    A part that needs a model of the catalogue names it in ``needs``, under the parameter that
    takes the model's folder.
    """
    # The fields of a dataclass may be hinted in another module than its constructor is made in.
    made = "__dataclass_fields__" in vars(part)
    hints = get_type_hints(part.__init__ if inspect.isclass(part) and not made else part)
    needs: Mapping[str, str] = getattr(part, "needs", {})
    found = {}
    for name, parameter in inspect.signature(part).parameters.items():
        kinds = list(kinds_of(hints.get(name, str)))
        if Splitter not in kinds:
            words = [
                word for kind in kinds if get_origin(kind) is Literal for word in get_args(kind)
            ]
            found[name] = Parameter(
                name,
                kinds=tuple(
                    tuple if get_origin(kind) is tuple else kind
                    for kind in kinds
                    if get_origin(kind) is not Literal
                ),
                choices=tuple(map(str, words)),
                default=needs.get(name, parameter.default),
            )
    return found


def takes_splitter(part: Callable[..., object]) -> bool:
    """Whether the constructor of a part takes a ``splitter``."""
    return "splitter" in inspect.signature(part).parameters


def read_parameters(
    known: Mapping[str, Parameter], given: Mapping[str, object], *, of: str
) -> dict[str, object]:
    """What was given, typed.

    Args:
        known: what the part can be told.
        given: values, or what a user typed.
        of: what to call the part in an error, such as ``the attack 'typos'``.

    Raises:
        InputError: a parameter is unknown, or of another kind.
    """
    chosen = {}
    for name, value in given.items():
        if name not in known:
            hint = did_you_mean(name, known)
            listed = ", ".join(known) or "none"
            raise InputError(
                f"{of[0].upper()}{of[1:]} has no parameter {name!r}.{hint} It has: {listed}."
            )
        chosen[name] = known[name].read(value)
    return chosen


def kinds_of(hint: Any) -> Iterator[Any]:
    """The types of a hint, through unions and annotations; a ``Literal`` or a tuple as it is."""
    if get_origin(hint) is Annotated:
        yield from kinds_of(get_args(hint)[0])
    elif get_origin(hint) in (Union, UnionType):
        for each in get_args(hint):
            yield from kinds_of(each)
    else:
        yield hint


def _is_plain(value: object) -> bool:
    return isinstance(value, (str, int, float))


def _succeeds(make: Callable[[str], object], text: str) -> bool:
    try:
        make(text)
    except ValueError:
        return False
    return True
