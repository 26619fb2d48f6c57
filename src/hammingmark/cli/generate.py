"""``hammingmark generate``: prompts to marked text."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import click

from hammingmark.assembly.keys import load_key, option_error, splitter_of
from hammingmark.assembly.marking import PROCEDURES, default_backend, writer
from hammingmark.cli.completion import key_names
from hammingmark.cli.inputs import read_text
from hammingmark.cli.options import keys_language_option, keys_splitter_option, seed_option
from hammingmark.cli.progress import counting, fetch_backend, fetch_encoder, waiting
from hammingmark.errors import InputError
from hammingmark.generation.generate import Writer
from hammingmark.keys.config import EMBEDDING, TokenConfig
from hammingmark.keys.key import WatermarkKey
from hammingmark.models.catalogue import DEFAULT_GENERATOR
from hammingmark.prompts import CHAT, as_prompt
from hammingmark.records import Generation, Prompt
from hammingmark.report import counted
from hammingmark.serialization import generation_to_dict


@click.command()
@click.option("--key", "-k", help="Key file, name or id.", shell_complete=key_names)
@click.option("--label", help="Mark with the key that KEY has for this label.")
@click.option("--prompt", help="Text to continue; without any prompt, standard input.")
@click.option(
    "--prompt-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File with the text to continue.",
)
@click.option(
    "--chat",
    type=click.Path(dir_okay=False, path_type=Path),
    help=f"JSON file of messages: {CHAT}.",
)
@click.option(
    "--prompts",
    type=click.Path(dir_okay=False, path_type=Path),
    help="JSONL file of many prompts, with a field text or messages each; prints JSON lines.",
)
@click.option(
    "--max-tokens", type=int, default=200, show_default=True, help="Tokens to write at most."
)
@click.option("--max-sentences", type=int, help="Sentences to write at most.")
@seed_option("all that the language model samples")
@click.option(
    "--backend",
    help=f"Language model; by default {DEFAULT_GENERATOR}, or the one whose tokens the key marks.",
)
@click.option("--width", type=int, help="Candidates per text drawn in parallel.")
@click.option(
    "--context",
    type=int,
    help="Tokens that a prompt and its continuation may have together; by default what suits the "
    "model.",
)
@click.option(
    "--stage-tokens",
    type=int,
    help="Tokens of a sentence to draw before its beginning is judged; 0 draws every candidate "
    "whole.",
)
@click.option(
    "--budget",
    type=click.IntRange(min=1),
    help="Candidates for a sentence at most; by default what the method's paper allows, or 16.",
)
@click.option(
    "--procedure",
    type=click.Choice(list(PROCEDURES)),
    default="default",
    show_default=True,
    help="Procedure of the rejection sampling: ours, or exactly the paper's.",
)
@click.option("--temperature", type=float, help="1 is the model's own distribution.")
@click.option("--top-k", type=int, help="Sample from the k most likely tokens; 0 for all.")
@click.option(
    "--top-p", type=float, help="Sample from the most likely tokens of this total probability."
)
@click.option(
    "--min-p",
    type=float,
    help="Sample from tokens with at least this share of the top probability.",
)
@click.option(
    "--no-watermark",
    is_flag=True,
    help="Write text without the watermark; with --key, by the language model of that key.",
)
@keys_splitter_option
@keys_language_option
@click.option("--json", "as_json", is_flag=True, help="Print the text and its cost as JSON.")
def generate(
    key: str | None,
    label: str | None,
    prompt: str | None,
    prompt_file: Path | None,
    chat: Path | None,
    prompts: Path | None,
    max_tokens: int,
    max_sentences: int | None,
    seed: int,
    backend: str | None,
    width: int | None,
    context: int | None,
    stage_tokens: int | None,
    budget: int | None,
    procedure: str,
    temperature: float | None,
    top_k: int | None,
    top_p: float | None,
    min_p: float | None,
    no_watermark: bool,
    splitter: str | None,
    language: str | None,
    as_json: bool,
) -> None:
    """Continue a prompt, or answer a chat, with marked text."""
    asked = _read_prompts(prompt, prompt_file, chat, prompts)
    if not key and not no_watermark:
        raise InputError("Name a key with --key, or use --no-watermark.")
    chosen = PROCEDURES[procedure]
    options = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "min_p": min_p}
    told: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    named = None if key is None else load_key(key)
    loaded = None if no_watermark else named
    if label is not None:
        if loaded is None:
            raise InputError("A label goes with a key that marks; there is none.")
        loaded = loaded.derive(label)
    if loaded:
        _require_candidates(loaded, budget=budget, stage_tokens=stage_tokens, procedure=procedure)
    # Where sentences are counted, they must be found, whatever is marked.
    by_key = loaded if max_sentences is None or not _marks_tokens(loaded) else None
    cutter = splitter_of(by_key, name=splitter, language=language)
    method = loaded.config if loaded else None
    encoder = None
    if isinstance(method, EMBEDDING):
        encoder = fetch_encoder(method.encoder.name)
    made = writer(
        loaded,
        backend=fetch_backend(backend or default_backend(named), width=width, context=context),
        encoder=encoder,
        splitter=cutter,
        config=replace(
            chosen,
            max_tokens=max_tokens,
            max_sentences=max_sentences,
            budget=budget,
            stage_tokens=chosen.stage_tokens if stage_tokens is None else stage_tokens,
            text_sampling=replace(chosen.text_sampling, **told),
            chat_sampling=replace(chosen.chat_sampling, **told),
        ),
    )
    _warn_of_one_token(made, asked)
    try:
        if prompts is not None:
            _write_many(made, asked, seed=seed)
        else:
            _write_one(made, asked[0], seed=seed, as_json=as_json)
    finally:
        if ignored := sorted({*options} & getattr(made.backend, "refused", frozenset())):
            click.echo(f"Warning: the server does not take {', '.join(ignored)}.", err=True)


def _marks_tokens(key: WatermarkKey | None) -> bool:
    return key is not None and isinstance(key.config, TokenConfig)


def _require_candidates(
    key: WatermarkKey, *, budget: int | None, stage_tokens: int | None, procedure: str
) -> None:
    """Refuse options of rejection sampling for a key whose method draws one token at a time.

    Raises:
        InputError: one is given.
    """
    if not _marks_tokens(key):
        return
    for option, given, has_no in (
        ("budget", budget is not None, "budget of candidates"),
        ("stage-tokens", stage_tokens is not None, "stages"),
        ("procedure", procedure != "default", "rejection sampling"),
    ):
        if given:
            raise option_error(key.config.method, option, has_no=has_no)


def _write_one(made: Writer, asked: Prompt, *, seed: int, as_json: bool) -> None:
    run = made.stream(asked, seed=seed)
    by_sentence = _by_sentence(made)
    if as_json or not sys.stdout.isatty():
        what = "sentences" if by_sentence else "tokens"
        with counting(what, shown=sys.stderr.isatty()) as advance:
            for step in run:
                advance(1 if by_sentence else step.tokens)
                if not as_json:
                    click.echo(step.text, nl=False)
    else:
        # On a terminal the text itself shows that something happens, once it begins.
        steps = iter(run)
        with waiting("loading the model and writing"):
            first = next(steps, None)
        for step in chain([first] if first else [], steps):
            click.echo(step.text, nl=False)
    (generation,) = run.generations()
    _warn_unmarked([generation])
    if as_json:
        click.echo(json.dumps(generation_to_dict(generation)))
    else:
        click.echo()
        click.echo(_summary(generation), err=True)
    if generation.failure:
        raise generation.failure.error()


def _write_many(made: Writer, asked: Sequence[Prompt], *, seed: int) -> None:
    """One JSON line a prompt, in order; what is finished is printed before the next part begins."""
    part = 4 * made.backend.parallel
    failed = 0
    with counting("texts", shown=sys.stderr.isatty()) as advance:
        for first in range(0, len(asked), part):
            generations = made.write_many(asked[first : first + part], seed=seed, first=first)
            _warn_unmarked(generations)
            for number, generation in enumerate(generations, start=first):
                click.echo(json.dumps({"prompt": number, **generation_to_dict(generation)}))
                failed += generation.failure is not None
            advance(len(generations))
            if generations and all(
                generation.failure and not generation.text for generation in generations
            ):
                raise InputError(f"No text could be written: {generations[0].error}")
    if failed:
        raise InputError(f"{failed} of {counted(len(asked), 'text')} failed; their lines say why.")


def _warn_of_one_token(made: Writer, asked: Sequence[Prompt]) -> None:
    """Say where the likeliest token is drawn and the mark comes too late to decide which it is."""
    config = made.config
    mark = made.watermark.capabilities.tokens if made.watermark else None
    comes_late = mark is not None and mark.stage == "distribution"
    if comes_late and any(config.sampling(prompt).is_greedy for prompt in asked):
        words = "where only the likeliest token may be drawn, nothing can be marked."
        click.echo(f"Warning: {words}", err=True)


def _warn_unmarked(generations: Sequence[Generation]) -> None:
    """Say of how many texts no sentence satisfies the rule, as at temperature 0."""
    costs = [generation.cost for generation in generations]
    plain = sum(cost.constrained > 0 and cost.fallbacks == cost.constrained for cost in costs)
    if plain:
        which = "The text" if len(generations) == 1 else f"{plain} of {len(generations)} texts"
        words = "not marked: no candidate of any sentence satisfied the rule."
        verb = "is" if len(generations) == 1 or plain == 1 else "are"
        click.echo(f"Warning: {which} {verb} {words}", err=True)


def _by_sentence(made: Writer) -> bool:
    """Whether candidates are drawn for each sentence, rather than the text as a whole."""
    return made.watermark is not None and made.watermark.capabilities.sentences is not None


def _summary(generation: Generation) -> str:
    cost = generation.cost
    return (
        f"[{counted(len(generation.sentences), 'sentence')}, {counted(cost.tokens, 'token')}, "
        f"{cost.drawn_tokens} drawn, {counted(cost.fallbacks, 'fallback')}, "
        f"{cost.seconds:.1f} s; stopped: {generation.stopped}]"
    )


def _read_prompts(
    prompt: str | None, prompt_file: Path | None, chat: Path | None, prompts: Path | None
) -> list[Prompt]:
    given = [each for each in (prompt, prompt_file, chat, prompts) if each is not None]
    if len(given) > 1:
        raise InputError("Give one of --prompt, --prompt-file, --chat and --prompts.")
    if prompts is not None:
        return _read_many(prompts)
    if chat is not None:
        return [_read_chat(chat)]
    return [as_prompt(read_text(prompt_file or Path("-")) if prompt is None else prompt)]


def _read_chat(path: Path) -> Prompt:
    try:
        return as_prompt(json.loads(read_text(path)), where=str(path))
    except (ValueError, RecursionError):
        raise InputError(f"{path} is not JSON; a chat is {CHAT}.") from None


def _read_many(path: Path) -> list[Prompt]:
    found = []
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        if not line.strip():
            continue
        where = f"{path}:{number}"
        try:
            row = json.loads(line)
            asked = row["messages"] if "messages" in row else row["text"]
        except (ValueError, LookupError, TypeError, RecursionError):
            raise InputError(
                f'{where} is no prompt: it should be like {{"text": "…"}} or {{"messages": […]}}.'
            ) from None
        found.append(as_prompt(asked, where=where))
    if not found:
        raise InputError(f"{path} holds no prompt.")
    return found
