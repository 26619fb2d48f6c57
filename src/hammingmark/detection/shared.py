"""Sentences that several texts share, counted once.

Under one key a sentence has nearly the same score in every text, so texts that share a header, a
quotation or a template are called watermarked together. Here each text is judged by its own
sentences, and a run of shared sentences once, in the first text that has it.

**Claim.** Every p-value stays valid: if no text depends on the key, each is at most α with
probability at most α over keys.

**Proof.** Which sentences count in a text is a function of the words of the texts alone, so it is
fixed before the key is drawn. A text with a fixed choice of its sentences is tested as any text is:
their scores are jointly normal with their part of the covariance (`bilinear`), or their sum is
another statistic that reference keys are compared by (`hamming`). ∎

Where a text shares sentences with one that the key marked, the choice depends on the key through
that text. Then the claim is not proven for the sentences that are left.
"""

from __future__ import annotations

import hashlib
import re
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from hammingmark.detection.detector import Detector
from hammingmark.detection.group import DetectorGroup
from hammingmark.detection.reader import ReadText, SentenceReader
from hammingmark.errors import InputError
from hammingmark.protocols import Splitter
from hammingmark.records import Verdict

_WORD = re.compile(r"\w+")


@dataclass
class SentenceCounts:
    """Counts in how many texts each sentence stands, and keeps eight bytes for each.

    Sentences that differ in case, punctuation or white space only are counted as one.
    """

    texts: int = 0
    _hashes: array[int] = field(default_factory=lambda: array("Q"), init=False, repr=False)

    def add(self, sentences: Sequence[str]) -> None:
        """Count the sentences of a text, each once."""
        self.texts += 1
        self._hashes.extend(dict.fromkeys(_hashes(sentences)))

    def shared(self) -> SharedSentences:
        """The sentences that stand in two texts or more."""
        hashes, counts = np.unique(np.array(self._hashes, np.uint64), return_counts=True)
        several = counts > 1
        return SharedSentences(self.texts, hashes[several], counts[several])


@dataclass(frozen=True)
class SharedSentences:
    """The sentences that several texts share.

    Attributes:
        texts: the number of texts.
        hashes: of the sentences, sorted, (s,).
        counts: in how many texts each stands, (s,).
    """

    texts: int
    hashes: NDArray[np.uint64]
    counts: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.hashes)

    @property
    def most(self) -> int:
        """In how many texts the most frequent one stands; 0 if none is shared."""
        return int(self.counts.max(initial=0))

    def find(self, sentences: Sequence[str]) -> NDArray[np.int64]:
        """The number of each sentence among the shared ones, (n,); -1 if it is not shared."""
        wanted = np.array(_hashes(sentences), np.uint64)
        if not len(self.hashes):
            return np.full(len(wanted), -1)
        places = np.minimum(np.searchsorted(self.hashes, wanted), len(self.hashes) - 1)
        return np.where(self.hashes[places] == wanted, places, -1)


@dataclass(frozen=True, slots=True)
class SharedRun:
    """Consecutive sentences of a text that other texts have too, and no earlier one has.

    Attributes:
        begin: index of the first sentence in the text.
        end: index after the last one.
        fewest: in how many texts the rarest of them stands.
        most: in how many texts the most frequent one stands.
    """

    begin: int
    end: int
    fewest: int
    most: int


@dataclass(frozen=True)
class SharedOnce:
    """Judges texts by the sentences that they do not share, and each run of shared ones once.

    Attributes:
        judge: searches keys of one kind, of a method that can score a part of a text.

    Raises:
        InputError: it cannot.
    """

    judge: Detector | DetectorGroup

    def __post_init__(self) -> None:
        if isinstance(self.judge, DetectorGroup):
            raise InputError(
                "Shared sentences can be counted once under keys of one method and encoder. Name "
                "fewer keys."
            )
        method = self.judge.search.first
        if method.capabilities.read_part is None:
            raise InputError(
                f"The method {method.name!r} cannot count shared sentences once. Test the texts "
                "without that option."
            )
        if not isinstance(self.judge.reader, SentenceReader) or self.judge.reader.edits:
            raise InputError("Shared sentences cannot be counted once while allowing for edits.")

    @property
    def splitter(self) -> Splitter:
        """Splits the texts that are counted and judged."""
        assert isinstance(self.judge, Detector)
        assert isinstance(self.judge.reader, SentenceReader)
        return self.judge.reader.splitter

    def judge_many(
        self, texts: Iterable[str], shared: SharedSentences
    ) -> Iterator[tuple[Verdict, list[tuple[SharedRun, Verdict]]]]:
        """Judge texts in order.

        Args:
            texts: the texts.
            shared: the sentences that they share.

        Yields:
            The verdict on a text by its own sentences, and those on the runs that stand in it
            first.
        """
        assert isinstance(self.judge, Detector)
        seen = np.zeros(len(shared), np.bool_)
        for batch in self.judge.reader.batches(texts):
            parts: list[ReadText] = []
            runs_of_texts = []
            for text in batch:
                numbers = shared.find(text.pieces)
                runs = list(_new_runs(numbers, shared.counts, seen))
                runs_of_texts.append(runs)
                own = numbers < 0
                parts.append(text if own.all() else replace(text, included=own))
                parts += [replace(text, included=_inside(run, len(own))) for run in runs]
            verdicts = self.judge.judge_read(parts)
            for runs in runs_of_texts:
                yield next(verdicts), [(run, next(verdicts)) for run in runs]


def _new_runs(
    numbers: NDArray[np.int64], counts: NDArray[np.int64], seen: NDArray[np.bool_]
) -> Iterator[SharedRun]:
    """The runs of shared sentences that no earlier text has; marks them as seen.

    Args:
        numbers: those of a text's sentences among the shared ones, (n,), or -1.
        counts: in how many texts each shared sentence stands, (s,).
        seen: which shared sentences an earlier text has, (s,).
    """
    new = np.zeros(len(numbers), np.bool_)
    for place, number in enumerate(numbers):
        if number >= 0 and not seen[number]:
            new[place] = seen[number] = True
    edges = np.flatnonzero(np.diff(new, prepend=False, append=False))
    for begin, end in edges.reshape(-1, 2).tolist():
        stands = counts[numbers[begin:end]]
        yield SharedRun(begin, end, int(stands.min()), int(stands.max()))


def _inside(run: SharedRun, length: int) -> NDArray[np.bool_]:
    """Which of so many sentences lie in a run."""
    inside = np.zeros(length, np.bool_)
    inside[run.begin : run.end] = True
    return inside


def _hashes(sentences: Sequence[str]) -> list[int]:
    """A hash of the words of each sentence."""
    return [
        int.from_bytes(
            hashlib.blake2b(
                (" ".join(_WORD.findall(sentence.casefold())) or sentence).encode(
                    "utf-8", "surrogatepass"
                ),
                digest_size=8,
            ).digest(),
            "little",
        )
        for sentence in sentences
    ]
