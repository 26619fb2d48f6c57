"""``hammingmark attack``: texts to attacked texts."""

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

from hammingmark.assembly.attacks import (
    attack_names,
    attack_parameters,
    describe_attack,
    load_attack,
)
from hammingmark.assembly.encoders import check_encoder
from hammingmark.assembly.environment import model_store
from hammingmark.assembly.parts import load_splitter
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
from hammingmark.report import counted

_LINES = {".jsonl", ".ndjson"}
_LONGEST_SHOWN = 200


@click.command()
@click.argument("name", required=False)
@click.option("--list", "listing", is_flag=True, help="Show all attacks, or NAME's parameters.")
@click.option(
    "--in", "inputs", multiple=True, help="Text, folder or JSONL; repeatable. Else standard input."
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="A .jsonl file, which the same command goes on with if it was stopped; or, for one text, "
    "any new file.",
)
@click.option(
    "--share", type=float, help="Share of the text that is changed; short for --set share=."
)
@click.option(
    "--set",
    "pairs",
    multiple=True,
    metavar="KEY=VALUE",
    help="A parameter of the attack; repeatable. KEY=@FILE takes it from a file.",
)
@seed_option("all that the attack draws at random")
@click.option(
    "--batch",
    type=int,
    default=32,
    show_default=True,
    callback=at_least(1),
    help="Texts attacked at a time.",
)
@click.option(
    "--judge",
    default="bge-small",
    show_default=True,
    help="Encoder that says how similar the outcome is, or none.",
)
@field_option
@splitter_option
@language_option
@click.option("--overwrite", is_flag=True, help="Replace OUT, or begin it anew; never a key file.")
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
    field: str,
    splitter: str,
    language: str,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Change texts by the attack NAME, and measure how similar each still is to what it was.

    `hammingmark attack --list` shows the attacks, `hammingmark attack NAME --list` the parameters
    of one. --set KEY=@FILE takes a value from a file: its text, or its sentences if the parameter
    is a list.
    """
    if listing:
        show_attacks(name, as_json=as_json)
        return
    if name is None:
        raise InputError("Name an attack; `hammingmark attack --list` shows them.")
    cutter = load_splitter(splitter, language=language)
    typed = read_pairs(pairs, {} if share is None else {"share": share})
    known = attack_parameters(name, typed)
    given = read_parameters(
        known, _with_files(typed, known=known, splitter=cutter), of=f"the attack {name!r}"
    )
    check_encoder(judge)
    run: dict[str, object] = {
        "attack": name,
        "parameters": _recorded(known, given),
        "seed": seed,
        "batch": batch,
        "judge": judge,
        "splitter": splitter,
        "language": language,
    }
    sources = _read(inputs, field=field, out=out)
    # A row is written as soon as its batch is done; what goes elsewhere, when all is done.
    rows_out = out if out and out.suffix.lower() in _LINES and not is_stream(out) else None
    if out and not rows_out and not is_stream(out) and len(sources) != 1:
        raise InputError(
            f"{out} can hold one text and the input has {len(sources)}; name a .jsonl file."
        )
    done: list[Row] = []
    if rows_out and not overwrite and rows_out.exists():
        done = read_done(rows_out, [source.text for source in sources], run=run)
    elif out:
        check_output(out, overwrite=overwrite)
    if len(done) < len(sources):
        runner = AttackRunner(
            attack=_load(name, splitter=cutter, given=given),
            splitter=cutter,
            judge=None if judge == "none" else fetch_encoder(judge),
            seed=seed,
            batch=batch,
        )
        if rows_out and overwrite:  # not before all that was asked for is there
            rows_out.unlink(missing_ok=True)
        printed = out is None and (as_json or len(sources) > 1)
        done += _work(runner, sources, done=len(done), run=run, out=rows_out, printed=printed)
    if out is None and not as_json and len(sources) == 1:
        click.echo(done[0]["text"], nl=not done[0]["text"].endswith("\n"))
    elif out is not None and rows_out is None:
        write_output(out, _content(out, done), overwrite=overwrite)
    if out is not None and as_json:
        click.echo(json.dumps(_summary(done)))
    else:
        click.echo(_told(_summary(done)), err=True)


def _work(
    runner: AttackRunner,
    sources: Sequence[Source],
    *,
    done: int,
    run: Mapping[str, object],
    out: Path | None,
    printed: bool,
) -> list[Row]:
    """Attack the sources that are left; every finished batch is written at once."""
    first = done // runner.batch
    begun = first * runner.batch  # a batch that was broken off is made again as a whole
    left = sources[begun:]
    rows: list[Row] = []
    shown = sys.stderr.isatty() and not (printed and sys.stdout.isatty())
    try:
        with counting("texts attacked", shown=shown) as tick:
            for batch in runner.batches((source.text for source in left), first=first):
                found = [
                    _row(record, source, run=run)
                    for record, source in zip(batch, left[: len(batch)], strict=True)
                ]
                left = left[len(batch) :]
                new = found[max(0, done - begun) :]
                begun += len(batch)
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
                f"Stopped; {done + len(rows)} of {len(sources)} texts are in {out}. The same "
                "command goes on from there.",
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
                raise InputError(f"{out} lies in the input {name}; name another --out.")
    sources = []
    for source in read_sources(inputs, field=field):
        if source.error:
            raise InputError(source.error)
        sources.append(source)
    if not sources:
        raise InputError("There is no text in the input.")
    return sources


def _with_files(
    typed: Mapping[str, object], *, known: Mapping[str, Parameter], splitter: Splitter
) -> dict[str, object]:
    """The parameters with what stands in the files that they name."""
    return {
        key: _from_file(known[key], value[1:], splitter=splitter)
        if isinstance(value, str) and value.startswith("@") and key in known
        else value
        for key, value in typed.items()
    }


def _from_file(parameter: Parameter, path: str, *, splitter: Splitter) -> object:
    texts = read_texts([path], field="text")
    if parameter.wants(tuple):
        return [sentence for text in texts for sentence in splitter.split(text).carrying]
    return "\n".join(texts).strip()


def _recorded(known: Mapping[str, Parameter], given: Mapping[str, object]) -> dict[str, object]:
    """Every parameter and what it is, short enough to stand in each row."""
    found: dict[str, object] = {}
    for key, parameter in known.items():
        # A default that cannot be typed, such as a function, is written differently every time.
        if is_secret(key):
            continue
        if key in given or (parameter.typed and parameter.default is not REQUIRED):
            written = json.dumps(given.get(key, parameter.default), default=str)
            digest = hashlib.sha256(written.encode()).hexdigest()
            shown = without_login(written)
            found[key] = json.loads(shown) if len(written) <= _LONGEST_SHOWN else f"sha256:{digest}"
    return found


def _load(name: str, *, splitter: Splitter, given: Mapping[str, object]) -> Attack:
    with shown_progress() as report:
        return load_attack(
            name, splitter=splitter, parameters=given, store=model_store(progress=report)
        )


def _summary(rows: Sequence[Row]) -> dict[str, Any]:
    def mean(key: str) -> float | None:
        values = [float(row[key]) for row in rows if row.get(key) is not None]
        return fmean(values) if values else None

    keys = ("words_changed", "sentences_touched", "similarity", "kept")
    return {"texts": len(rows), **{key: mean(key) for key in keys}}


def _told(summary: Mapping[str, Any]) -> str:
    def figure(key: str) -> str:
        value = summary[key]
        return f"{value:.3f}" if isinstance(value, float) else "not judged"

    return (
        f"[{counted(summary['texts'], 'text')}: words changed {figure('words_changed')}, "
        f"sentences touched {figure('sentences_touched')}, similarity {figure('similarity')}, kept "
        f"{figure('kept')}]"
    )


def _content(out: Path, rows: Sequence[Row]) -> str:
    """What a file or a stream gets that is written at the end."""
    if len(rows) == 1 and out.suffix.lower() not in _LINES:
        return str(rows[0]["text"])
    return "".join(json.dumps(row) + "\n" for row in rows)


def show_attacks(name: str | None, *, as_json: bool) -> None:
    """Print every attack with one sentence, or one with its parameters."""
    names = [name] if name else attack_names()
    if as_json:
        click.echo(json.dumps([_record(each) for each in names], indent=2, default=str))
        return
    width = max(map(len, names))
    for each in names:
        brief, parameters = describe_attack(each)
        click.echo(f"{each:<{width}}  {brief}")
        for parameter in parameters.values() if name else ():
            if parameter.typed:
                click.echo(f"  {parameter.name}: {parameter.description}; {_otherwise(parameter)}")


def _record(name: str) -> dict[str, object]:
    brief, parameters = describe_attack(name)
    return {
        "name": name,
        "brief": brief,
        "parameters": {
            parameter.name: {
                "takes": parameter.description,
                "required": parameter.default is REQUIRED,
                "default": None if parameter.default is REQUIRED else parameter.default,
            }
            for parameter in parameters.values()
            if parameter.typed
        },
    }


def _otherwise(parameter: Parameter) -> str:
    return "must be given" if parameter.default is REQUIRED else f"by default {parameter.default}"
