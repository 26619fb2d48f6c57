"""Marked text through transformers, from the same weights as llama.cpp uses."""

from __future__ import annotations

import pytest
from tests.conftest import assert_counted

from hammingmark.assemble import load_backend, writer
from hammingmark.keys import WatermarkKey
from hammingmark.pipeline.generate import Settings
from hammingmark.protocols import Encoder, Splitter
from hammingmark.records import Prompt

pytest.importorskip("torch")
pytest.importorskip("gguf")
pytestmark = pytest.mark.slow

PROMPT = Prompt("The old bridge was closed in spring. Engineers had found cracks in it.")


def test_what_generation_accepts_detection_counts(
    encoder: Encoder, splitter: Splitter, marking_key: WatermarkKey
) -> None:
    """With candidates drawn ahead, side by side."""
    backend = load_backend("transformers:smollm2", width=2)
    settings = Settings(max_tokens=120, max_sentences=3)
    made = writer(marking_key, backend=backend, encoder=encoder, settings=settings)
    draft = made.write(PROMPT, seed=1)
    assert draft.stopped in {"tokens", "end", "sentences"}
    assert draft.steps[0].score is not None  # of the first sentence after the prompt
    assert_counted(draft, marking_key, encoder=encoder, splitter=splitter)
