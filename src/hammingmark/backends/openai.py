"""Any OpenAI-compatible endpoint: vLLM, llama.cpp's server, hosted models."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any
from weakref import WeakKeyDictionary

from hammingmark.backends.base import Closing
from hammingmark.backends.inflight import Draw, WeightedSemaphore, dispatch_chunks
from hammingmark.backends.openai_refusals import fields_to_drop, is_context_overflow, refuses_n
from hammingmark.backends.openai_schema import asked_for, body_of, model_of, path_of
from hammingmark.errors import BackendError, Failure, InferenceError, InputError
from hammingmark.http.client import Endpoint, Refused
from hammingmark.http.connection import ErrorObject
from hammingmark.http.event_loop import EventLoopThread, LoopClosed
from hammingmark.protocols import BackendCapabilities
from hammingmark.records import Candidate, Prompt, Request, Sampling

_LOG = logging.getLogger(__name__)

_REFUSING = frozenset({400, 422, 500, 501})
_MOST_MODELS = 64  # of which it is known what they refuse
_CLOSED = "The backend was closed. Open another session."


class OpenAIBackend(Closing):
    """A language model that somebody else runs.

    Fields that a server refuses for a model are left out from then on, and `refused` names them.

    Args:
        base_url: such as ``http://127.0.0.1:8000/v1``.
        model: the name the endpoint knows; if empty, the only one that it offers.
        api_key: sent as a bearer token; never shown.
        name: what a user typed to get it.
        parallel: how many candidates may be under way, of all sessions together.
        width: how many of them may be of one text.
        timeout: seconds without a sign of life from the server.
        retries: further tries after a request that failed for a passing reason.
        backoff: seconds before the first retry, at most; doubled each time.
        use_n: whether candidates for one place are asked for in one request, so that the server
            reads their prompt once.
        extra: goes into every request as it is, such as ``{"cache_prompt": False}``.
        keeps_sampling: whether a request fails if the server refuses a way of sampling that it
            asks for, such as top_k, and is not sent without it.
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
        self._extra = dict(extra or {})
        self._keeps_sampling = keeps_sampling
        self._never_sent = frozenset() if use_n else frozenset({"n"})
        self._refused: OrderedDict[str, frozenset[str]] = OrderedDict()  # by model
        self._limits: WeakKeyDictionary[EventLoopThread, WeightedSemaphore] = WeakKeyDictionary()

    def __repr__(self) -> str:
        return f"OpenAIBackend({self._endpoint.url()!r}, {self._model!r})"

    @property
    def refused(self) -> frozenset[str]:
        """The fields of a request that this server would not have, so far."""
        return self._never_sent.union(*self._refused.values())

    def refused_for(self, request: Request) -> frozenset[str]:
        """The same for the model of a request."""
        return self._never_sent | self._refused.get(self._model_of(request), frozenset())

    @property
    def capabilities(self) -> BackendCapabilities:
        """Sentences in stages, where it completes a text."""
        return BackendCapabilities(continues=self.continues)

    def continues(self, prompt: Prompt) -> bool:
        """Where it completes a text; a chat model may take half a sentence of its own for all."""
        return not prompt.messages

    def open(self) -> OpenAISession:
        """Begin to draw; without a model's name, the first call asks which there are."""
        self._model = self._model or self._only_model()
        loop = self._endpoint.loop()
        limit = self._limits.setdefault(loop, WeightedSemaphore(self.parallel))
        return OpenAISession(self, loop=loop, limit=limit)

    def close(self) -> None:
        """Give up on all candidates and let go of the connections; `open` makes new ones."""
        self._endpoint.close()

    async def draw(self, draws: Sequence[Draw], *, receive: Callable[[Draw], None]) -> None:
        """Ask for candidates of one place, and hand over each as soon as it is over.

        Those that the server gave no choice for are left as they were.

        Raises:
            BackendError: the server cannot be brought to answer.
        """
        first = draws[0].request
        path = path_of(first.prompt)
        where = self._endpoint.url(path)
        kept = asked_for(first.sampling) if self._keeps_sampling else frozenset()
        without = self.refused_for(first) - kept
        while True:
            asked = draws[:1] if "n" in without else draws
            own = body_of(first, model=self._model_of(first), count=len(asked), without=without)
            try:
                await self._endpoint.stream(
                    path,
                    {**own, **self._extra},
                    partial(dispatch_chunks, draws=asked, receive=receive, where=where),
                    is_final=refuses_n if len(asked) > 1 else _never,
                )
            except Refused as refused:
                if is_context_overflow(refused.error):
                    for draw in asked:
                        draw.failure, draw.over = self._too_long(refused.failure), True
                        receive(draw)
                    break
                more = frozenset[str]()
                if refused.failure.status in _REFUSING:
                    more = fields_to_drop(own, refused.error, kept=kept)
                if not more:
                    raise refused.failure.error() from None
                without |= more
            else:
                break
            finally:  # also if it is cancelled as soon as it is no longer needed
                if any(draw.begun for draw in asked):
                    self._remember(first, without)
        if not all(draw.begun or draw.over for draw in asked):
            if len(asked) == 1:
                raise BackendError(
                    "The model's server answered without any choice.",
                    advice=f"Check the model. It was asked at {where}.",
                )
            self._remember(first, frozenset({"n"}))

    def _remember(self, request: Request, refused: frozenset[str]) -> None:
        model = self._model_of(request)
        self._refused[model] = self.refused_for(request) | refused
        self._refused.move_to_end(model)
        while len(self._refused) > _MOST_MODELS:
            self._refused.popitem(last=False)

    def _model_of(self, request: Request) -> str:
        return model_of(request, self._model)

    def _too_long(self, refused: Failure) -> Failure:
        return Failure(
            "context_overflow",
            "The model's server has no room for this in its context. Shorten the prompt, or ask "
            "for fewer tokens.",
            status=refused.status,
            detail=refused.detail,
            advice=f"Or run the server at {self._endpoint.url()} with a larger context.",
        )

    def _only_model(self) -> str:
        answer = self._endpoint.get("/models")
        where = self._endpoint.url("/models")
        try:
            names = [str(each["id"]) for each in answer.json()["data"]]
        except (ValueError, LookupError, TypeError):
            raise BackendError(
                "The model's server does not list its models.",
                advice=f"Name the model. It was asked at {where}.",
            ) from None
        if len(names) != 1:
            listed = ", ".join(names[:20]) or "none"
            raise BackendError(
                "The model is not named, and its server does not offer exactly one.",
                advice=f"Name one of those that {where} lists: {listed}.",
            )
        return names[0]


