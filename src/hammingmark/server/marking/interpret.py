"""What a request means for the writing: its prompts, its limits, and whether it can be marked."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hammingmark.generation.config import TEXT_SAMPLING, GenerationConfig
from hammingmark.prompts import ROLES, as_prompt
from hammingmark.records import Prompt, Sampling
from hammingmark.server.api_error import APIError
from hammingmark.server.marking.schema import (
    ChatCompletionRequest,
    CompletionRequest,
    GenerationRequest,
)

_INERT = frozenset({"tool_choice", "parallel_tool_calls", "response_format", "top_logprobs"})
"""Fields that mean nothing once `unmarkable_reason` has found nothing."""

_GRAMMARS = (
    "grammar", "json_schema", "structured_outputs", "guided_json", "guided_regex",
    "guided_choice", "guided_grammar", "guided_decoding", "regex", "ebnf", "structural_tag",
)  # fmt: skip
"""What vLLM, SGLang and llama.cpp call a form that a whole answer must have."""

_SWITCHES = ("tools", "functions", "logprobs", "echo", "suffix", "best_of", "audio", "modalities")

_PENALTIES = {
    "presence_penalty": 0, "frequency_penalty": 0, "repeat_penalty": 1, "logit_bias": {},
}  # fmt: skip
"""What else changes how tokens are drawn, and by which value it does not."""


def parse_prompts(asked: GenerationRequest) -> list[Prompt]:
    """The prompts: a chat, a text, or several texts.

    Raises:
        InputError: a message or a text is none.
    """
    if isinstance(asked, ChatCompletionRequest):
        return [as_prompt(asked.messages, where="messages")]
    assert isinstance(asked, CompletionRequest)
    given = [asked.prompt] if isinstance(asked.prompt, str) else asked.prompt
    return [as_prompt(each, where="prompt") for each in given]


def count_answers(asked: GenerationRequest) -> int:
    """How many answers a request asks for, those included of which the upstream sends the best."""
    best_of = (asked.model_extra or {}).get("best_of")
    of_each = max(asked.n or 1, best_of if isinstance(best_of, int) else 1)
    return of_each * _count_prompts(asked)


def _count_prompts(asked: GenerationRequest) -> int:
    """How many prompts there are."""
    if not isinstance(asked, CompletionRequest) or isinstance(asked.prompt, str):
        return 1
    return 1 if isinstance(asked.prompt[0], int) else len(asked.prompt)


def unmarkable_reason(asked: GenerationRequest) -> str | None:
    """Why an answer to this cannot carry a mark, as a sentence; None if it can."""
    if asked.temperature is not None and Sampling(temperature=asked.temperature).is_greedy:
        return "At temperature 0 there is only one candidate, and nothing to choose."
    if _sampling_of(asked, TEXT_SAMPLING).is_greedy:
        return "If only one token may be drawn, there is only one candidate, and nothing to choose."
    return unsupported_reason(asked)


def unsupported_reason(asked: GenerationRequest) -> str | None:
    """Why this asks for something else than text after text, as a sentence; None if it does not."""
    extra = asked.model_extra or {}
    if extra.get("functions") or (extra.get("tools") and extra.get("tool_choice") != "none"):
        return "Answers that may call tools are not marked."
    form = extra.get("response_format")
    if isinstance(form, Mapping) and form.get("type") not in (None, "text"):
        return "Answers in JSON are not marked."
    logprobs = extra.get("logprobs")
    if logprobs is not None and logprobs is not False:  # 0 asks for those of the text itself
        return "Log-probabilities are of a text that is drawn in one go, which is not marked."
    for name in _GRAMMARS:
        if extra.get(name):
            return "Answers that follow a grammar are not marked."
    for name in ("echo", "suffix", "audio"):
        if extra.get(name):
            return f"Answers with {name!r} are not marked."
    best_of = extra.get("best_of")
    if isinstance(best_of, int) and best_of > (asked.n or 1):
        return "Answers chosen by 'best_of' are not marked."
    modalities = extra.get("modalities")
    if modalities and modalities != ["text"]:
        return "Only text is marked."
    return _why_foreign(asked)


def _why_foreign(asked: GenerationRequest) -> str | None:
    """Why a prompt is none that the marking can read."""
    if isinstance(asked, CompletionRequest):
        texts = [asked.prompt] if isinstance(asked.prompt, str) else asked.prompt
        return None if all(isinstance(each, str) for each in texts) else "The prompt is in tokens."
    assert isinstance(asked, ChatCompletionRequest)
    for message in asked.messages:
        role = message.get("role")
        if isinstance(role, str) and role in ("tool", "function"):
            return "Answers to what tools returned are not marked."
        if message.get("tool_calls") or message.get("function_call"):
            return "Chats with calls of tools are not marked."
        content = message.get("content")
        if isinstance(content, list):
            kinds = [part.get("type") for part in content if isinstance(part, Mapping)]
            # What is no word at all is refused as a prompt.
            foreign = any(isinstance(kind, str) and kind != "text" for kind in kinds)
            if isinstance(role, str) and role in ROLES and foreign:
                return "Answers to pictures, sounds and files are not marked."
    return None


def config_of(
    asked: GenerationRequest,
    *,
    max_tokens: int,
    limit: int,
    budget: int | None,
    sampling: Sampling | None,
) -> GenerationConfig:
    """How the answers are written.

    Args:
        asked: the request.
        max_tokens: of an answer, where the request does not say.
        limit: the most that it may say.
        budget: candidates for a sentence at most.
        sampling: how tokens are drawn where the request does not say; None for what suits a text
            or a chat.

    Raises:
        APIError: the request asks for too much.
    """
    tokens = asked.tokens or max_tokens
    # The one that does not count here may count where the request passes through.
    for name in ("max_tokens", "max_completion_tokens"):
        if (given := getattr(asked, name) or 0) > limit:
            raise APIError(
                400,
                f"This service writes {limit} tokens at most, and {given} are asked for.",
                param=name,
            )
    # Such a text is another than one drawn in one go, which costs less.
    config = GenerationConfig(
        max_tokens=tokens, budget=budget, stop=asked.stops, in_parts=bool(asked.stream)
    )
    if sampling is not None:
        config = config.with_sampling(sampling)
    return replace(
        config,
        text_sampling=_sampling_of(asked, config.text_sampling),
        chat_sampling=_sampling_of(asked, config.chat_sampling),
    )


def drawn_plainly(config: GenerationConfig) -> GenerationConfig:
    """The same for a model that draws by temperature, top-k, top-p and min-p alone.

    Raises:
        APIError: the request asks for something else that changes what is drawn.
    """
    for name, value in config.text_sampling.further:
        if name in _PENALTIES and json.loads(value) not in (None, _PENALTIES[name]):
            raise APIError(
                400, f"The model of this service has no {name}; leave it out.", param=name
            )
    return replace(
        config,
        text_sampling=replace(config.text_sampling, further=()),
        chat_sampling=replace(config.chat_sampling, further=()),
    )


def _sampling_of(asked: GenerationRequest, default: Sampling) -> Sampling:
    given: dict[str, Any] = {
        name: value
        for name in ("temperature", "top_p", "min_p")
        if (value := getattr(asked, name)) is not None
    }
    if asked.top_k is not None:
        given["top_k"] = max(0, asked.top_k)
    return replace(default, **given, further=_further(asked))


def _further(asked: GenerationRequest) -> tuple[tuple[str, str], ...]:
    """The fields that are none of ours, for whoever writes."""
    extra = asked.model_extra or {}
    kept = {name: extra[name] for name in sorted(extra) if name not in _INERT}
    # One of these that is still there asks for nothing.
    kept = {name: value for name, value in kept.items() if name not in (*_SWITCHES, *_GRAMMARS)}
    return tuple((name, json.dumps(value)) for name, value in kept.items())
