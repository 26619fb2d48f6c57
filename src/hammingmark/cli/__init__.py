"""The command ``hammingmark``: one file per command, imported when it is used.

Options, messages and output belong here, and click nowhere else. What a command does is done by
the rooms below.
"""

from __future__ import annotations

import io
import os
import select
import sys
from collections.abc import Mapping
from importlib import import_module

import click

from hammingmark._version import __version__

COMMANDS: Mapping[str, tuple[str, str]] = {
    "demo": ("hammingmark.cli.demo:demo", "See it work: write, detect, compare."),
    "generate": ("hammingmark.cli.generate:generate", "Write marked text."),
    "detect": ("hammingmark.cli.detect:detect", "Judge texts: is the mark there, and where?"),
    "serve": ("hammingmark.cli.serve:serve", "Serve a marking proxy, and a page to judge texts."),
    "api-keys": (
        "hammingmark.cli.api_keys:api_keys",
        "Make, list and remove API keys of the service.",
    ),
    "audit": ("hammingmark.cli.audit:audit", "Check the audit log of the service."),
    "attack": ("hammingmark.cli.attack:attack", "Change texts and see how far they stay the same."),
    "methods": ("hammingmark.cli.methods:methods", "List the watermarking methods."),
    "keys": ("hammingmark.cli.keys:keys", "Make, derive, show, list and rotate secret keys."),
    "models": ("hammingmark.cli.models:models", "List, pull and verify model files."),
    "calibrate": (
        "hammingmark.cli.calibrate:calibrate",
        "Fit thresholds on text known to be unmarked.",
    ),
    "threshold": (
        "hammingmark.cli.threshold:threshold",
        "Estimate acceptance and the threshold T from natural text.",
    ),
    "profile": (
        "hammingmark.cli.profile:profile",
        "Fit what natural text looks like to an encoder.",
    ),
    "completion": (
        "hammingmark.cli.completion:completion",
        "Print what a shell needs to complete commands and key names.",
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
    _mend_standard_streams()
    try:
        # Where it does not exit by itself, click returns the exit code that a command asked for.
        code = cli(prog_name="hammingmark", standalone_mode=False)
        sys.stdout.flush()
    except click.Abort:
        sys.exit(130)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)
    except SystemExit as stop:
        # Click and rich both turn a broken pipe into the exit code 1.
        if stop.code == 1 and _is_broken(1):
            _leave_broken_pipe()
        raise
    except BrokenPipeError:
        _leave_broken_pipe()
    except OSError as error:
        where = f" {os.fspath(error.filename)!r}" if error.filename else ""
        _fail(f"Reading or writing{where} failed: {error.strerror or error}.")
    except Exception as error:
        from hammingmark.errors import HammingMarkError

        if not isinstance(error, HammingMarkError):
            raise
        _fail(str(error))
    sys.exit(code if isinstance(code, int) else 0)


def _fail(words: str) -> None:
    from hammingmark.report import printable

    click.echo(f"Error: {printable(words)}", err=True)
    _forget_output()
    sys.exit(1)


def _leave_broken_pipe() -> None:
    """Whoever read our output has gone: end as a program does that the signal ends."""
    _forget_output()
    sys.exit(141)


def _is_broken(descriptor: int) -> bool:
    """Whether nobody reads the pipe that a descriptor writes into."""
    if not hasattr(select, "poll"):
        return False
    poll = select.poll()
    poll.register(descriptor, 0)
    return any(event & select.POLLERR for _, event in poll.poll(0))


def _forget_output() -> None:
    """Let Python not complain when it closes an output that cannot be written."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _mend_standard_streams() -> None:
    """Put something in the place of streams that the caller closed.

    Otherwise the next file that is opened would take their place. Reading from or writing to a
    closed one then fails as it does in other programs; what is said on a closed standard error
    is lost.
    """
    for descriptor, mode in ((0, os.O_WRONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, mode)
    # They live as long as the process does, so no ``with`` closes them.
    sys.stdin = sys.stdin or open(0, closefd=False)  # noqa: SIM115
    sys.stdout = sys.stdout or open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", closefd=False)  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A match bar, or a file name in another encoding, must not end in a traceback.
        sys.stdout.reconfigure(errors="replace")
