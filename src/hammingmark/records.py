"""Data classes that pass between modules: frozen, typed, no behaviour beyond what can be derived.

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
    """One piece of a text: a sentence, or something that stands between sentences.

    Attributes:
        text: the normalised piece, without white space around it.
        gap: the white space that follows it: nothing, a space, a line break or a blank line.
        carries: whether the piece is prose that can carry the mark. Code, tables, headings and
            bare addresses do not; generation leaves them free and detection skips them.
    """

    text: str
    gap: str
    carries: bool


@dataclass(frozen=True, slots=True)
class Sentences:
    """A text split into units; putting the units together again gives the normalised text."""

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
    """Sentences, and what they may have been before they were joined or split.

    Attributes:
        texts: N texts, of which the first n are the sentences as they stand.
        begins: joint at which each begins. Sentence i lies between the joints i and i + 1; joints
            above n lie within a sentence.
        ends: joint at which each ends.
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
        role: who speaks: ``system``, ``user`` or ``assistant``.
        content: what is said.
    """

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class Prompt:
    """What a language model is asked to continue: a text, or a chat.

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
        top_p: only the likeliest tokens of this total probability.
        min_p: only tokens at least this fraction as likely as the likeliest; 0 for all.
        further: what else a backend is told that knows more than these, such as penalties: names
            and values, these as JSON.

    Raises:
        InputError: a value is out of its range.
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
    """One candidate to be drawn.

    Attributes:
        number: by which the caller knows it again.
        prompt: what was asked.
        written: what has been written since; the candidate continues it.
        seed: decides the draw.
        max_tokens: at most so many tokens.
        stop_condition: told the candidate's text so far, says whether it need not go on.
        sampling: how its tokens are drawn.
        logits: what is done to the logits of each step, where the backend can
            (`protocols.BackendCapabilities`).
        condition: what that is told about this text, (s,), if it wants to know anything.
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
    """What a processor of logits is told of a step: B texts, each about to get a token.

    Attributes:
        tokens: which tokens the logits are of, (1, k) where they are the same for all texts,
            otherwise (B, k).
        contexts: the tokens before the next one, oldest first, (B, width); -1 where a text has
            not begun. The prompt's tokens are among them.
        conditions: what each request says, (B, s); zeros where it says nothing.
    """

    tokens: torch.Tensor
    contexts: torch.Tensor
    conditions: torch.Tensor


@dataclass(frozen=True, slots=True)
class Candidate:
    """One continuation a language model proposed.

    Attributes:
        number: the request's.
        pieces: what it wrote, token by token as far as the model tells; empty for one whose text
            comes with the next.
        finished: whether the model ended its text here.
        truncated: whether it reached its limit of tokens.
        failure: why the model could not go on; None if it could have.
        read_tokens: tokens that the model read before: of the prompt, and of what was written
            since; None where it does not tell.
    """

    number: int
    pieces: tuple[str, ...]
    finished: bool
    truncated: bool = False
    failure: Failure | None = None
    read_tokens: int | None = field(default=None, compare=False)

    @property
    def text(self) -> str:
        """What it wrote."""
        return "".join(self.pieces)

    def require_text(self) -> None:
        """Refuse a candidate that the model could not begin.

        Raises:
            BackendError: saying why.
        """
        if self.failure and not self.pieces:
            raise self.failure.error()


@dataclass(frozen=True, slots=True)
class Choice:
    """What a watermark says of candidates that were judged in drawing order.

    Attributes:
        index: the candidate to keep: the first accepted one, otherwise the best.
        accepted: whether it satisfies the rule.
        scores: how far each candidate satisfies it, in drawing order; more is better.
    """

    index: int
    accepted: bool
    scores: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class UnitScore:
    """What one unit of a text says under the secret key.

    Attributes:
        score: what the method's rule looks at.
        valid: whether it satisfies the rule.
        details: further figures of the method, by name; bits are a string of 0 and 1.
        counted: whether it counts; one that came before, in the same context, may not.
    """

    score: float
    valid: bool
    details: Mapping[str, float | str] = field(default_factory=dict)
    counted: bool = True


@dataclass(frozen=True, slots=True)
class Evidence:
    """What one text says under the secret key.

    Attributes:
        unit: what is scored, such as ``transition`` or ``token``.
        scores: one for each unit. There may be fewer than the text has pieces, because the first
            pieces have nothing before them: n - 1 transitions for n sentences.
        max_score: the largest score; None where scores are standard normal deviates.
        threshold: the score from which a unit is valid.
        means: statistics that are averaged over the units, by name; empty without any unit.
        sums: statistics that are summed over them, log-likelihood ratios.
        context_units: how many pieces before its own a unit rests on; by default as many as the
            first pieces that have no score.
        z: how many standard deviations statistics lie above what the method's paper expects of
            unmarked text, by name, for comparison with it; no p-value comes from them.
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
        """How many of the units that count satisfy the rule."""
        return sum(each.valid and each.counted for each in self.scores)

    @property
    def repeated(self) -> int:
        """How many units are repeated and not counted."""
        return sum(not each.counted for each in self.scores)

    def counting(self, counted: Sequence[bool]) -> Evidence:
        """The same by a statistic for which other units count."""
        return replace(
            self,
            scores=tuple(
                replace(each, counted=bool(counts))
                for each, counts in zip(self.scores, counted, strict=True)
            ),
        )

    @property
    def statistics(self) -> dict[str, float]:
        """Every statistic by its name."""
        return {**self.means, **self.sums}


