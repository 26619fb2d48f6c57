"""Components from specifications: names, pickling and sharing."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest
from tests.command import run_main
from tests.errors import raises_naming
from tests.forking import in_a_fork

from hammingmark.assembly import backends
from hammingmark.assembly.encoders import load_encoder, resolve_encoder
from hammingmark.assembly.parts import PartSpec, known_parameters
from hammingmark.encoders.openai import OpenAIEncoder
from hammingmark.errors import InputError
from hammingmark.keys.parameters import is_secret, without_login
from hammingmark.lazy import SingleFlightCache
from hammingmark.testing import FakeBackend


def test_a_specification_holds_no_secret() -> None:
    with raises_naming(InputError, "OPENAI_API_KEY"):
        PartSpec("backends", "openai:m@http://host/v1", {"api_key": "sk-1"})
    with raises_naming(InputError, "OPENAI_API_KEY"):
        PartSpec("attacks", "rewrite", {"backend.api_key": "sk-1"})
    with raises_naming(InputError, "OPENAI_API_KEY") as caught:
        PartSpec("backends", "openai:m@http://user:hunter2@host/v1")
    assert "hunter2" not in str(caught.value)
    spec = PartSpec("splitters", "punkt", {"language": "de"})
    assert pickle.loads(pickle.dumps(spec)).build().name == "punkt"


def test_a_login_is_taken_out_of_what_was_typed() -> None:
    assert without_login("openai:m@http://user:pw@host/v1") == "openai:m@http://host/v1"
    assert without_login("openai:m@x@https://host/v1") == "openai:m@x@https://host/v1"
    assert is_secret("backend.api_key")
    assert not is_secret("api_keys")


def test_no_row_of_an_attack_holds_a_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.txt").write_text("The river rose in the night. Nobody slept.")
    monkeypatch.setattr("hammingmark.cli.attack._load", lambda name, **options: Same())
    where = "backend=openai:m@http://user:hunter2@127.0.0.1:9/v1"
    more = ("--set", where, "--set", "backend.api_key=sk-SECRET", "--judge", "none")
    assert run_main("attack", "rewrite", "--in", "t.txt", "--out", "o.jsonl", *more) == 0
    written = (tmp_path / "o.jsonl").read_text()
    assert "sk-SECRET" not in written
    assert "hunter2" not in written
    row = json.loads(written)
    assert row["run"]["parameters"]["backend"] == "openai:m@http://127.0.0.1:9/v1"
    again = ("--set", where, "--set", "backend.api_key=sk-OTHER", "--judge", "none")
    assert run_main("attack", "rewrite", "--in", "t.txt", "--out", "o.jsonl", *again) == 0
    assert "sk-" not in capsys.readouterr().err


class Same:
    """Changes nothing."""

    name = "same"
    min_similarity = 0.5

    def apply(self, texts: list[str], *, rng: object) -> list[str]:
        return list(texts)


def test_a_key_can_find_its_encoder_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    remote = OpenAIEncoder("http://user:pw@host:8000/v1", "emb", dimension=8)
    assert remote.name == "openai:emb@http://host:8000/v1"
    assert resolve_encoder(remote.name).name == "openai"
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "model.onnx").write_bytes(b"")
    monkeypatch.chdir(tmp_path)
    assert load_encoder("./model").name == str(tmp_path / "model")


def test_parameters_of_the_default_model_can_be_given() -> None:
    parameters = known_parameters("attacks", "rewrite", {})
    assert "backend.threads" in parameters


def test_a_shared_model_is_forgotten_in_a_fork(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backends, "load_backend", lambda text: FakeBackend(name=text))
    monkeypatch.setattr(backends, "_shared", SingleFlightCache(1))
    first = backends.shared_backend("one")
    assert backends.shared_backend("one") is first
    assert backends.shared_backend("two") is not first
    here = backends.shared_backend("two")
    assert len(backends._shared) == 1

    def child() -> str:
        return f"{len(backends._shared)} {backends.shared_backend('two') is here}"

    assert in_a_fork(child) == "0 False"
