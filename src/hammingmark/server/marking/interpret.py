"""What a request asks for: prompts, limits, sampling, and whether its answers can be marked."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from hammingmark.generation.config import CHAT_SAMPLING, TEXT_SAMPLING, GenerationConfig
from hammingmark.prompts import ROLES, TOOL_ROLES, as_prompt, is_about_tools
from hammingmark.records import Prompt, Sampling
from hammingmark.server.api_error import APIError
from hammingmark.server.marking.schema import (
    ChatCompletionRequest,
    CompletionRequest,
    GenerationRequest,
)

_INERT = frozenset({"response_format", "top_logprobs"})
"""Fields without effect on a request for which `unsupported_reason` gives None."""

_TOOLS = ("tools", "functions")
_TOOL_FIELDS = frozenset({*_TOOLS, "tool_choice", "function_call", "parallel_tool_calls"})
"""Fields that offer tools; servers refuse the others without the first or the second."""

_GRAMMARS = (
    "grammar", "json_schema", "structured_outputs", "guided_json", "guided_regex",
    "guided_choice", "guided_grammar", "guided_decoding", "regex", "ebnf", "structural_tag",
)  # fmt: skip
"""Fields of vLLM, SGLang and llama.cpp that constrain the whole answer."""

_SWITCHES = ("logprobs", "echo", "suffix", "best_of", "audio", "modalities")

_PENALTIES = {
    "presence_penalty": 0, "frequency_penalty": 0, "repeat_penalty": 1, "logit_bias": {},
}  # fmt: skip
"""Other fields that change sampling, and the value of each that has no effect."""

_MAX_BIASES = 300  # as hosted models accept
_MAX_BIAS = 100
_MAX_FIELDS = 1 << 16  # characters of JSON that are sent with every candidate
_MAX_TOOLS = 1 << 18  # the same of tools, of which agents offer many


def parse_prompts(request: GenerationRequest) -> list[Prompt]:
    """The prompts: a chat, a text, or several texts.

    Raises:
        InputError: a message or a text is invalid.
    """
    if isinstance(request, ChatCompletionRequest):
        return [as_prompt(request.messages, where="messages")]
    assert isinstance(request, CompletionRequest)
    prompts = [request.prompt] if isinstance(request.prompt, str) else request.prompt
    return [as_prompt(prompt, where="prompt") for prompt in prompts]


def count_answers(request: GenerationRequest) -> int:
    """The number of answers to generate, including those from which `best_of` selects."""
    best_of = (request.model_extra or {}).get("best_of")
    per_prompt = max(request.n or 1, best_of if isinstance(best_of, int) else 1)
    return per_prompt * _count_prompts(request)


def _count_prompts(request: GenerationRequest) -> int:
    if not isinstance(request, CompletionRequest) or isinstance(request.prompt, str):
        return 1
    return 1 if isinstance(request.prompt[0], int) else len(request.prompt)


def unmarkable_reason(request: GenerationRequest, sampling: Sampling) -> str | None:
    """Why the answers to a request cannot be marked, as a sentence; None if they can.

    Args:
        request: the request.
        sampling: how its tokens are drawn.
    """
    if sampling.is_greedy:
        if replace(sampling, top_k=0, top_p=1.0, min_p=0.0).is_greedy:
            return "At temperature 0 there is only one candidate, so nothing can be marked."
        return (
            "If only one token can be drawn, there is only one candidate, so nothing can be marked."
        )
    return unsupported_reason(request)


def unsupported_reason(request: GenerationRequest) -> str | None:
    """Why a request asks for more than plain text, as a sentence; None if it does not."""
    fields = request.model_extra or {}
    if offers_tools(request):
        choices = (fields.get("tool_choice"), fields.get("function_call"))
        if any(choice not in (None, "auto", "none") for choice in choices):
            return "Answers that must call a tool are not marked."
    response_format = fields.get("response_format")
    if isinstance(response_format, Mapping) and response_format.get("type") not in (None, "text"):
        return "Answers in JSON are not marked."
    logprobs = fields.get("logprobs")
    if logprobs is not None and logprobs is not False:  # 0 requests those of the sampled tokens
        return "Answers with log-probabilities are drawn in one go and are not marked."
    for name in _GRAMMARS:
        if fields.get(name):
            return "Answers that follow a grammar are not marked."
    for name in ("echo", "suffix", "audio"):
        if fields.get(name):
            return f"Answers with {name!r} are not marked."
    best_of = fields.get("best_of")
    if isinstance(best_of, int) and best_of > (request.n or 1):
        return "Answers chosen by 'best_of' are not marked."
    modalities = fields.get("modalities")
    if modalities and modalities != ["text"]:
        return "Only text is marked."
    return _unsupported_prompt_reason(request)


def offers_tools(request: GenerationRequest) -> bool:
    """Whether a request offers tools to the model."""
    return any((request.model_extra or {}).get(name) for name in _TOOLS)


def _unsupported_prompt_reason(request: GenerationRequest) -> str | None:
    """Why the answers to a prompt cannot be marked."""
    if isinstance(request, CompletionRequest):
        prompts = [request.prompt] if isinstance(request.prompt, str) else request.prompt
        if all(isinstance(prompt, str) for prompt in prompts):
            return None
        return "Prompts given as tokens are not marked."
    assert isinstance(request, ChatCompletionRequest)
    for message in request.messages:
        role = message.get("role")
        content = message.get("content")
        if isinstance(content, list):
            types = [part.get("type") for part in content if isinstance(part, Mapping)]
            # A type that is not a string makes the prompt invalid; `parse_prompts` refuses it.
            has_media = any(isinstance(name, str) and name != "text" for name in types)
            if isinstance(role, str) and role in (*ROLES, *TOOL_ROLES) and has_media:
                return "Answers to images, audio and files are not marked."
    last = request.messages[-1]
    if is_about_tools(last) and last.get("role") == "assistant":
        return "Chats that end with a call of a tool are not marked."
    return None


def generation_config(
    request: GenerationRequest,
    sampling: Sampling,
    *,
    max_tokens: int,
    limit: int,
    budget: int | None,
    in_parts: bool,
) -> GenerationConfig:
    """The generation settings of a request.

    Args:
        request: the request.
        sampling: how its tokens are drawn.
        max_tokens: the maximum of tokens per answer if the request has none.
        limit: the largest maximum that a request may have.
        budget: the maximum of candidates per sentence.
        in_parts: whether text without candidates is drawn about a sentence at a time.

    Raises:
        APIError: the request asks for too many tokens.
    """
    # Both are checked: the one that is ignored here may count in a pass-through request.
    for name in ("max_tokens", "max_completion_tokens"):
        if (tokens := getattr(request, name) or 0) > limit:
            raise APIError(
                400,
                f"This service writes at most {limit} tokens; the request asks for {tokens}.",
                param=name,
            )
    return GenerationConfig(
        max_tokens=request.token_limit or max_tokens,
        budget=budget,
        stop=request.stop_strings,
        call_tokens=request.token_limit,
        in_parts=in_parts,
        text_sampling=sampling,
        chat_sampling=sampling,
    )


def sampling_of(
    request: GenerationRequest,
    default: Sampling | None = None,
    *,
    fields: tuple[tuple[str, str], ...] = (),
) -> Sampling:
    """How the tokens of a request are drawn.

    Args:
        request: the request.
        default: the values that it does not set; None for those of its kind, text or chat.
        fields: further fields for the language model, names and JSON.
    """
    if default is None:
        default = CHAT_SAMPLING if isinstance(request, ChatCompletionRequest) else TEXT_SAMPLING
    values: dict[str, Any] = {
        name: value
        for name in ("temperature", "top_p", "min_p")
        if (value := getattr(request, name)) is not None
    }
    if request.top_k is not None:
        values["top_k"] = max(0, request.top_k)
    unset = tuple(name for name in default.server_defaults if name not in values)
    return replace(default, **values, further=fields, server_defaults=unset)


def passed_fields(
    request: GenerationRequest, *, has_tools: bool = False
) -> tuple[tuple[str, str], ...]:
    """The fields that are passed on to the language model, names and JSON.

    Args:
        request: the request.
        has_tools: whether the language model may call tools.
    """
    fields = request.model_extra or {}
    # Switches and grammars that `unsupported_reason` accepts have no effect.
    ignored = {*_INERT, *_SWITCHES, *_GRAMMARS}
    if not (has_tools and offers_tools(request)):
        ignored |= _TOOL_FIELDS
    return tuple((name, json.dumps(fields[name])) for name in sorted(fields.keys() - ignored))


def check_fields(fields: Sequence[tuple[str, str]]) -> None:
    """Refuse fields that would be too much work for every candidate.

    Args:
        fields: as of `passed_fields`.

    Raises:
        APIError: a field is invalid, or they are too large together.
    """
    if any(name == "logit_bias" and not _is_bias(json.loads(value)) for name, value in fields):
        message = (
            f"logit_bias must have at most {_MAX_BIASES} entries, from tokens to numbers between "
            f"-{_MAX_BIAS} and {_MAX_BIAS}."
        )
        raise APIError(400, message, param="logit_bias")
    tools = [field for field in fields if field[0] in _TOOLS]
    others = [field for field in fields if field[0] not in _TOOLS]
    for group, most in ((tools, _MAX_TOOLS), (others, _MAX_FIELDS)):
        if sum(len(value) for _, value in group) > most:
            raise APIError(
                400,
                "The fields that are passed on to the model are too large: together they may have "
                f"at most {most:,} characters.",
                param=max(group, key=lambda field: len(field[1]))[0],
            )


def _is_bias(value: Any) -> bool:
    # llama.cpp also takes pairs, and false for a token that must not be drawn.
    pairs = list(value.items()) if isinstance(value, dict) else value
    if pairs is None:
        return True
    return (
        isinstance(pairs, list)
        and len(pairs) <= _MAX_BIASES
        and all(isinstance(pair, list | tuple) and len(pair) == 2 for pair in pairs)
        and all(isinstance(bias, int | float) and abs(bias) <= _MAX_BIAS for _, bias in pairs)
    )


def check_penalties(request: GenerationRequest) -> None:
    """Refuse sampling that a model with temperature, top-k, top-p and min-p alone cannot do.

    Raises:
        APIError: the request sets a penalty or a bias.
    """
    for name, value in sorted((request.model_extra or {}).items()):
        if name in _PENALTIES and value not in (None, _PENALTIES[name]):
            raise APIError(
                400, f"The model of this service does not support {name}; omit it.", param=name
            )
