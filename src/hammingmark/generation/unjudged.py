"""Text that is not judged sentence by sentence: unmarked, or marked token by token.

It is drawn at once, or in parts where the backend can continue in the middle of a sentence.
`draw_sentences` draws natural sentences, for the methods that compare a text's sentences with them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy

from hammingmark.generation.sentence_task import Draw, Path, SentenceTask
from hammingmark.generation.text import AcceptedText, Addition, count_tokens, may_end
from hammingmark.protocols import Backend, ContextRule
from hammingmark.records import Candidate, Request, Sampling, Unit

_LOOKBACK = 40  # characters before a part in which a sentence may have ended


class UnjudgedText:
    """The policy that draws once and keeps the draw.

    Args:
        task: what to draw.
        context: determines the bias of a token from the text before it; a part ends where the
            context changes.
    """

    budget = 1

    def __init__(self, task: SentenceTask, *, context: ContextRule | None = None) -> None:
        self._task = task
        self._context = context

    def parallel_draws(self, acceptance: float, width: int) -> int:
        """The only draw."""
        return 1

    def next_paths(self) -> Iterable[Path]:
        """The only draw."""
        return [(0,)]

    def request(self, path: Path, *, number: int, seed: int) -> Request:
        """Request the rest of the text, or its next part."""
        task, condition = self._task, None
        stop_conditions = [task.text.sentence_limit(task.config.max_sentences)]
        if task.config.in_parts:
            stop_conditions.append(may_end)
        if self._context:
            stop_conditions.append(self._context.context_changes(task.text.written))
            if task.previous is not None:
                condition = self._context.condition(task.previous[None])[0]
        return task.request(
            number=number,
            seed=seed,
            max_tokens=task.tokens_left,
            stop_condition=lambda text: any(holds(text) for holds in stop_conditions),
            condition=condition,
        )

    def read(self, path: Path, candidate: Candidate) -> Sequence[Draw]:
        """Read a candidate; the context after it is to be embedded if it is a new one."""
        tokens = candidate.tokens
        candidate, overlap = self._task.cut(candidate)
        addition = self._task.text.read_all(
            candidate, max_sentences=self._task.config.max_sentences
        )
        context = self._new_context(addition)
        failure = candidate.failure
        draw = Draw(
            path,
            tokens,
            addition,
            failure=failure,
            overlap=overlap,
            calls=candidate.calls,
            reasoning=candidate.reasoning,
            truncated=candidate.truncated,
            pending=context,
        )
        return [draw]

    def speculate(self, draws: Mapping[Path, Draw]) -> Draw | None:
        """Always None: the only draw is kept."""
        return None

    def decide(self, draws: Mapping[Path, Draw]) -> Draw | None:
        """The only draw, once it is finished."""
        draw = draws.get((0,))
        if draw is None or draw.pending:
            return None
        draw.result = "kept"
        return draw

    def _new_context(self, addition: Addition) -> str:
        """The context after an addition; empty if it is unchanged or nothing follows."""
        text = self._task.text
        if not self._context or addition.ends or addition.truncated:
            return ""
        if not self._context.context_changes(text.written)(addition.raw):
            return ""
        return self._context.context(text.with_addition(addition).written)


class TextInParts(AcceptedText):
    """A text drawn in parts, exactly as the model wrote it.

    A part may end anywhere, even within a word. The sentences are determined when the text ends,
    or when their number reaches a limit.
    """

    @property
    def sentences(self) -> tuple[str, ...]:
        """The sentences that can carry a mark; the last may be incomplete."""
        return self.sentences_of(self.written)

    def add_space(self, text: str) -> str:
        """The part unchanged, because it may continue a word."""
        return text

    def sentence_limit(self, max_sentences: int | None) -> Callable[[str], bool]:
        """The stop condition of a part that completes this many sentences; None for no limit."""

        def is_reached(part: str) -> bool:
            if max_sentences is None or not may_end(self.written[-_LOOKBACK:] + part):
                return False
            units = self._split(self.written + part)
            return sum(unit.carries for unit in units[:-1]) >= max_sentences

        return is_reached

    def read_all(self, candidate: Candidate, *, max_sentences: int | None = None) -> Addition:
        """The part that a candidate adds, with trailing white space unless the text ends.

        The addition has no units, unless it completes the last sentence of the limit: then it has
        those of the whole text.
        """
        part, tokens = candidate.text, len(candidate.pieces)
        if max_sentences is not None and self.sentence_limit(max_sentences)(part):
            units = self._first_sentences(part, max_sentences)
            prefix = self._shortest_prefix(self.written + part, units)
            # What was written before stays, even if the last sentence ends inside it.
            raw = part.rstrip() if prefix is None else prefix[len(self.written) :]
            return Addition(raw, units, "", count_tokens(candidate, len(raw)), ends=False)
        is_over = candidate.finished or candidate.truncated
        raw = part.rstrip() if is_over else part
        return Addition(raw, (), "", tokens, candidate.finished, candidate.truncated)

    def with_addition(self, addition: Addition) -> TextInParts:
        """A copy of the text with one more part."""
        text = copy(self)
        text._append(addition.raw)
        return text

    def _first_sentences(self, part: str, count: int) -> tuple[Unit, ...]:
        """The units of the whole text up to a number of sentences."""
        units = self._split(self.written + part)
        places = [place for place, unit in enumerate(units) if unit.carries]
        return units[: places[count - 1] + 1]


def draw_sentences(
    texts: Sequence[AcceptedText],
    seeds: Sequence[int],
    *,
    backend: Backend,
    max_tokens: int,
    sampling: Sampling,
    tick: Callable[[int], None] | None = None,
) -> list[str | None]:
    """One sentence for each text, all drawn in one session; None where none fits.

    Args:
        texts: the texts to continue; a text occurs once for each of its sentences.
        seeds: of the draws.
        backend: the language model.
        max_tokens: maximum number of tokens of a candidate.
        sampling: how its tokens are drawn.
        tick: called with the number of candidates finished since the last call.

    Raises:
        BackendError: the model cannot continue a text.
    """
    sentences: list[str | None] = [None] * len(texts)
    session = backend.open()
    try:
        for number, (text, seed) in enumerate(zip(texts, seeds, strict=True)):
            request = Request(
                number, text.prompt, text.written, seed, max_tokens, text.stop_condition(), sampling
            )
            session.submit(request)
        left = len(texts)
        while left:
            candidates = session.wait()
            left -= len(candidates)
            if tick:
                tick(len(candidates))
            for candidate in candidates:
                candidate.require_text()
                addition = texts[candidate.number].read(candidate, truncated=False)
                if addition and addition.sentence:
                    sentences[candidate.number] = addition.sentence
    finally:
        session.close()
    return sentences
