"""What a language model is asked, and what it answers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hammingmark.errors import Failure, InputError

if TYPE_CHECKING:
    import numpy as np
    import torch
    from numpy.typing import NDArray

    from hammingmark.protocols import LogitsProcessor


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a chat.

    Attributes:
        role: the speaker: ``system``, ``user`` or ``assistant``; ``tool`` or ``function`` for the
            result of a call.
        content: the text of the message.
        further: other fields of a call or a result, which a model gets as they are: names and
            values, the values as JSON. A ``content`` among them stands for the text.
    """

    role: str
    content: str
    further: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Prompt:
    """The input of a language model: a text to continue, or a chat to answer.

    Attributes:
        text: the text to continue; empty for a chat.
        messages: the turns of a chat; empty for a text.
    """

    text: str = ""
    messages: tuple[Message, ...] = ()


@dataclass(frozen=True, slots=True)
class Sampling:
    """How a language model draws its next token.

    Attributes:
        temperature: 1 is the model's own distribution.
        top_k: only the k likeliest tokens; 0 for all.
        top_p: only the likeliest tokens with this total probability.
        min_p: only tokens at least this fraction as likely as the likeliest; 0 for all.
        further: parameters that only some backends have, such as penalties: names and values, the
            values as JSON.
        server_defaults: the names of parameters that nobody set. A model behind a server is drawn
            from with the server's own defaults for them; elsewhere the values here apply.

    Raises:
        InputError: a value is out of range.
    """

    temperature: float = 1.0
    top_k: int = 50
    top_p: float = 1.0
    min_p: float = 0.0
    further: tuple[tuple[str, str], ...] = ()
    server_defaults: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not (math.isfinite(self.temperature) and self.temperature >= 0.0):
            raise InputError(f"The temperature is {self.temperature}; give a number from 0 up.")
        if self.top_k < 0:
            raise InputError(f"top_k is {self.top_k}; give a number of tokens, or 0 for all.")
        if not 0.0 < self.top_p <= 1.0:
            raise InputError(f"top_p is {self.top_p}; give a probability above 0, at most 1.")
        if not 0.0 <= self.min_p <= 1.0:
            raise InputError(f"min_p is {self.min_p}; give a fraction from 0 to 1.")

    @property
    def offers_tools(self) -> bool:
        """Whether the model may call tools instead of writing text."""
        return any(name in ("tools", "functions") for name, _ in self.further)

    @property
    def is_greedy(self) -> bool:
        """Whether only the likeliest token can be drawn."""
        # Of fewer than a million tokens the likeliest has a larger probability than this.
        alone = self.top_k == 1 or self.top_p <= 1e-6 or self.min_p == 1.0
        # Servers draw the likeliest token at temperatures like this, too.
        return self.temperature <= 1e-4 or alone


@dataclass(frozen=True, slots=True)
class ModelUsage:
    """What a language model read and wrote, also for what was discarded; usages can be added.

    Attributes:
        requests: the number of requests sent, also those that failed or were refused.
        read_tokens: tokens of their prompts, with the text written so far.
        cached_tokens: those of them that the model's server had in its cache, as far as it reports
            them.
        written_tokens: tokens that the model wrote.
        estimated_requests: the number of requests whose tokens are counted from the text that
            arrived, because the server does not report them or its answer was cut off.
    """

    requests: int = 0
    read_tokens: int = 0
    cached_tokens: int = 0
    written_tokens: int = 0
    estimated_requests: int = 0

    def __add__(self, other: ModelUsage) -> ModelUsage:
        return ModelUsage(
            self.requests + other.requests,
            self.read_tokens + other.read_tokens,
            self.cached_tokens + other.cached_tokens,
            self.written_tokens + other.written_tokens,
            self.estimated_requests + other.estimated_requests,
        )

    def __sub__(self, other: ModelUsage) -> ModelUsage:
        return ModelUsage(
            self.requests - other.requests,
            self.read_tokens - other.read_tokens,
            self.cached_tokens - other.cached_tokens,
            self.written_tokens - other.written_tokens,
            self.estimated_requests - other.estimated_requests,
        )


def _charge_nobody(usage: ModelUsage) -> None:
    pass


@dataclass(frozen=True, slots=True)
class Reasoning:
    """What a model thinks before it answers a chat; it carries no mark.

    Attributes:
        text: the text; if it is inline, with the tags and the white space after them.
        field: the field of the message in which it came, ``reasoning_content`` or ``reasoning``;
            empty if it is inline, between ``<think>`` and ``</think>`` before the answer.
        tokens: the number of tokens.
    """

    text: str
    field: str = ""
    tokens: int = 0

    @property
    def is_inline(self) -> bool:
        """Whether it is the beginning of the answer's text."""
        return not self.field


