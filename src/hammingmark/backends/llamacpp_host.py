"""The program of the process that hosts llama.cpp: requests in, pieces of candidates out.

Each line, in or out, is one JSON object. The first line in says how to load the model; the reply
is ``{"ready": true}`` or ``{"failed": "…"}``. Then each lane draws one candidate at a time:

- in: ``{"lane": 0, "chat": false, "body": {…}}`` requests a candidate;
- out: ``{"lane": 0, "text": "…", "reason": null, "drawn": 1, "read": 8, "cached": 7}`` is a
  piece of it; the reply is ``{"lane": 0, "stop": false}``;
- out: ``{"lane": 0, "over": true, "error": null}`` ends it.

The process ends when its standard input closes.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from queue import SimpleQueue
from typing import Any

Send = Callable[[Mapping[str, Any]], None]


def main() -> None:
    """Load a model and draw candidates until standard input closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that started this one ends it
    # Output of libraries goes to standard error, so that it does not mix with the lines.
    output = os.dup(1)
    os.dup2(2, 1)
    lock = threading.Lock()

    def send(message: Mapping[str, Any]) -> None:
        line = json.dumps(message).encode() + b"\n"
        with lock:
            while line:
                line = line[os.write(output, line) :]

    options = json.loads(sys.stdin.buffer.readline())
    try:
        server = _load(options)
    except Exception as error:
        send({"failed": str(error)})
        return
    inboxes: list[SimpleQueue[Any]] = [SimpleQueue() for _ in range(options["parallel"])]
    for lane, inbox in enumerate(inboxes):
        threading.Thread(target=_work, args=(server, lane, inbox, send), daemon=True).start()
    send({"ready": True})
    for line in sys.stdin.buffer:
        message = json.loads(line)
        inboxes[message["lane"]].put(message)
    # llama.cpp's destructor is not called: it would wait for running computations.
    os._exit(0)


def _load(options: Mapping[str, Any]) -> Any:
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = options["file"]
    params.n_parallel = options["parallel"]
    params.n_ctx = options["context"] * options["parallel"]
    params.cpuparams.n_threads = options["threads"]
    params.cpuparams_batch.n_threads = options["threads"]
    params.cache_ram_mib = 0  # by default it keeps up to 8 GiB of earlier prompts
    params.warmup = False
    params.verbosity = 0
    return xllamacpp.Server(params)


def _work(server: Any, lane: int, inbox: SimpleQueue[Any], send: Send) -> None:
    while True:
        error = _draw(server, lane, inbox, send)
        send({"lane": lane, "over": True, "error": error})


def _draw(server: Any, lane: int, inbox: SimpleQueue[Any], send: Send) -> Any:
    """Draw the next candidate; return llama.cpp's error, if any."""
    message = inbox.get()
    errors: list[Any] = []

    def receive(chunk: Any) -> bool:
        """Send one chunk on; True ends the candidate."""
        if "error" in chunk:
            errors.append(_error_message(chunk["error"]))
            return True
        send({"lane": lane, **_piece(chunk)})
        return bool(inbox.get()["stop"])

    handle = server.handle_chat_completions if message["chat"] else server.handle_completions
    try:
        response = handle(message["body"], receive)
        if isinstance(response, dict) and "error" in response:
            errors.append(_error_message(response["error"]))
    except Exception as error:
        errors.append(str(error))
    return errors[0] if errors else None


def _piece(chunk: Mapping[str, Any]) -> dict[str, Any]:
    """The text of a chunk, the reason for its end, if any, and the tokens drawn and read."""
    choice = (chunk.get("choices") or [{}])[0]
    text = choice.get("text")
    if text is None:
        text = (choice.get("delta") or {}).get("content") or ""
    timings = chunk.get("timings") or {}
    read = timings["prompt_n"] + timings.get("cache_n", 0) if "prompt_n" in timings else None
    return {
        "text": text,
        "reason": choice.get("finish_reason"),
        "drawn": timings.get("predicted_n"),
        "read": read,
        "cached": timings.get("cache_n"),
    }


def _error_message(error: Any) -> Any:
    """The message of an error; the whole error object if the prompt is too long."""
    if isinstance(error, dict):
        return error if "n_prompt_tokens" in error else str(error.get("message", error))
    return str(error)
