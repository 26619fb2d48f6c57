"""What the model insists on is kept, in whole sentences and in stages."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from tests.unit.generation.test_stages import WordByWord

from hammingmark.generation.config import GenerationConfig
from hammingmark.generation.generate import Writer
from hammingmark.generation.insistence import kept_probabilities
from hammingmark.keys.config import EncoderId
from hammingmark.keys.key import Secret, WatermarkKey
from hammingmark.protocols import Splitter
from hammingmark.records import Generation, Message, Prompt, Request
from hammingmark.testing import FakeBackend, FakeEncoder
from hammingmark.watermarks.bilinear import BilinearConfig, BilinearMark

PROMPT = Prompt("It was late. The harbour slept.")
CHAT = Prompt(messages=(Message("user", "Is the harbour open?"),))
USUAL, OTHER = "The harbour is open.", "The wagon was late again."


def answering(*shares: float) -> FakeBackend:
    """A model with two sentences in mind, the usual one in a share of its draws."""
    (share,) = shares

    def draw(request: Request) -> str:
        return USUAL if Random(f"draw {request.seed}").random() < share else OTHER

    return FakeBackend(sentences=draw)


def make_writer(
    splitter: Splitter, backend: FakeBackend, *, secret: int = 0, **changes: object
) -> Writer:
    encoder = FakeEncoder()
    rule = BilinearConfig(encoder=EncoderId.of(encoder), acceptance=0.21)
    key = WatermarkKey(Secret(secret.to_bytes(32, "big")), rule)
    config = replace(GenerationConfig(max_tokens=10_000, max_sentences=1), **changes)  # type: ignore[arg-type]
    return Writer(backend, splitter, encoder, BilinearMark(key), config)


def test_an_answer_that_quotes_the_question_stays_usual(splitter: Splitter) -> None:
    """Four standard errors above one tenth."""
    question = Prompt(messages=(Message("user", f"Which sentence says it? It rained. {USUAL}"),))
    texts = Counter(
        make_writer(splitter, answering(0.9), secret=secret).write(question, seed=secret).text
        for secret in range(300)
    )
    assert texts[OTHER] / 300 < 0.1 + 4 * np.sqrt(0.09 / 300)


def test_the_closed_form_is_that_of_a_simulation() -> None:
    rng = np.random.default_rng(1)
    shares, accepted = np.array([0.5, 0.3, 0.2]), np.array([False, True, False])
    counts, draws, rounds = np.zeros(3), 0, 40_000
    for _ in range(rounds):
        seen: set[int] = set()
        while True:
            draws += 1
            i = int(rng.choice(3, p=shares))
            if accepted[i] or i in seen:
                break
            seen.add(i)
        counts[i] += 1
    kept, expected = kept_probabilities(shares.tolist(), accepted.tolist())
    assert kept.sum() == pytest.approx(1.0)
    assert np.abs(counts / rounds - kept).max() < 4 * 0.5 / np.sqrt(rounds)
    assert draws / rounds == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize("share", [0.9, 0.6])
def test_usual_answers_stay_usual_over_keys(splitter: Splitter, share: float) -> None:
    """Whole sentences follow the closed form; the deviation is four standard errors."""
    texts, keys = Counter[str](), 1200
    for secret in range(keys):
        writer = make_writer(splitter, answering(share), secret=secret)
        texts[writer.write(PROMPT, seed=secret).text] += 1
    (usual, other), _ = kept_probabilities([share, 1.0 - share], 0.21)
    assert texts[USUAL] + texts[OTHER] == keys
    error = 4 * np.sqrt(usual * other / keys)
    assert texts[OTHER] / keys == pytest.approx(other, abs=error)
    assert texts[OTHER] / keys < 1.0 - share + error, "no more often than unmarked"


def test_without_it_a_key_changes_the_answer(splitter: Splitter) -> None:
    texts = Counter[str]()
    for secret in range(200):
        writer = make_writer(splitter, answering(0.9), secret=secret, keeps_insisted=False)
        texts[writer.write(PROMPT, seed=secret).text] += 1
    assert texts[OTHER] > 60


def test_the_first_sentence_of_an_answer_is_the_first_draw(splitter: Splitter) -> None:
    """Whatever the key, and only there: a continued text is judged from its first sentence on."""
    backend = WordByWord()
    texts: set[str] = set()
    for secret in range(8):
        writer = make_writer(splitter, backend, secret=secret, max_sentences=2)
        generation = writer.write(CHAT, seed=3)
        first, second = generation.steps
        assert (first.accepted, first.insisted) == (None, False)
        assert first.candidates == 1
        assert second.accepted is not None
        texts.add(first.sentence)
    assert len(texts) == 1
    assert make_writer(splitter, backend).write(PROMPT, seed=3).steps[0].accepted is not None
    begun = Prompt(messages=(*CHAT.messages, Message("assistant", "It is late.")))
    assert make_writer(splitter, backend).write(begun, seed=3).steps[0].accepted is not None
    judged = make_writer(splitter, backend, answer_start="judged")
    assert judged.write(CHAT, seed=3).steps[0].accepted is not None


def in_stages(splitter: Splitter, share: float, *, secret: int) -> Generation:
    """One sentence of a model that insists on its beginning, and then on one of two ends."""
    beginning = ["The", "old", "dog", "of", "the", "sailor", "ran"]

    def say(text: str, rng: Random) -> str:
        if text.endswith("."):
            return f" {beginning[0]}"
        said = text[text.rfind(". ") + 1 :].split()
        if len(said) < len(beginning):
            return f" {beginning[len(said)]}"
        if len(said) == len(beginning):
            return " home" if rng.random() < share else " away"
        return "."

    writer = make_writer(splitter, WordByWord(say=say), secret=secret, stage_tokens=3)
    return writer.write(PROMPT, seed=secret)


def test_in_stages_the_usual_end_stays_usual(splitter: Splitter) -> None:
    keys, ends = 400, Counter[str]()
    insisted = drawn = 0
    for secret in range(keys):
        generation = in_stages(splitter, 0.9, secret=secret)
        (step,) = generation.steps
        ends[step.text.split()[-1]] += 1
        insisted += step.insisted
        drawn += generation.cost.drawn_tokens
        assert step.insisted <= (step.accepted is False)
    assert ends["away."] / keys < 0.1 + 4 * np.sqrt(0.09 / keys)
    assert insisted > keys / 3, "most keys refuse the usual sentence"
    assert drawn / keys < 40, "nothing is drawn in vain"


def test_what_comes_again_is_counted(splitter: Splitter) -> None:
    generations = [
        make_writer(splitter, answering(1.0), secret=secret).write(PROMPT, seed=1)
        for secret in range(12)
    ]
    refused = [generation for generation in generations if not generation.steps[0].accepted]
    assert 0 < len(refused) < 12
    for generation in refused:
        cost = generation.cost
        assert (cost.candidates, cost.insisted, cost.fallbacks, cost.constrained) == (2, 1, 0, 1)
        assert (cost.tried, cost.passed) == (2, 0)
