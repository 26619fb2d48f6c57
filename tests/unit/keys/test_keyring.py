"""Key files and the folder that holds them."""

import json
import os
import stat
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.errors import raises_naming
from tests.keys import hamming_key

from hammingmark.errors import KeyFileError
from hammingmark.keys.config import EncoderId
from hammingmark.keys.key import Secret, WatermarkKey
from hammingmark.keys.keyring import Keyring, from_json, load, save, to_json
from hammingmark.watermarks.hamming import HammingConfig


def make(note: str = "", **changes: object) -> WatermarkKey:
    fields = {"encoder": "minilm", "fingerprint": "ab" * 32, "dimension": 384}
    return hamming_key(secret=Secret.fresh(), note=note, **(fields | changes))  # type: ignore[arg-type]


def all_that_a_traceback_may_show(error: BaseException) -> str:
    """The error and those behind it with the variables of every function of ours."""
    shown = []
    behind: BaseException | None = error
    while behind is not None:
        inside = traceback.walk_tb(behind.__traceback__)
        ours = (each for each in inside if each[0].f_code.co_filename != __file__)
        stack = traceback.StackSummary.extract(ours, capture_locals=True)
        shown += [*stack.format(), str(behind), repr(vars(behind))]
        behind = behind.__cause__ or behind.__context__
    return "".join(shown)


@given(
    note=st.text(),
    bits=st.integers(1, 64),
    data=st.data(),
    value=st.binary(min_size=32, max_size=32),
)
def test_json_gives_the_same_key_back(
    note: str, bits: int, data: st.DataObject, value: bytes
) -> None:
    key = hamming_key(
        secret=Secret(value),
        encoder="minilm",
        fingerprint="ab" * 32,
        dimension=data.draw(st.integers(1, 4096)),
        bits=bits,
        threshold=data.draw(st.integers(0, bits)),
        note=note,
    )
    there = json.loads(json.dumps(to_json(key, with_secret=True)))
    assert from_json(there) == key


def test_a_file_is_private_and_gives_the_key_back(tmp_path: Path) -> None:
    key = make("for the blog")
    path = tmp_path / "ring" / "blog.json"
    save(key, path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert load(path) == key
    assert [child.name for child in path.parent.iterdir()] == ["blog.json"]


def test_a_key_is_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "key.json"
    first, second = make(), make()
    save(first, path)
    with raises_naming(KeyFileError, path) as caught:
        save(second, path)
    shown = all_that_a_traceback_may_show(caught.value)
    assert "to_json" in shown or "save" in shown
    assert second.secret.reveal().hex() not in shown
    assert load(path) == first
    assert [child.name for child in tmp_path.iterdir()] == ["key.json"]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o666, 0o660])
