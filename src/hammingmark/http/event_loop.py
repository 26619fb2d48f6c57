"""An event loop in a thread of its own, for callers that are not asynchronous."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

_LONGEST_JOIN = 10.0  # seconds; tasks that are cancelled end sooner


class LoopClosed(Exception):
    """The loop has ended, or belongs to the process from which this one was forked."""


class _Lookups(ThreadPoolExecutor):
    """Resolves host names in daemon threads; the interpreter would wait for those of a pool."""

    def submit(self, call: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        future: Future[T] = Future()
        future.set_running_or_notify_cancel()

        def look_up() -> None:
            try:
                future.set_result(call(*args, **kwargs))
            except BaseException as error:
                future.set_exception(error)

        threading.Thread(target=look_up, daemon=True).start()
        return future


class EventLoopThread:
    """Runs coroutines for any thread, in a daemon thread that does not delay exit.

    Args:
        client: entered when the loop starts, and exited when it ends, after all tasks.
    """

    def __init__(self, client: AbstractAsyncContextManager[Any]) -> None:
        self._client = client
        self._loop = asyncio.new_event_loop()
        self._loop.set_default_executor(_Lookups())
        self._stopping = asyncio.Event()
        self._stopped = False
        self._lock = threading.RLock()
        self._owner = os.getpid()
        self._thread = threading.Thread(target=self._run, name="hammingmark-http", daemon=True)
        self._thread.start()

    def start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Start a task; cancelling the future cancels the task.

        Raises:
            LoopClosed: the loop has ended.
        """
        if self._is_ours():
            with self._lock:
                if not self._stopped:
                    return asyncio.run_coroutine_threadsafe(work, self._loop)
        work.close()
        raise LoopClosed

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a task and wait for it; an interrupt cancels it.

        Raises:
            LoopClosed: the loop has ended.
            CancelledError: the loop was closed meanwhile.
        """
        future = self.start(work)
        try:
            return future.result()
        finally:
            future.cancel()

    def stop(self) -> None:
        """Cancel all tasks without waiting for them."""
        if self._is_ours():
            with self._lock:
                if not self._stopped:
                    self._stopped = True
                    self._loop.call_soon_threadsafe(self._stopping.set)

    def close(self) -> None:
        """Cancel all tasks and end the thread; may be called twice."""
        self.stop()
        self._thread.join(_LONGEST_JOIN)

    def _is_ours(self) -> bool:
        # A forked process lacks the thread, and its copy of the lock may stay locked for ever.
        return self._owner == os.getpid()

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._serve())
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        finally:
            self._loop.close()

    async def _serve(self) -> None:
        async with self._client:
            await self._stopping.wait()
            tasks = asyncio.all_tasks() - {asyncio.current_task()}
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
