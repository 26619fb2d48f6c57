"""From prompts to marked texts, several at once (`generation.loop`)."""

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
from hammingmark.generation.sentence_task import SentenceTask, is_unconstrained
from hammingmark.generation.stages import StagedSentences
from hammingmark.generation.state import GenerationState
from hammingmark.generation.stopping import Stages, stages_at_once
from hammingmark.generation.text import AcceptedText, last_sentence
from hammingmark.generation.unjudged import TextInParts, UnjudgedText
from hammingmark.generation.whole_sentences import WholeSentences
from hammingmark.prompts import PromptInput, as_prompt
from hammingmark.protocols import Backend, Capabilities, Encoder, Splitter, Watermark
from hammingmark.records import Generation, GenerationStep, Prompt, ReasoningPart

__all__ = ["PAPER", "GenerationConfig", "Run", "Writer"]


@dataclass(frozen=True)
class Writer:
    """Writes texts sentence by sentence.

    Attributes:
        backend: proposes candidates.
        splitter: must be the one that detection uses.
        encoder: must be the one that detection uses.
        watermark: decides which candidate to keep, or modifies the logits of each step; None
            writes unmarked text in the same loop.
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
                f"The method {self.watermark.name!r} marks tokens, but {self.backend.name} does "
                "not expose logits. Use a model such as transformers:smollm2."
            )
        if capabilities.context and self.encoder is None:
            raise InputError(
                f"The method {self.watermark.name!r} depends on the meaning of the preceding text "
                "and needs the encoder of the key."
            )

    def __repr__(self) -> str:
        key = self.watermark.key.id if self.watermark else None
        return f"Writer({self.backend.name!r}, key_id={key!r})"

    def write(self, prompt: PromptInput, *, seed: int) -> Generation:
        """Write the text for one prompt."""
        return self.write_many([prompt], seed=seed)[0]

    def write_many(
        self, prompts: Sequence[PromptInput], *, seed: int, first: int = 0
    ) -> list[Generation]:
        """Write the texts for several prompts at once.

        The text for a prompt depends on its number and not on the other prompts.

        Args:
            prompts: the prompts.
            seed: determines every draw.
            first: number of the first prompt, if they are part of a longer list.
        """
        if isinstance(prompts, str):
            raise InputError("write_many takes several prompts, not one. Write [prompt], or write.")
        run = self.stream(*prompts, seed=seed, first=first)
        for _ in run:
            pass
        return run.generations()

    def stream(self, *prompts: PromptInput, seed: int, first: int = 0) -> Run:
        """Write texts sentence by sentence: iterate over the run, then call ``generations``."""
        return Run(self, prompts, seed=seed, first=first)


class Run:
    """A run over several prompts; iterating yields each step as soon as it is final."""

    def __init__(
        self, writer: Writer, prompts: Sequence[PromptInput], *, seed: int, first: int = 0
    ) -> None:
        if not isinstance(seed, int) or seed < 0:
            raise InputError(f"seed must be an integer, 0 or above, not {seed!r:.40}.")
        self._writer = writer
        self._states = [
            begin_text(
                writer,
                prompt if isinstance(prompt, Prompt) else as_prompt(prompt),
                number=number,
                seed=seed,
            )
            for number, prompt in enumerate(prompts, start=first)
        ]
        self._failure: Failure | None = None

    def __iter__(self) -> Generator[GenerationStep, None, None]:
        backend = self._writer.backend
        session = backend.open()
        try:
            loop = GenerationLoop(backend, session)
            for _, step in loop.add(self._states):
                yield step
            while loop.is_waiting:
                began = time.perf_counter()
                candidates = session.wait()
                for _, step in loop.receive(candidates, time.perf_counter() - began):
                    yield step
        except BackendError as error:
            self._failure = error.failure
        finally:
            session.close()
            for state in self._states:
                state.close()
        for state in self._states:
            yield from state.unreleased

    async def __aiter__(self) -> AsyncIterator[GenerationStep]:
        """The same without blocking an event loop; leaving the iteration early ends the run."""
        steps = iter(self)
        try:
            while (step := await asyncio.to_thread(next, steps, None)) is not None:
                yield step
        finally:
            await asyncio.to_thread(steps.close)

    def generations(self) -> list[Generation]:
        """The texts so far, finished or not."""
        return [state.generation(self._failure) for state in self._states]


def begin_text(
    writer: Writer,
    prompt: Prompt,
    *,
    number: int,
    seed: int,
    resumes: Generation | None = None,
    on_reasoning: Callable[[ReasoningPart], None] | None = None,
) -> GenerationState:
    """The initial state of a text.

    Args:
        writer: its components and settings.
        prompt: the prompt.
        number: of the prompt among those of one call.
        seed: determines every draw, together with the number.
        resumes: a failed text that this one continues; the prompt ends with that text.
        on_reasoning: called with each part of the reasoning before an answer, in another thread.
    """
    capabilities = writer.watermark.capabilities if writer.watermark else Capabilities()
    watermark = capabilities.sentences
    previous = None
    # A method that compares sentences with natural samples does not constrain the first one,
    # because detection does not know the prompt from which to draw them.
    if (
        watermark is not None
        and not watermark.judges_beginnings
        and capabilities.samples is None
        and writer.config.first == "prompt"
    ):
        assert writer.encoder is not None
        sentence = last_sentence(prompt, writer.splitter)
        previous = None if sentence is None else writer.encoder.encode([sentence])[0]
    in_parts = writer.config.in_parts and watermark is None and _continues(writer, prompt)
    if prompt.messages and writer.backend.capabilities.request_price:
        in_parts = False  # each part would send the conversation again
    text_type = TextInParts if in_parts or capabilities.context else AcceptedText
    text = text_type(prompt, writer.splitter, resumes=resumes.text if resumes else "")
    return GenerationState(
        text.with_reasoning(resumes.reasoning) if resumes else text,
        previous,
        policy=_policy(writer, capabilities, prompt),
        logits=capabilities.tokens,
        config=replace(writer.config, in_parts=in_parts),
        number=number,
        seed=seed,
        encoder=writer.encoder,
        is_judged=watermark is not None,
        resumes=resumes,
        on_reasoning=on_reasoning,
    )


def _policy(
    writer: Writer, capabilities: Capabilities, prompt: Prompt
) -> Callable[[SentenceTask], CandidatePolicy]:
    """The candidate policy of the sentences."""
    if capabilities.sentences is None:
        return partial(UnjudgedText, context=capabilities.context)
    watermark = capabilities.sentences

    def policy(task: SentenceTask) -> CandidatePolicy:
        stages = _stages(writer, capabilities, prompt)
        if stages is None or is_unconstrained(task, watermark):
            return WholeSentences(task, watermark=watermark)
        return StagedSentences(task, watermark=watermark, stages=stages)

    return policy


def _stages(writer: Writer, capabilities: Capabilities, prompt: Prompt) -> Stages | None:
    """The stages of a sentence; None if the settings, the method or the model do not use them."""
    config, watermark = writer.config, capabilities.sentences
    if watermark is None or capabilities.staging_threshold is None:
        return None
    if not config.stage_tokens or config.sampling(prompt).is_greedy:
        return None
    if config.sampling(prompt).offers_tools:  # calls come with complete sentences
        return None
    if watermark.pool != 1 or not watermark.judges_beginnings or not _continues(writer, prompt):
        return None
    return Stages(
        capabilities.staging_threshold,
        tokens=config.stage_tokens,
        at_once=stages_at_once(writer.backend.capabilities.request_price),
    )


def _continues(writer: Writer, prompt: Prompt) -> bool:
    """Whether the model can continue in the middle of its own sentence."""
    continues = writer.backend.capabilities.continues
    return continues is not None and continues(prompt, writer.config.sampling(prompt))
