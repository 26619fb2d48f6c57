"""``hammingmark calibrate``: thresholds from text known to be unmarked."""

from __future__ import annotations

import hashlib
import json
from datetime import datetime, timezone
from pathlib import Path

import click

from hammingmark._version import __version__
from hammingmark.assemble import DEFAULT_SPLITTER, calibrate_key, load_key, load_splitter
from hammingmark.cli.inputs import read_texts
from hammingmark.cli.progress import fetch_encoder
from hammingmark.errors import InputError
from hammingmark.records import STATISTICS, StatisticName


@click.command()
@click.argument("files", nargs=-1, required=True)
@click.option("--key", "-k", required=True, help="Key file, name or id.")
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    help="File to write the thresholds to.",
)
@click.option("--field", default="text", show_default=True, help="Field of a JSONL line to read.")
@click.option("--level", type=float, default=0.01, show_default=True, help="False-positive rate.")
@click.option("--statistic", type=click.Choice(STATISTICS), default="margin", show_default=True)
@click.option("--splitter", default=DEFAULT_SPLITTER, show_default=True)
@click.option("--language", default="en", show_default=True)
def calibrate(
    files: tuple[str, ...],
    key: str,
    out: Path,
    field: str,
    level: float,
    statistic: StatisticName,
    splitter: str,
    language: str,
) -> None:
    """Fit thresholds, one for each length, on FILES that are known to be unmarked.

    They keep the false-positive rate on text like FILES and promise nothing about other text;
    the p-value that `hammingmark detect` gives by itself holds for any text.
    """
    loaded = load_key(key)
    texts = read_texts(files, field=field)
    digest = hashlib.sha256("\x00".join(texts).encode("utf-8", "replace")).hexdigest()
    fitted = calibrate_key(
        texts,
        key=loaded,
        encoder=fetch_encoder(loaded.encoder),
        splitter=load_splitter(splitter, language=language),
        statistic=statistic,
        level=level,
        provenance={
            "files": list(files),
            "texts": len(texts),
            "sha256": digest,
            "splitter": splitter,
            "language": language,
            "fitted": datetime.now(timezone.utc).isoformat(timespec="seconds"),
            "version": __version__,
        },
    )
    try:
        out.write_text(json.dumps(fitted.to_json(), indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise InputError(f"Cannot write {out}: {error.strerror}.") from None
    click.echo(f"{statistic} at {level:g}, from {len(texts)} texts, written to {out}")
    click.echo("transitions  threshold  windows")
    for length, value, windows in zip(
        fitted.lengths_, fitted.thresholds_, fitted.windows_, strict=True
    ):
        click.echo(f"{length:>11}  {value:>9.3f}  {windows:>7}")
