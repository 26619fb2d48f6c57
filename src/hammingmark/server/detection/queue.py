"""DetectionQueue for many clients: a slice of one request after a slice of another.

A long text takes minutes. So whoever judges stops between slices: to let others go on, and to end
when nobody waits for the verdict any longer.
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

Judged = TypeVar("Judged")
Pause = Callable[[], None]
"""Called by whoever judges, between slices; it may wait, and raises `DetectionCancelled`."""


class DetectionCancelled(BaseException):
    """Nobody waits for the verdict; no handler of ordinary errors should take it for one."""


class _Work:
    """What one request has judged, in a thread of its own.

    Attributes:
        verdict: what the request waits for.
        turn: set when it may go on.
        given_up: whether nobody waits any longer.
    """

    def __init__(self, client: Hashable) -> None:
        self.client = client
        self.verdict: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.turn = threading.Event()
        self.given_up = False


class DetectionQueue:
    """Has texts judged in threads, so many at once; the others take turns.

    What is given up ends at its next pause. Threads do not keep the process alive.

    Args:
        at_once: how many judge at a time.
        most: requests that wait or are under way at most; half of them may be one client's.
    """

    def __init__(self, *, at_once: int, most: int) -> None:
        self._free = at_once
        self._most = most
        self._most_of_one = max(1, most // 2)
        self._lock = threading.Lock()
        self._waiting: deque[_Work] = deque()
        self._under_way: set[_Work] = set()
        self._clients: Counter[Hashable] = Counter()

    def __len__(self) -> int:
        """How many requests wait for a verdict."""
        with self._lock:
            return sum(not work.given_up for work in self._under_way)

    async def judge(
        self, judge: Callable[[Pause], Judged], *, client: Hashable, timeout: float
    ) -> Judged:
        """Judge texts without holding up others; cancelling gives it up.

        Args:
            judge: does it, in a thread; it calls what it is given between slices.
            client: who asks.
            timeout: seconds.

        Raises:
            APIError: there is too much to judge already, or it took too long.
        """
        work = self._begin(client)
        loop = asyncio.get_running_loop()
        context = contextvars.copy_context()

        def tell(verdict: Any, error: BaseException | None) -> None:
            if work.verdict.done():
                return
            if error is None:
                work.verdict.set_result(verdict)
            else:
                work.verdict.set_exception(error)

        def run() -> None:
            told: tuple[Any, BaseException | None] = (None, None)
            try:
                self._wait_for_turn(work)
                told = (context.run(judge, lambda: self._pause(work)), None)
            except DetectionCancelled:
                return
            except Exception as error:
                told = (None, error)
            finally:
                self._end(work)
            with suppress(RuntimeError):  # the loop is closed, and nobody waits
                loop.call_soon_threadsafe(tell, *told)

        work.verdict.add_done_callback(_look_at)
        try:
            threading.Thread(target=run, name="hammingmark-judge", daemon=True).start()
        except RuntimeError:  # the machine has no room for another thread
            self._give_up(work)
            self._end(work)
            raise
        try:
            await asyncio.wait({work.verdict}, timeout=timeout)
            if not work.verdict.done():
                raise APIError(
                    504,
                    "Detection timed out. Send fewer or shorter texts, or try again later.",
                    kind="timeout",
                )
            verdict: Judged = work.verdict.result()
            return verdict
        finally:
            self._give_up(work)

    def interrupt(self, problem: APIError) -> None:
        """Give up on all, and tell those who wait; from the event loop in which they do."""
        with self._lock:
            every = list(self._under_way)
        for work in every:
            if not work.verdict.done():
                work.verdict.set_exception(problem)
            self._give_up(work)

    def _begin(self, client: Hashable) -> _Work:
        with self._lock:
            if len(self._under_way) >= self._most or self._clients[client] >= self._most_of_one:
                raise APIError(
                    429,
                    "Too many texts wait to be judged; try again later.",
                    kind="rate_limit_error",
                    code="queue_full",
                    retry_after=5.0,
                )
            work = _Work(client)
            self._under_way.add(work)
            self._clients[client] += 1
            self._waiting.append(work)
            self._call_next()
            return work

    def _pause(self, work: _Work) -> None:
        """Let others go on, if any wait."""
        with self._lock:
            if self._waiting and not work.given_up:
                work.turn.clear()
                self._free += 1
                self._waiting.append(work)
                self._call_next()
        self._wait_for_turn(work)

    def _wait_for_turn(self, work: _Work) -> None:
        work.turn.wait()
        if work.given_up:
            raise DetectionCancelled

    def _give_up(self, work: _Work) -> None:
        with self._lock:
            work.given_up = True
            if work in self._waiting:
                self._waiting.remove(work)
                self._free -= 1  # which its thread gives back at its end
                work.turn.set()

    def _end(self, work: _Work) -> None:
        with self._lock:
            self._under_way.remove(work)
            self._clients -= Counter([work.client])
            self._free += 1
            self._call_next()

    def _call_next(self) -> None:
        while self._free > 0 and self._waiting:
            self._free -= 1
            self._waiting.popleft().turn.set()


def _look_at(verdict: asyncio.Future[Any]) -> None:
    """Take note of an error that nobody waits for."""
    if not verdict.cancelled():
        verdict.exception()
