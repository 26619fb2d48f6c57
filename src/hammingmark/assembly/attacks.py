"""Attacks by their names and parameters."""

from __future__ import annotations

from collections.abc import Mapping
from inspect import getdoc

from hammingmark import registry
from hammingmark.assembly.parts import build, known_parameters, resolve
from hammingmark.keys.parameters import Parameter, parameters_of
from hammingmark.models.store import ModelStore
from hammingmark.protocols import Attack, Splitter


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
        parameters: what else its constructor takes (`parts.build`).
        store: where catalogue models are kept.

    Raises:
        InputError: a parameter is unknown, missing, or of another kind.
        HammingMarkError: a library is missing; then nothing has been fetched.
    """
    attack: Attack = build("attacks", name, parameters, store=store, splitter=splitter)
    return attack


def attack_names() -> list[str]:
    """The name of every attack, ours and those of installed packages."""
    return registry.names("attacks")


def describe_attack(name: str) -> tuple[str, dict[str, Parameter]]:
    """An attack in one sentence, and what it can be told."""
    part = registry.find("attacks", name)
    return (getdoc(part) or "").partition("\n")[0], parameters_of(part)


def attack_parameters(name: str, given: Mapping[str, object]) -> dict[str, Parameter]:
    """What an attack can be told, with the parts that it is given by name."""
    return known_parameters("attacks", resolve("attacks", name), given)
