"""What watermarking methods there are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from inspect import getdoc

from hammingmark import registry
from hammingmark.keys.config import (
    EMBEDDING,
    MethodConfig,
    SentenceConfig,
    parameters_of_config,
)
from hammingmark.keys.parameters import Parameter


@dataclass(frozen=True)
class MethodDescription:
    """A method for people.

    Attributes:
        brief: in a sentence.
        marks: ``sentences`` or ``tokens``.
        embeds: whether it needs an encoder.
        presets: named choices of its parameters.
        statistics: by which it can be judged, the default first.
        parameters: what a key of it can be told.
    """

    brief: str
    marks: str
    embeds: bool
    presets: tuple[str, ...]
    statistics: tuple[str, ...]
    parameters: Mapping[str, Parameter]


def method_names() -> list[str]:
    """The name of every method, ours and those of installed packages."""
    return registry.names("methods")


def describe_method(name: str) -> MethodDescription:
    """A method for people.

    Raises:
        UnknownName: there is none of this name.
    """
    method = registry.find("methods", name)
    config: type[MethodConfig] = method.Config
    return MethodDescription(
        brief=(getdoc(method) or "").partition("\n")[0],
        marks="sentences" if issubclass(config, SentenceConfig) else "tokens",
        embeds=issubclass(config, EMBEDDING),
        presets=config.presets,
        statistics=tuple(method.statistics),
        parameters=parameters_of_config(config),
    )
