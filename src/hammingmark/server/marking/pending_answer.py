"""One answer while it is generated: its text, what may be sent of it, and its watermark status."""

from __future__ import annotations

from dataclasses import dataclass

from hammingmark.generation.engine import GenerationHandle
from hammingmark.keys.config import TokenConfig
from hammingmark.records import Cost, Generation, GenerationStep, Message, Prompt
from hammingmark.server.marking.marks import SHORT, Mark, mark_of
from hammingmark.server.marking.planning import GenerationPlan
from hammingmark.server.marking.responses import Choice


@dataclass(slots=True)
class PendingAnswer:
    """One answer while it is generated.

    Attributes:
        plan: the plan of its request.
        choice: the answer as the client sees it.
        prompt: what is continued; with the text so far, once the answer continues unmarked.
        ticket: cancels the generation; None if none runs.
        generation: the complete generation, or the part before a failure.
        abandoned: the cost of a generation that was cancelled, and of what it continued.
        held_text: text that is not sent yet, because the policy may refuse the answer.
        steps: the number of steps received.
        failure: why the answer, or the rest of it, is not marked.
        failed_late: whether any text was written before that failure.
        constrained: sentences that were subject to the rule.
        has_fallback: whether any was kept although the rule refuses it and the model does not
            insist on it.
        has_mark: whether any part of it is marked.
    """

    plan: GenerationPlan
    choice: Choice
    prompt: Prompt
    ticket: GenerationHandle | None = None
    generation: Generation | None = None
    abandoned: Cost | None = None
    held_text: str = ""
    steps: int = 0
    failure: str = ""
    failed_late: bool = False
    constrained: int = 0
    has_fallback: bool = False
    has_mark: bool = False

    @property
    def text(self) -> str:
        """The text so far, sent or not."""
        return self.choice.text + self.held_text

    @property
    def sent_text(self) -> str:
        """What the client has received of an answer that has not ended."""
        return self.choice.sent_text if self.plan.stream else ""

    @property
    def is_token_marked(self) -> bool:
        """Whether the method marks its tokens, and has not failed."""
        key = self.plan.key
        return key is not None and isinstance(key.config, TokenConfig) and not self.failure

    @property
    def may_be_refused(self) -> bool:
        """Whether the policy may still refuse the answer.

        If it must be marked, it may be refused until its first accepted sentence or marked token.
        Once it is neither short nor all that the model insists on, it is refused only if failures
        are.
        """
        if self.plan.key is None or self.has_mark or self.failure:
            return False
        may_be_unmarkable = self.constrained <= SHORT or not self.has_fallback
        if may_be_unmarkable and not self.plan.allow_unmarkable:
            return True
        return not self.plan.deliver_on_failure

    @property
    def is_unmarkable(self) -> bool:
        """Whether not even the first sentence could be marked, such as one that does not end."""
        generation = self.generation
        if generation is None or self.failure:
            return False
        failure = generation.failure
        is_about_text = failure is None or failure.is_about_text
        return is_about_text and not generation.steps and generation.cost.misfits > 0

    @property
    def marked_sentences(self) -> int:
        """The number of sentences that the client was sent under the key, once it has ended."""
        mark = self.choice.mark
        return 0 if mark is None or mark.key_id is None else mark.sentences or self.steps

    def add_step(self, step: GenerationStep) -> None:
        """Add a step of the generation."""
        if not (self.prompt.messages or self.steps):
            self.choice.lead = step.lead
        self.steps += 1
        self.constrained += step.accepted is not None
        self.held_text += step.text
        self.has_fallback |= step.accepted is False and not step.insisted
        self.has_mark |= step.accepted is True

    def release(self) -> str:
        """Release the held text; returns what is sent now."""
        sent = len(self.choice.sent_text)
        self.choice.text += self.held_text
        self.held_text = ""
        return self.choice.sent_text[sent:]

    def continue_unmarked(self, failure: str) -> None:
        """Prepare the answer to continue after its text so far, unmarked.

        Args:
            failure: why the rest is not marked.
        """
        assert self.generation is not None
        self.failure, self.failed_late = failure, bool(self.generation.text)
        self.prompt = _continued(self.prompt, self.choice.lead + self.generation.text)

    def mark(self) -> Mark:
        """The watermark status of the complete answer, before detection."""
        plan, generation = self.plan, self.generation
        assert generation is not None
        if plan.key is not None:
            return mark_of(generation, plan.key, self.failure, failed_late=self.failed_late)
        sentences, cost = len(generation.sentences), generation.cost
        return Mark("unmarked", plan.reason, plan.cause, sentences=sentences, cost=cost)

    def interrupted_mark(self) -> Mark:
        """The watermark status of an answer that did not reach its end."""
        key = self.plan.key if self.has_mark and self.sent_text else None
        return Mark(
            "partly" if key else "unmarked",
            "The answer was interrupted.",
            "cut_short",
            key_id=key.id if key else None,
            label=key.label if key else None,
        )


def _continued(prompt: Prompt, text: str) -> Prompt:
    """A prompt for the continuation of a text."""
    if not prompt.messages:
        return Prompt(prompt.text + text)
    *earlier, last = prompt.messages
    if last.role == "assistant":
        return Prompt(messages=(*earlier, Message("assistant", last.content + text)))
    return Prompt(messages=(*prompt.messages, *([Message("assistant", text)] if text else [])))
