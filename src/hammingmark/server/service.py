"""The state of the running service: models, keys, logs and running requests."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from functools import partial
from typing import TypeVar
from weakref import WeakSet

from hammingmark.assembly.backends import load_backend
from hammingmark.assembly.environment import Environment, environment_now, model_store
from hammingmark.assembly.marking import default_backend
from hammingmark.backends.openai import OpenAIBackend
from hammingmark.errors import HammingMarkError
from hammingmark.generation.config import GenerationConfig
from hammingmark.generation.engine import Engine
from hammingmark.keys.key import WatermarkKey
from hammingmark.keys.keyring import Keyring
from hammingmark.models.store import Progress
from hammingmark.protocols import Backend, Encoder
from hammingmark.records import Verdict
from hammingmark.server.admission import Admission, WaitLimit
from hammingmark.server.api_error import APIError
from hammingmark.server.audit import AuditLog
from hammingmark.server.authorization import ApiKeys
from hammingmark.server.clients import Authenticator, Client
from hammingmark.server.components import ComponentCache
from hammingmark.server.config import ServerConfig
from hammingmark.server.detection.policy import DetectionPolicy
from hammingmark.server.detection.queue import Checkpoint, DetectionQueue
from hammingmark.server.detection.service import DetectionService
from hammingmark.server.logs import log_event
from hammingmark.server.marking.completion_stream import CompletionStream
from hammingmark.server.marking.continuation import ContinuationCheck
from hammingmark.server.marking.keys import MarkingKey, WriterCache
from hammingmark.server.marking.planning import GenerationPlan, Planner
from hammingmark.server.marking.recording import Recorder
from hammingmark.server.marking.rotation import Rotation, utc_now
from hammingmark.server.marking.sentence_record import MARKED, SentenceRecord
from hammingmark.server.marking.usage import KeyUsage
from hammingmark.server.metrics import Metrics
from hammingmark.server.settings import without_secrets
from hammingmark.server.upstream import Exchange, Upstream

Result = TypeVar("Result")

_LOG = logging.getLogger("hammingmark.server")
_EMBEDDED_PARALLEL = 8
_UPSTREAM_PARALLEL = 32
_LOAD_RETRY = 5.0  # seconds between two attempts to load models
_NOT_LOADED = "Loading the models failed; see the log."
_INTERRUPT_GRACE = 2.0  # seconds for interrupted streams to send their last event


class Service:
    """The state of the service from start to shutdown.

    Args:
        config: the settings.
        environment: the folders of keys and models; by default this user's.
        backend: the language model; by default the one that the settings name.
        encoder: the encoder of all keys; by default each key's own.
        now: gives the current time, with its zone.

    Raises:
        HammingMarkError: a setting refers to something that does not exist.
    """

    def __init__(
        self,
        config: ServerConfig,
        *,
        environment: Environment | None = None,
        backend: Backend | None = None,
        encoder: Encoder | None = None,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        self.config = config
        self.metrics = Metrics()
        environment = environment or environment_now()
        self._store = model_store(environment, progress=_log_download)
        keyring = Keyring(environment.keyring)
        self.key = MarkingKey(config.key, keyring=keyring, on_reload=self._log_key_reload)
        record = SentenceRecord(
            config.rotation.record or keyring.folder / MARKED, on_problem=self._log_record_problem
        )
        self.usage = KeyUsage(config.rotation, record)
        self.rotation = Rotation(
            config.rotation, names=config.policy.labels, used=record.counts, now=now
        )
        key = self.key.current()
        self.usage.begin(key, self.rotation.label_in_use(key))
        self._components = ComponentCache(
            encoder, store=self._store, encoder_timeout=config.limits.encoder_timeout
        )
        self.detection = DetectionService(
            keyring,
            self._components,
            marking_keys=self.key.used,
            labels=self.rotation.labels,
            on_problem=self._log_key_problem,
        )
        self.api_keys = self._open_api_keys()
        self.clients = Authenticator(
            self.api_keys, requests_per_minute=config.limits.requests_per_minute
        )
        self.upstream = self._open_upstream()
        self.backend = backend or self._load_backend()
        self.planner = Planner(
            config,
            key=self.key,
            rotation=self.rotation,
            backend=self.backend,
            upstream=self.upstream,
        )
        self.continuation = ContinuationCheck(self.backend)
        self.audit = self._open_audit_log()
        self.admission = Admission(capacity=config.limits.queue, parallel=self.backend.parallel)
        self._engine = Engine(self.backend)
        self.wait_limit = WaitLimit(
            self._engine,
            first=config.limits.first_sentence_wait,
            whole=config.limits.request_timeout,
        )
        self._writers = WriterCache(self.backend, self._components)
        self._detections = DetectionQueue(
            parallel=max(1, (os.cpu_count() or 1) // 2), capacity=config.limits.detections
        )
        # A thread of their own: answers must not wait for detection requests.
        self._answer_detection = ThreadPoolExecutor(1, "hammingmark-detect-answers")
        self.detection_policy = DetectionPolicy(config)
        self._running: WeakSet[CompletionStream | Exchange] = WeakSet()
        self._not_ready = "The models are being loaded."
        self._is_stopping = False
        self._request_ended = asyncio.Event()
        self.metrics.queue_length.set_function(lambda: len(self.admission))
        self.metrics.active_texts.set_function(lambda: self._engine.active)
        self.metrics.show_marked_sentences(lambda: self.usage.totals)

    # Start and shutdown

    async def load(self) -> None:
        """Load the models, so that the first request need not wait for them.

        What fails is tried again until the service is closed.
        """
        reason = ""
        while self._not_ready:
            previous_reason = reason
            try:
                await asyncio.to_thread(self._load)
                if self.upstream is not None:
                    await self.upstream.find_default_model()
                self._not_ready = ""
            except APIError as error:  # of the upstream, whose address clients must not learn
                self._not_ready = error.message
                where = without_secrets(self.config.upstream.url or "")
                reason = f"{where}: {error.message} If upstream.model is set, it is not asked."
            except HammingMarkError as error:  # its message names files and addresses
                self._not_ready, reason = _NOT_LOADED, str(error)
            except Exception:  # of a model library; its message may contain anything
                self._not_ready = _NOT_LOADED
                _LOG.exception("not ready")
            if reason != previous_reason:
                log_event(_LOG, "not ready", level=logging.ERROR, reason=reason)
            if self._not_ready:
                await asyncio.sleep(_LOAD_RETRY)
        key = self.key.current()
        label = self.rotation.label_in_use(key)
        log_event(_LOG, "ready", model=self.config.model_name, key_id=key.id, label=label)

    def _load(self) -> None:
        self._writers.writer(self.key.current(), config=GenerationConfig())
        if self.upstream is None:
            self.backend.open().close()

    async def drain(self) -> None:
        """Refuse new requests, wait for the running ones, then interrupt the rest."""
        if self._is_stopping:
            return
        self._is_stopping = True
        log_event(_LOG, "stopping", under_way=len(self.admission) + len(self._detections))
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._idle(), self.config.limits.shutdown_grace)
        for work in [*self._running, self._detections]:
            work.interrupt(_stopping_error())
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._idle(), _INTERRUPT_GRACE)

    async def close(self) -> None:
        """Release all resources."""
        await asyncio.to_thread(self._engine.close)
        await asyncio.to_thread(self.backend.close)
        self._detections.interrupt(_stopping_error())
        await asyncio.to_thread(self._answer_detection.shutdown, cancel_futures=True)
        if self.upstream is not None:
            await self.upstream.close()
        await asyncio.to_thread(self.usage.close)
        if self.audit is not None:
            await asyncio.to_thread(self.audit.close)
        log_event(_LOG, "stopped")

    def problems(self) -> list[str]:
        """Why the service is not ready, in sentences without secrets; empty if it is."""
        problems = [self._not_ready] if self._not_ready else []
        if self._is_stopping:
            problems.append("The service is shutting down.")
        if self.audit is not None and (self.audit.problem or self.audit.is_stuck):
            problems.append("The audit log cannot be written; see the log.")
        if self.api_keys is not None and self.api_keys.check() and self.api_keys.is_closed:
            problems.append("The file of API keys cannot be used; see the log.")
        return problems

    # Requests

    @asynccontextmanager
    async def admitted(self, client: Client, answers: int = 1) -> AsyncIterator[None]:
        """Admit a request, which counts as running within the block.

        Args:
            client: the client.
            answers: the number of answers that it asks for.

        Raises:
            APIError: the queue is full, or the service is shutting down.
        """
        if self._is_stopping:
            raise _stopping_error()
        try:
            with self.admission.admitted(answers, client=client.name):
                yield
        finally:
            self._request_ended.set()

    def completion_stream(
        self, plan: GenerationPlan, client: Client, *, recorder: Recorder
    ) -> CompletionStream:
        """The answers of a plan; iterating generates them."""
        stream = CompletionStream(
            plan,
            client,
            engine=self._engine,
            writers=self._writers,
            detect=self._detect_answer,
            disclose=partial(self.detection_policy.disclosed_p_value, client),
            recorder=recorder,
            timeout=self.config.limits.request_timeout,
            first_timeout=self.config.limits.first_sentence_timeout,
        )
        self._running.add(stream)
        return stream

    def exchange(self) -> Exchange:
        """The exchange of a pass-through request with the upstream."""
        exchange = Exchange(self.config.limits.request_timeout)
        self._running.add(exchange)
        return exchange

    async def detect(self, work: Callable[[Checkpoint], Result], client: Client) -> Result:
        """Run a detection in a thread; cancelling the call cancels the detection.

        Args:
            work: the detection, which calls the checkpoint between slices of its work.
            client: the client.

        Raises:
            APIError: the queue is full, the detection timed out, or the service is shutting down.
        """
        if self._is_stopping:
            raise _stopping_error()
        timeout = self.config.limits.request_timeout
        try:
            return await self._detections.run(work, client=client.name, timeout=timeout)
        finally:
            self._request_ended.set()

    async def _detect_answer(self, key: WatermarkKey, text: str) -> Verdict | None:
        try:
            return await asyncio.get_running_loop().run_in_executor(
                self._answer_detection, self.detection.detect_answer, key, text
            )
        except Exception as error:  # of any library; the answer is sent without a verdict
            name = type(error).__name__
            log_event(_LOG, "answer not judged", level=logging.WARNING, error=name)
            return None

    async def _idle(self) -> None:
        while len(self.admission) or len(self._detections):
            self._request_ended.clear()
            await self._request_ended.wait()

    # Components of the settings

    def _open_api_keys(self) -> ApiKeys | None:
        if self.config.api_keys is None:
            return None
        return ApiKeys(
            self.config.api_keys,
            on_problem=self._log_key_problem,
            on_reload=lambda count: self._log_key_reload(True, f"{count} API keys"),
        )

    def _open_audit_log(self) -> AuditLog | None:
        if self.config.audit.file is None:
            return None
        return AuditLog(
            self.config.audit.file,
            text_hash=self.config.audit.text_hash,
            on_problem=self._log_audit_problem,
            on_refused=self.metrics.audit_failures.inc,
        )

    def _open_upstream(self) -> Upstream | None:
        config = self.config.upstream
        if config.url is None:
            return None
        return Upstream(
            config.url, model=config.model, api_key=self._upstream_token, timeout=config.timeout
        )

    def _load_backend(self) -> Backend:
        config = self.config
        if config.upstream.url is None:
            name = config.backend or default_backend(self.key.current())
            parallel = config.parallel or _EMBEDDED_PARALLEL
            return load_backend(name, store=self._store, parallel=parallel)
        return OpenAIBackend(
            config.upstream.url,
            config.upstream.model or "default",  # each request names its own
            api_key=self._upstream_token,
            parallel=config.parallel or _UPSTREAM_PARALLEL,
            timeout=config.upstream.timeout,
            retries=config.upstream.retries,
            keeps_sampling=True,
            continues=config.upstream.continues,
        )

    @property
    def _upstream_token(self) -> str | None:
        secret = self.config.upstream.api_key
        return secret.get_secret_value() if secret else None

    def _log_key_reload(self, succeeded: bool, message: str) -> None:
        self.metrics.count_key_reload(succeeded=succeeded)
        level = logging.INFO if succeeded else logging.ERROR
        log_event(_LOG, "key file read again", level=level, reason=message)

    def _log_key_problem(self, problem: str) -> None:
        self.metrics.count_key_reload(succeeded=False)
        log_event(_LOG, "key file unusable", level=logging.ERROR, reason=problem)

    def _log_record_problem(self, problem: str | None) -> None:
        if problem:
            # Without numbers nothing depends on the counts but a warning.
            is_grave = self.config.rotation.sentences is not None
            level = logging.ERROR if is_grave else logging.WARNING
            log_event(_LOG, "sentences not recorded", level=level, reason=problem)
        else:
            log_event(_LOG, "sentences recorded again")

    def _log_audit_problem(self, problem: str | None) -> None:
        if problem:
            log_event(_LOG, "audit log unusable", level=logging.ERROR, reason=problem)
        else:
            log_event(_LOG, "audit log usable again")


def _log_download(event: Progress) -> None:
    """Log what happens while a model is downloaded, without a line for each part."""
    name, megabytes = event.model.name, round(event.total / 1e6, 1)
    if event.stage == "started":
        log_event(_LOG, "downloading a model", model=name, megabytes=megabytes)
    elif event.stage == "done":
        log_event(_LOG, "downloaded a model", model=name, megabytes=megabytes)
    elif event.stage == "waiting":
        log_event(_LOG, "waiting for another process to download a model", model=name)
    elif event.stage == "notice":
        log_event(_LOG, "downloading a model", model=name, reason=event.notice)


def _stopping_error() -> APIError:
    return APIError(
        503,
        "The service is shutting down; try again later.",
        kind="server_error",
        retry_after=10.0,
    )
