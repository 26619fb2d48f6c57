"""llama.cpp in this process, through xllamacpp: no server, no GPU, no compiler.

All candidates of a step are decoded together, and a prompt that several share is read once.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from hammingmark.errors import BackendError
from hammingmark.records import Candidate, Request, Sampling


class LlamaCppBackend:
    """A GGUF model in this process.

    Args:
        file: the model.
        name: what a user typed to get it.
        parallel: how many candidates are decoded together.
        width: how many of them may be of one text. Few cores gain less by decoding together than
            they lose on candidates that are drawn in vain, and one at a time is repeatable.
        context: tokens that a prompt and its continuation may have together.
        threads: for decoding; by default one for each core.
    """

    def __init__(
        self,
        file: Path,
        *,
        name: str,
        parallel: int = 4,
        width: int = 1,
        context: int = 2048,
        threads: int | None = None,
    ) -> None:
        self.name = name
        self.parallel = parallel
        self.width = width
        self._file = file
        self._context = context
        self._threads = threads or os.cpu_count() or 1
        self._server: Any = None
        self._lock = threading.Lock()

    def open(self, sampling: Sampling) -> LlamaCppSession:
        """Begin to draw; the first call loads the model."""
        with self._lock:
            if self._server is None:
                self._server = self._load()
        return LlamaCppSession(self._server, sampling, workers=self.parallel)

    def _load(self) -> Any:
        try:
            import xllamacpp
        except ImportError:
            raise BackendError(
                "llama.cpp is not installed; get it with: pip install xllamacpp"
            ) from None
        if not self._file.is_file():
            raise BackendError(f"There is no model file {self._file}.")
        params = xllamacpp.CommonParams()
        params.model.path = str(self._file)
        params.n_parallel = self.parallel
        params.n_ctx = self._context * self.parallel
        params.cpuparams.n_threads = self._threads
        params.cpuparams_batch.n_threads = self._threads
        params.warmup = False
        params.verbosity = 0
        try:
            return xllamacpp.Server(params)
        except Exception as error:
            raise BackendError(f"llama.cpp cannot load {self._file.name}: {error}") from error


class LlamaCppSession:
    """Worker threads, each driving one candidate at a time through llama.cpp's own batching."""

    def __init__(self, server: Any, sampling: Sampling, *, workers: int) -> None:
        self._server = server
        self._sampling = sampling
        self._asked: SimpleQueue[Request | None] = SimpleQueue()
        self._done: SimpleQueue[Candidate | Exception] = SimpleQueue()
        self._cancelled: set[int] = set()
        self._closed = False
        self._workers = [threading.Thread(target=self._work, daemon=True) for _ in range(workers)]
        for worker in self._workers:
            worker.start()

    def submit(self, request: Request) -> None:
        """Ask for one candidate."""
        self._asked.put(request)

    def cancel(self, number: int) -> None:
        """Give up on one candidate."""
        self._cancelled.add(number)

    def wait(self) -> list[Candidate]:
        """Every candidate that has finished, at least one."""
        found = [self._done.get()]
        try:
            while True:
                found.append(self._done.get_nowait())
        except Empty:
            pass
        for each in found:
            if isinstance(each, Exception):
                raise each
        return [each for each in found if isinstance(each, Candidate)]

    def close(self) -> None:
        """Give up on all candidates and end the threads."""
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
                self._done.put(BackendError(f"llama.cpp failed: {error}"))

    def _draw(self, request: Request) -> Candidate:
        pieces: list[str] = []
        reason: str | None = None
        failure: str | None = None

        def receive(chunk: Any) -> bool:
            """Take one chunk; True ends the candidate."""
            nonlocal reason, failure
            if isinstance(chunk, dict) and "error" in chunk:
                failure = str(chunk["error"].get("message", chunk["error"]))
                return True
            piece, stopped = _read(chunk)
            reason = stopped or reason
            if piece:
                pieces.append(piece)
                if request.enough("".join(pieces)):
                    return True
            return self._closed or request.number in self._cancelled

        if request.number not in self._cancelled:
            body = _body(request, self._sampling)
            handle = (
                self._server.handle_chat_completions
                if request.prompt.messages
                else self._server.handle_completions
            )
            answer = handle(body, receive)
            if isinstance(answer, dict) and "error" in answer:
                failure = str(answer["error"].get("message", answer["error"]))
        if failure:
            raise BackendError(f"llama.cpp refused the prompt: {failure}")
        return Candidate(
            request.number, tuple(pieces), finished=reason == "stop", cut=reason == "length"
        )


def _body(request: Request, sampling: Sampling) -> dict[str, Any]:
    body: dict[str, Any] = {
        "max_tokens": request.max_tokens,
        "seed": request.seed,
        "temperature": sampling.temperature,
        "top_k": sampling.top_k,
        "top_p": sampling.top_p,
        "min_p": 0.0,
        "stream": True,
        "cache_prompt": True,
    }
    if request.prompt.messages:
        turns = [{"role": m.role, "content": m.content} for m in request.prompt.messages]
        if request.written:
            turns.append({"role": "assistant", "content": request.written})
        body["messages"] = turns
    else:
        body["prompt"] = request.prompt.text + request.written
    return body


def _read(chunk: Any) -> tuple[str, str | None]:
    """The text of one streamed chunk, and why the model stopped with it, if it did."""
    choices = chunk.get("choices") if isinstance(chunk, dict) else None
    if not choices:
        return "", None
    choice = choices[0]
    piece = choice.get("text")
    if piece is None:
        piece = choice.get("delta", {}).get("content") or ""
    return piece, choice.get("finish_reason")
