"""``/v1/watermark/detect`` and ``/v1/watermark/keys``."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta, timezone
from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response

from hammingmark._version import __version__
from hammingmark.records import Verdict
from hammingmark.reports.dated import DatedReport, Judge
from hammingmark.reports.page import as_page
from hammingmark.serialization import verdict_to_dict
from hammingmark.server.access import ABOUT, ERRORS, client_with_scope, service_of
from hammingmark.server.api_error import APIError
from hammingmark.server.clients import Client
from hammingmark.server.connections import cancel_on_disconnect
from hammingmark.server.detection.disclosure import Detail, disclosed
from hammingmark.server.detection.queue import Checkpoint
from hammingmark.server.detection.schema import (
    About,
    DetectionOptions,
    DetectionRequest,
    KeyInfo,
    KeyInfos,
    Operator,
    ReportRequest,
    ReportResponse,
    Results,
)
from hammingmark.server.service import Service

router = APIRouter(prefix="/v1/watermark", tags=["judging"], responses=ERRORS)

ClientDependency = Annotated[Client, Depends(client_with_scope("detect"))]
ServiceDependency = Annotated[Service, Depends(service_of)]


@router.post(
    "/detect",
    summary="Detect the watermark in texts, and where it is",
    response_model=Results,
    response_description="The verdicts.",
)
async def detect(
    body: DetectionRequest, request: Request, client: ClientDependency, service: ServiceDependency
) -> Response:
    """The verdict on each text, by a p-value that is corrected for the number of keys.

    With `labels`, the keys derived by these labels are searched. `detail` says how much the policy
    of the service tells this client: `scores`, everything; `p_value`, all but the scores; or
    `verdict`, the p-value only if it is at most the level, rounded up to a tenth, a hundredth, … of
    the level, and passages by the quarters of the text that they touch.
    """
    if (body.text is None) == (body.texts is None):
        raise APIError(422, "Send either 'text' or 'texts'.", param="text")
    texts = [body.text] if body.text is not None else body.texts or []

    def as_json(verdict: Verdict) -> str:
        return json.dumps(verdict_to_dict(verdict, pieces=body.pieces), allow_nan=False)

    detail, results = await _judged(texts, body, as_json, request, client, service)
    content = f'{{"detail":"{detail}","results":[{",".join(results)}]}}'
    return Response(content.encode(), media_type="application/json")


@router.post(
    "/report",
    summary="Judge a text and get a dated report to print or keep",
    response_model=ReportResponse,
    response_description="The report.",
)
async def report(
    body: ReportRequest, request: Request, client: ClientDependency, service: ServiceDependency
) -> Response:
    """A verdict as of `/v1/watermark/detect`, in words, and what may and may not be concluded.

    The report names the date, the operator and the SHA-256 of the text. Nothing is stored, and the
    policy of detection holds as for `/v1/watermark/detect`. The report is not signed.
    """
    operator = service.config.operator
    zone = timezone(timedelta(minutes=body.utc_offset))

    def as_json(verdict: Verdict) -> str:
        entries = service.detection.entries()
        match = next((entry for entry in entries if entry.key.id == verdict.key_id), None)
        own = service.detection.own_ids(entries)
        made = DatedReport(
            text=body.text,
            verdict=verdict,
            made=datetime.now(zone),
            judge=Judge(operator.name, operator.contact, operator.url),
            key_name=match.name if match else None,
            # Keys that are derived by the labels of the service are in no keyring.
            is_own=match.key.id in own if match else bool(verdict.label and not body.labels),
        )
        return json.dumps({"report": made.to_dict(), "html": as_page(made)}, allow_nan=False)

    _, [content] = await _judged([body.text], body, as_json, request, client, service)
    return Response(content.encode(), media_type="application/json")


async def _judged(
    texts: Sequence[str],
    options: DetectionOptions,
    as_json: Callable[[Verdict], str],
    request: Request,
    client: Client,
    service: Service,
) -> tuple[Detail, list[str]]:
    """How much the client is told, and of each text what is made of the verdict on it.

    Raises:
        APIError: a text is too long, or the policy refuses the request.
    """
    limits = service.config.limits
    if len(texts) > limits.texts:
        raise APIError(413, f"A request may have at most {limits.texts} texts.", param="texts")
    if max(map(len, texts)) > limits.text_characters:
        raise APIError(
            413, f"A text may have at most {limits.text_characters:,} characters.", param="text"
        )
    policy = service.detection_policy
    detail, level = policy.detail(client), policy.level(client, options.level)
    policy.check_rate(client, texts)
    named = options.model_dump(include=set(DetectionOptions.model_fields))

    def detect(checkpoint: Checkpoint) -> list[str]:
        policy.check_copies(client, texts, named)
        detection = service.detection
        keys = detection.select(options.keys, options.labels)
        verdicts = detection.detect(
            texts, keys=keys, level=level, edits=options.edits, checkpoint=checkpoint
        )
        # In this thread, text by text: a long text has a piece for every token.
        return [as_json(disclosed(verdict, detail, top=policy.top(client))) for verdict in verdicts]

    start = time.perf_counter()
    results = await cancel_on_disconnect(request, service.detect(detect, client))
    service.metrics.detection_seconds.observe(time.perf_counter() - start)
    return detail, results


@router.get(
    "/keys", summary="The keys used for detection", response_description="The keys, no secret."
)
def keys(client: ClientDependency, service: ServiceDependency) -> KeyInfos:
    """Id, name, method and dates of each key, and how it marks and is searched; never a secret."""
    # A synchronous route runs in a thread, since it may read the keyring or wait for its lock.
    key = service.key.current()
    label = service.rotation.label_in_use(key)
    derived = service.detection.derived_keys()
    entries = service.detection.entries()
    own = service.detection.own_ids(entries)
    return KeyInfos(
        keys=[
            KeyInfo(
                id=entry.key.id,
                name=entry.name,
                method=entry.key.config.method,
                created=entry.key.created.isoformat(),
                retired=entry.key.retired.isoformat() if entry.key.retired else None,
                marks=entry.key.id == key.id,
                label=label if entry.key.id == key.id else None,
                derived_keys=derived.get(entry.key.id, 0),
                own=entry.key.id in own,
            )
            for entry in entries
        ]
    )


@router.get(
    ABOUT.removeprefix(router.prefix),
    summary="Who runs the service",
    response_description="The operator and the software.",
)
async def about(service: ServiceDependency) -> About:
    """The operator's name and contact, as the settings say. No API key is needed."""
    operator = service.config.operator
    return About(
        operator=Operator(name=operator.name, contact=operator.contact, url=operator.url),
        software="hammingmark",
        version=__version__,
    )
