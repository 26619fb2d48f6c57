"""What an OpenAI-compatible server is sent, and how its answers are read."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import httpx

from hammingmark.backends.base import messages_of
from hammingmark.backends.openai_refusals import NEWER
from hammingmark.errors import BackendError
from hammingmark.http.client import Interrupted
from hammingmark.http.connection import BodyTooLarge, ErrorObject, read_body, well_formed
from hammingmark.http.sse import EventTooLong, read_events
from hammingmark.records import Prompt, Request, Sampling

_LONGEST = 16 << 20  # bytes of an answer that is not streamed
_MOST_TOKENS = 1_000_000_000  # of a prompt; more is a mistake


@dataclass(frozen=True, slots=True)
class Piece:
    """One step of one choice.

    Attributes:
        index: which of the choices.
        text: what it adds, perhaps nothing.
        reason: why the choice ends with it: ``stop``, ``length`` or another; None if it goes on.
        drawn: tokens of the whole choice, where a server tells with the last of them.
        read: tokens of the prompt, where a server tells.
    """

    index: int
    text: str
    reason: str | None
    drawn: int | None = None
    read: int | None = None


def path_of(prompt: Prompt) -> str:
    """Where a prompt is sent."""
    return "/chat/completions" if prompt.messages else "/completions"


def body_of(request: Request, *, model: str, count: int, without: frozenset[str]) -> dict[str, Any]:
    """The JSON that asks for ``count`` candidates, without the fields that a server refuses."""
    sampling = request.sampling
    body: dict[str, Any] = {"model": model}
    if request.prompt.messages:
        turns = body["messages"] = messages_of(request.prompt, request.written)
        if turns[-1:] and turns[-1]["role"] == "assistant":
            # vLLM and SGLang begin a new turn without these; llama.cpp does not mind them.
            body |= {"continue_final_message": True, "add_generation_prompt": False}
    else:
        body["prompt"] = request.prompt.text + request.written
    body |= {
        "max_tokens": request.max_tokens,
        "seed": request.seed,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "min_p": sampling.min_p,  # also 0: llama.cpp's own default is another
        "stream": True,
    }
    if sampling.top_k > 0:
        body["top_k"] = sampling.top_k
    if count > 1:
        body["n"] = count
    if "max_tokens" in without:
        body[NEWER] = request.max_tokens
    kept = {name: value for name, value in body.items() if name not in without}
    further = {name: json.loads(value) for name, value in sampling.further}
    return further | kept


def model_of(request: Request, default: str) -> str:
    """The model that a request asks for."""
    named = dict(request.sampling.further).get("model")
    return str(json.loads(named)) if named else default


def asked_for(sampling: Sampling) -> frozenset[str]:
    """The fields that OpenAI's API does not have and without which tokens are drawn otherwise."""
    wanted = {"top_k": sampling.top_k > 0, "min_p": sampling.min_p > 0.0}
    return frozenset(name for name, is_set in wanted.items() if is_set)


async def pieces_of(response: httpx.Response, *, where: str) -> AsyncIterator[Piece]:
    """The steps of all choices as they come; one for each choice if the server does not stream.

    Raises:
        Interrupted: the stream ended early, or the server says that it had to stop.
        BackendError: this is no OpenAI-compatible endpoint.
    """
    kind = response.headers.get("content-type", "")
    if "html" in kind:
        raise _not_openai_compatible(where)
    if "json" in kind:
        try:
            content = await read_body(response, most=_LONGEST)
        except BodyTooLarge:
            raise _not_openai_compatible(where) from None
        for piece in _choices(_parsed(content, where), where):
            yield replace(piece, reason=piece.reason or "stop")
        return
    begun: set[int] = set()
    ended: set[int] = set()
    try:
        async for event in read_events(response.aiter_bytes()):
            data = event.data
            if event.is_done:
                # Whatever is still open ended without a reason; the server says nothing more.
                for index in sorted(begun - ended):
                    yield Piece(index, "", "stop")
                return
            if data is None or not event.complete:
                continue
            for piece in _choices(_parsed(data, where), where):
                begun.add(piece.index)
                if piece.reason:
                    ended.add(piece.index)
                yield piece
    except EventTooLong:
        raise _not_openai_compatible(where) from None
    if not begun or begun - ended:
        raise Interrupted("the stream ended early")


def _parsed(data: bytes, where: str) -> dict[str, Any]:
    try:
        answer = json.loads(data)
    except (ValueError, RecursionError):
        answer = None
    if not isinstance(answer, dict):
        raise _not_openai_compatible(where)
    if answer.get("error"):
        raise Interrupted("it reports an error", error=ErrorObject.of(answer["error"]))
    return answer


def _choices(answer: dict[str, Any], where: str) -> list[Piece]:
    try:
        choices = answer["choices"] or ()
        # llama.cpp tells in its timings. What a server says of several choices is their sum.
        drawn = (answer.get("timings") or {}).get("predicted_n") if len(choices) == 1 else None
        read = _read_tokens(answer)
        return [
            Piece(
                int(each.get("index", place)), _text(each), each.get("finish_reason"), drawn, read
            )
            for place, each in enumerate(choices)
        ]
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError):
        raise _not_openai_compatible(where) from None


def _read_tokens(answer: Mapping[str, Any]) -> int | None:
    """The tokens of the prompt, which some servers tell with every step."""
    told = (answer.get("usage") or {}).get("prompt_tokens")
    timings = answer.get("timings") or {}
    if told is None and "prompt_n" in timings:
        told = timings["prompt_n"] + timings.get("cache_n", 0)
    return told if isinstance(told, int) and 0 <= told < _MOST_TOKENS else None


def _text(choice: Mapping[str, Any]) -> str:
    text = choice.get("text")
    if text is None:
        text = (choice.get("delta") or choice.get("message") or {}).get("content")
    return well_formed(text) if isinstance(text, str) else ""


def _not_openai_compatible(where: str) -> BackendError:
    return BackendError(
        "The model's server does not answer like an OpenAI-compatible endpoint.",
        advice=f"Check the base URL. It was asked at {where}.",
    )
