"""``hammingmark methods``: the watermarking methods."""

from __future__ import annotations

import json

import click

from hammingmark.assembly.keys import explain_parameters
from hammingmark.assembly.methods import describe_method, method_names
from hammingmark.keys.parameters import REQUIRED

_INDENT = " " * 6


@click.command()
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def methods(name: str | None, as_json: bool) -> None:
    """List the watermarking methods, or describe NAME with its presets and parameters."""
    names = [name] if name else method_names()
    descriptions = {method_name: describe_method(method_name) for method_name in names}
    explained = {method_name: explain_parameters(method_name) for method_name in names}
    if as_json:
        records = [
            {
                "name": method_name,
                "brief": method.brief,
                "marks": method.marks,
                "presets": list(method.presets),
                "statistics": list(method.statistics),
                "parameters": {
                    key: {
                        "takes": parameter.description,
                        "default": None if default is REQUIRED else default,
                        "meaning": meaning,
                    }
                    for key, parameter in method.parameters.items()
                    for default, meaning in [explained[method_name][key]]
                },
            }
            for method_name, method in descriptions.items()
        ]
        click.echo(json.dumps(records, indent=2))
        return
    width = max(map(len, descriptions))
    for method_name, method in descriptions.items():
        click.echo(f"{method_name:<{width}}  marks {method.marks}. {method.brief}")
        if name:
            click.echo(f"  presets: {', '.join(method.presets)}")
            click.echo(f"  statistics: {', '.join(method.statistics)}")
            for parameter in method.parameters.values():
                default, meaning = explained[method_name][parameter.name]
                click.echo(f"  {parameter.name}: {parameter.description}{_as_suffix(default)}")
                if meaning:
                    click.echo(click.wrap_text(meaning, 100, _INDENT, _INDENT))


def _as_suffix(default: object) -> str:
    """The default of a parameter as a user would type it; empty if it is not known."""
    if default is REQUIRED or default == "":
        return ""
    text = f"{default:g}" if isinstance(default, float) else str(default)
    return f"; by default {text.lower() if isinstance(default, bool) else text}"
