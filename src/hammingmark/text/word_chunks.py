"""Contexts of a text in whole chunks of words.

The context at an offset depends only on the text before it, so generation and detection find the
same context.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from hammingmark.text.words import settled_words


@dataclass(frozen=True, slots=True)
class WordChunks:
    """The context at an offset of a text: the last complete chunks of words before it.

    It extends from their first word to their last. There is no context before the first chunk is
    complete. A word counts once no following text can change it.

    Attributes:
        length: words of a chunk.
        most: largest number of chunks of a context. It is limited because an encoder reads a
            limited number of tokens, and so that a passage copied into another text soon has its
            old contexts again.
    """

    length: int
    most: int

    def context(self, text: str) -> str:
        """The context at the end of a text; empty if there is none."""
        contexts, which = self.contexts(text, [len(text)])
        return contexts[which[0]] if which[0] >= 0 else ""

    def contexts(self, text: str, places: Sequence[int]) -> tuple[list[str], NDArray[np.int64]]:
        """All contexts of a text, in order, and the number of the context at each offset, (n,).

        Args:
            text: the text.
            places: n offsets in characters, ascending. The number of one without a context is -1.
        """
        words = list(settled_words(text))
        lasts = words[self.length - 1 :: self.length]
        firsts = words[:: self.length]
        contexts = [
            text[firsts[max(0, number + 1 - self.most)][0] : end]
            for number, (_, end, _) in enumerate(lasts)
        ]
        begins = [settled for _, _, settled in lasts]  # the offset at which each context begins
        which = [bisect_right(begins, place) - 1 for place in places]
        return contexts, np.array(which, np.int64)

    def context_changes(self, text: str) -> Callable[[str], bool]:
        """A function that tells whether a continuation of the text has another context.

        It reads only the text after the last complete chunk, so it is cheap to call after each
        token.
        """
        lasts = list(settled_words(text))[self.length - 1 :: self.length]
        # The text after the run of characters with the last chunk's last word. Words before it are
        # settled and cannot change.
        rest = text[lasts[-1][2] - 1 :] if lasts else text

        def changes(continuation: str) -> bool:
            words = islice(settled_words(rest + continuation), self.length - 1, None)
            return next(words, None) is not None

        return changes
