"""The command ``hammingmark``: one file per command, imported when it is used.

Options, messages and output belong here, and click nowhere else. The rooms below do the work.
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
    "demo": ("hammingmark.cli.demo:demo", "See the watermark work: generate, detect, compare."),
    "generate": ("hammingmark.cli.generate:generate", "Generate watermarked text."),
    "detect": ("hammingmark.cli.detect:detect", "Detect the watermark in texts, and locate it."),
    "serve": ("hammingmark.cli.serve:serve", "Run a watermarking proxy with a page for detection."),
    "api-keys": (
        "hammingmark.cli.api_keys:api_keys",
        "Create, list and remove API keys of the service.",
    ),
    "audit": ("hammingmark.cli.audit:audit", "Verify the audit log of the service."),
    "attack": (
        "hammingmark.cli.attack:attack",
        "Attack texts and measure how similar they remain.",
    ),
    "methods": ("hammingmark.cli.methods:methods", "List the watermarking methods."),
    "keys": ("hammingmark.cli.keys:keys", "Create, derive, show, list and rotate secret keys."),
    "models": ("hammingmark.cli.models:models", "List, download and verify model files."),
    "calibrate": (
        "hammingmark.cli.calibrate:calibrate",
        "Fit thresholds on text known to be unmarked.",
    ),
    "threshold": (
        "hammingmark.cli.threshold:threshold",
        "Estimate acceptance rates and the threshold T on natural text.",
    ),
    "profile": (
        "hammingmark.cli.profile:profile",
        "Fit a profile of natural text for an encoder.",
    ),
    "completion": (
        "hammingmark.cli.completion:completion",
        "Print a shell script that completes commands and key names.",
    ),
}


class _LazyGroup(click.Group):
    """A group that imports a command only when it is called, so that help is fast."""

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


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="hammingmark")
def cli() -> None:
    """Watermark text written by language models, and detect the watermark with a p-value."""


def main() -> None:
    """Run the command; an error that a user can fix becomes one sentence, never a traceback."""
    _open_closed_streams()
    try:
        # In this mode click returns the exit code of a command that ends with context.exit().
        code = cli(prog_name="hammingmark", standalone_mode=False)
        sys.stdout.flush()
    except click.Abort:
        sys.exit(130)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)
    except SystemExit as error:
        # Click and rich both turn a broken pipe into the exit code 1.
        if error.code == 1 and _is_broken(1):
            _exit_for_broken_pipe()
        raise
    except BrokenPipeError:
        _exit_for_broken_pipe()
    except OSError as error:
        where = f" {os.fspath(error.filename)!r}" if error.filename else ""
        _fail(f"Reading or writing{where} failed: {error.strerror or error}.")
    except Exception as error:
        from hammingmark.errors import HammingMarkError

        if not isinstance(error, HammingMarkError):
            raise
        _fail(str(error))
    sys.exit(code if isinstance(code, int) else 0)


def _fail(message: str) -> None:
    from hammingmark.reports.text import printable

    click.echo(f"Error: {printable(message)}", err=True)
    _discard_output()
    sys.exit(1)


def _exit_for_broken_pipe() -> None:
    """Exit as if by SIGPIPE, because the reader of the output has exited."""
    _discard_output()
    sys.exit(141)


def _is_broken(descriptor: int) -> bool:
    """Whether the descriptor is a pipe without a reader."""
    if not hasattr(select, "poll"):
        return False
    poll = select.poll()
    poll.register(descriptor, 0)
    return any(event & select.POLLERR for _, event in poll.poll(0))


def _discard_output() -> None:
    """Keep Python from reporting an error when it closes an output that cannot be written."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _open_closed_streams() -> None:
    """Open a placeholder for each standard stream that the caller closed.

    Otherwise the next file to be opened would get its descriptor. Reading from a closed input and
    writing to a closed output then fail as in other programs; messages on a closed standard error
    are lost.
    """
    for descriptor, mode in ((0, os.O_WRONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, mode)
    # They stay open as long as the process runs, so no ``with`` closes them.
    sys.stdin = sys.stdin or open(0, closefd=False)  # noqa: SIM115
    sys.stdout = sys.stdout or open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", closefd=False)  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A bar, or a file name in another encoding, must not end in a traceback.
        sys.stdout.reconfigure(errors="replace")
