"""``hammingmark generate``: prompts to marked text."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import click

from hammingmark.assemble import DEFAULT_SPLITTER, PRESETS, load_key, load_splitter, writer
from hammingmark.cli.inputs import decode
from hammingmark.cli.progress import fetch_backend, fetch_encoder
from hammingmark.errors import InputError
from hammingmark.records import Draft, Message, Prompt
from hammingmark.store.catalogue import DEFAULT_ENCODER, DEFAULT_GENERATOR


@click.command()
@click.option("--key", "-k", help="Key file, name or id.")
@click.option("--prompt", help="Text to continue.")
@click.option("--prompt-file", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--chat",
    type=click.Path(dir_okay=False, path_type=Path),
    help='JSON file of messages: [{"role": "user", "content": "…"}].',
)
@click.option("--max-tokens", type=int, default=200, show_default=True)
@click.option("--max-sentences", type=int)
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--backend", default=DEFAULT_GENERATOR, show_default=True, help="Language model.")
@click.option("--preset", type=click.Choice(list(PRESETS)), default="default", show_default=True)
@click.option("--temperature", type=float, default=1.0, show_default=True)
@click.option("--top-k", type=int, default=50, show_default=True)
@click.option("--no-watermark", is_flag=True, help="Write unmarked text by the same means.")
@click.option("--splitter", default=DEFAULT_SPLITTER, show_default=True)
@click.option("--language", default="en", show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print the text and its cost as JSON.")
def generate(
    key: str | None,
    prompt: str | None,
    prompt_file: Path | None,
    chat: Path | None,
    max_tokens: int,
    max_sentences: int | None,
    seed: int,
    backend: str,
    preset: str,
    temperature: float,
    top_k: int,
    no_watermark: bool,
    splitter: str,
    language: str,
    as_json: bool,
) -> None:
    """Continue a prompt, or answer a chat, with marked text."""
    asked = _read_prompt(prompt, prompt_file, chat)
    if not key and not no_watermark:
        raise InputError("Name a key with --key, or say --no-watermark.")
    chosen = PRESETS[preset]
    sampling = replace(chosen.sampling, temperature=temperature, top_k=top_k)
    loaded = None if no_watermark or key is None else load_key(key)
    made = writer(
        loaded,
        backend=fetch_backend(backend),
        encoder=fetch_encoder(loaded.encoder if loaded else DEFAULT_ENCODER),
        splitter=load_splitter(splitter, language=language),
        settings=replace(
            chosen, max_tokens=max_tokens, max_sentences=max_sentences, sampling=sampling
        ),
    )
    run = made.stream(asked, seed=seed)
    for step in run:
        if not as_json:
            click.echo(step.text, nl=False)
    draft = run.drafts()[0]
    if as_json:
        click.echo(json.dumps(as_record(draft)))
    else:
        click.echo()
        click.echo(_summary(draft), err=True)
    if draft.error:
        raise InputError(draft.error)


def as_record(draft: Draft) -> dict[str, object]:
    """A draft as plain data."""
    cost = draft.cost
    sentences = max(1, len(draft.sentences))
    return {
        "text": draft.text,
        "sentences": len(draft.sentences),
        "tokens": cost.tokens,
        "candidates": cost.candidates,
        "samples_per_sentence": cost.candidates / sentences,
        "tokens_per_sentence": cost.drawn_tokens / sentences,
        "fallbacks": cost.fallbacks,
        "acceptance": cost.passed / cost.tried if cost.tried else None,
        "repeats": cost.repeats,
        "misfits": cost.misfits,
        "seconds": cost.seconds,
        "encoder_seconds": cost.encoder_seconds,
        "stopped": draft.stopped,
        "error": draft.error,
    }


def _summary(draft: Draft) -> str:
    cost = draft.cost
    return (
        f"[{len(draft.sentences)} sentences, {cost.tokens} tokens, {cost.candidates} candidates, "
        f"{cost.fallbacks} fallbacks, {cost.seconds:.1f} s; stopped: {draft.stopped}]"
    )


def _read_prompt(prompt: str | None, prompt_file: Path | None, chat: Path | None) -> Prompt:
    given = [source for source in (prompt, prompt_file, chat) if source is not None]
    if len(given) > 1:
        raise InputError("Give one of --prompt, --prompt-file and --chat.")
    if chat is not None:
        return Prompt(messages=_read_chat(chat))
    if prompt_file is not None:
        text = decode(_read(prompt_file))
    elif prompt is not None:
        text = prompt
    else:
        text = decode(sys.stdin.buffer.read())
    if not text.strip():
        raise InputError("The prompt is empty.")
    return Prompt(text.rstrip())


def _read_chat(path: Path) -> tuple[Message, ...]:
    try:
        rows = json.loads(decode(_read(path)))
        messages = tuple(Message(str(row["role"]), str(row["content"])) for row in rows)
    except (ValueError, LookupError, TypeError):
        raise InputError(
            f'{path} is not a chat: it should be a list like [{{"role": "user", "content": "…"}}].'
        ) from None
    if not messages:
        raise InputError(f"{path} holds no message.")
    return messages


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"Cannot read {path}: {error.strerror}.") from None
