"""Prompt to marked text: the only rejection loop.

Candidates are judged in the order in which they were drawn, however soon each is finished:
taking the first to finish would favour short sentences. Several documents are written at once,
each at its own pace, over one session of the backend.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count, islice
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from hammingmark.errors import BackendError, InputError
from hammingmark.pipeline.document import Addition, Page, last_sentence
from hammingmark.protocols import Backend, Encoder, SentenceWatermark, Session, Splitter
from hammingmark.records import Candidate, Cost, Draft, Prompt, Request, Sampling, Written


@dataclass(frozen=True, slots=True)
class Settings:
    """How a text is written.

    Attributes:
        max_tokens: tokens to emit at most.
        max_sentences: sentences to emit at most; None for any number.
        budget: B, candidates a sentence at most.
        fallback: what to keep when the budget is spent: the ``best`` match, or the ``last``
            candidate as in the paper.
        first: whether the first sentence of a continued text is centred on the ``prompt``'s last
            sentence or ``free``; in a chat it is always free.
        most_repeated: a candidate is refused if a larger share of its four-word runs has been
            said before; 1 never refuses.
        max_sentence_tokens: a candidate that is longer without an end is refused.
        sampling: how the model draws.
    """

    max_tokens: int = 200
    max_sentences: int | None = None
    budget: int = 16
    fallback: Literal["best", "last"] = "best"
    first: Literal["prompt", "free"] = "prompt"
    most_repeated: float = 0.3
    max_sentence_tokens: int = 128
    sampling: Sampling = field(default_factory=Sampling)

    def __post_init__(self) -> None:
        for name in ("max_tokens", "budget", "max_sentence_tokens"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} must be at least 1, not {getattr(self, name)}.")
        if self.max_sentences is not None and self.max_sentences < 1:
            raise InputError(f"max_sentences must be at least 1, not {self.max_sentences}.")


PAPER = Settings(fallback="last", most_repeated=1.0)
"""Exactly the paper's settings: B = 16, the last candidate on failure, no guard."""


@dataclass(frozen=True)
class Writer:
    """Writes texts sentence by sentence.

    Attributes:
        backend: proposes candidates.
        splitter: must be the one that detection will use.
        encoder: likewise.
        watermark: decides which candidate to keep; None writes unmarked text by the same loop.
        settings: limits and habits.
    """

    backend: Backend
    splitter: Splitter
    encoder: Encoder
    watermark: SentenceWatermark | None
    settings: Settings = field(default_factory=Settings)

    def write(self, prompt: Prompt, *, seed: int) -> Draft:
        """Answer one prompt."""
        return self.write_many([prompt], seed=seed)[0]

    def write_many(self, prompts: Sequence[Prompt], *, seed: int) -> list[Draft]:
        """Answer several prompts at once; a prompt's text depends on its place and on no other."""
        run = Run(self, prompts, seed=seed)
        for _ in run:
            pass
        return run.drafts()

    def stream(self, prompt: Prompt, *, seed: int) -> Run:
        """Answer one prompt, sentence by sentence: iterate, then ask for ``drafts``."""
        return Run(self, [prompt], seed=seed)


