"""A backend for OpenAI-compatible endpoints: vLLM, llama.cpp's server, hosted models."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from hammingmark.backends.base import Closing, FinishedCandidates, unfinished_answer
from hammingmark.backends.continuation import ANSWER_TOKENS, Continuation, ContinuationWay
from hammingmark.backends.inflight import Draw, WeightedSemaphore, dispatch_chunks
from hammingmark.backends.metering import RequestMeter
from hammingmark.backends.openai_refusals import (
    CONTEXT_OVERFLOW,
    fields_to_drop,
    is_context_overflow,
    refused_field,
    refuses_n,
)
from hammingmark.backends.openai_schema import (
    body_of,
    named_model,
    path_of,
    sampling_fields,
    sampling_from,
)
from hammingmark.errors import BackendError, Failure, InferenceError, InputError
from hammingmark.http.client import Endpoint, Refused
from hammingmark.http.connection import ErrorObject
from hammingmark.http.event_loop import EventLoopThread, LoopClosed
from hammingmark.protocols import BackendCapabilities
from hammingmark.records import Candidate, ModelUsage, Prompt, Reasoning, Request, Sampling

_LOG = logging.getLogger(__name__)

_REFUSAL_STATUSES = frozenset({400, 422, 500, 501})
_MOST_MODELS = 64  # whose refused fields are remembered
_CLOSED = "The backend was closed. Open another session."


class OpenAIBackend(Closing):
    """A language model behind an OpenAI-compatible endpoint.

    Fields that a server refuses for a model are no longer sent; `refused` names them.

    Args:
        base_url: such as ``http://127.0.0.1:8000/v1``.
        model: its name at the endpoint; if empty, the only model that the endpoint offers.
        api_key: sent as a bearer token; never shown.
        name: the name by which a user chose it.
        parallel: how many candidates may be in progress, in all sessions together.
        width: how many of them may belong to one text.
        timeout: seconds without data from the server.
        retries: further attempts after a request that failed for a transient reason.
        backoff: seconds before the first retry, at most; doubled each time.
        use_n: whether one request asks for all candidates for one place, so that the server
            reads their prompt once.
        extra: fields added to every request, such as ``{"cache_prompt": False}``.
        keeps_sampling: whether a request fails if the server refuses a sampling field in it,
            such as top_k; otherwise it is sent without the field.
        continues: whether the server continues an unfinished answer of a chat; None to ask each
            model before the first time (`backends.continuation`).
        request_price: what one more request takes, in tokens that the server could write meanwhile.
    """

    def __init__(
        self,
        base_url: str,
        model: str,
        *,
        api_key: str | None = None,
        name: str | None = None,
        parallel: int = 8,
        width: int = 4,
        timeout: float = 120.0,
        retries: int = 5,
        backoff: float = 0.5,
        use_n: bool = True,
        extra: Mapping[str, Any] | None = None,
        keeps_sampling: bool = False,
        continues: bool | None = None,
        request_price: float = 5.0,
    ) -> None:
        for option, value in (("parallel", parallel), ("width", width)):
            if value < 1:
                raise InputError(f"{option} is {value}; it must be at least 1.")
        self._endpoint = Endpoint(
            base_url,
            error=BackendError,
            api_key=api_key,
            timeout=timeout,
            retries=retries,
            backoff=backoff,
        )
        self.name = name or f"openai:{model}@{self._endpoint.url()}"
        self.parallel = parallel
        self.width = width
        self._model = model
        self._request_price = request_price
        self._extra = dict(extra or {})
        self._keeps_sampling = keeps_sampling
        self._never_sent = frozenset() if use_n else frozenset({"n"})
        self._refused: OrderedDict[str, frozenset[str]] = OrderedDict()  # by model
        self._continuation = Continuation(self._ask, known=continues)
        self._owed = ModelUsage()  # questions to a model, which the next text pays for
        self._limits: WeakKeyDictionary[EventLoopThread, WeightedSemaphore] = WeakKeyDictionary()

    def __repr__(self) -> str:
        return f"OpenAIBackend({self._endpoint.url()!r}, {self._model!r})"

    @property
    def refused(self) -> frozenset[str]:
        """The request fields that this server has refused so far."""
        return self._never_sent.union(*self._refused.values())

    def refused_for(self, request: Request) -> frozenset[str]:
        """The request fields that the model of a request has refused so far."""
        return self._never_sent | self._refused.get(self._model_of(request), frozenset())

    @property
    def capabilities(self) -> BackendCapabilities:
        """It continues half a sentence of a text, and of a chat if its model is known to."""
        return BackendCapabilities(
            continues=self.continues, charges=True, request_price=self._request_price
        )

    def continues(self, prompt: Prompt, sampling: Sampling) -> bool:
        """Whether to draw in stages: a text always, a chat if its model is known to continue."""
        return not prompt.messages or self._continuation.is_known(
            named_model(sampling, self._model)
        )

    def open(self) -> OpenAISession:
        """Start a session; if the model is not named, the first call asks the endpoint for it."""
        self._model = self._model or self._only_model()
        loop = self._endpoint.loop()
        limit = self._limits.setdefault(loop, WeightedSemaphore(self.parallel))
        return OpenAISession(self, loop=loop, limit=limit)

    def close(self) -> None:
        """Cancel all candidates and close the connections; `open` makes new ones."""
        self._endpoint.close()

    def continues_answers(self, model: str) -> Future[bool]:
        """Whether a model continues an unfinished answer of a chat; the first call asks its server.

        Raises:
            BackendError: the backend is closed; the future has those of the server.
        """
        try:
            return self._endpoint.loop().start(self._continuation.is_supported(model))
        except LoopClosed:
            raise BackendError(_CLOSED, kind="closed") from None

    async def draw(self, draws: Sequence[Draw], *, receive: Callable[[Draw], None]) -> None:
        """Request candidates for one place in a text; call ``receive`` as they progress.

        A candidate for which the server sends no choice is left unchanged.

        Raises:
            BackendError: the server does not answer, refuses every form of the request, or cannot
                continue the text.
        """
        first = draws[0].request
        model, begun = self._model_of(first), unfinished_answer(first.prompt, first.written)
        if begun or first.reasoning:
            way = await self._continuation.way(model, first.reasoning)
            if way is None:
                raise self._cannot_continue(after_reasoning=bool(first.reasoning)).error()
            for draw in draws:
                draw.way = way
        owed, self._owed = self._owed, ModelUsage()
        first.charge(owed)
        if begun:
            await self._draw_continuation(draws, receive, model=model, begun=begun)
        else:
            await self._draw(draws, receive)

    async def _draw_continuation(
        self,
        draws: Sequence[Draw],
        receive: Callable[[Draw], None],
        *,
        model: str,
        begun: str,
    ) -> None:
        """Request candidates that continue an answer; hold back those that begin it anew.

        They fail if the model, asked again, does not continue.
        """
        restarts: dict[Draw, None] = {}

        def receive_unless_restart(draw: Draw) -> None:
            if draw.done and self._continuation.is_restart(model, begun, "".join(draw.pieces)):
                restarts[draw] = None
            else:
                receive(draw)

        try:
            try:
                await self._draw(draws, receive_unless_restart)
            finally:
                for text in ["".join(draw.pieces) for draw in draws if draw.pieces]:
                    self._continuation.observe(model, begun, text)
            if restarts and await self._continuation.way(model, None) is None:
                for draw in restarts:
                    draw.fail(self._cannot_continue(after_reasoning=False))
        finally:
            for draw in restarts:
                receive(draw)

    async def _ask(
        self, model: str, prompt: Prompt, reasoning: Reasoning | None, way: ContinuationWay
    ) -> tuple[str, str]:
        """A few tokens of the answer to a prompt, and of reasoning (`continuation.Ask`)."""
        request = Request(
            0,
            prompt,
            "",
            0,
            ANSWER_TOKENS,
            _never_stop,
            sampling_from(model),
            charge=self._owe,
            reasoning=reasoning,
            reasoning_tokens=ANSWER_TOKENS,
        )
        draw = Draw(request, way=way)
        await self._draw([draw], lambda draw: None)
        found = draw.candidate.reasoning
        return "".join(draw.pieces), found.text if found else ""

    def _owe(self, usage: ModelUsage) -> None:
        self._owed += usage

    async def _draw(self, draws: Sequence[Draw], receive: Callable[[Draw], None]) -> None:
        first = draws[0].request
        path = path_of(first.prompt)
        where = self._endpoint.url(path)
        required = sampling_fields(first.sampling) if self._keeps_sampling else frozenset()
        without = self.refused_for(first) - required
        while True:
            group = draws[:1] if "n" in without else draws
            body = body_of(
                first,
                model=self._model_of(first),
                count=len(group),
                without=without,
                way=draws[0].way,
            )
            meter = RequestMeter([draw.request for draw in group])
            try:
                await self._endpoint.stream(
                    path,
                    {**body, **self._extra},
                    partial(
                        dispatch_chunks, draws=group, receive=receive, meter=meter, where=where
                    ),
                    is_final=refuses_n if len(group) > 1 else _never,
                    on_send=meter.send,
                )
            except BackendError:
                meter.fail()
                raise
            except Refused as refused:
                meter.fail()
                if is_context_overflow(refused.error):
                    if (first.reasoning_tokens or 0) > first.max_tokens:
                        # The prompt may leave room for a sentence, if not for reasoning.
                        first = replace(first, reasoning_tokens=first.max_tokens)
                        continue
                    for draw in group:
                        draw.failure, draw.done = self._too_long(refused.failure), True
                        receive(draw)
                    break
                fields = frozenset[str]()
                if refused.failure.status in _REFUSAL_STATUSES:
                    fields = fields_to_drop(body, refused.error, required=required)
                if not fields:
                    param = refused_field(body, refused.error)
                    raise replace(refused.failure, param=param).error() from None
                without |= fields
            else:
                break
            finally:  # also if it is cancelled because no candidate is needed any more
                if any(draw.started for draw in group):
                    self._remember(first, without)
        if not all(draw.started or draw.done for draw in group):
            if len(group) == 1:
                raise BackendError(
                    "The model's server returned no choices.",
                    advice=f"Check the model. The request was sent to {where}.",
                )
            self._remember(first, frozenset({"n"}))

    def _remember(self, request: Request, refused: frozenset[str]) -> None:
        model = self._model_of(request)
        self._refused[model] = self.refused_for(request) | refused
        self._refused.move_to_end(model)
        while len(self._refused) > _MOST_MODELS:
            self._refused.popitem(last=False)

    def _model_of(self, request: Request) -> str:
        return named_model(request.sampling, self._model)

    def _too_long(self, refused: Failure) -> Failure:
        return Failure(
            "context_overflow",
            CONTEXT_OVERFLOW,
            status=refused.status,
            detail=refused.detail,
            advice=f"Or run the server at {self._endpoint.url()} with a larger context.",
        )

    def _cannot_continue(self, *, after_reasoning: bool) -> Failure:
        summary = (
            "The model thinks before it answers, and its server does not continue an answer with "
            "the reasoning in view, so no answer can be written sentence by sentence."
            if after_reasoning
            else "The model's server begins a new answer instead of continuing an unfinished one, "
            "so no answer of a chat can be written sentence by sentence."
        )
        return Failure(
            "cannot_continue",
            summary,
            advice=f"The server is {self._endpoint.url()}. Use one that continues the last message "
            "of a chat, such as vLLM, SGLang or llama.cpp, or a text as the prompt.",
        )

    def _only_model(self) -> str:
        response = self._endpoint.get("/models")
        where = self._endpoint.url("/models")
        try:
            names = [str(model["id"]) for model in response.json()["data"]]
        except (ValueError, LookupError, TypeError):
            raise BackendError(
                "The model's server does not list its models.",
                advice=f"Name the model. The request was sent to {where}.",
            ) from None
        if len(names) != 1:
            listed = ", ".join(names[:20]) or "none"
            raise BackendError(
                "No model is named, and the model's server does not offer exactly one.",
                advice=f"Name one of the models that {where} lists: {listed}.",
            )
        return names[0]


class OpenAISession:
    """Requests in progress, each a task of the backend's event loop.

    Only the loop's thread changes the state of tasks; the caller gets candidates from a queue.
    """

    def __init__(
        self, backend: OpenAIBackend, *, loop: EventLoopThread, limit: WeightedSemaphore
    ) -> None:
        self._backend = backend
        self._loop = loop
        self._limit = limit
        # Without this, another session would wait for everything that this one has submitted.
        self._own_limit = WeightedSemaphore(backend.parallel)
        self._unsent: list[Request] = []
        self._tasks: dict[asyncio.Task[None], Sequence[Draw]] = {}
        self._finished = FinishedCandidates()

    def submit(self, request: Request) -> None:
        """Request one candidate; the next `wait` sends it, with the others for its place."""
        self._unsent.append(request)

    def cancel(self, number: int) -> None:
        """Cancel one candidate; a request is ended when all its candidates are done."""
        for request in [request for request in self._unsent if request.number == number]:
            self._unsent.remove(request)
            self._finished.put(Draw(request).candidate)
        with suppress(LoopClosed):
            self._loop.start(self._cancel(number))

    def wake(self) -> None:
        """Make `wait` return soon."""
        self._finished.wake()

    def wait(self) -> list[Candidate]:
        """Every candidate that has finished, at least one unless `wake` is called."""
        self._send()
        return self._finished.wait()

    def close(self) -> None:
        """Cancel all candidates, and wait until their connections are closed."""
        self._unsent.clear()
        with suppress(LoopClosed, CancelledError):
            self._loop.run(self._cancel_all())

    def _send(self) -> None:
        """Send the submitted requests, one HTTP request for each place in a text."""
        places: dict[tuple[Any, ...], list[Draw]] = {}
        for request in self._unsent:
            begun = (request.prompt, request.reasoning, request.written)
            limits = (request.max_tokens, request.reasoning_tokens)
            place = (*begun, *limits, request.sampling)
            places.setdefault(place, []).append(Draw(request))
        self._unsent.clear()
        groups: list[list[Draw]] = []
        for draws in places.values():
            refused = self._backend.refused_for(draws[0].request)
            size = 1 if "n" in refused else self._backend.parallel
            groups += [draws[start : start + size] for start in range(0, len(draws), size)]
        if groups:
            try:
                self._loop.start(self._start(groups))
            except LoopClosed:
                raise BackendError(_CLOSED, kind="closed") from None

    async def _start(self, groups: Sequence[Sequence[Draw]]) -> None:
        for draws in groups:
            task = asyncio.create_task(self._draw(draws))
            self._tasks[task] = draws
            task.add_done_callback(self._finish)

    async def _cancel(self, number: int) -> None:
        for task, draws in self._tasks.items():
            for draw in draws:
                if draw.request.number == number:
                    draw.done = True
                    self._deliver(draw)
                    if all(draw.done for draw in draws):
                        task.cancel()

    async def _cancel_all(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _draw(self, draws: Sequence[Draw]) -> None:
        async with self._own_limit.take(len(draws)), self._limit.take(len(draws)):
            draws = [draw for draw in draws if not draw.done]
            # The model may have refused n since the candidates were grouped.
            if draws and (
                len(draws) == 1 or "n" not in self._backend.refused_for(draws[0].request)
            ):
                await self._backend.draw(draws, receive=self._deliver)
        # Candidates without a choice are requested one by one, each with its own seed.
        await self._start([[draw] for draw in draws if not draw.done])

    def _finish(self, task: asyncio.Task[None]) -> None:
        draws = self._tasks.pop(task)
        error = None if task.cancelled() else task.exception()
        if (error is None and not task.cancelled()) or all(draw.done for draw in draws):
            return
        if error is None:
            self._finished.put(BackendError(_CLOSED, kind="closed"))
            return
        # A failed request fails its own candidates and no others.
        if isinstance(error, InferenceError):
            failure = error.failure
        else:
            _LOG.error("internal error in a request", exc_info=error)
            summary = f"Internal error in a request ({type(error).__name__})."
            failure = Failure("internal", summary)
        for draw in draws:
            if not draw.done:
                draw.fail(failure)
                self._deliver(draw)

    def _deliver(self, draw: Draw) -> None:
        if draw.done and not draw.delivered:
            draw.delivered = True
            self._finished.put(draw.candidate)


def _never(error: ErrorObject) -> bool:
    return False


def _never_stop(text: str) -> bool:
    return False
