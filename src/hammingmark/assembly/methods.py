"""The available watermarking methods."""

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
    """A description of a method for users.

    Attributes:
        brief: one sentence.
        marks: ``sentences`` or ``tokens``.
        embeds: whether it needs an encoder.
        presets: the names of its presets.
        statistics: its test statistics, the default first.
        parameters: of its keys.
    """

    brief: str
    marks: str
    embeds: bool
    presets: tuple[str, ...]
    statistics: tuple[str, ...]
    parameters: Mapping[str, Parameter]


def method_names() -> list[str]:
    """The name of every method, of this package and of installed ones."""
    return registry.names("methods")


def describe_method(name: str) -> MethodDescription:
    """Describe a method for users.

    Raises:
        UnknownName: no method has this name.
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
