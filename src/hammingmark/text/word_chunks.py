"""A text in chunks of words: what stood before each of its places, in whole chunks.

It depends on the text's beginning up to the place alone, so that whoever writes the text and
whoever reads it find the same.
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
    """The context of a place in a text: the last whole chunks of words before it.

    It reaches from the first of their words to the last. There is none before the first chunk is
    whole. A word counts as soon as nothing that follows can change it.

    Attributes:
        length: words of a chunk.
        most: chunks of a context at most: an encoder reads no more than so many tokens, and a
            passage that was copied into another text gets its own contexts back.
    """

    length: int
    most: int

    def context(self, text: str) -> str:
        """The context of what follows a text; empty if there is none."""
        contexts, which = self.contexts(text, [len(text)])
        return contexts[which[0]] if which[0] >= 0 else ""

    def contexts(self, text: str, places: Sequence[int]) -> tuple[list[str], NDArray[np.int64]]:
        """Every context that a text has, in order, and the number of each place's, (n,).

        Args:
            text: n places of it are asked about.
            places: how many characters stand before each, rising. The number of one without a
                context is -1.
        """
        words = list(settled_words(text))
        lasts = words[self.length - 1 :: self.length]
        firsts = words[:: self.length]
        contexts = [
            text[firsts[max(0, number + 1 - self.most)][0] : end]
            for number, (_, end, _) in enumerate(lasts)
        ]
        known = [settled for _, _, settled in lasts]
        which = [bisect_right(known, place) - 1 for place in places]
        return contexts, np.array(which, np.int64)

    def context_changes(self, text: str) -> Callable[[str], bool]:
        """A function that says whether the context after a text and some more is another.

        It looks at nothing before the last chunk, so that it may be asked after each token.
        """
        lasts = list(settled_words(text))[self.length - 1 :: self.length]
        # From where the last chunk's last piece ends: what is settled before stays as it is.
        rest = text[lasts[-1][2] - 1 :] if lasts else text

        def changes(more: str) -> bool:
            words = islice(settled_words(rest + more), self.length - 1, None)
            return next(words, None) is not None

        return changes
