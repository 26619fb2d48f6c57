"""``hammingmark attack``: attacking texts."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import fmean
from typing import Any

import click

from hammingmark.assembly.encoders import check_encoder
from hammingmark.assembly.environment import model_store
from hammingmark.assembly.parts import (
    attack_names,
    describe_attack,
    known_parameters,
    load_attack,
    load_splitter,
)
from hammingmark.attacks.runner import AttackRunner
from hammingmark.cli.inputs import Source, read_sources, read_texts
from hammingmark.cli.options import (
    at_least,
    field_option,
    language_option,
    read_pairs,
    seed_option,
    splitter_option,
)
from hammingmark.cli.outputs import check_output, is_stream, write_output
from hammingmark.cli.progress import counting, fetch_encoder, shown_progress
from hammingmark.errors import InputError
from hammingmark.evaluation.rows import Row, append, fingerprint, read_done
from hammingmark.keys.parameters import (
    REQUIRED,
    Parameter,
    is_secret,
    read_parameters,
    without_login,
)
from hammingmark.protocols import Attack, Splitter
from hammingmark.records import Attacked
from hammingmark.reports.text import counted

_INDENT = " " * 6
_LINES = {".jsonl", ".ndjson"}
_LONGEST_SHOWN = 200


@click.command()
@click.argument("name", required=False)
@click.option(
    "--list", "listing", is_flag=True, help="List all attacks, or the parameters of NAME."
)
@click.option(
    "--in",
    "inputs",
    multiple=True,
    help="Text, folder or JSONL file; repeatable. By default standard input.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="A .jsonl file, which the same command continues after an interruption; or, for one text, "
    "any new file.",
)
@click.option("--share", type=float, help="Share of the text to change; short for --set share=.")
@click.option(
    "--set",
    "pairs",
    multiple=True,
    metavar="KEY=VALUE",
    help="Parameter of the attack; repeatable. KEY=@FILE reads the value from a file.",
)
@seed_option("the random draws of the attack")
@click.option(
    "--batch",
    type=int,
    default=32,
    show_default=True,
    callback=at_least(1),
    help="Texts per batch.",
)
@click.option(
    "--judge",
    default="bge-small",
    show_default=True,
    help="Encoder that measures the similarity of the result, or none.",
)
@click.option(
    "--max-loss",
    type=click.FloatRange(0, 1),
    default=0.2,
    show_default=True,
    help="Fraction of its words that a text may lose before a warning is shown.",
)
@field_option
@splitter_option
@language_option
@click.option(
    "--overwrite",
    is_flag=True,
    help="Overwrite OUT instead of continuing it, unless it is a key file.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def attack(
    name: str | None,
    listing: bool,
    inputs: tuple[str, ...],
    out: Path | None,
    share: float | None,
    pairs: tuple[str, ...],
    seed: int,
    batch: int,
    judge: str,
    max_loss: float,
    field: str,
    splitter: str,
    language: str,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Attack texts with the attack NAME, and measure how similar each remains to its original.

    Attacks are for testing what a mark withstands. `hammingmark attack --list` lists them,
    `hammingmark attack NAME --list` the parameters of one. --set KEY=@FILE reads a value from a
    file: its text, or its sentences if the parameter is a list.
    """
    if listing:
        show_attacks(name, as_json=as_json)
        return
    if name is None:
        raise InputError("Name an attack; `hammingmark attack --list` lists them.")
    sentence_splitter = load_splitter(splitter, language=language)
    options = read_pairs(pairs, {} if share is None else {"share": share})
    signature = known_parameters("attacks", name, options)
    parameters = read_parameters(
        signature,
        _with_files(options, signature=signature, splitter=sentence_splitter),
        of=f"the attack {name!r}",
    )
    check_encoder(judge)
    run: dict[str, object] = {
        "attack": name,
        "parameters": _recorded(signature, parameters),
        "seed": seed,
        "batch": batch,
        "judge": judge,
        "splitter": splitter,
        "language": language,
    }
    sources = _read(inputs, field=field, out=out)
    # Rows are written after each batch; any other output is written at the end.
    rows_out = out if out and out.suffix.lower() in _LINES and not is_stream(out) else None
    if out and not rows_out and not is_stream(out) and len(sources) != 1:
        raise InputError(
            f"{out} can contain only one text, and the input has {len(sources)}. Name a .jsonl "
            "file."
        )
    done: list[Row] = []
    if rows_out and not overwrite and rows_out.exists():
        done = read_done(rows_out, [source.text for source in sources], run=run)
    elif out:
        check_output(out, overwrite=overwrite)
    if len(done) < len(sources):
        runner = AttackRunner(
            attack=_load(name, splitter=sentence_splitter, parameters=parameters),
            splitter=sentence_splitter,
            judge=None if judge == "none" else fetch_encoder(judge),
            seed=seed,
            batch=batch,
        )
        if rows_out and overwrite:  # only after the attack and the encoder are loaded
            rows_out.unlink(missing_ok=True)
        printed = out is None and (as_json or len(sources) > 1)
        done += _work(runner, sources, done=len(done), run=run, out=rows_out, printed=printed)
    if out is None and not as_json and len(sources) == 1:
        click.echo(done[0]["text"], nl=not done[0]["text"].endswith("\n"))
    elif out is not None and rows_out is None:
        write_output(out, _content(out, done), overwrite=overwrite)
    summary = _summary(done, max_loss=max_loss)
    if out is not None and as_json:
        click.echo(json.dumps(summary))
    else:
        click.echo(_as_line(summary), err=True)
    if summary["shortened"]:
        click.echo(
            f"Warning: {summary['shortened']} of {counted(len(done), 'text')} lost more than "
            f"{max_loss:.0%} of the words, up to {summary['most_words_lost']:.0%}. What is "
            "left out carries no mark, and the meaning is lost. If that is intended, raise "
            "--max-loss.",
            err=True,
        )