class Run:
    """Texts in the making; iterating yields each step as soon as it is accepted."""

    def __init__(self, writer: Writer, prompts: Sequence[Prompt], *, seed: int) -> None:
        self._writer = writer
        self._tasks = [
            _Task(writer, number, prompt, seed=seed) for number, prompt in enumerate(prompts)
        ]
        self._numbers = count()
        self._error: str | None = None
        self._began = time.perf_counter()
        self._tried = 0
        self._passed = 0

    def __iter__(self) -> Iterator[Written]:
        session = self._writer.backend.open(self._writer.settings.sampling)
        asked: dict[int, _Task] = {}
        try:
            yield from self._settle(session, asked)
            while asked:
                for candidate in session.wait():
                    if candidate.number in asked:  # otherwise it had been given up
                        asked.pop(candidate.number).receive(candidate)
                yield from self._settle(session, asked)
        except BackendError as error:
            self._error = str(error)
        finally:
            session.close()

    def drafts(self) -> list[Draft]:
        """What has been written, finished or not."""
        seconds = time.perf_counter() - self._began
        return [task.draft(self._error, seconds=seconds) for task in self._tasks]

    @property
    def acceptance(self) -> float:
        """The share of candidates accepted so far, starting from the theory's third."""
        return (self._passed + 1.0) / (self._tried + 3.0)

    def _settle(self, session: Session, asked: dict[int, _Task]) -> Iterator[Written]:
        """Judge what can be judged, emit what is decided, and ask for what is needed next."""
        for task in self._active():
            while not task.ended:
                tried, passed = task.cost.tried, task.cost.passed
                step = task.judge()
                self._tried += task.cost.tried - tried
                self._passed += task.cost.passed - passed
                if step is None:
                    break
                for number in task.forget():
                    session.cancel(number)
                    del asked[number]
                if step.text:
                    yield step
        for task in self._active():
            self._ask(task, session, asked)

    def _active(self) -> list[_Task]:
        """The texts in hand: no more than the backend draws at once and can keep in mind."""
        unfinished = (task for task in self._tasks if not task.ended)
        return list(islice(unfinished, self._writer.backend.parallel))

    def _ask(self, task: _Task, session: Session, asked: dict[int, _Task]) -> None:
        """Keep as many candidates under way as it takes to expect an acceptance."""
        share = max(1, self._writer.backend.parallel // len(self._active()))
        width = min(share, self._writer.backend.width, math.ceil(1.0 / self.acceptance))
        if self._writer.watermark is None:
            width = 1
        for request in task.requests(width, self._numbers):
            asked[request.number] = task
            session.submit(request)


class _Task:
    """One document of a run: its page, and the candidates for its next sentence."""

    def __init__(self, writer: Writer, number: int, prompt: Prompt, *, seed: int) -> None:
        self.number = number
        self.cost = Cost()
        self.ended: str | None = None
        self._writer = writer
        self._page = Page(prompt, writer.splitter)
        self._seed = seed
        self._steps: list[Written] = []
        self._previous = self._first_centre(prompt)
        self._clear()

    def _first_centre(self, prompt: Prompt) -> NDArray[np.float32] | None:
        writer = self._writer
        if writer.watermark is None or writer.settings.first == "free":
            return None
        sentence = last_sentence(prompt, writer.splitter)
        return None if sentence is None else self._encode([sentence])[0]

    def _clear(self) -> None:
        self._drawn = 0
        self._judged = 0
        self._under_way: dict[int, int] = {}
        self._received: dict[int, Candidate] = {}
        self._drawn_tokens = 0
        self._empty = 0
        self._prose = False
        self._best: tuple[int, Addition, NDArray[np.float32] | None] | None = None

    @property
    def _left(self) -> int:
        return self._writer.settings.max_tokens - self.cost.tokens

    def requests(self, width: int, numbers: Iterator[int]) -> Iterable[Request]:
        """New requests until ``width`` candidates are under way or the budget is asked for."""
        settings = self._writer.settings
        free = self._writer.watermark is None
        enough = _never if free else self._page.enough()
        longest = self._left if free else min(self._left, settings.max_sentence_tokens)
        while len(self._under_way) < width and self._drawn < settings.budget:
            request = Request(
                number=next(numbers),
                prompt=self._page.prompt,
                written=self._page.written,
                seed=_seed(self._seed, self.number, len(self._steps), self._drawn),
                max_tokens=longest,
                enough=enough,
            )
            self._under_way[request.number] = self._drawn
            yield request
            self._drawn += 1

    def receive(self, candidate: Candidate) -> None:
        """Take a candidate that has finished."""
        self._received[self._under_way.pop(candidate.number)] = candidate
        self._drawn_tokens += len(candidate.pieces)

    def forget(self) -> list[int]:
        """The numbers of candidates that cannot be chosen any more; begin the next sentence."""
        numbers = list(self._under_way)
        self._clear()
        return numbers

    def judge(self) -> Written | None:
        """Judge candidates in drawing order; the step they lead to, or None if more are needed."""
        settings = self._writer.settings
        while self._judged in self._received:
            candidate = self._received.pop(self._judged)
            self._judged += 1
            self._count(candidates=1)
            step = self._judge_one(candidate)
            if step is not None:
                return step
        if self._judged < settings.budget:
            return None
        return self._fall_back()

    def _judge_one(self, candidate: Candidate) -> Written | None:
        writer, settings = self._writer, self._writer.settings
        if writer.watermark is None:
            return self._keep(self._page.read_all(candidate), None, accepted=None, match=None)
        cut = candidate.cut and self._left <= settings.max_sentence_tokens
        addition = self._page.read(candidate, cut=cut)
        if addition is None:
            self._empty += not candidate.text.strip()
            self._count(misfits=1)
            return None
        if not addition.sentence:
            # Whether prose follows is decided by the first candidate that fits. Letting any later
            # one decide, untested, would fill marked texts with what cannot carry a mark.
            if self._prose:
                self._count(misfits=1)
                return None
            return self._keep(addition, None, accepted=None, match=None)
        self._prose = True
        repeated = self._page.repeats(addition.sentence) > settings.most_repeated
        if repeated:
            self._count(repeats=1)
            if self._best is None:
                self._best = (-1, addition, None)
            return None
        embedding = self._encode([addition.sentence])[0]
        if self._previous is None:
            return self._keep(addition, embedding, accepted=None, match=None)
        choice = writer.watermark.choose(self._previous, embedding[None])
        match = choice.matches[0]
        self._count(tried=1, passed=int(choice.accepted))
        if choice.accepted:
            return self._keep(addition, embedding, accepted=True, match=match)
        if self._best is None or settings.fallback == "last" or match > self._best[0]:
            self._best = (match, addition, embedding)
        return None

    def _fall_back(self) -> Written:
        """The budget is spent: keep the best candidate, or the last, or end the text."""
        if self._best is None:
            self.ended = "end" if self._empty else "error"
            return Written(self.number, "", "", None, None, self._judged, 0, self._drawn_tokens)
        _, addition, embedding = self._best
        self._count(fallbacks=1)
        if embedding is None:
            embedding = self._encode([addition.sentence])[0]
        if self._previous is None or self._writer.watermark is None:
            return self._keep(addition, embedding, accepted=None, match=None)
        choice = self._writer.watermark.choose(self._previous, embedding[None])
        return self._keep(addition, embedding, accepted=choice.accepted, match=choice.matches[0])

    def _keep(
        self,
        addition: Addition,
        embedding: NDArray[np.float32] | None,
        *,
        accepted: bool | None,
        match: int | None,
    ) -> Written:
        raw = addition.raw if self._page.written else addition.raw.lstrip()
        self._page.add(addition)
        if embedding is not None:
            self._previous = embedding
        step = Written(
            document=self.number,
            text=raw,
            sentence=addition.sentence,
            accepted=accepted,
            match=match,
            candidates=self._judged,
            tokens=addition.tokens,
            drawn_tokens=self._drawn_tokens,
        )
        self._count(
            tokens=addition.tokens,
            drawn_tokens=self._drawn_tokens,
            constrained=int(accepted is not None),
        )
        if step.text:
            self._steps.append(step)
        sentences = sum(bool(each.sentence) for each in self._steps)
        limit = self._writer.settings.max_sentences
        if addition.ends:
            self.ended = "end"
        elif self._left <= 0:
            self.ended = "tokens"
        elif limit is not None and sentences >= limit:
            self.ended = "sentences"
        elif not addition.raw.strip():
            self.ended = "end"
        return step

    def draft(self, error: str | None, *, seconds: float) -> Draft:
        """What has been written."""
        stopped = self.ended or "error"
        trouble = error if self.ended is None else None
        if self.ended == "error":
            trouble = (
                f"No candidate of {self._writer.settings.budget} had a sentence that fits; "
                "the model may need another prompt or a larger sentence limit."
            )
        return Draft(
            text=self._page.written,
            sentences=self._page.sentences,
            steps=tuple(self._steps),
            cost=replace(self.cost, seconds=seconds),
            stopped=stopped,
            error=trouble,
        )

    def _count(self, **more: int) -> None:
        self.cost = replace(
            self.cost, **{name: getattr(self.cost, name) + value for name, value in more.items()}
        )

    def _encode(self, sentences: list[str]) -> NDArray[np.float32]:
        began = time.perf_counter()
        embeddings = self._writer.encoder.encode(sentences)
        spent = time.perf_counter() - began
        self.cost = replace(self.cost, encoder_seconds=self.cost.encoder_seconds + spent)
        return embeddings


def _never(text: str) -> bool:
    """An unmarked text is drawn in one go."""
    return False


def _seed(seed: int, document: int, step: int, draw: int) -> int:
    """A seed for one candidate that depends on nothing but its place."""
    state = np.random.SeedSequence([seed, document, step, draw]).generate_state(1)
    return int(state[0]) & 0x7FFFFFFF
