"""The key that marks: rotated, broken and mended while the service runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.errors import raises_naming
from tests.unit.server.harness import Home, Served, counts, error_of, key_of, mark_of, text_of

from hammingmark.errors import KeyFileError, KeyMismatch
from hammingmark.generation.config import GenerationConfig
from hammingmark.keys.keyring import Keyring, save
from hammingmark.server.components import ComponentCache
from hammingmark.server.detection.service import DetectionService
from hammingmark.server.marking.keys import MarkingKey, WriterCache
from hammingmark.testing import FakeBackend, FakeEncoder

Serve = Callable[..., Served]


@pytest.fixture
def told() -> list[tuple[bool, str]]:
    return []


@pytest.fixture
def ring(tmp_path: Path) -> Keyring:
    made = Keyring(tmp_path / "keys")
    made.add(key_of(), name="default")
    return made


def marking(ring: Keyring, told: list[tuple[bool, str]], reference: str = "default") -> MarkingKey:
    return MarkingKey(
        reference, keyring=ring, on_reload=lambda well, words: told.append((well, words))
    )


def test_a_rotated_key_marks_from_the_next_answer_on(serve: Serve, home: Home) -> None:
    served = serve()
    before = served.chat(max_tokens=120)
    _, new = home.keyring.rotate("default")
    after = served.chat(max_tokens=120)
    assert mark_of(before)["key_id"] == key_of().id
    assert mark_of(after)["key_id"] == new.key.id != key_of().id
    found = served.detect(text_of(before))
    assert (found["watermarked"], found["key_id"], found["keys"]) == (True, key_of().id, 2)
    assert served.detect(text_of(after))["key_id"] == new.key.id
    listed = served.get("/v1/watermark/keys").json()["keys"]
    assert {each["id"]: each["marks"] for each in listed} == {key_of().id: False, new.key.id: True}
    assert counts(served, "key_reloads_total") == {'outcome="read"': 1, 'outcome="failed"': 0}


def test_a_broken_file_leaves_the_key_in_force(serve: Serve, home: Home) -> None:
    served = serve()
    path = home.keyring.folder / "default.json"
    content = path.read_bytes()
    path.write_bytes(b"{")
    for _ in range(2):
        assert mark_of(served.chat())["key_id"] == key_of().id
    assert counts(served, "key_reloads_total") == {'outcome="read"': 0, 'outcome="failed"': 1}
    path.write_bytes(content)
    assert mark_of(served.chat())["key_id"] == key_of().id
    assert served.service.key.problem == ""


@pytest.mark.parametrize("how", ["gone", "broken", "open", "folder"])
def test_what_cannot_be_read_is_told_once(
    ring: Keyring, told: list[tuple[bool, str]], how: str
) -> None:
    made = marking(ring, told)
    path = ring.folder / "default.json"
    content = path.read_bytes()
    if how == "open":
        path.chmod(0o644)
    else:
        path.unlink()
    if how == "broken":
        path.write_text("{")
        path.chmod(0o600)
    if how == "folder":
        path.mkdir()
    assert [made.current() for _ in range(3)] == [key_of()] * 3
    (problem,) = told
    assert problem == (False, made.problem)
    assert key_of().secret.reveal().hex() not in made.problem
    if how == "folder":
        path.rmdir()
    path.write_bytes(content)
    path.chmod(0o600)
    assert made.current() == key_of()
    assert made.problem == ""
    assert len(told) == 1  # it is the same key


def test_another_key_in_the_file_is_told(ring: Keyring, told: list[tuple[bool, str]]) -> None:
    made = marking(ring, told)
    other = key_of(2)
    save(other, ring.folder / "default.json", replace=True)
    assert made.current() == made.current() == other
    assert told == [(True, f"the key is {other.id} now")]


def test_every_key_that_was_in_force_is_remembered(
    ring: Keyring, told: list[tuple[bool, str]]
) -> None:
    made = marking(ring, told)
    save(key_of(2), ring.folder / "default.json", replace=True)
    assert [entry.key for entry in made.used()] == [key_of(), key_of(2)]
    save(key_of(), ring.folder / "default.json", replace=True)
    assert {entry.key.id for entry in made.used()} == {key_of().id, key_of(2).id}


@pytest.mark.parametrize("reference", ["id", "beginning", "name", "file"])
def test_the_successor_of_a_key_that_kept_its_name_marks(
    tmp_path: Path, told: list[tuple[bool, str]], reference: str
) -> None:
    """A retired key no longer marks, and rotating must not stop the service."""
    ring = Keyring(tmp_path / "keys")
    entry = ring.add(key_of(), name="spring" if reference == "name" else None)
    asked = {
        "id": entry.key.id,
        "beginning": entry.key.id[:8],
        "name": "spring",
        "file": str(entry.path),
    }[reference]
    made = marking(ring, told, asked)
    for name in ("summer", "autumn"):
        _, new = ring.rotate(made.current().id, name=name)
        assert made.current() == new.key
        assert told[-1] == (True, f"the key is {new.key.id} now")
    assert marking(ring, told, asked).current() == new.key  # also after a restart


def test_a_successor_that_is_missing_leaves_the_key_in_force(
    tmp_path: Path, told: list[tuple[bool, str]]
) -> None:
    ring = Keyring(tmp_path / "keys")
    entry = ring.add(key_of())
    made = marking(ring, told, entry.key.id)
    save(replace(key_of()).rotate()[0], entry.path, replace=True)
    assert made.current() == key_of()
    assert [well for well, _ in told] == [False]


def test_a_key_that_is_not_there_is_refused_at_the_start(ring: Keyring) -> None:
    with raises_naming(KeyFileError, "'other'"):
        MarkingKey("other", keyring=ring)


def test_a_writer_is_made_once_for_each_key_and_label() -> None:
    writers = WriterCache(FakeBackend(), ComponentCache(FakeEncoder()))
    config = GenerationConfig(max_tokens=7)
    first = writers.writer(key_of(), config=config)
    assert first.config == config
    assert writers.writer(key_of(), config=GenerationConfig()).watermark is first.watermark
    labelled = writers.writer(key_of().derive("a"), config=config)
    assert labelled.watermark is not None
    assert labelled.watermark.key.label == "a"
    assert writers.writer(key_of().derive("a"), config=config).watermark is labelled.watermark
    assert writers.writer(None, config=config).watermark is None


def test_an_encoder_is_loaded_once_for_all_labels(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded: list[str] = []

    def load(name: str, **named: object) -> FakeEncoder:
        loaded.append(name)
        return FakeEncoder()

    monkeypatch.setattr("hammingmark.server.components.load_encoder", load)
    parts = ComponentCache()
    writers, detection = WriterCache(FakeBackend(), parts), DetectionService(home.keyring, parts)
    for label in ("a", "b"):
        writers.writer(key_of().derive(label), config=GenerationConfig())
        detection.detect_answer(key_of().derive(label), "It was late. Nobody came.")
    assert loaded == ["fake"]


def test_writers_of_many_labels_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hammingmark.server.marking.keys._MAX_WRITERS", 3)
    writers = WriterCache(FakeBackend(), ComponentCache(FakeEncoder()))
    config = GenerationConfig()
    first = writers.writer(key_of(), config=config).watermark
    for number in range(5):
        writers.writer(key_of(), config=config)
        writers.writer(key_of().derive(f"label {number}"), config=config)
    assert len(writers._writers) == 3
    assert writers.writer(key_of(), config=config).watermark is first  # which was used all along


def test_a_retired_key_writes_nothing_even_if_it_did() -> None:
    writers = WriterCache(FakeBackend(), ComponentCache(FakeEncoder()))
    writers.writer(key_of(), config=GenerationConfig())
    with raises_naming(KeyMismatch, "retired"):
        writers.writer(key_of().rotate()[0], config=GenerationConfig())


def test_a_key_for_another_encoder_is_told_when_it_is_used(serve: Serve) -> None:
    served = serve(encoder=FakeEncoder(seed=1))
    answer = served.chat()
    assert answer.status_code == 503
    assert error_of(answer)["type"] == "watermark_error"
