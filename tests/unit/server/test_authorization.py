"""API keys and the file that holds them."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import re
import stat
import threading
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.errors import raises_naming

from hammingmark.errors import InputError
from hammingmark.server.authorization import (
    SCOPES,
    ApiKey,
    ApiKeys,
    add_to_file,
    bearer_token,
    digest_of,
    new_api_key,
    read_api_keys,
    remove_from_file,
)


def add(path: Path, name: str, *scopes: str) -> str:
    """A new API key in a file; its token."""
    token, key = new_api_key(name, scopes=scopes or ("generate",))
    add_to_file(path, key)
    return token


def write(path: Path, content: str | bytes, mode: int = 0o600) -> None:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    path.chmod(mode)


def row(**changes: object) -> str:
    fields = {"name": "web", "sha256": "ab" * 32, "scopes": ["generate"]}
    return json.dumps({name: each for name, each in (fields | changes).items() if each != "absent"})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "keys.jsonl"


def test_a_token_proves_its_own_key_and_no_other(path: Path) -> None:
    tokens = {name: add(path, name, "generate") for name in ("first", "second", "third")}
    keys = ApiKeys(path)
    assert len(keys) == 3
    for name, token in tokens.items():
        found = keys.find(token)
        assert found is not None
        assert found.name == name
        for wrong in (token[:-1], token + "A", token.lower(), token.upper(), f" {token}"):
            assert keys.find(wrong) is None
    for wrong in ("", "hmk_", "\udcff", "é", digest_of(tokens["first"])):
        assert keys.find(wrong) is None


def test_tokens_are_long_random_and_easy_to_recognize() -> None:
    made = [new_api_key("web", scopes=["detect"])[0] for _ in range(100)]
    assert len(set(made)) == 100
    assert all(re.fullmatch(r"hmk_[A-Za-z0-9_-]{43}", token) for token in made)


def test_a_key_says_what_it_is_good_for() -> None:
    _, key = new_api_key("web", scopes=["generate", "detect"], rate=30, may_switch_off=True)
    assert [key.allows(scope) for scope in SCOPES] == [True, True, False]
    assert (key.rate, key.may_switch_off) == (30, True)
    _, admin = new_api_key("root", scopes=["admin"])
    assert [admin.allows(scope) for scope in SCOPES] == [False, False, True]
    assert (admin.rate, admin.may_switch_off) == (None, False)


def test_the_file_is_private_and_holds_hashes_only(path: Path) -> None:
    token, key = new_api_key("web", scopes=SCOPES, rate=1.5, may_switch_off=True)
    add_to_file(path, key)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert token not in path.read_text()
    assert hashlib.sha256(token.encode()).hexdigest() in path.read_text()
    assert read_api_keys(path) == (key,)
    other = add(path, "other")
    assert [each.name for each in read_api_keys(path)] == ["web", "other"]
    assert other not in path.read_text()
    assert sorted(each.name for each in path.parent.iterdir()) == [path.name, f"{path.name}.lock"]


def test_nothing_shows_a_token_or_its_hash(path: Path) -> None:
    token, key = new_api_key("web", scopes=["generate"])
    add_to_file(path, key)
    keys = ApiKeys(path)
    for text in (repr(key), str(key), repr(keys), repr(keys.find(token))):
        assert token not in text
        assert key.digest not in text


def test_every_entry_is_compared_in_constant_time_wherever_the_right_one_is(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens = [add(path, f"key-{number}") for number in range(5)]
    keys = ApiKeys(path)
    compared: list[str] = []
    compare = hmac.compare_digest

    def counted(one: str, other: str) -> bool:
        compared.append(one)
        return compare(one, other)

    monkeypatch.setattr(hmac, "compare_digest", counted)
    for token in [*tokens, "wrong"]:
        compared.clear()
        keys.find(token)
        assert len(compared) == 5


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o666])
def test_a_file_others_can_read_is_refused_with_the_cure(path: Path, mode: int) -> None:
    add(path, "web")
    path.chmod(mode)
    with raises_naming(InputError, f"chmod 600 {path}"):
        ApiKeys(path)
    with raises_naming(InputError, f"chmod 600 {path}"):
        add(path, "other")
    path.chmod(0o400)
    assert len(ApiKeys(path)) == 1


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("nonsense", ":1 "),
        ("[]", ":1 "),
        ("[" * 100_000, ":1 "),
        (b"\xff\xfe", ":1 "),
        (row() + "\n\n" + row(name="b", sha256="x"), "sha256"),
        (row(sha256="AB" * 32), "sha256"),
        (row(sha256="absent"), "it lacks a name, or the sha256"),
        (row(name="absent"), "it lacks a name"),
        (row(name=""), "name of an API key"),
        (row(name="two words"), "name of an API key"),
        (row(name="hmk_abc"), "not begin with hmk_"),
        (row(scopes=[]), "generate, detect, admin"),
        (row(scopes=["all"]), "scopes"),
        (row(scopes="admin"), "scopes"),
        (row(scopes=[["admin"]]), "scopes"),
        (row(rate=0), "rate"),
        (row(rate=-1), "rate"),
        (row(rate=True), "rate"),
        (row(rate="60"), "rate"),
        (row(rate=float("nan")), "rate"),
        (row(rate=float("inf")), "rate"),
        (row(rate=10**400), "rate"),
        (row(may_switch_off="yes"), "may_switch_off"),
        (row(token="abc"), "name, sha256, scopes, rate, may_switch_off"),
        (row() + "\n" + row(sha256="cd" * 32), "same name"),
        (row() + "\n" + row(name="b"), "the same API key under two names"),
        ("", "no API key"),
        (" \n\n", "no API key"),
    ],
)
def test_what_is_no_file_of_api_keys_is_refused(
    path: Path, content: str | bytes, expected: str
) -> None:
    write(path, content)
    with pytest.raises(InputError) as caught:
        ApiKeys(path)
    assert expected in str(caught.value)
    assert str(path) in str(caught.value)


def test_what_is_there_and_no_file_is_refused(tmp_path: Path) -> None:
    with raises_naming(InputError, tmp_path / "absent", "hammingmark api-keys new"):
        ApiKeys(tmp_path / "absent")
    (tmp_path / "dangling").symlink_to(tmp_path / "absent")
    with raises_naming(InputError, tmp_path / "dangling"):
        ApiKeys(tmp_path / "dangling")
    with pytest.raises(InputError):
        ApiKeys(tmp_path)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe, 0o600)
    with raises_naming(InputError, pipe):
        ApiKeys(pipe)


@pytest.mark.parametrize("field", ["name", "sha256", "token", "scopes", "rate", "may_switch_off"])
def test_a_token_in_the_wrong_place_is_not_shown(path: Path, field: str) -> None:
    token, _ = new_api_key("web", scopes=["generate"])
    write(path, row(**{field: token}))
    with pytest.raises(InputError) as caught:
        ApiKeys(path)
    error: BaseException | None = caught.value
    while error is not None:
        stack = [
            frame
            for frame in traceback.walk_tb(error.__traceback__)
            if frame[0].f_code.co_filename != __file__
        ]
        assert stack
        shown = traceback.StackSummary.extract(iter(stack), capture_locals=True)
        assert token not in "".join([*shown.format(), str(error), repr(error)])
        error = error.__context__


def test_a_file_that_changes_is_read_again(path: Path) -> None:
    first = add(path, "first")
    counts: list[int] = []
    keys = ApiKeys(path, on_reload=counts.append)
    second = add(path, "second")
    assert keys.find(second) is not None
    assert counts == [2]
    remove_from_file(path, "first")
    assert keys.find(first) is None
    assert keys.find(second) is not None
    assert counts == [2, 1]


def test_a_change_within_one_tick_of_the_files_clock_shows(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token, key = new_api_key("web", scopes=["generate"])
    other, changed = new_api_key("web", scopes=["generate"])
    add_to_file(path, key)
    tick = path.stat().st_ctime_ns
    monkeypatch.setattr("hammingmark.keys.file_changes.time.time_ns", lambda: tick)
    monkeypatch.setattr("hammingmark.keys.file_changes._state", lambda path: (tick, tick))
    keys = ApiKeys(path)
    assert keys.find(token) is not None
    write(path, row(sha256=changed.digest))
    assert keys.find(token) is None
    assert keys.find(other) is not None


def test_a_file_that_has_not_changed_for_long_is_not_read_again(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = add(path, "web")
    later = path.stat().st_ctime_ns + 3_600_000_000_000
    monkeypatch.setattr("hammingmark.keys.file_changes.time.time_ns", lambda: later)
    keys = ApiKeys(path)
    with monkeypatch.context() as patched:
        patched.setattr("hammingmark.server.authorization.read_private", None)
        assert keys.find(token) is not None
    second = add(path, "second")
    assert keys.find(second) is not None


def test_a_broken_file_leaves_the_last_good_one_in_force_and_is_told_once(path: Path) -> None:
    token = add(path, "web")
    good = path.read_bytes()
    problems: list[str] = []
    keys = ApiKeys(path, on_problem=problems.append)
    write(path, good + b'{"name": "half')
    for _ in range(3):
        assert keys.find(token) is not None
    assert len(problems) == 1
    assert ":2 " in problems[0]
    assert keys.check() == problems[0]
    assert not keys.is_closed
    write(path, good)
    assert keys.check() is None
    assert len(problems) == 1


def test_a_broken_file_is_not_read_again_until_it_changes(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = add(path, "web")
    good = path.read_bytes()
    later = path.stat().st_ctime_ns + 3_600_000_000_000
    monkeypatch.setattr("hammingmark.keys.file_changes.time.time_ns", lambda: later)
    keys = ApiKeys(path)
    write(path, good + b'{"name": "half')
    assert keys.find(token) is not None
    with monkeypatch.context() as patched:
        patched.setattr("hammingmark.server.authorization.read_private", None)
        assert keys.find(token) is not None
        assert ":2 " in (keys.check() or "")
    write(path, good)
    assert keys.check() is None


def take_away(path: Path) -> None:
    path.unlink()


def open_up(path: Path) -> None:
    path.chmod(0o644)


def make_a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def move_away(path: Path) -> None:
    path.rename(path.with_name("moved"))


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (take_away, "No such file"),
        (move_away, "No such file"),
        (open_up, "chmod 600"),
        (make_a_folder, "Is a directory"),
    ],
)
def test_a_file_that_cannot_be_trusted_lets_nobody_in_until_it_can(
    path: Path, monkeypatch: pytest.MonkeyPatch, spoil: Callable[[Path], None], said: str
) -> None:
    token = add(path, "web")
    good = path.read_bytes()
    later = path.stat().st_ctime_ns + 3_600_000_000_000  # so that it is not read without need
    monkeypatch.setattr("hammingmark.keys.file_changes.time.time_ns", lambda: later)
    problems: list[str] = []
    counts: list[int] = []
    keys = ApiKeys(path, on_problem=problems.append, on_reload=counts.append)
    assert keys.find(token) is not None
    spoil(path)
    for _ in range(3):
        assert keys.find(token) is None
        assert keys.is_closed
    assert len(problems) == 1
    assert said in problems[0]
    assert keys.check() == problems[0]
    if path.is_dir():
        path.rmdir()
    write(path, b'{"name": "half')
    assert keys.find(token) is None  # those that were withdrawn do not come back
    assert keys.is_closed
    write(path, good)
    assert keys.find(token) is not None
    assert not keys.is_closed
    assert keys.check() is None
    assert counts == [1]


def test_a_file_that_comes_back_as_it_was_is_read_again(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = add(path, "web")
    later = path.stat().st_ctime_ns + 3_600_000_000_000
    monkeypatch.setattr("hammingmark.keys.file_changes.time.time_ns", lambda: later)
    monkeypatch.setattr(
        "hammingmark.keys.file_changes._state", lambda path: (1, 1) if path.exists() else ()
    )
    keys = ApiKeys(path)
    path.rename(path.with_name("moved"))
    assert keys.find(token) is None
    path.with_name("moved").rename(path)
    assert keys.find(token) is not None
    assert keys.check() is None


def test_when_the_last_key_is_taken_out_nobody_gets_in(path: Path) -> None:
    token = add(path, "web")
    problems: list[str] = []
    keys = ApiKeys(path, on_problem=problems.append)
    remove_from_file(path, "web")
    assert keys.find(token) is None
    assert len(problems) == 1
    assert "no API key" in problems[0]
    assert not keys.is_closed  # it is as it should be
    again = add(path, "web")
    assert keys.find(again) is not None
    assert keys.check() is None


def test_a_name_is_given_once_and_can_be_withdrawn(path: Path) -> None:
    add(path, "web")
    with raises_naming(InputError, path, "'web'"):
        add(path, "web")
    with raises_naming(InputError, path):
        remove_from_file(path, "other")
    remove_from_file(path, "web")
    assert read_api_keys(path) == ()
    add(path, "web")


@pytest.mark.parametrize(
    ("name", "scopes", "rate"),
    [("", ["admin"], None), ("a b", ["admin"], None), ("a", [], None), ("a", ["x"], None),
     ("a", ["admin"], 0.0)],
)  # fmt: skip
def test_a_key_that_makes_no_sense_is_not_made(
    name: str, scopes: list[str], rate: float | None
) -> None:
    with pytest.raises(InputError):
        new_api_key(name, scopes=scopes, rate=rate)


def test_several_writers_lose_nothing(path: Path) -> None:
    names = [f"key-{number}" for number in range(12)]
    threads = [threading.Thread(target=add, args=(path, name)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(key.name for key in read_api_keys(path)) == sorted(names)


def test_a_file_that_cannot_be_written_stays_as_it_was(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(path, "web")
    before = path.read_bytes()

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with raises_naming(InputError, path, "No space left on device"):
        add(path, "other")
    assert path.read_bytes() == before
    assert sorted(each.name for each in path.parent.iterdir()) == [path.name, f"{path.name}.lock"]


def test_a_folder_that_does_not_exist_is_not_made(tmp_path: Path) -> None:
    with raises_naming(InputError, "absent"):
        add(tmp_path / "absent" / "keys.jsonl", "web")
    assert not (tmp_path / "absent").exists()


def test_a_link_to_the_file_stays_a_link(tmp_path: Path, path: Path) -> None:
    add(path, "web")
    link = tmp_path / "link"
    link.symlink_to(path)
    token = add(link, "other")
    assert link.is_symlink()
    assert ApiKeys(path).find(token) is not None


@pytest.mark.parametrize(
    ("header", "token"),
    [
        ("Bearer abc", "abc"),
        ("bearer abc", "abc"),
        ("  BEARER   abc ", "abc"),
        ("Bearer", None),
        ("Bearer ", None),
        ("Basic abc", None),
        ("Bearerabc", None),
        ("abc", None),
        ("", None),
        (None, None),
    ],
)
def test_the_token_of_a_header(header: str | None, token: str | None) -> None:
    assert bearer_token(header) == token


def test_keys_are_equal_by_what_they_hold() -> None:
    one = ApiKey("a", "ab" * 32, frozenset({"admin"}))
    assert one == ApiKey("a", "ab" * 32, frozenset({"admin"}))
    assert one != ApiKey("a", "cd" * 32, frozenset({"admin"}))
