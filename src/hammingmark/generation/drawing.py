"""Sentences that a language model would add to texts, all drawn in one session."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hammingmark.generation.text import AcceptedText
from hammingmark.protocols import Backend
from hammingmark.records import Request, Sampling


def draw_sentences(
    texts: Sequence[AcceptedText],
    seeds: Sequence[int],
    *,
    backend: Backend,
    max_tokens: int,
    sampling: Sampling,
    tick: Callable[[int], None] | None = None,
) -> list[str | None]:
    """One sentence for each text; None where the candidate has none that fits.

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
    found: list[str | None] = [None] * len(texts)
    session = backend.open()
    try:
        for number, (text, seed) in enumerate(zip(texts, seeds, strict=True)):
            request = Request(
                number, text.prompt, text.written, seed, max_tokens, text.enough(), sampling
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
                addition = texts[candidate.number].read(candidate, cut=False)
                if addition and addition.sentence:
                    found[candidate.number] = addition.sentence
    finally:
        session.close()
    return found
