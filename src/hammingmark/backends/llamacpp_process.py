"""The client of the process that hosts llama.cpp.

Loading a model holds Python's interpreter lock for seconds, and ending llama.cpp while it starts
hangs. In a process of its own it blocks nobody, it can be ended at any moment, its memory is
freed, and it survives a fork of the process that uses it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Mapping
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any

from hammingmark.errors import BackendError

# The path is set before anything else is imported, because it begins with the current folder.
_HOST = (
    "import sys; sys.path[:] = sys.argv[1:]; "
    "from hammingmark.backends.llamacpp_host import main; main()"
)
_POLL = 0.05  # seconds between two checks whether a candidate was cancelled


class Lane:
    """One of llama.cpp's slots, which draws one candidate at a time."""

    def __init__(self, process: LlamaCppProcess, number: int) -> None:
        self.inbox: SimpleQueue[dict[str, Any] | None] = SimpleQueue()
        self.cancelled = False
        self._process = process
        self._number = number

    def draw(
        self,
        body: Mapping[str, Any],
        *,
        chat: bool,
        receive: Callable[[dict[str, Any]], bool],
        is_cancelled: Callable[[], bool],
    ) -> Any:
        """Draw a candidate; return llama.cpp's error, if any.

        Args:
            body: the request body.
            chat: whether it is a chat.
            receive: called with each piece; True ends the candidate.
            is_cancelled: whether the candidate was cancelled; called while no piece comes.

        Raises:
            BackendError: the process has ended.
        """
        self._process.send({"lane": self._number, "chat": chat, "body": body})
        while True:
            try:
                message = self.inbox.get(timeout=_POLL)
            except Empty:
                if is_cancelled():
                    self._process.cancel(self)
                    return None
                continue
            if message is None:
                raise self._process.exit_reason()
            if "over" in message:
                self._process.lanes.put(self)
                return message["error"]
            try:
                stop = receive(message)
            except BaseException:
                self._process.cancel(self)
                self.reply(stop=True)
                raise
            self.reply(stop=stop)

    def reply(self, *, stop: bool) -> None:
        """Tell the process whether to end the candidate."""
        self._process.send({"lane": self._number, "stop": stop})


class LlamaCppProcess:
    """A process with a model, and its lanes.

    Args:
        options: sent to `llamacpp_host.main`.

    Attributes:
        lanes: the idle ones.

    Raises:
        BackendError: llama.cpp cannot load the model.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        self.lanes: SimpleQueue[Lane] = SimpleQueue()
        self._owner = os.getpid()
        self._lock = threading.RLock()
        self._closed = False
        self._process = subprocess.Popen(
            [sys.executable, "-c", _HOST, *map(str, sys.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C reaches this process alone, which ends the other
            # By default, OpenMP's threads use processor time while they wait for each other.
            env={"OMP_WAIT_POLICY": "passive", **os.environ},
        )
        try:
            self.send(options)
            assert self._process.stdout is not None
            message: dict[str, Any] | None = None
            while message is None and (line := self._process.stdout.readline()):
                message = _parse(line)
            if not message or "ready" not in message:
                if error := (message or {}).get("failed"):
                    raise BackendError("llama.cpp cannot load the model.", detail=str(error))
                raise self.exit_reason()
        except BaseException:  # also Ctrl-C
            self._end()
            raise
        _LIVE.add(self)
        self._lanes = [Lane(self, number) for number in range(options["parallel"])]
        for lane in self._lanes:
            self.lanes.put(lane)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def release_pipes(self) -> None:
        """Close the pipes in a forked process, which would otherwise keep the model alive."""
        null = os.open(os.devnull, os.O_RDWR)
        for pipe in filter(None, (self._process.stdin, self._process.stdout)):
            with suppress(OSError, ValueError):
                os.dup2(null, pipe.fileno())
        os.close(null)

    @property
    def is_usable(self) -> bool:
        """Whether it can draw candidates: it is running, and this process started it."""
        return not self._closed and self._owner == os.getpid() and self._process.poll() is None

    def send(self, message: Mapping[str, Any]) -> None:
        """Write one line."""
        assert self._process.stdin is not None
        with (
            self._lock,
            suppress(OSError, ValueError),
        ):  # the reader notices that the process has ended
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            self._process.stdin.flush()

    def cancel(self, lane: Lane) -> None:
        """Cancel a lane's candidate; the lane becomes idle when the candidate has ended."""
        with self._lock:
            lane.cancelled = True
            while not lane.inbox.empty():
                self._discard(lane, lane.inbox.get())

    def exit_reason(self) -> BackendError:
        """Why the process no longer responds."""
        if self._closed:
            summary = "The backend was closed while it drew candidates."
            return BackendError(summary, kind="closed")
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=1.0)
        return BackendError(
            f"llama.cpp exited unexpectedly with status {self._process.returncode}.",
            advice="It may have run out of memory: choose a smaller model, fewer candidates at "
            "once or a smaller context.",
        )

    def close(self) -> None:
        """End the process, even while it computes; may be called twice, and in a forked process."""
        if self._owner != os.getpid() or self._closed:
            return
        self._closed = True
        self._end()
        if threading.current_thread() is not self._reader:
            self._reader.join(timeout=5.0)

    def _end(self) -> None:
        self._process.kill()
        self._process.wait()
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with suppress(OSError):
            self._process.stdin.close()
        if not hasattr(self, "_reader"):
            self._process.stdout.close()

    def _read(self) -> None:
        """Give each line to its lane."""
        assert self._process.stdout is not None
        try:
            with self._process.stdout as lines:
                for line in lines:
                    message = _parse(line)
                    if message is None:
                        continue
                    lane = self._lanes[message["lane"]]
                    with self._lock:
                        if lane.cancelled:
                            self._discard(lane, message)
                        else:
                            lane.inbox.put(message)
        finally:
            for lane in self._lanes:
                lane.inbox.put(None)

    def _discard(self, lane: Lane, message: dict[str, Any] | None) -> None:
        """Discard a message of a cancelled candidate, and stop it or free its lane."""
        if message is None:
            return  # the process has ended
        if "over" in message:
            lane.cancelled = False
            self.lanes.put(lane)
        else:
            lane.reply(stop=True)


def _parse(line: bytes) -> dict[str, Any] | None:
    """The message in a line; None for output of a library or an incomplete line."""
    try:
        message = json.loads(line)
    except ValueError:
        return None
    return message if isinstance(message, dict) else None


_LIVE: weakref.WeakSet[LlamaCppProcess] = weakref.WeakSet()


def _release_pipes() -> None:
    for process in _LIVE:
        process.release_pipes()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_release_pipes)
