"""A forger learns from exact scores in one request, and nothing from what strangers are told."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from research.studies.detector_forger import Questions, climber, reader

from hammingmark.assembly.detection import detector
from hammingmark.detection.detector import Detector
from hammingmark.keys.config import EncoderId
from hammingmark.keys.key import Secret, WatermarkKey
from hammingmark.server.detection.disclosure import Detail
from hammingmark.testing import FakeEncoder, FakeSplitter
from hammingmark.testing.fakes import sentence
from hammingmark.watermarks.bilinear import BilinearConfig

SENTENCES = [sentence(Random(number)) for number in range(30)]
# All pairs of so many take 36 texts. Near-copies are known by salted hashes, so by chance; with 9
# texts, which all pairs of 30 take, no more than five may seem alike.
MANY = [sentence(Random(number)) for number in range(60)]
ENCODER = FakeEncoder()


def questions(detail: Detail, *, near_copies: bool) -> Questions:
    key = WatermarkKey(Secret(bytes(range(32))), BilinearConfig(encoder=EncoderId.of(ENCODER)))
    judge = detector(key, encoder=ENCODER, splitter=FakeSplitter())
    assert isinstance(judge, Detector)
    return Questions(judge, detail, near_copies=near_copies, level=0.01)


def test_scores_of_one_request_forge_a_text() -> None:
    asked = questions("scores", near_copies=False)
    forgery = reader(asked, SENTENCES, 1000, np.random.default_rng(1))
    assert forgery is not None
    assert asked.requests == 1
    chain = SENTENCES[:10]
    assert asked.true(forgery) < 1e-3 < asked.true(chain)


@pytest.mark.parametrize(
    ("detail", "near_copies"), [("scores", True), ("p_value", False), ("verdict", False)]
)
def test_a_policy_keeps_scores_from_strangers(detail: Detail, near_copies: bool) -> None:
    asked = questions(detail, near_copies=near_copies)
    assert reader(asked, MANY, 1000, np.random.default_rng(1)) is None
    assert (asked.refused > 0) == near_copies


def test_small_changes_of_one_text_are_refused() -> None:
    free = questions("p_value", near_copies=False)
    watched = questions("p_value", near_copies=True)
    forgeries = [
        climber(asked, SENTENCES, 50, np.random.default_rng(1)) for asked in (free, watched)
    ]
    assert free.refused == 0
    assert watched.refused > 3
    assert all(forgeries)
