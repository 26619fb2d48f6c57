"""Texts as they were written, so that a change of code that changes one shows.

What is frozen: of whole candidates, of stages and of text without candidates, under many settings,
every text, its steps and what it cost, at several seeds, widths and lanes of a model made of
hashes. ``golden_generation.json`` holds them. Texts and steps are the same at any width; what was
drawn ahead in vain is not. Where they are meant to change, write them anew, and read what has
changed::

    PYTHONPATH=src:. python -c "import tests.contract.test_golden_generation as t; t.rewrite()"

Scores agree to 1e-6 of their size: linear algebra libraries round differently.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.unit.generation.test_contexts import FakeLogitsBackend, key
from tests.unit.generation.test_generate import LongestOf, shortest_first
from tests.unit.generation.test_stages import Teller, WordByWord, say

from hammingmark.errors import Failure
from hammingmark.generation.generate import PAPER, GenerationConfig, Writer
from hammingmark.keys.config import EncoderId
from hammingmark.keys.key import Secret, WatermarkKey
from hammingmark.protocols import BackendCapabilities, Watermark
from hammingmark.records import (
    Candidate,
    Generation,
    Message,
    ModelUsage,
    Prompt,
    Request,
    Sampling,
)
from hammingmark.testing import FakeBackend, FakeEncoder
from hammingmark.testing.fakes import paragraph
from hammingmark.text.sentencex import SentencexSplitter
from hammingmark.watermarks.bilinear import BilinearConfig, BilinearMark
from hammingmark.watermarks.hamming import HammingConfig, HammingMark
from hammingmark.watermarks.pmark_offline import PMarkOffline, PMarkOfflineConfig
from hammingmark.watermarks.pmark_online import PMarkOnline, PMarkOnlineConfig
from hammingmark.watermarks.sir import SIR

FILE = Path(__file__).with_name("golden_generation.json")
SEEDS = (1, 2)
LANES: dict[str, dict[str, Any]] = {
    "one lane": {"parallel": 1, "width": 1},
    "one each": {"parallel": 8, "width": 1},
    "three": {"parallel": 3, "width": 3},
    "eight": {"parallel": 8, "width": 8},
    "out of order": {"parallel": 24, "width": 12, "order": shortest_first},
    "backwards": {"parallel": 8, "width": 8, "order": lambda asked: asked[::-1]},
}
PROMPT = Prompt("It was late. The harbour slept.")
CHAT = Prompt(messages=(Message("user", "What happened in the harbour?"),))
TWO = (PROMPT, Prompt("The morning was cold"))
SETTINGS = GenerationConfig(max_sentences=5, max_tokens=10_000)
STAGED = replace(SETTINGS, stage_tokens=4)
SECRET = Secret(bytes(range(32)))


@dataclass(frozen=True)
class Case:
    """A way to write texts.

    Attributes:
        model: makes a backend.
        mark: makes the watermark, if there is one.
        config: how texts are written.
        prompts: what is answered side by side.
    """

    model: Callable[..., FakeBackend]
    mark: Callable[[FakeEncoder], Watermark | None]
    config: GenerationConfig
    prompts: Sequence[Prompt] = (PROMPT,)


def hamming(encoder: FakeEncoder) -> Watermark:
    return HammingMark(WatermarkKey(SECRET, HammingConfig(encoder=EncoderId.of(encoder))))


def bilinear(acceptance: float) -> Callable[[FakeEncoder], Watermark]:
    def mark(encoder: FakeEncoder) -> Watermark:
        config = BilinearConfig(encoder=EncoderId.of(encoder), acceptance=acceptance)
        return BilinearMark(WatermarkKey(SECRET, config))

    return mark


def pmark_offline(encoder: FakeEncoder) -> Watermark:
    config = PMarkOfflineConfig(encoder=EncoderId.of(encoder))
    return PMarkOffline(WatermarkKey(SECRET, config))


def pmark_online(encoder: FakeEncoder) -> Watermark:
    return PMarkOnline(WatermarkKey(SECRET, PMarkOnlineConfig(encoder=EncoderId.of(encoder))))


def longest(encoder: FakeEncoder) -> Any:
    return LongestOf(5)


def sir(encoder: FakeEncoder) -> Watermark:
    return SIR(key())


def nothing(encoder: FakeEncoder) -> None:
    return None


def speaking(model: Callable[..., FakeBackend], **options: Any) -> Callable[..., FakeBackend]:
    return lambda **lanes: model(**{**lanes, **options})


def stuck(request: Request) -> str:
    number = request.seed % 3
    return f" The same old sentence number {number} comes around again and again here. Then"


def silent(request: Request) -> str:
    return "" if request.seed % 4 else " Nobody said a word."


def messy(request: Request) -> str:
    """Headings, lists, code, sentences that end nowhere."""
    rng = Random(request.seed)
    parts = ["\n\n## A heading", "\n\n- one\n- two", " and so on", paragraph(rng), "Mr. Brown ran."]
    return "\n".join(rng.sample(parts, 4))


def ending(text: str, rng: Random) -> str | None:
    return None if rng.random() < 0.04 else say(text, rng)


def again(text: str, rng: Random) -> str:
    words = ["The", "old", "dog", "ran", "home", "again", "that", "day"]
    said = text[text.rfind(".") + 1 :].split()
    return f" {words[len(said)]}" if len(said) < len(words) else "."


class Full(WordByWord):
    """Has a context that is full after some words."""

    def candidate(self, request: Request) -> Candidate:
        candidate = super().candidate(request)
        if len(request.written.split()) < 60:
            return candidate
        return replace(
            candidate, pieces=(), truncated=False, failure=Failure("context_overflow", "Full.")
        )


class InParts(FakeLogitsBackend):
    """Continues one paragraph from wherever it stands."""

    def _text(self, request: Request, *, turns: str, begun: str) -> str:
        return paragraph(Random(5))[len(request.written) :]


def continuing(**lanes: Any) -> FakeBackend:
    whole = f"{paragraph(Random(5))}\n\n- a list\n- of things\n\n{paragraph(Random(6))}"
    return FakeBackend(
        sentences=lambda request: whole[len(request.written) :],
        capabilities=BackendCapabilities(continues=lambda prompt, sampling: not prompt.messages),
        **lanes,
    )


CASES = {
    "whole": Case(FakeBackend, hamming, SETTINGS, TWO),
    "whole, bilinear": Case(FakeBackend, bilinear(0.3), SETTINGS, TWO),
    "whole, chat": Case(FakeBackend, bilinear(0.3), SETTINGS, (CHAT, PROMPT)),
    "whole, free beginning": Case(FakeBackend, hamming, replace(SETTINGS, first="free")),
    "whole, tight": Case(FakeBackend, hamming, replace(SETTINGS, budget=3)),
    "whole, last": Case(FakeBackend, hamming, replace(SETTINGS, budget=3, fallback="last")),
    "whole, paper": Case(FakeBackend, hamming, replace(PAPER, max_sentences=5)),
    "whole, greedy": Case(
        FakeBackend, hamming, replace(SETTINGS, text_sampling=Sampling(temperature=0.0))
    ),
    "whole, pool": Case(FakeBackend, longest, SETTINGS),
    "whole, places": Case(FakeBackend, pmark_offline, SETTINGS),
    "whole, medians": Case(FakeBackend, pmark_online, replace(SETTINGS, max_sentences=3)),
    "whole, copies": Case(speaking(FakeBackend, sentences=stuck), hamming, SETTINGS),
    "whole, silent": Case(
        speaking(FakeBackend, sentences=silent), hamming, replace(SETTINGS, budget=2)
    ),
    "whole, messy": Case(speaking(FakeBackend, sentences=messy), bilinear(0.3), SETTINGS, TWO),
    "whole, tokens": Case(
        FakeBackend, bilinear(0.3), replace(SETTINGS, max_tokens=33, max_sentences=None), TWO
    ),
    "whole, long sentences": Case(
        FakeBackend, bilinear(0.3), replace(SETTINGS, max_sentence_tokens=9)
    ),
    "whole, context": Case(
        speaking(FakeBackend, context=60), hamming, replace(SETTINGS, max_sentences=None)
    ),
    "whole, stop": Case(
        FakeBackend, bilinear(0.3), replace(SETTINGS, stop=(". The wooden", "temple")), TWO
    ),
    "whole, stop between": Case(
        Teller, bilinear(0.3), replace(SETTINGS, stage_tokens=0, budget=2, stop=("it.\n\nThe",))
    ),
    "plain": Case(FakeBackend, nothing, SETTINGS, TWO),
    "plain, tokens": Case(FakeBackend, nothing, replace(SETTINGS, max_tokens=30), TWO),
    "plain, context": Case(speaking(FakeBackend, context=40), nothing, SETTINGS),
    "plain, stop": Case(FakeBackend, nothing, replace(SETTINGS, stop=(". The", "near"))),
    "parts": Case(continuing, nothing, replace(SETTINGS, in_parts=True, max_sentences=None)),
    "parts, sentences": Case(continuing, nothing, replace(SETTINGS, in_parts=True)),
    "parts, stop": Case(
        continuing,
        nothing,
        replace(SETTINGS, in_parts=True, max_sentences=None, stop=("things\n\nThe",)),
    ),
    "contexts": Case(InParts, sir, replace(SETTINGS, max_sentences=None)),
    "contexts, tokens": Case(InParts, sir, replace(SETTINGS, max_sentences=None, max_tokens=21)),
    "contexts, sentences": Case(InParts, sir, replace(SETTINGS, max_sentences=3)),
    "contexts, stop": Case(InParts, sir, replace(SETTINGS, max_sentences=None, stop=(". The",))),
    "stages": Case(WordByWord, bilinear(0.3), STAGED, TWO),
    "stages, three tokens": Case(WordByWord, bilinear(0.2), replace(STAGED, stage_tokens=3)),
    "stages, strict": Case(WordByWord, bilinear(0.02), replace(STAGED, budget=2)),
    "stages, last": Case(
        WordByWord, bilinear(0.02), replace(STAGED, budget=2, fallback="last")
    ),
    "stages, copies": Case(
        speaking(WordByWord, say=again), bilinear(0.1), replace(STAGED, budget=2)
    ),
    "stages, ending": Case(speaking(WordByWord, say=ending), bilinear(0.3), STAGED, TWO),
    "stages, silent": Case(
        speaking(WordByWord, say=lambda text, rng: None), bilinear(0.3), STAGED
    ),
    "stages, tokens": Case(
        WordByWord, bilinear(0.3), replace(STAGED, max_tokens=31, max_sentences=None)
    ),
    "stages, long sentences": Case(
        WordByWord, bilinear(0.3), replace(STAGED, max_sentence_tokens=9, budget=3)
    ),
    "stages, context": Case(Full, bilinear(0.3), replace(STAGED, max_sentences=None)),
    "stages, stop": Case(
        WordByWord, bilinear(0.3), replace(STAGED, stop=("garden", ". Stone", "y h")), TWO
    ),
    "stages, stop between": Case(
        Teller, bilinear(0.3), replace(STAGED, budget=2, stop=("it.\n\nThe",))
    ),
    "stages, careless": Case(
        speaking(Teller, careless=True), bilinear(0.3), replace(STAGED, budget=2, stop=("d. M",))
    ),
}  # fmt: skip


def write(case: Case, lanes: str, seed: int) -> list[Generation]:
    """What a case writes: every token that came back is paid for, and once."""
    encoder, backend = FakeEncoder(), case.model(**LANES[lanes])
    mark = case.mark(encoder)
    writer = Writer(backend, SentencexSplitter(), encoder, mark, case.config)
    generations = writer.write_many(case.prompts, seed=seed)
    drawn = sum(len(backend.candidate(request).pieces) for request in backend.drawn)
    costs = [generation.cost for generation in generations]
    assert drawn == sum(cost.drawn_tokens + cost.spare_tokens for cost in costs)
    assert drawn == sum(cost.written_tokens for cost in costs)
    assert len(backend.drawn) == sum(cost.requests for cost in costs)
    return generations


def compute(case: Case, seed: int) -> dict[str, Any]:
    """What there is to freeze of a case: texts, and costs by lanes."""
    texts: list[Any] = []
    costs: dict[str, Any] = {}
    for lanes in LANES:
        generations = write(case, lanes, seed)
        written = [_written(generation) for generation in generations]
        texts = texts or written
        assert written == texts, f"{lanes}: another text than at other widths"
        costs[lanes] = [_cost(generation) for generation in generations]
    return {"texts": texts, "costs": costs}


def _written(generation: Generation) -> dict[str, Any]:
    steps = []
    for step in generation.steps:
        length, lead, sentence = len(step.text), len(step.lead), len(step.sentence)
        drawn = [step.candidates, step.tokens, step.drawn_tokens]
        score = None if step.score is None else float(step.score)
        steps.append([length, lead, sentence, step.accepted, score, *drawn])
    assert "".join(step.text for step in generation.steps) == generation.text
    return {
        "text": generation.text,
        "sentences": len(generation.sentences),
        "stopped": generation.stopped,
        "failed": generation.failure is not None,
        "steps": steps,
    }


def _cost(generation: Generation) -> dict[str, int]:
    """All that is neither a time nor checked by `write`."""
    spent, checked = asdict(generation.cost), {each.name for each in fields(ModelUsage)}
    counts = [name for name in spent if not name.endswith("seconds") and name not in checked]
    return {name: spent[name] for name in counts if spent[name]}


def rewrite() -> None:
    """Write the file anew."""
    content = {
        name: {str(seed): compute(case, seed) for seed in SEEDS} for name, case in CASES.items()
    }
    FILE.write_text(
        json.dumps(content, indent=None, ensure_ascii=False)
        .replace('}, "', '},\n"')
        .replace('"costs"', '\n"costs"')
        + "\n",
        "utf-8",
    )


@pytest.mark.parametrize("name", CASES)
def test_texts_steps_and_costs_are_as_they_were(name: str) -> None:
    golden = json.loads(FILE.read_text("utf-8"))
    for seed in SEEDS:
        now, then = compute(CASES[name], seed), golden[name][str(seed)]
        assert now["costs"] == then["costs"]
        for mine, frozen in zip(now["texts"], then["texts"], strict=True):
            _compare(mine, frozen)


def _compare(mine: dict[str, Any], frozen: dict[str, Any]) -> None:
    steps, others = mine.pop("steps"), frozen.pop("steps")
    assert mine == frozen
    assert len(steps) == len(others)
    for step, other in zip(steps, others, strict=True):
        assert step[:4] + step[5:] == other[:4] + other[5:]
        if None in (step[4], other[4]):
            assert step[4] is other[4]
        else:
            assert step[4] == pytest.approx(other[4], rel=1e-6, abs=1e-6)


def test_nothing_that_was_frozen_is_gone() -> None:
    assert list(json.loads(FILE.read_text("utf-8"))) == list(CASES)
