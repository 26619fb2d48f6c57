"""Request bodies for OpenAI-compatible servers, and parsing of their responses."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import httpx

from hammingmark.backends.base import messages_of
from hammingmark.backends.continuation import PLAIN, ContinuationWay
from hammingmark.backends.openai_refusals import CONTINUOUS, NEWER, reported_error
from hammingmark.backends.tool_calls import calls_in
from hammingmark.errors import BackendError
from hammingmark.http.client import Interrupted
from hammingmark.http.connection import BodyTooLarge, ErrorObject, read_body
from hammingmark.http.sse import EventTooLong, read_events
from hammingmark.records import Prompt, Reasoning, Request, Sampling
from hammingmark.text.characters import well_formed
from hammingmark.text.reasoning import BEGIN, END

REASONING_FIELDS = ("reasoning_content", "reasoning")
"""Fields of a message or a delta with the reasoning; newer versions of vLLM use the second."""

_LONGEST = 16 << 20  # bytes of a response that is not streamed
_MOST_TOKENS = 1_000_000_000  # of a prompt; a larger number must be an error

SERVER_SAMPLING = Sampling(top_k=0, server_defaults=("temperature", "top_p", "top_k", "min_p"))
"""Sampling with the server's own defaults."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A streamed piece of one choice.

    Attributes:
        index: of the choice.
        text: the text it adds; may be empty.
        reason: why the choice ends: ``stop``, ``length`` or another; None if it continues.
        calls: the part of calls of tools that it adds (`tool_calls.calls_in`).
        reasoning: the reasoning that it adds; may be empty.
        reasoning_field: the field that it came in (`records.Reasoning`).
    """

    index: int
    text: str
    reason: str | None
    calls: Mapping[str, Any] = field(default_factory=dict)
    reasoning: str = ""
    reasoning_field: str = ""


@dataclass(frozen=True, slots=True)
class UsageReport:
    """What a server reports of the tokens of a request; None where it does not.

    Attributes:
        index: of the choice that it is about; None if it is about all of them, or does not say.
        ends: whether it comes with the end of that choice.
        read: tokens of the prompt.
        cached: those of them that were in the server's cache.
        written: tokens of the choice so far, or of all choices.
    """

    index: int | None
    ends: bool
    read: int | None
    cached: int | None
    written: int | None


def path_of(prompt: Prompt) -> str:
    """The path to which a prompt is sent."""
    return "/chat/completions" if prompt.messages else "/completions"


def body_of(
    request: Request,
    *,
    model: str,
    count: int,
    without: frozenset[str],
    way: ContinuationWay = PLAIN,
) -> dict[str, Any]:
    """The JSON body of a request.

    Args:
        request: the request.
        model: the name of the model.
        count: the number of candidates.
        without: fields that are left out.
        way: how the server continues an unfinished answer.
    """
    sampling = request.sampling
    body: dict[str, Any] = {"model": model}
    if request.prompt.messages:
        messages = body["messages"] = messages_of(request.prompt, request.written)
        if request.reasoning:
            _add_reasoning(messages, request.reasoning, way)
        if messages[-1:] and messages[-1]["role"] == "assistant":
            # Without these, vLLM and SGLang begin a new turn; llama.cpp ignores them.
            body |= {"continue_final_message": True, "add_generation_prompt": False}
    else:
        body["prompt"] = request.prompt.text + request.written
    limit = token_limit(request)
    body |= {"seed": request.seed, "stream": True, **_reporting(without)}
    if limit is not None:
        body["max_tokens"] = limit
    values = {
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        # Even if they have no effect, because the defaults of llama.cpp have one.
        "min_p": sampling.min_p,
        "top_k": sampling.top_k or -1,
    }
    for name, value in values.items():
        if name not in sampling.server_defaults:
            body[name] = value
    if count > 1:
        body["n"] = count
    if "max_tokens" in without and limit is not None:
        body[NEWER] = limit
    accepted = {name: value for name, value in body.items() if name not in without}
    further = {name: json.loads(value) for name, value in sampling.further}
    return further | accepted


def _reporting(without: frozenset[str]) -> dict[str, Any]:
    """The fields that ask for the tokens of a request, also while it is answered.

    The first are of OpenAI's API and an extension of vLLM and SGLang, the last is llama.cpp's.
    """
    options = {"include_usage": True}
    if CONTINUOUS not in without:
        options[CONTINUOUS] = True
    return {"stream_options": options, "timings_per_token": True}


def token_limit(request: Request) -> int | None:
    """The limit of tokens for the server; None for its own.

    How long a call or the reasoning may be is not known before it begins, so the server is given
    their limit, and a sentence without either is cut here (`inflight.Draw`).
    """
    if request.sampling.offers_tools:
        return request.call_tokens
    return request.reasoning_tokens or request.max_tokens


def _add_reasoning(
    messages: list[dict[str, Any]], reasoning: Reasoning, way: ContinuationWay
) -> None:
    """Add reasoning to the answer that is to be continued."""
    if messages[-1]["role"] != "assistant":
        messages.append({"role": "assistant", "content": ""})
    answer = messages[-1]
    if reasoning.is_inline:
        answer["content"] = reasoning.text + answer["content"]
    elif way.is_inline:
        tagged = f"{BEGIN}\n{reasoning.text.strip()}\n{END}\n\n"
        answer["content"] = tagged + answer["content"]
    else:
        answer[reasoning.field] = reasoning.text


def named_model(sampling: Sampling, default: str) -> str:
    """The model that a sampling names, or else the default."""
    name = dict(sampling.further).get("model")
    return str(json.loads(name)) if name else default


def sampling_from(model: str) -> Sampling:
    """The sampling of a named model with the server's defaults."""
    return replace(SERVER_SAMPLING, further=(("model", json.dumps(model)),))


