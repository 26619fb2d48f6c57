"""PMark on the embedded models: generated and detected, without and with the model."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.conftest import assert_counted

from hammingmark.assembly.detection import detector
from hammingmark.assembly.marking import writer
from hammingmark.generation.generate import GenerationConfig
from hammingmark.keys.config import EncoderId
from hammingmark.keys.key import Secret, WatermarkKey
from hammingmark.protocols import Backend, Encoder, Splitter
from hammingmark.records import Generation
from hammingmark.watermarks.pmark_offline import PMarkOfflineConfig
from hammingmark.watermarks.pmark_online import PMarkOnlineConfig

pytestmark = pytest.mark.slow

PROMPT = "The museum opened its doors in May. Its first visitors came by boat."


def written(key: WatermarkKey, backend: Backend, encoder: Encoder, sentences: int) -> Generation:
    config = GenerationConfig(max_tokens=400, max_sentences=sentences)
    return writer(key, backend=backend, encoder=encoder, config=config).write(PROMPT, seed=3)


def p_values(text: Generation, right: WatermarkKey, **parts: Any) -> tuple[float, float]:
    """Under its key and under a wrong one; what is drawn again is drawn once for both."""
    keys = (right, replace(right, secret=Secret(bytes(32))))
    made = [detector(key, **parts) for key in keys]
    (read,) = made[0].reader.batches([text.text])
    (own,), (wrong,) = ([each.p_value for each in judge.judge_read(read)] for judge in made)
    print(f"{len(text.sentences)} sentences, p = {own}, under a wrong key {wrong}")
    assert own is not None
    assert wrong is not None
    return own, wrong


def test_offline(backend: Backend, encoder: Encoder, splitter: Splitter) -> None:
    config = PMarkOfflineConfig(encoder=EncoderId.of(encoder), b=2, N=8)
    key = WatermarkKey(Secret(bytes(range(32))), config)
    text = written(key, backend, encoder, 8)
    assert_counted(text, key, encoder=encoder, splitter=splitter)
    own, wrong = p_values(text, key, encoder=encoder)
    # Twelve of sixteen signs, which chance gives once in 26 times; nineteen in twenty are right, so
    # that another machine's text has fewer once in a thousand times.
    assert own <= 0.05
    assert wrong > 0.001


def test_online(backend: Backend, encoder: Encoder) -> None:
    """Medians of eight are rough, and the prompt is not known: not every channel is right, and a
    text that rounds otherwise may have a few fewer. Where this was written p was 0.0012."""
    config = PMarkOnlineConfig(encoder=EncoderId.of(encoder), b=2, N=8)
    key = WatermarkKey(Secret(bytes(range(32))), config)
    text = written(key, backend, encoder, 9)
    own, wrong = p_values(text, key, encoder=encoder, backend=backend)
    assert own <= 0.3
    assert wrong > 0.001
