"""What an attack can be told, and what is refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
import pytest
from tests.errors import raises_naming

from hammingmark import registry
from hammingmark.assembly.parts import (
    attack_names,
    describe_attack,
    known_parameters,
    load_attack,
    load_splitter,
)
from hammingmark.attacks.adaptive import BoundarySeeking
from hammingmark.attacks.document import LeftPrompt, Truncate
from hammingmark.attacks.spelling import Typos
from hammingmark.errors import InputError, UnknownName
from hammingmark.keys.parameters import REQUIRED, Parameter, parameters_of, read_parameters
from hammingmark.protocols import Attack, Backend, Encoder, Splitter
from hammingmark.testing import FakeEncoder
from hammingmark.text.sentencex import SentencexSplitter


class Everything:
    """Takes one of each."""

    name = "everything"
    keeps = 0.5
    needs: ClassVar[Mapping[str, str]] = {"folder": "wordnet"}

    def __init__(
        self,
        folder: Path,
        *,
        splitter: Splitter,
        rate: float,
        count: int = 3,
        switch: bool = False,
        words: tuple[str, ...] = (),
        scope: Literal["word", "text"] = "word",
        warmth: float | None = None,
        model: str | Path = "hub/name",
        judge: Encoder | None = None,
        backend: Backend | None = None,
    ) -> None:
        self.given = (folder, rate, count, switch, words, scope, warmth, model, judge, backend)
        self.splitter = splitter

    def apply(self, texts: Sequence[str], *, rng: np.random.Generator) -> list[str]:
        return list(texts)


def read(**given: object) -> dict[str, object]:
    return read_parameters(parameters_of(Everything), given, of="the attack 'everything'")


def test_a_constructor_says_what_it_takes() -> None:
    known = parameters_of(Everything)
    assert " ".join(known) == "folder rate count switch words scope warmth model judge backend"
    assert known["rate"].default is REQUIRED
    assert known["folder"].default == "wordnet"
    assert known["scope"].choices == ("word", "text")
    assert known["warmth"].description == "a number or none"
    assert known["judge"].description == "an encoder or none"
    assert all(setting.typed for setting in known.values())
    assert not Parameter("x", (object,), (), None).typed


@pytest.mark.parametrize(
    ("name", "typed", "value"),
    [
        ("rate", "0.5", 0.5),
        ("rate", "1", 1.0),
        ("rate", 1, 1.0),
        ("count", "7", 7),
        ("switch", "yes", True),
        ("switch", "OFF", False),
        ("switch", True, True),
        ("words", "a,b", ("a,b",)),
        ("words", ["a", "b"], ("a", "b")),
        ("scope", "text", "text"),
        ("warmth", "none", None),
        ("warmth", "0.7", 0.7),
        ("warmth", None, None),
        ("model", "other/name", "other/name"),
        ("model", Path("x"), Path("x")),
        ("folder", "x", "x"),
        ("judge", "potion", "potion"),
    ],
)
def test_what_is_typed_gets_its_type(name: str, typed: object, value: object) -> None:
    found = read(**{name: typed})[name]
    assert found == value
    assert type(found) is type(value) or isinstance(value, Path)


@pytest.mark.parametrize(
    ("name", "wrong", "takes"),
    [
        ("rate", "much", "a number"),
        ("rate", True, "a number"),
        ("rate", "none", "a number"),
        ("count", "1.5", "a whole number"),
        ("count", 1.5, "a whole number"),
        ("switch", "maybe", "true or false"),
        ("switch", 1, "true or false"),
        ("scope", "page", "word or text"),
        ("words", [1], "a list of texts"),
        ("backend", 3, "a language model or none"),
    ],
)
def test_another_kind_is_refused(name: str, wrong: object, takes: str) -> None:
    assert parameters_of(Everything)[name].description == takes
    with raises_naming(InputError, name, takes, wrong):
        read(**{name: wrong})


def test_an_unknown_setting_is_met_with_a_near_one() -> None:
    with raises_naming(InputError, "'rat'", "'rate'", "folder"):
        read(rat=1)
    with raises_naming(InputError, "'splitter'"):
        read(splitter="punkt")


@pytest.fixture
def everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "find", lambda room, name: Everything)
    monkeypatch.setattr(registry, "names", lambda room: ["everything"])


@pytest.mark.usefixtures("everything")
def test_parts_are_found_by_their_names(tmp_path: Path) -> None:
    splitter = SentencexSplitter()
    given = {"folder": str(tmp_path), "rate": "0.5"}
    attack = load_attack("everything", splitter=splitter, parameters=given)
    assert isinstance(attack, Everything)
    assert attack.splitter is splitter
    assert attack.given[:2] == (tmp_path, 0.5)
    assert attack.given[-3:] == ("hub/name", None, None)
    with raises_naming(InputError, "everything", "--set rate="):
        load_attack("everything", splitter=splitter, parameters={"folder": str(tmp_path)})
    with raises_naming(InputError, "encoder", "nobody"):
        load_attack("everything", splitter=splitter, parameters={**given, "judge": "nobody"})
    with raises_naming(InputError, "language model", "nobody"):
        load_attack("everything", splitter=splitter, parameters={**given, "backend": "nobody"})


def test_ours_are_loaded_with_and_without_a_splitter() -> None:
    splitter = load_splitter()
    cut = load_attack("truncate", splitter=splitter, parameters={"side": "front", "share": "0.25"})
    assert cut == Truncate(splitter=splitter, side="front", share=0.25)
    left = load_attack("prompt", splitter=splitter, parameters={"prompt": "Tell me."})
    assert left == LeftPrompt(prompt="Tell me.")
    assert isinstance(left, Attack)
    with raises_naming(InputError, "--set prompt="):
        load_attack("prompt", splitter=splitter)
    with pytest.raises(UnknownName) as caught:
        load_attack("typo", splitter=splitter)
    assert caught.value.suggestion == "typos"


def test_every_attack_says_what_it_is() -> None:
    assert "typos" in attack_names()
    brief, known, _ = describe_attack("typos")
    assert brief.startswith("Make typing errors, one per chosen word")
    assert list(known) == ["share", "min_similarity"]


def test_an_attack_within_an_attack_is_told_behind_a_dot() -> None:
    given: dict[str, object] = {"inner": "typos", "inner.share": "0.25", "encoder": FakeEncoder()}
    known = known_parameters("attacks", "boundary-seeking", given)
    assert known["inner.share"].description == "a number"
    assert "inner.share" not in known_parameters("attacks", "boundary-seeking", {"inner": Typos()})
    attack = load_attack("boundary-seeking", splitter=load_splitter(), parameters=given)
    assert isinstance(attack, BoundarySeeking)
    assert attack.inner == Typos(share=0.25)
    given["inner"] = "distance-seeking"
    deep = {"inner.inner": "typos", "inner.encoder": FakeEncoder(), "inner.inner.share": 0.5}
    del given["inner.share"]
    nested = load_attack("boundary-seeking", splitter=load_splitter(), parameters={**given, **deep})
    assert nested.inner.inner == Typos(share=0.5)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("given", "data"),
    [
        ({"inner": "typos", "inner.shar": 0.5}, ("'inner.shar'", "'inner.share'")),
        ({"inner": "typos", "inner.share": "much"}, ("inner.share", "much")),
        ({"inner": "prompt"}, ("'prompt'", "--set inner.prompt=")),
        ({"inner": "typo"}, ("'typo'", "'typos'")),
        ({"inner.share": 0.5}, ("'inner.share'", "'inner'")),
    ],
)
def test_a_wrong_word_behind_a_dot_is_refused(
    given: dict[str, object], data: tuple[str, ...]
) -> None:
    with raises_naming((InputError, UnknownName), *data):
        load_attack(
            "boundary-seeking",
            splitter=load_splitter(),
            parameters={**given, "encoder": FakeEncoder()},
        )
