"""Prompt to marked text: the only rejection loop.

Several documents are written at once, each at its own pace, over one session of the backend.
Where the backend has lanes to spare, the next sentence is begun on a guess: the first candidate
that satisfies the rule is continued while those drawn before it are still being written. A wrong
guess costs lanes and nothing else; the text is the same as if candidates were drawn one by one.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count, islice

from hammingmark.core.stopping import Stages
from hammingmark.errors import BackendError, InputError
from hammingmark.pipeline.accepted_text import AcceptedText, last_sentence
from hammingmark.pipeline.generation_config import PAPER, GenerationConfig
from hammingmark.pipeline.generation_state import Cancel, GenerationState
from hammingmark.pipeline.sentence_candidates import SentenceCandidates
from hammingmark.prompts import Asked, as_prompt
from hammingmark.protocols import (
    Backend,
    ContinuesText,
    Encoder,
    ForetellsScores,
    LogitsBackend,
    ReadsSamples,
    SentenceWatermark,
    Session,
    Splitter,
    TokenWatermark,
    Watermark,
)
from hammingmark.records import Candidate, Generation, GenerationStep, Prompt

__all__ = ["PAPER", "GenerationConfig", "Run", "Writer"]


@dataclass(frozen=True)
class Writer:
    """Writes texts sentence by sentence.

    Attributes:
        backend: proposes candidates.
        splitter: must be the one that detection will use.
        encoder: likewise.
        watermark: decides which candidate to keep, or changes the logits of each step; None
            writes unmarked text by the same loop.
        config: limits and habits.
    """

    backend: Backend
    splitter: Splitter
    encoder: Encoder | None
    watermark: Watermark | None
    config: GenerationConfig = field(default_factory=GenerationConfig)

    def __post_init__(self) -> None:
        marks = isinstance(self.watermark, (SentenceWatermark, TokenWatermark))
        if self.watermark is not None and not marks:
            raise InputError(
                f"The method {self.watermark.name!r} marks neither sentences nor tokens: it lacks "
                "a part of protocols.SentenceWatermark, or of protocols.TokenWatermark."
            )
        if isinstance(self.watermark, TokenWatermark) and not isinstance(
            self.backend, LogitsBackend
        ):
            raise BackendError(
                f"The method {self.watermark.name!r} marks tokens, and {self.backend.name} does "
                "not let anybody at its logits. Use a model like transformers:smollm2."
            )

    def __repr__(self) -> str:
        key = self.watermark.key.id if self.watermark else None
        return f"Writer({self.backend.name!r}, key_id={key!r})"

    def write(self, prompt: Asked, *, seed: int) -> Generation:
        """Answer one prompt."""
        return self.write_many([prompt], seed=seed)[0]

    def write_many(
        self, prompts: Sequence[Asked], *, seed: int, first: int = 0
    ) -> list[Generation]:
        """Answer several prompts at once; a prompt's text depends on its place and on no other.

        Args:
            prompts: what to answer.
            seed: decides every draw.
            first: place of the first of them, if they are a part of a longer list.
        """
        if isinstance(prompts, str):
            raise InputError("write_many takes several prompts, not one. Write [prompt], or write.")
        run = self.stream(*prompts, seed=seed, first=first)
        for _ in run:
            pass
        return run.generations()

    def stream(self, *prompts: Asked, seed: int, first: int = 0) -> Run:
        """Answer prompts, sentence by sentence: iterate, then ask for ``generations``."""
        return Run(self, prompts, seed=seed, first=first)


class Run:
    """Texts in the making; iterating yields each step as soon as it is accepted."""

    def __init__(
        self, writer: Writer, given: Sequence[Asked], *, seed: int, first: int = 0
    ) -> None:
        if not isinstance(seed, int) or seed < 0:
            raise InputError(f"A seed is a whole number, 0 or above, not {seed!r:.40}.")
        prompts = [each if isinstance(each, Prompt) else as_prompt(each) for each in given]
        self._writer = writer
        self._documents = [
            _begin(writer, number, prompt, seed=seed)
            for number, prompt in enumerate(prompts, start=first)
        ]
        self._numbers = count()
        self._asked: dict[int, tuple[GenerationState, SentenceCandidates]] = {}
        self._given_up: dict[int, GenerationState] = {}
        self._error: str | None = None
        self._tried = 0
        self._passed = 0

    def __iter__(self) -> Generator[GenerationStep, None, None]:
        session = self._writer.backend.open()
        try:
            yield from self._settle(session, self._active())
            while self._asked:
                began = time.perf_counter()
                arrived = session.wait()
                waited = time.perf_counter() - began
                yield from self._settle(session, self._receive(arrived, waited))
        except BackendError as error:
            self._error = str(error)
        finally:
            session.close()
            for document in self._documents:
                document.close()

    async def __aiter__(self) -> AsyncIterator[GenerationStep]:
        """The same without holding up an event loop; leaving early ends the run."""
        steps = iter(self)
        try:
            while (step := await asyncio.to_thread(next, steps, None)) is not None:
                yield step
        finally:
            await asyncio.to_thread(steps.close)

    def generations(self) -> list[Generation]:
        """What has been written, finished or not."""
        return [document.generation(self._error) for document in self._documents]

    @property
    def acceptance(self) -> float:
        """The share of candidates accepted so far, starting from the theory's third."""
        return (self._passed + 1.0) / (self._tried + 3.0)

    def _receive(self, arrived: Sequence[Candidate], waited: float) -> list[GenerationState]:
        """Hand candidates to their sentences_ahead, and embed what has to be embedded in one go.

        Returns:
            The texts that got any.
        """
        touched: dict[GenerationState, None] = {}
        sentences: list[str] = []
        homes: list[tuple[GenerationState, SentenceCandidates, int]] = []
        active = self._active()
        for document in active:
            document.spend(model_seconds=waited / len(active))
        for candidate in arrived:
            if candidate.number in self._given_up:
                wasted = len(candidate.pieces)
                self._given_up.pop(candidate.number).spend(spare=1, spare_tokens=wasted)
            if candidate.number not in self._asked:
                continue
            document, candidates = self._asked.pop(candidate.number)
            touched[document] = None
            draw, sentence = candidates.receive(candidate)
            if sentence is not None:
                sentences.append(sentence)
                homes.append((document, candidates, draw))
        if not sentences:
            return list(touched)
        began = time.perf_counter()
        assert self._writer.encoder is not None
        embeddings = self._writer.encoder.encode(sentences)
        share = (time.perf_counter() - began) / len(sentences)
        for (document, candidates, draw), embedding in zip(homes, embeddings, strict=True):
            candidates.place_embedding(draw, embedding)
            document.spend(encoder_seconds=share)
        return list(touched)

    def _settle(
        self, session: Session, touched: Sequence[GenerationState]
    ) -> Iterator[GenerationStep]:
        """Judge what can be judged, emit what is decided, and ask for what is needed next.

        Args:
            session: where to ask.
            touched: the texts for which anything has changed; the others need not be looked at.
        """
        for document in touched:
            for step, took in document.settle(self._cancel(session, document)):
                self._tried += took.tried
                self._passed += took.passed
                if step.text:
                    yield step
        active = self._active()
        changed = set(touched)
        for document in active:
            if document not in changed and document.is_asked:
                continue
            document.look_ahead(self._cancel(session, document))
            lanes = min(
                self._writer.backend.width,
                max(1, self._writer.backend.parallel // len(active)),
            )
            for candidates, request in document.requests(lanes, self._numbers, self.acceptance):
                self._asked[request.number] = (document, candidates)
                session.submit(request)

    def _cancel(self, session: Session, document: GenerationState) -> Cancel:
        def cancel(numbers: Sequence[int]) -> None:
            for number in numbers:
                session.cancel(number)
                del self._asked[number]
                self._given_up[number] = document

        return cancel

    def _active(self) -> list[GenerationState]:
        """The texts in hand: no more than the backend draws at once and can keep in mind."""
        unfinished = (document for document in self._documents if not document.ended)
        return list(islice(unfinished, self._writer.backend.parallel))


def _begin(writer: Writer, number: int, prompt: Prompt, *, seed: int) -> GenerationState:
    watermark = writer.watermark
    chooses = watermark if isinstance(watermark, SentenceWatermark) else None
    previous = None
    follows = chooses is not None and not chooses.judges_beginnings
    # Detection draws again what follows a text's own sentences, and does not know the prompt.
    follows = follows and not isinstance(chooses, ReadsSamples)
    if follows and writer.config.first == "prompt":
        assert writer.encoder is not None
        sentence = last_sentence(prompt, writer.splitter)
        previous = None if sentence is None else writer.encoder.encode([sentence])[0]
    return GenerationState(
        AcceptedText(prompt, writer.splitter),
        previous,
        watermark=chooses,
        logits=watermark if isinstance(watermark, TokenWatermark) else None,
        config=writer.config,
        number=number,
        seed=seed,
        stages=_stages(writer, prompt),
    )


def _stages(writer: Writer, prompt: Prompt) -> Stages | None:
    """Where beginnings are judged: nowhere if the model or the method is not for it."""
    config, watermark = writer.config, writer.watermark
    able = isinstance(watermark, ForetellsScores) and isinstance(writer.backend, ContinuesText)
    if not able or not config.stage_tokens or config.sampling(prompt).temperature == 0.0:
        return None
    assert isinstance(watermark, ForetellsScores)
    assert isinstance(writer.backend, ContinuesText)
    alike = watermark.pool == 1 and watermark.judges_beginnings
    if not alike or not writer.backend.continues(prompt):
        return None
    return Stages(watermark.deviate, tokens=config.stage_tokens)
