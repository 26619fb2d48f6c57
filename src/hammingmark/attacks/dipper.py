"""DIPPER: a large T5 that paraphrases a few sentences at a time, given the preceding text.

Its input states how much wording and order to keep, then the text written so far, then the
sentences to rewrite between tags (Krishna et al., 2023).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np

from hammingmark.attacks.decoding import Decoding
from hammingmark.attacks.segments import Kept, Piece, Tally, change_prose, one_line
from hammingmark.attacks.seq2seq import Seq2Seq
from hammingmark.errors import InputError
from hammingmark.pretrained import LIBRARIES
from hammingmark.protocols import Splitter

DEGREES = (0, 20, 40, 60, 80, 100)
"""The degrees of diversity that the model was trained on."""


class Dipper:
    """Paraphrase with DIPPER, a large T5 that sees the preceding text.

    Published: lexical diversity from 20 to 80, order diversity from 0 to 60 (a later suite uses
    60 and 0, or 60 and 20), three sentences at a time, sampling from the likeliest tokens of
    total probability 0.75, at most 512 tokens. The published context begins with the prompt; here
    an attack sees only texts, so the context begins empty. Sentences of two paragraphs are never
    rewritten together, since the model would join them.

    Args:
        model: a folder, or a name on the hub; 11 billion parameters as published.
        tokenizer: a folder or a name; the published model comes without one.
        splitter: finds the prose.
        lexical: 0 keeps the wording, 100 keeps none of it; a multiple of 20.
        order: the same for the order of the content.
        sent_interval: sentences rewritten at once.
        context: the number of preceding rewritten windows that the model sees; None for all, as
            published, 0 for none.
        top_p: total probability of the tokens sampled from; None decodes greedily.
        max_length: most tokens of a rewritten window.
        batch: windows, each of a different text, that are rewritten together.
        device: by default a CUDA device if there is one, otherwise the processor.
        dtype: ``"bfloat16"`` halves the memory.
    """

    name: ClassVar[str] = "dipper"
    libraries: ClassVar[tuple[str, ...]] = LIBRARIES
    min_similarity: float = 0.7
    """Least similarity, by a held-out encoder, at which the outcome counts as the same text."""

    def __init__(
        self,
        model: str | Path = "kalpeshk2011/dipper-paraphraser-xxl",
        *,
        splitter: Splitter,
        tokenizer: str | Path | None = "google/t5-v1_1-xxl",
        lexical: int = 60,
        order: int = 0,
        sent_interval: int = 3,
        context: int | None = None,
        top_p: float | None = 0.75,
        max_length: int = 512,
        batch: int = 4,
        device: str | None = None,
        dtype: str | None = None,
    ) -> None:
        for name, degree in (("lexical", lexical), ("order", order)):
            if degree not in DEGREES:
                raise InputError(f"{name} must be one of {DEGREES}, not {degree}.")
        if sent_interval < 1:
            raise InputError(f"sent_interval must be at least 1, not {sent_interval}.")
        if context is not None and context < 0:
            raise InputError(f"context must not be negative, but is {context}.")
        self.tally: Tally = Tally()
        self._splitter = splitter
        self._codes = f"lexical = {100 - lexical}, order = {100 - order}"
        self._interval = sent_interval
        self._context = context
        self._decoding = Decoding(
            temperature=None if top_p is None else 1.0,
            top_p=1.0 if top_p is None else top_p,
            max_length=max_length,
        )
        self._model = Seq2Seq(model, tokenizer=tokenizer, device=device, dtype=dtype, batch=batch)

    def apply(self, texts: Sequence[str], *, rng: np.random.Generator) -> list[str]:
        """Attack each text, with all randomness drawn from ``rng``."""

        def change(pieces: list[Piece]) -> list[str | Kept]:
            return self._rewrite(pieces, rng)

        return change_prose(
            texts,
            splitter=self._splitter,
            change=change,
            tally=self.tally,
            grain="paragraph",
            most=self._interval,
        )

    def _rewrite(self, pieces: list[Piece], rng: np.random.Generator) -> list[str | Kept]:
        """Rewrite windows of one text in sequence, and windows of different texts in one batch."""
        answers: list[str | Kept] = [Kept("empty")] * len(pieces)
        queues: dict[int, list[int]] = {}
        for number, piece in enumerate(pieces):
            queues.setdefault(piece.document, []).append(number)
        written: dict[int, list[str]] = {document: [] for document in queues}
        while queues:
            numbers = [queue.pop(0) for queue in queues.values()]
            inputs = [self._input(pieces[n].text, written[pieces[n].document]) for n in numbers]
            outputs = self._model.write(inputs, decoding=self._decoding, rng=rng)
            for number, (text, *_) in zip(numbers, outputs, strict=True):
                if text.strip():
                    answers[number] = text
                context = text if text.strip() else pieces[number].text
                written[pieces[number].document].append(one_line(context))
            queues = {document: queue for document, queue in queues.items() if queue}
        return answers

    def _input(self, window: str, written: list[str]) -> str:
        """The model's input for one window."""
        first = 0 if self._context is None else max(0, len(written) - self._context)
        return " ".join([self._codes, *written[first:], "<sent>", one_line(window), "</sent>"])
