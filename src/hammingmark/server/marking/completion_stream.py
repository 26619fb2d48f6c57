"""One request: its answers as they are written, with the audit log kept beside them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, replace

from hammingmark.errors import EncoderError, HammingMarkError, ModelError
from hammingmark.generation.engine import Engine, Progress, Ticket
from hammingmark.generation.generate import GenerationConfig
from hammingmark.keys.config import TokenConfig
from hammingmark.keys.key import WatermarkKey
from hammingmark.records import Cost, Generation, GenerationStep, Message, Prompt, Verdict
from hammingmark.server.api_error import APIError, message_of
from hammingmark.server.audit import AuditLog
from hammingmark.server.marking.keys import WriterCache
from hammingmark.server.marking.marks import SHORT, Mark, mark_of, unknown, with_verdict
from hammingmark.server.marking.recording import Asker, Recorder
from hammingmark.server.marking.responses import Choice, finish_reason

Judge = Callable[[WatermarkKey, str], Awaitable[Verdict | None]]
"""The verdict on a text under a key; None where it cannot be had."""

_LAST_MOMENT = 5.0  # seconds in which an answer is judged that came when its time was up


@dataclass(frozen=True, slots=True)
class GenerationPlan:
    """What is to be written.

    Attributes:
        prompts: what to answer.
        choices: answers to each.
        config: how they are written.
        seed: decides every draw.
        key: marks them; None writes them unmarked.
        reason: why they are not marked, in a sentence.
        cause: the same in a word.
        deliver_on_failure: whether an answer goes on unmarked where the encoder fails.
        allow_unmarkable: whether an answer without any sentence that can carry a mark is sent.
        streams: whether answers are sent as they are written, and not when all are whole.
    """

    prompts: tuple[Prompt, ...]
    choices: int
    config: GenerationConfig
    seed: int
    key: WatermarkKey | None
    reason: str = ""
    cause: str = ""
    deliver_on_failure: bool = False
    allow_unmarkable: bool = True
    streams: bool = False


@dataclass(slots=True)
class _Answer:
    """One answer in the making."""

    choice: Choice
    prompt: Prompt
    ticket: Ticket | None = None
    generation: Generation | None = None  # the whole of it, or what came before a failure
    unsent: str = ""  # because the policy may yet refuse it
    steps: int = 0  # that came
    failure: str = ""  # why the rest of it, or all of it, is not marked
    began: bool = False  # whether anything was written before that failure
    constrained: int = 0  # sentences that were subject to the rule
    carries: bool = False  # whether something of it is marked


class CompletionStream:
    """The answers to one request; iterating yields them piece by piece.

    Each piece is a choice and what is added to it. When a choice has ended, it comes once more,
    with nothing added.

    Args:
        plan: what to write.
        asker: who asks.
        engine: writes.
        writers: say how.
        judge: gives the verdict on what was sent.
        audit: the audit log, if there is one.
        timeout: seconds for all answers, from the first time that they are asked for.
        first_timeout: seconds until the first sentence.
    """

    def __init__(
        self,
        plan: GenerationPlan,
        asker: Asker,
        *,
        engine: Engine,
        writers: WriterCache,
        judge: Judge,
        audit: AuditLog | None,
        timeout: float,
        first_timeout: float | None,
    ) -> None:
        self._plan = plan
        self._asker = asker
        self._engine = engine
        self._writers = writers
        self._judge = judge
        self._records = Recorder(audit, asker)
        self._timeout = timeout
        self._first_timeout = first_timeout
        self._began = 0.0
        self._complete = False  # whether all answers are there that are sent together
        self._arrived: asyncio.Queue[tuple[int, Progress] | APIError] = asyncio.Queue()
        self._loop = asyncio.get_running_loop()
        answered = [prompt for prompt in plan.prompts for _ in range(plan.choices)]
        self._texts = [
            _Answer(Choice(index, index // plan.choices), prompt)
            for index, prompt in enumerate(answered)
        ]

    @property
    def is_marking(self) -> bool:
        """Whether any answer is being marked, as far as is known."""
        plain = [bool(text.failure) and not text.carries for text in self._texts]
        return self._plan.key is not None and not all(plain)

    @property
    def choices(self) -> list[Choice]:
        """The answers as far as they have come."""
        return [text.choice for text in self._texts]

    def cost_of(self, choice: Choice) -> Cost:
        """What an answer has cost, as far as the engine has told."""
        generation = self._texts[choice.index].generation
        return generation.cost if generation else Cost()

    def interrupt(self, problem: APIError) -> None:
        """End the answers with a problem, from the event loop that iterates."""
        self._arrived.put_nowait(problem)

    async def __aiter__(self) -> AsyncGenerator[tuple[Choice, str], None]:
        """The answers piece by piece.

        Raises:
            APIError: an answer cannot be written, or not marked.
        """
        self._began = self._loop.time()
        try:
            for text in self._texts:
                await self._records.begin(text.choice.index, self._plan.key)
            for text in self._texts:
                await self._begin(text)
            async for text, progress in self._progress():
                if isinstance(progress, GenerationStep):
                    self._take(text, progress)
                    if self._marks_tokens(text) and not text.carries:
                        text.carries = await self._has_marked_token(text)
                    if not self._may_be_refused(text) and (more := _send(text)):
                        yield text.choice, more
                elif await self._goes_on_unmarked(text, progress):
                    continue
                else:
                    mark = await self._check(text)
                    if more := _send(text):
                        yield text.choice, more
                    self._end(text, mark)
                    if self._plan.streams:
                        await self._record_end(text)
                        yield text.choice, ""
            if not self._plan.streams:  # all are sent, or none
                for text in self._texts:
                    await self._record_end(text)
                self._complete = True
                for text in self._texts:
                    yield text.choice, ""
        except HammingMarkError as error:
            raise APIError.from_error(error) from None
        finally:
            self._leave()

    async def _progress(self) -> AsyncIterator[tuple[_Answer, Progress]]:
        """What the engine tells, until all answers have ended."""
        limit, left = self._first_timeout or self._timeout, len(self._texts)
        while left:
            # Not by wait_for, which before Python 3.12 forgets that it was cancelled if something
            # arrives just then: a client would leave, and the answer would go on.
            arriving = asyncio.ensure_future(self._arrived.get())
            try:
                await asyncio.wait({arriving}, timeout=self._left(limit))
            finally:
                arriving.cancel()
            if not arriving.done():
                raise _too_late()
            arrived = arriving.result()
            if isinstance(arrived, APIError):
                raise arrived
            index, progress = arrived
            limit = self._timeout
            text = self._texts[index]
            yield text, progress
            if isinstance(progress, Generation) and text.choice.finish is not None:
                left -= 1

    async def _begin(self, text: _Answer) -> None:
        """Have an answer written, marked if it can be."""
        try:
            await self._submit(text, self._plan.key, self._plan.config)
        except (EncoderError, ModelError) as error:
            if self._plan.key is None or not self._plan.deliver_on_failure:
                raise
            text.failure = APIError.from_error(error).message
            await self._submit(text, None, self._plan.config)

    async def _submit(
        self, text: _Answer, key: WatermarkKey | None, config: GenerationConfig
    ) -> None:
        index = text.choice.index

        def receive(progress: Progress) -> None:
            with suppress(RuntimeError):  # the loop is closed, and nobody waits
                self._loop.call_soon_threadsafe(self._arrived.put_nowait, (index, progress))

        def submit() -> Ticket:
            return self._engine.submit(
                self._writers.writer(key, config=config),
                text.prompt,
                seed=self._plan.seed,
                number=index,
                receive=receive,
                client=self._asker.client,
                resumes=text.generation,
            )

        submitted = asyncio.ensure_future(asyncio.to_thread(submit))
        try:
            await asyncio.wait({submitted}, timeout=self._left())
            if not submitted.done():
                raise _too_late()
            text.ticket = submitted.result()
        finally:
            if text.ticket is None:
                # The thread goes on; what it has submitted is for nobody.
                submitted.add_done_callback(_cancel_ticket)

    def _left(self, limit: float | None = None) -> float:
        """Seconds that are left, of all or of another limit."""
        most = self._timeout if limit is None else min(limit, self._timeout)
        return max(0.0, self._began + most - self._loop.time())

    def _marks_tokens(self, text: _Answer) -> bool:
        key = self._plan.key
        return key is not None and isinstance(key.config, TokenConfig) and not text.failure

    def _take(self, text: _Answer, step: GenerationStep) -> None:
        """Take in a step of an answer."""
        if not (text.prompt.messages or text.steps):
            text.choice.lead = step.lead
        text.steps += 1
        text.constrained += step.accepted is not None
        text.unsent += step.text
        text.carries |= step.accepted is True

    def _may_be_refused(self, text: _Answer) -> bool:
        """Whether an answer may turn out to be one that the policy refuses.

        Until its first accepted sentence or marked token, if it must be marked: it may go on
        without any. Once it has too many sentences to be a short one, it is refused only where
        failures are.
        """
        if self._plan.key is None or text.carries or text.failure:
            return False
        may_be_short = text.constrained <= SHORT and not self._plan.allow_unmarkable
        return may_be_short or not self._plan.deliver_on_failure

    async def _goes_on_unmarked(self, text: _Answer, generation: Generation) -> bool:
        """Take in what has ended; True if it goes on without the mark.

        Raises:
            APIError: it failed.
        """
        text.generation, text.ticket = generation, None
        choice = text.choice
        choice.prompt_tokens = generation.prompt_tokens
        failure = generation.failure
        if failure is None:
            return False
        left = self._plan.config.max_tokens - generation.cost.tokens
        is_unmarked = failure.origin == "encoder" or (
            not text.failure and _fits_nowhere(generation)
        )
        words = message_of(failure)
        if failure.origin == "encoder":
            words = APIError.from_failure(failure).message  # which is also logged
        if is_unmarked and self._plan.deliver_on_failure and left > 0:
            text.failure, text.began = words, bool(generation.text)
            text.prompt = _continued(text.prompt, choice.lead + generation.text)
            await self._submit(text, None, replace(self._plan.config, max_tokens=left))
            return True
        if is_unmarked:
            words = f"The answer cannot be marked: {words}"
            mark = Mark("unmarked", words, "failure", cost=generation.cost)
            raise await self._refusal(text, mark)
        if not (failure.is_about_text and generation.text):
            raise APIError.from_failure(failure)
        for step in generation.steps[text.steps :]:
            self._take(text, step)
        return False

    async def _check(self, text: _Answer) -> Mark:
        """Say how far an answer is marked, before the rest of it is sent.

        Raises:
            APIError: it is not marked, and must be.
            AuditError: that cannot be recorded.
        """
        plan, whole = self._plan, text.choice.text + text.unsent
        mark = self._mark(text)
        if plan.key is not None and mark.status != "unmarked":
            verdict = await self._verdict(plan.key, whole)
            if verdict is None and self._marks_tokens(text) and not text.carries:
                mark = unknown(mark)
            mark = with_verdict(mark, verdict)
        if text.generation and text.generation.failure:
            why = message_of(text.generation.failure)
            mark = replace(mark, reason=f"{mark.reason} It ends early: {why}")
        is_short = mark.cause in ("unmarkable", "short")
        delivered = plan.allow_unmarkable if is_short else plan.deliver_on_failure
        if plan.key is not None and mark.status == "unmarked" and not delivered:
            raise await self._refusal(text, mark)
        return mark

    async def _verdict(self, key: WatermarkKey, text: str) -> Verdict | None:
        """The verdict on a text, if it comes in time."""
        judging = asyncio.ensure_future(self._judge(key, text))
        try:
            await asyncio.wait({judging}, timeout=max(self._left(), _LAST_MOMENT))
        finally:
            judging.cancel()
        return judging.result() if judging.done() and not judging.cancelled() else None

    async def _has_marked_token(self, text: _Answer) -> bool:
        """Whether tokens of an answer count: the first ones have nothing by which they could."""
        assert self._plan.key is not None
        verdict = await self._verdict(self._plan.key, text.choice.text + text.unsent)
        return verdict is not None and bool(verdict.evidence.scores)

    async def _refusal(self, text: _Answer, mark: Mark) -> APIError:
        """What to say instead of an answer that must not be unmarked, once that is recorded.

        Raises:
            AuditError: it cannot be recorded.
        """
        if not self._sent(text):  # otherwise it is cut short
            text.choice.text, text.choice.mark = "", mark
            await self._records.end(text.choice.index, mark, "", error="refused")
        return APIError(503, mark.reason, kind="watermark_error", code="watermark_failed")

    def _end(self, text: _Answer, mark: Mark) -> None:
        """Take note of an answer that is whole."""
        assert text.generation is not None
        text.choice.finish = finish_reason(text.generation)
        text.choice.mark = mark

    async def _record_end(self, text: _Answer) -> None:
        """Record an answer before anybody is told of its end.

        Raises:
            AuditError: it cannot be recorded.
        """
        choice = text.choice
        assert choice.mark is not None
        streamed = self._plan.streams
        await self._records.end(choice.index, choice.mark, choice.sent, sent=streamed)

    def _sent(self, text: _Answer) -> str:
        """What the client has got of an answer that has not ended."""
        return text.choice.sent if self._plan.streams else ""

    def _mark(self, text: _Answer) -> Mark:
        plan, generation = self._plan, text.generation
        assert generation is not None
        if plan.key is not None:
            return mark_of(generation, plan.key, text.failure, began=text.began)
        sentences, cost = len(generation.sentences), generation.cost
        return Mark("unmarked", plan.reason, plan.cause, sentences=sentences, cost=cost)

    def _leave(self) -> None:
        """Give up on answers that nobody waits for, and record how far they had come."""
        for text in self._texts:
            if text.ticket is not None:
                text.ticket.cancel()
                text.ticket = None
            if text.choice.finish and not (self._plan.streams or self._complete):
                text.choice.mark = None  # nobody got it
            if text.choice.mark is None and text.choice.text:
                text.choice.mark = self._cut_short(text)
            self._records.cut_short(text.choice.index, self._cut_short(text), self._sent(text))

    def _cut_short(self, text: _Answer) -> Mark:
        key = self._plan.key if text.carries and self._sent(text) else None
        return Mark(
            "partly" if key else "unmarked",
            "The answer was cut short.",
            "cut_short",
            key_id=key.id if key else None,
            label=key.label if key else None,
        )


def _send(text: _Answer) -> str:
    """What is sent now of an answer: all that was kept for it."""
    more, text.unsent = text.unsent, ""
    before = len(text.choice.sent)
    text.choice.text += more
    return text.choice.sent[before:]


def _too_late() -> APIError:
    return APIError(
        504,
        "The answer took too long. Ask for fewer tokens, or try again later.",
        kind="timeout",
    )


def _cancel_ticket(submitted: asyncio.Future[Ticket]) -> None:
    if not submitted.cancelled() and submitted.exception() is None:
        submitted.result().cancel()


def _fits_nowhere(generation: Generation) -> bool:
    """Whether not even the first sentence could be marked, as where none ends within its limit."""
    failure = generation.failure
    is_about_text = failure is None or failure.is_about_text
    return is_about_text and not generation.steps and generation.cost.misfits > 0


def _continued(prompt: Prompt, text: str) -> Prompt:
    """A prompt that asks for what follows a text."""
    if not prompt.messages:
        return Prompt(prompt.text + text)
    *before, last = prompt.messages
    if last.role == "assistant":
        return Prompt(messages=(*before, Message("assistant", last.content + text)))
    return Prompt(messages=(*prompt.messages, *([Message("assistant", text)] if text else [])))