def _work(
    runner: AttackRunner,
    sources: Sequence[Source],
    *,
    done: int,
    run: Mapping[str, object],
    out: Path | None,
    printed: bool,
) -> list[Row]:
    """Attack the remaining sources; each batch is written when it is finished."""
    first = done // runner.batch
    position = first * runner.batch  # an interrupted batch is repeated as a whole
    remaining = sources[position:]
    rows: list[Row] = []
    visible = sys.stderr.isatty() and not (printed and sys.stdout.isatty())
    try:
        with counting("texts attacked", visible=visible) as tick:
            for batch in runner.batches((source.text for source in remaining), first=first):
                batch_rows = [
                    _row(record, source, run=run)
                    for record, source in zip(batch, remaining[: len(batch)], strict=True)
                ]
                remaining = remaining[len(batch) :]
                new = batch_rows[max(0, done - position) :]
                position += len(batch)
                rows += new
                if out is not None:
                    append(out, new)
                if printed:
                    for row in new:
                        click.echo(json.dumps(row))
                tick(len(new))
    except KeyboardInterrupt:
        if out is not None:
            click.echo(
                f"Stopped. {done + len(rows)} of {len(sources)} texts are in {out}. Run the same "
                "command to continue.",
                err=True,
            )
        raise
    return rows


def _row(record: Attacked, source: Source, *, run: Mapping[str, object]) -> Row:
    return {
        "id": f"{source.name}#{run['attack']}",
        "original": source.name,
        **asdict(record),
        "run": dict(run),
        "fingerprint": fingerprint(run, source.text),
    }


def _read(inputs: tuple[str, ...], *, field: str, out: Path | None) -> list[Source]:
    if out is not None:
        for name in inputs:
            here, there = Path(name).resolve(), out.resolve()
            if here == there or here in there.parents:
                raise InputError(f"{out} is in the input {name}. Name another --out.")
    sources = []
    for source in read_sources(inputs, field=field):
        if source.error:
            raise InputError(source.error)
        sources.append(source)
    if not sources:
        raise InputError("The input contains no text.")
    return sources


def _with_files(
    options: Mapping[str, object], *, signature: Mapping[str, Parameter], splitter: Splitter
) -> dict[str, object]:
    """The parameters, with the contents of the files that they name."""
    return {
        key: _from_file(signature[key], value[1:], splitter=splitter)
        if isinstance(value, str) and value.startswith("@") and key in signature
        else value
        for key, value in options.items()
    }


