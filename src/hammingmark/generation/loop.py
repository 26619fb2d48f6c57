"""The only rejection loop: texts in the making over one session of a backend.

Texts may join and leave at any time. Candidates of all of them are drawn side by side, and what
has arrived is embedded in one batch. Where the backend has lanes to spare, the next sentence is
begun on a guess: the first candidate that satisfies the rule is continued while those drawn before
it are still being written. A wrong guess costs lanes and nothing else; the text is the same as if
candidates were drawn one by one.
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
from hammingmark.records import Candidate, GenerationStep, Request

_LOG = logging.getLogger(__name__)

_FAIL_ALONE = 2  # texts that the encoder is tried on alone, and in vain
_SLOW = 5.0  # seconds; an encoder that fails after so long is not asked again for each text
_REMEMBERED = 256  # candidates that were given up and may still come back

Written = tuple[GenerationState, GenerationStep]
"""A step, and the text that it belongs to."""

_Pending = tuple[GenerationState, Draw]
"""A draw that has to be embedded, and the text that it belongs to."""


class GenerationLoop:
    """Texts in the making, each at its own pace.

    Args:
        backend: proposes candidates.
        session: a session of it.
    """

    def __init__(self, backend: Backend, session: Session) -> None:
        self._backend = backend
        self._session = session
        # No more texts at once than the backend draws, and can keep in mind.
        self._turns: FairScheduler[GenerationState] = FairScheduler(backend.parallel)
        self._numbers = count()
        self._asked: dict[int, tuple[GenerationState, SentenceCandidates, Request]] = {}
        self._given_up: dict[int, GenerationState] = {}
        self._tried = 0
        self._passed = 0

    @property
    def is_waiting(self) -> bool:
        """Whether any candidate is under way."""
        return bool(self._asked)

    @property
    def unfinished(self) -> int:
        """How many texts have not ended."""
        return len(self._turns)

    @property
    def acceptance(self) -> float:
        """The share of candidates accepted so far, starting from the theory's third."""
        return (self._passed + 1.0) / (self._tried + 3.0)

    def add(
        self, documents: Iterable[GenerationState], *, client: Hashable = None
    ) -> Iterator[Written]:
        """Take texts in, and ask for their first candidates as soon as it is their turn.

        Args:
            documents: the texts.
            client: whose they are; clients take turns (`turns`).
        """
        self._turns.add(documents, client=client)
        yield from self._settle(())

    def remove(self, document: GenerationState) -> Iterator[Written]:
        """Give up on a text; others take its place."""
        if document in self._turns:
            document.abandon(self._cancel(document))
            self._turns.remove(document)
        yield from self._settle(())

    def receive(self, arrived: Sequence[Candidate], waited: float) -> Iterator[Written]:
        """Judge candidates, and ask for what is needed next.

        Args:
            arrived: what the session handed over.
            waited: seconds that it took.
        """
        yield from self._settle(self._hand_out(arrived, waited))

    def _hand_out(self, arrived: Sequence[Candidate], waited: float) -> list[GenerationState]:
        """Hand candidates to their sentences, and embed what has to be embedded in one go.

        Returns:
            The texts that got any.
        """
        touched: dict[GenerationState, None] = {}
        pending: dict[int, list[_Pending]] = {}  # by their encoders
        active = self._turns.running
        for document in active:
            document.spend(model_seconds=waited / len(active))
        for candidate in arrived:
            if candidate.number in self._given_up:
                wasted = len(candidate.pieces)
                self._given_up.pop(candidate.number).spend(spare=1, spare_tokens=wasted)
            if candidate.number not in self._asked:
                continue
            document, candidates, request = self._asked.pop(candidate.number)
            touched[document] = None
            if not request.written and candidate.read_tokens is not None:
                document.prompt_tokens = candidate.read_tokens
            draw = candidates.receive(candidate)
            if draw.pending:
                pending.setdefault(id(document.encoder), []).append((document, draw))
        for each in pending.values():
            _embed(each)
        return list(touched)

    def _settle(self, touched: Sequence[GenerationState]) -> Iterator[Written]:
        """Judge what can be judged, emit what is decided, and ask for what is needed next.

        Args:
            touched: the texts for which anything has changed; the others need not be looked at.
        """
        for document in touched:
            steps = 0
            for cost in document.settle(self._cancel(document)):
                steps += 1
                self._tried += cost.tried
                self._passed += cost.passed
                for step in document.release():
                    yield document, step
            if document.ended:
                self._turns.remove(document)
            elif steps:
                self._turns.end_sentences(document, steps)
        # What is under way for a text that has lost its place comes to its end.
        active = self._turns.running
        changed = set(touched)
        for document in active:
            if document not in changed and document.is_asked:
                continue
            document.look_ahead(self._cancel(document))
            lanes = min(self._backend.width, max(1, self._backend.parallel // len(active)))
            for candidates, request in document.requests(lanes, self._numbers, self.acceptance):
                self._asked[request.number] = (document, candidates, request)
                self._session.submit(request)

    def _cancel(self, document: GenerationState) -> Cancel:
        def cancel(numbers: Sequence[int]) -> None:
            for number in numbers:
                self._session.cancel(number)
                del self._asked[number]
                self._given_up[number] = document
            while len(self._given_up) > _REMEMBERED:
                del self._given_up[next(iter(self._given_up))]

        return cancel


def _embed(pending: Sequence[_Pending]) -> None:
    """Embed what one encoder has to embed in one go; if it fails, text by text.

    A text for which it fails alone, too, ends with that. After the second such one, or if it took
    long to fail, nobody waits for an encoder that has gone away.
    """
    began = time.perf_counter()
    failure = _embed_together(pending)
    if failure is None:
        return
    is_slow = time.perf_counter() - began > _SLOW
    texts: dict[GenerationState, list[_Pending]] = {}
    for document, draw in pending:
        texts.setdefault(document, []).append((document, draw))
    failed = 0
    for document, draws in texts.items():
        if len(texts) > 1 and failed < _FAIL_ALONE and not is_slow:
            failure = _embed_together(draws)
        if failure is not None:
            failed += 1
            document.fail(failure)


def _embed_together(pending: Sequence[_Pending]) -> Failure | None:
    """Embed draws in one go; what went wrong, if anything did."""
    encoder = pending[0][0].encoder
    assert encoder is not None
    began = time.perf_counter()
    try:
        embeddings = encoder.encode([draw.pending for _, draw in pending])
    except InferenceError as error:
        return replace(error.failure, origin="encoder")
    except HammingMarkError as error:
        return Failure("unavailable", str(error), origin="encoder")
    except Exception as error:  # of a library: it must not end the texts of other encoders
        _LOG.exception("the encoder failed")
        summary = f"The encoder failed ({type(error).__name__})."
        return Failure("internal", summary, origin="encoder")
    share = (time.perf_counter() - began) / len(pending)
    for (document, draw), embedding in zip(pending, embeddings, strict=True):
        draw.embedding, draw.pending = embedding, ""
        document.spend(encoder_seconds=share)
    return None
