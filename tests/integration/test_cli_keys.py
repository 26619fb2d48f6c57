"""The command and its secrets; opt in with ``-m slow``."""

from __future__ import annotations

import json
import os
import stat
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest
from tests.command import INSTALLED, run_here

from hammingmark.cli import cli

pytestmark = pytest.mark.slow

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def ring(tmp_path: Path) -> Path:
    return tmp_path / "ring"


@pytest.fixture
def run(ring: Path, tmp_path: Path) -> Run:
    def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        done = run_here(
            *arguments,
            folder=tmp_path,
            variables={"HAMMINGMARK_KEYRING": str(ring), "COLUMNS": "200", **variables},
        )
        result = subprocess.CompletedProcess(
            done.args, done.returncode, done.stdout.decode(), done.stderr.decode()
        )
        assert "Traceback" not in result.stderr, result.stderr
        for path in tmp_path.rglob("*.json"):
            # No output contains a secret.
            content = path.read_text()
            if '"secret"' in content:
                assert json.loads(content)["secret"] not in result.stdout + result.stderr
        return result

    return run


def new(run: Run, *arguments: str) -> dict[str, object]:
    done = run("keys", "new", "--encoder", "potion", "--json", *arguments)
    assert done.returncode == 0, done.stderr
    data: dict[str, object] = json.loads(done.stdout)
    return data


