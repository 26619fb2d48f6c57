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
from hammingmark.records import Prompt
from hammingmark.server.access import ERRORS, client_of, service_of
from hammingmark.server.api_error import APIError
from hammingmark.server.connections import cancel_on_disconnect
from hammingmark.server.event_stream import EventStream
from hammingmark.server.marking.completion_stream import CompletionStream, GenerationPlan
from hammingmark.server.marking.marks import Mark
from hammingmark.server.marking.responses import Choice, ResponseBuilder, summary
from hammingmark.server.marking.schema import (
    ChatCompletionRequest,
    ChatCompletionResponse,
    CompletionRequest,
    CompletionResponse,
    GenerationRequest,
)
from hammingmark.server.service import Client, Service

_LOG = logging.getLogger("hammingmark.server")

router = APIRouter(tags=["writing"], responses=ERRORS)

ClientDependency = Annotated[Client, Depends(client_of("generate"))]
ServiceDependency = Annotated[Service, Depends(service_of)]

_HEADERS = {
    "X-Watermark-Status": "marked, partly or unmarked; of a stream that is being marked, marking",
    "X-Watermark-Key-Id": "the key that marks",
    "X-Watermark-Candidates": "candidates drawn; not of a stream",
    "X-Watermark-Drawn-Tokens": "tokens of all candidates; not of a stream",
    "X-Request-Id": "of this request, in the logs",
}


def _answers(model: type[BaseModel]) -> dict[int | str, dict[str, Any]]:
    """What the description of the interface says of answers."""
    stream = (
        "OpenAI's chunks as server-sent events. The chunk that ends a choice has the field "
        "`watermark`, as a whole answer has it; `data: [DONE]` ends a stream that was not cut short"
    )
    return {
        200: {
            "description": "The answer, or its pieces as server-sent events where it is streamed.",
            "model": model,
            "content": {"text/event-stream": {"schema": {"description": stream}}},
            "headers": {
                name: {"description": words, "schema": {"type": "string"}}
                for name, words in _HEADERS.items()
            },
        }
    }


@router.post(
    "/v1/chat/completions",
    summary="Answer a chat with marked text",
    responses=_answers(ChatCompletionResponse),
)
async def chat(
    asked: ChatCompletionRequest,
    request: Request,
    client: ClientDependency,
    service: ServiceDependency,
) -> Response:
    """OpenAI's chat completions; accepted sentences are streamed as they are accepted."""
    return await _answer(asked, request, client, service, chat=True)


@router.post(
    "/v1/completions",
    summary="Continue a text with marked text",
    responses=_answers(CompletionResponse),
)
async def completions(
    asked: CompletionRequest, request: Request, client: ClientDependency, service: ServiceDependency
) -> Response:
    """OpenAI's completions."""
    return await _answer(asked, request, client, service, chat=False)


@router.get("/v1/models", summary="The models that can be asked for")
async def models(client: ClientDependency, service: ServiceDependency) -> dict[str, Any]:
    """Those of the upstream, or the embedded one."""
    if service.upstream is not None:
        return {"object": "list", "data": await service.upstream.models()}
    return {"object": "list", "data": [_model(service)]}


@router.get("/v1/models/{name:path}", summary="One model")
async def model(name: str, client: ClientDependency, service: ServiceDependency) -> dict[str, Any]:
    """What is known of a model."""
    known = [_model(service)] if service.upstream is None else await service.upstream.models()
    for each in known:
        if each["id"] == name:
            return each
    raise _no_model(name)


async def _answer(
    asked: GenerationRequest, request: Request, client: Client, service: Service, *, chat: bool
) -> Response:
    if service.upstream is None and asked.model not in (None, "", service.config.model_name):
        raise _no_model(asked.model or "")
    plan = service.plan(asked, client)
    endpoint = "/v1/chat/completions" if chat else "/v1/completions"
    async with AsyncExitStack() as stack:
        answers = plan.choices * max(1, len(plan.prompts))
        await stack.enter_async_context(service.admitted(client, answers))
        if plan.key is None and service.upstream is not None:
            name = service.model_of(asked)
            await service.record_passed(plan, client, endpoint=endpoint, model=name)
            passing = _pass_on(asked, plan, service, model=name, chat=chat, held=stack)
            passed: Response = await cancel_on_disconnect(request, passing)
            return passed.holding(stack) if isinstance(passed, EventStream) else passed
        name = service.model_of(asked) or service.config.model_name
        form = ResponseBuilder(f"{'chatcmpl' if chat else 'cmpl'}-{client.request_id}", name, chat)
        answering = service.answering(plan, client, endpoint=endpoint, model=name)
        began = time.perf_counter()
        pieces = aiter(_timed(answering, service, began))
        stack.push_async_callback(_close, pieces)
        if not asked.stream:
            await cancel_on_disconnect(request, _all(pieces))
            content = form.whole(answering.choices, characters=_characters(plan))
            headers = summary(answering.choices).headers
            return JSONResponse(content, headers={**headers, "X-Request-Id": client.request_id})
        # Until the first sentence is there, what goes wrong is still a status of HTTP.
        first = await cancel_on_disconnect(request, anext(pieces, None))
        told = {"X-Watermark-Status": "marking" if answering.is_marking else "unmarked"}
        if plan.key and answering.is_marking:
            told["X-Watermark-Key-Id"] = plan.key.id
        events = _events(first, pieces, answering, form, asked, plan)
        told["X-Request-Id"] = client.request_id
        limit = service.config.limits.request_timeout
        return EventStream(events, headers=told, limit=limit).holding(stack)


