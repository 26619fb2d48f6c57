"""The rejection loop: many texts over one session of a backend.

Texts may join and leave at any time. Candidates of all texts are drawn in parallel, and those that
finish together are embedded in one batch. Where the backend has free capacity, the next sentence is
begun speculatively: the first finished candidate that satisfies the rule is continued while earlier
draws are unfinished. A wrong speculation costs capacity only; the text is the same as if candidates
were drawn one by one.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import count

from hammingmark.errors import Failure, HammingMarkError, InferenceError
from hammingmark.generation.candidates import SentenceCandidates
from hammingmark.generation.scheduler import FairScheduler
from hammingmark.generation.sentence_task import Draw
from hammingmark.generation.state import Cancel, GenerationState
from hammingmark.protocols import Backend, Session
from hammingmark.records import Candidate, GenerationStep, ModelUsage, Request

_LOG = logging.getLogger(__name__)

_MAX_SOLO_FAILURES = 2  # texts for which the encoder is tried alone and fails
_SLOW_FAILURE = 5.0  # seconds; an encoder that takes longer to fail is not tried for each text
_MAX_CANCELLED = 256  # cancelled candidates that are remembered because they may still finish

ReleasedStep = tuple[GenerationState, GenerationStep]
"""A final step, and the text that it belongs to."""

_Pending = tuple[GenerationState, Draw]
"""A draw that has to be embedded, and the text that it belongs to."""


class GenerationLoop:
    """Generates texts, each at its own pace.

    Args:
        backend: proposes candidates.
        session: a session of it.
        takes_turns: whether texts that run make room for texts that wait (`scheduler`). Otherwise
            each runs to its end, which takes less time for all together.
    """

    def __init__(self, backend: Backend, session: Session, *, takes_turns: bool = False) -> None:
        self._backend = backend
        self._session = session
        # At most as many running texts as the backend draws candidates, so that it can cache each.
        self._scheduler: FairScheduler[GenerationState] = FairScheduler(
            backend.parallel, takes_turns=takes_turns, draws_apart=backend.width == 1
        )
        self._numbers = count()
        self._requests: dict[int, tuple[GenerationState, SentenceCandidates, Request]] = {}
        self._cancelled: dict[int, GenerationState] = {}
        self._tried = 0
        self._passed = 0

    @property
    def is_waiting(self) -> bool:
        """Whether any candidate is in flight."""
        return bool(self._requests)

    @property
    def unfinished(self) -> int:
        """The number of texts that have not ended."""
        return len(self._scheduler)

    @property
    def drawing(self) -> int:
        """The number of texts that are drawn at once."""
        return len(self._scheduler.drawing)

    @property
    def acceptance(self) -> float:
        """The share of candidates accepted so far, starting from the theoretical third."""
        return (self._passed + 1.0) / (self._tried + 3.0)

    def add(
        self, states: Iterable[GenerationState], *, client: Hashable = None
    ) -> Iterator[ReleasedStep]:
        """Add texts, and submit their first requests when the scheduler gives them slots.

        Args:
            states: the texts.
            client: whose texts they are; slots are shared fairly between clients (`scheduler`).
        """
        self._scheduler.add(states, client=client)
        yield from self._advance(())

    def remove(self, state: GenerationState) -> Iterator[ReleasedStep]:
        """Cancel a text; another takes its slot."""
        if state in self._scheduler:
            state.cancel_requests(self._canceller(state))
            self._scheduler.remove(state)
        yield from self._advance(())

    def receive(self, candidates: Sequence[Candidate], seconds: float) -> Iterator[ReleasedStep]:
        """Judge finished candidates, and submit the next requests.

        Args:
            candidates: those that the session returned.
            seconds: the time it took.
        """
        yield from self._advance(self._dispatch(candidates, seconds))

    def _dispatch(self, candidates: Sequence[Candidate], seconds: float) -> list[GenerationState]:
        """Pass candidates to their sentences, and embed them in one batch for each encoder.

        Returns:
            The texts that have new candidates.
        """
        changed: dict[GenerationState, None] = {}
        pending: dict[int, list[_Pending]] = {}  # by encoder
        running = self._scheduler.running
        for state in running:
            state.add_cost(model_seconds=seconds / len(running))
        for candidate in candidates:
            if candidate.number in self._cancelled:
                state = self._cancelled.pop(candidate.number)
                state.add_cost(spare=1, spare_tokens=candidate.tokens)
                self._charge(state, candidate)
            if candidate.number not in self._requests:
                continue
            state, sentence, request = self._requests.pop(candidate.number)
            self._charge(state, candidate)
            changed[state] = None
            if not request.written and candidate.read_tokens is not None:
                state.prompt_tokens = candidate.read_tokens
            for draw in sentence.receive(candidate):
                if draw.pending:
                    pending.setdefault(id(state.encoder), []).append((state, draw))
        for batch in pending.values():
            _embed(batch)
        return list(changed)

    def _advance(self, changed: Sequence[GenerationState]) -> Iterator[ReleasedStep]:
        """Append what is decided, release final steps, and submit the next requests.

        Args:
            changed: the texts with new candidates; the others need not be checked.
        """
        for state in changed:
            for cost in state.advance(self._canceller(state)):
                self._tried += cost.tried
                self._passed += cost.passed
                for step in state.release():
                    yield state, step
            if state.ended:
                self._scheduler.remove(state)
            elif state.is_begun:
                self._scheduler.begin(state)
        # Requests in flight of a text that has lost its slot, or pauses, are finished.
        running = self._scheduler.drawing
        with_changes = set(changed)
        for state in running:
            if state not in with_changes and state.has_requests:
                continue
            state.speculate(self._canceller(state))
            width = min(self._backend.width, max(1, self._backend.parallel // len(running)))
            for sentence, request in state.requests(width, self._numbers, self.acceptance):
                self._requests[request.number] = (state, sentence, request)
                self._session.submit(request)

    def _charge(self, state: GenerationState, candidate: Candidate) -> None:
        """Count the work that was done for a text."""
        state.drawn_tokens += candidate.tokens
        if state in self._scheduler:
            self._scheduler.charge(state, candidate.tokens)
        if not self._backend.capabilities.charges:  # it does not count what its model does
            read = candidate.read_tokens or 0
            state.charge(ModelUsage(1, read_tokens=read, written_tokens=candidate.tokens))

    def _canceller(self, state: GenerationState) -> Cancel:
        def cancel(numbers: Sequence[int]) -> None:
            for number in numbers:
                self._session.cancel(number)
                del self._requests[number]
                self._cancelled[number] = state
            while len(self._cancelled) > _MAX_CANCELLED:
                del self._cancelled[next(iter(self._cancelled))]

        return cancel


def _embed(pending: Sequence[_Pending]) -> None:
    """Embed the draws of one encoder in one batch; if that fails, text by text.

    A text for which it fails alone as well ends with that failure. After the second such text, or
    after a slow failure, all remaining texts end at once, because the encoder is probably gone.
    """
    began = time.perf_counter()
    failure = _embed_together(pending)
    if failure is None:
        return
    is_slow = time.perf_counter() - began > _SLOW_FAILURE
    texts: dict[GenerationState, list[_Pending]] = {}
    for state, draw in pending:
        texts.setdefault(state, []).append((state, draw))
    failures = 0
    for state, draws in texts.items():
        if len(texts) > 1 and failures < _MAX_SOLO_FAILURES and not is_slow:
            failure = _embed_together(draws)
        if failure is not None:
            failures += 1
            state.fail(failure)


def _embed_together(pending: Sequence[_Pending]) -> Failure | None:
    """Embed draws in one batch; returns the failure, if any."""
    encoder = pending[0][0].encoder
    assert encoder is not None
    began = time.perf_counter()
    try:
        embeddings = encoder.encode([draw.pending for _, draw in pending])
    except InferenceError as error:
        return replace(error.failure, origin="encoder")
    except HammingMarkError as error:
        return Failure("unavailable", str(error), origin="encoder")
    except Exception as error:  # of a library; texts with other encoders must continue
        _LOG.exception("the encoder failed")
        summary = f"The encoder failed ({type(error).__name__})."
        return Failure("internal", summary, origin="encoder")
    share = (time.perf_counter() - began) / len(pending)
    for (state, draw), embedding in zip(pending, embeddings, strict=True):
        draw.embedding, draw.pending = embedding, ""
        state.add_cost(encoder_seconds=share)
    return None
