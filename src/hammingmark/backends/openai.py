"""Any OpenAI-compatible endpoint: vLLM, llama.cpp's server, hosted models."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any

from hammingmark.backends.closing import Closing
from hammingmark.backends.inflight import Draw, Job, Lanes, deal_out
from hammingmark.backends.openai_schema import blames_n, body_of, names_context, path_of, to_drop
from hammingmark.endpoint import Cancelled, CancelToken, Endpoint, Refused
from hammingmark.errors import BackendError, InputError
from hammingmark.records import Candidate, Prompt, Request, Sampling

_REFUSING = frozenset({400, 422, 500, 501})


class OpenAIBackend(Closing):
    """A language model that somebody else runs.

    Fields that a server refuses are left out from then on, and `refused` names them.

    Args:
        base_url: such as ``http://127.0.0.1:8000/v1``.
        model: the name the endpoint knows; if empty, the only one that it offers.
        api_key: sent as a bearer token; never shown.
        name: what a user typed to get it.
        parallel: how many candidates may be under way, of all sessions together.
        width: how many of them may be of one text.
        timeout: seconds without a sign of life from the server.
        retries: further tries after a request that failed for a passing reason.
        backoff: seconds before the first retry, doubled each time.
        use_n: whether candidates for one place are asked for in one request, so that the server
            reads their prompt once.
        extra: goes into every request as it is, such as ``{"cache_prompt": False}``.
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
        self._refused: frozenset[str] = frozenset() if use_n else frozenset({"n"})
        self._lanes = Lanes(parallel)
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"OpenAIBackend({self._endpoint.url()!r}, {self._model!r})"

    @property
    def refused(self) -> frozenset[str]:
        """The fields of a request that this server would not have, so far."""
        return self._refused

    def open(self) -> OpenAISession:
        """Begin to draw; without a model's name, the first call asks which there are."""
        with self._lock:
            self._model = self._model or self._only_model()
        return OpenAISession(self)

    def close(self) -> None:
        """Let go of the connections; a later call opens new ones, and it may be called twice."""
        self._endpoint.close()

    def draw(
        self,
        draws: Sequence[Draw],
        *,
        token: CancelToken,
        receive: Callable[[Draw], None],
    ) -> None:
        """Ask for candidates of one place, and hand over each as soon as it is over.

        Those that the server gave no choice for are left as they were.

        Raises:
            Cancelled: the request was cancelled.
            BackendError: the server cannot be brought to answer.
        """
        first = draws[0].request
        path = path_of(first.prompt)
        where = self._endpoint.url(path)
        without = self._refused
        with self._lanes.take(len(draws), token):
            while True:
                asked = draws[:1] if "n" in without else draws
                own = body_of(first, model=self._model, count=len(asked), without=without)
                try:
                    self._endpoint.stream(
                        path,
                        {**own, **self._extra},
                        partial(deal_out, draws=asked, receive=receive, where=where),
                        token=token,
                        is_final=blames_n if len(asked) > 1 else _never,
                    )
                except Refused as refused:
                    if names_context(refused.reason):
                        for draw in asked:
                            draw.trouble, draw.over = self._too_long(refused.reason), True
                            receive(draw)
                        break
                    more = to_drop(own, refused.reason) if refused.status in _REFUSING else None
                    if not more:
                        raise BackendError(str(refused)) from None
                    without |= more
                else:
                    break
        if not token.cancelled and not all(draw.begun or draw.over for draw in asked):
            if len(asked) == 1:
                raise BackendError(f"{where} answered without any choice. Check the model.")
            without |= {"n"}
        with self._lock:
            self._refused |= without

    def _too_long(self, reason: str) -> str:
        return (
            f"{self._endpoint.url()} has no room in its context: {reason}. Shorten the prompt or "
            "ask for fewer tokens, or run the server with a larger context."
        )

    def _only_model(self) -> str:
        answer = self._endpoint.get("/models")
        where = self._endpoint.url("/models")
        try:
            names = [str(each["id"]) for each in answer.json()["data"]]
        except (ValueError, LookupError, TypeError):
            raise BackendError(f"{where} does not list models. Name the model.") from None
        if len(names) != 1:
            listed = ", ".join(names[:20]) or "none"
            raise BackendError(f"{where} offers {listed}. Name one of them.")
        return names[0]


