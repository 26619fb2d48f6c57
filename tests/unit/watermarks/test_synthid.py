"""SynthID-Text: its change of distributions, its counted tokens, and its detection."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.errors import raises_naming

from hammingmark.errors import InputError
from hammingmark.keys.config import TokenizerId
from hammingmark.keys.key import Secret, WatermarkKey
from hammingmark.records import DecodingStep
from hammingmark.stats.compare import compare
from hammingmark.watermarks.synthid import SynthIDConfig, SynthIDMark
from hammingmark.watermarks.synthid.g_statistics import (
    LikelihoodCard,
    load_card,
    save_card,
    shipped_card,
)
from hammingmark.watermarks.synthid.g_values import TABLE_SIZE, GValueHash
from hammingmark.watermarks.synthid.method import depth_keys, statistics_of

torch = pytest.importorskip("torch")

TOKENIZER = TokenizerId("test", "ab" * 32, 5000)
on_cuda = pytest.param(
    "cuda",
    marks=[
        pytest.mark.cuda,
        pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    ],
)


def mark(seed: int = 0, **parameters: Any) -> SynthIDMark:
    secret = Secret(np.random.default_rng(seed).bytes(32))
    return SynthIDMark(WatermarkKey(secret, SynthIDConfig(tokenizer=TOKENIZER, **parameters)))


def step_of(
    watermark: SynthIDMark, tokens: NDArray[np.int64], before: NDArray[np.int64]
) -> DecodingStep:
    """A step with tokens (B, k) after texts (B, n), which may be shorter than a context."""
    blank = np.full((len(before), watermark.width), -1)
    contexts = np.concatenate([blank, before], axis=1)[:, -watermark.width :]
    return DecodingStep(
        torch.from_numpy(tokens), torch.from_numpy(contexts), torch.zeros(len(before), 0)
    )


def logits_of(rows: int, k: int, *, seed: int = 1, spread: float = 2.0) -> Any:
    drawn = spread * np.random.default_rng(seed).standard_normal((rows, k))
    return torch.from_numpy(-np.sort(-drawn, axis=1).astype(np.float32))


def written(watermark: SynthIDMark, n: int, *, seed: int = 0, k: int = 32) -> NDArray[np.int64]:
    """A text of n tokens, each drawn from k likely tokens."""
    rng = np.random.default_rng(seed)
    text: list[int] = []
    while len(text) < n:
        tokens = rng.choice(TOKENIZER.size, size=(1, k), replace=False)
        step = step_of(watermark, tokens, np.array([text], np.int64))
        scores = watermark.process(logits_of(1, k, seed=len(text)), step)
        shares = scores[0].double().softmax(-1).numpy()
        text.append(int(rng.choice(tokens[0], p=shares / shares.sum())))
    return np.array(text)


def test_a_distribution_is_what_transformers_makes_of_it() -> None:
    process = pytest.importorskip("transformers.generation.logits_process")
    watermark = mark(hashing="table", depth=12)
    theirs = process.SynthIDTextWatermarkLogitsProcessor(
        ngram_len=5,
        keys=depth_keys(watermark.key).tolist(),
        sampling_table_size=TABLE_SIZE,
        sampling_table_seed=0,
        context_history_size=8,
        device=torch.device("cpu"),
    )
    rng = np.random.default_rng(3)
    before = rng.integers(0, 5000, size=(3, 9))
    scores = logits_of(3, 40)
    tokens = np.arange(40)[None].repeat(3, axis=0)  # theirs scores tokens by their numbers
    for place in range(5, 10):  # their first context is made of zeros, and is fed one by one
        expected = theirs(torch.from_numpy(before[:, :place]), scores)
    found = watermark.process(scores, step_of(watermark, tokens, before))
    np.testing.assert_allclose(found.softmax(-1), expected.softmax(-1), atol=1e-5)
    assert (found - scores).abs().max() > 1.0


@pytest.mark.parametrize("candidates", [1024, 5])
def test_the_mean_over_keys_is_the_models_own_distribution(candidates: int) -> None:
    scores = logits_of(1, 12, spread=1.0)
    tokens, before = np.arange(12)[None], np.arange(100, 104)[None]
    outcomes = []
    for seed in range(600):
        watermark = mark(seed, depth=3, context_history_size=0, candidates=candidates)
        found = watermark.process(scores, step_of(watermark, tokens, before))
        outcomes.append(found.softmax(-1)[0].numpy())
    shares = scores.softmax(-1)[0].numpy()
    errors = np.std(outcomes, axis=0) / np.sqrt(600)
    np.testing.assert_array_less(np.abs(np.mean(outcomes, axis=0) - shares), 4 * errors + 1e-6)
    assert np.std(outcomes, axis=0)[0] > 0.05
    # What does not take part keeps its probability under every key.
    np.testing.assert_allclose(np.array(outcomes)[:, 5:].std(axis=0) > 1e-5, candidates > 5)


def test_what_sampling_has_left_out_stays_out() -> None:
    watermark = mark()
    scores = logits_of(2, 12)
    scores[:, 7:] = -torch.inf
    step = step_of(watermark, np.arange(12)[None], np.arange(8).reshape(2, 4))
    found = watermark.process(scores, step)
    assert torch.isneginf(found[:, 7:]).all()
    assert not torch.isnan(found).any()
    alone = scores.clone()
    alone[:, 1:] = -torch.inf  # as at a temperature of 0
    np.testing.assert_allclose(watermark.process(alone, step).softmax(-1)[:, 0], 1.0)


def test_contexts_that_come_again_or_are_not_complete_are_left_as_they_are() -> None:
    scores, tokens = logits_of(4, 20), np.arange(20)[None].repeat(4, axis=0)
    before = np.array(
        [
            [1, 2, 3, 4, 9, 1, 2, 3, 4],  # seen before
            [1, 2, 3, 5, 9, 1, 2, 3, 4],
            [-1, -1, -1, -1, -1, -1, 2, 3, 4],  # too short
            [9, 9, 9, 9, 9, 9, 9, 9, 9],
        ]
    )
    watermark = mark()
    same = (watermark.process(scores, step_of(watermark, tokens, before)) == scores).all(dim=1)
    assert same.tolist() == [True, False, True, True]
    short = mark(context_history_size=4)  # too few to remember
    same = (short.process(scores, step_of(short, tokens, before)) == scores).all(dim=1)
    assert same.tolist() == [False, False, True, True]
    always = mark(mode="distortionary")
    same = (always.process(scores, step_of(always, tokens, before)) == scores).all(dim=1)
    assert same.tolist() == [False, False, True, False]


@pytest.mark.parametrize("device", ["cpu", on_cuda])
@pytest.mark.parametrize("hashing", ["mixed", "iterated", "table"])
def test_every_device_has_the_g_values_that_detection_reads(device: str, hashing: str) -> None:
    """At depth 1 a token gains exactly where its g-value is 1."""
    rng = np.random.default_rng(5)
    watermark = mark(depth=1, hashing=hashing)
    scores = logits_of(6, 64).to(device)
    before, tokens = rng.integers(0, 5000, (6, 4)), rng.integers(0, 5000, (6, 64))
    step = step_of(watermark, tokens, before)
    moved = DecodingStep(*(each.to(device) for each in (step.tokens, step.contexts)), scores[:, :0])
    gained = (watermark.process(scores, moved) > scores).cpu().numpy()
    read = [
        [watermark.read(np.append(row, token)).evidence.scores[0].score for token in some]
        for row, some in zip(before, tokens, strict=True)
    ]
    np.testing.assert_array_equal(gained, np.array(read) == 1.0)
    assert 0.3 < gained.mean() < 0.7


def test_a_marked_text_is_found_by_every_statistic_and_a_passage_of_it_too() -> None:
    watermark = mark()
    text = written(watermark, 120)
    other = np.random.default_rng(8).integers(0, 5000, size=300)
    mixed = np.concatenate([other[:150], text, other[150:]])
    for statistic in watermark.statistics:
        assert compare(watermark.read(text).test(statistic), limit=99).p_value < 1e-20
        best = compare(watermark.read(mixed).test(statistic), limit=99).windows[0]
        assert best.p_value < 1e-10
        assert abs(best.begin + 4 - 150) < 20
        assert abs(best.end + 4 - 270) < 20
    evidence = watermark.read(text).evidence
    assert evidence.sums["bayesian"] > 30.0
    assert evidence.means["weighted_mean"] > 0.55
    assert min(evidence.z["weighted_mean"], evidence.z["mean"]) > 6.0


def test_under_wrong_keys_z_is_a_standard_deviate_and_the_ratio_speaks_against_a_mark() -> None:
    text = np.random.default_rng(9).integers(0, 5000, size=80)
    found = [mark(seed).read(text).evidence for seed in range(300)]
    for statistic in ("weighted_mean", "mean"):
        z = np.array([each.z[statistic] for each in found])
        assert abs(z.mean()) < 4 / np.sqrt(300)
        assert abs(z.std() - 1.0) < 4 / np.sqrt(600)
    assert np.mean([each.sums["bayesian"] < 0.0 for each in found]) > 0.95


def text_for(frequency: int, *, tokens: int) -> NDArray[np.int64]:
    """A text written against the iterated hashing without a key.

    Its hashes are linear in the tokens, and its bits have a period nearly: each next token is the
    one that comes nearest to it. Under any key all runs then have much the same g-values.
    """
    text = np.random.default_rng(0).integers(0, 5000, size=4).tolist()
    numbers = np.arange(5000)
    while len(text) < tokens:
        runs = np.concatenate([np.tile(text[-4:], (5000, 1)), numbers[:, None]], axis=1)
        hashes = GValueHash("iterated", 0, np.zeros(1, np.int64)).hashes(runs)
        phase = (hashes * np.int64(frequency)).astype(np.float64) / 2.0**63
        phase[text] = 1.0  # none comes twice
        text.append(int(np.argmin(np.abs(phase))))
    return np.array(text)


def test_no_text_can_be_written_for_the_default_hashing() -> None:
    """For the published hashing it can, which is why it is not the default."""
    text = text_for(8745474123609625697, tokens=204)

    def spread(hashing: str) -> float:
        found = [mark(seed, hashing=hashing).read(text).evidence for seed in range(300)]
        return float(np.std([each.z["weighted_mean"] for each in found]))

    assert spread("iterated") > 2.0
    assert abs(spread("mixed") - 1.0) < 4 / np.sqrt(600)


def test_contexts_that_are_marked_again_count_again() -> None:
    """Except for repeated runs."""
    text = np.array([1, 2, 3, 4, 50, 1, 2, 3, 4, 60, 1, 2, 3, 4, 50])
    assert mark().read(text).counted.sum() == 9
    assert mark(mode="distortionary").read(text).counted.sum() == 10


@pytest.mark.parametrize("depth", [1, 2, 3, 4, 6, 8, 12])
def test_shallow_tournaments_find_passages_too(depth: int) -> None:
    watermark = mark(depth=depth)
    text = written(watermark, 400)
    other = np.random.default_rng(8).integers(0, 5000, size=200)
    mixed = np.concatenate([other[:100], text, other[100:]])
    for statistic in watermark.statistics:
        assert compare(watermark.read(mixed).test(statistic), limit=99).windows[0].p_value < 1e-4


def test_what_comes_again_does_not_count() -> None:
    text = np.random.default_rng(10).integers(0, 5000, size=40)
    watermark = mark()
    once, twice = watermark.read(text), watermark.read(np.concatenate([text, text]))
    assert once.counted.all()
    assert twice.counted[:40].all()  # the seam is new
    assert not twice.counted[40:].any()
    assert twice.evidence.repeated == 36
    # A run that left the history long ago is still the same run.
    short = mark(context_history_size=2).read(np.concatenate([text, text]))
    np.testing.assert_array_equal(short.counted, twice.counted)


def test_a_run_counts_where_it_was_marked_although_it_came_unmarked_before() -> None:
    """A token in a recent context was not marked; an older context is forgotten."""
    context, between = [1, 2], [30, 31, 32, 33, 34, 35]
    text = [*context, 7, *context, 9, *between, *context, 9]
    own = mark(ngram_len=3, context_history_size=4)
    counted = own.read(np.array(text)).counted
    assert not counted[3]  # 9, in a context that came three tokens before
    assert counted[-1]


def test_one_token_is_too_little_to_say_that_there_is_no_mark() -> None:
    """This holds for every statistic: even the likelihood ratio detects few texts that short."""
    text = np.random.default_rng(11).integers(0, 5000, size=60)
    for statistic in mark().statistics:
        short, long = (
            compare(mark().read(text[:end]).test(statistic), limit=1).power(0.01).as_written
            for end in (5, 60)
        )
        assert short is not None
        assert long is not None
        assert short < 0.2 < 0.99 < long


def test_a_table_that_sees_two_runs_as_one_counts_one() -> None:
    """Tokens 2^16 apart are equal to the table hashing, and different to the others."""
    text = np.array([7, 8, 9, 10, 11])
    both = np.concatenate([text, [3], text + TABLE_SIZE])
    assert mark(hashing="table").read(both).counted.tolist() == [True] * 6 + [False]
    assert mark().read(both).counted.all()


def test_of_many_keys_the_right_one_is_among_the_few_that_are_tested() -> None:
    watermark = mark()
    keys = [watermark.key.derive(f"label {number}") for number in range(150)]
    right = watermark.like(keys[120])
    texts = [written(right, 60), np.arange(3), np.random.default_rng(11).integers(0, 5000, 50)]
    for statistic in watermark.statistics:
        found = watermark.rank(keys, texts, statistic=statistic)
        assert found[0][0] == 120
        assert all(1 <= len(each) <= 4 for each in found)
        # The best of all keys for the last text, by looking at each.
        sums = [watermark.like(key).read(texts[2]).test(statistic).increments.sum() for key in keys]
        assert sums[found[2][0]] == pytest.approx(max(sums))


def test_keys_of_depths_come_from_the_secret_and_differ_for_a_table() -> None:
    for seed in range(200):  # of random numbers two would be alike in three sets of a hundred
        keys = depth_keys(mark(seed, depth=64, ngram_len=2).key)
        assert keys.shape == (64,)
        assert (keys >= 0).all()
        assert len(set((keys % TABLE_SIZE).tolist())) == 64
    keys = depth_keys(mark(depth=64).key)
    np.testing.assert_array_equal(keys, depth_keys(mark(depth=64).key))
    assert not np.array_equal(keys, depth_keys(mark(1, depth=64).key))


def test_the_card_has_its_provenance_and_survives_its_file() -> None:
    card = shipped_card()
    assert card.level.shape == card.slope.shape == (30,)
    assert {"model", "sampling", "tokens", "sha256", "seed"} <= set(card.about)
    assert (1 / (1 + np.exp(-card.level))).max() < 0.9  # two tokens differ, mostly
    again = load_card(save_card(LikelihoodCard(card.level, card.slope, card.about)))
    np.testing.assert_array_equal(again.level, card.level)
    assert again.about == card.about
    level, _ = card.at(40)
    np.testing.assert_array_equal(level[30:], card.level[-1])


def test_unmarked_tokens_have_a_falling_likelihood() -> None:
    mean, _ = statistics_of(30, "mixed")["bayesian"].increments.moments
    assert mean < -0.3


@pytest.mark.parametrize(
    ("parameters", "datum"),
    [
        ({"ngram_len": 1}, "ngram_len"),
        ({"depth": 0}, "depth"),
        ({"depth": 65}, "depth"),
        ({"context_history_size": -1}, "context_history_size"),
        ({"num_leaves": 1, "mode": "distortionary"}, "num_leaves"),
        ({"num_leaves": 3}, "mode=distortionary"),
        ({"candidates": 1}, "candidates"),
    ],
)
def test_configurations_that_make_no_sense_are_refused(
    parameters: dict[str, Any], datum: str
) -> None:
    with raises_naming(InputError, datum):
        SynthIDConfig(tokenizer=TOKENIZER, **parameters)
