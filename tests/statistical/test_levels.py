"""The promise: an unmarked text is called watermarked at most as often as the level says.

Each p-value below is taken under a key of its own, so that the number of rejections is binomial
whatever the texts are.
"""

from __future__ import annotations

import numpy as np
import pytest
from tests.conftest import Texts, embed, passages, shared_texts

from hammingmark.core.presets import ball
from hammingmark.keys import Secret, WatermarkKey
from hammingmark.pipeline.compare import compare
from hammingmark.pipeline.parts import read_parts
from hammingmark.protocols import Encoder, Splitter
from hammingmark.records import StatisticName, TopicName
from hammingmark.watermarks.sentence.hamming import HammingMark

pytestmark = pytest.mark.slow
KEYS = 20


def mark(dice: np.random.Generator, preset: str = "default") -> HammingMark:
    demand = ball(preset)
    key = WatermarkKey(
        Secret(dice.bytes(32)),
        "default",
        fingerprint="",
        dimension=384,
        bits=demand.bits,
        threshold=demand.threshold,
        softness=demand.softness,
        fresh=demand.fresh,
    )
    return HammingMark(key)


def p_values(
    texts: list[np.ndarray],
    *,
    seed: int,
    statistic: StatisticName = "margin",
    topic: TopicName = "given",
    preset: str = "default",
) -> np.ndarray:
    """One p-value for each text and each of 20 fresh keys: (20, texts)."""
    dice = np.random.default_rng(seed)
    return np.array(
        [
            [
                compare(
                    mark(dice, preset).trial(text, statistic=statistic, topic=topic), limit=999
                ).p_value
                for text in texts
            ]
            for _ in range(KEYS)
        ]
    )


def assert_level_is_kept(p: np.ndarray, *, exact: bool = True) -> None:
    for level in (0.01, 0.05):
        rate, noise = float((p <= level).mean()), float(np.sqrt(level * (1 - level) / p.size))
        print(f"rejected at {level:.0%}: {rate:.2%} of {p.size} (noise {noise:.2%})")
        assert rate <= level + 3.3 * noise
        if exact:  # a statistic with few values rejects less often than it might
            assert rate >= level - 3.3 * noise


@pytest.fixture(scope="module")
def human(articles: list[str], splitter: Splitter, encoder: Encoder) -> list[np.ndarray]:
    return embed(passages(articles, splitter, most=140), encoder)


@pytest.mark.parametrize("statistic", ["margin", "likelihood"])
@pytest.mark.parametrize("topic", ["given", "free"])
def test_human_text(human: list[np.ndarray], statistic: StatisticName, topic: TopicName) -> None:
    p = p_values(human, seed=1, statistic=statistic, topic=topic)
    assert_level_is_kept(p, exact=statistic == "margin")  # a soft ball's likelihood counts votes


@pytest.mark.parametrize("preset", ["paper", "robust"])
def test_human_text_under_other_rules(human: list[np.ndarray], preset: str) -> None:
    assert_level_is_kept(p_values(human[::2], seed=8, preset=preset))


@pytest.mark.parametrize("statistic", ["edge_vote", "global_bits"])
def test_human_text_by_the_papers_statistics(
    human: list[np.ndarray], statistic: StatisticName
) -> None:
    assert_level_is_kept(p_values(human[::2], seed=2, statistic=statistic), exact=False)


@pytest.mark.parametrize("length", [3, 5, 20])
def test_human_text_of_any_length(
    articles: list[str], splitter: Splitter, encoder: Encoder, length: int
) -> None:
    runs = passages(articles, splitter, length=length, each=1)
    assert_level_is_kept(p_values(embed(runs, encoder), seed=3), exact=length > 3)


def test_human_text_that_may_have_been_edited(
    articles: list[str], splitter: Splitter, encoder: Encoder
) -> None:
    parts = [read_parts(run) for run in passages(articles, splitter, each=1, most=50)]
    rows = embed([list(each.texts) for each in parts], encoder)
    dice = np.random.default_rng(9)
    p = [
        compare(mark(dice).trial(row, statistic="margin", parts=part), limit=999)
        for _ in range(KEYS)
        for row, part in zip(rows, parts, strict=True)
    ]
    assert_level_is_kept(np.array([each.p_value for each in p]))


@pytest.mark.parametrize("corpus", ["c4", "booksum", "cnn_dailymail"])
def test_human_text_of_other_genres(corpus: str, splitter: Splitter, encoder: Encoder) -> None:
    runs = passages(shared_texts(corpus), splitter, each=1, most=120)
    assert_level_is_kept(p_values(embed(runs, encoder), seed=4))


def test_unmarked_model_text(texts: Texts, encoder: Encoder) -> None:
    runs = [list(draft.sentences) for draft in texts.plain]
    assert_level_is_kept(p_values(embed([r for r in runs if len(r) > 3], encoder), seed=5))


def test_text_marked_with_another_key(texts: Texts, encoder: Encoder) -> None:
    runs = [list(draft.sentences) for draft in texts.marked]
    assert_level_is_kept(p_values(embed([r for r in runs if len(r) > 3], encoder), seed=6))


def spread(texts: list[np.ndarray], topic: TopicName) -> tuple[float, float]:
    """Standard deviation between keys of the rejection rate at 5 %, and counting noise."""
    dice = np.random.default_rng(7)
    rates = []
    for _ in range(24):
        method = mark(dice)
        p = [compare(method.trial(t, statistic="margin", topic=topic), limit=999) for t in texts]
        rates.append(np.mean([each.p_value <= 0.05 for each in p]))
    noise = float(np.sqrt(0.05 * 0.95 / len(texts)))
    print(f"{topic}: between keys {np.std(rates, ddof=1):.2%}, counting noise {noise:.2%}")
    return float(np.std(rates, ddof=1)), noise


def test_one_key_keeps_the_level_too(human: list[np.ndarray]) -> None:
    """Given the topic, keys differ little more in their false alarms than counting would have it.

    Under no true difference the ratio of variances exceeds 1.92 once in two hundred runs.
    """
    between, noise = spread(human, "given")
    assert (between / noise) ** 2 < 1.92


def test_giving_the_topic_is_what_evens_keys_out(splitter: Splitter, encoder: Encoder) -> None:
    """BookSum's summaries are all alike in kind, which a key may like or dislike as a whole."""
    texts = embed(passages(shared_texts("booksum"), splitter, each=1), encoder)
    given, noise = spread(texts, "given")
    free, _ = spread(texts, "free")
    assert given < 0.75 * free
    assert given < 2.0 * noise
