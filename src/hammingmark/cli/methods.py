"""``hammingmark methods``: what watermarks there are."""

from __future__ import annotations

import json

import click

from hammingmark.assembly.methods import describe_method, method_names
from hammingmark.parameters import REQUIRED


@click.command()
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def methods(name: str | None, as_json: bool) -> None:
    """List the watermarking methods, or describe NAME with its presets and parameters."""
    found = {each: describe_method(each) for each in ([name] if name else method_names())}
    if as_json:
        records = [
            {
                "name": each,
                "brief": method.brief,
                "marks": method.marks,
                "presets": list(method.presets),
                "statistics": list(method.statistics),
                "parameters": {
                    key: {
                        "takes": parameter.words,
                        "default": None if parameter.default is REQUIRED else parameter.default,
                    }
                    for key, parameter in method.parameters.items()
                },
            }
            for each, method in found.items()
        ]
        click.echo(json.dumps(records, indent=2))
        return
    width = max(map(len, found))
    for each, method in found.items():
        click.echo(f"{each:<{width}}  marks {method.marks}. {method.brief}")
        if name:
            click.echo(f"  presets: {', '.join(method.presets)}")
            click.echo(f"  statistics: {', '.join(method.statistics)}")
            for parameter in method.parameters.values():
                click.echo(f"  {parameter.name}: {parameter.words}")
