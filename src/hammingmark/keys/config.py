"""What a key fixes besides its secret: a method, its parameters, and the parts it is tied to.

Each method has a configuration class of its own. Generation and detection read the same one, and
it refuses what it does not know.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar, TypeVar, get_type_hints

from hammingmark.errors import InputError
from hammingmark.keys.parameters import Parameter, parameters_of, read_parameters
from hammingmark.protocols import Encoder

MOST_DIMENSIONS = 1 << 16


@dataclass(frozen=True, slots=True)
class EncoderId:
    """The encoder that a key was made for.

    Attributes:
        name: what a user types to get it.
        fingerprint: what decides whether another one is the same.
        dimension: d, the length of its embeddings.
    """

    name: str
    fingerprint: str
    dimension: int

    def __post_init__(self) -> None:
        if not 1 <= self.dimension <= MOST_DIMENSIONS:
            raise InputError(
                f"An embedding has between 1 and {MOST_DIMENSIONS:,} dimensions, not "
                f"{self.dimension:,}."
            )

    @classmethod
    def of(cls, encoder: Encoder) -> EncoderId:
        """That of an encoder."""
        return cls(encoder.name, encoder.fingerprint, encoder.dimension)


@dataclass(frozen=True, slots=True)
class SplitterId:
    """The splitter, and the language of the texts."""

    name: str
    language: str


@dataclass(frozen=True, slots=True)
class TokenizerId:
    """The tokenizer that a key was made for.

    Attributes:
        name: what a user types to get it.
        fingerprint: what decides whether another one is the same.
        size: V, the number of logits of its model.
    """

    name: str
    fingerprint: str
    size: int

    def __post_init__(self) -> None:
        if self.size < 1:
            raise InputError(f"A vocabulary has at least one token, not {self.size}.")


PARTS: Mapping[str, type[Any]] = {
    "encoder": EncoderId,
    "splitter": SplitterId,
    "tokenizer": TokenizerId,
}
"""The fields of a configuration that name a part; all others are parameters of the method."""

Config = TypeVar("Config", bound="MethodConfig")
Record = TypeVar("Record")


@dataclass(frozen=True, kw_only=True)
class MethodConfig:
    """What all configurations have in common.

    A method's own adds a field for each of its parameters: a number, a text, a truth value, or
    one of a few words (``Literal``).
    """

    method: ClassVar[str]
    presets: ClassVar[tuple[str, ...]] = ("default",)

    @classmethod
    def from_preset(cls: type[Config], preset: str, **given: Any) -> Config:
        """A named choice of parameters, with what is given in its place.

        Raises:
            InputError: there is no such preset, or the parameters do not go together.
        """
        cls.require_preset(preset)
        return cls(**given)

    @classmethod
    def require_preset(cls, preset: str) -> None:
        """Refuse a preset that this method does not have."""
        if preset not in cls.presets:
            known = ", ".join(cls.presets)
            raise InputError(
                f"The method {cls.method!r} has no preset {preset!r}; it has: {known}."
            )

    @property
    def summary(self) -> str:
        """The rule in a few words, for people."""
        given = parameters_of_config(type(self))
        return ", ".join(f"{name} {getattr(self, name)}" for name in given) or "no parameters"


@dataclass(frozen=True, kw_only=True)
class SentenceConfig(MethodConfig):
    """Of a method that marks by the choice of sentences.

    Attributes:
        encoder: embeds them.
        splitter: finds them; None in keys from before it was recorded.
    """

    encoder: EncoderId
    splitter: SplitterId | None = None


@dataclass(frozen=True, kw_only=True)
class TokenConfig(MethodConfig):
    """Of a method that marks by the choice of tokens.

    Attributes:
        tokenizer: makes them of a text.
    """

    tokenizer: TokenizerId


@dataclass(frozen=True, kw_only=True)
class ContextConfig(TokenConfig):
    """Of a method that marks tokens by the meaning of the text before them.

    Attributes:
        encoder: embeds that text.
    """

    encoder: EncoderId


EMBEDDING = (SentenceConfig, ContextConfig)
"""The kinds of configurations that have an encoder."""


def parameters_of_config(config: type[MethodConfig]) -> dict[str, Parameter]:
    """What a key of this method can be told."""
    return {name: each for name, each in parameters_of(config).items() if name not in PARTS}


def to_json(config: MethodConfig) -> dict[str, Any]:
    """A configuration as plain data."""
    data: dict[str, Any] = {"method": config.method, "parameters": {}}
    for field in fields(config):
        value = getattr(config, field.name)
        if field.name in PARTS:
            data[field.name] = None if value is None else asdict(value)
        else:
            data["parameters"][field.name] = value
    return data


def from_json(config: type[Config], data: Mapping[str, Any]) -> Config:
    """What `to_json` wrote.

    Raises:
        InputError: a parameter is unknown or of another kind; no message quotes a value.
        LookupError, TypeError, ValueError: something is missing or of another kind.
    """
    given = data["parameters"]
    if not isinstance(given, Mapping):
        raise TypeError
    known = parameters_of_config(config)
    for name in given:
        if name not in known:
            listed = ", ".join(known) or "none"
            shown = repr(name) if len(name) <= 32 else "of such a name"  # it may be anything
            raise InputError(
                f"The method {config.method!r} has no parameter {shown}. It has: {listed}."
            )
        if isinstance(given[name], str) and not known[name].choices and not known[name].wants(str):
            raise InputError(f"{name} takes {known[name].description}.")
    chosen: dict[str, Any] = read_parameters(known, given, of=f"the method {config.method!r}")
    for field in fields(config):
        if field.name in PARTS and data.get(field.name) is not None:
            chosen[field.name] = record_from_json(PARTS[field.name], data[field.name])
    return config(**chosen)


def record_from_json(kind: type[Record], data: Mapping[str, Any]) -> Record:
    """A frozen record whose fields are texts and numbers; what else the data has is left out.

    Raises:
        LookupError, TypeError: a field is missing or of another kind; no message quotes a value.
    """
    hints = get_type_hints(kind)
    values = {name: data[name] for name in hints}
    if any(type(value) is not hints[name] for name, value in values.items()):
        raise TypeError
    return kind(**values)
