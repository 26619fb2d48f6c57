"""Static encoders in model2vec form: a sentence is the mean of its tokens' vectors."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from hammingmark.encoders.batching import Progress, plan, prepare, run_batches
from hammingmark.encoders.files import load_tokenizer
from hammingmark.encoders.local import LocalEncoder
from hammingmark.errors import EncoderError
from hammingmark.protocols import FloatArray

BATCH_TOKENS = 65_536
BATCH_SIZE = 1024


@dataclass(frozen=True)
class _Loaded:
    """Vectors (v, d), and optionally a weight and a row number for each token id."""

    vectors: FloatArray
    weights: FloatArray | None
    rows: NDArray[np.int64] | None
    tokenizer: Tokenizer
    unknown: int | None

    @property
    def dimension(self) -> int:
        return int(self.vectors.shape[1])


class StaticEncoder(LocalEncoder[_Loaded]):
    """Embed sentences by looking up vectors: fast, and independent of the batch.

    Unknown tokens are dropped, as in model2vec. Rows have length one whatever the model's
    ``normalize`` flag says, because only the direction affects a sign.

    Args:
        folder: contains ``tokenizer.json`` and ``model.safetensors`` with a matrix ``embeddings``
            (and, if the vocabulary was quantised, ``weights`` and ``mapping``).
        name: the name by which a user chooses this encoder.
        prefix: put before each sentence.
        max_tokens: longer sentences are truncated.
        hashes: SHA-256 by file name, for files already verified.
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        name: str,
        prefix: str = "",
        max_tokens: int = 512,
        hashes: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(folder, name=name, prefix=prefix, max_tokens=max_tokens, hashes=hashes)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256, in hex, of everything that affects embeddings."""
        weights = self._hash(self._folder / "model.safetensors")
        return self._fingerprint(runtime="static", weights=weights, pooling="mean")

    def encode(self, sentences: Sequence[str], *, progress: Progress | None = None) -> FloatArray:
        """Embed n sentences: (n, d), float32, rows of length one, in the order given."""
        loaded = self._load()
        texts = prepare(sentences, prefix=self._prefix)
        ids = [
            [token for token in encoding.ids if token != loaded.unknown]
            for encoding in loaded.tokenizer.encode_batch_fast(texts, add_special_tokens=False)
        ]
        batches = plan(list(map(len, ids)), max_tokens=BATCH_TOKENS, max_size=BATCH_SIZE)
        return run_batches(
            batches,
            lambda batch: self._finish(_mean(loaded, [ids[index] for index in batch])),
            dimension=loaded.dimension,
            progress=progress,
        )

    def _open(self) -> _Loaded:
        tokenizer = load_tokenizer(self._folder, max_tokens=self._max_tokens)
        tensors = _tensors(self._folder / "model.safetensors")
        vectors = tensors.get("embeddings")
        if vectors is None or vectors.ndim != 2:
            raise EncoderError(
                f"{self._folder / 'model.safetensors'} has no matrix 'embeddings', so it is not a "
                "model2vec model. Give the folder of one."
            )
        weights, rows = tensors.get("weights"), tensors.get("mapping")
        if rows is None and len(vectors) < tokenizer.get_vocab_size():
            raise EncoderError(
                f"The model in {self._folder} has {len(vectors)} vectors for "
                f"{tokenizer.get_vocab_size()} tokens: the weights and tokenizer.json do not "
                "belong together. Download the model again."
            )
        return _Loaded(
            vectors.astype(np.float32),
            None if weights is None else weights.astype(np.float32),
            None if rows is None else rows.astype(np.int64),
            tokenizer,
            _unknown_token(tokenizer),
        )


def _mean(loaded: _Loaded, ids: Sequence[Sequence[int]]) -> FloatArray:
    """The mean of each sentence's token vectors: s lists of ids to (s, d)."""
    means = np.zeros((len(ids), loaded.dimension), dtype=np.float32)
    for row, tokens in enumerate(ids):
        if tokens:
            rows = loaded.vectors[tokens if loaded.rows is None else loaded.rows[tokens]]
            if loaded.weights is not None:
                rows = rows * loaded.weights[tokens][:, None]
            means[row] = rows.mean(axis=0)
    return means


def _tensors(path: Path) -> dict[str, NDArray[Any]]:
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        tensors: dict[str, NDArray[Any]] = load_file(path)
    except (OSError, SafetensorError, TypeError, ValueError) as error:
        raise EncoderError(
            f"Cannot load the model {path}: {error}. Give the folder of a model2vec model, or "
            "download the model again."
        ) from error
    return tensors


def _unknown_token(tokenizer: Tokenizer) -> int | None:
    """The id of unknown words, if the tokenizer has one."""
    model = json.loads(tokenizer.to_str())["model"]
    if model.get("unk_token") is not None:
        return tokenizer.token_to_id(model["unk_token"])
    unknown = model.get("unk_id")
    return None if unknown is None else int(unknown)
