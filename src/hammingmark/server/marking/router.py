"""``/v1/chat/completions``, ``/v1/completions`` and ``/v1/models``."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, aclosing
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel

from hammingmark.http.sse import format_event
from hammingmark.server.access import ERRORS, client_with_scope, service_of
from hammingmark.server.api_error import APIError
from hammingmark.server.clients import Client
from hammingmark.server.connections import cancel_on_disconnect
from hammingmark.server.event_stream import EventStream
from hammingmark.server.marking.completion_stream import CompletionStream
from hammingmark.server.marking.marks import Mark
from hammingmark.server.marking.planning import GenerationPlan
from hammingmark.server.marking.recording import Recorder
from hammingmark.server.marking.responses import Choice, ResponseBuilder, summary
from hammingmark.server.marking.schema import (
    ChatCompletionRequest,
    ChatCompletionResponse,
    CompletionRequest,
    CompletionResponse,
    GenerationRequest,
)
from hammingmark.server.service import Service

_LOG = logging.getLogger("hammingmark.server")

router = APIRouter(tags=["writing"], responses=ERRORS)

ClientDependency = Annotated[Client, Depends(client_with_scope("generate"))]
ServiceDependency = Annotated[Service, Depends(service_of)]

_HEADERS = {
    "X-Watermark-Status": "marked, partly or unmarked; for a stream, marking",
    "X-Watermark-Key-Id": "id of the key that marks",
    "X-Watermark-Candidates": "candidates drawn; not for streams",
    "X-Watermark-Drawn-Tokens": "tokens of all candidates; not for streams",
    "X-Request-Id": "id of this request, in the logs",
}

Pieces = AsyncIterator[tuple[Choice, str]]
"""Answers piece by piece, as of `CompletionStream`."""


def _responses(model: type[BaseModel]) -> dict[int | str, dict[str, Any]]:
    """The OpenAPI description of the responses of a route."""
    stream = (
        "OpenAI's chunks as server-sent events. The chunk that ends a choice has the field "
        "`watermark` of a complete answer; `data: [DONE]` ends a stream that was not interrupted"
    )
    return {
        200: {
            "description": "The answer or, if it is streamed, its chunks as server-sent events.",
            "model": model,
            "content": {"text/event-stream": {"schema": {"description": stream}}},
            "headers": {
                name: {"description": description, "schema": {"type": "string"}}
                for name, description in _HEADERS.items()
            },
        }
    }


@router.post(
    "/v1/chat/completions",
    summary="Answer a chat with marked text",
    responses=_responses(ChatCompletionResponse),
)
async def chat(
    body: ChatCompletionRequest,
    request: Request,
    client: ClientDependency,
    service: ServiceDependency,
) -> Response:
    """OpenAI's chat completions; accepted sentences are streamed as they are accepted."""
    return await _respond(body, request, client, service)


@router.post(
    "/v1/completions",
    summary="Continue a text with marked text",
    responses=_responses(CompletionResponse),
)
async def completions(
    body: CompletionRequest,
    request: Request,
    client: ClientDependency,
    service: ServiceDependency,
) -> Response:
    """OpenAI's completions."""
    return await _respond(body, request, client, service)


@router.get("/v1/models", summary="The available models")
async def models(client: ClientDependency, service: ServiceDependency) -> dict[str, Any]:
    """The models of the upstream, or the embedded model."""
    return {"object": "list", "data": await _models(service)}


@router.get("/v1/models/{name:path}", summary="One model")
async def model(name: str, client: ClientDependency, service: ServiceDependency) -> dict[str, Any]:
    """The description of a model."""
    for description in await _models(service):
        if description["id"] == name:
            return description
    raise _unknown_model(name)


async def _models(service: Service) -> list[dict[str, Any]]:
    if service.upstream is not None:
        return await service.upstream.models()
    name = service.config.model_name
    return [{"id": name, "object": "model", "created": 0, "owned_by": "hammingmark"}]


async def _respond(
    body: GenerationRequest, request: Request, client: Client, service: Service
) -> Response:
    if service.upstream is None and body.model not in (None, "", service.config.model_name):
        raise _unknown_model(body.model or "")
    plan = service.planner.plan(body, client)
    model = service.planner.upstream_model(body)
    async with AsyncExitStack() as stack:
        answers = plan.choices * max(1, len(plan.prompts))
        await stack.enter_async_context(service.admitted(client, answers))
        is_chat = isinstance(body, ChatCompletionRequest)
        path = "/v1/chat/completions" if is_chat else "/v1/completions"
        if plan.key is None and service.upstream is not None:
            recorder = Recorder(service.audit, client, endpoint=path, model=model)
            await recorder.pass_through(plan.cause)
            passing = _pass_through(body, plan, service, model=model, path=path, stack=stack)
            response: Response = await cancel_on_disconnect(request, passing)
            return response.closing(stack) if isinstance(response, EventStream) else response
        model = model or service.config.model_name
        recorder = Recorder(service.audit, client, endpoint=path, model=model)
        answering = service.completion_stream(plan, client, recorder=recorder)
        pieces = aiter(_with_metrics(answering, service))
        stack.push_async_callback(_close, pieces)
        prefix = "chatcmpl" if is_chat else "cmpl"
        builder = ResponseBuilder(f"{prefix}-{client.request_id}", model, is_chat)
        if not plan.stream:
            await cancel_on_disconnect(request, _exhaust(pieces))
            content = builder.response(answering.choices, characters=_prompt_lengths(plan))
            headers = summary(answering.choices).headers
            return JSONResponse(content, headers={**headers, "X-Request-Id": client.request_id})
        # Until the first sentence exists, an error is still an HTTP status.
        first = await cancel_on_disconnect(request, anext(pieces, None))
        headers = {"X-Watermark-Status": "marking" if answering.is_marking else "unmarked"}
        if plan.key and answering.is_marking:
            headers["X-Watermark-Key-Id"] = plan.key.id
        headers["X-Request-Id"] = client.request_id
        usage = body.wants_usage
        events = _events(first, pieces, answering, builder, _prompt_lengths(plan), usage=usage)
        limit = service.config.limits.request_timeout
        return EventStream(events, headers=headers, limit=limit).closing(stack)


