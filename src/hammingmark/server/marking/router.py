"""``/v1/chat/completions``, ``/v1/completions`` and ``/v1/models``."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, aclosing
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Request
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel

from hammingmark.http.sse import format_event
from hammingmark.records import ReasoningPart
from hammingmark.server.access import ERRORS, client_with_scope, service_of
from hammingmark.server.api_error import CANNOT_CONTINUE, APIError
from hammingmark.server.clients import Client
from hammingmark.server.connections import cancel_on_disconnect
from hammingmark.server.event_stream import EventStream
from hammingmark.server.marking.completion_stream import CompletionStream
from hammingmark.server.marking.marks import Mark, key_headers
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
from hammingmark.server.upstream import ModelsUnlisted

_LOG = logging.getLogger("hammingmark.server")

router = APIRouter(tags=["writing"], responses=ERRORS)

ClientDependency = Annotated[Client, Depends(client_with_scope("generate"))]
ServiceDependency = Annotated[Service, Depends(service_of)]

_HEADERS = {
    "X-Watermark-Status": "marked, partly or unmarked; for a stream, marking",
    "X-Watermark-Key-Id": "id of the key that marks",
    "X-Watermark-Label": "label by which that key was derived, percent-encoded",
    "X-Watermark-P-Value": "p-value of the answer under the key; not for streams, nor for several "
    "answers",
    "X-Watermark-Candidates": "candidates drawn; not for streams",
    "X-Watermark-Drawn-Tokens": "tokens of all candidates judged; not for streams",
    "X-Watermark-Emitted-Tokens": "tokens of the answers; not for streams",
    "X-Watermark-Written-Tokens": "tokens that the model wrote, also those discarded; not for "
    "streams",
    "X-Request-Id": "id of this request, in the logs",
}

Pieces = AsyncIterator[tuple[Choice, str | ReasoningPart]]
"""Answers piece by piece, as of `CompletionStream`."""


_STREAM = (
    "OpenAI's chunks as server-sent events. The chunk that ends a choice has the field "
    "`watermark` of a complete answer; `data: [DONE]` ends a stream that was not interrupted"
)


def describe_responses(
    model: type[BaseModel], *, stream: str = _STREAM
) -> dict[int | str, dict[str, Any]]:
    """The OpenAPI description of the responses of a route.

    Args:
        model: the schema of a whole response.
        stream: what a streamed response is.
    """
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
    responses=describe_responses(ChatCompletionResponse),
)
async def chat(
    body: ChatCompletionRequest,
    request: Request,
    client: ClientDependency,
    service: ServiceDependency,
) -> Response:
    """OpenAI's chat completions; accepted sentences are streamed as they are accepted."""
    return await respond(body, request, client, service)


@router.post(
    "/v1/completions",
    summary="Continue a text with marked text",
    responses=describe_responses(CompletionResponse),
)
async def completions(
    body: CompletionRequest,
    request: Request,
    client: ClientDependency,
    service: ServiceDependency,
) -> Response:
    """OpenAI's completions."""
    return await respond(body, request, client, service)


@router.get(
    "/v1/models", summary="The available models", response_description="The models, in `data`."
)
async def models(client: ClientDependency, service: ServiceDependency) -> dict[str, Any]:
    """The models of the upstream, or the embedded model."""
    return {"object": "list", "data": await _models(service)}


@router.get("/v1/models/{name:path}", summary="One model", response_description="The model.")
async def model(
    name: Annotated[str, Path(description="its `id` in `GET /v1/models`")],
    client: ClientDependency,
    service: ServiceDependency,
) -> dict[str, Any]:
    """The description of a model."""
    if name == service.config.model_name and service.upstream and service.upstream.default_model:
        return _own_model(name)  # which stands for the upstream's default
    try:
        descriptions = await _models(service)
    except ModelsUnlisted:  # the upstream may describe one model nevertheless
        assert service.upstream is not None
        description = await service.upstream.model(name)
        if description is None:
            raise
        return description
    for description in descriptions:
        if description["id"] == name:
            return description
    raise _unknown_model(name)


async def _models(service: Service) -> list[dict[str, Any]]:
    if service.upstream is not None:
        return await service.upstream.models()
    return [_own_model(service.config.model_name)]


def _own_model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "hammingmark"}


async def respond(
    body: GenerationRequest,
    request: Request,
    client: Client,
    service: Service,
    *,
    endpoint: str | None = None,
) -> Response:
    """The response to a request for text.

    Args:
        body: the request.
        request: the HTTP request.
        client: the client.
        service: the service.
        endpoint: the path in the audit log; by default that of the kind of request.

    Raises:
        HammingMarkError: the request cannot be answered.
        APIError: the same.
    """
    if service.upstream is None and body.model not in (None, "", service.config.model_name):
        raise _unknown_model(body.model or "")
    plan = service.planner.plan(body, client)
    model = service.planner.upstream_model(body)
    is_chat = isinstance(body, ChatCompletionRequest)
    path = endpoint or ("/v1/chat/completions" if is_chat else "/v1/completions")
    async with AsyncExitStack() as stack:
        answers = plan.choices * max(1, len(plan.prompts))
        await stack.enter_async_context(service.admitted(client, answers))
        if plan.key is not None and service.upstream is not None and is_chat:
            try:
                await cancel_on_disconnect(request, _require_continuation(model, service))
                return await _marked(body, request, client, service, plan, path=path, stack=stack)
            except APIError as error:
                if error.code != CANNOT_CONTINUE:
                    raise
            plan = _without_continuation(plan, service)
        if plan.key is None and service.upstream is not None:
            recorder = Recorder(service.audit, client, endpoint=path, model=model)
            await recorder.pass_through(plan.cause)
            passing = _pass_through(body, plan, service, model=model, stack=stack)
            response: Response = await cancel_on_disconnect(request, passing)
            return response.closing(stack) if isinstance(response, EventStream) else response
        return await _marked(body, request, client, service, plan, path=path, stack=stack)


