"""The base class of encoders whose files are in a folder."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from hammingmark.encoders.batching import MAX_CHARACTERS
from hammingmark.encoders.files import fingerprint, known_or_hashed
from hammingmark.encoders.vectors import FILE, CommonDirections, load_common, unit_rows
from hammingmark.lazy import Lazy
from hammingmark.protocols import FloatArray


class HasDimension(Protocol):
    """Loaded files that know the dimension."""

    @property
    def dimension(self) -> int:
        """d, the length of an embedding."""


Files = TypeVar("Files", bound=HasDimension)


class LocalEncoder(ABC, Generic[Files]):
    """An encoder in a folder, whose files are opened on first use.

    Args:
        folder: contains the weights and ``tokenizer.json``, and optionally common directions
            (``common.safetensors``) to remove.
        name: the name by which a user chooses this encoder.
        prefix: put before each sentence, if the model was trained with one.
        max_tokens: longer sentences are truncated; special tokens count.
        hashes: SHA-256 by file name, for files already verified.
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        name: str,
        prefix: str,
        max_tokens: int,
        hashes: Mapping[str, str] | None,
    ) -> None:
        self._folder = Path(folder)
        self._name = name
        self._prefix = prefix
        self._max_tokens = max_tokens
        self._hashes = dict(hashes or {})
        self._load = Lazy(self._open)
        self._common: Lazy[CommonDirections | None] = Lazy(
            lambda: load_common(self._folder, dimension=self.dimension)
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self._folder)!r}, name={self._name!r})"

    @property
    def name(self) -> str:
        """The name by which a user chooses this encoder."""
        return self._name

    @property
    def dimension(self) -> int:
        """d, the length of an embedding; loads the model if necessary."""
        return self._load().dimension

    @abstractmethod
    def _open(self) -> Files:
        """Open the files."""

    def _finish(self, vectors: FloatArray) -> FloatArray:
        """Rows of length one with the common directions removed: (n, d)."""
        rows = unit_rows(vectors)
        common = self._common()
        return rows if common is None else common.remove(rows)

    def _hash(self, path: Path) -> str:
        return known_or_hashed(path, self._hashes)

    def _fingerprint(self, **parts: object) -> str:
        """SHA-256 of the parts of this kind of encoder and of those that all kinds share."""
        common = self._folder / FILE
        if common.is_file():
            parts["common"] = self._hash(common)
        return fingerprint(
            {
                "tokenizer": self._hash(self._folder / "tokenizer.json"),
                "normalise": "l2",
                "prefix": self._prefix,
                "max_tokens": self._max_tokens,
                "max_characters": MAX_CHARACTERS,
                **parts,
            }
        )
