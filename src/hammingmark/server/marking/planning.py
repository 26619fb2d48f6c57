"""From a request to a generation plan: policy, limits, key and sampling."""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass, replace

from hammingmark.assembly.keys import method_of
from hammingmark.backends.openai_schema import SERVER_SAMPLING
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
    check_fields,
    check_penalties,
    count_answers,
    generation_config,
    offers_tools,
    parse_prompts,
    passed_fields,
    sampling_of,
    unmarkable_reason,
    unsupported_reason,
)
from hammingmark.server.marking.keys import MarkingKey
from hammingmark.server.marking.rotation import Rotation
from hammingmark.server.marking.schema import GenerationRequest
from hammingmark.server.upstream import Upstream

_MODELS_RETRY = 5.0  # seconds after which to ask again while the upstream's models are unknown
_MAX_METHODS = 16
_NO_TOOLS = "The embedded model calls no tools."
_RESTARTING = (
    "The upstream begins a new answer instead of continuing an unfinished one, so its answers to "
    "chats cannot be marked."
)


@dataclass(frozen=True, slots=True)
class GenerationPlan:
    """What a request generates, and how.

    Attributes:
        prompts: the prompts to answer.
        choices: answers to each prompt.
        config: the generation settings.
        seed: the seed of every draw.
        key: the key that marks the answers, which keep it to their ends; None for unmarked answers.
        master: the key from which it was derived; itself, if it was not derived here.
        reserved: sentences that are counted for its key until the answers have ended.
        reason: why they are not marked, as a sentence.
        cause: the same as a metric label.
        note: what else the status of every answer says, as a sentence.
        deliver_on_failure: whether an answer continues unmarked if the encoder fails.
        allow_unmarkable: whether an answer without a markable sentence is sent.
        stream: whether answers are sent while they are written, not all together at the end.
    """

    prompts: tuple[Prompt, ...]
    choices: int
    config: GenerationConfig
    seed: int
    key: WatermarkKey | None
    master: WatermarkKey | None = None
    reserved: int = 0
    reason: str = ""
    cause: str = ""
    note: str = ""
    deliver_on_failure: bool = False
    allow_unmarkable: bool = True
    stream: bool = False

    @property
    def passes_reasoning(self) -> bool:
        """Whether clients get what the model thinks before it answers, which carries no mark."""
        return self.key is None or self.allow_unmarkable


class Planner:
    """Turns requests into generation plans.

    Args:
        config: the settings of the service.
        key: the key that marks, itself or by keys derived from it.
        rotation: gives the labels of derived keys.
        backend: the language model.
        upstream: the endpoint for pass-through requests, if there is one.
    """

    def __init__(
        self,
        config: ServerConfig,
        *,
        key: MarkingKey,
        rotation: Rotation,
        backend: Backend,
        upstream: Upstream | None,
    ) -> None:
        self._config = config
        self._key = key
        self._rotation = rotation
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
        name = request.watermark_options.label
        label = self._rotation.label(None if name is None else self._permitted(name))
        master = key
        if key is not None and label is not None:
            key = key.derive(label)
        seed = secrets.randbits(62) if request.seed is None else request.seed % (1 << 63)
        return GenerationPlan(
            prompts=prompts,
            choices=request.n or 1,
            config=self._generation_config(request, sampling, key),
            seed=seed,
            key=key,
            master=master,
            reason=reason,
            cause=cause,
            note=_NO_TOOLS if offers_tools(request) and not self._upstream else "",
            deliver_on_failure=policy.on_failure == "deliver",
            allow_unmarkable=policy.unmarkable == "pass",
            stream=bool(request.stream),
        )

    def without_continuation(self, plan: GenerationPlan) -> GenerationPlan:
        """The plan if the upstream cannot continue answers: it is passed on unmarked.

        Raises:
            APIError: the policy refuses that.
        """
        policy = self._config.policy
        passes = policy.restarting_upstream == "pass" or (
            policy.restarting_upstream is None and policy.on_failure == "deliver"
        )
        if not passes:
            raise APIError.cannot_continue()
        return replace(plan, prompts=(), key=None, reason=_RESTARTING, cause="restarting")

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
        policy = self._config.switch_off
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

    def _permitted(self, label: str) -> str:
        """A label, normalised; detection finds its key only if the policy names it.

        Raises:
            APIError: the policy does not name it.
            InputError: it is no label.
        """
        label = as_label(label)
        if label not in self._config.policy.labels:
            raise APIError(
                403,
                "The policy of this service does not name this label. Its operator can add it to "
                "policy.labels.",
                kind="permission_error",
                param="watermark.label",
                code="label_not_allowed",
            )
        return label

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
        has_tools = self._upstream is not None
        fields = () if draws_locally else passed_fields(request, has_tools=has_tools)
        check_fields(fields)
        if self._upstream is None:
            return sampling_of(request, fields=fields)
        if not draws_locally:
            fields += (("model", json.dumps(self.upstream_model(request))),)
        return sampling_of(request, SERVER_SAMPLING, fields=fields)

    def _generation_config(
        self, request: GenerationRequest, sampling: Sampling, key: WatermarkKey | None
    ) -> GenerationConfig:
        has_marked_tokens = key is not None and isinstance(key.config, TokenConfig)
        config = generation_config(
            request,
            sampling,
            # In one go it costs less, but a text drawn in parts can be streamed and makes room.
            in_parts=bool(request.stream) or not has_marked_tokens,
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
