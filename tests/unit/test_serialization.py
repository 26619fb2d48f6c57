"""Records as plain data: complete, as the schemas say, and the same for whoever writes them."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from typing import Any

import pytest
from tests.schemas import assert_valid

from hammingmark.errors import Failure
from hammingmark.generation.config import GenerationConfig
from hammingmark.generation.generate import Writer
from hammingmark.prompts import as_prompt
from hammingmark.records import (
    Cost,
    DetectionWarning,
    Evidence,
    Generation,
    Passage,
    UnitScore,
    Verdict,
)
from hammingmark.serialization import cost_to_dict, generation_to_dict, verdict_to_dict
from hammingmark.server.detection.schema import Result
from hammingmark.testing import FakeBackend, FakeSplitter

SENTENCES = Verdict(
    watermarked=True,
    p_value=0.00025,
    reason="p = 0.00025 is at most the level 0.01.",
    level=0.01,
    statistic="margin",
    evidence=Evidence(
        unit="transition",
        scores=(
            UnitScore(7.0, True, {"match": 7, "bits": "11111110", "cosine": 0.25}),
            UnitScore(3.0, False, {"match": 3, "bits": "00000111", "cosine": -0.5}),
        ),
        max_score=8.0,
        threshold=6.0,
        means={"edge_vote": 0.5},
        sums={"margin": -0.25},
    ),
    pieces=("First one.", "Second one.", "Third one."),
    key_id="hm-0123456789ab",
    method="hamming",
    null="exact over reference keys",
    references=4000,
    passages=(Passage(begin=0, end=2, p_value=0.004),),
    warnings=(DetectionWarning("language", "It does not look like English."),),
)

TOKENS = replace(
    SENTENCES,
    statistic="green",
    evidence=Evidence(
        unit="token",
        scores=(UnitScore(1.0, True), UnitScore(1.0, True, counted=False), UnitScore(0.0, False)),
        max_score=1.0,
        threshold=1.0,
        means={"green": 0.5},
        z={"green": 1.5},
    ),
    pieces=("The", " old", " mill", " stood"),
    method="kgw",
    null="exact binomial",
    passages=(Passage(1, 4, 0.004),),
    label="2026-11-16",
)

NOTHING = replace(
    SENTENCES,
    watermarked=None,
    p_value=None,
    evidence=Evidence("transition", (), 8.0, 6.0, sums={"margin": 0.0}),
    pieces=("Only one.",),
    key_id=None,
    method=None,
    passages=(),
)


def as_read(data: dict[str, Any]) -> dict[str, Any]:
    """What a reader of its JSON gets: the same."""
    read: dict[str, Any] = json.loads(json.dumps(data, allow_nan=False))
    assert read == data
    return read


@pytest.mark.parametrize("verdict", [SENTENCES, TOKENS, NOTHING], ids=["some", "tokens", "none"])
@pytest.mark.parametrize("pieces", [True, False])
def test_a_verdict_is_as_its_schema_says(verdict: Verdict, pieces: bool) -> None:
    data = as_read(verdict_to_dict(verdict, pieces=pieces))
    assert_valid(data, "verdict-1")
    Result.model_validate(data)
    assert data["statistics"] == verdict.evidence.statistics
    assert data["piece_count"] == len(verdict.pieces)
    assert len(data["pieces"]) == (len(verdict.pieces) if pieces else 0)


def test_the_description_of_the_service_has_the_same_fields() -> None:
    assert list(Result.model_json_schema()["properties"]) == list(verdict_to_dict(SENTENCES))


def test_each_piece_has_its_score() -> None:
    assert verdict_to_dict(SENTENCES)["pieces"][:2] == [
        {
            "text": "First one.",
            "score": None,
            "valid": None,
            "counted": False,
            "details": {},
            "in_passage": True,
        },
        {
            "text": "Second one.",
            "score": 7.0,
            "valid": True,
            "counted": True,
            "details": {"match": 7, "bits": "11111110", "cosine": 0.25},
            "in_passage": True,
        },
    ]
    assert [piece["counted"] for piece in verdict_to_dict(TOKENS)["pieces"]] == [
        False, True, False, True,
    ]  # fmt: skip


def test_a_passage_of_tokens_has_a_place_in_the_text() -> None:
    [passage] = verdict_to_dict(TOKENS)["passages"]
    text = "".join(TOKENS.pieces)
    place = slice(passage["begin_character"], passage["end_character"])
    assert text[place] == " old mill stood"
    [passage] = verdict_to_dict(SENTENCES)["passages"]
    assert (passage["begin_character"], passage["end_character"]) == (None, None)


def test_every_edge_is_uncertain() -> None:
    def margins(verdict: Verdict) -> list[tuple[int, bool]]:
        passages = verdict_to_dict(verdict)["passages"]
        return [(passage["edge_margin"], passage["rough"]) for passage in passages]

    part = Passage(0, len(SENTENCES.pieces) - 1, 0.004)
    whole = Passage(0, len(SENTENCES.pieces), 0.004)
    rough = replace(part, rough=True)
    judged = replace(SENTENCES, passages=(part, whole, rough))
    assert margins(judged) == [(3, False), (3, False), (2, True)]
    assert margins(TOKENS) == [(20, False)]
    assert_valid(as_read(verdict_to_dict(judged)), "verdict-1")


def test_a_text_is_called_short_only_if_that_is_why_nothing_is_said() -> None:
    nothing = replace(SENTENCES, watermarked=None, passages=(), attainable=0.001)
    short = verdict_to_dict(replace(nothing, power_as_written=0.2))
    unknown = verdict_to_dict(nothing)
    assert "short" in short["verdict"]
    assert "short" not in unknown["verdict"]


def test_a_p_value_that_is_not_exact_is_called_so() -> None:
    keyless = replace(SENTENCES, exact=False)
    assert [verdict_to_dict(each)["exact"] for each in (SENTENCES, keyless)] == [True, False]


def test_the_cost_is_told_whole() -> None:
    """Each field has a name of its own, and nothing is left out but what is derived."""
    numbers = {field.name: number for number, field in enumerate(fields(Cost), start=1)}
    data = as_read(cost_to_dict(Cost(**numbers)))
    rate = data.pop("acceptance_rate")
    assert rate == numbers["passed"] / numbers["tried"]
    assert sorted(data.values()) == sorted(numbers.values())
    assert cost_to_dict(Cost())["acceptance_rate"] is None


def test_a_generation_is_as_its_schema_says() -> None:
    config = GenerationConfig(max_tokens=40)
    written = Writer(FakeBackend(), FakeSplitter(), None, None, config).write(
        as_prompt("Go."), seed=1
    )
    assert isinstance(written, Generation)
    failure = Failure("unavailable", "The model is gone.", status=503, retry_after=2.0)
    failed = replace(written, failure=failure, stopped="error")
    for generation in (written, failed):
        data = as_read(generation_to_dict(generation))
        assert_valid(data, "generation-1")
        assert data["text"] == generation.text
        assert data["error"] == generation.error
        assert (data["failure"] is None) is (generation is written)
        assert data["sentences"] == len(generation.sentences)
        assert data["cost"] == cost_to_dict(generation.cost)
        assert "".join(step["text"] for step in data["steps"]) == generation.text
        assert data["candidates_per_sentence"] is None
    assert generation_to_dict(failed)["failure"] == {
        "kind": "unavailable", "origin": "model", "status": 503, "retry_after": 2.0,
    }  # fmt: skip


def test_a_text_that_is_shorter_than_a_calibration_has_no_threshold_in_json() -> None:
    data = verdict_to_dict(replace(SENTENCES, watermarked=False, threshold=float("inf")))
    assert data["decision_threshold"] is None
    assert_valid(json.loads(json.dumps(data, allow_nan=False)), "verdict-1")
