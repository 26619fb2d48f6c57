"""What marked texts give away: on Gaussian topics in 32 dimensions, under a real key."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import numpy as np
import pytest
from research.cryptanalysis.forgery import (
    by_nothing,
    by_rule,
    changes_needed,
    compose,
    forge,
    p_value,
    pass_rate,
    removal_path,
)
from research.cryptanalysis.recovery import (
    Guess,
    Pairs,
    estimate_span,
    learn,
    neighbours,
    new_moment,
    refine_planes,
    second_moment,
    span_overlap,
    strangers,
)
from tests.errors import raises_naming
from tests.keys import ball, hamming_key

from hammingmark.errors import InputError
from hammingmark.keys.key import Secret
from hammingmark.protocols import FloatArray
from hammingmark.watermarks.hamming import HammingMark

D, M = 32, 8
MANY, FEW = 1500, 15


def unit(rows: np.ndarray) -> FloatArray:
    return (rows / np.linalg.norm(rows, axis=-1, keepdims=True)).astype(np.float32)


def make_pools(seed: int, count: int = 30, size: int = 120) -> list[FloatArray]:
    """Topics: sentences around a centre of their own, in a space that is not round."""
    rng = np.random.default_rng(seed)
    shape = np.linspace(1.5, 0.5, D)
    return [
        unit((0.5 * rng.standard_normal(D) + rng.standard_normal((size, D))) * shape)
        for _ in range(count)
    ]


def make_mark(name: str, *, softness: float = 0.0, threshold: float = 6) -> HammingMark:
    key = hamming_key(
        secret=Secret(hashlib.sha256(name.encode()).digest()),
        encoder="none",
        fingerprint="ef" * 32,
        dimension=D,
        bits=M,
        threshold=threshold,
        softness=softness,
    )
    return HammingMark(key)


def make_new_part_mark(name: str) -> HammingMark:
    """A key of the default preset."""
    rule = ball("default", bits=M)
    key = hamming_key(
        secret=Secret(hashlib.sha256(name.encode()).digest()),
        encoder="none",
        fingerprint="ef" * 32,
        dimension=D,
        bits=M,
        threshold=rule.threshold,
        softness=rule.softness,
        residual=rule.residual,
    )
    return HammingMark(key)


def write(mark: HammingMark | None, texts: int, seed: int) -> list[FloatArray]:
    choose = by_nothing if mark is None else by_rule(mark)
    rng = np.random.default_rng(seed)
    return compose(make_pools(1), choose, texts=texts, sentences=10, tries=16, rng=rng)


@pytest.fixture(scope="module")
def mark() -> HammingMark:
    return make_mark("recovery")


@pytest.fixture(scope="module")
def many(mark: HammingMark) -> list[FloatArray]:
    return write(mark, MANY, seed=2)


@pytest.fixture(scope="module")
def learned(many: list[FloatArray]) -> Guess:
    rng = np.random.default_rng(3)
    return refine_planes(neighbours(many), strangers(many), M, rng=rng, restarts=2)


def overlap_of(texts: list[FloatArray], mark: HammingMark) -> float:
    span = estimate_span(neighbours(texts), strangers(texts), M)
    return span_overlap(span.planes, mark.planes)


def test_many_texts_give_the_span_away_and_few_do_not(
    mark: HammingMark, many: list[FloatArray]
) -> None:
    assert overlap_of(many, mark) > 0.85
    assert overlap_of(many[:FEW], mark) < 0.5
    # Of another key the same texts say nothing: chance gives m / d = 0.25.
    assert overlap_of(many, make_mark("another")) < 0.45


def test_unmarked_texts_give_nothing_away(mark: HammingMark) -> None:
    assert overlap_of(write(None, MANY, seed=4), mark) < 0.45


def test_neighbours_of_unmarked_texts_serve_as_contrast_too(
    mark: HammingMark, many: list[FloatArray]
) -> None:
    plain = write(None, MANY, seed=5)
    span = estimate_span(neighbours(many), neighbours(plain), M)
    assert span_overlap(span.planes, mark.planes) > 0.8


def test_a_soft_ball_gives_itself_away_as_well() -> None:
    soft = make_mark("soft", softness=0.5, threshold=5.3)
    assert overlap_of(write(soft, MANY, seed=6), soft) > 0.8


def matched(planes: FloatArray, true: FloatArray) -> np.ndarray:
    """For each true plane the best cosine among the estimated ones, signs aside."""
    return np.abs(unit(planes) @ unit(true).T).max(axis=0)


def test_refining_finds_the_planes_and_not_only_their_span(
    mark: HammingMark, many: list[FloatArray], learned: Guess
) -> None:
    span = estimate_span(neighbours(many), strangers(many), M)
    true = mark.planes
    assert np.median(matched(learned.planes, true)) > 0.9
    assert np.median(matched(span.planes, true)) < 0.8
    assert span_overlap(learned.planes, true) > 0.85


def test_the_forger_passes_after_recovery_and_not_before(
    mark: HammingMark, many: list[FloatArray], learned: Guess
) -> None:
    few = many[:FEW]
    guess = refine_planes(
        neighbours(few), strangers(few), M, rng=np.random.default_rng(7), restarts=2
    )
    pools = make_pools(99)  # topics that no marked text was about

    def passing(guess: Guess) -> float:
        forged = forge(guess, pools, texts=60, sentences=10, rng=np.random.default_rng(8))
        return pass_rate(forged, mark)

    assert passing(learned) > 0.8
    assert passing(guess) < 0.35
    assert passing(Guess.of(make_mark("another").key)) < 0.1


@pytest.fixture(scope="module")
def new_part_mark() -> HammingMark:
    return make_new_part_mark("recovery of new parts")


@pytest.fixture(scope="module")
def many_new(new_part_mark: HammingMark) -> list[FloatArray]:
    return write(new_part_mark, MANY, seed=12)


def guess_from(texts: list[FloatArray]) -> Guess:
    rng = np.random.default_rng(13)
    return learn(neighbours(texts), strangers(texts), M, residual=True, rng=rng)


@pytest.fixture(scope="module")
def learned_new(many_new: list[FloatArray]) -> Guess:
    return guess_from(many_new)


def test_many_texts_give_the_planes_of_new_parts_away_and_few_do_not(
    new_part_mark: HammingMark, many_new: list[FloatArray], learned_new: Guess
) -> None:
    span = estimate_span(neighbours(many_new), strangers(many_new), M, residual=True)
    true, another = new_part_mark.planes, make_new_part_mark("another").planes
    for guess in (span, learned_new):
        assert span_overlap(guess.planes, true) > 0.85
        assert span_overlap(guess.planes, another) < 0.45
    assert np.median(matched(learned_new.planes, true)) > 0.9
    assert np.median(matched(span.planes, true)) < 0.8
    assert span_overlap(guess_from(many_new[:FEW]).planes, true) < 0.5
    assert span_overlap(guess_from(write(None, MANY, seed=14)).planes, true) < 0.45


def test_a_guess_scores_new_parts_as_the_key_does(
    new_part_mark: HammingMark, mark: HammingMark
) -> None:
    (pool,) = make_pools(15, count=1)
    for each in (new_part_mark, mark):
        scores = Guess.of(each.key).score(pool[0], pool[1:])
        assert scores == pytest.approx(np.array(each.choose(pool[0], pool[1:]).scores), abs=1e-4)
        turned = Guess.of(each.key).score(pool[1:], pool[0])
        assert turned[3] == pytest.approx(each.choose(pool[4], pool[:1]).scores[0], abs=1e-4)


def test_the_forger_of_new_parts_passes_after_recovery_and_not_before(
    new_part_mark: HammingMark, many_new: list[FloatArray], learned_new: Guess
) -> None:
    pools = make_pools(99)

    def passing(guess: Guess) -> float:
        forged = forge(guess, pools, texts=60, sentences=10, rng=np.random.default_rng(16))
        return pass_rate(forged, new_part_mark)

    found = passing(learned_new)
    assert found > 0.7
    assert passing(estimate_span(neighbours(many_new), strangers(many_new), M, residual=True)) > 0.2
    assert passing(guess_from(many_new[:FEW])) < 0.1
    assert passing(Guess.of(make_new_part_mark("another").key)) < 0.1
    # The same planes say less of whole sentences.
    assert passing(replace(learned_new, residual=False)) < found - 0.2


def reworded(text: FloatArray, *, cosine: float, versions: int, seed: int) -> FloatArray:
    rng = np.random.default_rng(seed)
    noise = rng.standard_normal((len(text), versions, D))
    noise -= (noise * text[:, None]).sum(-1, keepdims=True) * text[:, None]
    return unit(cosine * text[:, None] + np.sqrt(1 - cosine**2) * unit(noise))


@pytest.mark.parametrize("kind", ["whole", "new parts"])
def test_a_recovered_key_removes_the_mark_with_fewer_changes(
    request: pytest.FixtureRequest, kind: str
) -> None:
    names = {
        "whole": ("mark", "many", "learned"),
        "new parts": ("new_part_mark", "many_new", "learned_new"),
    }[kind]
    mark, many, learned = map(request.getfixturevalue, names)
    found = [text for text in many[:80] if p_value(text, mark) <= 0.01][:25]
    needed: dict[str, list[int]] = {"blind": [], "learned": []}
    for number, text in enumerate(found):
        versions = reworded(text, cosine=0.8, versions=8, seed=number)
        for name, guess in (("blind", None), ("learned", learned)):
            path = removal_path(text, versions, guess=guess, rng=np.random.default_rng(number))
            needed[name].append(changes_needed(path, mark) or len(text) + 1)
    assert np.mean(needed["learned"]) < np.mean(needed["blind"]) - 1.0


def test_a_path_changes_one_sentence_at_a_time(many: list[FloatArray], learned: Guess) -> None:
    text = many[0]
    versions = reworded(text, cosine=0.8, versions=3, seed=0)
    for guess in (None, learned):
        path = list(removal_path(text, versions, guess=guess, rng=np.random.default_rng(0)))
        changed = [int((step != text).any(axis=1).sum()) for step in path]
        assert changed == list(range(len(text) + 1))
        for row, offered in zip(path[-1], versions, strict=True):
            assert (row == offered).all(axis=1).any()
    assert (text == many[0]).all()


def test_the_first_change_is_the_best_of_all(
    many: list[FloatArray], learned: Guess, new_part_mark: HammingMark
) -> None:
    for guess in (learned, Guess.of(new_part_mark.key)):
        for number, text in enumerate(many[:10]):
            versions = reworded(text, cosine=0.8, versions=3, seed=number)
            path = removal_path(text, versions, guess=guess, rng=np.random.default_rng(0))
            _, first, *_ = path
            every = []
            for place in range(len(text)):
                for version in versions[place]:
                    changed = text.copy()
                    changed[place] = version
                    every.append(guess.score(changed[:-1], changed[1:]).sum())
            least = guess.score(first[:-1], first[1:]).sum()
            assert least == pytest.approx(min(every), abs=1e-4)


def test_a_text_that_is_not_found_needs_no_change(mark: HammingMark) -> None:
    (plain,) = write(None, 1, seed=10)
    assert p_value(plain, mark) > 0.01
    assert changes_needed(iter([plain]), mark) == 0


def test_overlap_knows_its_ends() -> None:
    planes = np.random.default_rng(0).standard_normal((M, D))
    turn = np.random.default_rng(1).standard_normal((M, M))
    assert span_overlap(turn @ planes, planes) == pytest.approx(1.0)
    assert span_overlap(np.eye(D)[:4], np.eye(D)[4:8]) == pytest.approx(0.0)
    assert span_overlap(np.eye(D)[:6], np.eye(D)[4:8]) == pytest.approx(0.5)
    # A direction that no sentence has does not count once the moments say so.
    flat = np.diag(np.r_[np.ones(D - 1), 1e-12])
    crooked = np.eye(D)[:2] + np.eye(D)[-1]
    assert span_overlap(crooked, np.eye(D)[:2]) < 0.9
    assert span_overlap(crooked, np.eye(D)[:2], moments=flat) == pytest.approx(1.0)


def test_pairs_stay_within_their_text() -> None:
    texts = [np.full((4, 2), float(i), np.float32) + np.arange(4)[:, None] / 10 for i in range(3)]
    near, far = neighbours(texts), strangers(texts, distances=(2, 3, 9))
    assert len(near) == 9
    assert len(far) == 3 * (2 + 1)
    gap = near.rows[near.after] - near.rows[near.before]
    assert gap == pytest.approx(np.full((9, 2), 0.1), abs=1e-6)
    assert (np.floor(far.rows[far.after]) == np.floor(far.rows[far.before])).all()


def test_strangers_stand_before_and_after() -> None:
    far = strangers([np.arange(10, dtype=np.float32)[:, None]])
    gap = (far.rows[far.after] - far.rows[far.before]).ravel()
    assert sorted(set(gap)) == [*range(-9, -2), *range(3, 10)]
    assert gap.sum() == 0


def test_moments_of_new_parts_are_of_unit_length_and_leave_the_first_sentence_out() -> None:
    first, second = unit(np.random.default_rng(0).standard_normal((2, 3)))
    moments = new_moment(Pairs(np.stack([first, second]), np.array([0]), np.array([1])))
    assert np.trace(moments) == pytest.approx(1.0, abs=1e-5)
    assert first @ moments @ first == pytest.approx(0.0, abs=1e-5)


def test_moments_do_not_depend_on_blocks() -> None:
    rows = np.random.default_rng(0).standard_normal((20000, 3)).astype(np.float32)
    assert second_moment(rows) == pytest.approx(np.asarray(rows.T @ rows / 20000), abs=1e-4)


def test_what_cannot_be_estimated_is_refused() -> None:
    rows = np.eye(4, dtype=np.float32)
    none = np.empty(0, np.intp)
    pairs = Pairs(rows, np.array([0]), np.array([1]))
    with pytest.raises(InputError):
        estimate_span(Pairs(rows, none, none), pairs, 2)
    with raises_naming(InputError, 5):
        estimate_span(pairs, pairs, 5)
    rng = np.random.default_rng(0)
    with raises_naming(InputError, 4, 5):
        compose([rows], by_nothing, texts=1, sentences=5, tries=2, rng=rng)
