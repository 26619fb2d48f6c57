"""DIPPER: a large T5 that rewrites some sentences at a time in the light of those before.

Its input names how much wording and order to keep, then what has been written so far, then the
sentences to rewrite between marks (Krishna et al., 2023).
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
"""The diversities that the model was trained on."""


class Dipper:
    """Paraphrase with DIPPER, a large T5 that sees the text before.

    Published: lexical diversity from 20 to 80, order diversity from 0 to 60 (a later suite uses
    60 and 0, or 60 and 20), three sentences at a time, draws from the likeliest tokens of total
    probability 0.75, at most 512 tokens. The published context begins with the prompt; an attack
    here sees texts alone, so it begins empty. Sentences of two paragraphs are never rewritten
    together, since the model would join them.

    Args:
        model: a folder, or a name on the hub; 11 billion parameters as published.
        tokenizer: a folder or a name; the published model comes without one.
        splitter: says what is prose.
        lexical: 0 keeps the wording, 100 keeps none of it; a multiple of 20.
        order: the same for the order of what is said.
        sent_interval: sentences that are rewritten at once.
        context: how many rewritten windows before are shown to the model; None for all, as
            published, 0 for none.
        top_p: tokens of this total probability are drawn from; None takes the likeliest.
        max_length: tokens of a rewritten window.
        batch: windows, each of another text, that are rewritten together.
        device: by default a CUDA device if there is one, otherwise the processor.
        dtype: ``"bfloat16"`` halves the memory.
    """

    name: ClassVar[str] = "dipper"
    libraries: ClassVar[tuple[str, ...]] = LIBRARIES
    min_similarity: float = 0.7
    """The least similarity, by a held-out encoder, at which it is still the same text."""

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
        for what, degree in (("lexical", lexical), ("order", order)):
            if degree not in DEGREES:
                raise InputError(f"{what} must be one of {DEGREES}, not {degree}.")
        if sent_interval < 1:
            raise InputError(f"sent_interval must be at least 1, not {sent_interval}.")
        if context is not None and context < 0:
            raise InputError(f"context cannot be negative, as {context} is.")
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
        """The windows of a text one after another, those of different texts side by side."""
        answers: list[str | Kept] = [Kept("empty")] * len(pieces)
        waiting: dict[int, list[int]] = {}
        for number, piece in enumerate(pieces):
            waiting.setdefault(piece.document, []).append(number)
        written: dict[int, list[str]] = {document: [] for document in waiting}
        while waiting:
            numbers = [queue.pop(0) for queue in waiting.values()]
            asked = [self._ask(pieces[n].text, written[pieces[n].document]) for n in numbers]
            given = self._model.write(asked, decoding=self._decoding, rng=rng)
            for number, (text, *_) in zip(numbers, given, strict=True):
                if text.strip():
                    answers[number] = text
                shown = text if text.strip() else pieces[number].text
                written[pieces[number].document].append(one_line(shown))
            waiting = {document: queue for document, queue in waiting.items() if queue}
        return answers

    def _ask(self, window: str, written: list[str]) -> str:
        """What the model is given for one window."""
        first = 0 if self._context is None else max(0, len(written) - self._context)
        return " ".join([self._codes, *written[first:], "<sent>", one_line(window), "</sent>"])
