"""The rejection loop, driven by candidates whose order of finishing we decide."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from tests.errors import raises_naming

from hammingmark.errors import BackendError, InputError
from hammingmark.evaluation.natural import draw_pools
from hammingmark.generation.generate import PAPER, GenerationConfig, Run, Writer
from hammingmark.keys.config import EncoderId
from hammingmark.keys.key import Secret, WatermarkKey
from hammingmark.protocols import Capabilities, Splitter
from hammingmark.records import Candidate, Choice, Prompt, Request, Sampling
from hammingmark.testing import FakeBackend, FakeEncoder
from hammingmark.testing.fakes import sentence
from hammingmark.watermarks.hamming import HammingConfig, HammingMark


def shortest_first(asked: list[Request]) -> list[Request]:
    return sorted(asked, key=lambda request: len(sentence(Random(request.seed))))


def make_writer(splitter: Splitter, backend: FakeBackend, **changes: object) -> Writer:
    encoder = FakeEncoder()
    config_of_key = HammingConfig(encoder=EncoderId.of(encoder))
    key = WatermarkKey(Secret(bytes(32)), config_of_key)
    config = replace(GenerationConfig(max_sentences=20, max_tokens=10_000), **changes)  # type: ignore[arg-type]
    return Writer(backend, splitter, encoder, HammingMark(key), config)


PROMPT = Prompt("It was late. The harbour slept.")


def test_the_order_of_finishing_decides_nothing(splitter: Splitter) -> None:
    """Taking whichever candidate finishes first would favour short sentences; we do not."""
    one = make_writer(splitter, FakeBackend()).write(PROMPT, seed=3)
    many = make_writer(splitter, FakeBackend(width=8, order=shortest_first)).write(PROMPT, seed=3)
    assert len(one.sentences) == 20
    assert many.text == one.text


@pytest.mark.parametrize("seed", [-1, 1.5, "x", None])
def test_a_seed_is_a_whole_number(splitter: Splitter, seed: object) -> None:
    with raises_naming(InputError, "seed"):
        make_writer(splitter, FakeBackend()).write(Prompt("It rained."), seed=seed)  # type: ignore[arg-type]


def test_prompts_are_texts_chats_and_nothing_else(splitter: Splitter) -> None:
    writer = make_writer(splitter, FakeBackend())
    assert (
        writer.write("It rained.", seed=1).text == writer.write(Prompt("It rained."), seed=1).text
    )
    assert writer.write([{"role": "user", "content": "Why?"}], seed=1).text
    with raises_naming(InputError, "write_many", "[prompt]"):
        writer.write_many("It rained.", seed=1)
    with raises_naming(InputError, "int"):
        writer.write(5, seed=1)  # type: ignore[arg-type]


def test_a_text_that_does_not_fit_is_the_only_one_that_fails(splitter: Splitter) -> None:
    writer = make_writer(splitter, FakeBackend(context=1000))
    prompts = [Prompt("One."), Prompt("word " * 1000), Prompt("Two.")]
    good, bad, other = writer.write_many(prompts, seed=1)
    assert good.error is None
    assert other.error is None
    assert good.text
    assert other.text
    assert (bad.text, bad.stopped) == ("", "error")
    assert bad.error is not None
    assert bad.error.startswith("The prompt has 1000 words")


def test_natural_candidates_are_not_drawn_from_a_prompt_that_does_not_fit(
    splitter: Splitter,
) -> None:
    backend = FakeBackend(context=5)
    with pytest.raises(BackendError) as caught:
        draw_pools(
            ["A prompt that ends here."], backend=backend, splitter=splitter, count=2, seed=0
        )
    assert caught.value.kind == "context_overflow"


def test_taking_the_first_to_finish_would_have_shown(splitter: Splitter) -> None:
    """The yardstick for the test above: in this set-up the wrong rule gives shorter sentences."""
    backend = FakeBackend(width=8, order=shortest_first)
    writer = make_writer(splitter, backend)
    fair = np.mean([len(s) for seed in range(6) for s in writer.write(PROMPT, seed=seed).sentences])
    lengths = np.array([len(sentence(Random(each))) for each in range(2000)])
    natural, unfair = np.mean(lengths), np.mean(lengths[:1998].reshape(-1, 3).min(axis=1))
    assert unfair < 0.8 * natural
    assert abs(fair - natural) < 0.1 * natural


def test_every_accepted_sentence_counts_at_detection(splitter: Splitter) -> None:
    writer = make_writer(splitter, FakeBackend())
    generation = writer.write(PROMPT, seed=5)
    assert tuple(splitter.split(generation.text).carrying) == generation.sentences
    assert writer.watermark is not None
    evidence = writer.watermark.read(writer.encoder.encode(generation.sentences)).evidence
    steps = generation.steps[1:]
    assert [step.accepted for step in steps] == [each.valid for each in evidence.scores]
    assert [step.score for step in steps] == [each.details["match"] for each in evidence.scores]


def test_the_budget_is_kept_and_the_best_or_the_last_is_taken(splitter: Splitter) -> None:
    tight = make_writer(splitter, FakeBackend(), budget=3)
    generation = tight.write(PROMPT, seed=1)
    assert generation.cost.fallbacks > 0
    assert all(step.candidates <= 3 for step in generation.steps)
    assert sum(step.accepted is False for step in generation.steps) == generation.cost.fallbacks
    last = make_writer(splitter, FakeBackend(), budget=3, fallback="last").write(PROMPT, seed=1)
    for best_step, last_step in zip(generation.steps, last.steps, strict=True):
        if best_step.text != last_step.text:
            assert best_step.accepted is False
            assert (best_step.score or 0) >= (last_step.score or 0)
            break
    else:
        pytest.fail("the two rules never differed")


def test_the_cost_adds_up(splitter: Splitter) -> None:
    backend = FakeBackend()
    generation = make_writer(splitter, backend).write(PROMPT, seed=2)
    assert generation.cost.candidates == sum(step.candidates for step in generation.steps)
    assert generation.cost.candidates == len(backend.drawn)
    assert generation.cost.drawn_tokens >= generation.cost.tokens > 0
    assert (
        generation.cost.tried
        == generation.cost.candidates - generation.cost.repeats - generation.cost.misfits
    )
    assert generation.stopped == "sentences"


def test_an_error_keeps_what_was_accepted(splitter: Splitter) -> None:
    whole = make_writer(splitter, FakeBackend()).write(PROMPT, seed=4)
    broken = make_writer(splitter, FakeBackend(fail_after=30)).write(PROMPT, seed=4)
    assert broken.stopped == "error"
    assert broken.error == "The model went away."
    assert 0 < len(broken.text) < len(whole.text)
    assert whole.text.startswith(broken.text)


def test_many_prompts_get_the_texts_they_would_get_in_any_company(splitter: Splitter) -> None:
    prompts = [Prompt(f"It was late on day {i}. The harbour slept.") for i in range(5)]
    together = make_writer(splitter, FakeBackend()).write_many(prompts, seed=9)
    wide = make_writer(splitter, FakeBackend(width=4, order=shortest_first)).write_many(
        prompts, seed=9
    )
    assert [generation.text for generation in together] == [generation.text for generation in wide]
    assert together[0].text == make_writer(splitter, FakeBackend()).write(prompts[0], seed=9).text


def test_near_copies_are_refused_by_default_and_kept_by_the_papers_rule(splitter: Splitter) -> None:
    def stuck(request: Request) -> str:
        return " The same old sentence comes around again and again here. Then"

    guarded = make_writer(splitter, FakeBackend(sentences=stuck), max_sentences=3).write(
        PROMPT, seed=1
    )
    assert guarded.cost.repeats == 32  # every candidate for the second and third sentence
    paper = replace(PAPER, max_sentences=3)
    writer = make_writer(splitter, FakeBackend(sentences=stuck))
    assert replace(writer, config=paper).write(PROMPT, seed=1).cost.repeats == 0


def test_limits(splitter: Splitter) -> None:
    assert (
        len(make_writer(splitter, FakeBackend(), max_sentences=1).write(PROMPT, seed=1).steps) == 1
    )
    short = make_writer(splitter, FakeBackend(), max_tokens=30).write(PROMPT, seed=1)
    assert short.stopped == "tokens"
    for wrong in ({"max_tokens": 0}, {"budget": 0}, {"max_sentences": 0}):
        with raises_naming(InputError, *wrong, *wrong.values()):
            make_writer(splitter, FakeBackend(), **wrong)


def test_a_model_that_says_nothing_ends_the_text(splitter: Splitter) -> None:
    silent = FakeBackend(sentences=lambda request: "")
    generation = make_writer(splitter, silent).write(PROMPT, seed=1)
    assert generation.text == ""
    assert generation.stopped == "end"


def test_steps_stream_as_they_are_accepted(splitter: Splitter) -> None:
    backend = FakeBackend()
    run = make_writer(splitter, backend).stream(PROMPT, seed=1)
    steps = iter(run)
    first = next(steps)
    drawn = len(backend.drawn)
    rest = list(steps)
    assert drawn < len(backend.drawn)
    assert "".join(step.text for step in [first, *rest]) == run.generations()[0].text


def test_with_lanes_to_spare_marked_text_takes_no_longer_than_unmarked(splitter: Splitter) -> None:
    """A sentence is continued on a guess while longer candidates before it are being written."""
    ticks = {}
    texts = set()
    for width in (1, 6, 24):
        backend = FakeBackend(width=width, parallel=width)
        generation = make_writer(splitter, backend, max_sentences=40).write(PROMPT, seed=1)
        texts.add(generation.text)
        assert [session.most <= width for session in backend.sessions] == [True]
        # One token a sentence is read beyond its end and is not emitted.
        ticks[width] = backend.steps / (generation.cost.tokens + len(generation.steps))
        assert generation.cost.spare + generation.cost.candidates >= len(backend.drawn)
    print(ticks)
    assert len(texts) == 1
    assert ticks[1] > 3.0
    assert ticks[6] < 0.6 * ticks[1]
    assert ticks[24] < 1.15


class LongestOf:
    """A method that keeps the best of N candidates, here by its first coordinate."""

    name = "longest"
    key = None
    statistics = ("none",)
    judges_beginnings = False

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(sentences=self)  # type: ignore[arg-type]

    def read(self, values: np.ndarray) -> object:
        raise AssertionError("nothing is to be detected")

    def __init__(self, pool: int) -> None:
        self.pool = pool

    def choose(self, previous: np.ndarray | None, candidates: np.ndarray) -> Choice:
        scores = tuple(float(row[0]) for row in candidates)
        return Choice(int(np.argmax(scores)), True, scores)


def test_a_method_may_take_the_best_of_n(splitter: Splitter) -> None:
    config = GenerationConfig(max_sentences=6, max_tokens=10_000)
    texts = {}
    for width in (1, 5):
        backend = FakeBackend(width=width, order=shortest_first)
        writer = Writer(backend, splitter, FakeEncoder(), LongestOf(5), config)  # type: ignore[arg-type]
        generation = writer.write(PROMPT, seed=3)
        assert all(step.candidates == 5 for step in generation.steps)
        texts[width] = generation
    assert texts[1].text == texts[5].text
    encoder = FakeEncoder()
    chosen = encoder.encode(texts[1].sentences)[:, 0].mean()
    assert chosen > 0.1  # the best of five normal deviates of spread 1/8


def test_what_was_judged_is_not_spare(splitter: Splitter) -> None:
    """Neither the rest of a pool, nor of a budget that was spent in vain: one lane draws none."""
    tight = make_writer(splitter, FakeBackend(), budget=3)
    for seed in range(3):
        generation = tight.write(PROMPT, seed=seed)
        assert generation.cost.fallbacks > 0
        assert generation.cost.spare == generation.cost.spare_tokens == 0


class MarksNothing(LongestOf):
    """A method that declares no capability."""

    capabilities = Capabilities()  # type: ignore[assignment]


def test_a_method_that_marks_nothing_does_not_write_unmarked_text(splitter: Splitter) -> None:
    with raises_naming(InputError, "'longest'"):
        Writer(FakeBackend(), splitter, FakeEncoder(), MarksNothing(5))  # type: ignore[arg-type]


class Misspelt(LongestOf):
    """A method that declares what it does not have."""

    choose = property()  # type: ignore[assignment]


def test_a_method_without_what_it_declares_does_not_write_unmarked_text(splitter: Splitter) -> None:
    writer = Writer(FakeBackend(), splitter, FakeEncoder(), Misspelt(5))  # type: ignore[arg-type]
    with pytest.raises(AttributeError):
        writer.write(PROMPT, seed=1)


def test_steps_can_be_awaited(splitter: Splitter) -> None:
    async def collect(run: Run, most: int) -> list[str]:
        found = []
        async for step in run:
            found.append(step.text)
            if len(found) == most:
                break
        return found

    writer = make_writer(splitter, FakeBackend())
    whole = writer.write(PROMPT, seed=1)
    assert "".join(asyncio.run(collect(writer.stream(PROMPT, seed=1), 99))) == whole.text
    part = asyncio.run(collect(writer.stream(PROMPT, seed=1), 3))
    assert whole.text.startswith("".join(part))


class CoarseBackend(FakeBackend):
    """Hands over a whole candidate as one piece, cut at its limit, as some backends do."""

    def candidate(self, request: Request) -> Candidate:
        candidate = super().candidate(
            replace(request, max_tokens=6, stop_condition=lambda text: False)
        )
        return replace(candidate, pieces=(candidate.text,))


@pytest.mark.parametrize("marked", [True, False])
def test_a_text_that_was_cut_does_not_go_on(splitter: Splitter, marked: bool) -> None:
    writer = make_writer(splitter, CoarseBackend(), max_tokens=50, max_sentences=None)
    if not marked:
        writer = replace(writer, watermark=None)
    generation = writer.write(PROMPT, seed=1)
    assert generation.stopped == "tokens"
    assert len(generation.steps) == 1
    assert tuple(splitter.split(generation.text).carrying) == generation.sentences


@pytest.mark.parametrize("sampling", [Sampling(temperature=0.0), Sampling(top_k=1)])
def test_without_a_choice_of_tokens_one_candidate_per_sentence_is_drawn(
    splitter: Splitter, sampling: Sampling
) -> None:
    """All others would be the same; what the rule refuses is a fallback."""
    backend = FakeBackend(width=4)
    generation = make_writer(splitter, backend, text_sampling=sampling).write(PROMPT, seed=1)
    assert len(generation.sentences) == 20
    assert [step.candidates for step in generation.steps] == [1] * 20
    assert len(backend.drawn) == 20
    refused = sum(step.accepted is False for step in generation.steps)
    assert generation.cost.fallbacks == refused > 0


@pytest.mark.parametrize("marked", [True, False])
def test_a_text_ends_where_the_context_does_and_says_so(splitter: Splitter, marked: bool) -> None:
    """With the first candidate that has no room: others would only be chosen for being short."""
    writer = make_writer(splitter, FakeBackend(context=80), max_sentences=None)
    generation = replace(writer, watermark=writer.watermark if marked else None).write(
        PROMPT, seed=1
    )
    assert generation.stopped == "error"
    assert generation.error == "The context of 80 words is full."
    assert len(generation.sentences) >= 4
    assert tuple(splitter.split(generation.text).carrying) == generation.sentences


@pytest.mark.parametrize("most", [1, 3])
def test_a_text_without_a_mark_has_as_many_sentences_as_asked_for(
    splitter: Splitter, most: int
) -> None:
    writer = replace(make_writer(splitter, FakeBackend(), max_sentences=most), watermark=None)
    generation = writer.write(PROMPT, seed=1)
    assert len(generation.sentences) == most
    assert generation.stopped == "sentences"
    assert tuple(splitter.split(generation.text).carrying) == generation.sentences
    whole = replace(writer, config=replace(writer.config, max_sentences=None, max_tokens=200))
    assert whole.write(PROMPT, seed=1).text.startswith(generation.text)


class Tokens(LongestOf):
    """A method that marks tokens."""

    stage = "logits"
    width = 1
    condition_size = 0

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(tokens=self)  # type: ignore[arg-type]

    def process(self, scores: object, step: object) -> object:
        return scores


def test_a_method_that_marks_tokens_needs_logits(splitter: Splitter) -> None:
    with raises_naming(BackendError, "'longest'", "fake"):
        Writer(FakeBackend(), splitter, None, Tokens(1))  # type: ignore[arg-type]
