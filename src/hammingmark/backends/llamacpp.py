"""llama.cpp through xllamacpp: no GPU, compiler or server is needed.

It runs in a child process that starts with the first session and ends with the backend.
All candidates of a step are decoded together, and a prompt that several share is read once.
"""

from __future__ import annotations

import json
import os
import threading
import weakref
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, ClassVar

from hammingmark.backends.base import Closing, FinishedCandidates, messages_of
from hammingmark.backends.gguf_header import trained_context
from hammingmark.backends.llamacpp_process import LlamaCppProcess
from hammingmark.backends.local import (
    context_full,
    fitting_context,
    prompt_too_long,
    threads_to_use,
)
from hammingmark.errors import BackendError, Failure
from hammingmark.protocols import BackendCapabilities
from hammingmark.records import Candidate, ModelUsage, Prompt, Request, Sampling
from hammingmark.registry import require_libraries

DEFAULT_CONTEXT = 4096
"""Tokens, unless the model was trained for fewer; each lane reserves memory for all of them."""

_PENALTIES = frozenset({"presence_penalty", "frequency_penalty", "repeat_penalty"})
_FURTHER_FIELDS = _PENALTIES | {"logit_bias"}
_STEP = 256  # tokens; llama.cpp takes only multiples of it as a context


class LlamaCppBackend(Closing):
    """A GGUF model.

    Args:
        file: the model.
        name: the name by which a user chose it.
        parallel: how many candidates are decoded together.
        width: how many of them may belong to one text. With few cores, decoding together gains
            less than is lost on candidates that are not used, and one at a time is repeatable.
        context: tokens of a prompt and its continuation together; by default 4,096, or the
            context for which the model was trained if that is less.
        threads: for decoding; by default one fewer than the number of cores.
    """

    libraries: ClassVar[tuple[str, ...]] = ("xllamacpp",)

    def __init__(
        self,
        file: Path,
        *,
        name: str,
        parallel: int = 4,
        width: int = 1,
        context: int | None = None,
        threads: int | None = None,
    ) -> None:
        self.name = name
        self.parallel = parallel
        self.width = width
        self._file = file
        self._requested_context = context
        self._threads = threads or threads_to_use()
        self._process: LlamaCppProcess | None = None
        self._lock = threading.Lock()
        self._owner = os.getpid()

    @property
    def capabilities(self) -> BackendCapabilities:
        """It can draw sentences in stages."""
        return BackendCapabilities(continues=self.continues, charges=True)

    def continues(self, prompt: Prompt, sampling: Sampling) -> bool:
        """Always true: it also continues within a sentence, in chats too."""
        return True

    def open(self) -> LlamaCppSession:
        """Start a session; the first call loads the model, and so does the first after a fork."""
        if self._owner != os.getpid():
            self._owner, self._lock = os.getpid(), threading.Lock()
        with self._lock:
            if self._process is None or not self._process.is_usable:
                self._process = self._load()
                weakref.finalize(self, self._process.close)
            return LlamaCppSession(
                self._process,
                workers=self.parallel,
                context=self._context,
                trained=self._trained,
            )

    def close(self) -> None:
        """End the process and release the model; may be called twice."""
        if self._process is not None:
            self._process.close()
            self._process = None

    def _load(self) -> LlamaCppProcess:
        require_libraries(self.libraries, part="llama.cpp", extra="")
        if not self._file.is_file():
            raise BackendError(f"The model file {self._file} does not exist.")
        self._trained = trained_context(self._file)
        context = fitting_context(
            self._requested_context, default=DEFAULT_CONTEXT, trained=self._trained, name=self.name
        )
        self._context = -(-context // _STEP) * _STEP
        try:
            return LlamaCppProcess(
                {
                    "file": str(self._file),
                    "parallel": self.parallel,
                    "context": self._context,
                    "threads": self._threads,
                }
            )
        except BackendError as error:
            raise BackendError(
                f"llama.cpp cannot load {self._file.name}.",
                detail=error.failure.detail or error.failure.summary,
                advice=error.failure.advice,
            ) from None


class LlamaCppSession:
    """Worker threads, each of which draws one candidate at a time on a lane of the process.

    llama.cpp batches the lanes itself. The lanes are shared by all sessions; the threads are not.
    """

    def __init__(
        self,
        process: LlamaCppProcess,
        *,
        workers: int,
        context: int,
        trained: int | None,
    ) -> None:
        self._process = process
        self._context = context
        self._trained = trained
        self._requests: SimpleQueue[Request | None] = SimpleQueue()
        self._finished = FinishedCandidates()
        self._running: set[int] = set()
        self._cancelled: set[int] = set()
        self._closed = False
        self._workers = [threading.Thread(target=self._work, daemon=True) for _ in range(workers)]
        for worker in self._workers:
            worker.start()

    def submit(self, request: Request) -> None:
        """Request one candidate."""
        self._running.add(request.number)
        self._requests.put(request)

    def cancel(self, number: int) -> None:
        """Cancel one candidate."""
        if number in self._running:
            self._cancelled.add(number)

    def wake(self) -> None:
        """Make `wait` return soon."""
        self._finished.wake()

    def wait(self) -> list[Candidate]:
        """Every candidate that has finished, at least one unless `wake` is called."""
        candidates = self._finished.wait()
        numbers = {candidate.number for candidate in candidates}
        self._running -= numbers
        self._cancelled -= numbers
        return candidates

    def close(self) -> None:
        """Cancel all candidates and end the threads; may be called twice."""
        self._closed = True
        for _ in self._workers:
            self._requests.put(None)
        for worker in self._workers:
            worker.join()

    def _work(self) -> None:
        while (request := self._requests.get()) is not None:
            if self._closed:
                continue
            try:
                self._finished.put(self._draw(request))
            except BackendError as error:
                self._finished.put(error)
            except Exception as error:
                summary = f"Drawing a candidate failed ({type(error).__name__})."
                self._finished.put(BackendError(summary, kind="internal", detail=str(error)))

    def _draw(self, request: Request) -> Candidate:
        pieces: list[str] = []
        reason: str | None = None
        drawn = 0
        read: int | None = None
        cached = 0

        def is_cancelled() -> bool:
            return self._closed or request.number in self._cancelled

        def receive(piece: dict[str, Any]) -> bool:
            nonlocal reason, drawn, read, cached
            reason = piece["reason"] or reason
            drawn = piece["drawn"] or drawn
            read = piece["read"] or read
            cached = piece["cached"] or cached
            if piece["text"]:
                # The tokens before it that form only part of a character have no text.
                pieces.extend([""] * (drawn - len(pieces) - 1))
                pieces.append(piece["text"])
                if request.stop_condition("".join(pieces)):
                    return True
            return is_cancelled()

        while not is_cancelled():
            if not self._process.is_usable:
                raise self._process.exit_reason()
            try:
                lane = self._process.lanes.get(timeout=0.1)
            except Empty:
                continue  # all lanes draw candidates of other sessions
            error = lane.draw(
                body_of(request),
                chat=bool(request.prompt.messages),
                receive=receive,
                is_cancelled=is_cancelled,
            )
            request.charge(ModelUsage(1, read or 0, cached, drawn))
            if error:
                return Candidate(request.number, (), finished=False, failure=self._failure(error))
            break
        is_full = reason == "length" and drawn < request.max_tokens
        return Candidate(
            request.number,
            tuple(pieces),
            finished=reason == "stop",
            truncated=reason == "length",
            failure=context_full(context=self._context, trained=self._trained) if is_full else None,
            read_tokens=read,
        )

    def _failure(self, error: Any) -> Failure:
        if isinstance(error, dict):
            tokens = int(error["n_prompt_tokens"])
            return prompt_too_long(tokens, context=self._context, trained=self._trained)
        summary = "llama.cpp refused the prompt."
        return Failure("prompt_refused", summary, detail=str(error))


def body_of(request: Request) -> dict[str, Any]:
    """The request body for llama.cpp."""
    sampling = request.sampling
    body: dict[str, Any] = {
        "max_tokens": request.max_tokens,
        "seed": request.seed,
        "temperature": sampling.temperature,
        "top_k": sampling.top_k,
        "top_p": sampling.top_p,
        "min_p": sampling.min_p,
        # The order of transformers and vLLM; llama.cpp applies the temperature last by default.
        "samplers": ["temperature", "top_k", "top_p", "min_p"],
        "stream": True,
        "timings_per_token": True,  # they report the number of prompt tokens
        "cache_prompt": True,
    }
    further = {
        name: json.loads(value) for name, value in sampling.further if name in _FURTHER_FIELDS
    }
    if further.keys() & _PENALTIES:
        body["samplers"] = ["penalties", *body["samplers"]]
    body |= further
    if request.prompt.messages:
        body["messages"] = messages_of(request.prompt, request.written)
    else:
        body["prompt"] = request.prompt.text + request.written
    return body
