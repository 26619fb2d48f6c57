"""What attacks there are, for ``hammingmark attack --list``."""

from __future__ import annotations

import json

import click

from hammingmark.assembly.attacks import attack_names, describe_attack
from hammingmark.parameters import REQUIRED, Parameter


def show_attacks(name: str | None, *, as_json: bool) -> None:
    """Print every attack with one sentence, or one with its parameters."""
    names = [name] if name else attack_names()
    if as_json:
        click.echo(json.dumps([_record(each) for each in names], indent=2, default=str))
        return
    width = max(map(len, names))
    for each in names:
        brief, parameters = describe_attack(each)
        click.echo(f"{each:<{width}}  {brief}")
        for parameter in parameters.values() if name else ():
            if parameter.typed:
                click.echo(f"  {parameter.name}: {parameter.words}; {_otherwise(parameter)}")


def _record(name: str) -> dict[str, object]:
    brief, parameters = describe_attack(name)
    return {
        "name": name,
        "brief": brief,
        "parameters": {
            parameter.name: {
                "takes": parameter.words,
                "required": parameter.default is REQUIRED,
                "default": None if parameter.default is REQUIRED else parameter.default,
            }
            for parameter in parameters.values()
            if parameter.typed
        },
    }


def _otherwise(parameter: Parameter) -> str:
    return "must be given" if parameter.default is REQUIRED else f"by default {parameter.default}"
