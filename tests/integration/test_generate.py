"""Marked text from the embedded models, written, split, judged, through the command too."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.conftest import Texts

from hammingmark.assemble import detector, load_backend, writer
from hammingmark.errors import InputError, KeyMismatch
from hammingmark.keyring import save
from hammingmark.keys import Secret, WatermarkKey
from hammingmark.pipeline.generate import Settings
from hammingmark.protocols import Backend, Encoder, Splitter
from hammingmark.records import Message, Prompt
from hammingmark.watermarks.sentence.hamming import HammingMark

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def backend() -> Backend:
    return load_backend("smollm2")


def test_what_is_emitted_splits_into_what_was_accepted(texts: Texts, splitter: Splitter) -> None:
    for draft in [*texts.marked, *texts.plain]:
        assert tuple(splitter.split(draft.text).carrying) == draft.sentences
        assert "".join(step.text for step in draft.steps).strip() == draft.text.strip()


def test_what_generation_accepts_detection_counts(
    texts: Texts, encoder: Encoder, splitter: Splitter, marking_key: WatermarkKey, tmp_path: Path
) -> None:
    """Through text, a file and JSON."""
    method = HammingMark(marking_key)
    for draft in texts.marked:
        file = tmp_path / "draft.txt"
        file.write_text(json.loads(json.dumps(draft.text)), encoding="utf-8")
        sentences = splitter.split(file.read_text(encoding="utf-8")).carrying
        evidence = method.evidence(encoder.encode(sentences))
        asked = [step for step in draft.steps if step.sentence][1:]
        assert [step.accepted for step in asked] == [each.valid for each in evidence.transitions]


def test_the_right_key_finds_the_mark_and_a_wrong_key_does_not(
    texts: Texts, encoder: Encoder, marking_key: WatermarkKey
) -> None:
    wrong = replace(marking_key, secret=Secret(bytes(32)))
    found = {}
    for name, key, drafts in (
        ("right", marking_key, texts.marked),
        ("wrong", wrong, texts.marked),
        ("plain", marking_key, texts.plain),
    ):
        verdicts = list(detector(key, encoder=encoder).judge_many(draft.text for draft in drafts))
        p = np.array([verdict.p_value for verdict in verdicts if verdict.p_value is not None])
        found[name] = p
        print(f"{name}: {(p <= 0.01).mean():.2f} at 1 %, {(p <= 0.05).mean():.2f} at 5 %")
    assert (found["right"] <= 0.05).mean() > 0.6
    assert (found["right"] <= 0.01).mean() > 0.35
    # Under the level at most 3 of 30 at 1 % and 6 of 30 at 5 %, but for one run in a thousand.
    for name in ("wrong", "plain"):
        assert (found[name] <= 0.01).sum() <= 3
        assert (found[name] <= 0.05).sum() <= 6


def test_the_cost_is_near_the_papers(texts: Texts) -> None:
    costs = [draft.cost for draft in texts.marked]
    sentences = sum(len(draft.sentences) for draft in texts.marked)
    samples = sum(cost.candidates for cost in costs) / sentences
    acceptance = sum(cost.passed for cost in costs) / sum(cost.tried for cost in costs)
    fallback = sum(cost.fallbacks for cost in costs) / sentences
    print(f"{samples:.2f} samples a sentence, {acceptance:.2f} accepted, {fallback:.1%} fallback")
    assert samples < 4.0
    assert 0.3 < acceptance < 0.7
    assert fallback < 0.05


def test_the_same_seed_gives_the_same_text(
    backend: Backend, encoder: Encoder, marking_key: WatermarkKey
) -> None:
    made = writer(marking_key, backend=backend, encoder=encoder, settings=Settings(max_tokens=80))
    prompt = Prompt("The old bridge was closed in spring. Engineers had found cracks in it.")
    first, again, other = (made.write(prompt, seed=seed).text for seed in (1, 1, 2))
    assert first == again != other


def test_a_chat_is_answered(backend: Backend, encoder: Encoder, marking_key: WatermarkKey) -> None:
    made = writer(marking_key, backend=backend, encoder=encoder, settings=Settings(max_tokens=80))
    chat = Prompt(messages=(Message("user", "Why is the sky blue? Answer in four sentences."),))
    draft = made.write(chat, seed=3)
    assert len(draft.sentences) >= 2
    assert draft.steps[0].score is None  # in a chat the first sentence is free


def test_a_retired_key_does_not_mark(marking_key: WatermarkKey, encoder: Encoder) -> None:
    retired, fresh = marking_key.rotate()
    with pytest.raises(KeyMismatch, match=fresh.id):
        writer(retired, encoder=encoder)


def test_an_unknown_model_is_named() -> None:
    with pytest.raises(InputError, match="smollm2"):
        load_backend("no-such-model")
    with pytest.raises(InputError, match="not a language model"):
        load_backend("minilm")


def command(*words: str | Path, text: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [Path(sys.executable).with_name("hammingmark"), *map(str, words)],
        input=text,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_command_writes_what_detect_then_finds(
    tmp_path: Path, marking_key: WatermarkKey
) -> None:
    key = tmp_path / "key.json"
    save(marking_key, key)
    prompt = "The museum opened its doors in May. Its first visitors came by boat."
    made = command("generate", "--key", key, "--max-tokens", 500, "--json", "--prompt", prompt)
    assert made.returncode == 0, made.stderr
    record = json.loads(made.stdout)
    promised = {
        "text", "sentences", "candidates", "samples_per_sentence", "tokens_per_sentence",
        "fallbacks", "acceptance", "seconds",
    }  # fmt: skip
    assert promised <= set(record)
    judged = command("detect", "--key", key, "--json", text=record["text"])
    verdict = json.loads(judged.stdout)
    assert verdict["sentences"] == record["sentences"]
    if record["sentences"] > 18:
        assert verdict["watermarked"] is True


def test_many_prompts_give_a_line_each(tmp_path: Path, marking_key: WatermarkKey) -> None:
    key = tmp_path / "key.json"
    save(marking_key, key)
    rows = [
        {"text": "The museum opened its doors in May. Its first visitors came by boat."},
        {"messages": [{"role": "user", "content": "Say two sentences about rain."}]},
    ]
    file = tmp_path / "prompts.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = command("generate", "--key", key, "--prompts", file, "--max-tokens", 40)
    assert done.returncode == 0, done.stderr
    records = [json.loads(line) for line in done.stdout.splitlines()]
    assert [record["prompt"] for record in records] == [0, 1]
    assert all(record["text"] for record in records)
    alone = command(
        "generate", "--key", key, "--max-tokens", 40, "--json", "--prompt", rows[0]["text"]
    )
    assert json.loads(alone.stdout)["text"] == records[0]["text"]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["generate", "--prompt", "Hello there."], "--key"),
        (["generate", "--no-watermark", "--prompt", "  "], "empty"),
        (["generate", "--no-watermark", "--prompt", "a", "--prompt-file", "b"], "one of"),
        (["generate", "--no-watermark", "--prompt-file", "absent.txt"], "Cannot read"),
        (["generate", "--no-watermark", "--chat", "absent.json"], "Cannot read"),
        (["generate", "--no-watermark", "--prompt", "a", "--max-tokens", "0"], "at least 1"),
        (["generate", "--no-watermark", "--prompt", "a", "--backend", "gpt"], "smollm2"),
        (["generate", "--key", "absent", "--prompt", "a"], "No key"),
        (["generate", "--no-watermark", "--prompts", "absent.jsonl"], "Cannot read"),
        (["generate", "--no-watermark", "--prompt", "a", "--width", "0"], "At least 1"),
    ],
)
def test_bad_input_is_one_sentence(words: list[str], complaint: str) -> None:
    done = command(*words)
    assert done.returncode != 0
    assert complaint in done.stderr
    assert "Traceback" not in done.stderr


def test_the_demo_runs() -> None:
    done = command("demo", "--max-tokens", 150)
    assert done.returncode == 0, done.stderr
    assert "the right key" in done.stdout
    assert "hammingmark keys new" in done.stdout


def test_threshold_from_a_corpus_and_from_candidates(tmp_path: Path, articles: list[str]) -> None:
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text("".join(json.dumps({"text": a[:2000]}) + "\n" for a in articles[:10]))
    record = json.loads(command("threshold", corpus, "--json").stdout)
    assert record["exact_threshold"] in {5, 6}
    assert sum(record["law"]) == pytest.approx(1.0)
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text(json.dumps({"text": "The sea was calm. The boats went out early."}) + "\n")
    drawn = json.loads(
        command("threshold", prompts, "--backend", "smollm2", "--candidates", "4", "--json").stdout
    )
    assert 1 <= drawn["pairs"] <= 4
