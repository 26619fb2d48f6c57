"""Texts of many callers, written side by side over one backend, in one thread.

Whoever wants a text submits it and is told of every sentence as soon as it is accepted. Candidates
of all texts are drawn in one batch and embedded in one batch (`generation.loop`).
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
from hammingmark.generation.loop import GenerationLoop, Written
from hammingmark.generation.state import GenerationState
from hammingmark.protocols import Backend, Session
from hammingmark.records import Generation, GenerationStep, Prompt

_LOG = logging.getLogger(__name__)

Progress = GenerationStep | Generation
"""What a caller gets: each step once it is final, and at last the whole text.

Of a text that fails, steps that may end with the beginning of a string to stop at are in the whole
alone, because whoever goes on with the text may complete the string.
"""


_Order = tuple[str, "Ticket | None"]


class Ticket:
    """One text that somebody waits for.

    Args:
        engine: writes it.
        document: the text.
        receive: is told of each step and at last of the whole, in the engine's thread; it must
            not wait for anything.
        client: who asks for it.
    """

    def __init__(
        self,
        engine: Engine,
        document: GenerationState,
        receive: Callable[[Progress], None],
        client: Hashable,
    ) -> None:
        self._engine = engine
        self.document = document
        self.receive = receive
        self.client = client

    def cancel(self) -> None:
        """Give up on the text: its candidates are given up, and what was written is told."""
        self._engine.cancel(self)


class Engine:
    """Writes texts of many callers; may be called from any thread.

    As many texts are written at once as the backend draws candidates. Others wait: clients take
    turns, and the texts of one client are written in the order in which they came.

    Args:
        backend: proposes candidates.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._inbox: SimpleQueue[_Order] = SimpleQueue()
        self._orders: deque[_Order] = deque()
        self._session: Session | None = None
        self._loop: GenerationLoop | None = None
        self._tickets: dict[GenerationState, Ticket] = {}
        self._closed = False
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._work, name="hammingmark-engine", daemon=True)
        self._thread.start()

    @property
    def unfinished(self) -> int:
        """How many texts are being written or wait for their turn."""
        return len(self._tickets)

    @property
    def active(self) -> int:
        """How many texts are being written."""
        return min(len(self._tickets), self._backend.parallel)

    def submit(
        self,
        writer: Writer,
        prompt: Prompt,
        *,
        seed: int,
        receive: Callable[[Progress], None],
        number: int = 0,
        client: Hashable = None,
        resumes: Generation | None = None,
    ) -> Ticket:
        """Have a text written.

        Args:
            writer: says how; its backend is this engine's.
            prompt: what to answer.
            seed: decides every draw, together with the number.
            receive: is told of each step and at last of the whole, in the engine's thread; it
                must not wait for anything.
            number: of the text, among several that answer one prompt.
            client: who asks; nobody who waits is passed over for the many texts of another.
            resumes: a text that failed, and that this one goes on with; the prompt ends with it.

        Raises:
            BackendError: the engine is closed.
        """
        if writer.backend is not self._backend:
            raise ValueError("a writer with a backend of its own")
        document = begin_text(writer, prompt, number=number, seed=seed, resumes=resumes)
        ticket = Ticket(self, document, receive, client)
        self._send("add", ticket)
        return ticket

    def cancel(self, ticket: Ticket) -> None:
        """Give up on a text; one that has ended is left alone."""
        with suppress(BackendError):
            self._send("remove", ticket)

    def close(self) -> None:
        """Give up on all texts, tell their callers, and end the thread; may be called twice."""
        with self._lock:
            self._closed = True
            self._inbox.put(("close", None))
        self._wake()
        self._thread.join()

    def _send(self, what: str, ticket: Ticket) -> None:
        with self._lock:
            if self._closed:
                raise BackendError("The engine is closed and writes nothing more.", kind="closed")
            self._inbox.put((what, ticket))
        self._wake()

    def _wake(self) -> None:
        if session := self._session:
            session.wake()

    def _work(self) -> None:
        goes_on = True
        while goes_on:
            try:
                goes_on = self._turn()
            except BackendError as error:
                self._fail_all(error.failure)
            except Exception:
                _LOG.exception("the engine failed")
                self._fail_all(Failure("internal", "Something unforeseen stopped the writing."))
        self._fail_all(Failure("closed", "The engine was closed."))

    def _turn(self) -> bool:
        """Take in who came or left, then wait for candidates; False once it is closed."""
        idle = self._loop is None or not self._loop.is_waiting
        self._collect(wait=idle and not self._orders)
        while self._orders:
            what, ticket = self._orders.popleft()
            if ticket is None:
                return False
            if what == "add":
                self._tickets[ticket.document] = ticket
                self._tell(self._open().add([ticket.document], client=ticket.client))
            elif ticket.document in self._tickets and self._loop is not None:
                self._tell(self._loop.remove(ticket.document))
                self._finish(ticket.document, Failure("closed", "The text was cancelled."))
        if not self._inbox.empty():
            return True  # whoever came while the session was being opened could not wake it
        if self._loop is not None and self._session is not None and self._loop.is_waiting:
            began = time.perf_counter()
            arrived = self._session.wait()
            self._tell(self._loop.receive(arrived, time.perf_counter() - began))
        return True

    def _collect(self, *, wait: bool) -> None:
        """What has been asked of the engine since the last time."""
        if wait:
            self._orders.append(self._inbox.get())
        with suppress(Empty):
            while True:
                self._orders.append(self._inbox.get_nowait())

    def _open(self) -> GenerationLoop:
        """The loop over the session that is open; where there is none, a new one."""
        if self._loop is None:
            self._session = self._backend.open()
            self._loop = GenerationLoop(self._backend, self._session)
        return self._loop

    def _tell(self, written: Iterable[Written]) -> None:
        """Hand out steps, and the texts that have ended."""
        for document, step in written:
            if ticket := self._tickets.get(document):
                self._hand(ticket, step)
        for document in [each for each in self._tickets if each.ended]:
            self._finish(document)

    def _finish(self, document: GenerationState, failure: Failure | None = None) -> None:
        ticket = self._tickets.pop(document)
        document.close()
        self._hand(ticket, document.generation(failure))

    def _hand(self, ticket: Ticket, progress: Progress) -> None:
        try:
            ticket.receive(progress)
        except Exception:  # one caller's fault must not stop the others
            _LOG.exception("a caller failed to take what was written")

    def _fail_all(self, failure: Failure) -> None:
        """End every text with a failure; the next one finds a new session."""
        session, self._session, self._loop = self._session, None, None
        if session is not None:
            with suppress(Exception):
                session.close()
        for document in list(self._tickets):
            self._finish(document, failure)
