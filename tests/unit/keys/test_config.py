"""Configurations of methods: typed, stored, and refused when something is unknown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import pytest
from tests.errors import raises_naming

from hammingmark.errors import InputError
from hammingmark.keys import config as method_config
from hammingmark.keys.config import (
    EncoderId,
    SentenceConfig,
    SplitterId,
    TokenConfig,
    TokenizerId,
    parameters_of_config,
)

ENCODER = EncoderId("minilm", "ab" * 32, 384)


@dataclass(frozen=True, kw_only=True)
class Everything(SentenceConfig):
    method: ClassVar[str] = "everything"
    rate: float
    count: int = 3
    switch: bool = False
    kind: Literal["soft", "hard"] = "soft"
    word: str = "x"


@dataclass(frozen=True, kw_only=True)
class Tokens(TokenConfig):
    method: ClassVar[str] = "tokens"
    delta: float = 2.0


def stored(**parameters: object) -> dict[str, object]:
    data = method_config.to_json(Everything(encoder=ENCODER, rate=0.5))
    return {**data, "parameters": {**data["parameters"], **parameters}}


@pytest.mark.parametrize(
    "config",
    [
        Everything(encoder=ENCODER, rate=0.5),
        Everything(
            encoder=ENCODER, splitter=SplitterId("punkt", "de"), rate=1, count=9, kind="hard"
        ),
        Tokens(tokenizer=TokenizerId("transformers:x", "cd" * 32, 100), delta=1.5),
    ],
)
def test_a_configuration_comes_back(config: method_config.MethodConfig) -> None:
    assert method_config.from_json(type(config), method_config.to_json(config)) == config


def test_parts_and_parameters_are_told_apart() -> None:
    assert list(parameters_of_config(Everything)) == ["rate", "count", "switch", "kind", "word"]
    assert list(parameters_of_config(Tokens)) == ["delta"]
    data = method_config.to_json(Everything(encoder=ENCODER, rate=0.5))
    assert set(data) == {"method", "parameters", "encoder", "splitter"}
    assert Everything(encoder=ENCODER, rate=0.5).summary.startswith("rate 0.5, count 3")


@pytest.mark.parametrize(
    ("change", "data"),
    [
        ({"rats": 1}, ("everything", "'rats'", "rate")),
        ({"count": 1.5}, ("count", 1.5)),
        ({"count": "3"}, ("count",)),
        ({"switch": "yes"}, ("switch",)),
        ({"kind": "squishy"}, ("kind", "soft", "hard", "squishy")),
        ({"rate": None}, ("rate", None)),
        ({"rate": True}, ("rate", True)),
    ],
)
def test_what_does_not_belong_is_refused(
    change: dict[str, object], data: tuple[object, ...]
) -> None:
    with raises_naming(InputError, *data):
        method_config.from_json(Everything, stored(**change))


def test_what_must_be_there_is_missed() -> None:
    data = stored()
    del data["parameters"]["rate"]  # type: ignore[attr-defined]
    with pytest.raises(TypeError):
        method_config.from_json(Everything, data)
    with pytest.raises(TypeError):
        method_config.from_json(Everything, {**stored(), "encoder": None})
    with pytest.raises(LookupError):
        method_config.from_json(Everything, {"method": "everything"})


def test_a_preset_is_one_of_those_there_are() -> None:
    assert Everything.from_preset("default", encoder=ENCODER, rate=1.0).rate == 1.0
    with raises_naming(InputError, "'cheap'", "default"):
        Everything.from_preset("cheap", encoder=ENCODER, rate=1.0)


@pytest.mark.parametrize("size", [0, -1])
def test_a_vocabulary_has_tokens(size: int) -> None:
    with raises_naming(InputError, size):
        TokenizerId("x", "y", size)
