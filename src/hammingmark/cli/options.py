"""Options that several commands share, with the same name, meaning and help."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

from hammingmark.assembly.parts import DEFAULT_SPLITTER
from hammingmark.errors import InputError

_Command = TypeVar("_Command", bound=Callable[..., Any])


def at_least(least: int) -> Callable[[click.Context, click.Parameter, int], int]:
    """A callback for an option that refuses smaller numbers."""

    def check(context: click.Context, option: click.Parameter, value: int) -> int:
        if value < least:
            raise InputError(f"--{option.name} must be at least {least}, not {value}.")
        return value

    return check


def seed_option(purpose: str, *, default: int = 0) -> Callable[[_Command], _Command]:
    """``--seed`` of ``purpose``."""
    return click.option(
        "--seed",
        type=int,
        default=default,
        show_default=True,
        callback=at_least(0),
        help=f"Seed of {purpose}: an integer, 0 or above.",
    )


def read_pairs(pairs: tuple[str, ...], values: Mapping[str, object]) -> dict[str, object]:
    """The values of ``--set``, added to those of other options.

    Args:
        pairs: as typed, ``KEY=VALUE`` each.
        values: of options that are short for one ``--set``.

    Raises:
        InputError: an argument is not a pair, or a key is given twice.
    """
    read = dict(values)
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise InputError(f"--set takes KEY=VALUE, not {pair}.")
        if key in read:
            raise InputError(f"The parameter {key!r} is given twice.")
        read[key] = value
    return read


field_option = click.option(
    "--field",
    default="text",
    show_default=True,
    help="Field of a JSONL line that contains the text.",
)
splitter_option = click.option(
    "--splitter",
    default=DEFAULT_SPLITTER,
    show_default=True,
    help="Sentence splitter; must be the same for generation and detection.",
)
language_option = click.option(
    "--language", default="en", show_default=True, help="Language code of the texts."
)
keys_splitter_option = click.option(
    "--splitter", help="Sentence splitter, if the key does not record one."
)
keys_language_option = click.option(
    "--language", help="Language code of the texts, if the key does not record one."
)