def test_a_new_key_is_a_private_file(ring: Path, tmp_path: Path) -> None:
    """The installed command runs with a umask that lets everybody read and write."""
    arguments = ["--encoder", "potion", "--json", "--name", "blog", "--note", "for the blog"]
    created = subprocess.run(
        [INSTALLED, "keys", "new", *arguments],
        env={**os.environ, "HAMMINGMARK_KEYRING": str(ring)},
        cwd=tmp_path,
        capture_output=True,
        check=True,
        umask=0,
    )
    key = json.loads(created.stdout)
    path = ring / "blog.json"
    assert key["path"] == str(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(ring.stat().st_mode) == 0o700
    assert "secret" not in key
    assert set(key) >= {
        "name",
        "id",
        "created",
        "method",
        "parameters",
        "encoder",
        "splitter",
        "note",
    }
    written = json.loads(path.read_text())
    assert len(written["secret"]) == 64
    assert written["secret"].encode() not in created.stdout + created.stderr
    assert written["encoder"]["name"] == "potion"
    assert key["note"] == "for the blog"
    assert (key["method"], key["parameters"]) == ("bilinear", {"acceptance": 0.21, "rank": 32})


def test_a_preset_or_a_parameter_of_another_method_chooses_it(run: Run) -> None:
    paper = new(run, "--name", "paper", "--preset", "paper")
    bits = {"bits": 8, "threshold": 6.0, "softness": 0.0, "residual": False}
    assert (paper["method"], paper["parameters"]) == ("hamming", bits)
    assert new(run, "--name", "wide", "--bits", "16")["method"] == "hamming"
    assert new(run, "--name", "strict", "--set", "acceptance=0.2")["method"] == "bilinear"


def test_a_key_for_long_texts_asks_no_more_than_they_need(run: Run) -> None:
    created = new(run, "--name", "long", "--length", "1000", "--evidence", "20")
    parameters = created["parameters"]
    assert isinstance(parameters, dict)
    assert 0.5 < parameters["acceptance"] < 0.6
    refused = run("keys", "new", "--length", "60", "--evidence", "30")
    assert refused.returncode == 1
    assert "2^-30" in refused.stderr


def test_two_keys_are_never_alike(run: Run) -> None:
    assert new(run)["id"] != new(run)["id"]


def test_show_list_and_rotate_for_people(run: Run) -> None:
    key = new(run, "--name", "blog", "--note", "weekly")
    described = run("keys", "show", "blog")
    assert described.returncode == 0
    for text in (str(key["id"]), "active", "accepts 21% of sentences", "weekly", "hidden"):
        assert text in described.stdout
    rotated = run("keys", "rotate", "blog", "--name", "blog-2")
    assert rotated.returncode == 0
    assert f"Retired {key['id']}" in rotated.stdout
    listed = run("keys", "list").stdout
    assert "blog-2" in listed
    assert "retired" in listed
    assert "active" in listed
    again = run("keys", "rotate", "blog")
    assert again.returncode == 1
    assert "was retired" in again.stderr


def test_show_list_and_rotate_for_machines(run: Run) -> None:
    key = new(run, "--name", "blog")
    assert json.loads(run("keys", "show", "blog", "--json").stdout) == key
    assert json.loads(run("keys", "show", str(key["id"]), "--json").stdout)["id"] == key["id"]
    fresh = json.loads(run("keys", "rotate", "blog", "--json").stdout)
    rows = [json.loads(line) for line in run("keys", "list", "--json").stdout.splitlines()]
    assert {row["id"] for row in rows} == {key["id"], fresh["id"]}
    [old] = [row for row in rows if row["id"] == key["id"]]
    assert old["successor"] == fresh["id"]
    assert old["retired"]
    assert not any("secret" in row for row in rows)


def test_an_empty_ring_says_how_to_fill_it(run: Run) -> None:
    done = run("keys", "list")
    assert done.returncode == 0
    assert "hammingmark keys new" in done.stdout
    assert run("keys", "list", "--json").stdout == ""


def test_a_key_others_can_read_is_refused_with_the_cure(run: Run, ring: Path) -> None:
    new(run, "--name", "blog")
    path = ring / "blog.json"
    path.chmod(0o644)
    for arguments in (
        ("keys", "show", "blog"),
        ("keys", "list"),
        ("keys", "rotate", "blog"),
        ("detect", "-k", "blog"),
    ):
        done = run(*arguments)
        assert done.returncode == 1
        assert f"chmod 600 {path}" in done.stderr
        assert done.stdout == ""


def test_a_key_can_lie_anywhere(run: Run, ring: Path, tmp_path: Path) -> None:
    new(run, "--out", "elsewhere/key.json")
    path = tmp_path / "elsewhere" / "key.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert not ring.exists()
    assert run("keys", "show", str(path)).returncode == 0
    again = run("keys", "new", "--encoder", "potion", "--out", str(path))
    assert again.returncode == 1
    assert "exists" in again.stderr


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["keys", "show", "absent"], 1),
        (["keys", "show"], 2),
        (["keys", "new", "--encoder", "nonsense"], 1),
        (["keys", "new", "--encoder", "smollm2"], 1),
        (["keys", "new", "--encoder", "potion", "--bits", "65"], 1),
        (["keys", "new", "--encoder", "potion", "--threshold", "9"], 1),
        (["keys", "new", "--encoder", "potion", "--name", "a/b"], 1),
        (["keys", "nonsense"], 2),
    ],
)
def test_exit_codes(run: Run, ring: Path, arguments: list[str], code: int) -> None:
    done = run(*arguments)
    assert done.returncode == code
    assert done.stdout == ""
    assert done.stderr
    assert not list(ring.glob("*.json"))


def every_command(
    group: click.Group = cli, path: tuple[str, ...] = ()
) -> Iterator[tuple[str, ...]]:
    """The path of every command and group; that of the program itself is empty."""
    yield path
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from every_command(command, (*path, name))
        else:
            yield (*path, name)


@pytest.mark.parametrize("command", list(every_command()), ids=" ".join)
def test_every_command_has_help(run: Run, command: tuple[str, ...]) -> None:
    done = run(*command, "--help")
    assert done.returncode == 0
    assert done.stdout.startswith("Usage: ")
    assert done.stderr == ""


def test_offline_without_models_gives_one_sentence(run: Run, tmp_path: Path) -> None:
    done = run("keys", "new", HAMMINGMARK_OFFLINE="1", HAMMINGMARK_CACHE=str(tmp_path / "cache"))
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith("Error: ")
    assert done.stderr.count("\n") == 1
    assert "minilm" in done.stderr
