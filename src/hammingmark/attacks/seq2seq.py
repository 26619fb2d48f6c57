"""An encoder-decoder model that translates or paraphrases texts, in batches."""

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

    Construction is cheap: torch is imported and the model loaded at first use.

    Args:
        source: a folder, or a name on the hub.
        tokenizer: the tokenizer's folder or name, if it does not come with the model.
        device: by default a CUDA device if there is one, otherwise the processor.
        dtype: such as ``"bfloat16"``.
        batch: texts per batch.
        longest: the number of tokens after which a text is truncated; None for no truncation.
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
            raise InputError(f"batch must be at least 1, not {batch}.")
        self.source = str(source)
        self._batch = batch
        self._longest = longest
        task: Task = "AutoModelForSeq2SeqLM"
        self._load = Lazy(
            partial(load, task, source, tokenizer=tokenizer, device=device, dtype=dtype)
        )

    def too_long(self, texts: Sequence[str]) -> list[bool]:
        """Whether each text has more tokens than the model reads."""
        if not texts:
            return []
        tokenizer = self._load().tokenizer
        limit = self._longest or tokenizer.model_max_length
        return [len(ids) > limit for ids in tokenizer(list(texts), verbose=False)["input_ids"]]

    def write(
        self, texts: Sequence[str], *, decoding: Decoding, rng: np.random.Generator
    ) -> list[list[str]]:
        """The answers to each text, in the order of the texts."""
        answers: list[list[str]] = [[] for _ in texts]
        # Texts of similar length share a batch, to save padding.
        order = sorted(range(len(texts)), key=lambda index: len(texts[index]))
        for start in range(0, len(order), self._batch):
            batch = order[start : start + self._batch]
            seed = int(rng.integers(2**63))
            outputs = self._write([texts[index] for index in batch], decoding, seed)
            for index, output in zip(batch, outputs, strict=True):
                answers[index] = output
        return answers

    def _write(self, texts: list[str], decoding: Decoding, seed: int) -> list[list[str]]:
        loaded = self._load()
        tokenizer, model = loaded.tokenizer, loaded.model
        batch = tokenizer(
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
        decoded = tokenizer.batch_decode(rows, skip_special_tokens=True)
        count = decoding.returns
        return [decoded[start : start + count] for start in range(0, len(decoded), count)]
