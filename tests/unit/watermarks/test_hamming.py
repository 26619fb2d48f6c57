"""HammingMark's scored texts."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from hammingmark.core.hashing import project_in_order
from hammingmark.errors import InputError
from hammingmark.pipeline.edit_hypotheses import edit_hypotheses
from hammingmark.watermarks.hamming import scored_text


@pytest.mark.parametrize("edits", [False, True])
def test_a_text_is_projected_under_its_own_key_once(
    make: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, edits: bool
) -> None:
    """With its topic, whose direction is one row more."""
    rows: list[int] = []

    def counted(embeddings: np.ndarray, planes: np.ndarray) -> np.ndarray:
        rows.append(len(embeddings))
        return project_in_order(embeddings, planes)

    monkeypatch.setattr(scored_text, "project_in_order", counted)
    sentences = make.plain(12, seed=1)
    make.detector(make.watermark(1), edits=edits).judge(make.text(sentences))
    parts = len(edit_hypotheses(sentences).texts) if edits else 12
    assert sorted(rows) == [1, parts]


def test_edits_need_a_likelihood_ratio(make: SimpleNamespace) -> None:
    edits = edit_hypotheses(make.plain(4, seed=1))
    read = make.watermark(1).read_edited(make.encoder().encode(edits.texts), edits)
    for statistic in ("edge_vote", "global_bits", "soft"):
        with pytest.raises(InputError, match="margin or likelihood"):
            read.test(statistic)
        with pytest.raises(InputError, match="margin or likelihood"):
            read.test_given_topic(statistic)
