"""Text that no rule judges sentence by sentence: unmarked, or marked token by token.

It is drawn in one go, or in parts where the backend goes on with half a text of its own. The
sentences that detection draws again in place of a text's own are such text, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy

from hammingmark.generation.sentence_task import Draw, Path, SentenceTask
from hammingmark.generation.text import AcceptedText, Addition, may_end, tokens_of
from hammingmark.protocols import Backend, ContextRule
from hammingmark.records import Candidate, Request, Sampling, Unit

_BEFORE = 40  # characters among which a sentence may have ended before a part begins


class UnjudgedText:
    """Draws what follows once, and keeps it.

    Args:
        task: what is to be drawn.
        context: what decides the bias of a token by the text before it; a part ends where that
            changes.
    """

    budget = 1

    def __init__(self, task: SentenceTask, *, context: ContextRule | None = None) -> None:
        self._task = task
        self._context = context

    def wanted(self, acceptance: float, lanes: int) -> int:
        """The only draw."""
        return 1

    def ahead(self) -> Iterable[Path]:
        """The only draw."""
        return [(0,)]

    def request(self, path: Path, *, number: int, seed: int) -> Request:
        """Ask for all that is left of the text, or for its next part."""
        task, condition = self._task, None
        ends = [task.accepted.sentence_limit_reached(task.config.max_sentences)]
        if task.config.in_parts:
            ends.append(may_end)
        if self._context:
            ends.append(self._context.context_changes(task.accepted.written))
            if task.previous is not None:
                condition = self._context.condition(task.previous[None])[0]
        return task.request(
            number=number,
            seed=seed,
            max_tokens=task.tokens_left,
            stop_condition=lambda text: any(end(text) for end in ends),
            condition=condition,
        )

    def read(self, path: Path, candidate: Candidate) -> Draw:
        """What came back, and the context after it, if that is another."""
        tokens = len(candidate.pieces)
        candidate, overlap = self._task.cut(candidate)
        most = self._task.config.max_sentences
        addition = self._task.accepted.read_all(candidate, most=most)
        context = self._context_after(addition)
        failure = candidate.failure
        return Draw(path, tokens, addition, failure=failure, overlap=overlap, pending=context)

    def guess(self, draws: Mapping[Path, Draw]) -> Draw | None:
        """There is nothing to guess."""
        return None

    def decide(self, draws: Mapping[Path, Draw]) -> Draw | None:
        """The only draw, once it has come back."""
        draw = draws.get((0,))
        if draw is None or draw.pending:
            return None
        draw.result = "kept"
        return draw

    def _context_after(self, addition: Addition) -> str:
        """The context of what follows an addition, if it is another and anything may follow."""
        accepted = self._task.accepted
        if not self._context or addition.ends or addition.truncated:
            return ""
        if not self._context.context_changes(accepted.written)(addition.raw):
            return ""
        return self._context.context(accepted.with_addition(addition).written)


class TextInParts(AcceptedText):
    """The part of a text that has been drawn, exactly as the model wrote it.

    A part may end anywhere: in a sentence, or in a word. Where sentences end is known when the text
    is over, or where somebody asks for no more of them.
    """

    @property
    def sentences(self) -> tuple[str, ...]:
        """Those that can carry a mark, the last as far as it goes."""
        return self.sentences_of(self.written)

    def spaced(self, text: str) -> str:
        """A part as it is: it may go on in the middle of a word."""
        return text

    def sentence_limit_reached(self, most: int | None) -> Callable[[str], bool]:
        """A function that says whether the text has so many sentences with one more part."""

        def complete(part: str) -> bool:
            if most is None or not may_end(self.written[-_BEFORE:] + part):
                return False
            units = self._split(self.written + part)
            return sum(unit.carries for unit in units[:-1]) >= most

        return complete

    def read_all(self, candidate: Candidate, *, most: int | None = None) -> Addition:
        """The part that a candidate is, white space behind it included unless the text ends.

        Its units are left out, but for one that ends the text with its last sentence: then they
        are those of the whole text.
        """
        part, tokens = candidate.text, len(candidate.pieces)
        if most is not None and self.sentence_limit_reached(most)(part):
            kept = self._first(part, most)
            whole = self._raw(self.written + part, kept)
            # What was written before stays, also where the sentence is found to end in it.
            raw = part.rstrip() if whole is None else whole[len(self.written) :]
            return Addition(raw, kept, "", tokens_of(candidate, len(raw)), ends=False)
        over = candidate.finished or candidate.truncated
        return Addition(
            part.rstrip() if over else part, (), "", tokens, candidate.finished, candidate.truncated
        )

    def with_addition(self, addition: Addition) -> TextInParts:
        """The text with one more part."""
        page = copy(self)
        page._write(addition.raw)
        return page

    def _first(self, part: str, most: int) -> tuple[Unit, ...]:
        """The units of the whole text up to its last sentence."""
        units = self._split(self.written + part)
        places = [place for place, unit in enumerate(units) if unit.carries]
        return units[: places[most - 1] + 1]


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
        texts: what to continue; a text of which several sentences are wanted stands here as often.
        seeds: of the draws.
        backend: the model.
        max_tokens: of a candidate.
        sampling: how its tokens are drawn.
        tick: called with the number of candidates that have come since the last call.

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
            arrived = session.wait()
            left -= len(arrived)
            if tick:
                tick(len(arrived))
            for candidate in arrived:
                candidate.require_text()
                addition = texts[candidate.number].read(candidate, truncated=False)
                if addition and addition.sentence:
                    sentences[candidate.number] = addition.sentence
    finally:
        session.close()
    return sentences
