"""What attacks there are, for ``hammingmark attack --list``."""

from __future__ import annotations

import json

import click

from hammingmark.assembly.attacks import attack_names, describe_attack
from hammingmark.parameters import REQUIRED, Parameter


def show_attacks(name: str | None, *, as_json: bool) -> None:
    """Print every attack with one sentence, or one with its settings."""
    names = [name] if name else attack_names()
    if as_json:
        click.echo(json.dumps([_record(each) for each in names], indent=2, default=str))
        return
    width = max(map(len, names))
    for each in names:
        brief, settings = describe_attack(each)
        click.echo(f"{each:<{width}}  {brief}")
        for setting in settings.values() if name else ():
            if setting.typed:
                click.echo(f"  {setting.name}: {setting.words}; {_otherwise(setting)}")


def _record(name: str) -> dict[str, object]:
    brief, settings = describe_attack(name)
    return {
        "name": name,
        "brief": brief,
        "settings": {
            setting.name: {
                "takes": setting.words,
                "required": setting.default is REQUIRED,
                "default": None if setting.default is REQUIRED else setting.default,
            }
            for setting in settings.values()
            if setting.typed
        },
    }


def _otherwise(setting: Parameter) -> str:
    return "must be given" if setting.default is REQUIRED else f"by default {setting.default}"
