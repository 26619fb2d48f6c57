"""The keys under which a text is tested."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from hammingmark.detection.reader import ReadText
from hammingmark.errors import InputError
from hammingmark.keys.key import WatermarkKey
from hammingmark.protocols import Watermark


class KeySearch(Protocol):
    """A set of keys, and those under which each text is tested; p-values are corrected for all."""

    @property
    def first(self) -> Watermark:
        """The method under one of the keys."""

    def __len__(self) -> int:
        """The number of keys."""

    def candidates(self, texts: Sequence[ReadText], *, statistic: str) -> list[list[Watermark]]:
        """The method under each key to test, for each text."""


@dataclass(frozen=True)
class EveryKey:
    """A few keys, all of which are tested.

    Attributes:
        watermarks: the method under each key, at least one.
    """

    watermarks: Sequence[Watermark]

    def __post_init__(self) -> None:
        if not self.watermarks:
            raise InputError("At least one key is needed.")

    @property
    def first(self) -> Watermark:
        """The method under the first key."""
        return self.watermarks[0]

    def __len__(self) -> int:
        return len(self.watermarks)

    def candidates(self, texts: Sequence[ReadText], *, statistic: str) -> list[list[Watermark]]:
        """All keys for each text."""
        return [list(self.watermarks)] * len(texts)


@dataclass(frozen=True)
class RankedKeys:
    """Many keys of one configuration; a text is tested under the few that fit it best.

    P-values are corrected for all keys, so testing only some of them cannot make a p-value too
    small, whichever are left out. All keys share their reference keys, if the method has any.

    Attributes:
        first: the method, under a key whose reference keys are used for all.
        keys: the keys searched.
    """

    first: Watermark
    keys: Sequence[WatermarkKey]

    def __len__(self) -> int:
        return len(self.keys)

    def candidates(self, texts: Sequence[ReadText], *, statistic: str) -> list[list[Watermark]]:
        """The best few keys for each text; an arbitrary key if it is too short to test."""
        ranker = self.first.capabilities.ranking
        assert ranker is not None
        lengths = [len(text.pieces) for text in texts]
        testable = [i for i, length in enumerate(lengths) if length >= 2]
        values = [texts[i].values[: lengths[i]] for i in testable]
        ranking = ranker.rank(self.keys, values, statistic=statistic)
        best = dict(zip(testable, ranking, strict=True))
        # A copy, because a key keeps what it expands to, and in time all keys would be expanded.
        return [
            [ranker.like(replace(self.keys[number])) for number in best.get(i, [0])]
            for i in range(len(texts))
        ]
