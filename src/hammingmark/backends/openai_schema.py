"""Request bodies for OpenAI-compatible servers, and parsing of their responses."""

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
from hammingmark.http.connection import BodyTooLarge, ErrorObject, read_body
from hammingmark.http.sse import EventTooLong, read_events
from hammingmark.records import Prompt, Request, Sampling
from hammingmark.text.characters import well_formed

_LONGEST = 16 << 20  # bytes of a response that is not streamed
_MOST_TOKENS = 1_000_000_000  # of a prompt; a larger number must be an error


@dataclass(frozen=True, slots=True)
class Piece:
    """A streamed piece of one choice.

    Attributes:
        index: of the choice.
        text: the text it adds; may be empty.
        reason: why the choice ends: ``stop``, ``length`` or another; None if it continues.
        drawn: tokens of the whole choice, if the server reports them at its end.
        read: tokens of the prompt, if the server reports them.
    """

    index: int
    text: str
    reason: str | None
    drawn: int | None = None
    read: int | None = None


def path_of(prompt: Prompt) -> str:
    """The path to which a prompt is sent."""
    return "/chat/completions" if prompt.messages else "/completions"


def body_of(request: Request, *, model: str, count: int, without: frozenset[str]) -> dict[str, Any]:
    """The JSON body of a request for ``count`` candidates, without the fields in ``without``."""
    sampling = request.sampling
    body: dict[str, Any] = {"model": model}
    if request.prompt.messages:
        messages = body["messages"] = messages_of(request.prompt, request.written)
        if messages[-1:] and messages[-1]["role"] == "assistant":
            # Without these, vLLM and SGLang begin a new turn; llama.cpp ignores them.
            body |= {"continue_final_message": True, "add_generation_prompt": False}
    else:
        body["prompt"] = request.prompt.text + request.written
    body |= {
        "max_tokens": request.max_tokens,
        "seed": request.seed,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "min_p": sampling.min_p,  # even if 0, because llama.cpp's default is not 0
        "stream": True,
    }
    if sampling.top_k > 0:
        body["top_k"] = sampling.top_k
    if count > 1:
        body["n"] = count
    if "max_tokens" in without:
        body[NEWER] = request.max_tokens
    accepted = {name: value for name, value in body.items() if name not in without}
    further = {name: json.loads(value) for name, value in sampling.further}
    return further | accepted


def model_of(request: Request, default: str) -> str:
    """The model that a request names, or else the default."""
    name = dict(request.sampling.further).get("model")
    return str(json.loads(name)) if name else default


def sampling_fields(sampling: Sampling) -> frozenset[str]:
    """The fields outside OpenAI's API that affect how these tokens are drawn."""
    fields = {"top_k": sampling.top_k > 0, "min_p": sampling.min_p > 0.0}
    return frozenset(name for name, is_set in fields.items() if is_set)


async def pieces_of(response: httpx.Response, *, where: str) -> AsyncIterator[Piece]:
    """The pieces of all choices as they come; one for each choice if the server does not stream.

    Raises:
        Interrupted: the stream ended early, or the server reports an error in it.
        BackendError: this is not an OpenAI-compatible endpoint.
    """
    content_type = response.headers.get("content-type", "")
    if "html" in content_type:
        raise _not_openai_compatible(where)
    if "json" in content_type:
        try:
            content = await read_body(response, most=_LONGEST)
        except BodyTooLarge:
            raise _not_openai_compatible(where) from None
        for piece in _pieces(_parse(content, where), where):
            yield replace(piece, reason=piece.reason or "stop")
        return
    started: set[int] = set()
    ended: set[int] = set()
    try:
        async for event in read_events(response.aiter_bytes()):
            data = event.data
            if event.is_done:
                # Choices that are still open ended without a reason.
                for index in sorted(started - ended):
                    yield Piece(index, "", "stop")
                return
            if data is None or not event.complete:
                continue
            for piece in _pieces(_parse(data, where), where):
                started.add(piece.index)
                if piece.reason:
                    ended.add(piece.index)
                yield piece
    except EventTooLong:
        raise _not_openai_compatible(where) from None
    if not started or started - ended:
        raise Interrupted("the stream ended early")


def _parse(data: bytes, where: str) -> dict[str, Any]:
    try:
        chunk = json.loads(data)
    except (ValueError, RecursionError):
        chunk = None
    if not isinstance(chunk, dict):
        raise _not_openai_compatible(where)
    if chunk.get("error"):
        raise Interrupted("the server reports an error", error=ErrorObject.of(chunk["error"]))
    return chunk


def _pieces(chunk: dict[str, Any], where: str) -> list[Piece]:
    try:
        choices = chunk["choices"] or ()
        # llama.cpp reports them in its timings. For several choices a server reports their sum.
        drawn = (chunk.get("timings") or {}).get("predicted_n") if len(choices) == 1 else None
        read = _read_tokens(chunk)
        return [
            Piece(
                int(choice.get("index", place)),
                _text(choice),
                choice.get("finish_reason"),
                drawn,
                read,
            )
            for place, choice in enumerate(choices)
        ]
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError):
        raise _not_openai_compatible(where) from None


def _read_tokens(chunk: Mapping[str, Any]) -> int | None:
    """The tokens of the prompt, which some servers report with every chunk."""
    tokens = (chunk.get("usage") or {}).get("prompt_tokens")
    timings = chunk.get("timings") or {}
    if tokens is None and "prompt_n" in timings:
        tokens = timings["prompt_n"] + timings.get("cache_n", 0)
    return tokens if isinstance(tokens, int) and 0 <= tokens < _MOST_TOKENS else None


def _text(choice: Mapping[str, Any]) -> str:
    text = choice.get("text")
    if text is None:
        text = (choice.get("delta") or choice.get("message") or {}).get("content")
    return well_formed(text) if isinstance(text, str) else ""


def _not_openai_compatible(where: str) -> BackendError:
    return BackendError(
        "The response of the model's server is not that of an OpenAI-compatible endpoint.",
        advice=f"Check the base URL. The request was sent to {where}.",
    )