async def _timed(
    answering: CompletionStream, service: Service, began: float
) -> AsyncIterator[tuple[Choice, str]]:
    """The pieces of answers, with what the metrics count of them."""
    metrics, waiting, refused = service.metrics, True, False
    counted: set[int] = set()
    try:
        async with aclosing(aiter(answering)) as pieces:
            async for choice, text in pieces:
                if text and waiting:
                    waiting = False
                    metrics.first_sentence_seconds.observe(time.perf_counter() - began)
                if choice.mark is not None and not text:
                    mark = choice.mark
                    counted.add(choice.index)
                    metrics.count_answer(mark.status, reason=mark.cause, cost=mark.cost)
                yield choice, text
    except APIError as problem:
        refused = problem.kind == "watermark_error"
        raise
    finally:
        for choice in answering.choices:
            if choice.index not in counted:
                _count_unsent(choice, answering, service, refused=refused)
    metrics.answer_seconds.observe(time.perf_counter() - began)


def _count_unsent(
    choice: Choice, answering: CompletionStream, service: Service, *, refused: bool
) -> None:
    """Count an answer that did not reach its end; one of which nothing was to be sent is none."""
    mark, cost = choice.mark, answering.cost_of(choice)
    if refused and (mark is None or mark.cause != "cut_short"):
        cause = mark.cause if mark else "failure"
        service.metrics.count_answer("refused", reason=cause, cost=cost)
    elif mark is not None:
        service.metrics.count_answer(mark.status, reason="cut_short", cost=cost)


async def _events(
    first: tuple[Choice, str] | None,
    pieces: AsyncIterator[tuple[Choice, str]],
    answering: CompletionStream,
    form: ResponseBuilder,
    asked: GenerationRequest,
    plan: GenerationPlan,
) -> AsyncIterator[bytes]:
    """The answers as server-sent events; one that fails ends without ``[DONE]``."""
    begun: set[int] = set()
    try:
        if first is not None:
            for data in _chunks(*first, form, begun):
                yield format_event(data)
        async for choice, text in pieces:
            for data in _chunks(choice, text, form, begun):
                yield format_event(data)
    except APIError as problem:
        yield format_event(problem.content)
        return
    except Exception:
        _LOG.exception("fault")
        yield format_event(APIError.internal().content)
        return
    if asked.wants_usage:
        yield format_event(form.usage(answering.choices, characters=_characters(plan)))
    yield b"data: [DONE]\n\n"


def _chunks(
    choice: Choice, text: str, form: ResponseBuilder, begun: set[int]
) -> list[dict[str, Any]]:
    chunks = []
    if form.chat and choice.index not in begun:
        begun.add(choice.index)
        chunks.append(form.beginning(choice.index))
    if text:
        chunks.append(form.more(choice.index, text))
    elif choice.finish is not None:
        chunks.append(form.end(choice))
    return chunks


async def _pass_on(
    asked: GenerationRequest,
    plan: GenerationPlan,
    service: Service,
    *,
    model: str,
    chat: bool,
    held: AsyncExitStack,
) -> Response:
    """A request that goes to the upstream as it is, and comes back unmarked."""
    assert service.upstream is not None
    body = asked.model_dump(exclude_unset=True, exclude={"watermark"})
    if model:
        body["model"] = model
    mark = Mark("unmarked", plan.reason, plan.cause)
    path = "/chat/completions" if chat else "/completions"
    exchange = service.exchange()
    response = await exchange.with_deadline(
        service.upstream.answer(path, body, told=mark.content, held=held, exchange=exchange)
    )
    if response.status_code < 400:
        service.metrics.count_answer("unmarked", reason=plan.cause)
    return response


async def _all(pieces: AsyncIterator[tuple[Choice, str]]) -> None:
    async for _ in pieces:
        pass


async def _close(pieces: AsyncIterator[Any]) -> None:
    close = getattr(pieces, "aclose", None)
    if close is not None:
        await close()


def _characters(plan: GenerationPlan) -> list[int]:
    return [_length(prompt) for prompt in plan.prompts]


def _length(prompt: Prompt) -> int:
    return len(prompt.text) + sum(len(turn.content) for turn in prompt.messages)


def _model(service: Service) -> dict[str, Any]:
    return {
        "id": service.config.model_name,
        "object": "model",
        "created": 0,
        "owned_by": "hammingmark",
    }


def _no_model(name: str) -> APIError:
    return APIError(
        404,
        f"There is no model {name!r:.100}; GET /v1/models lists them.",
        code="model_not_found",
        param="model",
    )
