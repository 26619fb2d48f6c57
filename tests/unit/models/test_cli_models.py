"""The command group, on a catalogue of one toy model."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner, Result

from hammingmark.cli import models as cli
from hammingmark.cli import progress
from hammingmark.errors import HammingMarkError, ModelUnavailable, UnknownModel


@pytest.fixture
def run(bench: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    model = bench.toy()
    catalogue = {"toy": model}
    monkeypatch.setattr(cli, "CATALOGUE", catalogue)
    monkeypatch.setattr(cli, "DEFAULT_PAIR", ("toy",))
    monkeypatch.setattr(cli, "find", lambda name: cli_find(name, catalogue))
    monkeypatch.setattr(
        cli, "model_store", lambda progress=None: bench.store(model, progress=progress)
    )

    def run(*arguments: str) -> Result:
        return CliRunner().invoke(cli.models, list(arguments))

    return run


def cli_find(name: str, catalogue: Any) -> Any:
    from hammingmark.models.catalogue import find

    return find(name, catalogue=catalogue)


def test_list_tells_what_is_here(run: Any) -> None:
    assert json.loads(run("list", "--json").stdout)[0]["present"] is False
    assert run("pull").exit_code == 0
    [entry] = json.loads(run("list", "--json").stdout)
    assert entry["present"] is True
    assert entry["licence"] == "MIT"
    assert "here" in run("list").stdout


def test_pull_says_so_on_stderr_once_and_gives_the_folder(run: Any) -> None:
    first, second = run("pull", "toy"), run("pull", "toy")
    assert first.stderr.startswith("Downloading toy (1 MB, MIT) to ")
    assert first.stderr.count("\n") == 1
    assert second.stderr == ""
    assert first.stdout == second.stdout
    assert first.stdout.startswith("toy: ")
    [entry] = json.loads(run("pull", "toy", "--json").stdout)
    assert entry["name"] == "toy"


def test_path_prints_a_folder_or_fails_with_advice(run: Any, bench: Any) -> None:
    missing = run("path", "toy")
    assert isinstance(missing.exception, ModelUnavailable)
    assert "models pull toy" in str(missing.exception)
    run("pull")
    assert run("path", "toy").stdout.strip() == str(bench.cache / "models" / "toy")
    assert json.loads(run("path", "toy", "--json").stdout)["name"] == "toy"


def test_verify_fails_when_a_file_is_wrong(run: Any, bench: Any) -> None:
    assert "No models" in run("verify").stdout
    run("pull")
    assert run("verify").exit_code == 0
    (bench.cache / "models/toy/weights.bin").write_bytes(b"wrong")
    result = run("verify", "toy", "--json")
    assert result.exit_code == 1
    assert {each["state"] for each in json.loads(result.stdout)} == {"ok", "corrupt"}


@pytest.mark.parametrize("command", ["pull", "path", "verify"])
def test_an_unknown_name_is_our_own_error(run: Any, command: str) -> None:
    result = run(command, "tay")
    assert isinstance(result.exception, UnknownModel)
    assert isinstance(result.exception, HammingMarkError)


def test_a_bar_is_drawn_without_trouble(bench: Any) -> None:
    with progress._bar() as report:
        bench.store(bench.toy(), progress=report).pull("toy")


@pytest.mark.parametrize(("size", "text"), [(5, "1 MB"), (91e6, "91 MB"), (1.117e9, "1.12 GB")])
def test_sizes_are_for_people(size: int, text: str) -> None:
    assert progress.describe(size) == text
