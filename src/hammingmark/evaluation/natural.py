"""Match counts of neighbouring sentences in natural text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hammingmark.detection.reader import embed_texts
from hammingmark.errors import InputError
from hammingmark.generation.config import TEXT_SAMPLING
from hammingmark.generation.text import AcceptedText, last_sentence
from hammingmark.generation.unjudged import draw_sentences
from hammingmark.protocols import Backend, Encoder, Splitter
from hammingmark.records import Prompt
from hammingmark.watermarks._shared.similarity import cosines
from hammingmark.watermarks.hamming import theory


@dataclass(frozen=True, slots=True)
class NaturalMatch:
    """The match counts of natural text.

    Attributes:
        pairs: the number of pairs of neighbouring sentences.
        pmf: the share of each match count 0 ... m, (m + 1,).
        cosine: mean cosine of neighbours.
    """

    pairs: int
    pmf: NDArray[np.float64]
    cosine: float

    @property
    def mean(self) -> float:
        """mu, the mean number of matching bits."""
        return float(self.pmf @ np.arange(len(self.pmf)))

    def acceptance(self, threshold: int) -> float:
        """a(T), the share of pairs that would be accepted."""
        return float(self.pmf[threshold:].sum())


def natural_match(
    texts: Sequence[str], *, splitter: Splitter, encoder: Encoder, bits: int
) -> NaturalMatch:
    """The match pmf of a corpus's neighbouring sentences, averaged over all keys.

    At cosine rho the match count is Binomial(m, 1 - arccos(rho) / pi) over keys (the paper's
    equation 6), so the average over keys needs no key.

    Raises:
        InputError: no text has two sentences.
    """
    documents = [splitter.split(text).carrying for text in texts]
    similarity = map(cosines, embed_texts(documents, encoder.encode))
    return match_of_cosines(np.concatenate([np.empty(0), *similarity]), bits=bits)


def natural_candidates(
    prompts: Sequence[str],
    *,
    backend: Backend,
    splitter: Splitter,
    encoder: Encoder,
    bits: int,
    count: int,
    seed: int,
    tick: Callable[[int], None] | None = None,
) -> NaturalMatch:
    """The match pmf between each prompt's last sentence and the sentences a model would add.

    Args:
        prompts: the prompts.
        backend: the model.
        splitter: finds the sentences.
        encoder: embeds them.
        bits: m.
        count: candidates per prompt.
        seed: of the draws.
        tick: called with the number of candidates drawn since the last call.

    Raises:
        InputError: no prompt ends with a whole sentence, or no candidate contains one.
    """
    pools = draw_pools(
        prompts, backend=backend, splitter=splitter, count=count, seed=seed, tick=tick
    )
    pairs = [(pool[0], candidate) for pool in pools for candidate in pool[1:]]
    embeddings = encoder.encode([sentence for pair in pairs for sentence in pair])
    return match_of_cosines(cosines(embeddings)[::2], bits=bits)


def draw_pools(
    prompts: Sequence[str],
    *,
    backend: Backend,
    splitter: Splitter,
    count: int,
    seed: int,
    tick: Callable[[int], None] | None = None,
) -> list[list[str]]:
    """For each prompt its last sentence, then the candidates for the next one, in drawing order.

    A prompt without a whole last sentence gives an empty pool; candidates without a sentence are
    left out.
    """
    texts_so_far = [AcceptedText(Prompt(text.rstrip()), splitter) for text in prompts]
    centres = [last_sentence(accepted.prompt, splitter) for accepted in texts_so_far]
    prompt_indices = [i for i in range(len(texts_so_far)) if centres[i] for _ in range(count)]
    seeds = np.random.default_rng(seed).integers(1 << 31, size=len(prompt_indices))
    sentences = draw_sentences(
        [texts_so_far[i] for i in prompt_indices],
        seeds.tolist(),
        backend=backend,
        max_tokens=128,
        sampling=TEXT_SAMPLING,
        tick=tick,
    )
    pools: list[list[str]] = [[centre] if centre else [] for centre in centres]
    for i, sentence in zip(prompt_indices, sentences, strict=True):
        if sentence:
            pools[i].append(sentence)
    return pools


def match_of_cosines(similarity: NDArray[np.float64], *, bits: int) -> NaturalMatch:
    """The match pmf over all keys of pairs with these cosines (pairs,)."""
    if not len(similarity):
        raise InputError("No text has two neighbouring sentences to compare.")
    pmf = theory.match_pmf(bits, theory.match_probability(similarity)).mean(axis=0)
    return NaturalMatch(len(similarity), pmf, float(similarity.mean()))
