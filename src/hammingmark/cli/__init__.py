"""The command ``hammingmark``. One file a command; each is imported only when it is used."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Mapping
from importlib import import_module

import click

from hammingmark._version import __version__

COMMANDS: Mapping[str, tuple[str, str]] = {
    "demo": ("hammingmark.cli.demo:demo", "See it work: write, detect, compare."),
    "generate": ("hammingmark.cli.generate:generate", "Write marked text."),
    "detect": ("hammingmark.cli.detect:detect", "Judge texts: is the mark there, and where?"),
    "attack": ("hammingmark.cli.attack:attack", "Change texts and see how far they stay the same."),
    "keys": ("hammingmark.cli.keys:keys", "Make, show, list and rotate secret keys."),
    "models": ("hammingmark.cli.models:models", "List, pull and verify model files."),
    "calibrate": (
        "hammingmark.cli.calibrate:calibrate",
        "Fit thresholds on text known to be unmarked.",
    ),
    "threshold": (
        "hammingmark.cli.threshold:threshold",
        "Estimate acceptance and the threshold T from natural text.",
    ),
}


class _LateGroup(click.Group):
    """A group whose commands are imported when they are called, so that help is quick."""

    def list_commands(self, context: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[name][0].partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        return command

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, brief) for name, (_, brief) in COMMANDS.items()])


@click.group(cls=_LateGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="hammingmark")
def cli() -> None:
    """Watermark text written by language models, and tell by a p-value whether a text has it."""


def main() -> None:
    """Run the command; what a user can mend becomes one sentence, never a traceback."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A match bar, or a file name in another encoding, must not end in a traceback.
        sys.stdout.reconfigure(errors="replace")
    try:
        cli(standalone_mode=False)
    except click.exceptions.Exit as stop:
        sys.exit(stop.exit_code)
    except click.Abort:
        sys.exit(130)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        # Whoever read our output has gone; let Python not complain when it closes it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    except Exception as error:
        from hammingmark.errors import HammingMarkError

        if not isinstance(error, HammingMarkError):
            raise
        click.echo(f"Error: {error}", err=True)
        sys.exit(1)
