"""``profile``, and keys created with a profile."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.unit.cli.conftest import Run

from hammingmark import registry as libraries
from hammingmark.artifacts.profile import load_profile
from hammingmark.cli import keys as keys_module
from hammingmark.cli import profile as profile_module
from hammingmark.keys.keyring import load
from hammingmark.testing import FakeEncoder

ROWS = [
    json.dumps({"text": f"One {'a' * n} here. Two {'b' * n} go. Three {n}."}) for n in range(30)
]
FIT = ("profile", "many.jsonl", "--components", "4", "--out")


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: Run, fetched: list[str]) -> Run:
    def fetch(spec: str) -> FakeEncoder:
        fetched.append(spec)
        return FakeEncoder(name=spec, seed=len(spec))

    for module in (profile_module, keys_module):
        monkeypatch.setattr(module, "fetch_encoder", fetch)
    (tmp_path / "many.jsonl").write_text("\n".join(ROWS))

    return command


def test_a_profile_is_written_and_shown(run: Run, tmp_path: Path, fetched: list[str]) -> None:
    code, out, err = run(*FIT, "p", "--encoder", "mine")
    assert (code, err, fetched) == (0, "", ["mine"])
    first, head, *rows = out.splitlines()
    assert first == (
        "Wrote the profile of mine, fitted on 30 texts with 90 sentences (8 clusters, 4 "
        "components), to p"
    )
    assert head.split() == ["neighbouring", "sentences", "5%", "25%", "50%", "75%", "95%"]
    assert [row.split()[0] for row in rows] == ["cosine", "distance"]
    profile = load_profile(tmp_path / "p")
    assert profile.encoder.name == "mine"
    assert profile.provenance.sentences == 90


def test_json_says_where_it_comes_from(run: Run, tmp_path: Path) -> None:
    code, out, _ = run(*FIT, "p", "--json", "--clusters", "3", "--seed", "5")
    record = json.loads(out)
    assert code == 0
    assert (record["out"], record["clusters"], record["seed"], record["texts"]) == ("p", 3, 5, 30)
    assert record["sha256"] == load_profile(tmp_path / "p").provenance.sha256
    assert list(record["cosines"]) == ["0.05", "0.25", "0.5", "0.75", "0.95"]


def test_what_cannot_be_done_is_refused_before_any_work(
    run: Run, fetched: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "p").write_text("mine")
    for extra, said in (
        (["p"], "--overwrite"),
        (["no/p"], "Cannot write no/p"),
        (["q", "--clusters", "1"], "--clusters must be at least 2"),
        (["q", "--seed", "-1"], "--seed must be at least 0"),
    ):
        code, out, err = run(*FIT, *extra)
        assert (code, out) == (1, "")
        assert said in err
        assert err.count("\n") == 1
    monkeypatch.setattr(libraries, "find_spec", lambda name: None)
    assert "'scikit-learn>=" in run(*FIT, "q")[2]
    assert fetched == []
    assert (tmp_path / "p").read_text() == "mine"


def test_long_work_is_counted(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    @contextmanager
    def counting(noun: str, *, visible: bool) -> Iterator[Callable[[int], None]]:
        assert noun == "sentences embedded"
        yield seen.append

    monkeypatch.setattr(profile_module, "counting", counting)
    assert run(*FIT, "p")[0] == 0
    assert sum(seen) == 90


@pytest.mark.parametrize(
    ("method", "more"),
    [
        ("k-semstamp", ()),
        ("simmark", ("acceptance=0.34",)),
        ("simmark", ("distance=euclidean", "acceptance=0.5")),
        ("continuous", ("acceptance=0.58",)),
    ],
)
def test_a_key_of_a_profile_is_readable_and_loads_again(
    run: Run, tmp_path: Path, method: str, more: tuple[str, ...]
) -> None:
    assert run(*FIT, "p", "--encoder", "mine")[0] == 0
    pairs = [word for pair in ("profile=p", *more) for word in ("--set", pair)]
    new = ("keys", "new", "--method", method, "--encoder", "mine", *pairs)
    code, out, err = run(*new, "--out", "key.json")
    assert (code, err) == (0, "")
    (tmp_path / "p").unlink()
    assert max(map(len, out.splitlines())) < 200
    assert run("keys", "show", "./key.json")[1] == out
    record = json.loads(run("keys", "show", "./key.json", "--json")[1])
    assert record["parameters"]["profile"] == load(tmp_path / "key.json").config.profile  # type: ignore[attr-defined]


@pytest.mark.parametrize("method", ["k-semstamp", "simmark", "continuous"])
def test_a_key_wants_a_profile_of_its_encoder(run: Run, method: str) -> None:
    assert run(*FIT, "p", "--encoder", "mine")[0] == 0
    for more, said in (
        ((), "hammingmark profile TEXTS --encoder other --out FILE"),
        (("--set", "profile=p"), "the encoder 'mine'"),
        (("--set", "profile=none"), "Cannot read the profile none"),
        (("--set", "profile=many.jsonl"), "many.jsonl: "),
    ):
        code, out, err = run("keys", "new", "--method", method, "--encoder", "other", *more)
        assert (code, out) == (1, "")
        assert said in err
        assert err.count("\n") == 1
