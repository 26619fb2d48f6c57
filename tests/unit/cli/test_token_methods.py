"""Commands with keys of methods that mark tokens: options, refusals and messages."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.schemas import assert_valid
from tests.unit.cli.conftest import Run

from hammingmark.cli import calibrate as calibrate_module
from hammingmark.cli import generate as generate_module
from hammingmark.cli import keys as keys_module
from hammingmark.models.catalogue import DEFAULT_GENERATOR
from hammingmark.protocols import BackendCapabilities
from hammingmark.testing import FakeBackend, FakeEncoder
from hammingmark.testing.fakes import FakeTokenizer

SIR = ("--method", "sir", "--set", "network=projection")


@dataclass
class FakeLogitsBackend(FakeBackend):
    """The same model with a tokenizer; it does not change logits."""

    capabilities: BackendCapabilities = field(
        default_factory=lambda: BackendCapabilities(load_tokenizer=FakeTokenizer)
    )


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, command: Run, fetched: list[str]) -> Run:
    """Runs commands with fake components and a key of each kind."""

    def fetch_encoder(spec: str) -> FakeEncoder:
        fetched.append(spec)
        return FakeEncoder()

    def fetch_backend(spec: str, **options: object) -> FakeLogitsBackend:
        fetched.append(spec)
        return FakeLogitsBackend()

    def load_tokenizer(spec: str) -> FakeTokenizer:
        fetched.append(spec)
        return FakeTokenizer()

    for module in (calibrate_module, generate_module, keys_module):
        monkeypatch.setattr(module, "fetch_encoder", fetch_encoder)
    monkeypatch.setattr(generate_module, "fetch_backend", fetch_backend)
    monkeypatch.setattr("hammingmark.assembly.keys.load_tokenizer", load_tokenizer)
    monkeypatch.setattr("hammingmark.assembly.readers.tokenizer_of", lambda wanted: FakeTokenizer())
    for name, arguments in {
        "green": ("--method", "kgw"),
        "meaning": SIR,
        "plain": ("--language", "de", "--splitter", "punkt"),
    }.items():
        code, _, err = command("keys", "new", "--name", name, *arguments)
        assert code == 0, err
    model = f"transformers:{DEFAULT_GENERATOR}"
    assert fetched == [model, "minilm-mark", model, "minilm-mark"]
    fetched.clear()
    return command


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("kgw", "--encoder", "minilm-mark"), "has no encoder. Omit --encoder."),
        (("kgw", "--splitter", "sentencex"), "has no splitter. Omit --splitter."),
        (("kgw", "--language", "en"), "has no language. Omit --language."),
        (("kgw", "--length", "20"), "has no acceptance rate. Omit --length."),
        (("kgw", "--evidence", "20"), "has no acceptance rate. Omit --evidence."),
        (("semstamp", "--length", "200"), "has no acceptance rate. Omit --length."),
        (("sir", "--splitter", "punkt"), "has no splitter. Omit --splitter."),
        (("bilinear", "--backend", "x"), "marks sentences and has no tokenizer. Omit --backend"),
        (("kgw", "--backend", "smollm2"), "Write transformers:smollm2."),
        (("kgw", "--backend", "my.gguf"), "Write transformers:my.gguf."),
        (("kgw", "--backend", "transformers"), "Write transformers:MODEL, where MODEL is"),
        (("kgw", "--backend", "transformers:"), "Write transformers:MODEL, where MODEL is"),
        (("kgw", "--set", "gamma=2"), "gamma must lie between"),
        (("kgw", "--set", "gama=2"), "Did you mean 'gamma'?"),
        (("kgw", "--set", "prefix_length=many"), "a whole number"),
        (("kgw", "--preset", "cheap"), "no preset 'cheap'"),
        (("sir", "--preset", "cheap"), "no preset 'cheap'"),
        (("kgw", "--name", "green"), "green.json exists"),
        (("kgw", "--name", "../a"), "'../a'"),
        (("kgw", "--out", "there.json"), "there.json exists"),
    ],
)
def test_a_key_that_cannot_be_made_is_refused_before_any_work(
    run: Run, tmp_path: Path, fetched: list[str], arguments: tuple[str, ...], message: str
) -> None:
    (tmp_path / "there.json").write_text("mine")
    before = sorted(tmp_path.rglob("*"))
    code, out, err = run("keys", "new", "--method", *arguments)
    assert (code, out) == (1, "")
    assert err.startswith("Error: ")
    assert err.count("\n") == 1
    assert message in err
    assert fetched == []
    assert sorted(tmp_path.rglob("*")) == before


def test_parameters_out_of_their_range_are_refused_before_the_tokenizer(
    run: Run, fetched: list[str]
) -> None:
    code, _, err = run("keys", "new", *SIR, "--set", "delta=-1")
    assert code == 1
    assert "delta must be above 0" in err
    assert fetched == ["minilm-mark"]


def test_a_model_with_another_tokenizer_is_refused_before_it_is_fetched(
    run: Run, fetched: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    own = f"transformers:{DEFAULT_GENERATOR}"
    named = FakeTokenizer(name=own)
    monkeypatch.setattr("hammingmark.assembly.keys.load_tokenizer", lambda spec: named)
    assert run("keys", "new", "--method", "kgw", "--name", "tied")[0] == 0
    for backend in ("transformers:qwen-coder", "qwen-coder"):
        code, _, err = run("generate", "-k", "tied", "--prompt", "a", "--backend", backend)
        assert code == 1
        assert backend in err
        assert own in err
    assert fetched == []


def test_a_text_longer_than_any_context_is_refused_before_any_work(
    run: Run, fetched: list[str]
) -> None:
    arguments = ("generate", "-k", "plain", "--prompt", "a", "--max-tokens", "100000000")
    code, _, err = run(*arguments)
    assert (code, fetched) == (1, [])
    assert "max_tokens" in err


def test_what_a_method_has_can_be_chosen(run: Run, fetched: list[str]) -> None:
    arguments = ("keys", "new", *SIR, "--encoder", "minilm", "--backend", "transformers:my.gguf")
    code, _, err = run(*arguments)
    assert code == 0, err
    assert fetched == ["minilm", "transformers:my.gguf"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--budget", "4"), "has no budget of candidates. Omit --budget."),
        (("--stage-tokens", "0"), "has no stages. Omit --stage-tokens."),
        (("--procedure", "paper"), "has no rejection sampling. Omit --procedure."),
        (("--language", "en"), "has no language. Omit --language."),
        (("--splitter", "sentencex"), "has no splitter. Omit --splitter."),
    ],
)
@pytest.mark.parametrize("name", ["green", "meaning"])
def test_options_for_sentences_are_refused_for_tokens(
    run: Run, fetched: list[str], name: str, arguments: tuple[str, ...], message: str
) -> None:
    code, out, err = run("generate", "-k", name, "--prompt", "It rained.", *arguments)
    assert (code, out) == (1, "")
    assert "marks tokens and " + message in err
    assert err.count("\n") == 1
    assert fetched == []


def test_an_encoder_is_refused_for_a_key_without_one(
    run: Run, tmp_path: Path, fetched: list[str]
) -> None:
    (tmp_path / "t.txt").write_text("It rained.")
    code, out, err = run("detect", "-k", "green", "--encoder", "minilm-mark", "t.txt")
    assert (code, out) == (1, "")
    assert "has no encoder. Omit --encoder." in err
    assert fetched == []


def test_the_same_options_are_for_sentences(run: Run) -> None:
    arguments = ("--budget", "4", "--stage-tokens", "0", "--procedure", "paper", "--language", "de")
    code, out, err = run("generate", "-k", "plain", "--prompt", "It rained.", *arguments)
    assert code == 0, err
    assert out.strip()


def test_sentences_that_are_counted_have_a_language(run: Run) -> None:
    arguments = ("--language", "de", "--splitter", "punkt", "--max-sentences", "2", "--json")
    code, out, err = run("generate", "-k", "green", "--prompt", "It rained.", *arguments)
    assert code == 0, err
    record = json.loads(out)
    assert (record["sentences"], record["stopped"]) == (2, "sentences")


@pytest.mark.parametrize(
    ("name", "model"), [("green", "fake"), ("meaning", "fake"), ("plain", DEFAULT_GENERATOR)]
)
def test_without_the_watermark_the_model_is_that_of_the_key(
    run: Run, fetched: list[str], name: str, model: str
) -> None:
    written = ("generate", "-k", name, "--prompt", "It rained.", "--max-tokens", "20")
    code, _, err = run(*written, "--no-watermark")
    assert code == 0, err
    assert fetched == [model]
    fetched.clear()
    assert run(*written, "--no-watermark", "--backend", "another")[0] == 0
    assert fetched == ["another"]


@pytest.mark.parametrize(
    ("arguments", "by_sentence"),
    [(("-k", "green"), False), (("-k", "green", "--no-watermark"), False), (("-k", "plain"), True)],
)
def test_candidates_per_sentence_are_told_where_sentences_are_sampled(
    run: Run, tmp_path: Path, arguments: tuple[str, ...], by_sentence: bool
) -> None:
    (tmp_path / "p.jsonl").write_text('{"text": "It rained."}\n')
    limits = ("--max-tokens", "40", "--json")
    alone = json.loads(run("generate", *arguments, "--prompt", "It rained.", *limits)[1])
    many = json.loads(run("generate", *arguments, "--prompts", "p.jsonl", *limits)[1])
    for record in (alone, many):
        assert_valid({k: v for k, v in record.items() if k != "prompt"}, "generation-1")
        assert record["drawn_tokens_per_sentence"] > 0
        assert (record["candidates_per_sentence"] is not None) == by_sentence


def counts(monkeypatch: pytest.MonkeyPatch, module: object) -> dict[str, int]:
    """The counts of a command's progress, by noun."""
    counts_by_noun: dict[str, int] = {}

    @contextmanager
    def counting(noun: str, *, visible: bool) -> Iterator[Callable[[int], None]]:
        yield lambda steps: counts_by_noun.update({noun: counts_by_noun.get(noun, 0) + steps})

    monkeypatch.setattr(module, "counting", counting)
    return counts_by_noun


