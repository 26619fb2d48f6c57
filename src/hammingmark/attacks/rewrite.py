"""Rewriting by a chat model, the attack available to everyone.

It works with any backend: a model in this process, or an endpoint. Prompts are versioned data,
because an attack with another prompt is another attack.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from hammingmark.attacks.response_cleanup import clean
from hammingmark.attacks.segments import Grain, Kept, Piece, Tally, change_prose
from hammingmark.errors import InputError
from hammingmark.protocols import Backend, Splitter
from hammingmark.records import Candidate, Message, Prompt, Request, Sampling


@dataclass(frozen=True, slots=True)
class RewritePrompt:
    """The prompt of the rewriting model.

    Attributes:
        system: the system message.
        sentence: the request for one sentence, with ``{text}``.
        in_context: the request for one sentence after the preceding ones, with ``{context}`` and
            ``{text}``.
        passage: the request for a paragraph or a document, with ``{text}``.
    """

    system: str
    sentence: str
    in_context: str
    passage: str


REWRITE_PROMPTS: Mapping[str, RewritePrompt] = {
    "v1": RewritePrompt(
        system=(
            "You rewrite text in other words. You keep its meaning, its facts and its language. "
            "You answer with the rewritten text and nothing else."
        ),
        sentence=(
            "Rewrite this sentence with other words and another sentence structure, and keep its "
            "meaning.\n\nSentence: {text}"
        ),
        in_context=(
            "These sentences come first:\n{context}\n\nRewrite only the sentence that follows "
            "them, with other words and another sentence structure, and keep its meaning."
            "\n\nSentence: {text}"
        ),
        passage=(
            "Rewrite this text with other words and other sentence structures. Say all that it "
            "says, in the same order, and add nothing.\n\nText:\n{text}"
        ),
    ),
}
"""Every prompt used for published results. A change of wording makes a new version."""


class Rewrite:
    """Rewrite with a language model that follows instructions.

    An answer that is truncated, a refusal, empty or not prose is not used: the piece is kept as it
    was, and ``tally`` counts it.

    Args:
        backend: the model, which must support chats.
        splitter: finds the prose.
        scope: the unit that is rewritten at once. A ``document`` is all prose up to the next
            heading, list mark or code.
        context: the number of preceding sentences of the original that the model sees; only for
            the scope ``sentence``.
        prompt: the version of the prompt, a name in ``REWRITE_PROMPTS``, or a custom prompt.
        temperature: 1 is the model's own distribution; published attacks use 0.2 to 1.
        top_k: only the k likeliest tokens; 0 for all.
        top_p: only the likeliest tokens of this total probability.
        max_tokens: of an answer; by default about twice the length of the original.
    """

    name: ClassVar[str] = "rewrite"
    min_similarity: float = 0.7
    """Least similarity, by a held-out encoder, at which the outcome counts as the same text."""

    def __init__(
        self,
        backend: Backend,
        *,
        splitter: Splitter,
        scope: Grain = "sentence",
        context: int = 0,
        prompt: str | RewritePrompt = "v1",
        temperature: float = 0.7,
        top_k: int = 0,
        top_p: float = 0.95,
        max_tokens: int | None = None,
    ) -> None:
        if isinstance(prompt, str) and prompt not in REWRITE_PROMPTS:
            available = ", ".join(REWRITE_PROMPTS)
            raise InputError(f"There is no prompt {prompt!r}. Available: {available}.")
        if context < 0 or (context and scope != "sentence"):
            raise InputError(
                "context must be a number of preceding sentences, 0 or more, and 0 for paragraphs "
                "and documents."
            )
        self.tally: Tally = Tally()
        self._backend = backend
        self._splitter = splitter
        self._scope: Grain = scope
        self._context = context
        self._prompt = REWRITE_PROMPTS[prompt] if isinstance(prompt, str) else prompt
        self._sampling = Sampling(temperature=temperature, top_k=top_k, top_p=top_p)
        self._max_tokens = max_tokens

    def apply(self, texts: Sequence[str], *, rng: np.random.Generator) -> list[str]:
        """Attack each text, with all randomness drawn from ``rng``.

        Raises:
            BackendError: the model failed, or a piece does not fit into its context.
        """

        def change(pieces: list[Piece]) -> list[str | Kept]:
            seeds = rng.integers(2**31, size=len(pieces))
            requests = [
                self._request(number, piece, int(seed))
                for number, (piece, seed) in enumerate(zip(pieces, seeds, strict=True))
            ]
            candidates = self._draw(requests)
            return [self._read(candidates[number], piece) for number, piece in enumerate(pieces)]

        return change_prose(
            texts, splitter=self._splitter, change=change, tally=self.tally, grain=self._scope
        )

    def _request(self, number: int, piece: Piece, seed: int) -> Request:
        before = piece.before[max(0, len(piece.before) - self._context) :]
        if self._scope != "sentence":
            message = self._prompt.passage.format(text=piece.text)
        elif before:
            message = self._prompt.in_context.format(context=" ".join(before), text=piece.text)
        else:
            message = self._prompt.sentence.format(text=piece.text)
        return Request(
            number=number,
            prompt=Prompt(
                messages=(Message("system", self._prompt.system), Message("user", message))
            ),
            written="",
            seed=seed,
            max_tokens=self._max_tokens or 64 + len(piece.text) // 2,
            stop_condition=_never,
            sampling=self._sampling,
        )

    def _draw(self, requests: list[Request]) -> dict[int, Candidate]:
        """The answers by request number, with at most ``backend.parallel`` requests in flight."""
        candidates: dict[int, Candidate] = {}
        queue = deque(requests)
        in_flight = 0
        session = self._backend.open()
        try:
            while len(candidates) < len(requests):
                while queue and in_flight < self._backend.parallel:
                    session.submit(queue.popleft())
                    in_flight += 1
                for candidate in session.wait():
                    candidate.require_text()
                    candidates[candidate.number] = candidate
                    in_flight -= 1
        finally:
            session.close()
        return candidates

    def _read(self, candidate: Candidate, piece: Piece) -> str | Kept:
        if candidate.truncated:
            return Kept("cut")
        return clean(candidate.text, original=piece.text, whole=self._scope == "document")


def _never(text: str) -> bool:
    """A stop condition that is never met: an answer is generated in one go."""
    return False
