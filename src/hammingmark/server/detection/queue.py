"""A queue of detections that take turns.

A long text takes minutes. So a detection reaches a checkpoint between slices of its work, where it
lets others run, and ends if its client has disconnected.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections import Counter, deque
from collections.abc import Callable, Hashable
from contextlib import suppress
from typing import Any, TypeVar

from hammingmark.server.api_error import APIError

Result = TypeVar("Result")
Checkpoint = Callable[[], None]
"""Called by a detection between slices; it may wait, and raises `DetectionCancelled`."""


class DetectionCancelled(BaseException):
    """The detection was cancelled; not an Exception, so that ordinary handlers do not catch it."""


class _Job:
    """The detection of one request, in a thread of its own.

    Attributes:
        client: the identity of the client.
        result: the future that the request awaits.
        turn: set when the job may run.
        is_cancelled: whether nobody awaits the result any longer.
    """

    def __init__(self, client: Hashable) -> None:
        self.client = client
        self.result: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.turn = threading.Event()
        self.is_cancelled = False


class DetectionQueue:
    """Runs detections in a limited number of threads, in turns.

    A cancelled detection ends at its next checkpoint. The threads do not keep the process alive.

    Args:
        parallel: the number of detections that run at a time.
        capacity: the maximum of waiting and running requests; one client may have half of them.
    """

    def __init__(self, *, parallel: int, capacity: int) -> None:
        self._free = parallel
        self._capacity = capacity
        self._client_capacity = max(1, capacity // 2)
        self._lock = threading.Lock()
        self._waiting: deque[_Job] = deque()
        self._jobs: set[_Job] = set()
        self._clients: Counter[Hashable] = Counter()

    def __len__(self) -> int:
        """The number of requests that await a result."""
        with self._lock:
            return sum(not job.is_cancelled for job in self._jobs)

    async def run(
        self, work: Callable[[Checkpoint], Result], *, client: Hashable, timeout: float
    ) -> Result:
        """Run a detection in a thread; cancelling the call cancels the detection.

        Args:
            work: the detection, which calls the checkpoint between slices of its work.
            client: the identity of the client.
            timeout: seconds.

        Raises:
            APIError: the queue is full, or the detection timed out.
        """
        job = self._add(client)
        loop = asyncio.get_running_loop()
        context = contextvars.copy_context()

        def set_result(result: Any, error: BaseException | None) -> None:
            if job.result.done():
                return
            if error is None:
                job.result.set_result(result)
            else:
                job.result.set_exception(error)

        def run() -> None:
            outcome: tuple[Any, BaseException | None] = (None, None)
            try:
                self._wait_for_turn(job)
                outcome = (context.run(work, lambda: self._yield_turn(job)), None)
            except DetectionCancelled:
                return
            except Exception as error:
                outcome = (None, error)
            finally:
                self._remove(job)
            with suppress(RuntimeError):  # the event loop is closed
                loop.call_soon_threadsafe(set_result, *outcome)

        job.result.add_done_callback(_retrieve_exception)
        try:
            threading.Thread(target=run, name="hammingmark-detect", daemon=True).start()
        except RuntimeError:  # the system cannot start another thread
            self._cancel(job)
            self._remove(job)
            raise
        try:
            await asyncio.wait({job.result}, timeout=timeout)
            if not job.result.done():
                raise APIError(
                    504,
                    "Detection timed out. Send fewer or shorter texts, or try again later.",
                    kind="timeout",
                )
            result: Result = job.result.result()
            return result
        finally:
            self._cancel(job)

    def interrupt(self, error: APIError) -> None:
        """Cancel all detections with an error; call it in the event loop of the requests."""
        with self._lock:
            jobs = list(self._jobs)
        for job in jobs:
            if not job.result.done():
                job.result.set_exception(error)
            self._cancel(job)

    def _add(self, client: Hashable) -> _Job:
        with self._lock:
            if len(self._jobs) >= self._capacity or self._clients[client] >= self._client_capacity:
                raise APIError(
                    429,
                    "Too many detections are waiting; try again later.",
                    kind="rate_limit_error",
                    code="queue_full",
                    retry_after=5.0,
                )
            job = _Job(client)
            self._jobs.add(job)
            self._clients[client] += 1
            self._waiting.append(job)
            self._start_waiting()
            return job

    def _yield_turn(self, job: _Job) -> None:
        """Let waiting jobs run first, if there are any."""
        with self._lock:
            if self._waiting and not job.is_cancelled:
                job.turn.clear()
                self._free += 1
                self._waiting.append(job)
                self._start_waiting()
        self._wait_for_turn(job)

    def _wait_for_turn(self, job: _Job) -> None:
        job.turn.wait()
        if job.is_cancelled:
            raise DetectionCancelled

    def _cancel(self, job: _Job) -> None:
        with self._lock:
            job.is_cancelled = True
            if job in self._waiting:
                self._waiting.remove(job)
                self._free -= 1  # `_remove` gives it back when the thread ends
                job.turn.set()

    def _remove(self, job: _Job) -> None:
        with self._lock:
            self._jobs.remove(job)
            self._clients -= Counter([job.client])
            self._free += 1
            self._start_waiting()

    def _start_waiting(self) -> None:
        while self._free > 0 and self._waiting:
            self._free -= 1
            self._waiting.popleft().turn.set()


def _retrieve_exception(result: asyncio.Future[Any]) -> None:
    """Mark an exception as retrieved, so that asyncio does not log it if nobody awaits it."""
    if not result.cancelled():
        result.exception()
