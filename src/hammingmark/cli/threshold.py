"""``hammingmark threshold``: cost and evidence of the rule on natural text."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable

import click

from hammingmark.assembly.parts import load_splitter
from hammingmark.cli.inputs import read_texts
from hammingmark.cli.options import (
    at_least,
    field_option,
    language_option,
    seed_option,
    splitter_option,
)
from hammingmark.cli.progress import counting, fetch_backend, fetch_encoder
from hammingmark.encoders.wrappers import SlicedEncoder
from hammingmark.errors import InputError
from hammingmark.evaluation.natural import NaturalMatch, natural_candidates, natural_match
from hammingmark.models.catalogue import DEFAULT_ENCODER
from hammingmark.watermarks.hamming import theory


@click.command()
@click.argument("files", nargs=-1, required=True)
@click.option(
    "--bits",
    "-m",
    type=int,
    default=8,
    show_default=True,
    callback=at_least(1),
    help="Bits of a hash, m.",
)
@click.option(
    "--strength",
    type=float,
    default=1.0,
    show_default=True,
    help="Minimum bits of evidence per transition.",
)
@click.option(
    "--backend",
    help="Language model that draws candidates, with FILES as prompts. Without it, the "
    "neighbouring sentences of FILES are used.",
)
@click.option(
    "--candidates",
    type=int,
    default=8,
    show_default=True,
    callback=at_least(1),
    help="Candidates drawn per prompt, with --backend.",
)
@seed_option("the candidates, with --backend")
@click.option(
    "--encoder", default=DEFAULT_ENCODER, show_default=True, help="Encoder of the sentences."
)
@field_option
@splitter_option
@language_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def threshold(
    files: tuple[str, ...],
    bits: int,
    strength: float,
    backend: str | None,
    candidates: int,
    seed: int,
    encoder: str,
    field: str,
    splitter: str,
    language: str,
    as_json: bool,
) -> None:
    """Estimate the natural match, the acceptance rate a(T) and the threshold T from FILES.

    The estimate is for keys that compare whole sentences and hard bits, such as those of the preset
    paper. A key that compares residuals has the same acceptance rate on every text.

    The figures are averages over all keys, so no key is needed.
    """
    texts = read_texts(files, field=field)
    sentence_splitter = load_splitter(splitter, language=language)
    loaded = fetch_encoder(encoder)
    visible = sys.stderr.isatty()
    if backend:
        model = fetch_backend(backend)
        with counting("candidates drawn", visible=visible) as tick:
            natural = natural_candidates(
                texts,
                backend=model,
                splitter=sentence_splitter,
                encoder=loaded,
                bits=bits,
                count=candidates,
                seed=seed,
                tick=tick,
            )
    else:
        with counting("sentences embedded", visible=visible) as tick:
            natural = natural_match(
                texts,
                splitter=sentence_splitter,
                encoder=SlicedEncoder(loaded, after=tick),
                bits=bits,
            )
    record = _record(natural, bits=bits, strength=strength)
    if as_json:
        click.echo(json.dumps(record))
        return
    click.echo(
        f"{natural.pairs} neighbouring sentences, mean cosine {natural.cosine:.3f}, "
        f"mean match {natural.mean:.2f} of {bits}\n"
    )
    click.echo(" T  accepted  candidates  bits of evidence")
    for T in range(bits // 2, bits + 1):
        a = natural.acceptance(T)
        click.echo(
            f"{T:>2}  {a:8.3f}  {float(theory.expected_candidates(a)):10.2f}  "
            f"{float(theory.strength(a)):16.2f}"
        )
    click.echo(
        f"\nFor {strength:g} bits per transition: T = {record['exact_threshold']} by the exact "
        f"rule, {record['estimated_threshold']} by the binomial estimate, "
        f"{record['normal_threshold']} by the normal one."
    )


def _or_none(rule: Callable[[], int]) -> int | None:
    """The threshold by a rule; None if no threshold reaches the strength."""
    try:
        return rule()
    except InputError:
        return None


def _record(natural: NaturalMatch, *, bits: int, strength: float) -> dict[str, object]:
    return {
        "pairs": natural.pairs,
        "bits": bits,
        "mean_cosine": natural.cosine,
        "mean_match": natural.mean,
        "pmf": [float(share) for share in natural.pmf],
        "acceptance": {str(T): natural.acceptance(T) for T in range(bits + 1)},
        "strength": strength,
        "exact_threshold": _or_none(lambda: theory.exact_threshold(natural.pmf, strength)),
        "estimated_threshold": _or_none(
            lambda: theory.estimated_threshold(bits, natural.mean, strength)
        ),
        "normal_threshold": _or_none(lambda: theory.normal_threshold(bits, natural.mean, strength)),
    }
