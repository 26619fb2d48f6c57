"""Keys for tests, of no encoder that exists."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from hammingmark.keys.config import EncoderId
from hammingmark.keys.key import Secret, WatermarkKey
from hammingmark.protocols import FloatArray, SignificanceTest
from hammingmark.watermarks.hamming import HammingConfig, HammingMark


def hamming_key(
    secret: Secret | None = None,
    *,
    dimension: int = 48,
    encoder: str = "test",
    fingerprint: str = "ab" * 32,
    note: str = "",
    created: datetime | None = None,
    **parameters: Any,
) -> WatermarkKey:
    """A key of HammingMark."""
    config = HammingConfig(encoder=EncoderId(encoder, fingerprint, dimension), **parameters)
    given = {"created": created} if created else {}
    return WatermarkKey(secret or Secret.fresh(), config, note, **given)


def ball(preset: str = "default", **parameters: Any) -> HammingConfig:
    """The rule of a preset."""
    return HammingConfig.from_preset(preset, encoder=EncoderId("test", "ab" * 32, 48), **parameters)


def scored(
    mark: HammingMark, values: FloatArray, statistic: str, topic: str = "given"
) -> SignificanceTest:
    """The test of a text's embeddings."""
    text = mark.read(values)
    return text.test_given_topic(statistic) if topic == "given" else text.test(statistic)
