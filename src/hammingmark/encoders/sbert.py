"""Encoders of the sentence-transformers library, which needs torch."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from hammingmark.encoders.batching import MAX_CHARACTERS, Progress, prepare
from hammingmark.encoders.files import fingerprint
from hammingmark.encoders.vectors import unit_rows
from hammingmark.errors import EncoderError
from hammingmark.lazy import Lazy
from hammingmark.protocols import FloatArray
from hammingmark.registry import require_libraries

CHUNK = 1024
"""Sentences per call of the library, which makes batches of similar length itself."""

BATCH_SIZE = 32


class SbertEncoder:
    """Embed sentences with a sentence-transformers model.

    The constructor is cheap: torch is imported and the model loaded on first use.

    Args:
        name_or_folder: a folder, or a name that the library can resolve.
        device: such as ``"cpu"`` or ``"cuda"``; by default the library's choice.
        name: the name by which a user chooses this encoder; by default ``name_or_folder``.
    """

    libraries: ClassVar[tuple[str, ...]] = ("torch", "sentence_transformers")
    extra: ClassVar[str] = "torch"

    def __init__(
        self, name_or_folder: str | Path, device: str | None = None, *, name: str | None = None
    ) -> None:
        self._source = str(name_or_folder)
        self._device = device
        self._name = name or self._source
        self._load = Lazy(self._open)

    def __repr__(self) -> str:
        return f"SbertEncoder({self._source!r}, device={self._device!r}, name={self._name!r})"

    @property
    def name(self) -> str:
        """The name by which a user chooses this encoder."""
        return self._name

    @cached_property
    def dimension(self) -> int:
        """d, the length of an embedding; loads the model."""
        return int(self._embed([""]).shape[1])

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256, in hex, of everything that affects embeddings; loads the model.

        It is computed from the weights in memory, so that a model has one fingerprint whether it
        is loaded by name or from a folder.
        """
        model = self._load()
        vocabulary = json.dumps(model.tokenizer.get_vocab(), sort_keys=True)
        return fingerprint(
            {
                "runtime": "sentence-transformers",
                "weights": _hash_weights(model.state_dict()),
                "tokenizer": hashlib.sha256(vocabulary.encode()).hexdigest(),
                "modules": [type(module).__name__ for module in model],
                "pooling": [
                    module.get_pooling_mode_str()
                    for module in model
                    if hasattr(module, "get_pooling_mode_str")
                ],
                "normalise": "l2",
                "prefix": (model.prompts or {}).get(model.default_prompt_name) or "",
                "max_tokens": str(model.max_seq_length),  # infinite for static models
                "max_characters": MAX_CHARACTERS,
            }
        )

    def encode(self, sentences: Sequence[str], *, progress: Progress | None = None) -> FloatArray:
        """Embed n sentences: (n, d), float32, rows of length one, in the order given."""
        texts = prepare(sentences)
        parts = [np.empty((0, self.dimension), dtype=np.float32)]
        for start in range(0, len(texts), CHUNK):
            parts.append(self._embed(texts[start : start + CHUNK]))
            if progress is not None:
                progress(len(parts[-1]))
        return np.concatenate(parts)

    def _embed(self, texts: list[str]) -> FloatArray:
        model = self._load()
        try:
            vectors = model.encode(
                texts, batch_size=BATCH_SIZE, convert_to_numpy=True, show_progress_bar=False
            )
        except (RuntimeError, ValueError, IndexError) as error:
            raise EncoderError(
                f"The encoder {self._name!r} failed: {error}. Try device='cpu', or free some "
                "memory."
            ) from error
        return unit_rows(vectors)

    def _open(self) -> Any:
        require_libraries(self.libraries, part="This encoder", extra="torch", error=EncoderError)
        from sentence_transformers import SentenceTransformer

        try:
            model = SentenceTransformer(self._source, device=self._device)
        except (OSError, ValueError, RuntimeError) as error:
            raise EncoderError(
                f"Cannot load the sentence-transformers model {self._source!r}: {error}. Give its "
                "folder, or a name on a reachable hub."
            ) from error
        return model.eval()


def _hash_weights(weights: dict[str, Any]) -> str:
    """SHA-256 of the names, types, shapes and bytes of all tensors, sorted by name."""
    digest = hashlib.sha256()
    for name in sorted(weights):
        tensor = weights[name].detach().cpu().contiguous()
        digest.update(f"{name}|{tensor.dtype}|{tuple(tensor.shape)}|".encode())
        # torch converts to bytes, because numpy has no bfloat16.
        byte = tensor.new_empty(0).byte().dtype
        digest.update(tensor.reshape(-1).view(byte).numpy().tobytes())
    return digest.hexdigest()
