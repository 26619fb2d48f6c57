"""Whether the upstream continues answers; without that, none can be marked sentence by sentence."""

from __future__ import annotations

import asyncio
import logging

from hammingmark.backends.openai import OpenAIBackend
from hammingmark.protocols import Backend
from hammingmark.server.logs import log_event

_LOG = logging.getLogger("hammingmark.server")
_MAX_MODELS = 64  # that are remembered, so that each is logged once
_ADVICE = (
    "It begins a new answer instead of continuing an unfinished one, so answers to chats cannot be "
    "marked. Use an upstream that continues the assistant's last message, such as vLLM, SGLang or "
    "llama.cpp. policy.restarting_upstream says what becomes of these requests; if this one does "
    "continue, set upstream.continues to true."
)


class ContinuationCheck:
    """Asks the upstream about each model, and logs what was found when it changes.

    Args:
        backend: the language model; only an OpenAI-compatible endpoint is asked.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend if isinstance(backend, OpenAIBackend) else None
        self._restarting: set[str] = set()

    async def continues(self, model: str) -> bool:
        """Whether a model of the upstream continues answers.

        Raises:
            BackendError: the upstream does not answer.
        """
        if self._backend is None:
            return True
        continues = await asyncio.wrap_future(self._backend.continues_answers(model))
        if continues and model in self._restarting:
            self._restarting.discard(model)
            log_event(_LOG, "upstream continues answers again", model=model)
        elif not continues and model not in self._restarting:
            if len(self._restarting) >= _MAX_MODELS:
                self._restarting.clear()
            self._restarting.add(model)
            log_event(
                _LOG,
                "upstream cannot be marked",
                level=logging.WARNING,
                kind="cannot_continue",
                model=model,
                reason=_ADVICE,
            )
        return continues
