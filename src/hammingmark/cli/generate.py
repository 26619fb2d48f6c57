"""``hammingmark generate``: marked text from prompts."""

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
from hammingmark.assembly.marking import (
    PROCEDURES,
    default_backend,
    require_tokenizer,
    writer,
)
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
from hammingmark.reports.text import counted
from hammingmark.serialization import generation_to_dict


@click.command()
@click.option("--key", "-k", help="Key file, name or id.", shell_complete=key_names)
@click.option("--label", help="Mark with the key derived from KEY by this label.")
@click.option("--prompt", help="Text to continue; by default standard input.")
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
    help="JSONL file of prompts, each with a field text or messages; prints JSON lines.",
)
@click.option(
    "--max-tokens",
    type=int,
    default=200,
    show_default=True,
    help="Maximum number of tokens.",
)
@click.option("--max-sentences", type=int, help="Maximum number of sentences.")
@seed_option("the sampling of the language model")
@click.option(
    "--backend",
    help=f"Language model; by default {DEFAULT_GENERATOR}, or the model to whose tokenizer the key "
    "is tied.",
)
@click.option("--width", type=int, help="Candidates drawn in parallel per text.")
@click.option(
    "--context",
    type=int,
    help="Maximum number of tokens of a prompt and its continuation together; by default set by "
    "the model.",
)
@click.option(
    "--stage-tokens",
    type=int,
    help="Tokens of a candidate to draw before deciding whether to continue it; 0 draws every "
    "candidate whole.",
)
@click.option(
    "--budget",
    type=click.IntRange(min=1),
    help="Maximum number of candidates per sentence; by default that of the method's paper, or 16.",
)
@click.option(
    "--procedure",
    type=click.Choice(list(PROCEDURES)),
    default="default",
    show_default=True,
    help="How candidates are drawn and chosen: our procedure, or exactly the paper's.",
)
@click.option(
    "--temperature", type=float, help="Sampling temperature; 1 is the model's own distribution."
)
@click.option("--top-k", type=int, help="Sample from the k most likely tokens; 0 for all.")
@click.option(
    "--top-p", type=float, help="Sample from the most likely tokens with this total probability."
)
@click.option(
    "--min-p",
    type=float,
    help="Sample from tokens with at least this fraction of the highest probability.",
)
@click.option(
    "--no-watermark",
    is_flag=True,
    help="Generate text without the watermark. --key then only selects the language model.",
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
    requests = _read_prompts(prompt, prompt_file, chat, prompts)
    if not key and not no_watermark:
        raise InputError("Name a key with --key, or use --no-watermark.")
    base = PROCEDURES[procedure]
    options = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "min_p": min_p}
    sampling: dict[str, Any] = {k: value for k, value in options.items() if value is not None}
    named_key = None if key is None else load_key(key)
    marking_key = None if no_watermark else named_key
    if label is not None:
        if marking_key is None:
            raise InputError("--label needs a key that marks. Give --key, or omit --label.")
        marking_key = marking_key.derive(label)
    if marking_key:
        _require_candidates(
            marking_key, budget=budget, stage_tokens=stage_tokens, procedure=procedure
        )
    config = replace(  # refuses limits before anything is fetched
        base,
        max_tokens=max_tokens,
        max_sentences=max_sentences,
        budget=budget,
        stage_tokens=base.stage_tokens if stage_tokens is None else stage_tokens,
        text_sampling=replace(base.text_sampling, **sampling),
        chat_sampling=replace(base.chat_sampling, **sampling),
    )
    # To count sentences they must be found, even if the key marks tokens and has no splitter.
    splitter_key = marking_key if max_sentences is None or not _marks_tokens(marking_key) else None
    sentence_splitter = splitter_of(splitter_key, name=splitter, language=language)
    method_config = marking_key.config if marking_key else None
    encoder = None
    if isinstance(method_config, EMBEDDING):
        encoder = fetch_encoder(method_config.encoder.name)
    if marking_key and backend:
        require_tokenizer(marking_key, backend)
    text_writer = writer(
        marking_key,
        backend=fetch_backend(backend or default_backend(named_key), width=width, context=context),
        encoder=encoder,
        splitter=sentence_splitter,
        config=config,
    )
    _warn_of_greedy_sampling(text_writer, requests)
    try:
        if prompts is not None:
            _write_many(text_writer, requests, seed=seed)
        else:
            _write_one(text_writer, requests[0], seed=seed, as_json=as_json)
    finally:
        if ignored := sorted({*options} & getattr(text_writer.backend, "refused", frozenset())):
            click.echo(f"Warning: the server does not support {', '.join(ignored)}.", err=True)


