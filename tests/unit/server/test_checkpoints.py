"""Detectors with checkpoints between slices of their work."""

from __future__ import annotations

from random import Random

import pytest

from hammingmark.assembly.detection import detector
from hammingmark.assembly.keys import new_key
from hammingmark.detection.detector import Detector
from hammingmark.detection.group import DetectorGroup
from hammingmark.server.detection.checkpoints import with_checkpoints
from hammingmark.server.detection.queue import DetectionCancelled
from hammingmark.testing import FakeEncoder, FakeTokenizer
from hammingmark.testing.fakes import paragraph

ENCODER = FakeEncoder()
TEXT = " ".join(paragraph(Random(number)) for number in range(2))


def detectors() -> dict[str, Detector | DetectorGroup]:
    """One by a null that is drawn, one by a null that is computed, of many keys, of all kinds."""
    hamming, bilinear = (new_key(ENCODER, method=each) for each in ("hamming", "bilinear"))
    kgw, synthid = (
        new_key(ENCODER, method=each, tokenizer=FakeTokenizer()) for each in ("kgw", "synthid")
    )
    labels = [f"{number}" for number in range(40)]
    return {
        "drawn": detector(hamming, encoder=ENCODER),
        "edits": detector(bilinear, encoder=ENCODER, edits=True),
        "tokens": detector(kgw, tokenizer=FakeTokenizer()),
        "labels": detector([bilinear.derive(each) for each in labels], encoder=ENCODER),
        "labels of tokens": detector(
            [synthid.derive(each) for each in labels], tokenizer=FakeTokenizer()
        ),
        "all": detector([hamming, bilinear], encoders=lambda name: ENCODER),
    }


@pytest.mark.parametrize("kind", detectors())
def test_the_verdict_is_the_same_and_the_work_can_be_given_up(kind: str) -> None:
    made = detectors()[kind]
    calls = 0

    def checkpoint() -> None:
        nonlocal calls
        calls += 1
        if calls == last:
            raise DetectionCancelled

    last = 0
    assert with_checkpoints(made, checkpoint).judge(TEXT) == made.judge(TEXT)
    assert calls > (40 if "labels" in kind else 1)
    calls, last = 0, calls
    with pytest.raises(DetectionCancelled):
        with_checkpoints(made, checkpoint).judge(TEXT)
