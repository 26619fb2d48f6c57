"""A policy from outside, and the cost of what policies draw."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pytest

from hammingmark.generation.candidates import CandidatePolicy, SentenceCandidates
from hammingmark.generation.config import GenerationConfig
from hammingmark.generation.loop import GenerationLoop
from hammingmark.generation.sentence_task import Draw, Path, Place, SentenceTask
from hammingmark.generation.state import GenerationState
from hammingmark.generation.text import AcceptedText
from hammingmark.protocols import Splitter
from hammingmark.records import Candidate, Generation, Prompt, Request
from hammingmark.testing import FakeBackend

PROMPT = Prompt("It was late. The harbour slept.")
CONFIG = GenerationConfig(max_sentences=4, max_tokens=10_000)


class LongestOfThree:
    """Keeps the longest of three sentences."""

    budget = 3

    def __init__(self, task: SentenceTask) -> None:
        self._task = task

    def parallel_draws(self, acceptance: float, width: int) -> int:
        return self.budget

    def next_paths(self) -> Iterable[Path]:
        return [(number,) for number in range(self.budget)]

    def request(self, path: Path, *, number: int, seed: int) -> Request:
        return self._task.request(
            number=number,
            seed=seed,
            max_tokens=self._task.max_tokens,
            stop_condition=self._task.text.stop_condition(),
        )

    def read(self, path: Path, candidate: Candidate) -> Sequence[Draw]:
        candidate, overlap = self._task.cut(candidate)
        addition = self._task.text.read(candidate, truncated=candidate.truncated)
        return [Draw(path, len(candidate.pieces), addition, overlap=overlap)]

    def speculate(self, draws: Mapping[Path, Draw]) -> Draw | None:
        return None

    def decide(self, draws: Mapping[Path, Draw]) -> Draw | None:
        if len(draws) < self.budget:
            return None
        longest = max(draws.values(), key=lambda draw: (draw.tokens, draw.path))
        for draw in draws.values():
            draw.result = "kept" if draw is longest else "rejected"
        return longest


def write(
    splitter: Splitter, backend: FakeBackend, config: GenerationConfig = CONFIG
) -> tuple[Generation, list[str]]:
    """A text by that policy, and the steps as they were released."""
    state = GenerationState(
        AcceptedText(PROMPT, splitter),
        None,
        policy=LongestOfThree,
        logits=None,
        config=config,
        number=0,
        seed=1,
        encoder=None,
    )
    session = backend.open()
    loop = GenerationLoop(backend, session)
    released = [step.text for _, step in loop.add([state])]
    while loop.is_waiting:
        released += [step.text for _, step in loop.receive(session.wait(), 0.0)]
    state.close()
    return state.generation(), released


def test_a_policy_is_one_class(splitter: Splitter) -> None:
    texts = set()
    for width in (1, 2, 8):
        generation, released = write(splitter, FakeBackend(width=width))
        assert (generation.stopped, len(generation.steps)) == ("sentences", 4)
        assert "".join(released) == generation.text
        assert generation.cost.candidates == 4 * 3
        assert generation.cost.tried == 4 * 2, "the one that is kept is not judged"
        texts.add(generation.text)
    assert len(texts) == 1


def test_a_policy_need_not_handle_stop_strings(splitter: Splitter) -> None:
    whole, _ = write(splitter, FakeBackend())
    for place in range(3, len(whole.text), 11):
        stop = whole.text[place : place + 7]
        config = GenerationConfig(max_sentences=4, max_tokens=10_000, stop=(stop,))
        generation, released = write(splitter, FakeBackend(), config)
        assert stop not in generation.text
        assert "".join(released) == generation.text


@pytest.mark.parametrize("judged", [0, 1, 3])
def test_every_draw_is_counted_once(splitter: Splitter, judged: int) -> None:
    task = SentenceTask(AcceptedText(PROMPT, splitter), None, Place(), None, CONFIG)
    policy: CandidatePolicy = LongestOfThree(task)
    candidates = SentenceCandidates(task, policy)
    backend = FakeBackend()
    requests = list(
        candidates.requests(9, iter(range(9)), lambda *place: sum(place), acceptance=0.3, width=8)
    )
    assert len(requests) == candidates.in_flight == 3
    draws = [draw for each in requests for draw in candidates.receive(backend.candidate(each))]
    for draw in draws[:judged]:
        draw.result = "rejected"
    cost, spare, waste = candidates.cost, candidates.spare, candidates.waste
    assert (cost.candidates, spare.spare, waste.spare) == (judged, 3 - judged, 3)
    assert cost.drawn_tokens + spare.spare_tokens == waste.spare_tokens
    assert waste.spare_tokens == sum(draw.tokens for draw in draws)