def sampling_fields(sampling: Sampling) -> frozenset[str]:
    """The fields outside OpenAI's API that affect how these tokens are drawn."""
    fields = {"top_k": sampling.top_k > 0, "min_p": sampling.min_p > 0.0}
    return frozenset(name for name, is_set in fields.items() if is_set)


async def pieces_of(response: httpx.Response, *, where: str) -> AsyncIterator[Piece | UsageReport]:
    """The pieces of all choices as they come, and what the server reports of their tokens.

    If the server does not stream, there is one piece for each choice. A report that comes with a
    piece precedes it.

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
        for item in _items(_parse(content, where), where):
            if isinstance(item, Piece):
                item = replace(item, reason=item.reason or "stop")
            yield item
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
            for item in _items(_parse(data, where), where):
                if isinstance(item, Piece):
                    started.add(item.index)
                    if item.reason:
                        ended.add(item.index)
                yield item
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
    if (error := reported_error(chunk)) is not None:
        raise Interrupted("the server reports an error", error=ErrorObject.of(error))
    return chunk


def _items(chunk: dict[str, Any], where: str) -> list[Piece | UsageReport]:
    """The report of a chunk, if there is one, and its pieces."""
    try:
        pieces = [
            Piece(
                int(choice.get("index", place)),
                _text(choice),
                choice.get("finish_reason"),
                calls_in(_message(choice)),
                *_reasoning(choice),
            )
            for place, choice in enumerate(chunk["choices"] or ())
        ]
        report = _report(chunk, pieces)
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError):
        raise _not_openai_compatible(where) from None
    return [report, *pieces] if report else [*pieces]


def _report(chunk: Mapping[str, Any], pieces: Sequence[Piece]) -> UsageReport | None:
    """OpenAI's usage of a chunk, or llama.cpp's timings."""
    usage, timings = chunk.get("usage") or {}, chunk.get("timings") or {}
    read, cached = usage.get("prompt_tokens"), timings.get("cache_n")
    if read is None and "prompt_n" in timings:
        read = timings["prompt_n"] + timings.get("cache_n", 0)
    if details := usage.get("prompt_tokens_details"):
        cached = details.get("cached_tokens")
    written = usage.get("completion_tokens", timings.get("predicted_n"))
    tokens = [_tokens(value) for value in (read, cached, written)]
    if tokens == [None] * 3:
        return None
    (piece,) = pieces if len(pieces) == 1 else (None,)
    return UsageReport(piece.index if piece else None, bool(piece and piece.reason), *tokens)


def _tokens(value: Any) -> int | None:
    """A number of tokens; None if it is none, or must be an error."""
    return value if isinstance(value, int) and 0 <= value < _MOST_TOKENS else None


def _text(choice: Mapping[str, Any]) -> str:
    text = choice.get("text")
    if text is None:
        text = _message(choice).get("content")
    return well_formed(text) if isinstance(text, str) else ""


def _reasoning(choice: Mapping[str, Any]) -> tuple[str, str]:
    """The reasoning that a choice adds, and its field; some servers send it in both fields."""
    message = _message(choice)
    for name in REASONING_FIELDS:
        if isinstance(text := message.get(name), str) and text:
            return well_formed(text), name
    return "", ""


def _message(choice: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a choice adds, or its whole message."""
    message: Mapping[str, Any] = choice.get("delta") or choice.get("message") or {}
    return message


def _not_openai_compatible(where: str) -> BackendError:
    return BackendError(
        "The response of the model's server is not that of an OpenAI-compatible endpoint.",
        advice=f"Check the base URL. The request was sent to {where}.",
    )