class OpenAISession:
    """Requests under way, each a task of the backend's event loop.

    What the tasks change is changed in the loop alone; the caller gets it from a queue.
    """

    def __init__(
        self, backend: OpenAIBackend, *, loop: EventLoopThread, limit: WeightedSemaphore
    ) -> None:
        self._backend = backend
        self._loop = loop
        self._limit = limit
        # With all that one session has submitted in the queue, another would wait for all of it.
        self._own_limit = WeightedSemaphore(backend.parallel)
        self._unsent: list[Request] = []
        self._tasks: dict[asyncio.Task[None], Sequence[Draw]] = {}
        self._done: SimpleQueue[Candidate | BaseException | None] = SimpleQueue()
        self._failure: BaseException | None = None

    def submit(self, request: Request) -> None:
        """Ask for one candidate; it is sent with the others of its place at the next `wait`."""
        self._unsent.append(request)

    def cancel(self, number: int) -> None:
        """Give up on one candidate; a request of which nothing else is wanted is ended."""
        for request in [request for request in self._unsent if request.number == number]:
            self._unsent.remove(request)
            self._done.put(Draw(request).candidate)
        with suppress(LoopClosed):
            self._loop.start(self._give_up(number))

    def wake(self) -> None:
        """Have `wait` return soon."""
        self._done.put(None)

    def wait(self) -> list[Candidate]:
        """Every candidate that has finished, at least one unless it is woken."""
        self._send()
        if self._failure is not None:
            raise self._failure
        found = [self._done.get()]
        try:
            while True:
                found.append(self._done.get_nowait())
        except Empty:
            pass
        failures = [each for each in found if isinstance(each, BaseException)]
        finished = [each for each in found if isinstance(each, Candidate)]
        if failures:
            self._failure = failures[0]
            if not finished:
                raise self._failure
        return finished

    def close(self) -> None:
        """Give up on all candidates, and wait until their connections are closed."""
        self._unsent.clear()
        with suppress(LoopClosed, CancelledError):
            self._loop.run(self._end())

    def _send(self) -> None:
        """Send what was submitted, one request for each place in a text."""
        places: dict[tuple[Prompt, str, int, Sampling], list[Draw]] = {}
        for request in self._unsent:
            place = (request.prompt, request.written, request.max_tokens, request.sampling)
            places.setdefault(place, []).append(Draw(request))
        self._unsent.clear()
        groups: list[list[Draw]] = []
        for draws in places.values():
            refused = self._backend.refused_for(draws[0].request)
            most = 1 if "n" in refused else self._backend.parallel
            groups += [draws[start : start + most] for start in range(0, len(draws), most)]
        if groups:
            try:
                self._loop.start(self._begin(groups))
            except LoopClosed:
                raise BackendError(_CLOSED, kind="closed") from None

    async def _begin(self, groups: Sequence[Sequence[Draw]]) -> None:
        for draws in groups:
            task = asyncio.create_task(self._draw(draws))
            self._tasks[task] = draws
            task.add_done_callback(self._finish)

    async def _give_up(self, number: int) -> None:
        for task, draws in self._tasks.items():
            for draw in draws:
                if draw.request.number == number:
                    draw.over = True
                    self._tell(draw)
                    if all(draw.over for draw in draws):
                        task.cancel()

    async def _end(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _draw(self, draws: Sequence[Draw]) -> None:
        async with self._own_limit.take(len(draws)), self._limit.take(len(draws)):
            draws = [draw for draw in draws if not draw.over]
            # It may have been found out since they were grouped that this model takes no n.
            if draws and (
                len(draws) == 1 or "n" not in self._backend.refused_for(draws[0].request)
            ):
                await self._backend.draw(draws, receive=self._tell)
        # Those without a choice are asked for one by one, each with its own seed.
        await self._begin([[draw] for draw in draws if not draw.over])

    def _finish(self, task: asyncio.Task[None]) -> None:
        draws = self._tasks.pop(task)
        error = None if task.cancelled() else task.exception()
        if (error is None and not task.cancelled()) or all(draw.over for draw in draws):
            return
        if error is None:
            self._done.put(BackendError(_CLOSED, kind="closed"))
            return
        # A request that failed is a failure of its own candidates, and of no others.
        if isinstance(error, InferenceError):
            failure = error.failure
        else:
            _LOG.error("a request failed for a reason of our own", exc_info=error)
            summary = f"Something unforeseen ended a request ({type(error).__name__})."
            failure = Failure("internal", summary)
        for draw in draws:
            if not draw.over:
                draw.fail(failure)
                self._tell(draw)

    def _tell(self, draw: Draw) -> None:
        if draw.over and not draw.told:
            draw.told = True
            self._done.put(draw.candidate)


def _never(error: ErrorObject) -> bool:
    return False
