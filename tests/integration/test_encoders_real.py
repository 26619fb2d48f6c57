"""The default encoder on real sentences; opt in with ``-m slow``."""

from __future__ import annotations

from pathlib import Path
from pydoc_data.topics import topics

import numpy as np
import pytest
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit

from hammingmark.assembly.encoders import load_encoder
from hammingmark.encoders.onnx import OnnxEncoder
from hammingmark.encoders.sbert import SbertEncoder
from hammingmark.encoders.vectors import unit_rows
from hammingmark.protocols import Encoder, FloatArray
from hammingmark.text.sentencex import SentencexSplitter

pytestmark = pytest.mark.slow

COUNT = 250
MATRICES = 50


@pytest.fixture(scope="module")
def encoder(minilm_folder: Path) -> OnnxEncoder:
    return OnnxEncoder(minilm_folder, name="minilm")


@pytest.fixture(scope="module")
def sentences() -> list[str]:
    """Prose that is part of every Python installation: its language reference."""
    text = "\n\n".join(topics[name] for name in sorted(topics))
    carrying = [s for s in SentencexSplitter().split(text).carrying if 30 < len(s) < 400]
    return carrying[:: len(carrying) // COUNT][:COUNT]


@pytest.fixture(scope="module")
def together(encoder: OnnxEncoder, sentences: list[str]) -> FloatArray:
    assert len(sentences) == COUNT
    return encoder.encode(sentences)


def flipped(first: FloatArray, second: FloatArray) -> tuple[int, int]:
    """How many of the 8 sign bits differ under 50 random matrices, and of how many."""
    planes = np.random.default_rng(7).standard_normal((MATRICES, 8, first.shape[1]))
    before, after = (np.einsum("mbd,nd->nmb", planes, part) > 0 for part in (first, second))
    return int((before != after).sum()), before.size


@pytest.mark.parametrize("way", ["alone", "shuffled", "again"])
def test_a_sentence_does_not_feel_its_batch(
    encoder: OnnxEncoder, sentences: list[str], together: FloatArray, way: str
) -> None:
    if way == "alone":
        other = np.concatenate([encoder.encode([sentence]) for sentence in sentences])
    elif way == "again":
        other = encoder.encode(sentences)
    else:
        order = np.random.default_rng(3).permutation(COUNT)
        # In groups of seven, so that each sentence has other neighbours and other padding.
        parts = [order[start : start + 7] for start in range(0, COUNT, 7)]
        other = np.empty_like(together)
        for part in parts:
            other[part] = encoder.encode([sentences[index] for index in part])
    gap = float(np.abs(other - together).max())
    flips, bits = flipped(together, other)
    print(f"\n{way}: largest difference {gap:.2g}, {flips} of {bits} bits flipped")
    assert gap < 1e-5
    assert flips / bits < 1e-4


def test_meaning_is_near_meaning(encoder: OnnxEncoder) -> None:
    cat, kitten, bank = encoder.encode(
        [
            "The cat slept on the warm windowsill all afternoon.",
            "All afternoon a cat was asleep on the sunny sill.",
            "The central bank raised interest rates by half a point.",
        ]
    )
    assert cat @ kitten > 0.6
    assert cat @ bank < 0.3


@pytest.mark.filterwarnings("default")  # torch and its friends warn on import
def test_sbert_on_a_model_made_here(tmp_path: Path) -> None:
    library = pytest.importorskip("sentence_transformers")
    modules = pytest.importorskip("sentence_transformers.models")
    vocabulary = {word: index for index, word in enumerate(["[UNK]", "the", "cat", "sat"])}
    tokenizer = Tokenizer(WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = WhitespaceSplit()
    vectors = np.random.default_rng(1).standard_normal((4, 6)).astype(np.float32)
    module = modules.StaticEmbedding(tokenizer, embedding_weights=vectors)
    library.SentenceTransformer(modules=[module], device="cpu").save(str(tmp_path))
    encoder = SbertEncoder(tmp_path, device="cpu", name="tiny")
    embeddings = encoder.encode(["the cat", "sat"])
    expected = unit_rows(np.array([vectors[[1, 2]].mean(axis=0), vectors[3]]))
    np.testing.assert_allclose(embeddings, expected, atol=1e-6)
    assert encoder.encode([]).shape == (0, encoder.dimension) == (0, 6)
    assert encoder.fingerprint == SbertEncoder(tmp_path).fingerprint


def test_known_files_need_no_hashing(minilm_folder: Path, encoder: OnnxEncoder) -> None:
    pinned = {
        "model.onnx": "2f019cf6217537cc4bfc7f5192f21dea1e18445177edaab0bc6163a813e5c7a1",
        "model.onnx_data": "60c758432aa596c30a122942dfe594c457d4d713f890926f1c5f920bd496c8de",
        "tokenizer.json": "07805d116826679de90b4edeb2222269c4b8753bc0981be4399f732b2708e904",
    }
    trusting = OnnxEncoder(minilm_folder, name="minilm", hashes=pinned)
    assert trusting.fingerprint == encoder.fingerprint


PAIRS = [
    ("The committee will publish its report in the spring.",
     "In the spring the committee is going to publish its report."),
    ("Heavy rain closed three roads near the river on Sunday.",
     "On Sunday three roads near the river were shut because of heavy rain."),
    ("She said that nobody had asked her about the letter.",
     "Nobody, she said, had asked her about the letter."),
    ("The company sold its last factory to a rival in 2009.",
     "In 2009 the firm sold its last plant to a competitor."),
    ("Most of the children learned to swim before they could read.",
     "Most children learnt swimming before they were able to read."),
    ("He opened the window because the room was full of smoke.",
     "Since the room was full of smoke, he opened the window."),
]  # fmt: skip


def test_the_robust_encoder_moves_less_when_a_sentence_is_reworded(minilm: Encoder) -> None:
    robust = load_encoder("minilm-robust")
    assert robust.fingerprint != minilm.fingerprint
    moved = {}
    for name, model in (("base", minilm), ("robust", robust)):
        before, after = (model.encode([pair[i] for pair in PAIRS]) for i in range(2))
        flipped = np.arccos(np.clip((before * after).sum(axis=1), -1, 1)) / np.pi
        strangers = np.arccos(np.clip(before[:-1] @ before[-1], -1, 1)) / np.pi
        moved[name] = float(flipped.mean())
        print(f"{name}: {flipped.mean():.3f} of the bits flip; strangers {strangers.mean():.3f}")
        assert abs(strangers.mean() - 0.5) < 0.1
    assert moved["robust"] < 0.7 * moved["base"]
