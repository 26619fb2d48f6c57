"""Parameters of components: read from the constructor, typed; unknown names are refused.

It serves attacks, backends, encoders, splitters and the configurations of methods.
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

_SECTION = re.compile(r"(?:^|\n)(?:Attributes|Args):\n")
_LOGIN = re.compile(r"(?<=://)[^/@\s]*@")
_TRUTH_VALUES = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
_TYPE_NAMES: Mapping[object, str] = {
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
    """A parameter of a component.

    Attributes:
        name: its name.
        kinds: the types of its values; ``tuple`` for a list of texts.
        choices: the values of a ``Literal``, as texts.
        default: its default; ``REQUIRED`` if there is none.
    """

    name: str
    kinds: tuple[object, ...]
    choices: tuple[str, ...]
    default: object

    @property
    def typed(self) -> bool:
        """Whether it can be set on the command line."""
        return bool(self.choices) or any(kind in _TYPE_NAMES for kind in self.kinds)

    def wants(self, kind: object) -> bool:
        """Whether its values may have this type."""
        return kind in self.kinds

    def read(self, value: object) -> object:
        """The argument of the constructor, from a text of a user or a value of a program.

        Raises:
            InputError: the value has the wrong type.
        """
        try:
            return self._parse(value) if isinstance(value, str) else self._check(value)
        except ValueError:
            quoted = value if isinstance(value, str) else repr(value)
            raise InputError(
                f"{self.name} must be {self.description}, not {quoted!s:.60}."
            ) from None

    @property
    def description(self) -> str:
        """The values that it may have, in words."""
        types = [_TYPE_NAMES[kind] for kind in self.kinds if kind in _TYPE_NAMES]
        alternatives = dict.fromkeys([*self.choices, *types])
        return " or ".join(alternatives) or "an object that only a program can pass"

    def _parse(self, text: str) -> object:
        if text in self.choices:
            return text
        if self.wants(NoneType) and text.lower() == "none":
            return None
        if self.wants(bool) and text.lower() in _TRUTH_VALUES:
            return _TRUTH_VALUES[text.lower()]
        for kind in (int, float):
            if self.wants(kind) and _succeeds(kind, text):
                return kind(text)
        if self.wants(tuple):
            return (text,)
        if any(self.wants(kind) for kind in (str, Path, Backend, Encoder, Attack)):
            return text
        raise ValueError

    def _check(self, value: object) -> object:
        if isinstance(value, (list, tuple)) and self.wants(tuple):
            if all(isinstance(item, str) for item in value):
                return tuple(value)
            raise ValueError
        if isinstance(value, int) and not isinstance(value, bool) and self.wants(float):
            return value if self.wants(int) else float(value)
        kinds = tuple(kind for kind in self.kinds if isinstance(kind, type))
        if (type(value) in kinds) or (not _is_plain(value) and isinstance(value, kinds)):
            return value
        raise ValueError


def is_secret(name: str) -> bool:
    """Whether a parameter is a secret; dots may separate the names of nested components."""
    return name.rpartition(".")[2] == SECRET


def without_login(text: str) -> str:
    """A text without the user name and password of a URL in it."""
    return _LOGIN.sub("", text)


def parameters_of(component: Callable[..., object]) -> dict[str, Parameter]:
    """The parameters of a component's constructor, in order, except for a splitter.

    A component that needs a model of the catalogue names it in ``needs``, under the parameter for
    the model's folder.
    """
    # The hints of a dataclass belong to the modules of its fields, not to that of its constructor.
    is_dataclass = "__dataclass_fields__" in vars(component)
    hinted = component.__init__ if inspect.isclass(component) and not is_dataclass else component
    hints = get_type_hints(hinted)
    needs: Mapping[str, str] = getattr(component, "needs", {})
    parameters = {}
    for name, parameter in inspect.signature(component).parameters.items():
        kinds = list(kinds_of(hints.get(name, str)))
        if Splitter not in kinds:
            choices = [
                value for kind in kinds if get_origin(kind) is Literal for value in get_args(kind)
            ]
            parameters[name] = Parameter(
                name,
                kinds=tuple(
                    tuple if get_origin(kind) is tuple else kind
                    for kind in kinds
                    if get_origin(kind) is not Literal
                ),
                choices=tuple(map(str, choices)),
                default=needs.get(name, parameter.default),
            )
    return parameters


def takes_splitter(component: Callable[..., object]) -> bool:
    """Whether the constructor of a component has a parameter ``splitter``."""
    return "splitter" in inspect.signature(component).parameters


def read_parameters(
    parameters: Mapping[str, Parameter], values: Mapping[str, object], *, of: str
) -> dict[str, object]:
    """The arguments of a component's constructor.

    Args:
        parameters: the parameters of the component.
        values: texts of a user or values of a program, by the name of the parameter.
        of: the name of the component in errors, such as ``the attack 'typos'``.

    Raises:
        InputError: a parameter is unknown, or a value has the wrong type.
    """
    arguments = {}
    for name, value in values.items():
        if name not in parameters:
            hint = did_you_mean(name, parameters)
            listing = ", ".join(parameters) or "none"
            raise InputError(
                f"{of[0].upper()}{of[1:]} has no parameter {name!r}.{hint} Its parameters: "
                f"{listing}."
            )
        arguments[name] = parameters[name].read(value)
    return arguments


def meanings_of(part: type) -> dict[str, str]:
    """What the docstrings of a class and its bases say of its attributes or arguments, by name."""
    meanings: dict[str, str] = {}
    for base in reversed(part.__mro__):
        for section in _SECTION.split(inspect.cleandoc(base.__doc__ or ""))[1:]:
            name = ""
            for line in section.splitlines():
                if not line.startswith("    "):
                    break
                if line.startswith("     "):
                    meanings[name] = f"{meanings[name]} {line.strip()}".replace("``", "")
                else:
                    name, _, beginning = line.strip().partition(": ")
                    meanings[name] = beginning.replace("``", "")
    return meanings


def kinds_of(hint: Any) -> Iterator[Any]:
    """The types of a hint, unwrapped from unions and ``Annotated``."""
    if get_origin(hint) is Annotated:
        yield from kinds_of(get_args(hint)[0])
    elif get_origin(hint) in (Union, UnionType):
        for alternative in get_args(hint):
            yield from kinds_of(alternative)
    else:
        yield hint


def _is_plain(value: object) -> bool:
    return isinstance(value, (str, int, float))


def _succeeds(convert: Callable[[str], object], text: str) -> bool:
    try:
        convert(text)
    except ValueError:
        return False
    return True
