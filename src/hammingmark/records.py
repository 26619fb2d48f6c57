"""Frozen data classes that modules exchange; their properties are derived from the fields.

The letters are fixed here: n sentences, d dimensions, m bits, T bits required, K reference keys.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, get_args

from hammingmark import report
from hammingmark.errors import Failure, InputError

if TYPE_CHECKING:
    import numpy as np
    import torch
    from numpy.typing import NDArray

    from hammingmark.protocols import LogitsProcessor

TopicName = Literal["given", "free"]
TOPICS: tuple[TopicName, ...] = get_args(TopicName)


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit of a text: a sentence, or text that carries no mark.

    Attributes:
        text: the normalised text of the unit, without white space around it.
        gap: the white space that follows it: nothing, a space, a line break or a blank line.
        carries: whether the unit is prose that can carry the mark. Code, tables, headings and
            bare addresses cannot; generation does not constrain them and detection skips them.
    """

    text: str
    gap: str
    carries: bool


@dataclass(frozen=True, slots=True)
class Sentences:
    """A text split into units; joining the units gives the normalised text."""

    units: tuple[Unit, ...] = field(repr=False)

    def __repr__(self) -> str:
        return f"Sentences({len(self.units)} units, {len(self.carrying)} sentences)"

    @property
    def carrying(self) -> list[str]:
        """The n sentences that can carry the mark, in order."""
        return [unit.text for unit in self.units if unit.carries]

    @property
    def text(self) -> str:
        """The normalised text."""
        return "".join(unit.text + unit.gap for unit in self.units)


