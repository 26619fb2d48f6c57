"""What every registered splitter promises."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hammingmark import registry
from hammingmark.protocols import Splitter
from hammingmark.testing import FakeSplitter, splitter_checks
from hammingmark.testing.splitter_checks import DOCUMENT, TEXTS
from hammingmark.text.structure import normalise

NAMES = registry.names("splitters")
every_splitter = pytest.mark.parametrize("name", NAMES)


def build(name: str) -> Splitter:
    kind = FakeSplitter if name == "fake" else registry.find("splitters", name)
    splitter: Splitter = kind(language="en")
    return splitter


@pytest.mark.parametrize("check", splitter_checks())
@pytest.mark.parametrize("name", ["fake", *NAMES])
def test_every_splitter(name: str, check: Callable[[Splitter], None]) -> None:
    check(build(name))


@every_splitter
def test_it_has_its_registered_name(name: str) -> None:
    assert build(name).name == name


@every_splitter
@pytest.mark.parametrize("text", TEXTS)
def test_the_units_make_the_text_as_we_normalise_it(name: str, text: str) -> None:
    assert build(name).split(text).text == normalise(text)


@every_splitter
def test_only_prose_carries(name: str) -> None:
    split = build(name).split(DOCUMENT)
    assert split.carrying == [
        "The river rose in the night.",
        "By morning it had reached the mill!",
        "Nobody slept.",
        "The lamp was lit.",
        "He said it would fall.",
        "It did not.",
    ]
    silent = [unit.text for unit in split.units if not unit.carries]
    assert any("print(" in text for text in silent)
    assert any(text.startswith("# ") for text in silent)
    assert any(text.startswith("| 3.5") for text in silent)
    assert "https://example.org/flood" in silent
