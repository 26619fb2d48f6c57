"""PMark on the embedded models: written and found, without the model at detection and with it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.conftest import assert_counted

from hammingmark.assembly.detection import detector
from hammingmark.assembly.marking import writer
from hammingmark.keys import Secret, WatermarkKey
from hammingmark.method_config import EncoderId
from hammingmark.pipeline.generate import GenerationConfig
from hammingmark.protocols import Backend, Encoder, Splitter
from hammingmark.records import Generation
from hammingmark.watermarks.pmark_offline import PMarkOfflineConfig
from hammingmark.watermarks.pmark_online import PMarkOnlineConfig

pytestmark = pytest.mark.slow

PROMPTS = [
    "The museum opened its doors in May. Its first visitors came by boat.",
    "The old bridge was closed in spring. Engineers had found cracks in it.",
]


def written(key: WatermarkKey, backend: Backend, encoder: Encoder) -> list[Generation]:
    config = GenerationConfig(max_tokens=400, max_sentences=10)
    return writer(key, backend=backend, encoder=encoder, config=config).write_many(PROMPTS, seed=3)


def bits(key: WatermarkKey, texts: list[Generation], **parts: object) -> float:
    """The evidence of all texts together."""
    judge = detector(key, **parts)  # type: ignore[arg-type]
    found = [verdict.p_value for verdict in judge.judge_many(text.text for text in texts)]
    print(found)
    return float(-np.log2(np.array(found)).sum())


def test_offline(backend: Backend, encoder: Encoder, splitter: Splitter) -> None:
    config = PMarkOfflineConfig(encoder=EncoderId.of(encoder), b=2, N=8)
    key = WatermarkKey(Secret(bytes(range(32))), config)
    texts = written(key, backend, encoder)
    for text in texts:
        assert_counted(text, key, encoder=encoder, splitter=splitter)
    wrong = replace(key, secret=Secret(bytes(32)))
    assert bits(key, texts, encoder=encoder) > 10
    assert bits(wrong, texts, encoder=encoder) < 10


def test_online(backend: Backend, encoder: Encoder) -> None:
    config = PMarkOnlineConfig(encoder=EncoderId.of(encoder), b=2, N=8)
    key = WatermarkKey(Secret(bytes(range(32))), config)
    texts = written(key, backend, encoder)
    wrong = replace(key, secret=Secret(bytes(32)))
    assert bits(key, texts, encoder=encoder, backend=backend) > 10
    assert bits(wrong, texts, encoder=encoder, backend=backend) < 10
