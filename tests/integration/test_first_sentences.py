"""The embedded model and many texts at once: each gets its first sentence before others go on.

Work is counted in tokens, so that the speed of the machine plays no part.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import pytest

from hammingmark.assembly.backends import load_backend
from hammingmark.assembly.encoders import load_encoder
from hammingmark.assembly.keys import new_key
from hammingmark.assembly.marking import writer
from hammingmark.generation.config import GenerationConfig
from hammingmark.generation.engine import Engine, GenerationEvent, GenerationHandle
from hammingmark.generation.generate import Writer
from hammingmark.generation.scheduler import BOOST, TURN
from hammingmark.keys.key import Secret
from hammingmark.models.catalogue import DEFAULT_GENERATOR
from hammingmark.protocols import Backend
from hammingmark.records import GenerationStep, Message, Prompt

pytestmark = pytest.mark.slow

CONFIG = GenerationConfig(max_tokens=512)
SUBJECTS = ("rain", "bread", "lighthouses", "birds", "clocks", "snow", "the sea", "neighbours")


@pytest.fixture(scope="module")
def backend() -> Iterator[Backend]:
    with load_backend(DEFAULT_GENERATOR, parallel=8) as made:  # type: ignore[attr-defined]
        yield made


@dataclass
class Crowd:
    """Texts of one client, and the tokens that were drawn for each.

    Attributes:
        first: until its first accepted sentence.
        at_last: when the last text got its own.
        over: set when all texts have theirs.
    """

    count: int
    handles: dict[int, GenerationHandle] = field(default_factory=dict)
    first: dict[int, int] = field(default_factory=dict)
    at_last: dict[int, int] = field(default_factory=dict)
    over: threading.Event = field(default_factory=threading.Event)
    submitted: threading.Event = field(default_factory=threading.Event)

    def submit(self, engine: Engine, made: Writer, prompts: list[Prompt]) -> None:
        for number, prompt in enumerate(prompts):

            def receive(event: GenerationEvent, number: int = number) -> None:
                self.submitted.wait()
                if number not in self.first and (
                    not isinstance(event, GenerationStep) or event.accepted
                ):
                    self._begin(number)

            self.handles[number] = engine.submit(made, prompt, seed=number, receive=receive)
        self.submitted.set()

    def _begin(self, number: int) -> None:
        self.first[number] = self.handles[number].state.drawn_tokens
        if len(self.first) == self.count and not self.at_last:
            self.at_last = {n: each.state.drawn_tokens for n, each in self.handles.items()}
            self.over.set()


@pytest.mark.parametrize(("count", "is_chat"), [(8, True), (32, False)])
def test_no_text_goes_far_beyond_its_first_sentence_while_others_lack_theirs(
    backend: Backend, count: int, is_chat: bool
) -> None:
    encoder = load_encoder()
    key = replace(new_key(encoder), secret=Secret(bytes(range(1, 33))))
    made = writer(key, backend=backend, encoder=encoder, config=CONFIG)
    prompts = [
        Prompt(messages=(Message("user", f"Question {number}: tell me about {subject}."),))
        if is_chat
        else Prompt(f"Chapter {number}. This chapter is about {subject}.")
        for number in range(count)
        for subject in [SUBJECTS[number % len(SUBJECTS)]]
    ]
    engine = Engine(backend)
    crowd = Crowd(count)
    try:
        crowd.submit(engine, made, prompts)
        assert crowd.over.wait(1800)
    finally:
        engine.close()
    # One that has text goes on beside one that took so many tokens more, and ends its request.
    slowest = max(crowd.first.values())
    for number, first in crowd.first.items():
        most = max(first, slowest - (BOOST - TURN)) + CONFIG.max_sentence_tokens
        assert crowd.at_last[number] <= most