@dataclass(frozen=True, slots=True)
class ReasoningPart:
    """A part of a model's reasoning, as soon as it arrives.

    Attributes:
        text: the part.
        field: see `Reasoning`.
        is_first: whether it is the first one; if one came before, that attempt was lost.
    """

    text: str
    field: str = ""
    is_first: bool = False


@dataclass(frozen=True, slots=True)
class Request:
    """A request for one candidate.

    Attributes:
        number: identifies the request to the caller.
        prompt: the prompt.
        written: the text written so far, which the candidate continues.
        seed: the seed of the draw.
        max_tokens: the largest number of tokens.
        stop_condition: whether drawing may stop, given the candidate's text so far.
        sampling: how its tokens are drawn.
        logits: the processor of the logits of each step, for backends that can apply one
            (`protocols.BackendCapabilities`).
        condition: the processor's condition for this text, (s,), if it has one.
        call_tokens: the largest number of tokens of a candidate that calls tools; None for the
            model's own limit. It counts only where the sampling offers tools.
        charge: called with what the model reads and writes for it, and with corrections, from any
            thread, by backends that count this (`protocols.BackendCapabilities`).
        reasoning: what the model thought before the text; None if it did not.
        reasoning_tokens: the largest number of tokens of a candidate that begins with reasoning;
            None if it does not begin an answer.
        on_reasoning: called with each part of its reasoning, in a thread of the backend.
    """

    number: int
    prompt: Prompt
    written: str
    seed: int
    max_tokens: int
    stop_condition: Callable[[str], bool]
    sampling: Sampling = Sampling()
    logits: LogitsProcessor | None = None
    condition: NDArray[np.float32] | None = field(default=None, compare=False)
    call_tokens: int | None = None
    charge: Callable[[ModelUsage], None] = field(default=_charge_nobody, compare=False, repr=False)
    reasoning: Reasoning | None = None
    reasoning_tokens: int | None = None
    on_reasoning: Callable[[ReasoningPart], None] | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class DecodingStep:
    """The input of a logits processor at one step, in which B texts get a token each.

    Attributes:
        tokens: the tokens that the logits belong to, (1, k) if they are the same for all texts,
            otherwise (B, k).
        contexts: the tokens before the next one, oldest first, (B, width); -1 before the beginning
            of a text. They include the tokens of the prompt.
        conditions: the condition of each request, (B, s); zeros for a request without one.
    """

    tokens: torch.Tensor
    contexts: torch.Tensor
    conditions: torch.Tensor


@dataclass(frozen=True, slots=True)
class ToolCalls:
    """The calls of tools with which a text ends.

    Attributes:
        fields: OpenAI's fields of the message, ``tool_calls`` or ``function_call``, as JSON.
        tokens: the number of tokens, as far as the server sends them one by one.
        reason: OpenAI's ``finish_reason``.
    """

    fields: str
    tokens: int
    reason: str


@dataclass(frozen=True, slots=True)
class Candidate:
    """A continuation that a language model proposed.

    Attributes:
        number: the number of its request.
        pieces: its text, token by token if the backend reports tokens; a token whose text comes
            with the next one is an empty string.
        finished: whether the model ended its text here.
        truncated: whether it reached the limit of tokens.
        failure: why the model could not go on; None if it could have.
        read_tokens: the number of tokens that the model read, those of the prompt and of the text
            written so far; None if the backend does not report it.
        calls: the calls of tools that follow the text; None if none do.
        reasoning: what the model thought before the text; None if it did not.
    """

    number: int
    pieces: tuple[str, ...]
    finished: bool
    truncated: bool = False
    failure: Failure | None = None
    read_tokens: int | None = field(default=None, compare=False)
    calls: ToolCalls | None = None
    reasoning: Reasoning | None = None

    @property
    def text(self) -> str:
        """The text of the candidate."""
        return "".join(self.pieces)

    @property
    def tokens(self) -> int:
        """The number of tokens of reasoning, text and calls."""
        further = [part.tokens for part in (self.reasoning, self.calls) if part]
        return len(self.pieces) + sum(further)

    def require_text(self) -> None:
        """Refuse a candidate that failed without any text.

        Raises:
            BackendError: with the failure of the candidate.
        """
        if self.failure and not self.pieces:
            raise self.failure.error()
