"""``/v1/chat/completions``, ``/v1/completions`` and ``/v1/models``."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, aclosing
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from fastapi.responses import JSONResponse, Response

from hammingmark.records import Prompt
from hammingmark.server.access import ERRORS, client_of, service_of
from hammingmark.server.event_stream import EventStream
from hammingmark.server.marking.answering import Answering, Plan
from hammingmark.server.marking.answers import Choice, Form, Mark, event, summary
from hammingmark.server.marking.schema import Asked, AskedChat, AskedCompletion
from hammingmark.server.problems import Problem
from hammingmark.server.service import Client, Service

_LOG = logging.getLogger("hammingmark.server")

router = APIRouter(tags=["writing"], responses=ERRORS)

Asking = Annotated[Client, Depends(client_of("generate"))]
Serving = Annotated[Service, Depends(service_of)]

_STREAMED: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The answer, or its pieces as server-sent events where it is streamed.",
        "content": {"text/event-stream": {}},
    }
}


@router.post("/v1/chat/completions", summary="Answer a chat with marked text", responses=_STREAMED)
async def chat(asked: AskedChat, request: Request, client: Asking, service: Serving) -> Response:
    """OpenAI's chat completions; accepted sentences are streamed as they are accepted."""
    return await _answer(asked, request, client, service, chat=True)


@router.post("/v1/completions", summary="Continue a text with marked text", responses=_STREAMED)
async def completions(
    asked: AskedCompletion, request: Request, client: Asking, service: Serving
) -> Response:
    """OpenAI's completions."""
    return await _answer(asked, request, client, service, chat=False)


@router.get("/v1/models", summary="The models that can be asked for")
async def models(client: Asking, service: Serving) -> dict[str, Any]:
    """Those of the upstream, or the embedded one."""
    if service.upstream is not None:
        return {"object": "list", "data": await service.upstream.models()}
    return {"object": "list", "data": [_model(service)]}


@router.get("/v1/models/{name:path}", summary="One model")
async def model(name: str, client: Asking, service: Serving) -> dict[str, Any]:
    """What is known of a model."""
    known = [_model(service)] if service.upstream is None else await service.upstream.models()
    for each in known:
        if each["id"] == name:
            return each
    raise _no_model(name)


async def _answer(
    asked: Asked, request: Request, client: Client, service: Service, *, chat: bool
) -> Response:
    if service.upstream is None and asked.model not in (None, "", service.config.model_name):
        raise _no_model(asked.model or "")
    plan = service.plan(asked, client)
    endpoint = "/v1/chat/completions" if chat else "/v1/completions"
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(service.admitted())
        if plan.key is None and service.upstream is not None:
            await service.record_passed(plan, client, endpoint=endpoint, model=asked.model)
            passing = _pass_on(asked, plan, service, chat=chat, held=stack)
            passed: Response = await _unless_gone(request, passing)
            return passed
        name = asked.model or service.default_model or service.config.model_name
        form = Form(f"{'chatcmpl' if chat else 'cmpl'}-{client.request_id}", name, chat)
        answering = service.answering(plan, client, endpoint=endpoint, model=name)
        began = time.perf_counter()
        pieces = aiter(_timed(answering, service, began))
        stack.push_async_callback(_close, pieces)
        if not asked.stream:
            await _unless_gone(request, _all(pieces))
            content = form.whole(answering.choices, characters=_characters(plan))
            headers = summary(answering.choices).headers
            return JSONResponse(content, headers={**headers, "X-Request-Id": client.request_id})
        # Until the first sentence is there, what goes wrong is still a status of HTTP.
        first = await _unless_gone(request, anext(pieces, None))
        told = {"X-Watermark-Status": "marking" if plan.key else "unmarked"}
        if plan.key:
            told["X-Watermark-Key-Id"] = plan.key.id
        held = stack.pop_all()
        events = _events(first, pieces, answering, form, asked, plan)
        return EventStream(events, held, headers={**told, "X-Request-Id": client.request_id})


async def _timed(
    answering: Answering, service: Service, began: float
) -> AsyncIterator[tuple[Choice, str]]:
    """The pieces of answers, with what the metrics count of them."""
    metrics, waiting = service.metrics, True
    try:
        async with aclosing(aiter(answering)) as pieces:
            async for choice, text in pieces:
                if text and waiting:
                    waiting = False
                    metrics.first_sentence_seconds.observe(time.perf_counter() - began)
                if choice.mark is not None and not text:
                    mark = choice.mark
                    metrics.count_answer(mark.status, reason=mark.cause, cost=mark.cost)
                yield choice, text
    finally:
        for left in (choice.mark for choice in answering.choices):
            if left is not None and left.cause == "cut_short":
                metrics.count_answer(left.status, reason=left.cause)
    metrics.answer_seconds.observe(time.perf_counter() - began)


async def _events(
    first: tuple[Choice, str] | None,
    pieces: AsyncIterator[tuple[Choice, str]],
    answering: Answering,
    form: Form,
    asked: Asked,
    plan: Plan,
) -> AsyncIterator[bytes]:
    """The answers as server-sent events; one that fails ends without ``[DONE]``."""
    begun: set[int] = set()
    try:
        if first is not None:
            for data in _chunks(*first, form, begun):
                yield event(data)
        async for choice, text in pieces:
            for data in _chunks(choice, text, form, begun):
                yield event(data)
    except Problem as problem:
        yield event(problem.content)
        return
    except Exception:
        _LOG.exception("fault")
        yield event(Problem.unforeseen().content)
        return
    if asked.wants_usage:
        yield event(form.usage(answering.choices, characters=_characters(plan)))
    yield b"data: [DONE]\n\n"


def _chunks(choice: Choice, text: str, form: Form, begun: set[int]) -> list[dict[str, Any]]:
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
    asked: Asked, plan: Plan, service: Service, *, chat: bool, held: AsyncExitStack
) -> Response:
    """A request that goes to the upstream as it is, and comes back unmarked."""
    assert service.upstream is not None
    body = asked.model_dump(exclude_unset=True, exclude={"watermark"})
    if not body.get("model") and service.default_model:
        body["model"] = service.default_model
    mark = Mark("unmarked", plan.reason, plan.cause)
    path = "chat/completions" if chat else "completions"
    response = await service.upstream.answer(path, body, told=mark.content, held=held)
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


async def _unless_gone(request: Request, work: Any) -> Any:
    """Wait for something, and give it up if the client leaves.

    Raises:
        Problem: it left.
    """
    working = asyncio.ensure_future(work)
    watching = asyncio.ensure_future(_gone(request))
    try:
        await asyncio.wait({working, watching}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        raise Problem(499, "The client left.", kind="client_error")
    finally:
        for task in (working, watching):
            task.cancel()
        await asyncio.gather(working, watching, return_exceptions=True)


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _characters(plan: Plan) -> list[int]:
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


def _no_model(name: str) -> Problem:
    return Problem(
        404,
        f"There is no model {name!r:.100}; GET /v1/models lists them.",
        code="model_not_found",
        param="model",
    )
