"""Fitting a profile of natural text for an encoder."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hammingmark._version import __version__
from hammingmark.artifacts.profile import EncoderProfile, Provenance
from hammingmark.detection.reader import embed_texts
from hammingmark.errors import InputError
from hammingmark.keys.config import EncoderId
from hammingmark.protocols import Encoder, Splitter
from hammingmark.registry import require_libraries
from hammingmark.watermarks._shared.similarity import cosines, even_sample

DoubleArray = NDArray[np.float64]

SAMPLE = 4096
"""Pairs of neighbouring sentences whose cosine and distance the profile records."""

_STARTS = 10  # runs of k-means, of which the best is used
_MOST_STEPS = 300


def check_libraries() -> None:
    """Refuse to start without scikit-learn.

    Raises:
        InputError: with what to install.
    """
    require_libraries(["sklearn"], part="Fitting a profile", extra="bench", error=InputError)


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
    """Fit a profile of natural text for an encoder.

    Args:
        texts: unmarked texts, of the kind that will be marked.
        encoder: the encoder.
        splitter: finds the sentences of the texts.
        language: of the texts, for the record.
        clusters: k, the number of clusters of texts.
        components: c, the number of principal components of sentences.
        seed: of k-means.

    Raises:
        InputError: there are too few texts, or scikit-learn is missing.
    """
    check_libraries()
    import sklearn

    documents = [splitter.split(text).carrying for text in texts]
    embeddings = [rows for rows in embed_texts(documents, encoder.encode) if len(rows)]
    if len(embeddings) < clusters:
        raise InputError(
            f"{clusters} clusters need at least {clusters} texts with a sentence, not "
            f"{len(embeddings)}. Give more texts, or a smaller --clusters."
        )
    sentences = np.concatenate(embeddings)
    most = min(encoder.dimension, len(sentences) - 1)
    if not 1 <= components <= most:
        raise InputError(
            f"{len(sentences)} sentences of {encoder.dimension} dimensions have between 1 and "
            f"{most} components, not {components}. Give more texts, or another --components."
        )
    mean, directions = principal_components(sentences, components)
    similarities = np.concatenate([cosines(rows) for rows in embeddings])
    if not len(similarities):
        raise InputError("No text has two sentences. Give longer texts.")
    reduced = [rows.astype(np.float64) @ directions.T for rows in embeddings]
    distances = np.concatenate([np.linalg.norm(np.diff(rows, axis=0), axis=1) for rows in reduced])
    digest = hashlib.sha256("\x00".join(texts).encode("utf-8", "replace")).hexdigest()
    return EncoderProfile(
        encoder=EncoderId.of(encoder),
        centres=cluster_centres(
            np.stack([rows.mean(axis=0, dtype=np.float64) for rows in embeddings]),
            clusters,
            seed=seed,
        ).astype(np.float32),
        components=directions.astype(np.float32),
        mean=mean.astype(np.float32),
        cosines=even_sample(similarities, SAMPLE).astype(np.float32),
        distances=even_sample(distances, SAMPLE).astype(np.float32),
        provenance=Provenance(
            texts=len(embeddings),
            sentences=len(sentences),
            sha256=digest,
            seed=seed,
            splitter=f"{splitter.name}, language {language}",
            version=__version__,
            scikit_learn=sklearn.__version__,
        ),
    )


def cluster_centres(rows: DoubleArray, clusters: int, *, seed: int) -> DoubleArray:
    """Cluster centres of rows by cosine, of length one: (n, d) to (k, d).

    scikit-learn's k-means minimises distances and its centres lie inside the sphere. Spherical
    k-means starts from them.
    """
    from sklearn.cluster import KMeans

    units = unit_rows(rows)
    if len(np.unique(units, axis=0)) < clusters:
        raise InputError(f"The texts are too similar for {clusters} clusters.")
    fitted = KMeans(clusters, n_init=_STARTS, random_state=seed).fit(units)
    return spherical_centres(units, fitted.cluster_centers_)


def unit_rows(rows: DoubleArray) -> DoubleArray:
    """Rows scaled to length one: (n, d)."""
    lengths = np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    units: DoubleArray = rows / lengths
    return units


def spherical_centres(units: DoubleArray, initial: DoubleArray) -> DoubleArray:
    """Spherical k-means: unit rows (n, d) and initial centres (k, d) to centres (k, d).

    It ends when no row changes its cluster, by cosine.
    """
    centres = unit_rows(initial)
    nearest = np.full(len(units), -1)
    for _ in range(_MOST_STEPS):
        previous, nearest = nearest, np.argmax(units @ centres.T, axis=1)
        if np.array_equal(nearest, previous):
            break
        filled = np.unique(nearest)  # the centre of an empty cluster stays where it is
        sums = [units[nearest == cluster].sum(axis=0) for cluster in filled]
        centres[filled] = unit_rows(np.stack(sums))
    return centres


def principal_components(rows: NDArray[np.float32], number: int) -> tuple[DoubleArray, DoubleArray]:
    """The mean (d,) of rows (n, d), and their leading principal components (c, d).

    The entry of largest magnitude is positive in each, which makes them unique.
    """
    mean = rows.mean(axis=0, dtype=np.float64)
    centred = rows - mean
    _, vectors = np.linalg.eigh(centred.T @ centred)
    components = vectors.T[::-1][:number]
    largest = np.take_along_axis(components, np.abs(components).argmax(axis=1)[:, None], axis=1)
    return mean, components * np.sign(largest)
