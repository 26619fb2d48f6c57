"""``/v1/watermark/detect`` and ``/v1/watermark/keys``."""

from __future__ import annotations

import json
import time
from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response

from hammingmark.serialization import verdict_to_dict
from hammingmark.server.access import ERRORS, client_of, service_of
from hammingmark.server.api_error import APIError
from hammingmark.server.connections import cancel_on_disconnect
from hammingmark.server.detection.queue import Pause
from hammingmark.server.detection.schema import DetectionRequest, KeyInfo, KeyInfos, Results
from hammingmark.server.service import Client, Service

router = APIRouter(prefix="/v1/watermark", tags=["judging"], responses=ERRORS)

ClientDependency = Annotated[Client, Depends(client_of("detect"))]
ServiceDependency = Annotated[Service, Depends(service_of)]


@router.post(
    "/detect", summary="Judge texts: is the watermark there, and where?", response_model=Results
)
async def detect(
    asked: DetectionRequest, request: Request, client: ClientDependency, service: ServiceDependency
) -> Response:
    """The verdict on each text, by the exact p-value, corrected for the number of keys.

    A text that was marked with the derived key of a label is found by giving `labels`.
    """
    limits = service.config.limits
    if (asked.text is None) == (asked.texts is None):
        raise APIError(422, "Give either 'text' or 'texts'.", param="text")
    texts = [asked.text] if asked.text is not None else asked.texts or []
    if len(texts) > limits.texts:
        raise APIError(413, f"{limits.texts} texts at most are judged at once.", param="texts")
    if max(map(len, texts)) > limits.text_characters:
        raise APIError(
            413, f"A text may have {limits.text_characters:,} characters at most.", param="text"
        )
    level = asked.level or service.config.level

    def judge(pause: Pause) -> bytes:
        detection = service.detection
        keys = detection.choose(asked.keys, asked.labels)
        verdicts = detection.judge(texts, keys=keys, level=level, edits=asked.edits, pause=pause)
        # Here and text by text: a long one has a piece for every token.
        results = [
            json.dumps(verdict_to_dict(verdict, pieces=asked.pieces), allow_nan=False)
            for verdict in verdicts
        ]
        return f'{{"results":[{",".join(results)}]}}'.encode()

    began = time.perf_counter()
    content = await cancel_on_disconnect(request, service.judge(judge, client))
    service.metrics.detection_seconds.observe(time.perf_counter() - began)
    return Response(content, media_type="application/json")


@router.get("/keys", summary="The keys that texts are searched for")
def keys(client: ClientDependency, service: ServiceDependency) -> KeyInfos:
    """Id, name, method, dates, and whether it marks; never a secret."""
    # In a thread: the keyring is read, or waited for while somebody else reads it.
    marking = service.key.current().id
    return KeyInfos(
        keys=[
            KeyInfo(
                id=entry.key.id,
                name=entry.name,
                method=entry.key.config.method,
                created=entry.key.created.isoformat(),
                retired=entry.key.retired.isoformat() if entry.key.retired else None,
                marks=entry.key.id == marking,
            )
            for entry in service.detection.entries()
        ]
    )
