"""Every door stands open: what the guides describe is installed from outside, and used by name.

The classes come from the pages themselves, into a package with entry points of its own.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.command import run_main
from tests.errors import raises_naming

import hammingmark
from hammingmark import registry
from hammingmark.assembly.backends import load_backend
from hammingmark.assembly.encoders import load_encoder
from hammingmark.assembly.keys import load_key
from hammingmark.assembly.parts import PartSpec, attack_names, load_attack, load_splitter
from hammingmark.errors import InputError, KeyMismatch
from hammingmark.keys.key import ReferenceKeys
from hammingmark.testing import FakeTokenizer, backend_checks, encoder_checks, method_checks

DOCS = Path(__file__).parents[2] / "docs"
GUIDES = ("add-a-method.md", "add-a-backend.md", "add-an-encoder.md")
_FILE = re.compile(r'^```python title="(\w+\.py)"\n(.*?)^```', re.MULTILINE | re.DOTALL)

ENTRY_POINTS = """
[hammingmark.methods]
side = outsider.side:SideMark
green = outsider.green:GreenMark
[hammingmark.backends]
parrot = outsider.parrot:ParrotBackend
[hammingmark.encoders]
letters = outsider.letters:LetterEncoder
[hammingmark.tokenizers]
words = hammingmark.testing:FakeTokenizer
[hammingmark.splitters]
stops = hammingmark.testing:FakeSplitter
[hammingmark.attacks]
shout = outsider.shout:Shout
"""

SHOUT = '''
from dataclasses import dataclass

@dataclass
class Shout:
    """Say it louder."""

    marks: int = 1
    min_similarity: float = 0.5
    name = "shout"

    def apply(self, texts, *, rng):
        return [text.replace(".", "!" * self.marks) for text in texts]
'''


def files() -> dict[str, str]:
    """The modules that the guides consist of."""
    return {
        name: body for page in GUIDES for name, body in _FILE.findall((DOCS / page).read_text())
    }


@pytest.fixture
def outsider(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A package that is installed beside ours, and a keyring of its own."""
    package = tmp_path / "site" / "outsider"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    for name, body in {**files(), "shout.py": SHOUT}.items():
        (package / name).write_text(body)
    info = tmp_path / "site" / "outsider-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: outsider\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    monkeypatch.setenv("HAMMINGMARK_KEYRING", str(tmp_path / "ring"))
    monkeypatch.chdir(tmp_path)
    yield
    for name in [name for name in sys.modules if name.partition(".")[0] == "outsider"]:
        del sys.modules[name]


@pytest.mark.parametrize(("name", "body"), files().items())
def test_a_guide_is_short(name: str, body: str) -> None:
    assert sum(bool(line.strip()) for line in body.splitlines()) < 60


@pytest.mark.usefixtures("outsider")
def test_what_is_installed_is_listed() -> None:
    assert {"side", "green", "hamming"} <= set(registry.names("methods"))
    assert "shout" in attack_names()
    assert load_encoder("letters").dimension == 64
    assert load_encoder("letters:128").dimension == 128
    assert load_encoder("letters:128").name == "letters:128"
    assert load_encoder("letters", parameters={"dimension": "32"}).dimension == 32
    assert load_backend("parrot").name == "parrot"
    assert load_backend("parrot:!").ending == "!"  # type: ignore[attr-defined]
    assert load_splitter("stops").split("One. Two.").carrying == ["One.", "Two."]
    attack = load_attack("shout", splitter=load_splitter(), parameters={"marks": "2"})
    assert attack.apply(["One."], rng=np.random.default_rng(0)) == ["One!!"]
    with raises_naming(InputError, "'end'", "'ending'"):
        load_backend("parrot", parameters={"end": "?"})
    with raises_naming(InputError, "'leters'", "letters"):
        load_encoder("leters")
    with raises_naming(InputError, "'parot'", "parrot"):
        load_backend("parot")
    with raises_naming(InputError, "dimension", "many"):
        load_encoder("letters:many")


@pytest.mark.usefixtures("outsider")
@pytest.mark.parametrize("check", backend_checks())
def test_the_backend_keeps_the_contract(check: Callable[[object], None]) -> None:
    check(load_backend("parrot"))


@pytest.mark.usefixtures("outsider")
@pytest.mark.parametrize("check", encoder_checks())
def test_the_encoder_keeps_the_contract(check: Callable[[object], None]) -> None:
    check(load_encoder("letters"))