async def _require_continuation(model: str, service: Service) -> None:
    """Ask the upstream, unless it is known, whether its model continues answers.

    Raises:
        APIError: it does not.
        BackendError: it does not answer.
    """
    if not await service.exchange().with_deadline(service.continuation.continues(model)):
        raise APIError.cannot_continue()


def _without_continuation(plan: GenerationPlan, service: Service) -> GenerationPlan:
    """The plan if the upstream cannot continue answers.

    Raises:
        APIError: the policy refuses unmarked answers.
    """
    try:
        return service.planner.without_continuation(plan)
    except APIError:
        service.metrics.count_answer("refused", reason="restarting")
        raise


async def _marked(
    body: GenerationRequest,
    request: Request,
    client: Client,
    service: Service,
    plan: GenerationPlan,
    *,
    path: str,
    stack: AsyncExitStack,
) -> Response:
    """The response that the service writes itself."""
    stack.enter_context(service.wait_limit.admitted(plan.choices * max(1, len(plan.prompts))))
    model = service.planner.upstream_model(body) or service.config.model_name
    recorder = Recorder(service.audit, client, endpoint=path, model=model)
    plan = await service.usage.assign(plan)
    answering = service.completion_stream(plan, client, recorder=recorder)
    stack.callback(lambda: service.usage.settle(plan, answering.marked_sentences))
    pieces = aiter(_with_metrics(answering, service))
    stack.push_async_callback(_close, pieces)
    is_chat = isinstance(body, ChatCompletionRequest)
    prefix = "chatcmpl" if is_chat else "cmpl"
    builder = ResponseBuilder(f"{prefix}-{client.request_id}", model, is_chat)
    if not plan.stream:
        await cancel_on_disconnect(request, _exhaust(pieces))
        content = builder.response(answering.choices, characters=_prompt_lengths(plan))
        headers = summary(answering.choices).headers
        return JSONResponse(content, headers={**headers, "X-Request-Id": client.request_id})
    # Until the first sentence exists, an error is still an HTTP status.
    first = await cancel_on_disconnect(request, anext(pieces, None))
    status = "marking" if answering.is_marking else "unmarked"
    if all(choice.mark for choice in answering.choices):  # such as a call of a tool
        status = summary(answering.choices).status
    headers = {"X-Watermark-Status": status}
    if plan.key and status != "unmarked":
        headers |= key_headers(plan.key.id, plan.key.label)
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
                if isinstance(text, str) and text and not has_text:
                    has_text = True
                    metrics.first_sentence_seconds.observe(time.perf_counter() - start)
                if choice.mark is not None and not text:
                    mark = choice.mark
                    counted.add(choice.index)
                    metrics.count_answer(mark.status, reason=mark.cause, cost=mark.cost)
                yield choice, text
    except APIError as error:
        is_refused = error.kind == "watermark_error" or error.code == "unmarkable"
        is_refused &= error.code != CANNOT_CONTINUE
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
    first: tuple[Choice, str | ReasoningPart] | None,
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
    choice: Choice, text: str | ReasoningPart, builder: ResponseBuilder, begun: set[int]
) -> list[dict[str, Any]]:
    chunks = []
    if builder.chat and choice.index not in begun:
        begun.add(choice.index)
        chunks.append(builder.first_chunk(choice))
    if isinstance(text, ReasoningPart):
        chunks.append(builder.reasoning_chunk(choice.index, text.text, text.field))
    elif text:
        chunks.append(builder.text_chunk(choice.index, text))
    elif choice.finish_reason is not None:
        if choice.calls:
            chunks.append(builder.call_chunk(choice))
        chunks.append(builder.last_chunk(choice))
    return chunks


async def _pass_through(
    body: GenerationRequest,
    plan: GenerationPlan,
    service: Service,
    *,
    model: str,
    stack: AsyncExitStack,
) -> Response:
    """The upstream's unmarked response to a request."""
    assert service.upstream is not None
    path = "/chat/completions" if isinstance(body, ChatCompletionRequest) else "/completions"
    content = body.model_dump(exclude_unset=True, exclude={"watermark"})
    if model:
        content["model"] = model
    watermark = Mark("unmarked", plan.reason, plan.cause).content
    exchange = service.exchange()
    response = await exchange.with_deadline(
        service.upstream.answer(path, content, watermark=watermark, stack=stack, exchange=exchange)
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