@dataclass(frozen=True, slots=True)
class EditHypotheses:
    """Sentences and their edit hypotheses: what they may have been before an edit of the text.

    Attributes:
        texts: N texts, of which the first n are the sentences of the text.
        begins: number of the boundary at which each begins. Sentence i lies between the boundaries
            i and i + 1; boundaries above n lie within a sentence.
        ends: number of the boundary at which each ends.
        sentences: n.
    """

    texts: tuple[str, ...] = field(repr=False)
    begins: tuple[int, ...] = field(repr=False)
    ends: tuple[int, ...] = field(repr=False)
    sentences: int


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a chat.

    Attributes:
        role: the speaker: ``system``, ``user`` or ``assistant``.
        content: the text of the message.
    """

    role: str
    content: str


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

    Raises:
        InputError: a value is out of range.
    """

    temperature: float = 1.0
    top_k: int = 50
    top_p: float = 1.0
    min_p: float = 0.0
    further: tuple[tuple[str, str], ...] = ()

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
    def is_greedy(self) -> bool:
        """Whether only the likeliest token can be drawn."""
        # Of fewer than a million tokens the likeliest has a larger probability than this.
        alone = self.top_k == 1 or self.top_p <= 1e-6 or self.min_p == 1.0
        # Servers draw the likeliest token at temperatures like this, too.
        return self.temperature <= 1e-4 or alone


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
    """

    number: int
    pieces: tuple[str, ...]
    finished: bool
    truncated: bool = False
    failure: Failure | None = None
    read_tokens: int | None = field(default=None, compare=False)

    @property
    def text(self) -> str:
        """The text of the candidate."""
        return "".join(self.pieces)

    def require_text(self) -> None:
        """Refuse a candidate that failed without any text.

        Raises:
            BackendError: with the failure of the candidate.
        """
        if self.failure and not self.pieces:
            raise self.failure.error()


@dataclass(frozen=True, slots=True)
class Choice:
    """A watermark's choice among candidates, which it judges in the order of drawing.

    Attributes:
        index: the candidate to keep: the first accepted one, otherwise the best.
        accepted: whether it satisfies the rule.
        scores: the score of each candidate, in the order of drawing; more is better.
    """

    index: int
    accepted: bool
    scores: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class UnitScore:
    """The score of one unit under the secret key.

    Attributes:
        score: the number that the method's rule compares with its threshold.
        valid: whether the unit satisfies the rule.
        details: further numbers of the method, by name; bits are a string of 0 and 1.
        counted: whether the unit counts; one that is repeated in the same context may not.
    """

    score: float
    valid: bool
    details: Mapping[str, float | str] = field(default_factory=dict)
    counted: bool = True


@dataclass(frozen=True, slots=True)
class Evidence:
    """The evidence of one text under the secret key.

    Attributes:
        unit: what is scored, such as ``transition`` or ``token``.
        scores: the score of each unit. There may be fewer units than pieces, because the first
            pieces have nothing before them: n sentences have n - 1 transitions.
        max_score: the largest possible score; None if scores are standard normal deviates.
        threshold: the score from which a unit is valid.
        means: statistics that are averaged over the units, by name; empty without any unit.
        sums: statistics that are summed over the units, log-likelihood ratios.
        context_units: the number of preceding pieces that the score of a unit depends on; by
            default the number of first pieces without a score.
        z: statistics in standard deviations above the mean that the method's paper states for
            unmarked text, by name. They are for comparison with the paper; no p-value uses them.
    """

    unit: str
    scores: tuple[UnitScore, ...] = field(repr=False)
    max_score: float | None
    threshold: float
    means: Mapping[str, float] = field(default_factory=dict)
    sums: Mapping[str, float] = field(default_factory=dict)
    context_units: int | None = None
    z: Mapping[str, float] = field(default_factory=dict)

    @property
    def valid(self) -> int:
        """The number of counted units that satisfy the rule."""
        return sum(score.valid and score.counted for score in self.scores)

    @property
    def repeated(self) -> int:
        """The number of units that are repeated and not counted."""
        return sum(not score.counted for score in self.scores)

    def counting(self, counted: Sequence[bool]) -> Evidence:
        """The same evidence for a statistic that counts these units."""
        return replace(
            self,
            scores=tuple(
                replace(score, counted=bool(counts))
                for score, counts in zip(self.scores, counted, strict=True)
            ),
        )

    @property
    def statistics(self) -> dict[str, float]:
        """Every statistic by its name."""
        return {**self.means, **self.sums}


@dataclass(frozen=True, slots=True)
class Passage:
    """A passage: consecutive pieces of a text, sentences or tokens, that carry the mark.

    Attributes:
        begin: index of its first piece.
        end: index after its last piece.
        p_value: probability that any window of an unmarked text of this kind scores as high.
        key_id: id of the key under which it carries the mark.
        label: the label of that key, if it is a derived one.
    """

    begin: int
    end: int
    p_value: float
    key_id: str | None = None
    label: str | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """Result of the test on one text.

    Attributes:
        watermarked: True if the p-value is at most the level (or the statistic exceeds the
            threshold, if there is one), False if not, None if the text is too short to tell.
        p_value: exact p-value, corrected for the number of keys searched; None if the text has no
            unit.
        reason: the verdict as a sentence.
        level: the false-positive rate of the verdict.
        statistic: name of the statistic that decided.
        evidence: the evidence of the text under the key, without any edit hypothesis.
        pieces: the pieces of the text: its sentences, or its tokens.
        key_id: id of the key. Of several keys, it is the one with the smallest p-value, or that of
            the best passage if only a passage is watermarked; None if nothing could be compared.
        label: the label of that key, if it is a derived one.
        method: the method of that key.
        keys: the number of keys searched.
        null: a description of the null distribution.
        references: the number of draws of the null distribution, such as reference keys.
        attainable: the smallest p-value that a marked text like this one can have, or nearly.
        power: an estimate of the probability that a marked text like this one is detected; None if
            there is no estimate.
        tail_estimate: an estimate of a p-value too small for the reference keys to show; no test.
        passages: passages that carry the mark at the level, best first.
        threshold: the threshold that decided, if one was used instead of the p-value.
        edits: whether the p-value allows for sentences that were joined, split or inserted.
    """

    watermarked: bool | None
    p_value: float | None
    reason: str
    level: float
    statistic: str
    evidence: Evidence
    pieces: tuple[str, ...]
    key_id: str | None
    label: str | None = None
    method: str | None = None
    keys: int = 1
    null: str = ""
    references: int = 0
    attainable: float = 1.0
    power: float | None = None
    tail_estimate: float | None = None
    passages: tuple[Passage, ...] = field(default=())
    threshold: float | None = None
    edits: bool = False

    def __repr__(self) -> str:
        return (
            f"Verdict(watermarked={self.watermarked}, p_value={self.p_value}, "
            f"pieces={len(self.pieces)}, key_id={self.key_id!r})"
        )

    def _repr_html_(self) -> str:
        return report.as_html(self)

    def __str__(self) -> str:
        return report.as_text(self)


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


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of generating one text.

    Attributes:
        candidates: candidates judged.
        tokens: tokens of the text.
        drawn_tokens: tokens of all candidates.
        fallbacks: sentences for which no candidate of the budget was accepted.
        constrained: sentences that were subject to the rule.
        tried: candidates that were judged by the rule.
        passed: candidates that satisfied it.
        repeats: candidates rejected as near-copies of the text so far.
        misfits: candidates rejected because the text would not split into the same sentences.
        spare: candidates drawn ahead, in parallel with others, and never needed.
        spare_tokens: tokens of these, if the backend reports them.
        seconds: wall time from the first request to the end of the run.
        encoder_seconds: the part of it that this text spent on embedding.
        model_seconds: the part of it that this text spent waiting for the language model.
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
    spare: int = 0
    spare_tokens: int = 0
    seconds: float = 0.0
    encoder_seconds: float = 0.0
    model_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Generation:
    """A finished text and how it was generated.

    Attributes:
        text: the text after the prompt.
        sentences: its sentences that can carry a mark.
        steps: the steps of generation: one for each sentence, or for each part of the text if the
            method does not judge sentences; a single one for unmarked text.
        cost: the cost of generation.
        stopped: ``end`` (the model ended), ``tokens``, ``sentences`` or ``error``.
        failure: the failure that ended generation, if any; the text is then what had been accepted
            so far.
        prompt_tokens: tokens of the prompt; None if the backend does not report it.
    """

    text: str
    sentences: tuple[str, ...]
    steps: tuple[GenerationStep, ...]
    cost: Cost
    stopped: str
    failure: Failure | None = None
    prompt_tokens: int | None = None

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


@dataclass(frozen=True, slots=True)
class Attacked:
    """A text after an attack, and its similarity to the original.

    Attributes:
        text: the attacked text.
        words_changed: words inserted, deleted or replaced, as a share of those of the longer text.
        sentences_touched: share of the original sentences that are no longer there word for word.
        similarity: mean over the original sentences of the cosine to their attacked form; None if
            it was not measured or there was nothing to compare.
        min_similarity: least similarity at which the attacked text counts as the same text.
        kept: whether the similarity is at least that; None if it was not measured.
    """

    text: str
    words_changed: float
    sentences_touched: float
    similarity: float | None = None
    min_similarity: float = 0.0
    kept: bool | None = None
