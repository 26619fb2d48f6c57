"""Words replaced by others that a language model finds likely in their place.

Two kinds of model can say what is likely. A masked one (BERT) sees both sides of a gap at once. A
causal one proposes words from what stands before, and then judges each by how likely the whole
sentence is with it.
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

_READ = 1024  # tokens that a causal model is shown at most
_WORD = re.compile(r"([^\W\d_]+(?:['’-][^\W\d_]+)*)")


@dataclass(frozen=True, slots=True)
class Gap:
    """A word to be replaced.

    Attributes:
        before: what stands before it, sentences of context included.
        word: the word that stands there now.
        after: the rest of its sentence.
    """

    before: str
    word: str
    after: str


@dataclass(eq=False)
class _Infill(ABC):
    """What both kinds share: which words go, one per round in every sentence at once."""

    libraries: ClassVar[tuple[str, ...]] = LIBRARIES
    name: ClassVar[str]
    min_similarity: ClassVar[float] = 0.7
    """The least similarity, by a held-out encoder, at which it is still the same text."""

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
            raise InputError(f"rate is a share from 0 to 1, not {self.rate}.")
        if self.candidates < 1 or self.batch < 1:
            raise InputError("candidates and batch must be at least 1.")
        if self.temperature is not None and self.temperature <= 0:
            raise InputError(f"A temperature is above 0, not {self.temperature}.")
        self._load = Lazy(self._open)

    def apply(self, texts: Sequence[str], *, rng: np.random.Generator) -> list[str]:
        """Attack each text, with all randomness drawn from ``rng``."""

        def change(pieces: list[Piece]) -> list[str]:
            return self._replace(pieces, rng)

        return change_prose(texts, splitter=self.splitter, change=change, tally=self.tally)

    def _replace(self, pieces: list[Piece], rng: np.random.Generator) -> list[str]:
        parts = [_WORD.split(piece.text) for piece in pieces]
        places = [self._places(each, rng) for each in parts]
        for turn in range(max(map(len, places), default=0)):
            chosen = [number for number, each in enumerate(places) if turn < len(each)]
            gaps = [self._gap(pieces[n], parts[n], places[n][turn]) for n in chosen]
            for start in range(0, len(gaps), self.batch):
                some = gaps[start : start + self.batch]
                for number, offered in zip(chosen[start:], self._offer(some), strict=False):
                    if offered:
                        word = self._draw(*zip(*offered, strict=True), rng=rng)
                        parts[number][places[number][turn]] = word
        return ["".join(each) for each in parts]

    def _places(self, parts: list[str], rng: np.random.Generator) -> list[int]:
        """Which words of a sentence go, in which order; names and short words stay."""
        fit = [i for i in range(1, len(parts), 2) if self._may_go(parts[i])]
        count = min(len(fit), round(self.rate * (len(parts) // 2)))
        return [int(each) for each in rng.permutation(fit)[:count]]

    def _may_go(self, word: str) -> bool:
        return len(word) >= self.least and word.isalpha() and word.islower()

    def _gap(self, piece: Piece, parts: list[str], place: int) -> Gap:
        shown = piece.before[max(0, len(piece.before) - self.context) :]
        before = " ".join([*shown, "".join(parts[:place])])
        return Gap(before, parts[place], "".join(parts[place + 1 :]))

    def _draw(
        self, words: Sequence[str], scores: Sequence[float], *, rng: np.random.Generator
    ) -> str:
        """The best word, or one drawn by its score."""
        if self.temperature is None:
            return words[int(np.argmax(scores))]
        weights = np.asarray(scores) / self.temperature
        weights = np.exp(weights - weights.max())
        return words[int(rng.choice(len(words), p=weights / weights.sum()))]

    def _offer(self, gaps: list[Gap]) -> list[list[tuple[str, float]]]:
        """Words for each gap with their log-probabilities, in the model's own words."""
        loaded, vocabulary = self._load()
        try:
            with loaded.torch.inference_mode():
                return self._judge(loaded, vocabulary, gaps)
        except (RuntimeError, IndexError) as error:
            raise BackendError(
                f"The model {str(self.model)!r} failed: {error}. Try a smaller batch."
            ) from error

    @abstractmethod
    def _judge(
        self, loaded: Loaded, vocabulary: list[str | None], gaps: list[Gap]
    ) -> list[list[tuple[str, float]]]:
        """The same, with the model at hand."""

    def _best(
        self, scores: DoubleArray, vocabulary: list[str | None], gap: Gap
    ) -> list[tuple[str, float]]:
        """The likeliest words (V,) other than the one that stands there."""
        found: list[tuple[str, float]] = []
        for token in np.argsort(-scores):
            word = vocabulary[token] if token < len(vocabulary) else None
            if word is not None and word != gap.word:
                found.append((word, float(scores[token])))
                if len(found) == self.candidates:
                    break
        return found

    def _open(self) -> tuple[Loaded, list[str | None]]:
        loaded = load(self._task, self.model, device=self.device)
        words = loaded.tokenizer
        if words.pad_token is None:
            words.pad_token = words.eos_token
        words.padding_side = "right"
        return loaded, whole_words(words)


