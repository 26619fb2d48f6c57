"""``hammingmark demo``: generation and detection once, with the embedded models."""

from __future__ import annotations

import shutil
import sys

import click

from hammingmark.assembly.detection import detector
from hammingmark.assembly.keys import new_key
from hammingmark.assembly.marking import writer
from hammingmark.cli.options import seed_option
from hammingmark.cli.outputs import echo_table
from hammingmark.cli.progress import fetch_backend, fetch_encoder
from hammingmark.generation.generate import GenerationConfig
from hammingmark.models.catalogue import DEFAULT_ENCODER, DEFAULT_GENERATOR
from hammingmark.prompts import as_prompt
from hammingmark.records import Generation, Verdict
from hammingmark.reports.text import counted, format_p_value

_QUESTION = "Write a short story about a lighthouse keeper and a storm."
"""A small model writes stories best: it has much to choose from, and no facts to get wrong."""


@click.command()
@click.option(
    "--backend",
    "model",
    default=DEFAULT_GENERATOR,
    show_default=True,
    help="Language model; qwen-coder is larger, slower, and writes better.",
)
@click.option(
    "--max-sentences",
    type=int,
    default=12,
    show_default=True,
    help="Maximum number of sentences per text.",
)
@click.option(
    "--max-tokens",
    type=int,
    default=500,
    show_default=True,
    help="Maximum number of tokens per text.",
)
@seed_option("the sampling of the language model", default=1)
def demo(model: str, max_sentences: int, max_tokens: int, seed: int) -> None:
    """Create two keys, generate a marked and a plain text, and test both texts with both keys.

    Both texts are drawn from the same model at the same temperature and end after the same number
    of sentences.
    """
    encoder = fetch_encoder(DEFAULT_ENCODER)
    backend = fetch_backend(model)
    key, other = new_key(encoder), new_key(encoder)
    click.echo(f"Created two keys, kept only in memory: {key.id} and {other.id}.\n")
    click.echo(click.style("Question. ", bold=True) + _QUESTION + "\n")
    generations: dict[str, Generation] = {}
    for title, marked in (("Marked answer", True), ("Plain answer", False)):
        text_writer = writer(
            key if marked else None,
            backend=backend,
            encoder=encoder,
            config=GenerationConfig(
                max_tokens=max_tokens, max_sentences=max_sentences, in_parts=True
            ),
        )
        click.echo(click.style(f"{title}. ", bold=True), nl=False)
        run = text_writer.stream(as_prompt([{"role": "user", "content": _QUESTION}]), seed=seed)
        gap = ""  # white space that counts only if something follows
        for step in run:
            written = gap + step.text
            gap = written[len(written.rstrip()) :]
            click.echo(written.rstrip(), nl=False)
        generations[title] = run.generations()[0]
        click.echo("\n")
        if failure := generations[title].failure:
            raise failure.error()
    _print_costs(generations)
    _print_verdicts(
        {
            (title, name): detector(tested, encoder=encoder).judge(generation.text)
            for title, generation in generations.items()
            for name, tested in (("the right key", key), ("a wrong key", other))
        }
    )
    command = "hammingmark" if shutil.which("hammingmark") else sys.argv[0]
    click.echo(
        "\nNext:\n"
        f"  {command} keys new --name mine\n"
        f'  {command} generate --key mine --prompt "Once upon a time there was a lighthouse." '
        "> story.txt\n"
        f"  {command} detect --key mine story.txt"
    )


def _print_costs(generations: dict[str, Generation]) -> None:
    from rich.table import Table

    table = Table("answer", "sentences", "tokens", "tokens drawn", "drawn / kept", "seconds")
    for title, generation in generations.items():
        cost = generation.cost
        table.add_row(
            _answer(title),
            str(len(generation.sentences)),
            str(cost.tokens),
            str(cost.drawn_tokens),
            f"{cost.drawn_tokens / max(1, cost.tokens):.1f}",
            f"{cost.seconds:.1f}",
        )
    echo_table(table)
    unmarked = generations["Marked answer"].cost.fallbacks
    if unmarked:
        click.echo(f"In the marked answer {counted(unmarked, 'sentence')} could not be marked.")
    click.echo()


def _print_verdicts(verdicts: dict[tuple[str, str], Verdict]) -> None:
    from rich.table import Table

    table = Table("answer", "tested with", "sentences", "valid", "p-value", "verdict")
    outcomes = {True: "watermarked", False: "no watermark found", None: "cannot tell"}
    for (title, name), verdict in verdicts.items():
        table.add_row(
            _answer(title),
            name,
            str(len(verdict.pieces)),
            f"{verdict.evidence.valid} of {len(verdict.evidence.scores)}",
            "-" if verdict.p_value is None else format_p_value(verdict.p_value),
            outcomes[verdict.watermarked],
        )
    echo_table(table)


def _answer(title: str) -> str:
    return title.partition(" ")[0].lower()
