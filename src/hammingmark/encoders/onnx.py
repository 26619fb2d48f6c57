"""Transformer encoders in ONNX form, on the CPU, without torch."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from tokenizers import Encoding, Tokenizer

from hammingmark.encoders.batching import Progress, plan, prepare, run_batches
from hammingmark.encoders.files import load_tokenizer
from hammingmark.encoders.local import LocalEncoder
from hammingmark.encoders.vectors import cls_pool, mean_pool
from hammingmark.errors import EncoderError, InputError
from hammingmark.protocols import FloatArray

GRAPHS = ("model.onnx", "model_optimized.onnx")
"""The possible file names of a graph, in the folder itself or in its subfolder ``onnx``."""

CHUNK = 4096
"""Sentences tokenized at once."""

BATCH_TOKENS = 4096
BATCH_SIZE = 32


@dataclass(frozen=True)
class _Loaded:
    session: Any
    tokenizer: Tokenizer
    inputs: frozenset[str]
    output: str
    dimension: int


class OnnxEncoder(LocalEncoder[_Loaded]):
    """Embed sentences with an ONNX graph that returns one vector per token.

    The constructor is cheap: files are opened on first use.

    Args:
        folder: contains the graph (see ``GRAPHS``) with its external data, if any, and
            ``tokenizer.json``.
        name: the name by which a user chooses this encoder.
        pooling: how token vectors become one vector: ``"mean"`` or ``"cls"``.
        prefix: put before each sentence, if the model was trained with one.
        max_tokens: longer sentences are truncated; special tokens count.
        dimension: d, if it is known without opening the graph.
        threads: for one batch; 0 leaves the choice to the runtime.
        hashes: SHA-256 by file name, for files already verified.
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        name: str,
        pooling: Literal["mean", "cls"] = "mean",
        prefix: str = "",
        max_tokens: int = 256,
        dimension: int | None = None,
        threads: int = 0,
        hashes: Mapping[str, str] | None = None,
    ) -> None:
        if pooling not in ("mean", "cls"):
            raise InputError(f"No pooling called {pooling!r}. Choose 'mean' or 'cls'.")
        if max_tokens < 3:
            raise InputError(f"max_tokens is {max_tokens}; it must be at least 3.")
        super().__init__(folder, name=name, prefix=prefix, max_tokens=max_tokens, hashes=hashes)
        self._pooling = pooling
        self._dimension = dimension
        self._threads = threads

    @property
    def dimension(self) -> int:
        """d, the length of an embedding; loads the model if necessary."""
        return self._dimension or super().dimension

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256, in hex, of everything that affects embeddings."""
        graph = self._graph()
        return self._fingerprint(
            runtime="onnx",
            graph=self._hash(graph),
            weights=[self._hash(path) for path in sorted(_external(graph))],
            pooling=self._pooling,
        )

    def encode(self, sentences: Sequence[str], *, progress: Progress | None = None) -> FloatArray:
        """Embed n sentences: (n, d), float32, rows of length one, in the order given."""
        loaded = self._load()
        texts = prepare(sentences, prefix=self._prefix)
        parts = [np.empty((0, loaded.dimension), dtype=np.float32)]
        for start in range(0, len(texts), CHUNK):
            encodings = loaded.tokenizer.encode_batch(texts[start : start + CHUNK])

            def run(batch: Sequence[int], encodings: Sequence[Encoding] = encodings) -> FloatArray:
                return self._run(loaded, [encodings[index] for index in batch])

            lengths = [len(encoding.ids) for encoding in encodings]
            batches = plan(lengths, max_tokens=BATCH_TOKENS, max_size=BATCH_SIZE)
            parts.append(run_batches(batches, run, dimension=loaded.dimension, progress=progress))
        return np.concatenate(parts)

    def _run(self, loaded: _Loaded, encodings: Sequence[Encoding]) -> FloatArray:
        """One batch of s sentences, padded to its longest: (s, d)."""
        shape = (len(encodings), max(1, *(len(encoding.ids) for encoding in encodings)))
        ids = np.zeros(shape, dtype=np.int64)
        mask = np.zeros(shape, dtype=np.int64)
        for row, encoding in enumerate(encodings):
            ids[row, : len(encoding.ids)] = encoding.ids
            mask[row, : len(encoding.ids)] = 1
        # A sentence pair never occurs here, so every token is of type 0.
        feed = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        feed = {key: value for key, value in feed.items() if key in loaded.inputs}
        try:
            (hidden,) = loaded.session.run([loaded.output], feed)
        except Exception as error:
            raise EncoderError(
                f"The encoder {self._name!r} failed on a batch of shape {shape}: "
                f"{_first_line(error)}. Lower max_tokens if the model reads fewer than "
                f"{self._max_tokens}, or free some memory."
            ) from error
        pooled = mean_pool(hidden, mask) if self._pooling == "mean" else cls_pool(hidden)
        return self._finish(pooled)

    def _open(self) -> _Loaded:
        graph = self._graph()
        tokenizer = load_tokenizer(self._folder, max_tokens=self._max_tokens)
        # Imported only here, because it is slow. Unless this variable is set before, it also writes
        # an identifier of this machine into the user's cache and contacts its vendor.
        os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
        with _uninterrupted():
            import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = self._threads
        # Threads that spin while they wait take processor time from other work.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.log_severity_level = 3
        try:
            session = onnxruntime.InferenceSession(
                str(graph), sess_options=options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:
            raise EncoderError(
                f"Cannot load the model {graph}: {_first_line(error)}. The file is damaged or "
                "its external data is missing; download the model again."
            ) from error
        inputs = frozenset(node.name for node in session.get_inputs())
        unknown = inputs - {"input_ids", "attention_mask", "token_type_ids"}
        tokens = [output for output in session.get_outputs() if len(output.shape) == 3]
        if unknown or not tokens or not isinstance(tokens[0].shape[2], int):
            raise EncoderError(
                f"The model {graph} is not a supported sentence encoder: its inputs are "
                f"{', '.join(sorted(inputs))} and its outputs "
                f"{', '.join(output.name for output in session.get_outputs())}. It must take "
                "token ids and return one vector per token."
            )
        dimension = tokens[0].shape[2]
        if self._dimension not in (None, dimension):
            raise EncoderError(
                f"The model {graph} returns vectors of {dimension} numbers instead of "
                f"{self._dimension}. Download the model again."
            )
        return _Loaded(session, tokenizer, inputs, tokens[0].name, dimension)

    def _graph(self) -> Path:
        places = [self._folder / part / name for part in ("", "onnx") for name in GRAPHS]
        for path in places:
            if path.is_file():
                return path
        raise EncoderError(
            f"There is no {' or '.join(GRAPHS)} in {self._folder}. Give the folder that contains "
            "it, or download the model again."
        )


def _external(graph: Path) -> list[Path]:
    """The weights in files beside the graph, under either of the two names that exporters use."""
    return [path for mark in "_." for path in graph.parent.glob(f"{graph.name}{mark}data*")]


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Defer Ctrl-C during an import that would report it as a failure of its own."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    interrupts: list[int] = []
    handler = signal.signal(signal.SIGINT, lambda number, frame: interrupts.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if interrupts:
            signal.raise_signal(signal.SIGINT)


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n", maxsplit=1)[0].rstrip(".")[:300]
