"""Fitting a profile: what natural text looks like to an encoder."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hammingmark._version import __version__
from hammingmark.artifacts.clusters import principal_components, spherical_centres, unit_rows
from hammingmark.artifacts.profile import EncoderProfile, Provenance
from hammingmark.detection.reader import embed_texts
from hammingmark.errors import InputError
from hammingmark.keys.config import EncoderId
from hammingmark.protocols import Encoder, Splitter
from hammingmark.registry import require_libraries
from hammingmark.watermarks._shared.similarity import cosines, even_sample

SAMPLE = 4096
"""Neighbouring sentences whose likeness is kept."""

_STARTS = 10  # of k-means, of which the best is kept


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
        centres=cluster_centres(
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


def cluster_centres(rows: NDArray[np.float64], clusters: int, *, seed: int) -> NDArray[np.float64]:
    """Centres of rows by cosine, at length one: (n, d) to (k, d).

    The library's k-means is by distance, and its centres lie inside the sphere. They are where
    spherical k-means begins.
    """
    from sklearn.cluster import KMeans

    units = unit_rows(rows)
    if len(np.unique(units, axis=0)) < clusters:
        raise InputError(f"The texts are too much alike for {clusters} clusters.")
    fitted = KMeans(clusters, n_init=_STARTS, random_state=seed).fit(units)
    return spherical_centres(units, fitted.cluster_centers_)