@pytest.mark.usefixtures("outsider")
@pytest.mark.parametrize("method", ["side", "green"])
def test_the_methods_keep_the_contract(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if method == "green":
        pytest.importorskip("torch")
    monkeypatch.setattr(ReferenceKeys, "block", 100)
    for name, check in method_checks(registry.find("methods", method)):
        print(name)  # which of them failed
        check()


@pytest.mark.usefixtures("outsider")
def test_a_method_by_acceptance_is_used_by_its_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(*arguments: str) -> str:
        assert run_main(*arguments) == 0
        return capsys.readouterr().out

    assert "Neighbouring sentences lie on the same side" in run("methods")
    assert "least: a number" in run("methods", "side")
    made = json.loads(
        run("keys", "new", "--method", "side", "--encoder", "letters:128", "--name", "s", "--json")
    )
    assert made["method"] == "side"
    assert made["encoder"]["name"] == "letters:128"
    assert "side" in run("keys", "list")
    text = run("generate", "--key", "s", "--backend", "parrot", "--prompt", "It rained.")
    (tmp_path / "t.txt").write_text(text)
    # Under three keys in four the parrot's sentences lie on either side, and it has to try. The
    # paper's procedure lets it repeat itself; then it falls back once, if it begins on the side
    # with few sentences, and hardly ever again.
    prompt = ("--backend", "parrot", "--prompt", "It rained.", "--json")
    for day in (f"2026-11-{number}" for number in range(16, 22)):
        run("keys", "derive", "s", day, "--name", day)
        written = json.loads(run("generate", "--key", day, *prompt, "--procedure", "paper"))
        (tmp_path / "d.txt").write_text(written["text"])
        verdict = json.loads(run("detect", "d.txt", "--key", day, "--json"))
        scored = [piece for piece in verdict["pieces"] if piece["score"] is not None]
        fallbacks = written["cost"]["fallbacks"]
        assert len(scored) == verdict["piece_count"] - 1 == written["sentences"] - 1 > 0
        assert fallbacks < 3
        valid = sum(piece["valid"] for piece in scored)
        assert valid >= len(scored) - fallbacks
        assert verdict["statistics"]["same_side"] == valid / len(scored)
    assert 0 < verdict["p_value"] <= 1
    assert verdict["null"] == "exact over reference keys"
    assert "valid" in run("detect", "t.txt", "--key", "s")
    assert "p-value" in run("detect", "t.txt", "--key", day, "--brief")
    days = ("--master", "s", "--dates", "2026-11-01..2026-11-30")
    searched = json.loads(run("detect", "t.txt", *days, "--json"))
    assert searched["keys"] == 30
    assert searched["label"].startswith("2026-11-")


@pytest.mark.usefixtures("outsider")
def test_a_method_by_logits_says_what_it_needs(capsys: pytest.CaptureFixture[str]) -> None:
    key = hammingmark.new_key(method="green", tokenizer=FakeTokenizer(), delta=3.0)
    assert key.config.delta == 3.0  # type: ignore[attr-defined]
    with raises_naming(hammingmark.HammingMarkError, "'green'", "parrot"):
        hammingmark.writer(key, backend=load_backend("parrot"))
    verdict = hammingmark.detector(key, tokenizer=FakeTokenizer()).judge("It rained. " * 9)
    assert verdict.evidence.unit == "token"
    assert verdict.null == "exact binomial"
    assert "binomial" in str(verdict)
    other = type("Other", (FakeTokenizer,), {"fingerprint": "00" * 32})()
    with raises_naming(KeyMismatch, key.id, "tokenizer", other.fingerprint[:12]):
        hammingmark.detector(key, tokenizer=other)
    with raises_naming(InputError, "'green'", "edits"):
        hammingmark.detector(key, tokenizer=FakeTokenizer(), edits=True)
    with raises_naming(InputError, "'green'", "topic"):
        hammingmark.detector(key, tokenizer=FakeTokenizer(), topic="given").judge("It rained. Yes.")


@pytest.mark.usefixtures("outsider")
def test_a_worker_builds_its_own() -> None:
    """What is sent is what to build; of keys, where they lie."""
    import pickle

    spec = PartSpec("encoders", "letters:128")
    assert pickle.loads(pickle.dumps(spec)).build().dimension == 128
    attack = PartSpec("attacks", "shout", {"marks": 3})
    assert pickle.loads(pickle.dumps(attack)).build().marks == 3


@pytest.mark.slow
@pytest.mark.usefixtures("outsider")
def test_a_method_by_logits_marks_a_real_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("gguf")
    model = "transformers:smollm2"

    def run(*arguments: str) -> str:
        assert run_main(*arguments) == 0
        return capsys.readouterr().out

    run("keys", "new", "--method", "green", "--backend", model, "--set", "delta=4", "--name", "g")
    # The model ends one text in ten within a sentence or two; the longest of several is not such.
    opening = {"text": "The lighthouse had been dark for a year."}
    (tmp_path / "p.jsonl").write_text("\n".join([json.dumps(opening)] * 4))
    written = run("generate", "--prompts", "p.jsonl", "--key", "g", "--max-tokens", "60")
    texts = [json.loads(line)["text"] for line in written.splitlines()]
    (tmp_path / "t.txt").write_text(max(texts, key=lambda text: len(set(text.split()))))
    marked = json.loads(run("detect", "t.txt", "--key", "g", "--json"))
    # Of some fifty tokens nearly all are green; chance gives half.
    assert marked["watermarked"] is True
    assert marked["p_value"] < 1e-4
    _, other = load_key("g").rotate()
    assert hammingmark.detect((tmp_path / "t.txt").read_text(), key=other).p_value > 1e-4
    assert "▔" in run("detect", "t.txt", "--key", "g")
