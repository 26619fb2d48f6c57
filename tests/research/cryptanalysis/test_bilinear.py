"""What marked texts give away of a bilinear form: Gaussian topics in 16 dimensions, a real key."""

from __future__ import annotations

import hashlib
from itertools import pairwise

import numpy as np
import pytest
from research.cryptanalysis.bilinear import (
    FormGuess,
    learn_form,
    minimise,
    score_correlation,
)
from research.cryptanalysis.bilinear_factors import FormFactors, learn, refine_factors
from research.cryptanalysis.forgery import (
    Scorer,
    by_guess,
    by_nothing,
    by_rule,
    changes_needed,
    compose,
    first_by_guess,
    first_by_rule,
    p_value,
    pass_rate,
    removal_path,
)

from hammingmark.errors import InputError
from hammingmark.keys.config import EncoderId
from hammingmark.keys.key import Secret, WatermarkKey
from hammingmark.protocols import FloatArray
from hammingmark.watermarks.bilinear import BilinearConfig, BilinearMark

D = 16
MANY, FEW = 400, 3


def unit(rows: np.ndarray) -> FloatArray:
    return (rows / np.linalg.norm(rows, axis=-1, keepdims=True)).astype(np.float32)


def make_pools(seed: int, count: int = 20, size: int = 100) -> list[FloatArray]:
    """Topics: sentences around a centre of their own."""
    rng = np.random.default_rng(seed)
    return [
        unit(0.4 * rng.standard_normal(D) + rng.standard_normal((size, D))) for _ in range(count)
    ]


def make_mark(name: str, rank: int = 32) -> BilinearMark:
    tied = EncoderId("none", fingerprint="ef" * 32, dimension=D)
    config = BilinearConfig(encoder=tied, rank=rank)
    secret = Secret(hashlib.sha256(name.encode()).digest())
    return BilinearMark(WatermarkKey(secret, config))


def write(mark: BilinearMark | None, texts: int, seed: int) -> list[FloatArray]:
    choose = by_nothing if mark is None else by_rule(mark)
    begin = None if mark is None else first_by_rule(mark)
    rng = np.random.default_rng(seed)
    return compose(make_pools(1), choose, texts=texts, sentences=10, tries=16, rng=rng, begin=begin)


def correlation(guess: Scorer, mark: BilinearMark) -> tuple[float, float]:
    rng = np.random.default_rng(9)
    return score_correlation(guess, FormFactors.of(mark.key), make_pools(2), rng=rng)


@pytest.fixture(scope="module")
def mark() -> BilinearMark:
    return make_mark("form")


@pytest.fixture(scope="module")
def many(mark: BilinearMark) -> list[FloatArray]:
    return write(mark, MANY, seed=3)


@pytest.fixture(scope="module")
def learned(many: list[FloatArray]) -> FormGuess:
    return learn_form(many)


def test_the_truth_scores_as_the_method_does(mark: BilinearMark) -> None:
    true, pool = FormFactors.of(mark.key), make_pools(4)[0]
    np.testing.assert_allclose(
        true.score(pool[0], pool[1:9]), mark.choose(pool[0], pool[1:9]).scores, atol=1e-4
    )
    np.testing.assert_allclose(
        true.score(pool[:8], pool[1:9]),
        [mark.choose(x, y[None]).scores[0] for x, y in pairwise(pool[:9])],
        atol=1e-4,
    )
    np.testing.assert_allclose(
        true.score_first(pool[:8]), mark.choose(None, pool[:8]).scores, atol=1e-4
    )


def test_many_texts_give_the_form_away_and_few_do_not(
    mark: BilinearMark, many: list[FloatArray], learned: FormGuess
) -> None:
    form, first = correlation(learned, mark)
    assert form > 0.85
    assert first > 0.85
    assert correlation(learn_form(many[:FEW]), mark)[0] < 0.5


def test_they_say_nothing_of_another_key(learned: FormGuess) -> None:
    # Over keys the correlation has mean 0 and a standard deviation of about 1 / D.
    assert abs(correlation(learned, make_mark("another"))[0]) < 4 / D


def test_unmarked_texts_give_nothing_away(mark: BilinearMark) -> None:
    guess = learn_form(write(None, MANY, seed=5))
    assert abs(correlation(guess, mark)[0]) < 4 / D


def test_sentences_of_long_and_short_texts_count_alike(
    mark: BilinearMark, many: list[FloatArray]
) -> None:
    # Two texts in one: the joint is one unmarked transition in twenty.
    joined = [np.concatenate(pair) for pair in zip(many[::2], many[1::2], strict=True)]
    halves = [part for text in many for part in (text[:4], text[3:])]
    assert correlation(learn_form(joined), mark)[0] > 0.75
    assert correlation(learn_form(halves), mark)[0] > 0.75


def test_a_forger_passes_with_what_was_learned_and_not_without(
    mark: BilinearMark, learned: FormGuess
) -> None:
    rng = np.random.default_rng(6)
    forged = compose(
        make_pools(7),
        by_guess(learned),
        texts=20,
        sentences=10,
        tries=16,
        rng=rng,
        begin=first_by_guess(learned),
    )
    assert pass_rate(forged, mark) > 0.5
    assert pass_rate(write(None, 20, seed=8), mark) < 0.3


def test_what_was_learned_removes_a_mark(mark: BilinearMark, learned: FormGuess) -> None:
    rng = np.random.default_rng(10)
    (text,) = write(mark, 1, seed=11)
    assert p_value(text, mark) < 0.01
    others = unit(rng.standard_normal((10, 8, D)))
    versions = unit(0.8 * text[:, None] + 0.6 * others)
    path = removal_path(text, versions, guess=learned, rng=rng)
    needed = changes_needed(path, mark)
    assert needed is not None
    assert 0 < needed <= 6


def test_where_the_rank_is_small_matrices_come_closer_than_the_form() -> None:
    thin = make_mark("thin", rank=4)
    texts = write(thin, MANY, seed=12)
    form = learn_form(texts)
    rng = np.random.default_rng(13)
    factors = refine_factors(texts, form, rank=4, threshold=thin.config.threshold, rng=rng)
    assert correlation(factors, thin)[0] > correlation(form, thin)[0] > 0.75


def test_matrices_are_sought_where_there_are_texts_enough(
    mark: BilinearMark, many: list[FloatArray]
) -> None:
    rng = np.random.default_rng(14)
    assert isinstance(learn(many, rank=32, threshold=mark.config.threshold, rng=rng), FormFactors)
    assert isinstance(
        learn(many[:20], rank=32, threshold=mark.config.threshold, rng=rng), FormGuess
    )


def test_a_text_of_one_sentence_says_nothing() -> None:
    with pytest.raises(InputError):
        learn_form([np.ones((1, D), np.float32)])


def test_the_minimum_of_a_parabola() -> None:
    scale, at = np.linspace(1.0, 20.0, 6), np.arange(6.0)

    def objective(x: np.ndarray) -> tuple[float, np.ndarray]:
        return float((scale * (x - at) ** 2).sum() / 2), scale * (x - at)

    np.testing.assert_allclose(minimise(objective, np.zeros(6)), at, atol=0.05)