@dataclass(eq=False)
class MaskedInfill(_Infill):
    """Replace words by those that a masked language model finds most probable.

    A known suite replaces half of the words by the likeliest one, which is often the word itself;
    here another word is always taken. Nothing keeps the model from an opposite: the share of texts
    that stay the same is for the evaluation to say.

    Args:
        model: a folder, or a name on the hub.
        splitter: says what is prose.
        rate: the share of a sentence's words that go, as far as there are words that may.
        candidates: the likeliest words to choose from.
        temperature: None takes the likeliest; a number draws.
        context: sentences before that the model sees.
        least: words of fewer letters stay; so do words with capitals.
        batch: gaps that are judged together.
        device: by default a CUDA device if there is one, otherwise the processor.
    """

    name: ClassVar[str] = "infill-masked"
    _task = "AutoModelForMaskedLM"

    model: str | Path = "google-bert/bert-large-uncased"

    def _judge(
        self, loaded: Loaded, vocabulary: list[str | None], gaps: list[Gap]
    ) -> list[list[tuple[str, float]]]:
        words = loaded.tokenizer
        texts = [gap.before + words.mask_token + gap.after for gap in gaps]
        batch = words(texts, return_tensors="pt", padding=True, truncation=True)
        logits = loaded.model(**batch.to(loaded.device)).logits
        offered: list[list[tuple[str, float]]] = []
        for gap, ids, rows in zip(gaps, batch["input_ids"], logits, strict=True):
            (places,) = (ids == words.mask_token_id).nonzero(as_tuple=True)
            if len(places) != 1:  # cut off with the end of a very long sentence
                offered.append([])
                continue
            scores = rows[places[0]].double().log_softmax(-1).cpu().numpy()
            offered.append(self._best(scores, vocabulary, gap))
        return offered


@dataclass(eq=False)
class CausalInfill(_Infill):
    """Replace words by those that a causal language model finds probable in the sentence.

    Args:
        model: a folder, a name on the hub, or a GGUF file (which needs the library ``gguf``).
        splitter: says what is prose.
        rate: the share of a sentence's words that go, as far as there are words that may.
        candidates: words proposed for each gap and judged with the rest of the sentence.
        temperature: None takes the best; a number draws.
        context: sentences before that the model sees.
        least: words of fewer letters stay; so do words with capitals.
        batch: sentences that are judged together.
        device: by default a CUDA device if there is one, otherwise the processor.
    """

    name: ClassVar[str] = "infill-causal"
    _task = "AutoModelForCausalLM"

    def _judge(
        self, loaded: Loaded, vocabulary: list[str | None], gaps: list[Gap]
    ) -> list[list[tuple[str, float]]]:
        offered: list[list[tuple[str, float]]] = [[] for _ in gaps]
        # What ends in a letter, an opening quote or nothing at all does not lead to a new word.
        fit = [i for i, gap in enumerate(gaps) if gap.before.endswith(" ") and gap.before.strip()]
        if not fit:
            return offered
        _, mask, logits = self._read(loaded, [gaps[i].before.rstrip() for i in fit])
        last = mask.sum(1) - 1
        next_word = logits[range(len(fit)), last].double().log_softmax(-1).cpu().numpy()
        proposed = [
            [word for word, _ in self._best(row, vocabulary, gaps[i])]
            for i, row in zip(fit, next_word, strict=True)
        ]
        sentences = [
            gaps[i].before + word + gaps[i].after
            for i, words in zip(fit, proposed, strict=True)
            for word in words
        ]
        scores = iter(self._likelihoods(loaded, sentences))
        for i, words in zip(fit, proposed, strict=True):
            offered[i] = [(word, next(scores)) for word in words]
        return offered

    def _likelihoods(self, loaded: Loaded, sentences: list[str]) -> list[float]:
        """The log-probability of each sentence; what they share does not matter to the choice."""
        found: list[float] = []
        for start in range(0, len(sentences), self.batch):
            ids, mask, logits = self._read(loaded, sentences[start : start + self.batch])
            log_p = logits[:, :-1].float().log_softmax(-1)
            chosen = log_p.gather(-1, ids[:, 1:, None])[..., 0] * mask[:, 1:]
            found += chosen.double().sum(1).tolist()
        return found

    def _read(self, loaded: Loaded, texts: list[str]) -> tuple[Any, Any, Any]:
        """Tokens, which of them are text, and the logits after each."""
        words = loaded.tokenizer
        # Of what is too long the beginning goes: a gap is judged by what stands near it.
        words.truncation_side = "left"
        limit = min(words.model_max_length, _READ)
        batch = words(texts, return_tensors="pt", padding=True, truncation=True, max_length=limit)
        batch = batch.to(loaded.device)
        ids, mask = batch["input_ids"], batch["attention_mask"]
        return ids, mask, loaded.model(input_ids=ids, attention_mask=mask).logits


_PIECE = "##"  # WordPiece marks what continues a word
_STARTS = ("Ġ", "▁")  # byte-level BPE and SentencePiece mark what begins one


def whole_words(tokenizer: Any) -> list[str | None]:
    """For each token the word in small letters that it stands for, None if it is something else.

    A vocabulary that marks neither beginnings nor continuations is one of whole words.
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
    # Bytes of a longer character look like letters in byte-level vocabularies: only ASCII is sure.
    return word if len(word) > 1 and word.isascii() and word.isalpha() and word.islower() else None
