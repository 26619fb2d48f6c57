"""What many tests share: real models, real texts, and texts written once for all tests."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from hammingmark.keys import Secret, WatermarkKey
from hammingmark.protocols import Encoder, Splitter
from hammingmark.records import Draft, Prompt

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture(scope="session")
def minilm_folder() -> Path:
    """The base encoder's files, fetched once; for tests marked slow."""
    from hammingmark.assemble import model_store

    return model_store().ensure("minilm")


@pytest.fixture(scope="session")
def minilm(minilm_folder: Path) -> Encoder:
    """The base encoder."""
    from hammingmark.assemble import load_encoder

    return load_encoder("minilm")


@pytest.fixture(scope="session")
def encoder() -> Encoder:
    """The default encoder."""
    from hammingmark.assemble import load_encoder

    return load_encoder()


@pytest.fixture(scope="session")
def splitter() -> Splitter:
    """The default splitter."""
    from hammingmark.assemble import load_splitter

    return load_splitter()


@pytest.fixture(scope="session")
def articles() -> list[str]:
    """Human text: about a hundred encyclopedia articles of the model store."""
    from hammingmark.assemble import model_store

    (file,) = model_store().ensure("wiki100").glob("*.jsonl")
    return [json.loads(line)["text"] for line in file.read_text("utf-8").splitlines()]


def shared_texts(name: str) -> list[str]:
    """Human texts of a benchmark corpus that lies beside the checkout, or a skip."""
    file = SHARED / f"{name}.jsonl"
    if not file.is_file():
        pytest.skip(f"the corpus {name} does not lie beside this checkout")
    return [json.loads(line)["text"] for line in file.read_text("utf-8").splitlines()]


def passages(
    texts: list[str], splitter: Splitter, *, length: int = 10, each: int = 2, most: int = 200
) -> list[list[str]]:
    """Runs of ``length`` sentences, a few of each text, spread over it."""
    found: list[list[str]] = []
    for text in texts:
        sentences = splitter.split(text).carrying
        starts = range(0, max(1, len(sentences) - length + 1), max(length, len(sentences) // each))
        found += [sentences[i : i + length] for i in list(starts)[:each]]
    return [run for run in found if len(run) >= min(4, length)][:most]


def embed(runs: list[list[str]], encoder: Encoder) -> list[np.ndarray]:
    """Embeddings of each run of sentences: (n, d) each."""
    flat = encoder.encode([sentence for run in runs for sentence in run])
    ends = np.cumsum([len(run) for run in runs])
    return [flat[end - len(run) : end] for run, end in zip(runs, ends, strict=True)]


@pytest.fixture(scope="session")
def marking_key(encoder: Encoder) -> WatermarkKey:
    """A fixed key of the default kind, so that the tests' texts are always the same."""
    from hammingmark.assemble import new_key

    return replace(new_key(encoder), secret=Secret(bytes(range(1, 33))))


@dataclass(frozen=True)
class Texts:
    """Texts written by the embedded model for the same prompts."""

    prompts: list[Prompt]
    marked: list[Draft]
    plain: list[Draft]


@pytest.fixture(scope="session")
def texts(
    articles: list[str], encoder: Encoder, splitter: Splitter, marking_key: WatermarkKey
) -> Texts:
    """Thirty marked and thirty plain texts of the embedded model; takes some minutes."""
    from hammingmark.assemble import load_backend, writer

    prompts = [Prompt(" ".join(run)) for run in openings(articles, splitter)][:30]
    assert len(prompts) == 30
    backend = load_backend("smollm2")
    marked, plain = (
        writer(key, backend=backend, encoder=encoder, splitter=splitter).write_many(prompts, seed=7)
        for key in (marking_key, None)
    )
    return Texts(prompts, marked, plain)


def openings(articles: list[str], splitter: Splitter) -> list[list[str]]:
    """The first two sentences of each article that has them."""
    return [
        sentences[:2]
        for sentences in (splitter.split(article).carrying for article in articles)
        if len(sentences) >= 20 and all(len(each) > 40 for each in sentences[:2])
    ]