@pytest.mark.parametrize(("name", "noun"), [("green", "tokens"), ("plain", "sentences")])
def test_what_is_written_is_counted_by_its_name(
    run: Run, monkeypatch: pytest.MonkeyPatch, name: str, noun: str
) -> None:
    counts_by_noun = counts(monkeypatch, generate_module)
    arguments = ("generate", "-k", name, "--prompt", "It rained.", "--max-tokens", "30", "--json")
    record = json.loads(run(*arguments)[1])
    written = {"tokens": record["cost"]["emitted_tokens"], "sentences": record["sentences"]}
    assert counts_by_noun == {noun: written[noun]}


def test_thresholds_for_tokens_speak_of_no_sentences(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [{"text": "The old mill stood by the river " * 5}, {"text": ""}]
    (tmp_path / "few.jsonl").write_text("\n".join(map(json.dumps, rows)))
    counts_by_noun = counts(monkeypatch, calibrate_module)
    for name in ("green", "meaning"):
        code, _, err = run("calibrate", "few.jsonl", "-k", name, "--out", "c.json")
        assert code == 1
        assert "99 unmarked texts that are long enough" in err
        assert "1 of 2" in err
        assert "sentence" not in err
    assert [*counts_by_noun] == ["contexts embedded"]
    code, _, err = run(
        "calibrate", "few.jsonl", "-k", "green", "--out", "c.json", "--language", "de"
    )
    assert code == 1
    assert "Omit --language" in err


def test_a_method_is_shown_with_what_its_parameters_are_and_mean(run: Run) -> None:
    lines = run("methods", "kgw")[1].splitlines()
    place = lines.index("  gamma: a number; by default 0.5")
    assert lines[place + 1] == "      γ, the share of the vocabulary that is green."
    assert "  delta: a number; by default 2" in lines
    assert all(len(line) <= 100 for line in lines)
    assert "``" not in "".join(lines)
    [record] = json.loads(run("methods", "kgw", "--json")[1])
    assert record["parameters"]["prefix_length"] == {
        "takes": "a whole number",
        "default": 1,
        "meaning": "h, the number of preceding tokens that decide the list of a token.",
    }


def test_the_default_is_that_of_the_preset_where_it_is_known(run: Run) -> None:
    hamming = run("methods", "hamming")[1]
    assert "  threshold: a number; by default 4.17\n" in hamming
    assert "  residual: true or false; by default true\n" in hamming
    assert "  gamma: a number\n" in run("methods", "simmark")[1]  # it is in the encoder's profile
    assert "  digest: a text\n" in run("methods", "sir")[1]  # empty until a key is made


def test_a_text_of_which_no_sentence_is_marked_is_warned_of(run: Run) -> None:
    """At temperature 0 there is only one candidate, which satisfies the rule only by chance."""
    fetched = ("generate", "-k", "plain", "--prompt", "It rained.", "--max-tokens", "8")
    for seed in range(20):
        code, out, err = run(*fetched, "--temperature", "0", "--seed", str(seed), "--json")
        assert code == 0, err
        record = json.loads(out)
        is_plain = record["cost"]["fallbacks"] > 0 and record["cost"]["acceptance_rate"] == 0.0
        assert ("Warning: The text is not marked" in err) is is_plain
        if is_plain:
            break
    else:
        pytest.fail("every text had a sentence that satisfies the rule")


def test_a_tournament_of_one_token_is_warned_of(run: Run) -> None:
    """There is no warning if the mark decides which token is the likeliest."""
    code, _, err = run("keys", "new", "--name", "sid", "--method", "synthid")
    assert code == 0, err
    for name, temperature, warns in (
        ("sid", "0", True),
        ("sid", "1", False),
        ("green", "0", False),
    ):
        code, _, err = run(
            "generate", "-k", name, "--prompt", "It rained.", "--temperature", temperature,
            "--max-tokens", "8",
        )  # fmt: skip
        assert code == 0, err
        assert ("nothing can be marked" in err) is warns
