"""Fair scheduling: clients take turns, and the texts of one client run in order of arrival."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from itertools import count
from typing import Generic, TypeVar

Text = TypeVar("Text", bound=Hashable)

_TURN = 4  # sentences; a model reads the prompt again when a text continues after an interruption


@dataclass(slots=True)
class _Client(Generic[Text]):
    """A client and its texts.

    Attributes:
        waiting: its waiting texts with their numbers, in order of arrival.
        slots: the number of its running texts.
        since: when it last got a slot, released one, or began to wait.
    """

    waiting: list[tuple[int, Text]] = field(default_factory=list)
    slots: int = 0
    since: int = 0


class FairScheduler(Generic[Text]):
    """A number of slots for texts, shared fairly between clients.

    A free slot goes to the client with the fewest slots; among several, to the one that has waited
    longest. A running text releases its slot only at the end of a sentence, and only to another
    client: immediately if that client has at least two slots fewer, and after a turn of some
    sentences if it has one fewer. So no client starves, and a text without competition runs to its
    end.

    Args:
        slots: the number of texts that run at once.
    """

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._texts: dict[Text, tuple[Hashable, int]] = {}  # client and order of arrival
        self._clients: dict[Hashable, _Client[Text]] = {}
        self._running: dict[Text, int] = {}  # sentences in the current turn
        self._numbers = count()
        self._clock = count(1)

    def __len__(self) -> int:
        return len(self._texts)

    def __contains__(self, text: Text) -> bool:
        return text in self._texts

    @property
    def running(self) -> list[Text]:
        """The texts that have slots."""
        return list(self._running)

    def add(self, texts: Iterable[Text], *, client: Hashable) -> None:
        """Add texts; each one runs immediately or waits for a slot."""
        for text in texts:
            number = next(self._numbers)
            self._texts[text] = (client, number)
            entry = self._clients.setdefault(client, _Client())
            if not entry.waiting:
                entry.since = next(self._clock)
            entry.waiting.append((number, text))
        self._assign_slots()

    def remove(self, text: Text) -> None:
        """Remove a text that has ended or was cancelled."""
        client = self._client(text)
        name, number = self._texts.pop(text)
        if self._running.pop(text, None) is None:
            del client.waiting[bisect_left(client.waiting, (number,))]
        else:
            client.slots -= 1
        if not (client.slots or client.waiting):
            del self._clients[name]
        self._assign_slots()

    def end_sentences(self, text: Text, number: int) -> None:
        """Record finished sentences of a text; it releases its slot if another client is due."""
        if text not in self._running:
            return
        self._running[text] += number
        client = self._client(text)
        fewest = min((other.slots for other in self._waiting()), default=client.slots)
        is_turn_over = self._running[text] >= _TURN
        if fewest + 1 < client.slots or (fewest < client.slots and is_turn_over):
            del self._running[text]
            client.slots -= 1
            client.since = next(self._clock)
            insort(client.waiting, (self._texts[text][1], text))
            self._assign_slots()

    def _assign_slots(self) -> None:
        """Give free slots to waiting texts."""
        while len(self._running) < self._slots and (waiting := self._waiting()):
            client = min(waiting, key=lambda other: (other.slots, other.since))
            _, text = client.waiting.pop(0)
            self._running[text] = 0
            client.slots += 1
            client.since = next(self._clock)

    def _waiting(self) -> list[_Client[Text]]:
        """The clients with waiting texts."""
        return [client for client in self._clients.values() if client.waiting]

    def _client(self, text: Text) -> _Client[Text]:
        return self._clients[self._texts[text][0]]
