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
from hammingmark.report import counted

_QUESTION = "Give me ten tips for growing tomatoes on a balcony."


@click.command()
@click.option(
    "--max-tokens",
    type=int,
    default=400,
    show_default=True,
    help="Maximum number of tokens per text.",
)
@seed_option("the sampling of the language model", default=1)
def demo(max_tokens: int, seed: int) -> None:
    """Create two keys, generate a marked and a plain text, and test both texts with both keys."""
    encoder = fetch_encoder(DEFAULT_ENCODER)
    backend = fetch_backend(DEFAULT_GENERATOR)
    key, other = new_key(encoder), new_key(encoder)
    click.echo(f"Created two keys, kept only in memory: {key.id} and {other.id}.\n")
    click.echo(click.style("Question. ", bold=True) + _QUESTION + "\n")
    generations: dict[str, Generation] = {}
    for title, marked in (("Marked answer", True), ("Plain answer", False)):
        text_writer = writer(
            key if marked else None,
            backend=backend,
            encoder=encoder,
            config=GenerationConfig(max_tokens=max_tokens),
        )
        click.echo(click.style(f"{title}. ", bold=True), nl=False)
        run = text_writer.stream(as_prompt([{"role": "user", "content": _QUESTION}]), seed=seed)
        for step in run:
            click.echo(step.text, nl=False)
        generations[title] = run.generations()[0]
        click.echo("\n")
    _table(
        {
            (title, name): detector(tested, encoder=encoder).judge(generation.text)
            for title, generation in generations.items()
            for name, tested in (("the right key", key), ("a wrong key", other))
        }
    )
    cost = generations["Marked answer"].cost
    click.echo(
        f"\nThe model drew {cost.drawn_tokens / max(1, cost.tokens):.1f} tokens for each token of "
        f"the marked answer; {counted(cost.fallbacks, 'sentence')} could not be marked."
    )
    command = "hammingmark" if shutil.which("hammingmark") else sys.argv[0]
    click.echo(
        "\nNext:\n"
        f"  {command} keys new --name mine\n"
        f'  {command} generate --key mine --prompt "Once upon a time there was a lighthouse." '
        "> story.txt\n"
        f"  {command} detect --key mine story.txt"
    )


def _table(verdicts: dict[tuple[str, str], Verdict]) -> None:
    from rich.table import Table

    table = Table("answer", "tested with", "sentences", "valid", "p-value", "verdict")
    outcomes = {True: "watermarked", False: "no watermark found", None: "cannot tell"}
    for (title, name), verdict in verdicts.items():
        table.add_row(
            title.partition(" ")[0].lower(),
            name,
            str(len(verdict.pieces)),
            f"{verdict.evidence.valid} of {len(verdict.evidence.scores)}",
            "-" if verdict.p_value is None else f"{verdict.p_value:.2g}",
            outcomes[verdict.watermarked],
        )
    echo_table(table)
