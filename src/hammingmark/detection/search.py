"""Which keys a text is tested under."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from hammingmark.detection.reader import ReadText
from hammingmark.errors import InputError
from hammingmark.keys.key import WatermarkKey
from hammingmark.protocols import Watermark


class KeySearch(Protocol):
    """Some keys, and which of them each text is tested under; the correction is for all."""

    @property
    def first(self) -> Watermark:
        """The method under one of the keys."""

    def __len__(self) -> int:
        """How many keys there are."""

    def candidates(self, texts: Sequence[ReadText], *, statistic: str) -> list[list[Watermark]]:
        """The keys to test each text under."""


@dataclass(frozen=True)
class EveryKey:
    """A few keys, each of which is tested.

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
        """All of them for each text."""
        return [list(self.watermarks)] * len(texts)


@dataclass(frozen=True)
class RankedKeys:
    """Many keys of one configuration: a text is tested under the few that fit it best.

    Testing fewer keys than the p-value is corrected for cannot make it too small, whichever are
    left out. Reference keys are shared, where there are any.

    Attributes:
        first: the method, under a key whose reference keys serve for all.
        keys: those that are searched.
    """

    first: Watermark
    keys: Sequence[WatermarkKey]

    def __len__(self) -> int:
        return len(self.keys)

    def candidates(self, texts: Sequence[ReadText], *, statistic: str) -> list[list[Watermark]]:
        """A few for each text; any for one that is too short to test."""
        ranker = self.first.capabilities.ranking
        assert ranker is not None
        sizes = [len(text.pieces) for text in texts]
        long = [number for number, size in enumerate(sizes) if size >= 2]
        values = [texts[number].values[: sizes[number]] for number in long]
        ranked = dict(zip(long, ranker.rank(self.keys, values, statistic=statistic), strict=True))
        return [
            [ranker.like(self.keys[place]) for place in ranked.get(number, [0])]
            for number in range(len(texts))
        ]
