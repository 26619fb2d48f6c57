"""Prompt to marked text: several texts at once, each at its own pace (`generation.loop`)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Generator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from hammingmark.errors import BackendError, Failure, InputError
from hammingmark.generation.candidates import CandidatePolicy
from hammingmark.generation.config import PAPER, GenerationConfig
from hammingmark.generation.loop import GenerationLoop
from hammingmark.generation.sentence_task import SentenceTask
from hammingmark.generation.stages import StagedSentences
from hammingmark.generation.state import GenerationState
from hammingmark.generation.stopping import Stages
from hammingmark.generation.text import AcceptedText, last_sentence
from hammingmark.generation.unjudged import TextInParts, UnjudgedText
from hammingmark.generation.whole_sentences import WholeSentences
from hammingmark.prompts import PromptInput, as_prompt
from hammingmark.protocols import (
    Backend,
    Capabilities,
    Encoder,
    Splitter,
    Watermark,
)
from hammingmark.records import Generation, GenerationStep, Prompt

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
        config: generation settings.
    """

    backend: Backend
    splitter: Splitter
    encoder: Encoder | None
    watermark: Watermark | None
    config: GenerationConfig = field(default_factory=GenerationConfig)

    def __post_init__(self) -> None:
        if self.watermark is None:
            return
        capabilities = self.watermark.capabilities
        if capabilities.sentences is None and capabilities.tokens is None:
            raise InputError(
                f"The method {self.watermark.name!r} marks neither sentences nor tokens: its "
                "capabilities declare neither."
            )
        if capabilities.tokens and self.backend.capabilities.load_tokenizer is None:
            raise BackendError(
                f"The method {self.watermark.name!r} marks tokens, and {self.backend.name} does "
                "not let anybody at its logits. Use a model like transformers:smollm2."
            )
        if capabilities.context and self.encoder is None:
            raise InputError(
                f"The method {self.watermark.name!r} follows the meaning of the text before a "
                "token; give the writer the encoder that the key was made for."
            )

    def __repr__(self) -> str:
        key = self.watermark.key.id if self.watermark else None
        return f"Writer({self.backend.name!r}, key_id={key!r})"

    def write(self, prompt: PromptInput, *, seed: int) -> Generation:
        """Answer one prompt."""
        return self.write_many([prompt], seed=seed)[0]

    def write_many(
        self, prompts: Sequence[PromptInput], *, seed: int, first: int = 0
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

    def stream(self, *prompts: PromptInput, seed: int, first: int = 0) -> Run:
        """Answer prompts, sentence by sentence: iterate, then ask for ``generations``."""
        return Run(self, prompts, seed=seed, first=first)


class Run:
    """Texts in the making; iterating yields each step as soon as it is accepted."""

    def __init__(
        self, writer: Writer, given: Sequence[PromptInput], *, seed: int, first: int = 0
    ) -> None:
        if not isinstance(seed, int) or seed < 0:
            raise InputError(f"A seed is a whole number, 0 or above, not {seed!r:.40}.")
        prompts = [each if isinstance(each, Prompt) else as_prompt(each) for each in given]
        self._writer = writer
        self._documents = [
            begin_text(writer, prompt, number=number, seed=seed)
            for number, prompt in enumerate(prompts, start=first)
        ]
        self._failure: Failure | None = None

    def __iter__(self) -> Generator[GenerationStep, None, None]:
        backend = self._writer.backend
        session = backend.open()
        try:
            loop = GenerationLoop(backend, session)
            for _, step in loop.add(self._documents):
                yield step
            while loop.is_waiting:
                began = time.perf_counter()
                arrived = session.wait()
                for _, step in loop.receive(arrived, time.perf_counter() - began):
                    yield step
        except BackendError as error:
            self._failure = error.failure
        finally:
            session.close()
            for document in self._documents:
                document.close()
        for document in self._documents:
            yield from document.held

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
        return [document.generation(self._failure) for document in self._documents]


def begin_text(
    writer: Writer, prompt: Prompt, *, number: int, seed: int, resumes: Generation | None = None
) -> GenerationState:
    """A text that is about to be written.

    Args:
        writer: says how.
        prompt: what to answer.
        number: of the prompt among those of one call.
        seed: decides every draw, together with the number.
        resumes: a text that failed, and that this one goes on with; the prompt ends with it.
    """
    capabilities = writer.watermark.capabilities if writer.watermark else Capabilities()
    chooses = capabilities.sentences
    previous = None
    follows = chooses is not None and not chooses.judges_beginnings
    # Detection draws again what follows a text's own sentences, and does not know the prompt.
    follows = follows and capabilities.samples is None
    if follows and writer.config.first == "prompt":
        assert writer.encoder is not None
        sentence = last_sentence(prompt, writer.splitter)
        previous = None if sentence is None else writer.encoder.encode([sentence])[0]
    in_parts = writer.config.in_parts and chooses is None and _continues(writer, prompt)
    text = TextInParts if in_parts or capabilities.context else AcceptedText
    return GenerationState(
        text(prompt, writer.splitter, resumes=resumes.text if resumes else ""),
        previous,
        policy=_policy(writer, capabilities, prompt),
        logits=capabilities.tokens,
        config=replace(writer.config, in_parts=in_parts),
        number=number,
        seed=seed,
        encoder=writer.encoder,
        resumes=resumes,
    )


def _policy(
    writer: Writer, capabilities: Capabilities, prompt: Prompt
) -> Callable[[SentenceTask], CandidatePolicy]:
    """How the candidates of a sentence are drawn."""
    if capabilities.sentences is None:
        return partial(UnjudgedText, context=capabilities.context)
    stages = _stages(writer, capabilities, prompt)
    if stages is None:
        return partial(WholeSentences, watermark=capabilities.sentences)
    return partial(StagedSentences, watermark=capabilities.sentences, stages=stages)


def _stages(writer: Writer, capabilities: Capabilities, prompt: Prompt) -> Stages | None:
    """Where beginnings are judged: nowhere if the model or the method is not for it."""
    config, watermark = writer.config, capabilities.sentences
    if watermark is None or capabilities.staging_threshold is None:
        return None
    if not config.stage_tokens or config.sampling(prompt).is_greedy:
        return None
    if watermark.pool != 1 or not watermark.judges_beginnings or not _continues(writer, prompt):
        return None
    return Stages(capabilities.staging_threshold, tokens=config.stage_tokens)


def _continues(writer: Writer, prompt: Prompt) -> bool:
    """Whether the model goes on with half a sentence of its own."""
    continues = writer.backend.capabilities.continues
    return continues is not None and continues(prompt)
