"""Checking components against keys."""

from __future__ import annotations

import pytest
from tests.errors import raises_naming
from tests.keys import hamming_key

from hammingmark.assembly.backends import load_tokenizer
from hammingmark.assembly.detection import detector
from hammingmark.assembly.keys import method_of, new_key, require_part, splitter_of
from hammingmark.assembly.marking import writer
from hammingmark.errors import InputError, KeyMismatch, UnknownName
from hammingmark.testing import FakeBackend, FakeEncoder
from hammingmark.watermarks.bilinear import BilinearMark


def test_a_key_remembers_its_splitter_and_its_language() -> None:
    key = new_key(FakeEncoder(), splitter="punkt", language="de")
    assert splitter_of(key).name == "punkt"
    assert splitter_of(key, name="punkt", language="de").name == "punkt"
    for other in ({"name": "sentencex"}, {"language": "en"}):
        with raises_naming(KeyMismatch, key.id, "'de'", "'punkt'"):
            splitter_of(key, **other)
    with pytest.raises(UnknownName) as caught:
        splitter_of(key, name="punk")
    assert (caught.value.name, caught.value.suggestion) == ("punk", "punkt")


def test_a_key_from_before_that_goes_with_any() -> None:
    key = hamming_key()
    assert splitter_of(key).name == "sentencex"
    assert splitter_of(key, name="punkt", language="de").name == "punkt"
    assert splitter_of(None, language="fr").name == "sentencex"


def test_a_key_is_not_made_for_a_splitter_that_there_is_not() -> None:
    with pytest.raises(UnknownName) as caught:
        new_key(FakeEncoder(), splitter="punk")
    assert caught.value.name == "punk"
    with raises_naming(InputError, "'xx'"):
        new_key(FakeEncoder(), language="xx")


def test_another_encoder_is_refused_by_everything_that_takes_a_key() -> None:
    key, other = new_key(FakeEncoder(seed=1)), FakeEncoder(seed=2)
    for use in (
        lambda: require_part(key, "encoder", other),
        lambda: detector(key, encoder=other),
        lambda: writer(key, encoder=other, backend=FakeBackend()),
    ):
        with raises_naming(
            KeyMismatch, key.id, key.config.encoder.fingerprint[:12], other.fingerprint[:12]
        ):
            use()


def test_a_retired_key_and_what_is_derived_from_it_no_longer_mark() -> None:
    retired, fresh = new_key(FakeEncoder()).rotate()
    for key in (retired, retired.derive("2026-11-16")):
        with raises_naming(KeyMismatch, retired.id, fresh.id):
            writer(key, encoder=FakeEncoder(), backend=FakeBackend())
    assert writer(fresh.derive("a"), encoder=FakeEncoder(), backend=FakeBackend())


def test_parameters_of_a_method_are_checked() -> None:
    key = new_key(FakeEncoder(), preset="paper", bits="16")
    assert (key.config.bits, key.config.threshold) == (16, 12)  # type: ignore[attr-defined]
    assert new_key(FakeEncoder(), bits=None).config == new_key(FakeEncoder()).config
    with raises_naming(InputError, "'bit'", "rank"):
        new_key(FakeEncoder(), bit=8)
    with pytest.raises(UnknownName) as caught:
        new_key(FakeEncoder(), method="hammin")
    assert caught.value.suggestion == "hamming"


def test_a_model_without_a_tokenizer_is_refused_by_name() -> None:
    with raises_naming(InputError, "'smollm2'"):
        load_tokenizer("smollm2")


def test_a_parameter_may_be_called_like_an_argument_and_is_refused_in_words() -> None:
    for name in ("preset", "encoder", "method", "note"):
        with raises_naming(InputError, f"'{name}'"):
            new_key(FakeEncoder(), parameters={name: "x"})


def test_a_method_that_does_not_declare_its_capabilities_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Undeclared(BilinearMark):
        capabilities = None  # type: ignore[assignment]

    created = new_key(FakeEncoder())
    monkeypatch.setattr("hammingmark.watermarks.bilinear.BilinearMark", Undeclared)
    with pytest.raises(InputError):
        method_of(created)