@dataclass(frozen=True, slots=True)
class Passage:
    """A run of pieces of a text, its sentences or tokens, that carries the mark.

    Attributes:
        begin: index of its first piece.
        end: index after its last piece.
        p_value: probability that any window of an unmarked text of this kind scores as high.
        key_id: the key under which it carries the mark.
        label: by which that key was derived, if it was.
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
        watermarked: True if the p-value is at most the level (or a threshold asked for is
            exceeded), False if not, None if this text is too short to tell.
        p_value: exact p-value, corrected for the number of keys searched; None if the text has no
            unit at all.
        reason: the verdict in words.
        level: the false-positive rate the verdict keeps.
        statistic: name of the statistic that decided.
        evidence: what the text says under the key, as it stands.
        pieces: what was judged: the sentences, or the tokens.
        key_id: the key; of several, the one with the smallest p-value, or, where the whole text is
            not watermarked but a passage is, that of the passage; None if there was nothing to
            compare.
        label: the label by which that key was derived, if it was.
        method: the method of that key.
        keys: how many keys were searched.
        null: how the null distribution is known, in words.
        references: how many draws of it, such as reference keys, were looked at.
        attainable: the smallest p-value that a marked text like this one can have, or nearly.
        power: how often a marked text like this one would be found, an estimate; None where there
            is none.
        tail_estimate: an estimate of p-values too small for the reference keys to show; no test.
        passages: runs of pieces that carry the mark at the level, best first.
        threshold: the threshold that decided, if one was asked for instead of the p-value.
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
    """One step of writing: a sentence, with whatever stood before it that cannot carry a mark.

    Attributes:
        document: number of the prompt it answers.
        text: exactly what was added, white space before it included.
        sentence: the sentence, normalised; empty if only unmarkable text was added.
        accepted: whether it satisfies the rule; None if nothing was asked of it.
        score: how far it satisfies the rule, such as the number of matching bits; None if
            nothing was asked of it.
        candidates: how many candidates were judged for it.
        tokens: tokens of the text that was added.
        drawn_tokens: tokens of all candidates that were drawn for it.
        lead: white space that the model put between the prompt and the text, which is not part of
            it; the first step tells.
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
    """What one text cost.

    Attributes:
        candidates: candidates judged.
        tokens: tokens emitted.
        drawn_tokens: tokens drawn, in all candidates.
        fallbacks: sentences for which no candidate of the budget was accepted.
        constrained: sentences that were subject to the rule.
        tried: candidates that were judged by the rule.
        passed: those that satisfied it.
        repeats: candidates rejected as near-copies of the text so far.
        misfits: candidates rejected because the text would not split into the same sentences.
        spare: candidates drawn ahead, side by side with others, and never needed.
        spare_tokens: tokens drawn in these, as far as the backend tells.
        seconds: wall time from the first request to the end of the run.
        encoder_seconds: of these, its share of embedding.
        model_seconds: of these, its share of waiting for the language model.
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
        text: what was written after the prompt.
        sentences: those of its sentences that can carry a mark.
        steps: one for each sentence, or for each part where that is how a method writes; a single
            one for unmarked text.
        cost: what it took.
        stopped: ``end`` (the model ended), ``tokens``, ``sentences`` or ``error``.
        failure: what went wrong, if something did; the text is what had been accepted by then.
        prompt_tokens: tokens of the prompt; None where the model does not tell.
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
        """What went wrong, as sentences; None if nothing did."""
        return self.failure.message if self.failure else None

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        shown = self.text if len(self.text) <= 40 else f"{self.text[:39]}…"
        return (
            f"Generation({shown!r}, sentences={len(self.sentences)}, tokens={self.cost.tokens}, "
            f"stopped={self.stopped!r})"
        )


@dataclass(frozen=True, slots=True)
class Attacked:
    """One text after an attack, and how far it is still the same.

    Attributes:
        text: what it became.
        words_changed: words inserted, deleted or replaced, over those of the longer text.
        sentences_touched: share of the original sentences that are not there word for word.
        similarity: mean over the original sentences of the cosine to what became of them; None
            if nobody judged it or there was none to compare.
        min_similarity: least similarity at which the attack's outcome counts as the same text.
        kept: whether the similarity is at least that; None if nobody judged it.
    """

    text: str
    words_changed: float
    sentences_touched: float
    similarity: float | None = None
    min_similarity: float = 0.0
    kept: bool | None = None