def test_a_file_others_can_read_is_refused_with_the_cure(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "key.json"
    save(make(), path)
    path.chmod(mode)
    with raises_naming(KeyFileError, f"chmod 600 {path}"):
        load(path)
    path.chmod(0o600)
    load(path)


def test_the_mode_of_a_file_that_is_no_key_is_not_what_is_wrong(tmp_path: Path) -> None:
    path = tmp_path / "story.txt"
    path.write_text("It rained.")
    path.chmod(0o644)
    with raises_naming(KeyFileError, path) as caught:
        Keyring(tmp_path / "ring").find(str(path))
    assert "chmod" not in str(caught.value)


def test_a_name_with_a_slip_is_answered_with_the_nearest(tmp_path: Path) -> None:
    Keyring(tmp_path).add(make(), name="newsletter")
    with raises_naming(KeyFileError, "'newsleter'", "'newsletter'"):
        Keyring(tmp_path).find("newsleter")
    with raises_naming(KeyFileError, "'garden'") as caught:
        Keyring(tmp_path).find("garden")
    assert "newsletter" not in str(caught.value)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'"text"',
        b"\xff\xfe\x00",
        b'{"format": "other"}',
        b"1" * 4000,
        b"[" * 99999,
    ],
)
def test_what_is_no_key_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "key.json"
    path.write_bytes(content)
    path.chmod(0o600)
    with raises_naming(KeyFileError, "key.json"):
        load(path)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("secret", None),
        ("secret", "zz"),
        ("secret", "00" * 31),
        ("secret", "00" * 32),
        ("secret", 5),
        ("method", None),
        ("method", "unheard-of"),
        ("method", 3),
        ("parameters", None),
        ("parameters", []),
        ("parameters", {"bits": "8"}),
        ("parameters", {"bits": True}),
        ("parameters", {"bits": 1000}),
        ("parameters", {"bits": 8, "threshold": 9}),
        ("parameters", {"bits": 8, "bats": 9}),
        ("encoder", {"name": "x", "fingerprint": "y", "dimension": True}),
        ("splitter", {"name": "sentencex"}),
        ("splitter", "sentencex"),
        ("encoder", []),
        ("encoder", {"name": "x"}),
        ("created", "yesterday"),
        ("scheme", 3),
        ("note", 3),
        ("successor", 5),
        ("id", "hm-000000000000"),
    ],
)
def test_a_damaged_file_is_refused_without_showing_the_secret(
    tmp_path: Path, field: str, value: object
) -> None:
    key = make()
    secret = key.secret.reveal().hex()
    data = to_json(key, with_secret=True)
    if value is None:
        del data[field]
    else:
        data[field] = value
    path = tmp_path / "key.json"
    path.write_text(json.dumps(data))
    path.chmod(0o600)
    with pytest.raises(KeyFileError) as caught:
        load(path)
    shown = all_that_a_traceback_may_show(caught.value)
    assert "from_json" in shown
    for start in range(0, len(secret), 16):
        assert secret[start : start + 16] not in shown


@pytest.mark.parametrize("tail", ["", "x", " ", "0"])
def test_a_secret_with_a_slip_is_not_quoted(tmp_path: Path, tail: str) -> None:
    key = make()
    data = to_json(key, with_secret=True)
    data["secret"] = data["secret"][:-1] + tail
    if data["secret"] == key.secret.reveal().hex():
        data["secret"] = data["secret"][:-1] + "1"
    path = tmp_path / "key.json"
    path.write_text(json.dumps(data))
    path.chmod(0o600)
    with pytest.raises(KeyFileError) as caught:
        load(path)
    assert data["secret"][:16] not in all_that_a_traceback_may_show(caught.value)


@pytest.mark.parametrize("wrap", ["Secret", "secre", "nested", "list", "text"])
def test_a_secret_in_the_wrong_place_is_not_shown_either(tmp_path: Path, wrap: str) -> None:
    key = make()
    data: object = to_json(key, with_secret=True)
    assert isinstance(data, dict)
    secret = str(data["secret"])
    if wrap in ("Secret", "secre"):
        data[wrap] = data.pop("secret")
    else:
        data = {"nested": {"key": data}, "list": [data], "text": json.dumps(data)}[wrap]
    path = tmp_path / "key.json"
    path.write_text(json.dumps(data))
    path.chmod(0o600)
    for read in (lambda: load(path), lambda: from_json(data)):
        with pytest.raises(KeyFileError) as caught:
            read()
        shown = all_that_a_traceback_may_show(caught.value)
        assert secret[:16] not in shown


@pytest.mark.parametrize("data", [None, [], "text", 5])
def test_what_is_no_object_is_no_key(data: object) -> None:
    with pytest.raises(KeyFileError):
        from_json(data)


def test_times_without_a_zone_are_read_as_utc(tmp_path: Path) -> None:
    data = {**to_json(make(), with_secret=True), "created": "2024-01-01T00:00:00"}
    path = tmp_path / "old.json"
    path.write_text(json.dumps(data))
    path.chmod(0o600)
    ring = Keyring(tmp_path)
    ring.add(make(), name="new")
    assert [entry.name for entry in ring.entries()] == ["old", "new"]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=300))
