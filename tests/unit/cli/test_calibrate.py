"""``calibrate`` and ``threshold``: what they print, and what they refuse before any work."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.unit.cli.conftest import Run

from hammingmark.cli import calibrate as calibrate_module
from hammingmark.cli import keys as keys_module
from hammingmark.cli import threshold as threshold_module
from hammingmark.testing import FakeEncoder

ROWS = [
    json.dumps({"text": f"One {'a' * n} here. Two {'b' * n} go. Three {n}."}) for n in range(30)
]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: Run, fetched: list[str]) -> Run:
    def fetch(spec: str) -> FakeEncoder:
        fetched.append(spec)
        return FakeEncoder()

    for module in (calibrate_module, keys_module, threshold_module):
        monkeypatch.setattr(module, "fetch_encoder", fetch)
    (tmp_path / "many.jsonl").write_text("\n".join(ROWS))

    assert command("keys", "new", "--out", "key.json")[0] == 0
    fetched.clear()
    return command


CALIBRATE = ("calibrate", "many.jsonl", "-k", "key.json", "--level", "0.1", "--out")


def test_thresholds_are_written_and_shown(run: Run, tmp_path: Path) -> None:
    code, out, err = run(*CALIBRATE, "c.json")
    assert (code, err) == (0, "")
    assert out.startswith(
        "Wrote thresholds of likelihood at level 0.1, fitted on 30 texts, to c.json\n      units"
    )
    assert json.loads((tmp_path / "c.json").read_text())["provenance"]["texts"] == 30


def test_json_is_what_was_written(run: Run, tmp_path: Path) -> None:
    code, out, _ = run(*CALIBRATE, "c.json", "--json")
    assert code == 0
    written = json.loads((tmp_path / "c.json").read_text())
    assert json.loads(out) == {"out": "c.json", **written}
    assert [row["transitions"] for row in written["thresholds"]] == [1, 2, 3]


def test_a_file_that_exists_is_refused_before_any_work(
    run: Run, tmp_path: Path, fetched: list[str]
) -> None:
    (tmp_path / "c.json").write_text("mine")
    key = (tmp_path / "key.json").read_text()
    for extra, message in (
        (["c.json"], "--overwrite"),
        (["key.json"], "--overwrite"),
        (["key.json", "--overwrite"], "key.json is a key file"),
        (["."], "is a folder"),
        (["no/c.json"], "Cannot write no/c.json"),
    ):
        code, out, err = run(*CALIBRATE, *extra)
        assert (code, out) == (1, "")
        assert err.startswith("Error: ")
        assert err.count("\n") == 1
        assert message in err
    assert fetched == []
    assert (tmp_path / "c.json").read_text() == "mine"
    assert (tmp_path / "key.json").read_text() == key
    assert run(*CALIBRATE, "c.json", "--overwrite")[0] == 0
    assert json.loads((tmp_path / "c.json").read_text())["level"] == 0.1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["threshold", "many.jsonl", "--seed", "-1"], "--seed must be at least 0, not -1."),
        (["threshold", "many.jsonl", "--bits", "0"], "--bits must be at least 1, not 0."),
        (["threshold", "many.jsonl", "--candidates", "0"], "--candidates must be at least 1"),
        (["attack", "typos", "--in", "many.jsonl", "--seed", "-1"], "--seed must be at least 0"),
        (["attack", "typos", "--in", "many.jsonl", "--batch", "0"], "--batch must be at least 1"),
    ],
)
def test_a_number_out_of_range_is_one_sentence(
    run: Run, fetched: list[str], arguments: list[str], message: str
) -> None:
    code, out, err = run(*arguments)
    assert (code, out) == (1, "")
    assert err.startswith("Error: ")
    assert err.count("\n") == 1
    assert message in err
    assert fetched == []


@pytest.mark.parametrize(
    ("module", "arguments"),
    [(calibrate_module, [*CALIBRATE, "c.json"]), (threshold_module, ["threshold", "many.jsonl"])],
)
def test_long_work_is_counted(
    run: Run, monkeypatch: pytest.MonkeyPatch, module: object, arguments: list[str]
) -> None:
    """30 texts of three sentences, all distinct, because an equal sentence is embedded once."""
    counted: list[int] = []

    @contextmanager
    def counting(noun: str, *, visible: bool) -> Iterator[Callable[[int], None]]:
        assert noun == "sentences embedded"
        yield counted.append

    monkeypatch.setattr(module, "counting", counting)
    assert run(*arguments)[0] == 0
    assert sum(counted) == 90
