"""Methods for comparison on the embedded models: generated and detected."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hammingmark.artifacts.profile import shipped_profile
from hammingmark.assembly.detection import detector
from hammingmark.assembly.keys import method_of, new_key
from hammingmark.assembly.marking import writer
from hammingmark.generation.generate import GenerationConfig
from hammingmark.keys.config import EncoderId
from hammingmark.keys.key import Secret
from hammingmark.protocols import Backend, Encoder, Splitter
from hammingmark.records import Prompt
from hammingmark.testing.method_examples import sentence_mark

pytestmark = pytest.mark.slow

PROMPT = Prompt("The old bridge was closed in spring. Engineers had found cracks in it.")


def test_the_shipped_profile_is_of_the_default_encoder(encoder: Encoder) -> None:
    profile = shipped_profile(EncoderId.of(encoder))
    assert profile is not None
    assert profile.centres.shape == (8, encoder.dimension)
    assert profile.components.shape == (16, encoder.dimension)
    np.testing.assert_allclose(profile.components @ profile.components.T, np.eye(16), atol=5e-3)
    assert (np.diff(profile.cosines) >= 0).all()
    assert len(profile.cosines) == len(profile.distances) == 4096
    assert profile.name == encoder.name


# Of three seeds K-SemStamp, SimMark and continuous had p-values up to 0.022, 2e-4 and 4e-6:
# K-SemStamp's few transitions cannot prove more.
@pytest.mark.parametrize(
    ("method", "parameters", "most"),
    [
        ("semstamp", {"N_max": 24}, 0.05),
        ("k-semstamp", {"N_max": 24}, 0.1),
        ("random-code", {"codes": 64}, 0.05),
        ("simmark", {"acceptance": 0.25}, 0.01),
        ("continuous", {"acceptance": 0.25}, 0.01),
    ],
)
def test_what_is_marked_is_found(
    backend: Backend,
    encoder: Encoder,
    splitter: Splitter,
    method: str,
    parameters: dict[str, object],
    most: float,
) -> None:
    fresh = new_key(encoder, method=method, parameters=parameters)
    key = replace(fresh, secret=Secret(bytes(range(1, 33))))
    made = writer(key, backend=backend, encoder=encoder, config=GenerationConfig(max_tokens=200))
    generation = made.write(PROMPT, seed=5)
    sentences = splitter.split(generation.text).carrying
    assert tuple(sentences) == generation.sentences
    mark = sentence_mark(method_of(key))
    evidence = mark.read(encoder.encode(sentences)).evidence
    first = 0 if mark.judges_beginnings else 1
    accepted = [step.accepted for step in generation.steps if step.sentence][first:]
    # Embedded in other company, the last digits differ, and with them a sentence on an edge; a
    # margin keeps from it.
    pairs = list(zip(accepted, evidence.scores, strict=True))
    lost = sum(bool(step) and not unit.valid for step, unit in pairs)
    assert lost <= (0 if "semstamp" in method else 1)
    verdict = detector(key, encoder=encoder).judge(generation.text)
    print(f"{sum(map(bool, accepted))} of {len(pairs)} accepted: {verdict.reason}")
    assert verdict.p_value is not None
    assert verdict.p_value <= most
    assert ("no secret" in verdict.reason) is (method in ("simmark", "continuous"))
