"""Frozen data classes that modules exchange; their properties are derived from the fields.

The letters are fixed here: n sentences, d dimensions, m bits, T bits required, K reference keys.
"""

from __future__ import annotations

from hammingmark.records.evidence import (
    TOPICS,
    Choice,
    Evidence,
    TopicName,
    UnitScore,
)
from hammingmark.records.generation import (
    Cost,
    Generation,
    GenerationStep,
)
from hammingmark.records.model import (
    Candidate,
    DecodingStep,
    Message,
    ModelUsage,
    Prompt,
    Reasoning,
    ReasoningPart,
    Request,
    Sampling,
    ToolCalls,
)
from hammingmark.records.screening import (
    Correction,
    CorrectionName,
    Screening,
)
from hammingmark.records.text import (
    Attacked,
    EditHypotheses,
    Sentences,
    Unit,
)
from hammingmark.records.verdict import (
    DetectionWarning,
    ExcludedKey,
    ExclusionReason,
    Passage,
    Power,
    Verdict,
)

__all__ = [
    "TOPICS",
    "Attacked",
    "Candidate",
    "Choice",
    "Correction",
    "CorrectionName",
    "Cost",
    "DecodingStep",
    "DetectionWarning",
    "EditHypotheses",
    "Evidence",
    "ExcludedKey",
    "ExclusionReason",
    "Generation",
    "GenerationStep",
    "Message",
    "ModelUsage",
    "Passage",
    "Power",
    "Prompt",
    "Reasoning",
    "ReasoningPart",
    "Request",
    "Sampling",
    "Screening",
    "Sentences",
    "ToolCalls",
    "TopicName",
    "Unit",
    "UnitScore",
    "Verdict",
]
