"""From a request to a generation plan: policy, limits, key and sampling."""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass

from hammingmark.assembly.keys import method_of
from hammingmark.generation.config import GenerationConfig
from hammingmark.keys.config import TokenConfig
from hammingmark.keys.key import WatermarkKey, as_label
from hammingmark.lazy import SingleFlightCache
from hammingmark.protocols import Backend
from hammingmark.records import Prompt, Sampling
from hammingmark.server.api_error import APIError
from hammingmark.server.clients import Client
from hammingmark.server.config import ServerConfig
from hammingmark.server.marking.interpret import (
    check_penalties,
    count_answers,
    generation_config,
    parse_prompts,
    passed_fields,
    sampling_of,
    unmarkable_reason,
    unsupported_reason,
)
from hammingmark.server.marking.keys import MarkingKey
from hammingmark.server.marking.schema import GenerationRequest
from hammingmark.server.upstream import Upstream

_UPSTREAM_SAMPLING = Sampling(top_k=0)
_MODELS_RETRY = 5.0  # seconds after which to ask again while the upstream's models are unknown
_MAX_METHODS = 16


@dataclass(frozen=True, slots=True)
class GenerationPlan:
    """What a request generates, and how.

    Attributes:
        prompts: the prompts to answer.
        choices: answers to each prompt.
        config: the generation settings.
        seed: the seed of every draw.
        key: the key that marks the answers; None for unmarked answers.
        reason: why they are not marked, as a sentence.
        cause: the same as a metric label.
        deliver_on_failure: whether an answer continues unmarked if the encoder fails.
        allow_unmarkable: whether an answer without a markable sentence is sent.
        stream: whether answers are sent while they are written, not all together at the end.
    """

    prompts: tuple[Prompt, ...]
    choices: int
    config: GenerationConfig
    seed: int
    key: WatermarkKey | None
    reason: str = ""
    cause: str = ""
    deliver_on_failure: bool = False
    allow_unmarkable: bool = True
    stream: bool = False


class Planner:
    """Turns requests into generation plans.

    Args:
        config: the settings of the service.
        key: the key that marks.
        backend: the language model.
        upstream: the endpoint for pass-through requests, if there is one.
    """

    def __init__(
        self, config: ServerConfig, *, key: MarkingKey, backend: Backend, upstream: Upstream | None
    ) -> None:
        self._config = config
        self._key = key
        self._backend = backend
        self._upstream = upstream
        self._greedy_methods: SingleFlightCache[bool] = SingleFlightCache(_MAX_METHODS)

    def plan(self, request: GenerationRequest, client: Client) -> GenerationPlan:
        """The plan of a request.

        Raises:
            APIError: the policy forbids the request, or it exceeds a limit.
            HammingMarkError: a prompt or a label is invalid.
        """
        policy, limits = self._config.policy, self._config.limits
        key = self._key.current() if self._is_watermarked(request, client) else None
        sampling = self._sampling(request)
        reason, cause = "", ""
        if key is None:
            reason, cause = "The request turned off the watermark.", "switched_off"
        elif obstacle := self._obstacle(request, sampling, key):
            reason, cause, key = obstacle, "unmarkable", None
        if cause == "unmarkable" and policy.unmarkable == "refuse":
            raise APIError(
                400, f"{reason} This service returns only marked text.", code="unmarkable"
            )
        if count_answers(request) > limits.choices:
            raise APIError(
                400,
                f"This service returns at most {limits.choices} answers per request.",
                param="n",
            )
        if not self._upstream and (obstacle := unsupported_reason(request)):
            raise APIError(
                400, f"{obstacle} The embedded model supports only text.", code="unmarkable"
            )
        passes_through = key is None and self._upstream is not None
        prompts = () if passes_through else tuple(parse_prompts(request))
        label = request.watermark_options.label
        if label is not None and policy.labels == "never":
            raise APIError(403, "This service does not accept labels.", kind="permission_error")
        if key is not None and label is not None:
            key = key.derive(as_label(label))
        seed = secrets.randbits(62) if request.seed is None else request.seed % (1 << 63)
        return GenerationPlan(
            prompts=prompts,
            choices=request.n or 1,
            config=self._generation_config(request, sampling),
            seed=seed,
            key=key,
            reason=reason,
            cause=cause,
            deliver_on_failure=policy.on_failure == "deliver",
            allow_unmarkable=policy.unmarkable == "pass",
            stream=bool(request.stream),
        )

    def upstream_model(self, request: GenerationRequest) -> str:
        """The model of the upstream that answers a request; empty if it is not determined."""
        if request.model not in (None, "", self._config.model_name):
            return request.model or ""
        return (self._upstream.default_model or "") if self._upstream else ""

    def _is_watermarked(self, request: GenerationRequest, client: Client) -> bool:
        """Whether a request leaves the watermark on.

        Raises:
            APIError: the client turns it off and may not.
        """
        if request.watermark_options.enabled:
            return True
        policy = self._config.policy.switch_off
        permitted = client.api_key is not None and client.api_key.may_switch_off
        if policy == "never" or (policy == "by_api_key" and not permitted):
            whose = " with this API key" if policy == "by_api_key" and client.api_key else ""
            raise APIError(
                403,
                f"The watermark of this service cannot be switched off{whose}.",
                kind="permission_error",
                code="watermark_required",
            )
        return False

    def _obstacle(
        self, request: GenerationRequest, sampling: Sampling, key: WatermarkKey
    ) -> str | None:
        """Why the answers to a request cannot be marked, as a sentence; None if they can."""
        if self._marks_greedy_text(key):
            return unsupported_reason(request)
        return unmarkable_reason(request, sampling)

    def _marks_greedy_text(self, key: WatermarkKey) -> bool:
        """Whether the method changes logits, so that greedy decoding is marked too."""
        if not isinstance(key.config, TokenConfig):
            return False

        def changes_logits() -> bool:
            watermark = method_of(key).capabilities.tokens
            return watermark is not None and watermark.stage == "logits"

        return self._greedy_methods.get(key.config, changes_logits)

    def _sampling(self, request: GenerationRequest) -> Sampling:
        """How the model draws its tokens."""
        draws_locally = self._backend.capabilities.load_tokenizer is not None
        fields = () if draws_locally else passed_fields(request)
        if self._upstream is None:
            return sampling_of(request, fields=fields)
        if not draws_locally:
            fields += (("model", json.dumps(self.upstream_model(request))),)
        return sampling_of(request, _UPSTREAM_SAMPLING, fields=fields)

    def _generation_config(
        self, request: GenerationRequest, sampling: Sampling
    ) -> GenerationConfig:
        config = generation_config(
            request,
            sampling,
            max_tokens=self._config.max_tokens,
            limit=self._config.limits.tokens,
            budget=self._config.budget,
        )
        if self._backend.capabilities.load_tokenizer:
            check_penalties(request)
        elif self._upstream and not self.upstream_model(request):
            if self._upstream.default_model is None:
                raise APIError(
                    502,
                    "The models of the upstream are not known yet; try again later.",
                    kind="upstream_error",
                    retry_after=_MODELS_RETRY,
                )
            raise APIError(400, "The upstream offers several models; name one.", param="model")
        return config