class OpenAISession:
    """Worker threads, each reading one answer at a time."""

    def __init__(self, backend: OpenAIBackend) -> None:
        self._backend = backend
        self._waiting: list[Request] = []
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._live: dict[int, Job] = {}
        self._done: SimpleQueue[Candidate | Exception] = SimpleQueue()
        self._failure: Exception | None = None
        self._closed = False
        self._lock = threading.Lock()
        self._workers = [
            threading.Thread(target=self._work, daemon=True) for _ in range(backend.parallel)
        ]
        for worker in self._workers:
            worker.start()

    def submit(self, request: Request) -> None:
        """Ask for one candidate; it is sent with the others of its place at the next `wait`."""
        self._waiting.append(request)

    def cancel(self, number: int) -> None:
        """Give up on one candidate; a request of which nothing else is wanted is ended."""
        unsent = [request for request in self._waiting if request.number == number]
        for request in unsent:
            self._waiting.remove(request)
            self._done.put(Draw(request).candidate)
        with self._lock:
            job = self._live.get(number)
        if job is not None:
            job.give_up(number)

    def wait(self) -> list[Candidate]:
        """Every candidate that has finished, at least one."""
        self._send()
        if self._failure is not None:
            raise self._failure
        found = [self._done.get()]
        try:
            while True:
                found.append(self._done.get_nowait())
        except Empty:
            pass
        failures = [each for each in found if isinstance(each, Exception)]
        finished = [each for each in found if isinstance(each, Candidate)]
        if failures:
            self._failure = failures[0]
            if not finished:
                raise self._failure
        return finished

    def close(self) -> None:
        """Give up on all candidates and end the threads."""
        with self._lock:
            self._closed = True
            jobs = list(self._live.values())
        for job in jobs:
            job.token.cancel()
        for _ in self._workers:
            self._jobs.put(None)
        for worker in self._workers:
            worker.join(timeout=1.0)  # one that is still connecting ends later, by itself

    def _send(self) -> None:
        """Send what was submitted, one request for each place in a text."""
        places: dict[tuple[Prompt, str, int, Sampling], list[Draw]] = {}
        for request in self._waiting:
            place = (request.prompt, request.written, request.max_tokens, request.sampling)
            places.setdefault(place, []).append(Draw(request))
        self._waiting.clear()
        most = 1 if "n" in self._backend.refused else self._backend.parallel
        for draws in places.values():
            for start in range(0, len(draws), most):
                self._start(Job(draws[start : start + most]))

    def _start(self, job: Job) -> None:
        with self._lock:
            if not self._closed:
                self._live.update((draw.request.number, job) for draw in job.draws)
                self._jobs.put(job)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            if self._closed:
                continue
            try:
                self._draw(job)
            except Cancelled:
                pass
            except Exception as error:
                if not job.token.cancelled:
                    self._done.put(error)
                    continue
            for draw in job.draws:
                self._tell(draw)

    def _draw(self, job: Job) -> None:
        draws = [draw for draw in job.draws if not draw.over]
        known = "n" in self._backend.refused  # found out, perhaps, since this was put together
        if draws and not (known and len(draws) > 1):
            self._backend.draw(draws, token=job.token, receive=self._tell)
        self._split([draw for draw in draws if not draw.over])

    def _split(self, draws: Sequence[Draw]) -> None:
        """Ask for each by itself, with its own seed."""
        for draw in draws:
            self._start(Job([draw]))

    def _tell(self, draw: Draw) -> None:
        with self._lock:
            if draw.over and not draw.told:
                draw.told = True
                self._live.pop(draw.request.number, None)
                self._done.put(draw.candidate)


def _never(reason: str) -> bool:
    return False
