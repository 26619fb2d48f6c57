"""Names to parts."""

from __future__ import annotations

import re
from importlib.metadata import EntryPoint, EntryPoints
from importlib.util import find_spec

import pytest
from tests.errors import raises_naming

from hammingmark import registry
from hammingmark.errors import UnknownName

PRESENT = [
    (room, name)
    for room, parts in registry.TABLES.items()
    for name in parts
    if room != "backends"  # each of these needs a library that may not be installed
]


def test_every_name_leads_to_a_part() -> None:
    parts = {(room, name): registry.find(room, name) for room, name in PRESENT}
    assert [where for where, part in parts.items() if not callable(part)] == []


def test_every_row_names_a_module_and_an_attribute() -> None:
    for parts in registry.TABLES.values():
        for name, where in parts.items():
            assert re.fullmatch(r"hammingmark(\.\w+)+:[A-Z]\w+", where), name


@pytest.mark.parametrize(
    ("room", "parts"),
    [
        ("splitters", {"sentencex", "punkt"}),
        ("encoders", {"onnx", "static", "sbert", "openai"}),
        ("methods", {"hamming"}),
    ],
)
def test_what_is_promised_is_listed(room: str, parts: set[str]) -> None:
    assert parts <= set(registry.names(room))
    assert registry.names(room) == sorted(registry.names(room))


def test_naming_parts_imports_none_of_them() -> None:
    assert all(isinstance(where, str) for where in registry.TABLES["encoders"].values())
    for where in registry.TABLES["methods"].values():
        assert find_spec(where.partition(":")[0]) is not None


@pytest.mark.parametrize(
    ("room", "wrong", "right"),
    [
        ("splitters", "sentencx", "sentencex"),
        ("methods", "haming", "hamming"),
        ("encoders", "onx", "onnx"),
    ],
)
def test_a_near_miss_is_met_with_the_right_name(room: str, wrong: str, right: str) -> None:
    with pytest.raises(UnknownName) as caught:
        registry.find(room, wrong)
    assert (caught.value.name, caught.value.suggestion) == (wrong, right)
    assert f"Did you mean {right!r}?" in str(caught.value)


def test_a_far_miss_is_met_with_the_list() -> None:
    with pytest.raises(UnknownName) as caught:
        registry.find("splitters", "zzz")
    assert caught.value.suggestion is None
    assert "punkt, sentencex" in str(caught.value)


def test_the_room_is_named_in_plain_words() -> None:
    with raises_naming(UnknownName, "method", "x"):
        registry.find("methods", "x")


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A package that offers a splitter, and one that would take the place of ours."""
    points = EntryPoints(
        [
            EntryPoint("lines", "collections:OrderedDict", "hammingmark.splitters"),
            EntryPoint("punkt", "collections:Counter", "hammingmark.splitters"),
            EntryPoint("gone", "no_such_module:Part", "hammingmark.splitters"),
            EntryPoint("other", "collections:deque", "hammingmark.encoders"),
        ]
    )
    monkeypatch.setattr(registry, "entry_points", lambda *, group: points.select(group=group))


@pytest.mark.usefixtures("installed")
def test_an_installed_package_adds_a_name() -> None:
    from collections import OrderedDict

    assert registry.names("splitters") == ["gone", "lines", "punkt", "sentencex"]
    assert registry.find("splitters", "lines") is OrderedDict
    with pytest.raises(UnknownName) as caught:
        registry.find("splitters", "line")
    assert caught.value.suggestion == "lines"


@pytest.mark.usefixtures("installed")
def test_a_package_cannot_replace_one_of_ours() -> None:
    from hammingmark.text.punkt import PunktSplitter

    assert registry.find("splitters", "punkt") is PunktSplitter


@pytest.mark.usefixtures("installed")
def test_a_part_of_another_room_is_not_found() -> None:
    with pytest.raises(UnknownName):
        registry.find("splitters", "other")


@pytest.mark.usefixtures("installed")
def test_a_broken_package_shows_its_own_error() -> None:
    with raises_naming(ModuleNotFoundError, "no_such_module"):
        registry.find("splitters", "gone")
