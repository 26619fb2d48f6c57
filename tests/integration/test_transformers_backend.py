"""Marked text through transformers, from the same weights as llama.cpp uses."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hammingmark.assemble import load_backend, writer
from hammingmark.keys import WatermarkKey
from hammingmark.pipeline.generate import Settings
from hammingmark.protocols import Backend, Encoder, Splitter
from hammingmark.records import Prompt
from hammingmark.watermarks.sentence.hamming import HammingMark

pytest.importorskip("torch")
pytest.importorskip("gguf")
pytestmark = pytest.mark.slow

PROMPT = Prompt("The old bridge was closed in spring. Engineers had found cracks in it.")


@pytest.fixture(scope="module")
def backend() -> Backend:
    return load_backend("transformers:smollm2")


@pytest.mark.parametrize("softness", [0.0, 1.0])
def test_what_generation_accepts_detection_counts(
    backend: Backend,
    encoder: Encoder,
    splitter: Splitter,
    marking_key: WatermarkKey,
    softness: float,
) -> None:
    key = replace(marking_key, softness=softness, threshold=4.2 if softness else 5)
    made = writer(key, backend=backend, encoder=encoder, settings=Settings(max_tokens=100))
    draft = made.write(PROMPT, seed=1)
    assert draft.stopped in {"tokens", "end"}
    sentences = splitter.split(draft.text).carrying
    assert tuple(sentences) == draft.sentences
    assert len(sentences) >= 2
    evidence = HammingMark(key).evidence(encoder.encode(sentences))
    asked = [step for step in draft.steps if step.sentence][1:]
    assert [step.accepted for step in asked] == [each.valid for each in evidence.transitions]


def test_drawing_ahead_changes_nothing(
    encoder: Encoder, marking_key: WatermarkKey, backend: Backend
) -> None:
    texts = []
    for width in (1, 3):
        wide = replace_width(backend, width)
        made = writer(marking_key, backend=wide, encoder=encoder, settings=Settings(max_tokens=40))
        texts.append(made.write(PROMPT, seed=2).text)
    assert texts[0] == texts[1] != ""


def replace_width(backend: Backend, width: int) -> Backend:
    """The same loaded model with another width."""
    backend.width = width  # type: ignore[misc]
    return backend
