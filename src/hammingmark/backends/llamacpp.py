"""llama.cpp through xllamacpp: no GPU, no compiler, no server to look after.

It runs in a process of its own, which begins with the first candidate and ends with the backend.
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

from hammingmark.backends.base import Closing, messages_of
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
from hammingmark.records import Candidate, Prompt, Request
from hammingmark.registry import require_libraries

DEFAULT_CONTEXT = 4096
"""Tokens, as far as the model goes. Each costs memory four times over, once for each lane."""

_PENALTIES = frozenset({"presence_penalty", "frequency_penalty", "repeat_penalty"})
_FURTHER = _PENALTIES | {"logit_bias"}
_STEP = 256  # tokens; llama.cpp takes no other sizes


class LlamaCppBackend(Closing):
    """A GGUF model.

    Args:
        file: the model.
        name: what a user typed to get it.
        parallel: how many candidates are decoded together.
        width: how many of them may be of one text. Few cores gain less by decoding together than
            they lose on candidates that are drawn in vain, and one at a time is repeatable.
        context: tokens that a prompt and its continuation may have together; by default 4,096, or
            what the model was trained for if that is less.
        threads: for decoding; by default one fewer than there are cores.
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
        self._asked_context = context
        self._threads = threads or threads_to_use()
        self._process: LlamaCppProcess | None = None
        self._lock = threading.Lock()
        self._owner = os.getpid()

    @property
    def capabilities(self) -> BackendCapabilities:
        """Sentences in stages."""
        return BackendCapabilities(continues=self.continues)

    def continues(self, prompt: Prompt) -> bool:
        """In the middle of a sentence too, answers to a chat included."""
        return True

    def open(self) -> LlamaCppSession:
        """Begin to draw; the first call loads the model, and the first after a fork does again."""
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
        """End the process with the model; may be called twice."""
        if self._process is not None:
            self._process.close()
            self._process = None

    def _load(self) -> LlamaCppProcess:
        require_libraries(self.libraries, part="llama.cpp", get="")
        if not self._file.is_file():
            raise BackendError(f"There is no model file {self._file}.")
        self._trained = trained_context(self._file)
        context = fitting_context(
            self._asked_context, default=DEFAULT_CONTEXT, trained=self._trained, name=self.name
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
    """Worker threads, each driving one candidate at a time through llama.cpp's own batching."""

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
        self._asked: SimpleQueue[Request | None] = SimpleQueue()
        self._done: SimpleQueue[Candidate | BackendError | None] = SimpleQueue()
        self._under_way: set[int] = set()
        self._cancelled: set[int] = set()
        self._closed = False
        self._workers = [threading.Thread(target=self._work, daemon=True) for _ in range(workers)]
        for worker in self._workers:
            worker.start()

    def submit(self, request: Request) -> None:
        """Ask for one candidate."""
        self._under_way.add(request.number)
        self._asked.put(request)

    def cancel(self, number: int) -> None:
        """Give up on one candidate."""
        if number in self._under_way:
            self._cancelled.add(number)

    def wake(self) -> None:
        """Have `wait` return soon."""
        self._done.put(None)

    def wait(self) -> list[Candidate]:
        """Every candidate that has finished, at least one unless it is woken."""
        found = [self._done.get()]
        while not self._done.empty():
            found.append(self._done.get())
        for each in found:
            if isinstance(each, BackendError):
                raise each
        candidates = [each for each in found if isinstance(each, Candidate)]
        numbers = {each.number for each in candidates}
        self._under_way -= numbers
        self._cancelled -= numbers
        return candidates

    def close(self) -> None:
        """Give up on all candidates and end the threads; may be called twice."""
        self._closed = True
        for _ in self._workers:
            self._asked.put(None)
        for worker in self._workers:
            worker.join()

    def _work(self) -> None:
        while (request := self._asked.get()) is not None:
            if self._closed:
                continue
            try:
                self._done.put(self._draw(request))
            except BackendError as error:
                self._done.put(error)
            except Exception as error:
                summary = f"A candidate could not be drawn ({type(error).__name__})."
                self._done.put(BackendError(summary, kind="internal", detail=str(error)))

    def _draw(self, request: Request) -> Candidate:
        pieces: list[str] = []
        reason: str | None = None
        drawn = 0
        read: int | None = None

        def is_given_up() -> bool:
            return self._closed or request.number in self._cancelled

        def receive(piece: dict[str, Any]) -> bool:
            nonlocal reason, drawn, read
            reason = piece["reason"] or reason
            drawn = piece["drawn"] or drawn
            read = piece["read"] or read
            if piece["text"]:
                # Tokens before it that make a part of a character have no text of their own.
                pieces.extend([""] * (drawn - len(pieces) - 1))
                pieces.append(piece["text"])
                if request.stop_condition("".join(pieces)):
                    return True
            return is_given_up()

        while not is_given_up():
            if not self._process.is_usable:
                raise self._process.exit_reason()
            try:
                lane = self._process.lanes.get(timeout=0.1)
            except Empty:
                continue  # another session's candidates are being drawn
            complaint = lane.draw(
                body_of(request),
                chat=bool(request.prompt.messages),
                receive=receive,
                is_given_up=is_given_up,
            )
            if complaint:
                refused = self._refusal(complaint)
                return Candidate(request.number, (), finished=False, failure=refused)
            break
        full = reason == "length" and drawn < request.max_tokens
        return Candidate(
            request.number,
            tuple(pieces),
            finished=reason == "stop",
            truncated=reason == "length",
            failure=context_full(context=self._context, trained=self._trained) if full else None,
            read_tokens=read,
        )

    def _refusal(self, complaint: Any) -> Failure:
        if isinstance(complaint, dict):
            tokens = int(complaint["n_prompt_tokens"])
            return prompt_too_long(tokens, context=self._context, trained=self._trained)
        summary = "llama.cpp refused the prompt."
        return Failure("prompt_refused", summary, detail=str(complaint))


def body_of(request: Request) -> dict[str, Any]:
    """What llama.cpp is asked for."""
    sampling = request.sampling
    body: dict[str, Any] = {
        "max_tokens": request.max_tokens,
        "seed": request.seed,
        "temperature": sampling.temperature,
        "top_k": sampling.top_k,
        "top_p": sampling.top_p,
        "min_p": sampling.min_p,
        # In the order of transformers and vLLM; llama.cpp's own has the temperature last.
        "samplers": ["temperature", "top_k", "top_p", "min_p"],
        "stream": True,
        "timings_per_token": True,  # they tell how many tokens the prompt has
        "cache_prompt": True,
    }
    further = {name: json.loads(value) for name, value in sampling.further if name in _FURTHER}
    if further.keys() & _PENALTIES:
        body["samplers"] = ["penalties", *body["samplers"]]
    body |= further
    if request.prompt.messages:
        body["messages"] = messages_of(request.prompt, request.written)
    else:
        body["prompt"] = request.prompt.text + request.written
    return body
