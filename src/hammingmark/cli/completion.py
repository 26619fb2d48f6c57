"""``hammingmark completion``: shell completion of commands, options and key names."""

from __future__ import annotations

import click
from click.shell_completion import CompletionItem, get_completion_class

_SHELLS = ("bash", "zsh", "fish")


def key_names(
    context: click.Context, parameter: click.Parameter, prefix: str
) -> list[CompletionItem]:
    """The keys of the keyring whose name or id begins with the prefix; if there is none, files."""
    from hammingmark.assembly.environment import environment_now
    from hammingmark.errors import KeyFileError
    from hammingmark.keys.keyring import Keyring
    from hammingmark.reports.text import on_one_line

    try:
        entries = Keyring(environment_now().keyring).entries()
    except KeyFileError:
        entries = []
    items = [
        CompletionItem(name, help=on_one_line(entry.key.note) or None)
        for entry in entries
        for name in dict.fromkeys((entry.name, entry.key.id))
        if name.startswith(prefix)
    ]
    return items or [CompletionItem(prefix, type="file")]


@click.command()
@click.argument("shell", type=click.Choice(_SHELLS))
def completion(shell: str) -> None:
    """Print a script with which SHELL completes commands, options and key names.

    For bash, add to ~/.bashrc: eval "$(hammingmark completion bash)". For zsh likewise to
    ~/.zshrc. For fish: hammingmark completion fish > ~/.config/fish/completions/hammingmark.fish.
    """
    from hammingmark.cli import cli

    completion_class = get_completion_class(shell)
    assert completion_class is not None
    click.echo(completion_class(cli, {}, "hammingmark", "_HAMMINGMARK_COMPLETE").source())
