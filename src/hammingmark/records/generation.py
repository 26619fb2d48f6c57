"""A generated text, its steps and its cost."""

from __future__ import annotations

from dataclasses import dataclass

from hammingmark.errors import Failure
from hammingmark.records.model import Reasoning, ToolCalls


@dataclass(frozen=True, slots=True)
class GenerationStep:
    """One step of generation: a sentence, and the text before it that cannot carry a mark.

    Attributes:
        document: number of the prompt.
        text: exactly the text that was added, with the white space before it.
        sentence: the sentence, normalised; empty if the added text cannot carry a mark.
        accepted: whether it satisfies the rule; None if it was not subject to the rule.
        score: its score, such as the number of matching bits; None if it was not subject to the
            rule.
        candidates: number of candidates judged.
        tokens: tokens of the added text.
        drawn_tokens: tokens of all candidates drawn.
        lead: white space that the model wrote between the prompt and the text, which is not part
            of the text; only the first step has it.
        insisted: whether the rule refuses the sentence, and it was kept because the model insists
            on it.
    """

    document: int
    text: str
    sentence: str
    accepted: bool | None
    score: float | None
    candidates: int
    tokens: int
    drawn_tokens: int
    lead: str = ""
    insisted: bool = False

    @property
    def is_fallback(self) -> bool:
        """Whether the budget was spent before any candidate was accepted."""
        return self.accepted is False and not self.insisted


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of generating one text.

    Attributes:
        candidates: candidates judged.
        tokens: tokens of the text, of reasoning before it and of calls after it.
        drawn_tokens: tokens of all candidates judged, the same.
        fallbacks: sentences for which no candidate of the budget was accepted.
        constrained: sentences that were subject to the rule.
        tried: candidates that were judged by the rule.
        passed: candidates that satisfied it.
        repeats: candidates rejected as near-copies of the text so far.
        misfits: candidates rejected because the text would not split into the same sentences.
        insisted: sentences that the rule refuses and that were kept because the model insists on
            them.
        spare: candidates drawn ahead, in parallel with others, and never needed.
        spare_tokens: tokens of these, if the backend reports them.
        requests: requests to the model, also those that failed or were refused.
        read_tokens: tokens of their prompts, with the text written so far.
        cached_tokens: those of them that the model's server had in its cache, as far as it reports
            them.
        written_tokens: tokens that the model wrote, including all that was discarded.
        estimated_requests: requests whose tokens are counted from the text that arrived.
        seconds: wall time from the first request to the end of the run.
        encoder_seconds: the part of it that this text spent on embedding.
        model_seconds: the part of it that this text spent waiting for the language model.
        reasoning_tokens: of ``tokens``, those of the reasoning.
    """

    candidates: int = 0
    tokens: int = 0
    drawn_tokens: int = 0
    fallbacks: int = 0
    constrained: int = 0
    tried: int = 0
    passed: int = 0
    repeats: int = 0
    misfits: int = 0
    insisted: int = 0
    spare: int = 0
    spare_tokens: int = 0
    requests: int = 0
    read_tokens: int = 0
    cached_tokens: int = 0
    written_tokens: int = 0
    estimated_requests: int = 0
    seconds: float = 0.0
    encoder_seconds: float = 0.0
    model_seconds: float = 0.0
    reasoning_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Generation:
    """A finished text and how it was generated.

    Attributes:
        text: the text after the prompt.
        sentences: its sentences that can carry a mark.
        steps: the steps of generation: one for each sentence, or for each part of the text if the
            method does not judge sentences; a single one for unmarked text.
        cost: the cost of generation.
        stopped: ``end`` (the model ended), ``tokens``, ``sentences``, ``calls`` or ``error``.
        failure: the failure that ended generation, if any; the text is then what had been accepted
            so far.
        prompt_tokens: tokens of the prompt; None if the backend does not report it.
        calls: the calls of tools that follow the text; None if none do.
        reasoning: what the model thought before the text, which is not part of it; None if it did
            not.
    """

    text: str
    sentences: tuple[str, ...]
    steps: tuple[GenerationStep, ...]
    cost: Cost
    stopped: str
    failure: Failure | None = None
    prompt_tokens: int | None = None
    calls: ToolCalls | None = None
    reasoning: Reasoning | None = None

    @property
    def error(self) -> str | None:
        """The message of the failure; None if there was none."""
        return self.failure.message if self.failure else None

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        excerpt = self.text if len(self.text) <= 40 else f"{self.text[:39]}…"
        return (
            f"Generation({excerpt!r}, sentences={len(self.sentences)}, tokens={self.cost.tokens}, "
            f"stopped={self.stopped!r})"
        )
