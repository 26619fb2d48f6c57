"""SIR: tokens biased by the meaning of the preceding text."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.errors import raises_naming

from hammingmark.artifacts.network import TransformNetwork, TransformProvenance, save_transform
from hammingmark.errors import InputError
from hammingmark.keys.config import EncoderId, TokenizerId
from hammingmark.keys.key import Secret, WatermarkKey
from hammingmark.stats.compare import compare
from hammingmark.testing.method_examples import in_contexts, marked, processed
from hammingmark.text.context_tokens import with_contexts
from hammingmark.watermarks.sir import PROJECTION, SIR, SIRConfig, dimensions_of

TOKENIZER = TokenizerId("test", "ab" * 32, 400)
ENCODER = EncoderId("test", "ab" * 32, 48)


def config(**given: Any) -> SIRConfig:
    return SIRConfig(**{"tokenizer": TOKENIZER, "encoder": ENCODER, "network": PROJECTION, **given})


def mark(number: int = 1, **given: Any) -> SIR:
    return SIR(WatermarkKey(Secret(bytes([number] * 32)), config(**given)))


@pytest.mark.parametrize(
    ("given", "datum"),
    [
        ({"delta": 0.0}, "delta"),
        ({"delta": float("nan")}, "delta"),
        ({"delta": 101.0}, "delta"),
        ({"chunk_length": 0}, "chunk"),
        ({"context_chunks": 0}, "context"),
        ({"network": ""}, "network"),
    ],
)
def test_parameters_out_of_range_are_refused(given: dict[str, Any], datum: str) -> None:
    with raises_naming(InputError, datum):
        config(**given)


def test_a_key_knows_its_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    layers = tuple(
        (rng.standard_normal(shape).astype(np.float16).astype(np.float32), np.zeros(shape[0], "f4"))
        for shape in ((8, 48), (8, 8), (300, 8))
    )
    provenance = TransformProvenance(1, "", 0, 1, 0.0, "", "")
    file = tmp_path / "mine.safetensors"
    file.write_bytes(save_transform(TransformNetwork(ENCODER, layers, provenance)))
    parts = {"tokenizer": TOKENIZER, "encoder": ENCODER}
    config = SIRConfig.from_preset("default", **parts, network=str(file))
    monkeypatch.chdir(tmp_path)
    assert SIRConfig.from_preset("default", **parts, network=file.name) == config
    assert config.digest
    assert config.digest[:12] in config.summary
    own = SIR(WatermarkKey(Secret(bytes(32)), config))
    rows = in_contexts(np.arange(9), rng)["context"][2:]
    assert own.condition(rows).shape == (7, 300)
    assert own.like(own.key).condition(rows).tolist() == own.condition(rows).tolist()
    assert not np.array_equal(own.condition(rows), mark().condition(rows))
    changed = replace(provenance, seed=1)
    file.write_bytes(save_transform(TransformNetwork(ENCODER, layers, changed)))
    with raises_naming(InputError, file):
        SIR(WatermarkKey(Secret(bytes(32)), config)).condition(rows)
    with raises_naming(InputError, "'test'", "network=projection"):
        SIRConfig.from_preset("default", **parts)
    assert SIRConfig.from_preset("default", **parts, network=PROJECTION).digest == ""


def test_the_dimensions_of_tokens_are_secret_and_even() -> None:
    """Four standard deviations of a binomial, of the likeliest of 300."""
    large = replace(TOKENIZER, size=60_000)
    one, again, other = (
        dimensions_of(WatermarkKey(Secret(bytes([n] * 32)), config(tokenizer=large)))
        for n in (1, 1, 2)
    )
    np.testing.assert_array_equal(one, again)
    assert (one == other).mean() < 0.02
    counts = np.bincount(one, minlength=300)
    assert len(counts) == 300
    assert np.abs(counts - 200).max() < 5 * np.sqrt(200)
    smaller = dimensions_of(WatermarkKey(Secret(bytes([1] * 32)), config()))
    np.testing.assert_array_equal(smaller, one[:400], err_msg="a token's does not depend on V")


def test_what_gets_a_bonus_counts() -> None:
    """The bias of each token at generation is its score at detection, times delta."""
    own = mark(delta=2.5)
    rows = in_contexts(np.arange(12), np.random.default_rng(1))["context"][[2, 6, 10]]
    logits = np.zeros((3, 400), np.float32)
    actual = processed(own, logits, np.empty((3, 0), np.int64), own.condition(rows))
    for number in range(3):
        text = with_contexts(np.arange(400), rows, np.full(400, number))
        scores = [unit.score for unit in own.read(text).evidence.scores]
        np.testing.assert_allclose(actual[number], 2.5 * np.array(scores))
        assert abs(np.mean(scores)) < 0.5
    none = processed(own, logits, np.empty((3, 0), np.int64))
    assert not none.any(), "before the first chunk is whole nothing is marked"


def test_tokens_on_some_devices_are_told_one_by_one() -> None:
    """With only the likeliest tokens, each text has other tokens."""
    torch = pytest.importorskip("torch")
    from hammingmark.records import DecodingStep

    own = mark()
    conditions = own.condition(
        in_contexts(np.arange(8), np.random.default_rng(1))["context"][[2, 6]]
    )
    tokens = torch.tensor([[3, 9], [9, 4]])
    step = DecodingStep(tokens, torch.empty(2, 0), torch.from_numpy(conditions))
    actual = own.process(torch.zeros(2, 2), step)
    expected = [
        [row[own.dimensions[t]] for t in some] for row, some in zip(conditions, tokens, strict=True)
    ]
    np.testing.assert_array_equal(actual.numpy(), expected)


def test_the_first_chunk_has_no_score() -> None:
    text = in_contexts(np.arange(40), np.random.default_rng(2))
    evidence = mark().read(text).evidence
    assert len(evidence.scores) == 38
    assert evidence.means["similarity"] == pytest.approx(
        np.mean([s.score for s in evidence.scores])
    )
    assert evidence.z["similarity"] == pytest.approx(
        evidence.means["similarity"] * np.sqrt(38), abs=0.5
    ), "all tokens differ, and signs are nearly balanced"


def test_one_token_again_and_again_is_no_evidence() -> None:
    """A key gives a token one dimension: 40 repetitions are one draw in any context."""
    rows = in_contexts(np.arange(3), np.random.default_rng(3))["context"][2:]
    again = with_contexts(np.full(40, 7), rows, np.zeros(40, np.int64))
    p = [compare(mark(n).read(again).test("similarity"), limit=1).p_value for n in range(20)]
    assert min(p) > 0.4
    others = with_contexts(np.arange(40), rows, np.zeros(40, np.int64))
    best = mark().read(others).test("similarity")
    assert best.null.attainable < 1e-9  # type: ignore[attr-defined]


def test_the_right_key_of_many_is_found() -> None:
    master = WatermarkKey(Secret(bytes(32)), config(delta=2.0))
    keys = [master.derive(str(n)) for n in range(150)]
    own = SIR(keys[101])
    rng = np.random.default_rng(4)
    text = marked(own, 80, rng)
    part = np.concatenate([in_contexts(rng.integers(400, size=200), rng), text[20:]])
    ranked = SIR(master).rank(keys, [text, part, text[:2]], statistic="similarity")
    assert ranked[0][0] == 101
    assert 101 in ranked[1]
    assert ranked[2] == [0], "a text without a unit is tested under any"
    assert all(len(each) <= 4 for each in ranked)