def _marks_tokens(key: WatermarkKey | None) -> bool:
    return key is not None and isinstance(key.config, TokenConfig)


def _require_candidates(
    key: WatermarkKey, *, budget: int | None, stage_tokens: int | None, procedure: str
) -> None:
    """Refuse options of rejection sampling for a key whose method marks single tokens.

    Raises:
        InputError: such an option was given.
    """
    if not _marks_tokens(key):
        return
    for option, is_set, has_no in (
        ("budget", budget is not None, "budget of candidates"),
        ("stage-tokens", stage_tokens is not None, "stages"),
        ("procedure", procedure != "default", "rejection sampling"),
    ):
        if is_set:
            raise option_error(key.config.method, option, has_no=has_no)


def _write_one(text_writer: Writer, prompt: Prompt, *, seed: int, as_json: bool) -> None:
    run = text_writer.stream(prompt, seed=seed)
    by_sentence = _by_sentence(text_writer)
    if as_json or not sys.stdout.isatty():
        noun = "sentences" if by_sentence else "tokens"
        with counting(noun, visible=sys.stderr.isatty()) as advance:
            for step in run:
                advance(1 if by_sentence else step.tokens)
                if not as_json:
                    click.echo(step.text, nl=False)
    else:
        # On a terminal the text shows the progress, once it begins.
        steps = iter(run)
        with waiting("loading the model and generating"):
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


def _write_many(text_writer: Writer, prompts: Sequence[Prompt], *, seed: int) -> None:
    """Print one JSON line per prompt, in order, and each part before the next one begins."""
    part = 4 * text_writer.backend.parallel
    failed = 0
    with counting("texts", visible=sys.stderr.isatty()) as advance:
        for first in range(0, len(prompts), part):
            generations = text_writer.write_many(
                prompts[first : first + part], seed=seed, first=first
            )
            _warn_unmarked(generations)
            for number, generation in enumerate(generations, start=first):
                click.echo(json.dumps({"prompt": number, **generation_to_dict(generation)}))
                failed += generation.failure is not None
            advance(len(generations))
            if generations and all(
                generation.failure and not generation.text for generation in generations
            ):
                raise InputError(f"No text could be generated: {generations[0].error}")
    if failed:
        raise InputError(
            f"{failed} of {counted(len(prompts), 'text')} failed; see the field error of each."
        )


def _warn_of_greedy_sampling(text_writer: Writer, prompts: Sequence[Prompt]) -> None:
    """Warn if the mark changes the distribution after all but the likeliest token are excluded."""
    config, watermark = text_writer.config, text_writer.watermark
    mark = watermark.capabilities.tokens if watermark else None
    comes_late = mark is not None and mark.stage == "distribution"
    if comes_late and any(config.sampling(prompt).is_greedy for prompt in prompts):
        message = "nothing can be marked if only the likeliest token may be drawn."
        click.echo(f"Warning: {message}", err=True)


def _warn_unmarked(generations: Sequence[Generation]) -> None:
    """Warn of texts in which no sentence satisfies the rule, as at temperature 0."""
    costs = [generation.cost for generation in generations]
    unmarked = sum(cost.constrained > 0 and cost.fallbacks == cost.constrained for cost in costs)
    if unmarked:
        subject = "The text" if len(generations) == 1 else f"{unmarked} of {len(generations)} texts"
        verb = "is" if len(generations) == 1 or unmarked == 1 else "are"
        reason = "no candidate for any sentence satisfied the rule."
        click.echo(f"Warning: {subject} {verb} not marked: {reason}", err=True)


def _by_sentence(text_writer: Writer) -> bool:
    """Whether candidates are drawn for each sentence, rather than one text."""
    watermark = text_writer.watermark
    return watermark is not None and watermark.capabilities.sentences is not None


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
    inputs = [option for option in (prompt, prompt_file, chat, prompts) if option is not None]
    if len(inputs) > 1:
        raise InputError("Give only one of --prompt, --prompt-file, --chat and --prompts.")
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
    requests = []
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        if not line.strip():
            continue
        where = f"{path}:{number}"
        try:
            row = json.loads(line)
            content = row["messages"] if "messages" in row else row["text"]
        except (ValueError, LookupError, TypeError, RecursionError):
            raise InputError(
                f'{where} is not a prompt. Write {{"text": "…"}} or {{"messages": […]}}.'
            ) from None
        requests.append(as_prompt(content, where=where))
    if not requests:
        raise InputError(f"{path} contains no prompt.")
    return requests
