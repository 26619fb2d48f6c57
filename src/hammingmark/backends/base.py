"""What backends share: closing, the queue of finished candidates, and chats to be continued."""

from __future__ import annotations

from abc import ABC, abstractmethod
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Any, TypeVar

from hammingmark.prompts import message_fields
from hammingmark.records import Candidate, Message, Prompt

_Self = TypeVar("_Self", bound="Closing")


class Closing(ABC):
    """A backend that closes at the end of a ``with`` statement."""

    @abstractmethod
    def close(self) -> None:
        """Release the model or the connections."""

    def __enter__(self: _Self) -> _Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


class FinishedCandidates:
    """A queue from the threads or tasks that draw candidates to the thread that waits for them.

    A session that computes within `wait` itself, such as that of transformers, needs none.
    """

    def __init__(self) -> None:
        self._queue: SimpleQueue[Candidate | BaseException | None] = SimpleQueue()
        self._failure: BaseException | None = None

    def put(self, result: Candidate | BaseException) -> None:
        """Hand over a candidate, or the failure of the whole session."""
        self._queue.put(result)

    def wake(self) -> None:
        """Make `wait` return soon."""
        self._queue.put(None)

    def wait(self) -> list[Candidate]:
        """Every candidate that has finished, at least one unless `wake` is called.

        If a failure arrives together with candidates, these are returned first, and the next call
        raises the failure. So does every call after it.
        """
        if self._failure is not None:
            raise self._failure
        results = [self._queue.get()]
        try:
            while True:
                results.append(self._queue.get_nowait())
        except Empty:
            pass
        candidates = [result for result in results if isinstance(result, Candidate)]
        failures = [result for result in results if isinstance(result, BaseException)]
        if failures:
            self._failure = failures[0]
            if not candidates:
                raise self._failure
        return candidates


def assistant_turn(prompt: Prompt, written: str) -> tuple[tuple[Message, ...], str]:
    """The messages before the assistant's turn that is being written, and the start of that turn.

    If the last message is the assistant's, the text continues it; otherwise a new turn of the
    assistant begins. The text ``written`` so far belongs to that turn.
    """
    *earlier, last = prompt.messages
    if last.role == "assistant" and not last.further:
        return tuple(earlier), last.content + written
    return prompt.messages, written


def unfinished_answer(prompt: Prompt, written: str) -> str:
    """The start of the assistant's turn that is to be continued; empty if a new turn begins."""
    return assistant_turn(prompt, written)[1] if prompt.messages else ""


def messages_of(prompt: Prompt, written: str) -> list[dict[str, Any]]:
    """The messages for a server that continues the last one if it is the assistant's."""
    earlier, start = assistant_turn(prompt, written)
    messages = [message_fields(message) for message in earlier]
    return [*messages, {"role": "assistant", "content": start}] if start else messages