def _from_file(parameter: Parameter, path: str, *, splitter: Splitter) -> object:
    texts = read_texts([path], field="text")
    if parameter.wants(tuple):
        return [sentence for text in texts for sentence in splitter.split(text).carrying]
    return "\n".join(texts).strip()


def _recorded(
    signature: Mapping[str, Parameter], parameters: Mapping[str, object]
) -> dict[str, object]:
    """The value of every parameter, short enough to be part of each row."""
    recorded: dict[str, object] = {}
    for key, parameter in signature.items():
        # A default that no option can express, such as a function, prints differently every time.
        if is_secret(key):
            continue
        if key in parameters or (parameter.typed and parameter.default is not REQUIRED):
            text = json.dumps(parameters.get(key, parameter.default), default=str)
            digest = hashlib.sha256(text.encode()).hexdigest()
            is_short = len(text) <= _LONGEST_SHOWN
            recorded[key] = json.loads(without_login(text)) if is_short else f"sha256:{digest}"
    return recorded


def _load(name: str, *, splitter: Splitter, parameters: Mapping[str, object]) -> Attack:
    with shown_progress() as report:
        return load_attack(
            name, splitter=splitter, parameters=parameters, store=model_store(progress=report)
        )


def _summary(rows: Sequence[Row], *, max_loss: float) -> dict[str, Any]:
    def mean(key: str) -> float | None:
        values = [float(row[key]) for row in rows if row.get(key) is not None]
        return fmean(values) if values else None

    keys = ("words_changed", "words_lost", "sentences_touched", "similarity", "kept")
    losses = [float(row.get("words_lost") or 0.0) for row in rows]
    return {
        "texts": len(rows),
        **{key: mean(key) for key in keys},
        "most_words_lost": max(losses, default=0.0),
        "shortened": sum(loss > max_loss for loss in losses),
    }


def _as_line(summary: Mapping[str, Any]) -> str:
    def figure(key: str) -> str:
        value = summary[key]
        return f"{value:.3f}" if isinstance(value, float) else "not measured"

    return (
        f"[{counted(summary['texts'], 'text')}: words changed {figure('words_changed')}, "
        f"sentences changed {figure('sentences_touched')}, similarity {figure('similarity')}, kept "
        f"{figure('kept')}]"
    )


def _content(out: Path, rows: Sequence[Row]) -> str:
    """The output that is written at the end of a run."""
    if len(rows) == 1 and out.suffix.lower() not in _LINES:
        return str(rows[0]["text"])
    return "".join(json.dumps(row) + "\n" for row in rows)


def show_attacks(name: str | None, *, as_json: bool) -> None:
    """Print every attack with one sentence, or one attack with its parameters."""
    names = [name] if name else attack_names()
    if as_json:
        click.echo(
            json.dumps([_record(attack_name) for attack_name in names], indent=2, default=str)
        )
        return
    width = max(map(len, names))
    for attack_name in names:
        brief, parameters, meanings = describe_attack(attack_name)
        click.echo(f"{attack_name:<{width}}  {brief}")
        for parameter in parameters.values() if name else ():
            if parameter.typed:
                click.echo(f"  {parameter.name}: {parameter.description}; {_default(parameter)}")
                if meaning := meanings.get(parameter.name):
                    click.echo(click.wrap_text(meaning, 100, _INDENT, _INDENT))


def _record(name: str) -> dict[str, object]:
    brief, parameters, meanings = describe_attack(name)
    return {
        "name": name,
        "brief": brief,
        "parameters": {
            parameter.name: {
                "takes": parameter.description,
                "required": parameter.default is REQUIRED,
                "default": None if parameter.default is REQUIRED else parameter.default,
                "meaning": meanings.get(parameter.name, ""),
            }
            for parameter in parameters.values()
            if parameter.typed
        },
    }


def _default(parameter: Parameter) -> str:
    return "required" if parameter.default is REQUIRED else f"by default {parameter.default}"
