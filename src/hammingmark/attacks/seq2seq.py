"""Text in, text out: an encoder-decoder model that translates or paraphrases, in batches."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np

from hammingmark.attacks.decoding import Decoding
from hammingmark.attacks.diverse import diverse_beams
from hammingmark.errors import BackendError, InputError
from hammingmark.lazy import Lazy
from hammingmark.pretrained import Task, load


class Seq2Seq:
    """A model of the kind T5, Pegasus or Marian.

    Building one is cheap: torch is imported, and the model loaded, at the first use.

    Args:
        source: a folder, or a name on the hub.
        tokenizer: where the tokenizer lies if not with the model.
        device: by default a CUDA device if there is one, otherwise the processor.
        dtype: ``"bfloat16"`` and so on.
        batch: texts that are read together.
        longest: tokens of a text that are read, the rest is cut; None cuts nothing.
    """

    def __init__(
        self,
        source: str | Path,
        *,
        tokenizer: str | Path | None = None,
        device: str | None = None,
        dtype: str | None = None,
        batch: int = 16,
        longest: int | None = None,
    ) -> None:
        if batch < 1:
            raise InputError(f"A batch has at least 1 text, not {batch}.")
        self.source = str(source)
        self._batch = batch
        self._longest = longest
        task: Task = "AutoModelForSeq2SeqLM"
        self._load = Lazy(
            partial(load, task, source, tokenizer=tokenizer, device=device, dtype=dtype)
        )

    def too_long(self, texts: Sequence[str]) -> list[bool]:
        """Which texts have more tokens than the model can read, or is to read."""
        if not texts:
            return []
        words = self._load().tokenizer
        limit = self._longest or words.model_max_length
        return [len(ids) > limit for ids in words(list(texts), verbose=False)["input_ids"]]

    def write(
        self, texts: Sequence[str], *, decoding: Decoding, rng: np.random.Generator
    ) -> list[list[str]]:
        """The answers to each text, in the order given."""
        answers: list[list[str]] = [[] for _ in texts]
        # Texts of like length go together, so that little time is spent on padding.
        order = sorted(range(len(texts)), key=lambda index: len(texts[index]))
        for start in range(0, len(order), self._batch):
            chosen = order[start : start + self._batch]
            seed = int(rng.integers(2**63))
            written = self._write([texts[index] for index in chosen], decoding, seed)
            for index, each in zip(chosen, written, strict=True):
                answers[index] = each
        return answers

    def _write(self, texts: list[str], decoding: Decoding, seed: int) -> list[list[str]]:
        loaded = self._load()
        words, model = loaded.tokenizer, loaded.model
        batch = words(
            texts,
            return_tensors="pt",
            padding=True,
            truncation=self._longest is not None,
            max_length=self._longest,
            verbose=False,
        ).to(loaded.device)
        batch.pop("token_type_ids", None)
        try:
            with loaded.seeded(seed):
                if decoding.groups > 1:
                    rows = diverse_beams(loaded, batch, decoding)
                else:
                    options = decoding.options(
                        read=batch["input_ids"].shape[1], most=model.generation_config.max_length
                    )
                    rows = model.generate(**batch, **options)
        except (RuntimeError, ValueError, IndexError) as error:
            raise BackendError(
                f"The model {self.source!r} failed: {error}. Try a smaller batch, or the "
                "processor instead of a graphics card."
            ) from error
        flat = words.batch_decode(rows, skip_special_tokens=True)
        each = decoding.returns
        return [flat[start : start + each] for start in range(0, len(flat), each)]
