"""Keys with a tokenizer and an encoder: creating, checking and showing them."""

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
    other_tokenizer = tokenizer or FakeTokenizer()
    return FakeBackend(capabilities=BackendCapabilities(load_tokenizer=lambda: other_tokenizer))


def key(**parameters: object) -> WatermarkKey:
    return new_key(
        FakeEncoder(),
        method="sir",
        tokenizer=FakeTokenizer(),
        parameters={"network": "projection", **parameters},
    )


def test_a_key_has_both_parts_and_survives_its_file() -> None:
    marking_key = key(delta=2.0)
    assert marking_key.config.encoder.name == "fake"  # type: ignore[attr-defined]
    assert marking_key.config.tokenizer.name == "fake"  # type: ignore[attr-defined]
    again = keyring.from_json(keyring.to_json(marking_key, with_secret=True))
    assert again == marking_key
    assert default_backend(marking_key) == "fake"
    described = describe_method("sir")
    assert (described.marks, described.embeds) == ("tokens", True)


def test_an_encoder_without_a_network_is_refused() -> None:
    with raises_naming(InputError, "network=projection"):
        new_key(FakeEncoder(), method="sir", tokenizer=FakeTokenizer())


def test_both_parts_are_held_against_the_key() -> None:
    marking_key, text = key(), paragraph(Random(1))
    other, other_tokenizer = FakeEncoder(seed=1), FakeTokenizer(words=("a", "b"))
    with raises_naming(KeyMismatch, marking_key.id, "encoder", other.fingerprint[:12]):
        writer(marking_key, backend=with_tokenizer(), encoder=other)
    with raises_naming(KeyMismatch, marking_key.id, "tokenizer", other_tokenizer.fingerprint[:12]):
        writer(marking_key, backend=with_tokenizer(other_tokenizer), encoder=FakeEncoder())
    with raises_naming(KeyMismatch, marking_key.id, "encoder", other.fingerprint[:12]):
        detector(marking_key, encoder=other, tokenizer=FakeTokenizer())
    with raises_naming(KeyMismatch, marking_key.id, "tokenizer", other_tokenizer.fingerprint[:12]):
        detector(marking_key, encoder=FakeEncoder(), tokenizer=other_tokenizer)
    text_detector = detector(marking_key, encoder=FakeEncoder(), tokenizer=FakeTokenizer())
    assert isinstance(text_detector, Detector)
    assert isinstance(text_detector.reader, ContextReader)
    assert text_detector.judge(text).p_value is not None
    assert writer(marking_key, backend=with_tokenizer(), encoder=FakeEncoder()).write("It.", seed=1)


def test_keys_of_other_parameters_are_searched_apart() -> None:
    marking_key = key()
    other = replace(key(), config=replace(marking_key.config, chunk_length=5))  # type: ignore[call-arg]
    apart = detector([marking_key, other], encoder=FakeEncoder(), tokenizer=FakeTokenizer())
    assert isinstance(apart, DetectorGroup)
    assert apart.keys == 2
    assert apart.judge(paragraph(Random(1))).keys == 2
    with raises_naming(InputError, "'sir'", "edits"):
        detector(marking_key, encoder=FakeEncoder(), tokenizer=FakeTokenizer(), edits=True)
    both = detector([marking_key, key()], encoder=FakeEncoder(), tokenizer=FakeTokenizer())
    assert both.keys == 2


def test_a_key_is_shown_with_both_parts(tmp_path: Path) -> None:
    file = tmp_path / "mine.json"
    file.write_text(json.dumps(keyring.to_json(key(), with_secret=True)))
    file.chmod(0o600)
    description = run_here("keys", "show", str(file), folder=tmp_path).stdout.decode()
    assert "encoder  fake (64 dimensions" in description
    assert "tokens   of fake (" in description
