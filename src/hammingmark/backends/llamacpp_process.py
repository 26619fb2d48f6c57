"""The process that hosts llama.cpp, seen from outside.

Loading a model holds Python's interpreter lock for seconds, and ending llama.cpp in the moment in
which it begins hangs. In a process of its own it holds up nobody: it can be ended at any moment,
its memory comes back, and it survives a fork of the process that uses it.
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

# Nothing is looked up before the path is ours: the folder in which a command runs is on it first.
_HOST = (
    "import sys; sys.path[:] = sys.argv[1:]; "
    "from hammingmark.backends.llamacpp_host import main; main()"
)
_PATIENCE = 0.05  # seconds between two looks at whether a candidate is still wanted


class Lane:
    """Draws one candidate at a time."""

    def __init__(self, process: LlamaCppProcess, number: int) -> None:
        self.inbox: SimpleQueue[dict[str, Any] | None] = SimpleQueue()
        self.given_up = False
        self._process = process
        self._number = number

    def draw(
        self,
        body: Mapping[str, Any],
        *,
        chat: bool,
        receive: Callable[[dict[str, Any]], bool],
        is_given_up: Callable[[], bool],
    ) -> Any:
        """Draw a candidate; what llama.cpp complains of, if it does.

        Args:
            body: what to ask for.
            chat: whether it is a chat.
            receive: takes one piece; True ends the candidate.
            is_given_up: whether nobody waits any more, asked while no piece comes.

        Raises:
            BackendError: the process has ended.
        """
        self._process.send({"lane": self._number, "chat": chat, "body": body})
        while True:
            try:
                message = self.inbox.get(timeout=_PATIENCE)
            except Empty:
                if is_given_up():
                    self._process.give_up(self)
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
                self._process.give_up(self)
                self.answer(stop=True)
                raise
            self.answer(stop=stop)

    def answer(self, *, stop: bool) -> None:
        """Say whether the candidate needs to go on."""
        self._process.send({"lane": self._number, "stop": stop})


class LlamaCppProcess:
    """A process with a model, and its lanes.

    Args:
        options: told to `llamacpp_host.main`.

    Attributes:
        lanes: those that draw nothing.

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
            start_new_session=True,  # Ctrl-C is for us; we end the process
            # OpenMP's threads would burn the time that they wait for each other.
            env={"OMP_WAIT_POLICY": "passive", **os.environ},
        )
        try:
            self.send(options)
            assert self._process.stdout is not None
            answer: dict[str, Any] | None = None
            while answer is None and (line := self._process.stdout.readline()):
                answer = _message(line)
            if not answer or "ready" not in answer:
                if complaint := (answer or {}).get("failed"):
                    raise BackendError("llama.cpp cannot load the model.", detail=str(complaint))
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

    def let_go(self) -> None:
        """Give up the pipes in a forked process, or the model would live as long as that."""
        nothing = os.open(os.devnull, os.O_RDWR)
        for pipe in filter(None, (self._process.stdin, self._process.stdout)):
            with suppress(OSError, ValueError):
                os.dup2(nothing, pipe.fileno())
        os.close(nothing)

    @property
    def is_usable(self) -> bool:
        """Whether candidates can be drawn: it runs, and this process started it."""
        return not self._closed and self._owner == os.getpid() and self._process.poll() is None

    def send(self, message: Mapping[str, Any]) -> None:
        """Write one line."""
        assert self._process.stdin is not None
        with self._lock, suppress(OSError, ValueError):  # one that has ended is noticed by reading
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            self._process.stdin.flush()

    def give_up(self, lane: Lane) -> None:
        """End a lane's candidate although nobody waits for it; the lane is free when it has."""
        with self._lock:
            lane.given_up = True
            while not lane.inbox.empty():
                self._clear(lane, lane.inbox.get())

    def exit_reason(self) -> BackendError:
        """Why the process does not answer."""
        if self._closed:
            summary = "The model was closed while candidates were being drawn."
            return BackendError(summary, kind="closed")
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=1.0)
        return BackendError(
            f"llama.cpp ended unexpectedly, with status {self._process.returncode}.",
            advice="It may lack memory: choose a smaller model, fewer candidates at once or a "
            "smaller context.",
        )

    def close(self) -> None:
        """End the process, whatever it does; may be called twice, and from a forked process."""
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
        """Hand each line to its lane."""
        assert self._process.stdout is not None
        try:
            with self._process.stdout as lines:
                for line in lines:
                    message = _message(line)
                    if message is None:
                        continue
                    lane = self._lanes[message["lane"]]
                    with self._lock:
                        if lane.given_up:
                            self._clear(lane, message)
                        else:
                            lane.inbox.put(message)
        finally:
            for lane in self._lanes:
                lane.inbox.put(None)

    def _clear(self, lane: Lane, message: dict[str, Any] | None) -> None:
        """Answer for a lane whose candidate was given up."""
        if message is None:
            return  # the process has ended
        if "over" in message:
            lane.given_up = False
            self.lanes.put(lane)
        else:
            lane.answer(stop=True)


def _message(line: bytes) -> dict[str, Any] | None:
    """What a line says; None for what some library printed, or for the half of a line."""
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


_LIVE: weakref.WeakSet[LlamaCppProcess] = weakref.WeakSet()


def _let_go() -> None:
    for process in _LIVE:
        process.let_go()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go)
