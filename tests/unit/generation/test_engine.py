"""Texts of many callers at once: each is what it would be alone, and nobody waits for ever."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from queue import SimpleQueue
from typing import Any

import pytest
from tests.unit.generation.test_generate import PROMPT, make_writer

from hammingmark.errors import BackendError, EncoderError
from hammingmark.generation.engine import Engine, GenerationEvent, GenerationHandle
from hammingmark.generation.generate import Writer
from hammingmark.protocols import FloatArray, Splitter
from hammingmark.records import Candidate, Generation, GenerationStep, Prompt
from hammingmark.testing import FakeBackend, FakeEncoder
from hammingmark.testing.fakes import FakeSession

PROMPTS = [Prompt(f"It was late in year {number}. The harbour slept.") for number in range(12)]


@dataclass
class Caller:
    """Somebody who waits for a text."""

    steps: list[GenerationStep] = field(default_factory=list)
    began: threading.Event = field(default_factory=threading.Event)
    ended: threading.Event = field(default_factory=threading.Event)
    whole: Generation | None = None

    def __call__(self, event: GenerationEvent) -> None:
        if isinstance(event, GenerationStep):
            self.steps.append(event)
            self.began.set()
        else:
            self.whole = event
            self.ended.set()

    def result(self) -> Generation:
        assert self.ended.wait(60)
        assert self.whole is not None
        assert "".join(step.text for step in self.steps) == self.whole.text
        return self.whole


class GatedBackend(FakeBackend):
    """Hands over candidates only while its gate is open, and is woken as real ones are."""

    def __init__(self, **named: Any) -> None:
        super().__init__(**named)
        self.gate = threading.Event()
        self.woken: SimpleQueue[None] = SimpleQueue()

    def open(self) -> GatedSession:
        self.sessions.append(session := GatedSession(self))
        return session


class GatedSession(FakeSession):
    """Waits for the gate, or until it is woken."""

    def __init__(self, backend: GatedBackend) -> None:
        super().__init__(backend)
        self._gated = backend
        self._event = threading.Event()

    def wake(self) -> None:
        self._event.set()

    def wait(self) -> list[Candidate]:
        while not self._gated.gate.is_set():
            if self._event.wait(0.01):
                self._event.clear()
                return []
        return super().wait()


@pytest.fixture
def engines() -> Iterator[list[Engine]]:
    started: list[Engine] = []
    yield started
    for engine in started:
        engine.close()


def begin(engines: list[Engine], writer: Writer) -> Engine:
    engines.append(Engine(writer.backend))
    return engines[-1]


def test_a_text_is_what_it_would_be_alone(splitter: Splitter, engines: list[Engine]) -> None:
    writer = make_writer(splitter, FakeBackend(parallel=4, width=2), max_sentences=6)
    engine = begin(engines, writer)
    callers = [Caller() for _ in PROMPTS]
    for number, (prompt, caller) in enumerate(zip(PROMPTS, callers, strict=True)):
        engine.submit(writer, prompt, seed=number, receive=caller)
    for number, (prompt, caller) in enumerate(zip(PROMPTS, callers, strict=True)):
        alone = make_writer(splitter, FakeBackend(), max_sentences=6).write(prompt, seed=number)
        assert caller.result().text == alone.text
        assert [step.text for step in caller.steps] == [step.text for step in alone.steps]
    assert engine.unfinished == 0
    assert len(writer.backend.sessions) == 1  # type: ignore[attr-defined]


def test_callers_join_while_others_wait(splitter: Splitter, engines: list[Engine]) -> None:
    """Who comes while the engine waits is asked for at once, beside those before."""
    backend = GatedBackend(parallel=8)
    writer = make_writer(splitter, backend, max_sentences=2)
    engine = begin(engines, writer)
    first, second = Caller(), Caller()
    engine.submit(writer, PROMPTS[0], seed=1, receive=first)
    while not backend.sessions or backend.sessions[0].most < 1:
        pass
    engine.submit(writer, PROMPTS[1], seed=2, receive=second)
    while backend.sessions[0].most < 2:
        pass
    assert not first.began.is_set()
    backend.gate.set()
    assert first.result().text
    assert second.result().text


def test_one_thread_serves_all(splitter: Splitter, engines: list[Engine]) -> None:
    backend = GatedBackend(parallel=4)
    writer = make_writer(splitter, backend, max_sentences=2)
    engine = begin(engines, writer)
    before = threading.active_count()
    callers = [Caller() for _ in range(50)]
    for number, caller in enumerate(callers):
        engine.submit(writer, PROMPT, seed=number, receive=caller)
    assert threading.active_count() == before
    while engine.unfinished < 50:
        pass
    assert engine.active == 4
    backend.gate.set()
    for caller in callers:
        assert caller.result().stopped == "sentences"


@pytest.mark.parametrize(("parallel", "width"), [(1, 1), (4, 1), (4, 2)])
def test_a_client_with_many_long_texts_keeps_nobody_waiting(
    splitter: Splitter, engines: list[Engine], parallel: int, width: int
) -> None:
    """Others are written in between, and every text is what it would be alone."""
    backend = GatedBackend(parallel=parallel, width=width)
    writer = make_writer(splitter, backend, max_sentences=25, max_tokens=10_000)
    short = make_writer(splitter, backend, max_sentences=2)
    engine = begin(engines, writer)
    order: list[str] = []
    callers = {f"long {number}": Caller() for number in range(6)}
    callers |= {name: Caller() for name in ("second", "third")}

    def submit(name: str, writer: Writer, number: int, client: str) -> None:
        def receive(event: GenerationEvent) -> None:
            order.append(name if isinstance(event, GenerationStep) else f"end of {name}")
            callers[name](event)

        engine.submit(writer, PROMPTS[number], seed=number, receive=receive, client=client)

    for number in range(6):
        submit(f"long {number}", writer, number, "first")
    while not backend.sessions or backend.sessions[0].most < parallel:
        pass
    submit("second", short, 6, "second")
    submit("third", short, 7, "third")
    while engine.unfinished < 8:
        pass
    backend.gate.set()
    for number, caller in enumerate(callers.values()):
        alone = make_writer(splitter, FakeBackend(), max_sentences=25, max_tokens=10_000)
        if number >= 6:
            alone = make_writer(splitter, FakeBackend(), max_sentences=2)
        assert caller.result().text == alone.write(PROMPTS[number], seed=number).text
    before = order[: max(order.index("end of second"), order.index("end of third"))]
    assert not any(each.startswith("end of long") for each in before)


def test_texts_of_one_client_have_their_first_sentences_before_later_ones(
    splitter: Splitter, engines: list[Engine]
) -> None:
    """They may be of many people behind one address; and each is what it would be alone."""
    backend = GatedBackend(parallel=2)
    writer = make_writer(splitter, backend, max_sentences=12, max_tokens=10_000)
    engine = begin(engines, writer)
    accepted: list[int] = []
    callers = [Caller() for _ in PROMPTS]

    def submit(number: int) -> None:
        def receive(event: GenerationEvent) -> None:
            if isinstance(event, GenerationStep) and event.accepted:
                accepted.append(number)
            callers[number](event)

        engine.submit(writer, PROMPTS[number], seed=number, receive=receive, client="one")

    for number in range(len(PROMPTS)):
        submit(number)
    while engine.unfinished < len(PROMPTS):
        pass
    backend.gate.set()
    for number, caller in enumerate(callers):
        alone = make_writer(splitter, FakeBackend(), max_sentences=12, max_tokens=10_000)
        assert caller.result().text == alone.write(PROMPTS[number], seed=number).text
    begun = max(accepted.index(number) for number in range(len(PROMPTS)))
    # A request in flight may end another sentence of a text that has its first one.
    assert max(accepted[:begun].count(number) for number in range(len(PROMPTS))) <= 2


def test_a_run_writes_its_texts_to_their_ends(splitter: Splitter) -> None:
    """Nobody waits for each of them: a model that goes back and forth reads every prompt again."""
    backend = FakeBackend(parallel=1)
    writer = make_writer(splitter, backend, max_sentences=12, max_tokens=10_000)
    writer.write_many(PROMPTS[:3], seed=1)
    prompts = [request.prompt for request in backend.drawn]
    assert prompts == sorted(prompts, key=PROMPTS.index)


def test_an_engine_knows_its_pace(splitter: Splitter, engines: list[Engine]) -> None:
    backend = GatedBackend(parallel=2)
    writer = make_writer(splitter, backend, max_sentences=2)
    engine = begin(engines, writer)
    callers = [Caller() for _ in range(3)]
    for number, caller in enumerate(callers):
        engine.submit(writer, PROMPTS[number], seed=number, receive=caller)
    assert engine.begun == 0
    backend.gate.set()
    costs = [caller.result().cost for caller in callers]
    while engine.unfinished:
        pass
    assert engine.begun == 0
    drawn = [cost.drawn_tokens + cost.spare_tokens for cost in costs]
    assert min(drawn) <= engine.pace.whole_tokens <= max(drawn)
    assert 0 < engine.pace.first_tokens <= engine.pace.whole_tokens


def test_a_cancelled_text_leaves_its_place_to_others(
    splitter: Splitter, engines: list[Engine]
) -> None:
    backend = GatedBackend(parallel=1)
    writer = make_writer(splitter, backend, max_sentences=3)
    engine = begin(engines, writer)
    first, second = Caller(), Caller()
    handle = engine.submit(writer, PROMPTS[0], seed=1, receive=first)
    engine.submit(writer, PROMPTS[1], seed=2, receive=second)
    handle.cancel()
    cancelled = first.result()
    assert (cancelled.stopped, cancelled.error) == ("error", "The text was cancelled.")
    backend.gate.set()
    assert second.result().stopped == "sentences"
    handle.cancel()  # once more, of what has long ended
    assert backend.drawn
    assert all(request.prompt == PROMPTS[1] for request in backend.drawn)


def test_cancelling_in_the_middle_keeps_what_was_written(
    splitter: Splitter, engines: list[Engine]
) -> None:
    writer = make_writer(splitter, FakeBackend(), max_sentences=500, max_tokens=100_000)
    engine = begin(engines, writer)
    caller = Caller()
    handles: list[GenerationHandle] = []
    there = threading.Event()

    def receive(event: GenerationEvent) -> None:
        caller(event)
        there.wait(60)
        if len(caller.steps) == 3:
            handles[0].cancel()

    handles.append(engine.submit(writer, PROMPT, seed=1, receive=receive))
    there.set()
    assert 3 <= len(caller.result().sentences) < 500


def test_a_model_that_goes_away_fails_those_under_way_and_nobody_after(
    splitter: Splitter, engines: list[Engine]
) -> None:
    backend = FakeBackend(fail_after=5)
    writer = make_writer(splitter, backend, max_sentences=20)
    engine = begin(engines, writer)
    callers = [Caller(), Caller()]
    for number, caller in enumerate(callers):
        engine.submit(writer, PROMPTS[number], seed=number, receive=caller)
    for caller in callers:
        assert (caller.result().stopped, caller.result().error) == ("error", "The model went away.")
    assert backend.sessions[0].closed
    backend.fail_after = None
    later = Caller()
    engine.submit(writer, PROMPT, seed=3, receive=later)
    assert later.result().stopped == "sentences"
    assert len(backend.sessions) == 2


def test_a_backend_that_cannot_be_had_fails_everybody_who_asks(
    splitter: Splitter, engines: list[Engine]
) -> None:
    class Absent(FakeBackend):
        def open(self) -> FakeSession:
            raise BackendError("There is no model.")

    writer = make_writer(splitter, Absent())
    engine = begin(engines, writer)
    callers = [Caller() for _ in range(3)]
    for caller in callers:
        engine.submit(writer, PROMPT, seed=1, receive=caller)
    assert [caller.result().error for caller in callers] == ["There is no model."] * 3


def test_an_encoder_that_fails_ends_its_own_texts(
    splitter: Splitter, engines: list[Engine]
) -> None:
    class Broken(FakeEncoder):
        def encode(self, sentences: Any) -> FloatArray:
            raise EncoderError("The encoder is down.")

    backend = FakeBackend(parallel=4)
    good = make_writer(splitter, backend, max_sentences=5, first="free")
    bad = replace(good, encoder=Broken())
    engine = begin(engines, good)
    callers = [Caller(), Caller()]
    for writer, caller in zip((good, bad), callers, strict=True):
        engine.submit(writer, PROMPT, seed=1, receive=caller)
    assert callers[0].result().stopped == "sentences"
    assert callers[1].result().error == "The encoder is down."


def test_a_sentence_that_an_encoder_refuses_ends_its_own_text(splitter: Splitter) -> None:
    """And not those that were embedded with it."""
    writer = make_writer(splitter, FakeBackend(parallel=8), max_sentences=4, first="free")
    whole = writer.write_many(PROMPTS[:4], seed=1)
    wrong, together = whole[1].sentences[2], []

    class Picky(FakeEncoder):
        def encode(self, sentences: Any) -> FloatArray:
            if wrong in sentences:
                together.append(len(sentences))
                raise EncoderError("I do not like this.")
            return super().encode(sentences)

    told = replace(writer, encoder=Picky()).write_many(PROMPTS[:4], seed=1)
    assert [each.error for each in told] == [None, "I do not like this.", None, None]
    origins = [each.failure.origin if each.failure else None for each in told]
    assert origins == [None, "encoder", None, None]
    assert [told[place].text for place in (0, 2, 3)] == [whole[place].text for place in (0, 2, 3)]
    assert together[0] > together[1]


def test_a_fault_of_one_caller_is_his_own(
    splitter: Splitter, engines: list[Engine], caplog: pytest.LogCaptureFixture
) -> None:
    writer = make_writer(splitter, FakeBackend(), max_sentences=3)
    engine = begin(engines, writer)

    def clumsy(event: GenerationEvent) -> None:
        raise RuntimeError("dropped")

    caller = Caller()
    engine.submit(writer, PROMPT, seed=1, receive=clumsy)
    engine.submit(writer, PROMPT, seed=1, receive=caller)
    assert caller.result().stopped == "sentences"
    assert "a caller failed" in caplog.text


def test_a_closed_engine_tells_those_who_wait_and_takes_nobody(
    splitter: Splitter, engines: list[Engine]
) -> None:
    backend = GatedBackend()
    writer = make_writer(splitter, backend)
    engine = begin(engines, writer)
    caller = Caller()
    engine.submit(writer, PROMPT, seed=1, receive=caller)
    engine.close()
    failure = caller.result().failure
    assert failure is not None
    assert (failure.kind, failure.origin) == ("closed", "model")
    assert all(session.closed for session in backend.sessions)
    with pytest.raises(BackendError) as caught:
        engine.submit(writer, PROMPT, seed=1, receive=caller)
    assert caught.value.kind == "closed"
    engine.close()


def test_a_text_ends_before_a_string(splitter: Splitter, engines: list[Engine]) -> None:
    whole = make_writer(splitter, FakeBackend(), max_sentences=8).write(PROMPT, seed=4).text
    word = whole.split()[-3]
    stopped = make_writer(splitter, FakeBackend(), max_sentences=8, stop=(word,)).write(
        PROMPT, seed=4
    )
    assert stopped.stopped == "end"
    assert stopped.text
    assert word not in stopped.text


def test_a_text_that_failed_is_resumed_and_ends_before_a_string_that_began_in_it(
    splitter: Splitter, engines: list[Engine]
) -> None:
    """What may be the beginning of the string is not released before."""
    first, second = "The river froze.", "The garden slept."

    class Broken(FakeEncoder):
        def encode(self, sentences: Any) -> FloatArray:
            if second not in sentences:
                return super().encode(sentences)
            raise EncoderError("The encoder is down.")

    def speaking(text: str) -> FakeBackend:
        return FakeBackend(sentences=lambda request: text[len(request.written) :])

    for stop, released, text, stopped in (
        ("froze. The mill", 0, "The river", "end"),
        ("mill", 1, f"{first} The", "end"),
        ("never", 1, f"{first} The mill turned.", "end"),
    ):
        writer = make_writer(splitter, speaking(f"{first} {second}"), first="free", stop=(stop,))
        engine, failed, resumed = begin(engines, writer), Caller(), Caller()
        writer = replace(writer, encoder=Broken())
        engine.submit(writer, PROMPT, seed=1, receive=failed)
        assert failed.ended.wait(60)
        part = failed.whole
        assert part is not None
        assert (part.text, part.failure and part.failure.origin, len(failed.steps)) == (
            first,
            "encoder",
            released,
        )
        plain = replace(writer, backend=speaking("  The mill turned."), watermark=None)
        prompt = Prompt(PROMPT.text + part.text)
        begin(engines, plain).submit(plain, prompt, seed=1, receive=resumed, resumes=part)
        assert resumed.ended.wait(60)
        whole = resumed.whole
        assert whole is not None
        assert (whole.text, whole.stopped, whole.failure) == (text, stopped, None)
        assert (*failed.steps, *resumed.steps) == whole.steps
        assert "".join(step.text for step in whole.steps) == whole.text
        assert tuple(splitter.split(text).carrying) == whole.sentences
        assert whole.cost.candidates == part.cost.candidates + 1
        assert whole.cost.tokens == sum(step.tokens for step in whole.steps)


def test_the_clock_runs_from_the_first_request(splitter: Splitter, engines: list[Engine]) -> None:
    """Also where all comes in one go, as unmarked text does."""
    backend = GatedBackend()
    writer = replace(make_writer(splitter, backend, max_sentences=2), watermark=None)
    engine = begin(engines, writer)
    caller = Caller()
    engine.submit(writer, PROMPT, seed=1, receive=caller)
    while not backend.sessions or backend.sessions[0].most < 1:
        pass
    time.sleep(0.02)
    backend.gate.set()
    assert caller.result().cost.seconds >= 0.02