async def _with_metrics(answering: CompletionStream, service: Service) -> Pieces:
    """The pieces of answers, counted and timed in the metrics."""
    metrics, start = service.metrics, time.perf_counter()
    has_text, is_refused = False, False
    counted: set[int] = set()
    try:
        async with aclosing(aiter(answering)) as pieces:
            async for choice, text in pieces:
                if text and not has_text:
                    has_text = True
                    metrics.first_sentence_seconds.observe(time.perf_counter() - start)
                if choice.mark is not None and not text:
                    mark = choice.mark
                    counted.add(choice.index)
                    metrics.count_answer(mark.status, reason=mark.cause, cost=mark.cost)
                yield choice, text
    except APIError as error:
        is_refused = error.kind == "watermark_error"
        raise
    finally:
        for choice in answering.choices:
            if choice.index not in counted:
                _count_unfinished(choice, answering, service, is_refused=is_refused)
    metrics.answer_seconds.observe(time.perf_counter() - start)


def _count_unfinished(
    choice: Choice, answering: CompletionStream, service: Service, *, is_refused: bool
) -> None:
    """Count an unfinished answer, unless nothing of it was to be sent."""
    mark, cost = choice.mark, answering.cost_of(choice)
    if is_refused and (mark is None or mark.cause != "cut_short"):
        cause = mark.cause if mark else "failure"
        service.metrics.count_answer("refused", reason=cause, cost=cost)
    elif mark is not None:
        service.metrics.count_answer(mark.status, reason="cut_short", cost=cost)


async def _events(
    first: tuple[Choice, str] | None,
    pieces: Pieces,
    answering: CompletionStream,
    builder: ResponseBuilder,
    characters: list[int],
    *,
    usage: bool,
) -> AsyncIterator[bytes]:
    """The answers as server-sent events; a stream that fails ends without ``[DONE]``."""
    begun: set[int] = set()
    try:
        if first is not None:
            for chunk in _chunks(*first, builder, begun):
                yield format_event(chunk)
        async for choice, text in pieces:
            for chunk in _chunks(choice, text, builder, begun):
                yield format_event(chunk)
    except APIError as error:
        yield format_event(error.content)
        return
    except Exception:
        _LOG.exception("fault")
        yield format_event(APIError.internal().content)
        return
    if usage:
        yield format_event(builder.usage_chunk(answering.choices, characters=characters))
    yield b"data: [DONE]\n\n"


def _chunks(
    choice: Choice, text: str, builder: ResponseBuilder, begun: set[int]
) -> list[dict[str, Any]]:
    chunks = []
    if builder.chat and choice.index not in begun:
        begun.add(choice.index)
        chunks.append(builder.first_chunk(choice.index))
    if text:
        chunks.append(builder.text_chunk(choice.index, text))
    elif choice.finish_reason is not None:
        chunks.append(builder.last_chunk(choice))
    return chunks


async def _pass_through(
    body: GenerationRequest,
    plan: GenerationPlan,
    service: Service,
    *,
    model: str,
    path: str,
    stack: AsyncExitStack,
) -> Response:
    """The upstream's unmarked response to a request."""
    assert service.upstream is not None
    content = body.model_dump(exclude_unset=True, exclude={"watermark"})
    if model:
        content["model"] = model
    watermark = Mark("unmarked", plan.reason, plan.cause).content
    exchange = service.exchange()
    response = await exchange.with_deadline(
        service.upstream.answer(
            path.removeprefix("/v1"), content, watermark=watermark, stack=stack, exchange=exchange
        )
    )
    if response.status_code < 400:
        service.metrics.count_answer("unmarked", reason=plan.cause)
    return response


async def _exhaust(pieces: Pieces) -> None:
    async for _ in pieces:
        pass


async def _close(pieces: AsyncIterator[Any]) -> None:
    close = getattr(pieces, "aclose", None)
    if close is not None:
        await close()


def _prompt_lengths(plan: GenerationPlan) -> list[int]:
    """The number of characters of each prompt."""
    return [
        len(prompt.text) + sum(len(message.content) for message in prompt.messages)
        for prompt in plan.prompts
    ]


def _unknown_model(name: str) -> APIError:
    return APIError(
        404,
        f"No such model: {name!r:.100}. GET /v1/models lists the models.",
        code="model_not_found",
        param="model",
    )
