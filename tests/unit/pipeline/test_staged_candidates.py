"""Sentences drawn in stages, by a model that goes on in the middle of a sentence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random

import numpy as np
import pytest

from hammingmark.keys import Secret, WatermarkKey
from hammingmark.method_config import EncoderId
from hammingmark.pipeline.accepted_text import AcceptedText
from hammingmark.pipeline.generate import GenerationConfig, Writer
from hammingmark.protocols import Splitter
from hammingmark.records import Candidate, Generation, Prompt, Request, Sampling
from hammingmark.testing import FakeBackend, FakeEncoder
from hammingmark.testing.grammar import ADJECTIVES, NOUNS, PREPOSITIONS, VERBS
from hammingmark.watermarks.bilinear import BilinearConfig, BilinearMark
from hammingmark.watermarks.hamming import HammingConfig, HammingMark

PROMPT = Prompt("It was late. The harbour slept.")
_WORDS = [*NOUNS, *ADJECTIVES, *VERBS, *PREPOSITIONS]
Say = Callable[[str, Random], "str | None"]


def say(text: str, rng: Random) -> str | None:
    """The next token: a word with its space, or a full stop. Every word of a sentence may end it.

    Args:
        text: prompt, what was written, and the candidate so far.
        rng: decides.
    """
    said = text[text.rfind(". ") + 1 :].split()
    if text.endswith("."):
        return f" {rng.choice(_WORDS).capitalize()}"
    if len(said) >= 5 and rng.random() < 0.07:
        return "."
    return f" {rng.choice(_WORDS)}"


@dataclass
class WordByWord(FakeBackend):
    """Goes on with any text, word by word: the seed and what stands there decide.

    Attributes:
        say: the next token, or None at the end of the text.
        handed: a record of the candidates that came back.
    """

    say: Say = say
    handed: list[Candidate] = field(default_factory=list)

    def continues(self, prompt: Prompt) -> bool:
        return True

    def candidate(self, request: Request) -> Candidate:
        before = request.prompt.text + request.written
        rng = Random(f"{request.seed} {before}")
        pieces: list[str] = []
        made = None
        while made is None:
            piece = self.say(before + "".join(pieces), rng)
            if piece is None:
                made = Candidate(request.number, tuple(pieces), finished=True)
                break
            pieces.append(piece)
            if request.enough("".join(pieces)):
                made = Candidate(request.number, tuple(pieces), finished=False)
            elif len(pieces) == request.max_tokens:
                made = Candidate(request.number, tuple(pieces), finished=False, cut=True)
        return made

    @property
    def tokens(self) -> int:
        """Tokens of all that came back."""
        return sum(len(self.candidate(request).pieces) for request in self.drawn)


def writer(
    splitter: Splitter, backend: FakeBackend, *, acceptance: float = 0.3, **changes: object
) -> Writer:
    encoder = FakeEncoder()
    rule = BilinearConfig(encoder=EncoderId.of(encoder), acceptance=acceptance)
    key = WatermarkKey(Secret(bytes(range(32))), rule)
    usual = GenerationConfig(max_sentences=8, max_tokens=10_000, stage_tokens=4)
    config = replace(usual, **changes)  # type: ignore[arg-type]
    return Writer(backend, splitter, encoder, BilinearMark(key), config)


def is_staged(backend: FakeBackend) -> bool:
    """Whether anything was drawn from the middle of a sentence."""
    return any(request.max_tokens <= 8 for request in backend.drawn)


def shortest_first(asked: list[Request]) -> list[Request]:
    return sorted(asked, key=lambda request: (request.max_tokens, -request.number))


def check(splitter: Splitter, made: Writer, generation: Generation) -> None:
    """What was accepted is what detection reads, and it says the same of each sentence."""
    assert tuple(splitter.split(generation.text).carrying) == generation.sentences
    assert "".join(step.text for step in generation.steps) == generation.text
    assert isinstance(made.encoder, FakeEncoder)
    assert isinstance(made.watermark, BilinearMark)
    evidence = made.watermark.read(made.encoder.encode(generation.sentences)).evidence
    steps = [step for step in generation.steps if step.sentence]
    assert [step.sentence for step in steps] == list(generation.sentences)
    assert [step.accepted for step in steps] == [each.valid for each in evidence.scores]
    assert [step.score for step in steps] == [each.score for each in evidence.scores]


def test_every_accepted_sentence_counts_at_detection(splitter: Splitter) -> None:
    for seed in range(4):
        backend = WordByWord()
        made = writer(splitter, backend)
        generation = made.write(PROMPT, seed=seed)
        assert is_staged(backend)
        assert (generation.stopped, len(generation.sentences)) == ("sentences", 8)
        check(splitter, made, generation)
        assert all(step.accepted for step in generation.steps), "the budget is ample"


def test_the_same_text_is_written_at_every_width(splitter: Splitter) -> None:
    texts = set()
    for backend in (
        WordByWord(),
        WordByWord(width=2),
        WordByWord(width=8),
        WordByWord(width=8, order=shortest_first),
        WordByWord(width=8, order=lambda asked: asked[::-1]),
    ):
        generation = writer(splitter, backend).write(PROMPT, seed=3)
        texts.add((generation.text, generation.cost.drawn_tokens, generation.cost.candidates))
        assert max(session.most for session in backend.sessions) <= backend.width
    assert len(texts) == 1


def test_wider_takes_fewer_steps(splitter: Splitter) -> None:
    """Otherwise the test above would not try anything."""
    steps = {}
    for width in (1, 8):
        backend = WordByWord(width=width)
        generation = writer(splitter, backend).write(PROMPT, seed=3)
        steps[width] = backend.steps
        assert (generation.cost.spare > 0) is (width > 1)
    assert steps[8] < 0.7 * steps[1]


def test_many_prompts_get_the_texts_they_would_get_in_any_company(splitter: Splitter) -> None:
    prompts = [Prompt(f"It was late on day {i}. The harbour slept.") for i in range(4)]
    together = writer(splitter, WordByWord(width=2)).write_many(prompts, seed=9)
    wide = writer(splitter, WordByWord(width=8, order=shortest_first)).write_many(prompts, seed=9)
    alone = [
        writer(splitter, WordByWord()).stream(prompt, seed=9, first=number)
        for number, prompt in enumerate(prompts)
    ]
    for run in alone:
        assert list(run)
    texts = [generation.text for generation in together]
    assert len(set(texts)) == 4
    assert texts == [generation.text for generation in wide]
    assert texts == [run.generations()[0].text for run in alone]


@pytest.mark.parametrize("width", [1, 3])
def test_the_tokens_of_the_cost_are_those_that_the_model_handed_over(
    splitter: Splitter, width: int
) -> None:
    backend = WordByWord(width=width)
    generation = writer(splitter, backend).write(PROMPT, seed=5)
    cost = generation.cost
    assert cost.drawn_tokens + cost.spare_tokens == backend.tokens
    assert cost.drawn_tokens == sum(step.drawn_tokens for step in generation.steps)
    assert cost.candidates == sum(step.candidates for step in generation.steps)
    assert cost.tokens == sum(step.tokens for step in generation.steps)
    assert cost.tokens == len(generation.text.replace(".", " .").split())
    assert cost.passed == cost.constrained == 8
    assert cost.tried <= cost.candidates


def test_stages_take_fewer_tokens_than_whole_sentences(splitter: Splitter) -> None:
    """Of a strict rule; the ratio is 0.6 to 0.8 with these numbers."""
    drawn = {}
    for stage in (0, 4):
        texts = [
            writer(splitter, WordByWord(), acceptance=0.1, stage_tokens=stage, budget=64).write(
                PROMPT, seed=seed
            )
            for seed in range(6)
        ]
        assert not any(each.cost.fallbacks for each in texts)
        drawn[stage] = np.mean([each.cost.drawn_tokens / each.cost.tokens for each in texts])
    print(drawn)
    assert drawn[4] < 0.9 * drawn[0]
