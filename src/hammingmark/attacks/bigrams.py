"""Of several paraphrases the one with the fewest word pairs of the original (SemStamp's attack)."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import pairwise

from hammingmark.protocols import Encoder

Similarity = Callable[[str, Sequence[str]], Sequence[float]]
"""How similar in meaning a sentence is to each of some others; 1 is the same."""

Tokens = Callable[[str], Sequence[object]]
"""A sentence to the tokens whose pairs are counted."""

_WORD = re.compile(r"\w+|[^\w\s]")


def similarity_by(judge: Encoder | Similarity) -> Similarity:
    """A similarity as it is, or the cosine of an encoder's embeddings."""
    if not isinstance(judge, Encoder):
        return judge
    encoder = judge

    def cosine(sentence: str, others: Sequence[str]) -> Sequence[float]:
        vectors = encoder.encode([sentence, *others])
        return [float(each) for each in vectors[1:] @ vectors[0]]

    return cosine


def words(sentence: str) -> list[str]:
    """Words and punctuation marks, in small letters."""
    return _WORD.findall(sentence.lower())


def fewest_shared(
    sentence: str,
    candidates: Sequence[str],
    *,
    similarity: Similarity,
    tolerance: float,
    tokens: Tokens = words,
) -> str:
    """The candidate that shares the fewest pairs of neighbouring tokens with a sentence.

    Only those count whose similarity is below the first candidate's by no more than ``tolerance``
    times that similarity, and which have at most half as many tokens more than the sentence. Of
    equals the earlier is taken, and the first candidate if none counts.
    """
    scores = similarity(sentence, candidates)
    original = list(tokens(sentence))
    known = set(pairwise(original))
    chosen, fewest = candidates[0], len(original)
    for candidate, score in zip(candidates, scores, strict=True):
        written = list(tokens(candidate))
        if len(written) > 1.5 * len(original) or scores[0] - score > tolerance * scores[0]:
            continue
        shared = sum(pair in known for pair in pairwise(written))
        if shared < fewest:
            chosen, fewest = candidate, shared
    return chosen
