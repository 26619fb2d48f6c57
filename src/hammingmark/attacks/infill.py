"""Replacing words by others that a language model finds likely in their place.

A masked model (BERT) sees both sides of a gap at once. A causal model proposes words from the text
before the gap, and then scores each by the likelihood of the whole sentence.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from hammingmark.attacks.segments import Piece, Tally, change_prose
from hammingmark.errors import BackendError, InputError
from hammingmark.lazy import Lazy
from hammingmark.pretrained import LIBRARIES, Loaded, Task, load
from hammingmark.protocols import DoubleArray, Splitter

_READ = 1024  # most tokens of a causal model's input
_WORD = re.compile(r"([^\W\d_]+(?:['’-][^\W\d_]+)*)")


@dataclass(frozen=True, slots=True)
class Gap:
    """A word to be replaced.

    Attributes:
        before: the text before it, including the sentences of context.
        word: the current word.
        after: the rest of its sentence.
    """

    before: str
    word: str
    after: str


@dataclass(eq=False)
class _Infill(ABC):
    """Common to both attacks: the choice of words, one per sentence and round."""

    libraries: ClassVar[tuple[str, ...]] = LIBRARIES
    name: ClassVar[str]
    min_similarity: ClassVar[float] = 0.7
    """Least similarity, by a held-out encoder, at which the outcome counts as the same text."""

    _task: ClassVar[Task]

    model: str | Path
    _: KW_ONLY
    splitter: Splitter
    rate: float = 0.3
    candidates: int = 16
    temperature: float | None = None
    context: int = 1
    least: int = 4
    batch: int = 32
    device: str | None = None
    tally: Tally = field(default_factory=Tally, init=False)

    def __post_init__(self) -> None:
        if not 0.0 <= self.rate <= 1.0:
            raise InputError(f"rate must be between 0 and 1, not {self.rate}.")
        if self.candidates < 1 or self.batch < 1:
            raise InputError("candidates and batch must be at least 1.")
        if self.temperature is not None and self.temperature <= 0:
            raise InputError(f"The temperature must be above 0, not {self.temperature}.")
        self._load = Lazy(self._open)

    def apply(self, texts: Sequence[str], *, rng: np.random.Generator) -> list[str]:
        """Attack each text, with all randomness drawn from ``rng``."""

        def change(pieces: list[Piece]) -> list[str]:
            return self._replace(pieces, rng)

        return change_prose(texts, splitter=self.splitter, change=change, tally=self.tally)

    def _replace(self, pieces: list[Piece], rng: np.random.Generator) -> list[str]:
        parts = [_WORD.split(piece.text) for piece in pieces]
        places = [self._places(words, rng) for words in parts]
        for turn in range(max(map(len, places), default=0)):
            active = [number for number, indices in enumerate(places) if turn < len(indices)]
            gaps = [self._gap(pieces[n], parts[n], places[n][turn]) for n in active]
            for start in range(0, len(gaps), self.batch):
                part = gaps[start : start + self.batch]
                for number, options in zip(active[start:], self._propose(part), strict=False):
                    if options:
                        word = self._draw(*zip(*options, strict=True), rng=rng)
                        parts[number][places[number][turn]] = word
        return ["".join(words) for words in parts]

    def _places(self, parts: list[str], rng: np.random.Generator) -> list[int]:
        """The words of a sentence to replace, in order; names and short words are left out."""
        replaceable = [i for i in range(1, len(parts), 2) if self._can_replace(parts[i])]
        count = min(len(replaceable), round(self.rate * (len(parts) // 2)))
        return [int(index) for index in rng.permutation(replaceable)[:count]]

    def _can_replace(self, word: str) -> bool:
        return len(word) >= self.least and word.isalpha() and word.islower()

    def _gap(self, piece: Piece, parts: list[str], place: int) -> Gap:
        context = piece.before[max(0, len(piece.before) - self.context) :]
        before = " ".join([*context, "".join(parts[:place])])
        return Gap(before, parts[place], "".join(parts[place + 1 :]))

    def _draw(
        self, words: Sequence[str], scores: Sequence[float], *, rng: np.random.Generator
    ) -> str:
        """The best word, or one sampled by score."""
        if self.temperature is None:
            return words[int(np.argmax(scores))]
        weights = np.asarray(scores) / self.temperature
        weights = np.exp(weights - weights.max())
        return words[int(rng.choice(len(words), p=weights / weights.sum()))]

    def _propose(self, gaps: list[Gap]) -> list[list[tuple[str, float]]]:
        """Words for each gap with their log-probabilities."""
        loaded, vocabulary = self._load()
        try:
            with loaded.torch.inference_mode():
                return self._score(loaded, vocabulary, gaps)
        except (RuntimeError, IndexError) as error:
            raise BackendError(
                f"The model {str(self.model)!r} failed: {error}. Try a smaller batch."
            ) from error

    @abstractmethod
    def _score(
        self, loaded: Loaded, vocabulary: list[str | None], gaps: list[Gap]
    ) -> list[list[tuple[str, float]]]:
        """Words for each gap with their log-probabilities, by the loaded model."""

    def _best(
        self, scores: DoubleArray, vocabulary: list[str | None], gap: Gap
    ) -> list[tuple[str, float]]:
        """The likeliest words other than the current one, by scores (V,)."""
        best: list[tuple[str, float]] = []
        for token in np.argsort(-scores):
            word = vocabulary[token] if token < len(vocabulary) else None
            if word is not None and word != gap.word:
                best.append((word, float(scores[token])))
                if len(best) == self.candidates:
                    break
        return best

    def _open(self) -> tuple[Loaded, list[str | None]]:
        loaded = load(self._task, self.model, device=self.device)
        tokenizer = loaded.tokenizer
        if tokenizer.pad_token is None:
            tokenizer.pad_token = tokenizer.eos_token
        tokenizer.padding_side = "right"
        return loaded, whole_words(tokenizer)


@dataclass(eq=False)
class MaskedInfill(_Infill):
    """Replace words by those that a masked language model finds most probable.

    A known suite replaces half of the words by the likeliest one, which is often the word itself;
    here it is always another word. Nothing prevents the model from choosing an opposite; the
    evaluation measures how many texts keep their meaning.

    Args:
        model: a folder, or a name on the hub.
        splitter: finds the prose.
        rate: the share of a sentence's words to replace, if enough words can be replaced.
        candidates: the number of likeliest words to choose from.
        temperature: None takes the likeliest word; a number samples.
        context: the number of preceding sentences that the model sees.
        least: words with fewer letters are not replaced, nor are words with capitals.
        batch: gaps that are scored together.
        device: by default a CUDA device if there is one, otherwise the processor.
    """

    name: ClassVar[str] = "infill-masked"
    _task = "AutoModelForMaskedLM"

    model: str | Path = "google-bert/bert-large-uncased"

    def _score(
        self, loaded: Loaded, vocabulary: list[str | None], gaps: list[Gap]
    ) -> list[list[tuple[str, float]]]:
        tokenizer = loaded.tokenizer
        texts = [gap.before + tokenizer.mask_token + gap.after for gap in gaps]
        batch = tokenizer(texts, return_tensors="pt", padding=True, truncation=True)
        logits = loaded.model(**batch.to(loaded.device)).logits
        proposals: list[list[tuple[str, float]]] = []
        for gap, ids, rows in zip(gaps, batch["input_ids"], logits, strict=True):
            (masked,) = (ids == tokenizer.mask_token_id).nonzero(as_tuple=True)
            if len(masked) != 1:  # truncated with the end of a very long sentence
                proposals.append([])
                continue
            scores = rows[masked[0]].double().log_softmax(-1).cpu().numpy()
            proposals.append(self._best(scores, vocabulary, gap))
        return proposals


@dataclass(eq=False)
class CausalInfill(_Infill):
    """Replace words by those that a causal language model finds probable in the sentence.

    Args:
        model: a folder, a name on the hub, or a GGUF file (which needs the library ``gguf``).
        splitter: finds the prose.
        rate: the share of a sentence's words to replace, if enough words can be replaced.
        candidates: words proposed for each gap and scored with the rest of the sentence.
        temperature: None takes the best word; a number samples.
        context: the number of preceding sentences that the model sees.
        least: words with fewer letters are not replaced, nor are words with capitals.
        batch: sentences that are scored together.
        device: by default a CUDA device if there is one, otherwise the processor.
    """

    name: ClassVar[str] = "infill-causal"
    _task = "AutoModelForCausalLM"

    def _score(
        self, loaded: Loaded, vocabulary: list[str | None], gaps: list[Gap]
    ) -> list[list[tuple[str, float]]]:
        proposals: list[list[tuple[str, float]]] = [[] for _ in gaps]
        # A new word can begin only after a space, not after a letter or an opening quote.
        usable = [
            i for i, gap in enumerate(gaps) if gap.before.endswith(" ") and gap.before.strip()
        ]
        if not usable:
            return proposals
        _, mask, logits = self._read(loaded, [gaps[i].before.rstrip() for i in usable])
        last = mask.sum(1) - 1
        next_word = logits[range(len(usable)), last].double().log_softmax(-1).cpu().numpy()
        words_by_gap = [
            [word for word, _ in self._best(row, vocabulary, gaps[i])]
            for i, row in zip(usable, next_word, strict=True)
        ]
        sentences = [
            gaps[i].before + word + gaps[i].after
            for i, words in zip(usable, words_by_gap, strict=True)
            for word in words
        ]
        scores = iter(self._likelihoods(loaded, sentences))
        for i, words in zip(usable, words_by_gap, strict=True):
            proposals[i] = [(word, next(scores)) for word in words]
        return proposals

    def _likelihoods(self, loaded: Loaded, sentences: list[str]) -> list[float]:
        """The log-probability of each sentence."""
        likelihoods: list[float] = []
        for start in range(0, len(sentences), self.batch):
            ids, mask, logits = self._read(loaded, sentences[start : start + self.batch])
            log_p = logits[:, :-1].float().log_softmax(-1)
            token_log_p = log_p.gather(-1, ids[:, 1:, None])[..., 0] * mask[:, 1:]
            likelihoods += token_log_p.double().sum(1).tolist()
        return likelihoods

    def _read(self, loaded: Loaded, texts: list[str]) -> tuple[Any, Any, Any]:
        """Token ids, the attention mask, and the logits after each token."""
        tokenizer = loaded.tokenizer
        # Truncate the beginning: the text near a gap matters most.
        tokenizer.truncation_side = "left"
        limit = min(tokenizer.model_max_length, _READ)
        batch = tokenizer(
            texts, return_tensors="pt", padding=True, truncation=True, max_length=limit
        )
        batch = batch.to(loaded.device)
        ids, mask = batch["input_ids"], batch["attention_mask"]
        return ids, mask, loaded.model(input_ids=ids, attention_mask=mask).logits


_PIECE = "##"  # WordPiece marks the continuation of a word
_STARTS = ("Ġ", "▁")  # byte-level BPE and SentencePiece mark the beginning of a word


def whole_words(tokenizer: Any) -> list[str | None]:
    """For each token, the lower-case word that it stands for; None if it is not a whole word.

    A vocabulary that marks neither beginnings nor continuations is taken to consist of whole words.
    """
    tokens: list[str] = tokenizer.convert_ids_to_tokens(range(len(tokenizer)))
    special = set(tokenizer.all_special_ids)
    start = next((mark for mark in _STARTS if any(t.startswith(mark) for t in tokens)), "")
    return [
        None if number in special else _word(token, start) for number, token in enumerate(tokens)
    ]


def _word(token: str, start: str) -> str | None:
    if not token.startswith(start) or token.startswith(_PIECE):
        return None
    word = token[len(start) :]
    # In byte-level vocabularies, bytes of longer characters look like letters: accept only ASCII.
    return word if len(word) > 1 and word.isascii() and word.isalpha() and word.islower() else None
