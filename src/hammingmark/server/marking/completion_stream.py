"""The answers to one request while they are generated, with their audit records."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import replace

from hammingmark.errors import EncoderError, HammingMarkError, ModelError
from hammingmark.generation.engine import Engine, GenerationEvent, GenerationHandle
from hammingmark.generation.generate import GenerationConfig
from hammingmark.keys.key import WatermarkKey
from hammingmark.records import Cost, Generation, GenerationStep, ReasoningPart, Verdict
from hammingmark.server.api_error import APIError, client_message
from hammingmark.server.clients import Client
from hammingmark.server.marking.keys import WriterCache
from hammingmark.server.marking.marks import (
    Mark,
    undetected,
    with_calls,
    with_reasoning,
    with_verdict,
)
from hammingmark.server.marking.pending_answer import PendingAnswer
from hammingmark.server.marking.planning import GenerationPlan
from hammingmark.server.marking.recording import Recorder
from hammingmark.server.marking.responses import Choice, finish_reason

Detect = Callable[[WatermarkKey, str], Awaitable[Verdict | None]]
"""The verdict on a text under a key; None if the detection fails."""

_DETECTION_GRACE = 5.0  # seconds to detect the mark of an answer that ended at the time limit


class CompletionStream:
    """The answers to one request; iterating yields them piece by piece.

    Each piece is a choice and the text added to it, or a part of the reasoning before it. A choice
    that has ended is yielded once more, with an empty text.

    Args:
        plan: the plan of the request.
        client: the client.
        engine: generates the answers.
        writers: the writers of keys.
        detect: detects the mark of what was sent.
        disclose: gives what the client is told of a p-value.
        recorder: records the answers in the audit log.
        timeout: seconds for all answers, from the start of the iteration.
        first_timeout: seconds until the first sentence.
    """

    def __init__(
        self,
        plan: GenerationPlan,
        client: Client,
        *,
        engine: Engine,
        writers: WriterCache,
        detect: Detect,
        disclose: Callable[[float | None], float | None],
        recorder: Recorder,
        timeout: float,
        first_timeout: float | None,
    ) -> None:
        self._plan = plan
        self._client = client
        self._engine = engine
        self._writers = writers
        self._detect = detect
        self._disclose = disclose
        self._recorder = recorder
        self._timeout = timeout
        self._first_timeout = first_timeout
        self._start = 0.0
        self._complete = False  # whether all answers to a request without streaming have ended
        self._events: asyncio.Queue[tuple[int, GenerationEvent] | APIError] = asyncio.Queue()
        self._loop = asyncio.get_running_loop()
        prompts = [prompt for prompt in plan.prompts for _ in range(plan.choices)]
        self._answers = [
            PendingAnswer(plan, Choice(index, index // plan.choices), prompt)
            for index, prompt in enumerate(prompts)
        ]

    @property
    def is_marking(self) -> bool:
        """Whether any answer is being marked, as far as is known."""
        unmarked = [bool(answer.failure) and not answer.has_mark for answer in self._answers]
        return self._plan.key is not None and not all(unmarked)

    @property
    def choices(self) -> list[Choice]:
        """The answers so far."""
        return [answer.choice for answer in self._answers]

    @property
    def marked_sentences(self) -> int:
        """The number of sentences that the client was sent under the key, once it has ended."""
        return sum(answer.marked_sentences for answer in self._answers)

    def cost_of(self, choice: Choice) -> Cost:
        """The cost of an answer, or what it had cost when it was abandoned."""
        answer = self._answers[choice.index]
        if answer.abandoned is not None:
            return answer.abandoned
        return answer.generation.cost if answer.generation else Cost()

    def interrupt(self, error: APIError) -> None:
        """End the answers with an error; call it in the event loop of the iteration."""
        self._events.put_nowait(error)

    async def __aiter__(self) -> AsyncGenerator[tuple[Choice, str | ReasoningPart], None]:
        """The answers piece by piece.

        Raises:
            APIError: an answer cannot be written, or not marked.
        """
        self._start = self._loop.time()
        try:
            for answer in self._answers:
                await self._recorder.begin(answer.choice.index, self._plan.key)
            for answer in self._answers:
                await self._begin(answer)
            async for answer, progress in self._progress():
                if isinstance(progress, ReasoningPart):
                    if self._plan.stream and self._plan.passes_reasoning:
                        text = answer.choice.add_reasoning(progress)
                        yield answer.choice, replace(progress, text=text)
                elif isinstance(progress, GenerationStep):
                    answer.add_step(progress)
                    if answer.is_token_marked and not answer.has_mark:
                        answer.has_mark = await self._has_scored_token(answer)
                    if not answer.may_be_refused and (text := answer.release()):
                        yield answer.choice, text
                elif await self._continues_unmarked(answer, progress):
                    continue
                else:
                    mark = await self._final_mark(answer)
                    if text := answer.release():
                        yield answer.choice, text
                    answer.choice.finish_reason = finish_reason(progress)
                    answer.choice.calls = progress.calls
                    if not self._plan.stream and self._plan.passes_reasoning:
                        answer.choice.reasoning = progress.reasoning
                    answer.choice.mark = mark
                    if self._plan.stream:
                        await self._record_end(answer)
                        yield answer.choice, ""
            if not self._plan.stream:  # all answers are sent, or none
                for answer in self._answers:
                    await self._record_end(answer)
                self._complete = True
                for answer in self._answers:
                    yield answer.choice, ""
        except HammingMarkError as error:
            raise APIError.from_error(error) from None
        finally:
            self._close()

    async def _progress(self) -> AsyncIterator[tuple[PendingAnswer, GenerationEvent]]:
        """What the engine reports, until all answers have ended."""
        limit, unfinished = self._first_timeout or self._timeout, len(self._answers)
        while unfinished:
            # Not wait_for: before Python 3.12 it swallows a cancellation if an event arrives at
            # that moment. The generation would then go on after the client has disconnected.
            getting = asyncio.ensure_future(self._events.get())
            try:
                await asyncio.wait({getting}, timeout=self._remaining(limit))
            finally:
                getting.cancel()
            if not getting.done():
                raise _timeout_error()
            event = getting.result()
            if isinstance(event, APIError):
                raise event
            index, progress = event
            limit = self._timeout
            answer = self._answers[index]
            yield answer, progress
            if isinstance(progress, Generation) and answer.choice.finish_reason is not None:
                unfinished -= 1

    async def _begin(self, answer: PendingAnswer) -> None:
        """Start the generation of an answer, marked if possible."""
        try:
            await self._submit(answer, self._plan.key, self._plan.config)
        except (EncoderError, ModelError) as error:
            if self._plan.key is None or not self._plan.deliver_on_failure:
                raise
            answer.failure = APIError.from_error(error).message
            await self._submit(answer, None, self._plan.config)

    async def _submit(
        self, answer: PendingAnswer, key: WatermarkKey | None, config: GenerationConfig
    ) -> None:
        index = answer.choice.index

        def receive(progress: GenerationEvent) -> None:
            with suppress(RuntimeError):  # the event loop is closed
                self._loop.call_soon_threadsafe(self._events.put_nowait, (index, progress))

        def submit() -> GenerationHandle:
            return self._engine.submit(
                self._writers.writer(key, config=config),
                answer.prompt,
                seed=self._plan.seed,
                number=index,
                receive=receive,
                client=self._client.name,
                resumes=answer.generation,
            )

        submitting = asyncio.ensure_future(asyncio.to_thread(submit))
        try:
            await asyncio.wait({submitting}, timeout=self._remaining())
            if not submitting.done():
                raise _timeout_error()
            answer.ticket = submitting.result()
        finally:
            if answer.ticket is None:
                # The thread cannot be stopped, so its submission is cancelled when it is done.
                submitting.add_done_callback(_cancel_ticket)

    def _remaining(self, limit: float | None = None) -> float:
        """Seconds until the time limit of the request, or an earlier limit."""
        seconds = self._timeout if limit is None else min(limit, self._timeout)
        return max(0.0, self._start + seconds - self._loop.time())

    async def _continues_unmarked(self, answer: PendingAnswer, generation: Generation) -> bool:
        """Process the end of a generation; True if the answer continues unmarked.

        Raises:
            APIError: it failed.
        """
        answer.generation, answer.ticket = generation, None
        choice = answer.choice
        choice.prompt_tokens = generation.prompt_tokens
        failure = generation.failure
        if failure is None:
            return False
        tokens_left = self._plan.config.max_tokens - generation.cost.tokens
        cannot_mark = failure.origin == "encoder" or answer.is_unmarkable
        error = APIError.from_failure(failure)
        if cannot_mark and self._plan.deliver_on_failure and tokens_left > 0:
            answer.continue_unmarked(error.message)
            call_tokens = self._plan.config.call_tokens and tokens_left
            config = replace(self._plan.config, max_tokens=tokens_left, call_tokens=call_tokens)
            await self._submit(answer, None, config)
            return True
        if cannot_mark:
            message = f"The answer cannot be marked: {error.message}"
            mark = Mark("unmarked", message, "failure", cost=generation.cost)
            raise await self._refusal(answer, mark)
        if not (failure.is_about_text and generation.text):
            raise error
        for step in generation.steps[answer.steps :]:
            answer.add_step(step)
        return False

    async def _final_mark(self, answer: PendingAnswer) -> Mark:
        """The watermark status of an answer, before the rest of it is sent.

        Raises:
            APIError: it is not marked, and must be.
            AuditError: the refusal cannot be recorded.
        """
        plan, text = self._plan, answer.text
        mark = answer.mark()
        if plan.key is not None and mark.status != "unmarked":
            verdict = await self._verdict(plan.key, text)
            if verdict is None and answer.is_token_marked and not answer.has_mark:
                mark = undetected(mark)
            mark = with_verdict(mark, verdict, self._disclose)
        if answer.generation and answer.generation.failure:
            message = client_message(answer.generation.failure)
            mark = replace(mark, reason=f"{mark.reason} The answer ended early: {message}")
        has_calls = answer.generation is not None and answer.generation.calls is not None
        if has_calls:
            mark = with_calls(mark, has_text=bool(text))
        if answer.generation and answer.generation.reasoning:
            mark = with_reasoning(mark, is_sent=plan.passes_reasoning)
        if plan.note:
            mark = replace(mark, reason=f"{mark.reason} {plan.note}")
        is_unmarkable = mark.cause in ("unmarkable", "short", "insisted")
        is_permitted = plan.allow_unmarkable if is_unmarkable else plan.deliver_on_failure
        if plan.key is not None and mark.status == "unmarked" and not is_permitted:
            raise await self._refusal(answer, mark)
        if plan.key is not None and has_calls and not plan.allow_unmarkable:
            raise await self._refusal(answer, mark)
        return mark

    async def _verdict(self, key: WatermarkKey, text: str) -> Verdict | None:
        """The verdict on a text; None if it is not there in time."""
        detecting = asyncio.ensure_future(self._detect(key, text))
        try:
            await asyncio.wait({detecting}, timeout=max(self._remaining(), _DETECTION_GRACE))
        finally:
            detecting.cancel()
        return detecting.result() if detecting.done() and not detecting.cancelled() else None

    async def _has_scored_token(self, answer: PendingAnswer) -> bool:
        """Whether any token of an answer has a score; the first ones lack a context."""
        assert self._plan.key is not None
        verdict = await self._verdict(self._plan.key, answer.text)
        return verdict is not None and bool(verdict.evidence.scores)

    async def _refusal(self, answer: PendingAnswer, mark: Mark) -> APIError:
        """The error for an answer that must not be sent unmarked, recorded in the audit log.

        Raises:
            AuditError: it cannot be recorded.
        """
        if not answer.sent_text:  # otherwise it is recorded as interrupted
            answer.choice.text, answer.choice.mark = "", mark
            await self._recorder.end(answer.choice.index, mark, "", error="refused")
        if answer.generation and answer.generation.calls and not self._plan.allow_unmarkable:
            message = f"{mark.reason} This service returns only marked text."
            return APIError(400, message, code="unmarkable")
        return APIError(503, mark.reason, kind="watermark_error", code="watermark_failed")

    async def _record_end(self, answer: PendingAnswer) -> None:
        """Record an answer before the client learns of its end.

        Raises:
            AuditError: it cannot be recorded.
        """
        choice = answer.choice
        assert choice.mark is not None
        await self._recorder.end(
            choice.index, choice.mark, choice.sent_text, sent=self._plan.stream
        )

    def _close(self) -> None:
        """Cancel unfinished answers, and record what was sent of them."""
        for answer in self._answers:
            choice = answer.choice
            if answer.ticket is not None:
                answer.abandoned = answer.ticket.state.cost
                answer.ticket.cancel()
                answer.ticket = None
            if choice.finish_reason and not (self._plan.stream or self._complete):
                choice.mark = None  # it was not sent
            if choice.mark is None and choice.text:
                choice.mark = answer.interrupted_mark()
            self._recorder.interrupt(choice.index, answer.interrupted_mark(), answer.sent_text)


def _timeout_error() -> APIError:
    return APIError(
        504, "Generation timed out. Request fewer tokens, or try again later.", kind="timeout"
    )


def _cancel_ticket(submitting: asyncio.Future[GenerationHandle]) -> None:
    if not submitting.cancelled() and submitting.exception() is None:
        submitting.result().cancel()
