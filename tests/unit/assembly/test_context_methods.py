"""Keys that have a tokenizer and an encoder: made, held against both, and shown."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from random import Random

from tests.command import run_here
from tests.errors import raises_naming

from hammingmark.assembly.detection import detector
from hammingmark.assembly.keys import new_key
from hammingmark.assembly.marking import default_backend, writer
from hammingmark.assembly.methods import describe_method
from hammingmark.detection.detector import Detector
from hammingmark.detection.group import DetectorGroup
from hammingmark.detection.reader import ContextReader
from hammingmark.errors import InputError, KeyMismatch
from hammingmark.keys import keyring
from hammingmark.keys.key import WatermarkKey
from hammingmark.protocols import BackendCapabilities
from hammingmark.testing import FakeBackend, FakeEncoder
from hammingmark.testing.fakes import FakeTokenizer, paragraph


def with_tokenizer(tokenizer: FakeTokenizer | None = None) -> FakeBackend:
    """A model whose logits can be changed."""
    words = tokenizer or FakeTokenizer()
    return FakeBackend(capabilities=BackendCapabilities(load_tokenizer=lambda: words))


def key(**parameters: object) -> WatermarkKey:
    return new_key(
        FakeEncoder(),
        method="sir",
        tokenizer=FakeTokenizer(),
        parameters={"network": "projection", **parameters},
    )


def test_a_key_has_both_parts_and_survives_its_file() -> None:
    made = key(delta=2.0)
    assert made.config.encoder.name == "fake"  # type: ignore[attr-defined]
    assert made.config.tokenizer.name == "fake"  # type: ignore[attr-defined]
    again = keyring.from_json(keyring.to_json(made, with_secret=True))
    assert again == made
    assert default_backend(made) == "fake"
    described = describe_method("sir")
    assert (described.marks, described.embeds) == ("tokens", True)


def test_an_encoder_without_a_network_is_refused() -> None:
    with raises_naming(InputError, "network=projection"):
        new_key(FakeEncoder(), method="sir", tokenizer=FakeTokenizer())


def test_both_parts_are_held_against_the_key() -> None:
    made, text = key(), paragraph(Random(1))
    other, words = FakeEncoder(seed=1), FakeTokenizer(words=("a", "b"))
    with raises_naming(KeyMismatch, made.id, "encoder", other.fingerprint[:12]):
        writer(made, backend=with_tokenizer(), encoder=other)
    with raises_naming(KeyMismatch, made.id, "tokenizer", words.fingerprint[:12]):
        writer(made, backend=with_tokenizer(words), encoder=FakeEncoder())
    with raises_naming(KeyMismatch, made.id, "encoder", other.fingerprint[:12]):
        detector(made, encoder=other, tokenizer=FakeTokenizer())
    with raises_naming(KeyMismatch, made.id, "tokenizer", words.fingerprint[:12]):
        detector(made, encoder=FakeEncoder(), tokenizer=words)
    found = detector(made, encoder=FakeEncoder(), tokenizer=FakeTokenizer())
    assert isinstance(found, Detector)
    assert isinstance(found.reader, ContextReader)
    assert found.judge(text).p_value is not None
    assert writer(made, backend=with_tokenizer(), encoder=FakeEncoder()).write("It.", seed=1)


def test_keys_of_other_parameters_are_searched_apart() -> None:
    made = key()
    other = replace(key(), config=replace(made.config, chunk_length=5))  # type: ignore[call-arg]
    apart = detector([made, other], encoder=FakeEncoder(), tokenizer=FakeTokenizer())
    assert isinstance(apart, DetectorGroup)
    assert apart.keys == 2
    assert apart.judge(paragraph(Random(1))).keys == 2
    with raises_naming(InputError, "'sir'", "edits"):
        detector(made, encoder=FakeEncoder(), tokenizer=FakeTokenizer(), edits=True)
    both = detector([made, key()], encoder=FakeEncoder(), tokenizer=FakeTokenizer())
    assert both.keys == 2


def test_a_key_is_shown_with_both_parts(tmp_path: Path) -> None:
    file = tmp_path / "mine.json"
    file.write_text(json.dumps(keyring.to_json(key(), with_secret=True)))
    file.chmod(0o600)
    shown = run_here("keys", "show", str(file), folder=tmp_path).stdout.decode()
    assert "encoder  fake (64 dimensions" in shown
    assert "tokens   of fake (" in shown
