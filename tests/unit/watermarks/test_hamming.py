"""HammingMark's scored texts."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from tests.errors import raises_naming

from hammingmark.detection.reader import edit_hypotheses
from hammingmark.errors import InputError
from hammingmark.keys.config import EncoderId
from hammingmark.keys.key import ReferenceKeys, Secret, WatermarkKey
from hammingmark.watermarks._shared import hashing
from hammingmark.watermarks._shared.hashing import project_in_order
from hammingmark.watermarks.hamming import HammingConfig, HammingMark, increments, scored_text

EXAMPLES = HammingMark.examples(EncoderId("test", "ab" * 32, 32))
every_example = pytest.mark.parametrize("config", EXAMPLES.values(), ids=EXAMPLES)


def mark_of(config: HammingConfig) -> HammingMark:
    return HammingMark(WatermarkKey(Secret(bytes(range(32))), config))


@pytest.mark.parametrize("edits", [False, True])
def test_a_text_is_projected_under_its_own_key_once(
    make: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, edits: bool
) -> None:
    """Given the topic, whose direction is one more row."""
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
        with raises_naming(InputError, "margin", "likelihood"):
            read.test(statistic)
        with raises_naming(InputError, "margin", "likelihood"):
            read.test_given_topic(statistic)


@every_example
def test_a_text_longer_than_a_chunk_equals_its_pieces(
    make: SimpleNamespace, config: HammingConfig
) -> None:
    """Each transition has the score of its two sentences alone.

    The score is computed in one order, and equal. Logarithms and hyperbolic tangents may round
    otherwise at another place of an array: in single precision, by far less than 1e-5.
    """
    mark = mark_of(config)
    text = make.encoder().encode(make.plain(600, seed=1))
    projected = hashing._PRODUCTS // mark.planes.size
    assert len(text) > 2 * max(increments._CHUNK, projected)
    whole = mark.read(text)
    pieces = [mark.read(text[i : i + 2]) for i in range(len(text) - 1)]
    alone = [piece.evidence.scores[0] for piece in pieces]
    assert [unit.score for unit in whole.evidence.scores] == [unit.score for unit in alone]
    assert [unit.valid for unit in whole.evidence.scores] == [unit.valid for unit in alone]
    for statistic in mark.statistics:
        own = [piece.test(statistic).increments for piece in pieces]
        np.testing.assert_allclose(
            whole.test(statistic).increments, np.concatenate(own), atol=1e-5, err_msg=statistic
        )


@every_example
@pytest.mark.parametrize("edits", [False, True])
def test_reference_keys_see_a_text_longer_than_a_chunk_in_one_piece(
    make: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, config: HammingConfig, edits: bool
) -> None:
    """The margin, which does not jump where a product of another shape rounds otherwise."""
    monkeypatch.setattr(ReferenceKeys, "block", 20)
    sentences = make.plain(300, seed=1)
    edits = edit_hypotheses(sentences)
    rows = make.encoder().encode(edits.texts if edits else sentences)

    def chunks() -> list[np.ndarray]:
        mark = mark_of(config)
        read = mark.read_edited(rows, edits) if edits else mark.read(rows)
        tests = (read.test("margin"), read.test_given_topic("margin"))
        return [chunk for test in tests for chunk in next(iter(test.null.blocks()))]

    parts = chunks()
    for module, name in (
        (increments, "_CHUNK"),
        (scored_text, "_CHUNK"),
        (scored_text, "_STEPS"),
    ):
        monkeypatch.setattr(module, name, 10_000)
    monkeypatch.setattr(hashing, "_PRODUCTS", 1 << 30)
    whole = chunks()
    assert (len(parts), len(whole)) == (4, 2)
    np.testing.assert_allclose(np.concatenate(parts), np.concatenate(whole), atol=1e-4)
