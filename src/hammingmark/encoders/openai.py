"""Encoders behind an OpenAI-compatible ``/embeddings`` endpoint."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import httpx
import numpy as np

from hammingmark.encoders.batching import MAX_CHARACTERS, Progress, prepare, run_batches
from hammingmark.encoders.files import fingerprint
from hammingmark.encoders.vectors import unit_rows
from hammingmark.errors import EncoderError, InputError
from hammingmark.http.client import Endpoint
from hammingmark.protocols import FloatArray

_PATH = "/embeddings"


class OpenAIEncoder:
    """Embed sentences with a model behind an OpenAI-compatible endpoint.

    The weights of a remote model cannot be hashed, so its fingerprint is that of its name and
    dimension. If the provider changes the model under the same name, earlier watermarks become
    undetectable, and nothing reports it.

    Args:
        base_url: such as ``http://127.0.0.1:8080/v1``; ``/embeddings`` is added.
        model: its name at the endpoint.
        api_key: sent as a bearer token; never shown.
        dimension: d. If given, it is requested from the endpoint and checked; otherwise it is
            taken from the first response.
        timeout: seconds without data from the server.
        retries: further attempts after a request that failed for a transient reason.
        batch: sentences per request.
        backoff: seconds before the first retry, at most; doubled each time.
    """

    def __init__(
        self,
        base_url: str,
        model: str,
        *,
        api_key: str | None = None,
        dimension: int | None = None,
        timeout: float = 60.0,
        retries: int = 5,
        batch: int = 64,
        backoff: float = 0.5,
    ) -> None:
        if batch < 1:
            raise InputError(f"batch is {batch}; a request needs at least one sentence.")
        if dimension is not None and dimension < 1:
            raise InputError(f"dimension is {dimension}; it must be at least 1.")
        self._endpoint = Endpoint(
            base_url,
            error=EncoderError,
            api_key=api_key,
            timeout=timeout,
            retries=retries,
            backoff=backoff,
        )
        self._model = model
        self._requested_dimension = dimension
        self._batch = batch

    def __repr__(self) -> str:
        return f"OpenAIEncoder({self._endpoint.url(_PATH)!r}, {self._model!r})"

    @property
    def name(self) -> str:
        """The name by which a user chooses this encoder."""
        return f"openai:{self._model}@{self._endpoint.url()}"

    @cached_property
    def dimension(self) -> int:
        """d, the length of an embedding; asks the endpoint unless it was passed."""
        return self._requested_dimension or int(self._request(["dimension"]).shape[1])

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256, in hex, of the model's name and dimension."""
        return fingerprint(
            {
                "runtime": "openai",
                "model": self._model,
                "dimension": self.dimension,
                "normalise": "l2",
                "max_characters": MAX_CHARACTERS,
            }
        )

    def encode(self, sentences: Sequence[str], *, progress: Progress | None = None) -> FloatArray:
        """Embed n sentences: (n, d), float32, rows of length one, in the order given."""
        texts = prepare(sentences)
        batches = [
            range(start, min(start + self._batch, len(texts)))
            for start in range(0, len(texts), self._batch)
        ]
        return run_batches(
            batches,
            lambda batch: unit_rows(self._checked([texts[index] for index in batch])),
            dimension=self.dimension,
            progress=progress,
        )

    def close(self) -> None:
        """Close the connections; a later call opens new ones."""
        self._endpoint.close()

    def _checked(self, texts: list[str]) -> FloatArray:
        vectors = self._request(texts)
        if vectors.shape[1] != self.dimension:
            raise EncoderError(
                f"The encoder's server returned embeddings of {vectors.shape[1]} numbers, not "
                f"{self.dimension}.",
                advice=f"Set the dimension to that of the model {self._model!r}. The request was "
                f"sent to {self._endpoint.url(_PATH)}.",
            )
        return vectors

    def _request(self, texts: list[str]) -> FloatArray:
        """Embed s texts in one request: (s, d), not yet scaled."""
        body: dict[str, Any] = {"model": self._model, "input": texts, "encoding_format": "float"}
        if self._requested_dimension is not None:
            body["dimensions"] = self._requested_dimension
        response = self._endpoint.post(_PATH, body)
        try:
            return _read(response, len(texts))
        except (ValueError, TypeError, KeyError, IndexError) as error:
            raise EncoderError(
                f"The encoder's server did not return {len(texts)} embeddings.",
                advice="Check that it is an OpenAI-compatible endpoint and that "
                f"{self._model!r} is an embedding model. The request was sent to "
                f"{self._endpoint.url(_PATH)}.",
            ) from error


def _read(response: httpx.Response, count: int) -> FloatArray:
    """The embeddings in a response, ordered by their ``index``."""
    items = response.json()["data"]
    rows: list[Any] = [None] * count
    if len(items) != count:
        raise ValueError(f"{len(items)} embeddings for {count} sentences")
    for place, item in enumerate(items):
        index = int(item.get("index", place))
        if index < 0 or rows[index] is not None:
            raise ValueError(f"index {index} is repeated or negative")
        rows[index] = item["embedding"]
    vectors = np.array(rows, dtype=np.float32)
    if vectors.ndim != 2 or vectors.shape[1] == 0:
        raise ValueError(f"embeddings of shape {vectors.shape}")
    return vectors