def test_any_bytes_are_refused_in_one_way(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "key.json"
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(KeyFileError):
        load(path)


def test_a_ring_finds_by_name_id_prefix_and_path(tmp_path: Path) -> None:
    ring = Keyring(tmp_path)
    entry = ring.add(make(), name="blog")
    other = ring.add(make())
    for reference in ("blog", entry.key.id, entry.key.id[:9], str(entry.path)):
        assert ring.find(reference).key == entry.key
    assert {found.key.id for found in ring.entries()} == {entry.key.id, other.key.id}
    with raises_naming(KeyFileError, "'hm-'", entry.key.id, other.key.id):
        ring.find("hm-")
    with raises_naming(KeyFileError, "keys new --name absent"):
        ring.find("absent")
    with raises_naming(KeyFileError, "no/such/file.json"):
        ring.find("no/such/file.json")
    with raises_naming(KeyFileError, "aaa"):
        ring.find("a" * 300)


@pytest.mark.parametrize("name", ["../up", "a/b", "", ".hidden", "x" * 65, "a b"])
def test_names_that_could_leave_the_folder_are_refused(tmp_path: Path, name: str) -> None:
    ring = Keyring(tmp_path / "ring")
    if name == "":
        assert ring.add(make(), name=name).name.startswith("hm-")
        return
    with raises_naming(KeyFileError, repr(name)):
        ring.add(make(), name=name)


def test_rotation_retires_the_old_file_and_adds_a_new_one(tmp_path: Path) -> None:
    ring = Keyring(tmp_path)
    before = ring.add(make("note"), name="blog")
    old, fresh = ring.rotate("blog", name="blog-2")
    again = ring.find("blog").key
    assert again.secret == before.key.secret
    assert again.retired is not None
    assert again.successor == fresh.key.id == ring.find("blog-2").key.id
    assert old.key == again
    assert stat.S_IMODE(old.path.stat().st_mode) == 0o600
    with raises_naming(KeyFileError, old.key.id, fresh.key.id):
        ring.rotate("blog")


def test_a_rotated_key_hands_its_name_on(tmp_path: Path) -> None:
    ring = Keyring(tmp_path)
    before = ring.add(make("note"), name="blog").key
    old, fresh = ring.rotate("blog")
    assert ring.find("blog").key == fresh.key != before
    assert fresh.key.retired is None
    assert old.name == f"blog-{before.id.removeprefix('hm-')}"
    kept = ring.find(old.name).key
    assert (kept.secret, kept.successor) == (before.secret, fresh.key.id)
    assert kept.retired is not None
    assert len(ring.entries()) == 2
    ring.rotate("blog")
    assert len(ring.entries()) == 3
    assert sum(entry.key.retired is None for entry in ring.entries()) == 1


def test_rotation_does_not_change_the_file_that_a_link_names(tmp_path: Path) -> None:
    elsewhere, here = Keyring(tmp_path / "elsewhere"), Keyring(tmp_path / "here")
    shared = elsewhere.add(make("note"), name="blog")
    here.folder.mkdir()
    (here.folder / "blog.json").symlink_to(shared.path)
    _, fresh = here.rotate("blog")
    assert here.find("blog").key == fresh.key
    assert elsewhere.find("blog").key == shared.key


def test_a_key_known_by_its_id_keeps_it_when_it_is_rotated(tmp_path: Path) -> None:
    ring = Keyring(tmp_path)
    before = ring.add(make())
    old, fresh = ring.rotate(before.key.id)
    assert (old.name, old.path) == (before.name, before.path)
    assert fresh.name == fresh.key.id
    assert ring.find(before.key.id).key.retired is not None


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes in folders here")
def test_a_pipe_in_the_ring_is_named_and_not_waited_for(tmp_path: Path) -> None:
    ring = Keyring(tmp_path)
    there = ring.add(make(), name="blog")
    os.mkfifo(tmp_path / "pipe.json")
    found, wrong = ring.survey()
    assert [entry.key for entry in found] == [there.key]
    assert ["pipe.json is not a file" in str(error) for error in wrong] == [True]
    with raises_naming(KeyFileError, "pipe.json"):
        ring.find(str(tmp_path / "pipe.json"))


@contextmanager
def unprivileged() -> Iterator[None]:
    """Be somebody for whom permissions hold."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.skipif(os.name != "posix", reason="permissions are others here")
def test_a_ring_that_cannot_be_read_is_no_empty_ring(tmp_path: Path) -> None:
    folder = tmp_path / "ring"
    Keyring(folder).add(make(), name="blog")
    for parent in [tmp_path, *list(tmp_path.parents)[:3]]:
        parent.chmod(parent.stat().st_mode | 0o055)
    folder.chmod(0o000)
    try:
        with unprivileged(), raises_naming(KeyFileError, folder):
            Keyring(folder).survey()
    finally:
        folder.chmod(0o700)
    (tmp_path / "file").write_text("no folder")
    with raises_naming(KeyFileError, tmp_path / "file"):
        Keyring(tmp_path / "file").survey()


def test_an_empty_ring_has_no_keys(tmp_path: Path) -> None:
    assert Keyring(tmp_path / "absent").entries() == []


@pytest.mark.skipif(os.name != "posix", reason="permissions are others here")
def test_a_folder_that_cannot_be_written_gives_one_sentence(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with unprivileged(), raises_naming(KeyFileError, tmp_path / "key.json"):
        save(make(), tmp_path / "key.json")


OLD = """
{"format": "hammingmark-key", "scheme": 1, "id": "hm-1a0b773a61eb",
 "created": "2026-01-02T03:04:05+00:00", "retired": null, "successor": null, "note": "blog",
 "encoder": {"name": "minilm", "fingerprint": "ab", "dimension": 384},
 "bits": 8, "threshold": 4.17, "softness": 1.0, "fresh": true,
 "secret": "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"}
"""


def test_a_key_from_before_methods_were_named_still_loads(tmp_path: Path) -> None:
    path = tmp_path / "old.json"
    path.write_text(OLD)
    path.chmod(0o600)
    key = load(path)
    expected = HammingConfig(
        encoder=EncoderId("minilm", "ab", 384), threshold=4.17, softness=1.0, residual=True
    )
    assert key.config == expected
    assert key.note == "blog"
    assert key.config.splitter is None
    oldest = {k: v for k, v in json.loads(OLD).items() if k not in ("softness", "fresh")}
    config = from_json({**oldest, "threshold": 6}).config
    assert config == HammingConfig(encoder=EncoderId("minilm", "ab", 384))


def test_a_derived_key_tells_where_it_comes_from_and_not_more(tmp_path: Path) -> None:
    master = make()
    save(master.derive("2026-11-16"), tmp_path / "day.json")
    derived = load(tmp_path / "day.json")
    assert (derived.parent, derived.label) == (master.id, "2026-11-16")
    assert master.secret.reveal().hex() not in (tmp_path / "day.json").read_text()


def test_a_key_of_a_method_that_is_not_installed_is_told_and_left_out(tmp_path: Path) -> None:
    ring = Keyring(tmp_path)
    ring.add(make(), name="mine")
    data = {**to_json(make(), with_secret=True), "method": "theirs"}
    (tmp_path / "theirs.json").write_text(json.dumps(data))
    (tmp_path / "theirs.json").chmod(0o600)
    entries, wrong = ring.survey()
    assert [entry.name for entry in entries] == ["mine"]
    assert "'theirs'" in str(wrong[0])


def test_a_secret_among_the_parameters_is_not_shown(tmp_path: Path) -> None:
    key = make()
    secret = key.secret.reveal().hex()
    for name in ("secret", "bits", "odd"):
        data = to_json(key, with_secret=True)
        data["parameters"][name] = secret
        path = tmp_path / "key.json"
        path.write_text(json.dumps(data))
        path.chmod(0o600)
        with pytest.raises(KeyFileError) as caught:
            load(path)
        assert secret[:16] not in all_that_a_traceback_may_show(caught.value)


def test_a_derived_key_is_not_rotated_out_of_its_family(tmp_path: Path) -> None:
    ring = Keyring(tmp_path)
    derived = make().derive("2026-11-16")
    ring.add(derived, name="day")
    with raises_naming(KeyFileError, "'2026-11-16'"):
        ring.rotate("day")
    assert ring.find("day").key == derived


def test_what_may_be_a_secret_is_not_quoted_even_in_part() -> None:
    secret = "ab" * 32
    data = to_json(make(), with_secret=True)
    for wrong in ({"method": secret}, {"parameters": {secret: 1}}):
        with pytest.raises(KeyFileError) as caught:
            from_json({**data, **wrong})
        assert secret[:16] not in str(caught.value)
    with raises_naming(KeyFileError, 2):
        from_json({**data, "scheme": True})
