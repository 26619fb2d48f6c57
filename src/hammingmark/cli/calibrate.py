"""``hammingmark calibrate``: thresholds fitted on text known to be unmarked."""

from __future__ import annotations

import hashlib
import json
import sys
from datetime import datetime, timezone
from pathlib import Path

import click

from hammingmark._version import __version__
from hammingmark.assembly.detection import calibrate_key
from hammingmark.assembly.keys import load_key, splitter_of
from hammingmark.cli.completion import key_names
from hammingmark.cli.inputs import read_texts
from hammingmark.cli.options import field_option, keys_language_option, keys_splitter_option
from hammingmark.cli.outputs import check_output, is_stdout, write_output
from hammingmark.cli.progress import counting, fetch_encoder
from hammingmark.encoders.wrappers import SlicedEncoder
from hammingmark.keys.config import EMBEDDING, ContextConfig
from hammingmark.reports.text import counted
from hammingmark.stats.calibration import Calibration


@click.command()
@click.argument("files", nargs=-1, required=True)
@click.option("--key", "-k", required=True, help="Key file, name or id.", shell_complete=key_names)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    required=True,
    help="File to write the thresholds to.",
)
@click.option(
    "--overwrite", is_flag=True, help="Overwrite OUT if it exists, unless it is a key file."
)
@field_option
@click.option("--level", type=float, default=0.01, show_default=True, help="False-positive rate.")
@click.option(
    "--statistic",
    default="",
    help="Statistic whose mean over the units of a text is compared with the threshold; by default "
    "the first of the key's method.",
)
@keys_splitter_option
@keys_language_option
@click.option("--json", "as_json", is_flag=True, help="Print the thresholds as JSON.")
def calibrate(
    files: tuple[str, ...],
    key: str,
    out: Path,
    overwrite: bool,
    field: str,
    level: float,
    statistic: str,
    splitter: str | None,
    language: str | None,
    as_json: bool,
) -> None:
    """Fit a threshold for each length of text, on FILES known to be unmarked.

    The thresholds keep the false-positive rate on text like FILES and guarantee nothing for other
    text. An exact p-value of `hammingmark detect` needs no such texts.
    """
    check_output(out, overwrite=overwrite)
    loaded = load_key(key)
    sentence_splitter = splitter_of(loaded, name=splitter, language=language)
    texts = read_texts(files, field=field)
    digest = hashlib.sha256("\x00".join(texts).encode("utf-8", "replace")).hexdigest()
    config = loaded.config
    encoder = None
    if isinstance(config, EMBEDDING):
        encoder = fetch_encoder(config.encoder.name)
    noun = "contexts" if isinstance(config, ContextConfig) else "sentences"
    with counting(f"{noun} embedded", visible=sys.stderr.isatty()) as tick:
        fitted = calibrate_key(
            texts,
            key=loaded,
            encoder=SlicedEncoder(encoder, after=tick) if encoder else None,
            splitter=sentence_splitter,
            statistic=statistic,
            level=level,
            provenance={
                "files": list(files),
                "texts": len(texts),
                "sha256": digest,
                "splitter": sentence_splitter.name,
                "fitted": datetime.now(timezone.utc).isoformat(timespec="seconds"),
                "version": __version__,
            },
        )
    record = fitted.to_json()
    write_output(out, json.dumps(record, indent=2) + "\n", overwrite=overwrite)
    if is_stdout(out):
        return  # the thresholds are already there
    if as_json:
        click.echo(json.dumps({"out": str(out), **record}))
    else:
        _show(fitted, texts=len(texts), out=out)


def _show(fitted: Calibration, *, texts: int, out: Path) -> None:
    click.echo(
        f"Wrote thresholds of {fitted.statistic} at level {fitted.level:g}, fitted on "
        f"{counted(texts, 'text')}, to {out}"
    )
    click.echo("      units  threshold  windows")
    for length, value, windows in zip(
        fitted.lengths_, fitted.thresholds_, fitted.windows_, strict=True
    ):
        click.echo(f"{length:>11}  {value:>9.3f}  {windows:>7}")
