"""The engine: texts of many callers over one backend, in one thread.

A caller submits a text and receives every step as soon as it is final. Candidates of all texts are
drawn together and embedded in one batch (`generation.loop`).
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterable
from contextlib import suppress
from queue import Empty, SimpleQueue

from hammingmark.errors import BackendError, Failure
from hammingmark.generation.generate import Writer, begin_text
from hammingmark.generation.loop import GenerationLoop, ReleasedStep
from hammingmark.generation.pace import Pace
from hammingmark.generation.state import GenerationState
from hammingmark.protocols import Backend, Session
from hammingmark.records import Generation, GenerationStep, Prompt, ReasoningPart

_LOG = logging.getLogger(__name__)

GenerationEvent = ReasoningPart | GenerationStep | Generation
"""What a caller receives: parts of the reasoning before an answer as they arrive, each step once it
is final, then the whole text.

If a text fails, steps that may contain the beginning of a stop string are only part of the whole
text, because a text that resumes it may complete the string.
"""

_Command = tuple[str, "GenerationHandle | None"]


class GenerationHandle:
    """The handle of a submitted text.

    Args:
        engine: generates the text.
        state: of the text.
        receive: called with each step and then with the whole text, in the engine's thread; it
            must not block.
        client: whose text it is.
    """

    def __init__(
        self,
        engine: Engine,
        state: GenerationState,
        receive: Callable[[GenerationEvent], None],
        client: Hashable,
    ) -> None:
        self._engine = engine
        self.state = state
        self.receive = receive
        self.client = client
        self.is_begun = False  # whether it has its first sentence

    def cancel(self) -> None:
        """Cancel the text and its candidates; the caller receives what was written."""
        self._engine.cancel(self)


class Engine:
    """Generates texts of many callers; thread-safe.

    As many texts run at once as the backend draws candidates. The others wait: clients, and the
    texts of each, take turns by the work done for them, first sentences before others
    (`scheduler`).

    Attributes:
        pace: how fast it draws.

    Args:
        backend: proposes candidates.
    """

    def __init__(self, backend: Backend) -> None:
        self.pace = Pace(backend.parallel, draws_apart=backend.width == 1)
        self._backend = backend
        self._inbox: SimpleQueue[_Command] = SimpleQueue()
        self._commands: deque[_Command] = deque()
        self._session: Session | None = None
        self._loop: GenerationLoop | None = None
        self._handles: dict[GenerationState, GenerationHandle] = {}
        self._begun = 0
        self._closed = False
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="hammingmark-engine", daemon=True)
        self._thread.start()

    @property
    def unfinished(self) -> int:
        """The number of texts that run or wait."""
        return len(self._handles)

    @property
    def begun(self) -> int:
        """The number of them that have their first sentences."""
        return self._begun

    @property
    def active(self) -> int:
        """The number of texts that run."""
        return min(len(self._handles), self._backend.parallel)

    def submit(
        self,
        writer: Writer,
        prompt: Prompt,
        *,
        seed: int,
        receive: Callable[[GenerationEvent], None],
        number: int = 0,
        client: Hashable = None,
        resumes: Generation | None = None,
    ) -> GenerationHandle:
        """Submit a text.

        Args:
            writer: its components and settings, with the backend of this engine.
            prompt: the prompt.
            seed: determines every draw, together with the number.
            receive: called with each step and then with the whole text, in the engine's thread, and
                with parts of the reasoning in a thread of the backend; it must not block.
            number: of the text, among several for one prompt.
            client: whose text it is; many texts of one client do not delay those of another.
            resumes: a failed text that this one continues; the prompt ends with that text.

        Raises:
            BackendError: the engine is closed.
        """
        if writer.backend is not self._backend:
            raise ValueError("The writer has another backend than the engine.")
        state = begin_text(
            writer, prompt, number=number, seed=seed, resumes=resumes, on_reasoning=receive
        )
        handle = GenerationHandle(self, state, receive, client)
        self._send("add", handle)
        return handle

    def cancel(self, handle: GenerationHandle) -> None:
        """Cancel a text; does nothing if it has ended."""
        with suppress(BackendError):
            self._send("remove", handle)

    def close(self) -> None:
        """Cancel all texts, notify their callers and stop the thread; idempotent."""
        with self._lock:
            self._closed = True
            self._inbox.put(("close", None))
        self._wake()
        self._thread.join()

    def _send(self, name: str, handle: GenerationHandle) -> None:
        with self._lock:
            if self._closed:
                raise BackendError("The engine is closed.", kind="closed")
            self._inbox.put((name, handle))
        self._wake()

    def _wake(self) -> None:
        if session := self._session:
            session.wake()

    def _run(self) -> None:
        is_open = True
        while is_open:
            try:
                is_open = self._process()
            except BackendError as error:
                self._fail_all(error.failure)
            except Exception:
                _LOG.exception("the engine failed")
                self._fail_all(Failure("internal", "Internal error during generation."))
        self._fail_all(Failure("closed", "The engine was closed."))

    def _process(self) -> bool:
        """Process new and cancelled texts, then wait for candidates; False once closed."""
        is_idle = self._loop is None or not self._loop.is_waiting
        self._collect_commands(wait=is_idle and not self._commands)
        while self._commands:
            name, handle = self._commands.popleft()
            if handle is None:
                return False
            if name == "add":
                self._handles[handle.state] = handle
                self._deliver(self._open_loop().add([handle.state], client=handle.client))
            elif handle.state in self._handles and self._loop is not None:
                self._deliver(self._loop.remove(handle.state))
                self._finish(handle.state, Failure("closed", "The text was cancelled."))
        if not self._inbox.empty():
            return True  # a caller could not wake the session while it was being opened
        if self._loop is not None and self._session is not None and self._loop.is_waiting:
            texts, began = self._loop.drawing, time.perf_counter()
            candidates = self._session.wait()
            self._deliver(self._loop.receive(candidates, time.perf_counter() - began))
            tokens = sum(candidate.tokens for candidate in candidates)
            self.pace.record(tokens, time.perf_counter() - began, texts=texts)
        return True

    def _collect_commands(self, *, wait: bool) -> None:
        """Move new commands from the inbox."""
        if wait:
            self._commands.append(self._inbox.get())
        with suppress(Empty):
            while True:
                self._commands.append(self._inbox.get_nowait())

    def _open_loop(self) -> GenerationLoop:
        """The loop over the open session; opens one if there is none."""
        if self._loop is None:
            self._session = self._backend.open()
            self._loop = GenerationLoop(self._backend, self._session, takes_turns=True)
        return self._loop

    def _deliver(self, steps: Iterable[ReleasedStep]) -> None:
        """Deliver steps, and the texts that have ended."""
        for state, step in steps:
            if handle := self._handles.get(state):
                if not handle.is_begun and state.is_begun:
                    self._begin(handle)
                self._notify(handle, step)
        for state in [state for state in self._handles if state.ended]:
            self._finish(state)

    def _begin(self, handle: GenerationHandle) -> None:
        handle.is_begun = True
        self._begun += 1
        self.pace.record_first(handle.state.drawn_tokens)

    def _finish(self, state: GenerationState, failure: Failure | None = None) -> None:
        handle = self._handles.pop(state)
        is_complete = failure is None and state.ended != "error"
        if is_complete and not handle.is_begun:
            self._begin(handle)
        self._begun -= handle.is_begun
        self.pace.record_whole(state.drawn_tokens, is_complete=is_complete)
        state.close()
        self._notify(handle, state.generation(failure))

    def _notify(self, handle: GenerationHandle, event: GenerationEvent) -> None:
        try:
            handle.receive(event)
        except Exception:  # an error of one caller must not affect the others
            _LOG.exception("a caller failed to receive its text")

    def _fail_all(self, failure: Failure) -> None:
        """End every text with a failure; the next text opens a new session."""
        session, self._session, self._loop = self._session, None, None
        if session is not None:
            with suppress(Exception):
                session.close()
        for state in list(self._handles):
            self._finish(state, failure)
