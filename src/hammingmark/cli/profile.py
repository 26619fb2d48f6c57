"""``hammingmark profile``: fitting a profile of natural text for an encoder."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

import click
import numpy as np
from numpy.typing import NDArray

from hammingmark.artifacts.profile import EncoderProfile, save_profile
from hammingmark.assembly.parts import load_splitter
from hammingmark.cli.inputs import read_texts
from hammingmark.cli.options import (
    at_least,
    field_option,
    language_option,
    seed_option,
    splitter_option,
)
from hammingmark.cli.outputs import check_output, is_stdout, write_output
from hammingmark.cli.progress import counting, fetch_encoder
from hammingmark.encoders.wrappers import SlicedEncoder
from hammingmark.evaluation.profiles import check_libraries, fit_profile
from hammingmark.models.catalogue import DEFAULT_ENCODER
from hammingmark.reports.text import counted

_SHARES = (0.05, 0.25, 0.5, 0.75, 0.95)


@click.command()
@click.argument("files", nargs=-1, required=True)
@click.option(
    "--out", type=click.Path(path_type=Path), required=True, help="File to write the profile to."
)
@click.option(
    "--overwrite", is_flag=True, help="Overwrite OUT if it exists, unless it is a key file."
)
@click.option(
    "--encoder", default=DEFAULT_ENCODER, show_default=True, help="Encoder of the profile."
)
@click.option(
    "--clusters",
    type=int,
    default=8,
    show_default=True,
    callback=at_least(2),
    help="Clusters of texts, for keys of the method k-semstamp.",
)
@click.option(
    "--components",
    type=int,
    default=16,
    show_default=True,
    callback=at_least(1),
    help="Principal components of sentences, for keys of the method simmark that use distances.",
)
@seed_option("the initial clusters")
@field_option
@splitter_option
@language_option
@click.option("--json", "as_json", is_flag=True, help="Print a summary of the profile as JSON.")
def profile(
    files: tuple[str, ...],
    out: Path,
    overwrite: bool,
    encoder: str,
    clusters: int,
    components: int,
    seed: int,
    field: str,
    splitter: str,
    language: str,
    as_json: bool,
) -> None:
    """Fit a profile of natural text for an encoder, on FILES known to be unmarked.

    Keys of k-semstamp, simmark and continuous need a profile (`keys new --set profile=FILE`) if
    their encoder is not the default one.
    """
    check_output(out, overwrite=overwrite)
    check_libraries()
    texts = read_texts(files, field=field)
    sentence_splitter = load_splitter(splitter, language=language)
    loaded = fetch_encoder(encoder)
    with counting("sentences embedded", visible=sys.stderr.isatty()) as tick:
        fitted = fit_profile(
            texts,
            encoder=SlicedEncoder(loaded, after=tick),
            splitter=sentence_splitter,
            language=language,
            clusters=clusters,
            components=components,
            seed=seed,
        )
    write_output(out, save_profile(fitted), overwrite=overwrite)
    if is_stdout(out):
        return  # the profile is already there
    if as_json:
        click.echo(json.dumps({"out": str(out), **_record(fitted)}))
    else:
        _show(fitted, out=out)


def _record(fitted: EncoderProfile) -> dict[str, object]:
    return {
        "encoder": asdict(fitted.encoder),
        **asdict(fitted.provenance),
        "clusters": len(fitted.centres),
        "components": len(fitted.components),
        "cosines": _quantiles(fitted.cosines),
        "distances": _quantiles(fitted.distances),
    }


def _quantiles(sample: NDArray[np.float32]) -> dict[str, float]:
    values = np.quantile(sample, _SHARES)
    return {
        f"{share:g}": round(float(value), 4) for share, value in zip(_SHARES, values, strict=True)
    }


def _show(fitted: EncoderProfile, *, out: Path) -> None:
    data = fitted.provenance
    click.echo(
        f"Wrote the profile of {fitted.encoder.name}, fitted on {counted(data.texts, 'text')} with "
        f"{data.sentences:,} sentences ({len(fitted.centres)} clusters, {len(fitted.components)} "
        f"components), to {out}"
    )
    click.echo("neighbouring sentences  " + "  ".join(f"{share:>5.0%}" for share in _SHARES))
    for name, sample in (("cosine", fitted.cosines), ("distance", fitted.distances)):
        values = "  ".join(f"{value:5.2f}" for value in np.quantile(sample, _SHARES))
        click.echo(f"{name:<22}  {values}")
