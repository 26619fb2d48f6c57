"""``/v1/responses``."""

from __future__ import annotations

import json
from typing import Annotated

from fastapi import APIRouter, Depends, Request
from fastapi.responses import JSONResponse, Response

from hammingmark.server.access import ERRORS, client_with_scope, service_of
from hammingmark.server.api_error import APIError
from hammingmark.server.clients import Client
from hammingmark.server.event_stream import EventStream
from hammingmark.server.marking.router import describe_responses, respond
from hammingmark.server.responses.chat_request import as_chat, renamed
from hammingmark.server.responses.response_events import response_events
from hammingmark.server.responses.response_object import ResponseHead, response_of
from hammingmark.server.responses.schema import ResponsesRequest, ResponsesResponse
from hammingmark.server.service import Service

router = APIRouter(tags=["writing"], responses=ERRORS)

_PATH = "/v1/responses"
_STREAM = (
    "OpenAI's typed events, numbered from 0. The last one, `response.completed` or "
    "`response.incomplete`, has the whole response with the field `watermark`; a stream that fails "
    "ends with `error` and `response.failed`"
)
_OWN_HEADERS = ("content-length", "content-type")  # which the translated response has anew


@router.post(
    _PATH,
    summary="Answer with marked text, by the Responses API",
    responses=describe_responses(ResponsesResponse, stream=_STREAM),
)
async def responses(
    body: ResponsesRequest,
    request: Request,
    client: Annotated[Client, Depends(client_with_scope("generate"))],
    service: Annotated[Service, Depends(service_of)],
) -> Response:
    """OpenAI's responses. Nothing is stored: a conversation is sent whole in `input`."""
    try:
        response = await respond(as_chat(body), request, client, service, endpoint=_PATH)
    except APIError as error:
        raise renamed(error) from None
    head = ResponseHead(body, client.request_id)
    if isinstance(response, EventStream):
        return response.translated(lambda chunks: response_events(chunks, head))
    if response.status_code >= 400:
        return response
    content = response_of(json.loads(bytes(response.body)), head)
    headers = {name: value for name, value in response.headers.items() if name not in _OWN_HEADERS}
    return JSONResponse(content, response.status_code, headers)
