"""The configuration of a key: its method, its parameters and the components it is tied to.

Each method has its own configuration class. Generation and detection read the same configuration,
and unknown fields are refused.
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
    """The encoder of a key.

    Attributes:
        name: the name by which a user selects it.
        fingerprint: identifies it; an encoder with another fingerprint is another encoder.
        dimension: d, the length of its embeddings.
    """

    name: str
    fingerprint: str
    dimension: int

    def __post_init__(self) -> None:
        if not 1 <= self.dimension <= MOST_DIMENSIONS:
            raise InputError(
                f"An embedding must have between 1 and {MOST_DIMENSIONS:,} dimensions, not "
                f"{self.dimension:,}."
            )

    @classmethod
    def of(cls, encoder: Encoder) -> EncoderId:
        """The record of an encoder."""
        return cls(encoder.name, encoder.fingerprint, encoder.dimension)


@dataclass(frozen=True, slots=True)
class SplitterId:
    """The splitter of a key, and the language of its texts."""

    name: str
    language: str


@dataclass(frozen=True, slots=True)
class TokenizerId:
    """The tokenizer of a key.

    Attributes:
        name: the name by which a user selects it.
        fingerprint: identifies it; a tokenizer with another fingerprint is another tokenizer.
        size: V, the number of logits of its model.
    """

    name: str
    fingerprint: str
    size: int

    def __post_init__(self) -> None:
        if self.size < 1:
            raise InputError(f"A vocabulary must have at least one token, not {self.size}.")


PARTS: Mapping[str, type[Any]] = {
    "encoder": EncoderId,
    "splitter": SplitterId,
    "tokenizer": TokenizerId,
}
"""The fields of a configuration that name a component; all others are parameters of the method."""

Config = TypeVar("Config", bound="MethodConfig")
Record = TypeVar("Record")


@dataclass(frozen=True, kw_only=True)
class MethodConfig:
    """The base class of all configurations.

    A method's configuration adds a field for each parameter: a number, a text, a truth value, or
    one of a few names (``Literal``).
    """

    method: ClassVar[str]
    presets: ClassVar[tuple[str, ...]] = ("default",)

    @classmethod
    def from_preset(cls: type[Config], preset: str, **values: Any) -> Config:
        """A configuration with the parameters of a preset, except for the values passed here.

        Raises:
            InputError: there is no such preset, or the parameters contradict each other.
        """
        cls.require_preset(preset)
        return cls(**values)

    @classmethod
    def require_preset(cls, preset: str) -> None:
        """Refuse a preset that this method does not have."""
        if preset not in cls.presets:
            raise InputError(
                f"The method {cls.method!r} has no preset {preset!r}. "
                f"Its presets: {', '.join(cls.presets)}."
            )

    @property
    def summary(self) -> str:
        """The parameters in a few words."""
        names = parameters_of_config(type(self))
        return ", ".join(f"{name} {getattr(self, name)}" for name in names) or "no parameters"


@dataclass(frozen=True, kw_only=True)
class SentenceConfig(MethodConfig):
    """The configuration of a method that marks sentences.

    Attributes:
        encoder: the encoder of sentences.
        splitter: the splitter; None in keys of versions that did not record it.
    """

    encoder: EncoderId
    splitter: SplitterId | None = None


@dataclass(frozen=True, kw_only=True)
class TokenConfig(MethodConfig):
    """The configuration of a method that marks tokens.

    Attributes:
        tokenizer: the tokenizer.
    """

    tokenizer: TokenizerId


@dataclass(frozen=True, kw_only=True)
class ContextConfig(TokenConfig):
    """The configuration of a method that marks tokens depending on the meaning of preceding text.

    Attributes:
        encoder: the encoder of that text.
    """

    encoder: EncoderId


EMBEDDING = (SentenceConfig, ContextConfig)
"""The configuration classes that have an encoder."""


def parameters_of_config(config: type[MethodConfig]) -> dict[str, Parameter]:
    """The parameters of a method, by name."""
    return {
        name: parameter for name, parameter in parameters_of(config).items() if name not in PARTS
    }


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
    """The configuration that `to_json` wrote.

    Raises:
        InputError: a parameter is unknown or of the wrong type; no message quotes a value.
        LookupError, TypeError, ValueError: a field is missing or of the wrong type.
    """
    values = data["parameters"]
    if not isinstance(values, Mapping):
        raise TypeError
    parameters = parameters_of_config(config)
    for name, value in values.items():
        if name not in parameters:
            listing = ", ".join(parameters) or "none"
            # A long name may be anything, even a secret.
            quoted = repr(name) if len(name) <= 32 else "of this name"
            raise InputError(
                f"The method {config.method!r} has no parameter {quoted}. Its parameters: "
                f"{listing}."
            )
        parameter = parameters[name]
        if isinstance(value, str) and not parameter.choices and not parameter.wants(str):
            raise InputError(f"{name} must be {parameter.description}.")
    arguments: dict[str, Any] = read_parameters(
        parameters, values, of=f"the method {config.method!r}"
    )
    for field in fields(config):
        if field.name in PARTS and data.get(field.name) is not None:
            arguments[field.name] = record_from_json(PARTS[field.name], data[field.name])
    return config(**arguments)


def record_from_json(kind: type[Record], data: Mapping[str, Any]) -> Record:
    """A frozen record whose fields are texts and numbers; other items of the data are ignored.

    Raises:
        LookupError, TypeError: a field is missing or of the wrong type; no message quotes a value.
    """
    hints = get_type_hints(kind)
    values = {name: data[name] for name in hints}
    if any(type(value) is not hints[name] for name, value in values.items()):
        raise TypeError
    return kind(**values)
