"""What the service holds while it runs: the model, the keys, the logs, and who is being served."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import secrets
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from typing import TypeVar
from weakref import WeakSet

from hammingmark import registry
from hammingmark.assembly.backends import load_backend
from hammingmark.assembly.environment import Environment, environment_now
from hammingmark.assembly.marking import default_backend
from hammingmark.backends.openai import OpenAIBackend
from hammingmark.errors import HammingMarkError
from hammingmark.generation.config import GenerationConfig
from hammingmark.generation.engine import Engine
from hammingmark.keys.config import TokenConfig
from hammingmark.keys.key import WatermarkKey, as_label
from hammingmark.keys.keyring import Keyring
from hammingmark.protocols import Backend, Encoder
from hammingmark.records import Sampling, Verdict
from hammingmark.server.admission import Admission, RateLimiter, client_of
from hammingmark.server.api_error import APIError
from hammingmark.server.audit import AuditLog, wait_until_written
from hammingmark.server.authorization import ApiKey, ApiKeys
from hammingmark.server.components import ComponentCache
from hammingmark.server.config import ServerConfig
from hammingmark.server.detection.queue import DetectionQueue, Pause
from hammingmark.server.detection.service import Detection
from hammingmark.server.logs import log_event
from hammingmark.server.marking.completion_stream import CompletionStream, GenerationPlan
from hammingmark.server.marking.interpret import (
    config_of,
    count_answers,
    drawn_plainly,
    parse_prompts,
    unmarkable_reason,
    unsupported_reason,
)
from hammingmark.server.marking.keys import MarkingKey, WriterCache
from hammingmark.server.marking.recording import Asker
from hammingmark.server.marking.schema import GenerationRequest
from hammingmark.server.metrics import Metrics
from hammingmark.server.settings import without_secrets
from hammingmark.server.upstream import Exchange, Upstream

Judged = TypeVar("Judged")

_LOG = logging.getLogger("hammingmark.server")
_EMBEDDED_AT_ONCE = 8
_UPSTREAM_AT_ONCE = 32
_LOAD_AGAIN = 5.0  # seconds between two tries to load models
_NOT_LOADED = "The models cannot be loaded; the log says why."
_LAST_WORDS = 2.0  # seconds in which streams are told that the service stops


@dataclass(frozen=True, slots=True)
class Client:
    """Who asks.

    Attributes:
        request_id: of this request.
        address: from where.
        api_key: that was shown; None where none is needed.
    """

    request_id: str
    address: str
    api_key: ApiKey | None

    @property
    def name(self) -> str:
        """By which clients are told apart: their API key, or their address where there is none."""
        return f"key {self.api_key.name}" if self.api_key else f"address {client_of(self.address)}"


class Service:
    """The service, between its start and its end.

    Args:
        config: the settings.
        environment: where keys and models are; by default this user's.
        backend: the language model; by default the one that the settings name.
        encoder: by default the one that a key was made for.

    Raises:
        HammingMarkError: a setting names what there is not.
    """

    def __init__(
        self,
        config: ServerConfig,
        *,
        environment: Environment | None = None,
        backend: Backend | None = None,
        encoder: Encoder | None = None,
    ) -> None:
        self.config = config
        self.metrics = Metrics()
        keyring = Keyring((environment or environment_now()).keyring)
        self.key = MarkingKey(config.key, keyring=keyring, on_reload=self._key_changed)
        parts = ComponentCache(encoder, encoder_timeout=config.limits.encoder_timeout)
        self.detection = Detection(
            keyring, parts, further=self.key.used, on_problem=self._key_trouble
        )
        self.api_keys = (
            ApiKeys(
                config.api_keys,
                on_problem=self._key_trouble,
                on_reload=lambda count: self._key_changed(True, f"{count} API keys"),
            )
            if config.api_keys
            else None
        )
        self._limiter = RateLimiter(config.limits.requests_per_minute)
        self.upstream: Upstream | None = None
        self.default_model = config.upstream.model
        self.backend = backend or self._make_backend()
        self.audit = (
            AuditLog(
                config.audit.file,
                text_hash=config.audit.text_hash,
                on_problem=self._audit_changed,
                on_refused=self.metrics.audit_failures.inc,
            )
            if config.audit.file
            else None
        )
        self._engine = Engine(self.backend)
        self._writers = WriterCache(self.backend, parts)
        self._judging = DetectionQueue(
            at_once=max(1, (os.cpu_count() or 1) // 2), most=config.limits.detections
        )
        # Answers must not wait for those who have many texts judged.
        self._own_judging = ThreadPoolExecutor(1, "hammingmark-judge-answers")
        self._running: WeakSet[CompletionStream | Exchange] = WeakSet()
        self.admission = Admission(most=config.limits.queue, at_once=self.backend.parallel)
        self._loading = "The models are being loaded."
        self._stopping = False
        self._ended = asyncio.Event()
        self.metrics.queue_length.set_function(lambda: len(self.admission))
        self.metrics.active_texts.set_function(lambda: self._engine.active)

    # Beginning and end

    async def load(self) -> None:
        """Load the models, so that the first request need not wait for them.

        What fails is tried again, until the service is closed.
        """
        reason = ""
        while self._loading:
            before = reason
            try:
                await asyncio.to_thread(self._load)
                if self.upstream is not None and not self.default_model:
                    offered = [str(each["id"]) for each in await self.upstream.models()]
                    self.default_model = offered[0] if len(offered) == 1 else ""
                self._loading = ""
            except APIError as problem:  # of the upstream, which everybody may hear of by no name
                self._loading = problem.message
                reason = f"{without_secrets(self.config.upstream.url or '')}: {problem.message}"
            except HammingMarkError as error:  # whose words name files and addresses
                self._loading, reason = _NOT_LOADED, str(error)
            except Exception:  # of a model's library, whose words may be anything
                self._loading = _NOT_LOADED
                _LOG.exception("not ready")
            if reason != before:
                log_event(_LOG, "not ready", level=logging.ERROR, reason=reason)
            if self._loading:
                await asyncio.sleep(_LOAD_AGAIN)
        log_event(_LOG, "ready", model=self.config.model_name, key_id=self.key.current().id)

    def _load(self) -> None:
        self._writers.writer(self.key.current(), config=GenerationConfig())
        if self.upstream is None:
            self.backend.open().close()

    async def drain(self) -> None:
        """Take no more requests, give those under way their time, then end them with a word."""
        if self._stopping:
            return
        self._stopping = True
        log_event(_LOG, "stopping", under_way=len(self.admission) + len(self._judging))
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._idle(), self.config.limits.shutdown_grace)
        for under_way in [*self._running, self._judging]:
            under_way.interrupt(_stopping_error())
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._idle(), _LAST_WORDS)

    async def close(self) -> None:
        """Let go of everything."""
        await asyncio.to_thread(self._engine.close)
        await asyncio.to_thread(self.backend.close)
        self._judging.interrupt(_stopping_error())
        await asyncio.to_thread(self._own_judging.shutdown, cancel_futures=True)
        if self.upstream is not None:
            await self.upstream.close()
        if self.audit is not None:
            await asyncio.to_thread(self.audit.close)
        log_event(_LOG, "stopped")

    def problems(self) -> list[str]:
        """Why the service is not ready, in words for everybody; none if it is."""
        found = [self._loading] if self._loading else []
        if self._stopping:
            found.append("The service is stopping.")
        if self.audit is not None and (self.audit.problem or self.audit.is_stuck):
            found.append("The audit log cannot be written; the log says why.")
        if self.api_keys is not None and self.api_keys.check() and self.api_keys.is_closed:
            found.append("The file of API keys cannot be used; the log says why.")
        return found

    # Requests

    def client(self, *, token: str | None, scope: str, address: str, request_id: str) -> Client:
        """Who asks, if they may.

        Raises:
            APIError: they may not, or not so often.
        """
        api_key = None
        if self.api_keys is not None:
            api_key = self.api_keys.find(token) if token else None
            if api_key is None and self.api_keys.is_closed:
                raise APIError(
                    503,
                    "The service cannot tell who may ask, so that nobody may; try again later.",
                    kind="server_error",
                )
            if api_key is None:
                wanted = "This service needs an API key: Authorization: Bearer hmk_…"
                raise APIError(
                    401,
                    "This service does not know the API key." if token else wanted,
                    kind="authentication_error",
                    code="invalid_api_key",
                )
            if not api_key.allows(scope):
                raise APIError(
                    403,
                    f"The API key {api_key.name!r} is not good for {scope!r}.",
                    kind="permission_error",
                )
        client = Client(request_id, address, api_key)
        wait = self._limiter.take(client.name, per_minute=api_key.rate if api_key else None)
        if wait > 0:
            raise APIError(
                429,
                "Too many requests; wait, and ask less often.",
                kind="rate_limit_error",
                retry_after=wait,
            )
        return client

    @asynccontextmanager
    async def admitted(self, client: Client, answers: int = 1) -> AsyncIterator[None]:
        """Room for one request.

        Args:
            client: who asks.
            answers: that it asks for.

        Raises:
            APIError: there is none, or the service is stopping.
        """
        if self._stopping:
            raise _stopping_error()
        try:
            with self.admission.admitted(answers, client=client.name):
                yield
        finally:
            self._ended.set()

    def plan(self, asked: GenerationRequest, client: Client) -> GenerationPlan:
        """What a request means.

        Raises:
            APIError: the policy forbids it, or it asks for too much.
            HammingMarkError: a prompt or a label makes no sense.
        """
        policy, limits = self.config.policy, self.config.limits
        reason, cause = self._why_unmarked(asked, client)
        if reason and cause == "unmarkable" and policy.unmarkable == "refuse":
            raise APIError(
                400, f"{reason} This service writes marked text only.", code="unmarkable"
            )
        choices = asked.n or 1
        if count_answers(asked) > limits.choices:
            raise APIError(400, f"This service gives {limits.choices} answers at most.", param="n")
        if not self.upstream and (why := unsupported_reason(asked)):
            raise APIError(400, f"{why} The embedded model writes text alone.", code="unmarkable")
        prompts = () if reason and self.upstream else tuple(parse_prompts(asked))
        label = asked.mark.label
        if label is not None and policy.labels == "never":
            raise APIError(403, "This service takes no labels.", kind="permission_error")
        key: WatermarkKey | None = None
        if not reason:
            key = self.key.current()
            if label is not None:
                key = key.derive(as_label(label))
        seed = secrets.randbits(62) if asked.seed is None else asked.seed % (1 << 63)
        return GenerationPlan(
            prompts=prompts,
            choices=choices,
            config=self._config_of(asked),
            seed=seed,
            key=key,
            reason=reason,
            cause=cause,
            deliver_on_failure=policy.on_failure == "deliver",
            allow_unmarkable=policy.unmarkable == "pass",
            streams=bool(asked.stream),
        )

    def answering(
        self, plan: GenerationPlan, client: Client, *, endpoint: str, model: str
    ) -> CompletionStream:
        """The answers to a request, about to be written."""
        asker = Asker(
            request_id=client.request_id,
            endpoint=endpoint,
            model=model,
            api_key=client.api_key.name if client.api_key else None,
            client=client.name,
        )
        made = CompletionStream(
            plan,
            asker,
            engine=self._engine,
            writers=self._writers,
            judge=self._judge_answer,
            audit=self.audit,
            timeout=self.config.limits.request_timeout,
            first_timeout=self.config.limits.first_sentence_timeout,
        )
        self._running.add(made)
        return made

    def exchange(self) -> Exchange:
        """A request that is about to pass through."""
        made = Exchange(self.config.limits.request_timeout)
        self._running.add(made)
        return made

    def model_of(self, asked: GenerationRequest) -> str:
        """The model that a request asks the upstream for; empty where nobody says."""
        own = (None, "", self.config.model_name)  # the name that clients may know the service by
        return self.default_model if asked.model in own else asked.model or ""

    async def record_passed(
        self, plan: GenerationPlan, client: Client, *, endpoint: str, model: str
    ) -> None:
        """Record a request that goes to the upstream as it is, before it does.

        Raises:
            AuditError: it cannot be recorded.
        """
        if self.audit is not None:
            record = {
                "event": "passed",
                "request_id": client.request_id,
                "endpoint": endpoint,
                "model": model,
                "api_key": client.api_key.name if client.api_key else None,
                "status": "unmarked",
                "reason": plan.cause,
            }
            await wait_until_written(self.audit.append(record))

    async def judge(self, judge: Callable[[Pause], Judged], client: Client) -> Judged:
        """Judge texts without holding up others; cancelling gives it up.

        Args:
            judge: does it, in a thread; it calls what it is given between slices of its work.
            client: who asks.

        Raises:
            APIError: there is too much to judge, it took too long, or the service is stopping.
        """
        if self._stopping:
            raise _stopping_error()
        timeout = self.config.limits.request_timeout
        try:
            return await self._judging.judge(judge, client=client.name, timeout=timeout)
        finally:
            self._ended.set()

    async def _judge_answer(self, key: WatermarkKey, text: str) -> Verdict | None:
        try:
            return await asyncio.get_running_loop().run_in_executor(
                self._own_judging, self.detection.judge_answer, key, text
            )
        except Exception as error:  # of any library; an answer is marked, judged or not
            words = type(error).__name__
            log_event(_LOG, "answer not judged", level=logging.WARNING, error=words)
            return None

    def _why_unmarked(self, asked: GenerationRequest, client: Client) -> tuple[str, str]:
        """Why an answer is not marked, in a sentence and in a word; empty if it is."""
        if not asked.mark.enabled:
            switch = self.config.policy.switch_off
            allowed = client.api_key is not None and client.api_key.may_switch_off
            if switch == "never" or (switch == "by_api_key" and not allowed):
                whose = " with this API key" if switch == "by_api_key" and client.api_key else ""
                raise APIError(
                    403,
                    "This service marks what it writes; the watermark cannot be switched off"
                    f"{whose}.",
                    kind="permission_error",
                    code="watermark_required",
                )
            return "The request switched the watermark off.", "switched_off"
        why = unsupported_reason(asked) if self._marks_greedily() else unmarkable_reason(asked)
        return (why, "unmarkable") if why else ("", "")

    def _marks_greedily(self) -> bool:
        """Whether the mark decides which token is the likeliest, so that one candidate has it."""
        config = self.key.current().config
        method = registry.find("methods", config.method)
        return isinstance(config, TokenConfig) and method.stage == "logits"

    def _config_of(self, asked: GenerationRequest) -> GenerationConfig:
        sampling = Sampling(top_k=0) if self.upstream else None
        made = config_of(
            asked,
            max_tokens=self.config.max_tokens,
            limit=self.config.limits.tokens,
            budget=self.config.budget,
            sampling=sampling,
        )
        if self.backend.capabilities.load_tokenizer:
            return drawn_plainly(made)
        named = self.model_of(asked)
        if self.upstream and not named and self._loading:
            raise APIError(
                502,
                "The upstream has not told yet which models it has; try again later.",
                kind="upstream_error",
                retry_after=_LOAD_AGAIN,
            )
        if self.upstream and not named:
            raise APIError(400, "The upstream offers several models; name one.", param="model")
        if self.upstream:
            further = (*made.text_sampling.further, ("model", json.dumps(named)))
            return replace(
                made,
                text_sampling=replace(made.text_sampling, further=further),
                chat_sampling=replace(made.chat_sampling, further=further),
            )
        return made

    def _make_backend(self) -> Backend:
        config = self.config
        if config.upstream.url is None:
            name = config.backend or default_backend(self.key.current())
            return load_backend(name, parallel=config.parallel or _EMBEDDED_AT_ONCE)
        secret = config.upstream.api_key
        token = secret.get_secret_value() if secret else None
        self.upstream = Upstream(
            config.upstream.url, api_key=token, timeout=config.upstream.timeout
        )
        return OpenAIBackend(
            config.upstream.url,
            config.upstream.model or "default",  # each request names its own
            api_key=token,
            parallel=config.parallel or _UPSTREAM_AT_ONCE,
            timeout=config.upstream.timeout,
            retries=config.upstream.retries,
            keeps_sampling=True,
        )

    async def _idle(self) -> None:
        while len(self.admission) or len(self._judging):
            self._ended.clear()
            await self._ended.wait()

    def _key_changed(self, succeeded: bool, words: str) -> None:
        self.metrics.count_key_reload(succeeded=succeeded)
        level = logging.INFO if succeeded else logging.ERROR
        log_event(_LOG, "key file read again", level=level, reason=words)

    def _key_trouble(self, problem: str) -> None:
        self.metrics.count_key_reload(succeeded=False)
        log_event(_LOG, "key file unusable", level=logging.ERROR, reason=problem)

    def _audit_changed(self, problem: str | None) -> None:
        if problem:
            log_event(_LOG, "audit log unusable", level=logging.ERROR, reason=problem)
        else:
            log_event(_LOG, "audit log usable again")


def _stopping_error() -> APIError:
    return APIError(
        503, "The service is stopping; try again later.", kind="server_error", retry_after=10.0
    )
