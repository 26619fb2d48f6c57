"""Options that several commands have, each with the same name, meaning and help."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

from hammingmark.assembly.parts import DEFAULT_SPLITTER
from hammingmark.errors import InputError

_Command = TypeVar("_Command", bound=Callable[..., Any])


def at_least(least: int) -> Callable[[click.Context, click.Parameter, int], int]:
    """A callback for an option that refuses smaller numbers in one sentence, before any work."""

    def check(context: click.Context, option: click.Parameter, value: int) -> int:
        if value < least:
            raise InputError(f"--{option.name} must be at least {least}, not {value}.")
        return value

    return check


def seed_option(what: str, *, default: int = 0) -> Callable[[_Command], _Command]:
    """``--seed``; ``what`` says what it decides."""
    return click.option(
        "--seed",
        type=int,
        default=default,
        show_default=True,
        callback=at_least(0),
        help=f"Whole number, 0 or above, that decides {what}.",
    )


def read_pairs(pairs: tuple[str, ...], given: Mapping[str, object]) -> dict[str, object]:
    """What ``--set`` gives, beside what other options gave.

    Args:
        pairs: as typed, ``KEY=VALUE`` each.
        given: by options that are short for one.

    Raises:
        InputError: one is no pair, or is given twice.
    """
    found = dict(given)
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise InputError(f"--set {pair} should look like KEY=VALUE.")
        if key in found:
            raise InputError(f"The parameter {key!r} is given twice.")
        found[key] = value
    return found


field_option = click.option(
    "--field", default="text", show_default=True, help="Field of a JSONL line to read."
)
splitter_option = click.option(
    "--splitter",
    default=DEFAULT_SPLITTER,
    show_default=True,
    help="Sentence splitter; generation and detection must use the same.",
)
language_option = click.option(
    "--language", default="en", show_default=True, help="Language of the texts, as a code."
)
keys_splitter_option = click.option(
    "--splitter", help="Sentence splitter, if the key does not say which."
)
keys_language_option = click.option(
    "--language", help="Language of the texts, as a code, if the key does not say which."
)
