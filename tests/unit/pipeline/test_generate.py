"""The rejection loop, driven by candidates whose order of finishing we decide."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from tests.keys import hamming_key

from hammingmark.errors import BackendError, InputError
from hammingmark.keys import Secret
from hammingmark.pipeline.generate import PAPER, GenerationConfig, Run, Writer
from hammingmark.pipeline.natural import draw_pools
from hammingmark.protocols import Splitter
from hammingmark.records import Candidate, Choice, Prompt, Request, Sampling
from hammingmark.watermarks.hamming import HammingMark

WORDS = [
    "river",
    "stone",
    "cloud",
    "garden",
    "winter",
    "market",
    "letter",
    "silver",
    "engine",
    "harbour",
]


class RandomEncoder:
    """A unit vector for each sentence, decided by its text."""

    name = "random"
    dimension = 64
    fingerprint = "random"

    def encode(self, sentences: Sequence[str]) -> np.ndarray:
        rows = [
            np.random.default_rng(list(each.encode())).standard_normal(64) for each in sentences
        ]
        made = np.array(rows).reshape(-1, 64)
        return (made / np.linalg.norm(made, axis=1, keepdims=True)).astype(np.float32)


@dataclass
class ScriptedBackend:
    """Draws sentences of random words and length from the seed; finishes in the order we say."""

    width: int = 1
    parallel: int = 8
    order: Callable[[list[Request]], list[Request]] = lambda asked: asked
    fail_after: int = 10**9
    sentences: Callable[[Request], str] | None = None
    drawn: list[int] = field(default_factory=list)
    name: str = "scripted"

    def open(self) -> ScriptedSession:
        return ScriptedSession(self)

    def close(self) -> None:
        pass


class ScriptedSession:
    def __init__(self, backend: ScriptedBackend) -> None:
        self.backend = backend
        self.asked: list[Request] = []
        self.closed = False

    def submit(self, request: Request) -> None:
        self.asked.append(request)

    def cancel(self, number: int) -> None:
        self.asked = [request for request in self.asked if request.number != number] or self.asked

    def wait(self) -> list[Candidate]:
        if len(self.backend.drawn) >= self.backend.fail_after:
            raise BackendError("the model went away")
        request = self.backend.order(self.asked)[0]
        self.asked.remove(request)
        self.backend.drawn.append(request.number)
        text = (self.backend.sentences or sentence)(request)
        return [Candidate(request.number, tuple(f" {word}" for word in text.split()), False)]

    def close(self) -> None:
        self.closed = True


def sentence(request: Request) -> str:
    dice = np.random.default_rng(request.seed)
    words = dice.choice(WORDS, size=int(dice.integers(3, 15)))
    return f"The {' '.join(words)} {request.seed}. Then"


def shortest_first(asked: list[Request]) -> list[Request]:
    return sorted(asked, key=lambda request: len(sentence(request)))


def writer(splitter: Splitter, backend: ScriptedBackend, **changes: object) -> Writer:
    key = hamming_key(Secret(bytes(32)), "random", fingerprint="random", dimension=64)
    config = replace(GenerationConfig(max_sentences=20, max_tokens=10_000), **changes)  # type: ignore[arg-type]
    return Writer(backend, splitter, RandomEncoder(), HammingMark(key), config)


PROMPT = Prompt("It was late. The harbour slept.")


def test_the_order_of_finishing_decides_nothing(splitter: Splitter) -> None:
    """Taking whichever candidate finishes first would favour short sentences; we do not."""
    one = writer(splitter, ScriptedBackend()).write(PROMPT, seed=3)
    many = writer(splitter, ScriptedBackend(width=8, order=shortest_first)).write(PROMPT, seed=3)
    assert len(one.sentences) == 20
    assert many.text == one.text


@pytest.mark.parametrize("seed", [-1, 1.5, "x", None])
def test_a_seed_is_a_whole_number(splitter: Splitter, seed: object) -> None:
    with pytest.raises(InputError, match="A seed is a whole number"):
        writer(splitter, ScriptedBackend()).write(Prompt("It rained."), seed=seed)  # type: ignore[arg-type]


def test_prompts_are_texts_chats_and_nothing_else(splitter: Splitter) -> None:
    made = writer(splitter, ScriptedBackend())
    assert made.write("It rained.", seed=1).text == made.write(Prompt("It rained."), seed=1).text
    assert made.write([{"role": "user", "content": "Why?"}], seed=1).text
    with pytest.raises(InputError, match="takes several prompts"):
        made.write_many("It rained.", seed=1)
    with pytest.raises(InputError, match="of the type int"):
        made.write(5, seed=1)  # type: ignore[arg-type]


def test_a_text_that_does_not_fit_is_the_only_one_that_fails(splitter: Splitter) -> None:
    made = writer(splitter, RefusingBackend())
    good, bad, other = made.write_many([Prompt("One."), Prompt("LONG"), Prompt("Two.")], seed=1)
    assert good.error is None
    assert other.error is None
    assert good.text
    assert other.text
    assert (bad.text, bad.stopped, bad.error) == ("", "error", "The prompt is too long.")


def test_natural_candidates_are_not_drawn_from_a_prompt_that_does_not_fit(
    splitter: Splitter,
) -> None:
    class Refusing(RefusingBackend):
        refused = "A prompt that ends here."

    with pytest.raises(BackendError, match="too long"):
        draw_pools([Refusing.refused], backend=Refusing(), splitter=splitter, count=2, seed=0)


class RefusingBackend(ScriptedBackend):
    """Has no room for one of the prompts."""

    refused = "LONG"

    def open(self) -> ScriptedSession:
        return RefusingSession(self)


class RefusingSession(ScriptedSession):
    def wait(self) -> list[Candidate]:
        assert isinstance(self.backend, RefusingBackend)
        for request in self.asked:
            if request.prompt.text == self.backend.refused:
                self.asked.remove(request)
                trouble = "The prompt is too long."
                return [Candidate(request.number, (), finished=False, trouble=trouble)]
        return super().wait()


def test_taking_the_first_to_finish_would_have_shown(splitter: Splitter) -> None:
    """The yardstick for the test above: in this set-up the wrong rule gives shorter sentences."""
    backend = ScriptedBackend(width=8, order=shortest_first)
    made = writer(splitter, backend)
    fair = np.mean([len(s) for seed in range(6) for s in made.write(PROMPT, seed=seed).sentences])
    dice = np.random.default_rng(0)
    unfair = np.mean(
        [
            min(
                len(sentence(Request(0, PROMPT, "", int(s), 9, bool)))
                for s in dice.integers(1e6, size=3)
            )
            for _ in range(500)
        ]
    )
    natural = np.mean(
        [
            len(sentence(Request(0, PROMPT, "", int(s), 9, bool)))
            for s in dice.integers(1e6, size=500)
        ]
    )
    assert unfair < 0.8 * natural
    assert abs(fair + len(" Then") - natural) < 0.1 * natural


def test_every_accepted_sentence_counts_at_detection(splitter: Splitter) -> None:
    made = writer(splitter, ScriptedBackend())
    generation = made.write(PROMPT, seed=5)
    assert tuple(splitter.split(generation.text).carrying) == generation.sentences
    assert made.watermark is not None
    evidence = made.watermark.read(made.encoder.encode(generation.sentences)).evidence
    steps = generation.steps[1:]
    assert [step.accepted for step in steps] == [each.valid for each in evidence.scores]
    assert [step.score for step in steps] == [each.details["match"] for each in evidence.scores]


def test_the_budget_is_kept_and_the_best_or_the_last_is_taken(splitter: Splitter) -> None:
    tight = writer(splitter, ScriptedBackend(), budget=3)
    generation = tight.write(PROMPT, seed=1)
    assert generation.cost.fallbacks > 0
    assert all(step.candidates <= 3 for step in generation.steps)
    assert sum(step.accepted is False for step in generation.steps) == generation.cost.fallbacks
    last = writer(splitter, ScriptedBackend(), budget=3, fallback="last").write(PROMPT, seed=1)
    for best_step, last_step in zip(generation.steps, last.steps, strict=True):
        if best_step.text != last_step.text:
            assert best_step.accepted is False
            assert (best_step.score or 0) >= (last_step.score or 0)
            break
    else:
        pytest.fail("the two rules never differed")


def test_the_cost_adds_up(splitter: Splitter) -> None:
    backend = ScriptedBackend()
    generation = writer(splitter, backend).write(PROMPT, seed=2)
    assert generation.cost.candidates == sum(step.candidates for step in generation.steps)
    assert generation.cost.candidates == len(backend.drawn)
    assert generation.cost.drawn_tokens >= generation.cost.tokens > 0
    assert (
        generation.cost.tried
        == generation.cost.candidates - generation.cost.repeats - generation.cost.misfits
    )
    assert generation.stopped == "sentences"


def test_an_error_keeps_what_was_accepted(splitter: Splitter) -> None:
    whole = writer(splitter, ScriptedBackend()).write(PROMPT, seed=4)
    broken = writer(splitter, ScriptedBackend(fail_after=30)).write(PROMPT, seed=4)
    assert broken.stopped == "error"
    assert broken.error == "the model went away"
    assert 0 < len(broken.text) < len(whole.text)
    assert whole.text.startswith(broken.text)


def test_many_prompts_get_the_texts_they_would_get_in_any_company(splitter: Splitter) -> None:
    prompts = [Prompt(f"It was late on day {i}. The harbour slept.") for i in range(5)]
    together = writer(splitter, ScriptedBackend()).write_many(prompts, seed=9)
    wide = writer(splitter, ScriptedBackend(width=4, order=shortest_first)).write_many(
        prompts, seed=9
    )
    assert [generation.text for generation in together] == [generation.text for generation in wide]
    assert together[0].text == writer(splitter, ScriptedBackend()).write(prompts[0], seed=9).text


def test_near_copies_are_refused_by_default_and_kept_by_the_papers_rule(splitter: Splitter) -> None:
    def stuck(request: Request) -> str:
        return "The same old sentence comes around again and again here. Then"

    guarded = writer(splitter, ScriptedBackend(sentences=stuck), max_sentences=3).write(
        PROMPT, seed=1
    )
    assert guarded.cost.repeats == 32  # every candidate for the second and third sentence
    paper = replace(PAPER, max_sentences=3)
    made = writer(splitter, ScriptedBackend(sentences=stuck))
    assert replace(made, config=paper).write(PROMPT, seed=1).cost.repeats == 0


def test_limits(splitter: Splitter) -> None:
    assert (
        len(writer(splitter, ScriptedBackend(), max_sentences=1).write(PROMPT, seed=1).steps) == 1
    )
    short = writer(splitter, ScriptedBackend(), max_tokens=30).write(PROMPT, seed=1)
    assert short.stopped == "tokens"
    for wrong in ({"max_tokens": 0}, {"budget": 0}, {"max_sentences": 0}):
        with pytest.raises(InputError, match=next(iter(wrong))):
            writer(splitter, ScriptedBackend(), **wrong)


def test_a_model_that_says_nothing_ends_the_text(splitter: Splitter) -> None:
    silent = ScriptedBackend(sentences=lambda request: "")
    generation = writer(splitter, silent).write(PROMPT, seed=1)
    assert generation.text == ""
    assert generation.stopped == "end"


def test_steps_stream_as_they_are_accepted(splitter: Splitter) -> None:
    backend = ScriptedBackend()
    run = writer(splitter, backend).stream(PROMPT, seed=1)
    steps = iter(run)
    first = next(steps)
    drawn = len(backend.drawn)
    rest = list(steps)
    assert drawn < len(backend.drawn)
    assert "".join(step.text for step in [first, *rest]) == run.generations()[0].text


class ClockedBackend(ScriptedBackend):
    """Every candidate under way gains one token a tick, however many there are."""

    ticks = 0
    most = 0

    def open(self) -> ScriptedSession:
        return ClockedSession(self)


class ClockedSession(ScriptedSession):
    def __init__(self, backend: ClockedBackend) -> None:
        super().__init__(backend)
        self.clock = backend
        self.age: dict[int, int] = {}

    def cancel(self, number: int) -> None:
        self.asked = [request for request in self.asked if request.number != number]

    def wait(self) -> list[Candidate]:
        while True:
            self.clock.ticks += 1
            self.clock.most = max(self.clock.most, len(self.asked))
            done = []
            for request in list(self.asked):
                self.age[request.number] = self.age.get(request.number, 0) + 1
                pieces = tuple(f" {word}" for word in sentence(request).split())
                if self.age[request.number] >= len(pieces):
                    self.asked.remove(request)
                    self.clock.drawn.append(request.number)
                    done.append(Candidate(request.number, pieces, False))
            if done:
                return done


def test_with_lanes_to_spare_marked_text_takes_no_longer_than_unmarked(splitter: Splitter) -> None:
    """A sentence is continued on a guess while longer candidates before it are being written."""
    ticks = {}
    texts = set()
    for width in (1, 6, 24):
        backend = ClockedBackend(width=width, parallel=width)
        generation = writer(splitter, backend, max_sentences=40).write(PROMPT, seed=1)
        texts.add(generation.text)
        assert backend.most <= width
        # One token a sentence is read beyond its end and is not emitted.
        ticks[width] = backend.ticks / (generation.cost.tokens + len(generation.steps))
        assert generation.cost.spare + generation.cost.candidates >= len(backend.drawn)
    print(ticks)
    assert len(texts) == 1
    assert ticks[1] > 3.0
    assert ticks[6] < 0.6 * ticks[1]
    assert ticks[24] < 1.15


class LongestOf:
    """A method that keeps the best of N candidates, here by its first coordinate."""

    name = "longest"
    key_id = "none"

    def __init__(self, pool: int) -> None:
        self.pool = pool

    def choose(self, previous: np.ndarray | None, candidates: np.ndarray) -> Choice:
        scores = tuple(float(row[0]) for row in candidates)
        return Choice(int(np.argmax(scores)), True, scores)


def test_a_method_may_take_the_best_of_n(splitter: Splitter) -> None:
    config = GenerationConfig(max_sentences=6, max_tokens=10_000)
    texts = {}
    for width in (1, 5):
        backend = ScriptedBackend(width=width, order=shortest_first)
        made = Writer(backend, splitter, RandomEncoder(), LongestOf(5), config)  # type: ignore[arg-type]
        generation = made.write(PROMPT, seed=3)
        assert all(step.candidates == 5 for step in generation.steps)
        texts[width] = generation
    assert texts[1].text == texts[5].text
    encoder = RandomEncoder()
    chosen = encoder.encode(texts[1].sentences)[:, 0].mean()
    assert chosen > 0.1  # the best of five normal deviates of spread 1/8


def test_steps_can_be_awaited(splitter: Splitter) -> None:
    async def collect(run: Run, most: int) -> list[str]:
        found = []
        async for step in run:
            found.append(step.text)
            if len(found) == most:
                break
        return found

    made = writer(splitter, ScriptedBackend())
    whole = made.write(PROMPT, seed=1)
    assert "".join(asyncio.run(collect(made.stream(PROMPT, seed=1), 99))) == whole.text
    part = asyncio.run(collect(made.stream(PROMPT, seed=1), 3))
    assert whole.text.startswith("".join(part))


class CoarseSession(ScriptedSession):
    """Hands over a whole candidate as one piece, cut at its limit, as some backends do."""

    def wait(self) -> list[Candidate]:
        request = self.asked.pop(0)
        self.backend.drawn.append(request.number)
        words = sentence(request).split()[: min(request.max_tokens, 6)]
        return [Candidate(request.number, (" " + " ".join(words),), finished=False, cut=True)]


class CoarseBackend(ScriptedBackend):
    def open(self) -> ScriptedSession:
        return CoarseSession(self)


@pytest.mark.parametrize("marked", [True, False])
def test_a_text_that_was_cut_does_not_go_on(splitter: Splitter, marked: bool) -> None:
    made = writer(splitter, CoarseBackend(), max_tokens=50, max_sentences=None)
    if not marked:
        made = replace(made, watermark=None)
    generation = made.write(PROMPT, seed=1)
    assert generation.stopped == "tokens"
    assert len(generation.steps) == 1
    assert tuple(splitter.split(generation.text).carrying) == generation.sentences


def test_at_temperature_0_one_candidate_per_sentence_is_drawn(splitter: Splitter) -> None:
    """All others would be the same; what the rule refuses is a fallback."""
    backend = ScriptedBackend(width=4)
    generation = writer(splitter, backend, text_sampling=Sampling(temperature=0.0)).write(
        PROMPT, seed=1
    )
    assert len(generation.sentences) == 20
    assert [step.candidates for step in generation.steps] == [1] * 20
    assert len(backend.drawn) == 20
    refused = sum(step.accepted is False for step in generation.steps)
    assert generation.cost.fallbacks == refused > 0


class FullSession(ScriptedSession):
    """A model whose context ends, in the middle of a sentence, after so many words."""

    room = 100

    def wait(self) -> list[Candidate]:
        request = self.asked[0]
        used = len(f"{request.prompt.text} {request.written}".split())
        (candidate,) = super().wait()
        pieces = candidate.pieces[: max(1, self.room - used)]
        full = len(pieces) < len(candidate.pieces)
        trouble = "The context is full." if full else None
        return [Candidate(request.number, pieces, False, cut=full, trouble=trouble)]


class FullBackend(ScriptedBackend):
    def open(self) -> ScriptedSession:
        return FullSession(self)


@pytest.mark.parametrize("marked", [True, False])
def test_a_text_ends_where_the_context_does_and_says_so(splitter: Splitter, marked: bool) -> None:
    """With the first candidate that has no room: others would only be chosen for being short."""
    long = FullBackend(sentences=lambda request: " ".join(sentence(request) for _ in range(20)))
    made = writer(splitter, FullBackend() if marked else long, max_sentences=None)
    generation = replace(made, watermark=made.watermark if marked else None).write(PROMPT, seed=1)
    assert generation.stopped == "error"
    assert generation.error == "The context is full."
    assert len(generation.sentences) >= 4
    assert tuple(splitter.split(generation.text).carrying) == generation.sentences
