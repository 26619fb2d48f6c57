"""Forging texts and removing marks with an estimate of a key.

Texts are chains of embeddings of real sentences, drawn from those of one topic. The owner writes
by the rule, a forger by a guess at the key, of whatever method; the true detector judges both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from hammingmark.errors import InputError
from hammingmark.protocols import FloatArray
from hammingmark.stats.compare import compare
from hammingmark.watermarks.bilinear import BilinearMark
from hammingmark.watermarks.hamming import HammingMark

Choose = Callable[[FloatArray, FloatArray], int]
"""From the preceding sentence (d,) and candidates (c, d) in drawing order to the chosen index."""

Open = Callable[[FloatArray], int]
"""From candidates (c, d) for the first sentence of a text to the chosen index."""


class Scorer(Protocol):
    """An estimate of a key, of any method."""

    def score(self, first: FloatArray, second: FloatArray) -> NDArray[np.float32]:
        """How well second sentences follow first ones: (n,), of (n, d) or one for all, (d,)."""
        ...

    def score_first(self, sentences: FloatArray) -> NDArray[np.float32]:
        """How well sentences (n, d) or (d,) begin a text: (n,)."""
        ...


def compose(
    pools: Sequence[FloatArray],
    choose: Choose,
    *,
    texts: int,
    sentences: int,
    tries: int,
    rng: np.random.Generator,
    begin: Open | None = None,
) -> list[FloatArray]:
    """Compose texts from sentences of one topic: marked, forged or natural, by ``choose``.

    As far as embeddings go this is how generation samples: candidates come as the topic gives them,
    and the rule takes one. No sentence is used twice in a text.

    Args:
        pools: for each topic its sentences, (n, d); topics take turns.
        choose: takes one of the candidates.
        texts: how many to write.
        sentences: of each.
        tries: candidates drawn for a sentence.
        rng: the dice.
        begin: takes one of the candidates for the first sentence, which is drawn blindly without.
    """
    written = []
    for number in range(texts):
        pool = pools[number % len(pools)]
        if len(pool) < sentences:
            raise InputError(f"A topic of {len(pool)} sentences is too small for {sentences}.")
        rows = [int(rng.integers(len(pool)))]
        if begin is not None:
            drawn = rng.integers(len(pool), size=tries)
            rows = [int(drawn[begin(pool[drawn])])]
        while len(rows) < sentences:
            drawn = rng.integers(len(pool), size=tries)
            fresh = drawn[~np.isin(drawn, rows)]
            if len(fresh):
                rows.append(int(fresh[choose(pool[rows[-1]], pool[fresh])]))
        written.append(pool[rows])
    return written


def by_rule(watermark: HammingMark | BilinearMark) -> Choose:
    """The owner's choice: the first candidate that satisfies the rule, else the nearest."""
    return lambda before, candidates: watermark.choose(before, candidates).index


def first_by_rule(watermark: BilinearMark) -> Open:
    """The owner's choice of a first sentence, if the method has a rule for it."""
    return lambda candidates: watermark.choose(None, candidates).index


def by_guess(guess: Scorer) -> Choose:
    """The forger's choice: the candidate that scores best under a key that may be wrong."""
    return lambda before, candidates: int(np.argmax(guess.score(before, candidates)))


def first_by_guess(guess: Scorer) -> Open:
    """The forger's choice of a first sentence."""
    return lambda candidates: int(np.argmax(guess.score_first(candidates)))


def by_nothing(before: FloatArray, candidates: FloatArray) -> int:
    """An author without a key: the first candidate."""
    return 0


def forge(
    guess: Scorer,
    pools: Sequence[FloatArray],
    *,
    texts: int,
    sentences: int,
    rng: np.random.Generator,
    tries: int = 16,
) -> list[FloatArray]:
    """Texts composed with an estimate as if it were the key; the first sentence is not chosen."""
    choose = by_guess(guess)
    return compose(pools, choose, texts=texts, sentences=sentences, tries=tries, rng=rng)


def p_value(
    text: FloatArray,
    watermark: HammingMark | BilinearMark,
    *,
    statistic: str = "margin",
    references: int = 999,
) -> float:
    """The true detector's p-value of a text's embeddings (n, d).

    That of a bilinear form is exact, and takes no statistic and no references.
    """
    if isinstance(watermark, BilinearMark):
        test = watermark.read(text).test("likelihood")
        assert test.null.computed is not None
        return test.null.computed.p_value(test.increments)
    return compare(watermark.read(text).test_given_topic(statistic), limit=references).p_value


def pass_rate(
    texts: Sequence[FloatArray],
    watermark: HammingMark | BilinearMark,
    *,
    level: float = 0.01,
    references: int = 999,
) -> float:
    """The share of texts that the true detector finds marked."""
    detected = [p_value(text, watermark, references=references) <= level for text in texts]
    return float(np.mean(detected))


def removal_path(
    text: FloatArray,
    versions: FloatArray,
    *,
    guess: Scorer | None,
    rng: np.random.Generator,
) -> Iterator[FloatArray]:
    """The text after 0, 1, 2, ... n sentences were reworded.

    With a guess, each step takes the sentence and the version that lower the agreement of
    neighbours most; without, both are drawn blindly.

    Args:
        text: (n, d).
        versions: of each sentence, (n, v, d).
        guess: what the attacker takes for the key, or None.
        rng: the dice.
    """
    now = text.copy()
    left = list(range(len(text)))
    yield now.copy()
    while left:
        if guess is None:
            place = int(rng.choice(left))
            version = int(rng.integers(versions.shape[1]))
        else:
            gains = [_loss_of(now, versions[i], i, guess) for i in left]
            best = int(np.argmin([float(gain.min()) for gain in gains]))
            place, version = left[best], int(gains[best].argmin())
        now[place] = versions[place, version]
        left.remove(place)
        yield now.copy()


def changes_needed(
    path: Iterator[FloatArray],
    watermark: HammingMark | BilinearMark,
    *,
    level: float = 0.01,
    references: int = 999,
) -> int | None:
    """The number of changes until the true detector finds no mark; None if all do not suffice.

    0 says that it found none to begin with.
    """
    for changes, text in enumerate(path):
        if p_value(text, watermark, references=references) > level:
            return changes
    return None


def _loss_of(
    now: FloatArray, versions: FloatArray, place: int, guess: Scorer
) -> NDArray[np.float32]:
    """The change of agreement with the neighbours for each version (v, d) of a sentence."""
    change = np.zeros(len(versions), np.float32)
    if place > 0:
        last = now[place - 1]
        change += guess.score(last, versions) - guess.score(last, now[place])
    else:
        change += guess.score_first(versions) - guess.score_first(now[place])
    if place + 1 < len(now):
        following = now[place + 1]
        change += guess.score(versions, following) - guess.score(now[place], following)
    return change
