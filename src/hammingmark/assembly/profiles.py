"""Fitting a profile: what natural text looks like to an encoder."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hammingmark._version import __version__
from hammingmark.core.statistics import cosines
from hammingmark.errors import InputError
from hammingmark.libraries import require_libraries
from hammingmark.method_config import EncoderId
from hammingmark.pipeline.embedding import embed_texts
from hammingmark.profiles import EncoderProfile, Provenance
from hammingmark.protocols import Encoder, Splitter

SAMPLE = 4096
"""Neighbouring sentences whose likeness is kept."""

_STARTS = 10  # of k-means, of which the best is kept
_MOST_STEPS = 300


def check_libraries() -> None:
    """Refuse to begin where the library for clusters is missing.

    Raises:
        InputError: saying what to install.
    """
    require_libraries(
        ["sklearn"], part="Fitting a profile", get="hammingmark[bench]", error=InputError
    )


def fit_profile(
    texts: Sequence[str],
    *,
    encoder: Encoder,
    splitter: Splitter,
    language: str = "en",
    clusters: int = 8,
    components: int = 16,
    seed: int = 0,
) -> EncoderProfile:
    """What natural texts look like to an encoder.

    Args:
        texts: unmarked ones, of the kind that will be marked.
        encoder: whose profile it is.
        splitter: finds their sentences.
        language: of the texts, for the record.
        clusters: k, of texts.
        components: c, of sentences.
        seed: of k-means.

    Raises:
        InputError: there are too few texts, or the library for clusters is missing.
    """
    check_libraries()
    import sklearn

    documents = [splitter.split(text).carrying for text in texts]
    rows = [each for each in embed_texts(documents, encoder.encode) if len(each)]
    if len(rows) < clusters:
        raise InputError(
            f"{len(rows)} texts with a sentence are too few for {clusters} clusters; give more "
            "texts, or a smaller --clusters."
        )
    sentences = np.concatenate(rows)
    most = min(encoder.dimension, len(sentences) - 1)
    if not 1 <= components <= most:
        raise InputError(
            f"{len(sentences)} sentences of {encoder.dimension} dimensions have between 1 and "
            f"{most} components, not {components}; give more texts, or another --components."
        )
    mean, directions = principal_components(sentences, components)
    near = np.concatenate([cosines(each) for each in rows])
    if not len(near):
        raise InputError("No text has two sentences; give longer ones.")
    reduced = [each.astype(np.float64) @ directions.T for each in rows]
    apart = np.concatenate([np.linalg.norm(np.diff(each, axis=0), axis=1) for each in reduced])
    digest = hashlib.sha256("\x00".join(texts).encode("utf-8", "replace")).hexdigest()
    return EncoderProfile(
        encoder=EncoderId.of(encoder),
        centres=spherical_centres(
            np.stack([each.mean(axis=0, dtype=np.float64) for each in rows]), clusters, seed=seed
        ).astype(np.float32),
        components=directions.astype(np.float32),
        mean=mean.astype(np.float32),
        cosines=even_sample(near, SAMPLE).astype(np.float32),
        distances=even_sample(apart, SAMPLE).astype(np.float32),
        provenance=Provenance(
            texts=len(rows),
            sentences=len(sentences),
            sha256=digest,
            seed=seed,
            splitter=f"{splitter.name}, language {language}",
            version=__version__,
            scikit_learn=sklearn.__version__,
        ),
    )


def spherical_centres(
    rows: NDArray[np.float64], clusters: int, *, seed: int
) -> NDArray[np.float64]:
    """Centres of unit rows by cosine, at length one: (n, d) to (k, d).

    The library's k-means is by distance, and its centres lie inside the sphere. They are where
    spherical k-means begins, which goes on until no row changes its cluster.
    """
    from sklearn.cluster import KMeans

    units = _unit(rows)
    if len(np.unique(units, axis=0)) < clusters:
        raise InputError(f"The texts are too much alike for {clusters} clusters.")
    fitted = KMeans(clusters, n_init=_STARTS, random_state=seed).fit(units)
    centres = _unit(fitted.cluster_centers_)
    nearest = np.full(len(units), -1)
    for _ in range(_MOST_STEPS):
        now = np.argmax(units @ centres.T, axis=1)
        if np.array_equal(now, nearest):
            break
        nearest = now
        # A cluster that has lost all of its rows stays where it is.
        held = np.unique(nearest)
        centres[held] = _unit(np.stack([units[nearest == each].sum(axis=0) for each in held]))
    return centres


def principal_components(
    rows: NDArray[np.float32], number: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The mean (d,) of rows (n, d), and their leading principal components, (c, d).

    The largest number of each is positive, which makes them unique.
    """
    mean = rows.mean(axis=0, dtype=np.float64)
    rest = rows - mean
    _, vectors = np.linalg.eigh(rest.T @ rest)
    found = vectors.T[::-1][:number]
    largest = np.take_along_axis(found, np.abs(found).argmax(axis=1)[:, None], axis=1)
    return mean, found * np.sign(largest)


def even_sample(values: NDArray[np.float64], most: int) -> NDArray[np.float64]:
    """As many values as that at most, rising, evenly among all of them."""
    ordered = np.sort(values)
    if len(ordered) <= most:
        return ordered
    places = (np.arange(most) + 0.5) / most * len(ordered)
    return ordered[places.astype(np.int64)]


def _unit(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    units: NDArray[np.float64] = rows / np.maximum(
        np.linalg.norm(rows, axis=1, keepdims=True), 1e-12
    )
    return units
