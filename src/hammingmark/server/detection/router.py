"""``/v1/watermark/detect`` and ``/v1/watermark/keys``."""

from __future__ import annotations

import json
import time
from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response

from hammingmark.serialization import verdict_to_dict
from hammingmark.server.access import ERRORS, client_with_scope, service_of
from hammingmark.server.api_error import APIError
from hammingmark.server.clients import Client
from hammingmark.server.connections import cancel_on_disconnect
from hammingmark.server.detection.queue import Checkpoint
from hammingmark.server.detection.schema import DetectionRequest, KeyInfo, KeyInfos, Results
from hammingmark.server.service import Service

router = APIRouter(prefix="/v1/watermark", tags=["judging"], responses=ERRORS)

ClientDependency = Annotated[Client, Depends(client_with_scope("detect"))]
ServiceDependency = Annotated[Service, Depends(service_of)]


@router.post(
    "/detect", summary="Detect the watermark in texts, and where it is", response_model=Results
)
async def detect(
    body: DetectionRequest, request: Request, client: ClientDependency, service: ServiceDependency
) -> Response:
    """The verdict on each text, by an exact p-value that is corrected for the number of keys.

    With `labels`, the keys derived by these labels are searched.
    """
    limits = service.config.limits
    if (body.text is None) == (body.texts is None):
        raise APIError(422, "Send either 'text' or 'texts'.", param="text")
    texts = [body.text] if body.text is not None else body.texts or []
    if len(texts) > limits.texts:
        raise APIError(413, f"A request may have at most {limits.texts} texts.", param="texts")
    if max(map(len, texts)) > limits.text_characters:
        raise APIError(
            413, f"A text may have at most {limits.text_characters:,} characters.", param="text"
        )
    level = body.level or service.config.level

    def detect(checkpoint: Checkpoint) -> bytes:
        detection = service.detection
        keys = detection.select(body.keys, body.labels)
        verdicts = detection.detect(
            texts, keys=keys, level=level, edits=body.edits, checkpoint=checkpoint
        )
        # In this thread, text by text: a long text has a piece for every token.
        results = [
            json.dumps(verdict_to_dict(verdict, pieces=body.pieces), allow_nan=False)
            for verdict in verdicts
        ]
        return f'{{"results":[{",".join(results)}]}}'.encode()

    start = time.perf_counter()
    content = await cancel_on_disconnect(request, service.detect(detect, client))
    service.metrics.detection_seconds.observe(time.perf_counter() - start)
    return Response(content, media_type="application/json")


@router.get("/keys", summary="The keys used for detection")
def keys(client: ClientDependency, service: ServiceDependency) -> KeyInfos:
    """Id, name, method and dates of each key, and whether it marks; never a secret."""
    # A synchronous route runs in a thread, since it may read the keyring or wait for its lock.
    marking_id = service.key.current().id
    return KeyInfos(
        keys=[
            KeyInfo(
                id=entry.key.id,
                name=entry.name,
                method=entry.key.config.method,
                created=entry.key.created.isoformat(),
                retired=entry.key.retired.isoformat() if entry.key.retired else None,
                marks=entry.key.id == marking_id,
            )
            for entry in service.detection.entries()
        ]
    )
