"""Fair scheduling: clients, and the texts of each, get equal work; first sentences go before."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from itertools import count
from typing import Generic, TypeVar

Text = TypeVar("Text", bound=Hashable)

TURN = 128
"""Tokens by which a text may be ahead of one that waits; a model reads the prompt again when a text
continues after an interruption."""

FIRST_TURN = 256
"""The same for a text without its first sentence: usually it gets it without an interruption."""

BOOST = 512
"""Tokens by which a text without its first sentence goes before the others."""

_MOST_OWED = 1024.0  # tokens that a text or a client may be behind or ahead


@dataclass(slots=True)
class _Client(Generic[Text]):
    """A client and its texts.

    Attributes:
        owed: the tokens that it is owed beside the other clients; negative if it got more.
        texts: likewise what each of its texts is owed beside the others.
    """

    owed: float = 0.0
    texts: dict[Text, float] = field(default_factory=dict)


class FairScheduler(Generic[Text]):
    """A number of slots for texts, shared fairly by the work that was done for each.

    Every token that is drawn for a client is owed to all clients in equal parts, and in each to all
    of its texts. Slots go to the texts that are owed most; a text without its first sentence counts
    as owed `BOOST` tokens more. So first sentences come first, but no stream of new texts can keep
    an older one waiting for more than that.

    Args:
        slots: the number of texts that run at once.
        takes_turns: whether a running text releases its slot to one that is owed `TURN` tokens
            more. Otherwise it keeps it to its end, and texts run in order of arrival.
        draws_apart: whether the model draws the texts in the slots hardly faster together than one
            after the other. Then texts in slots pause, too, until the others have their first
            sentences.
    """

    def __init__(self, slots: int, *, takes_turns: bool = True, draws_apart: bool = False) -> None:
        self._slots = slots
        self._takes_turns = takes_turns
        self._draws_apart = draws_apart and takes_turns
        self._clients: dict[Hashable, _Client[Text]] = {}
        self._client_of: dict[Text, Hashable] = {}
        self._waiting: dict[Text, int] = {}  # in the order of their numbers
        self._running: dict[Text, int] = {}
        self._unbegun: set[Text] = set()  # those without their first sentences
        self._numbers = count()

    def __len__(self) -> int:
        return len(self._client_of)

    def __contains__(self, text: Text) -> bool:
        return text in self._client_of

    @property
    def running(self) -> list[Text]:
        """The texts that have slots."""
        return list(self._running)

    @property
    def drawing(self) -> list[Text]:
        """The texts that have slots and do not pause."""
        first = [text for text in self._running if text in self._unbegun]
        if not (self._draws_apart and first):
            return self.running
        best = max(first, key=self._priority)
        return [text for text in self._running if not self._gives_way(text, best)]

    def add(self, texts: Iterable[Text], *, client: Hashable) -> None:
        """Add texts; each one runs immediately or waits for a slot."""
        for text in texts:
            self._client_of[text] = client
            self._clients.setdefault(client, _Client()).texts[text] = 0.0
            self._waiting[text] = next(self._numbers)
            self._unbegun.add(text)
        self._assign_slots()

    def remove(self, text: Text) -> None:
        """Remove a text that has ended or was cancelled."""
        name = self._client_of.pop(text)
        client = self._clients[name]
        del client.texts[text]
        if not client.texts:
            del self._clients[name]
        self._unbegun.discard(text)
        self._waiting.pop(text, None)
        self._running.pop(text, None)
        self._assign_slots()

    def begin(self, text: Text) -> None:
        """Record that a text has its first sentence."""
        if text in self._unbegun:
            self._unbegun.remove(text)
            self._assign_slots()

    def charge(self, text: Text, tokens: int) -> None:
        """Record work that was done for a text; work that delays nobody is not counted."""
        if not (self._waiting or (self._draws_apart and self._unbegun)):
            return
        client = self._clients[self._client_of[text]]
        share = tokens / len(self._clients)
        for other in self._clients.values():
            other.owed = _bounded(other.owed + share - tokens * (other is client))
        share = tokens / len(client.texts)
        for each, owed in client.texts.items():
            client.texts[each] = _bounded(owed + share - tokens * (each is text))
        self._assign_slots()

    def _assign_slots(self) -> None:
        """Give slots to the waiting texts that are owed most."""
        while self._waiting:
            # The numbers of equals decide, so that they run in order of arrival.
            best = max(self._waiting, key=lambda text: (self._priority(text), -self._waiting[text]))
            if len(self._running) >= self._slots:
                yielding = [text for text in self._running if self._gives_way(text, best)]
                if not (self._takes_turns and yielding):
                    return
                worst = min(yielding, key=self._priority)
                self._waiting[worst] = self._running.pop(worst)
            self._running[best] = self._waiting.pop(best)

    def _gives_way(self, text: Text, other: Text) -> bool:
        """Whether a running text stops for another one."""
        turn = FIRST_TURN if text in self._unbegun else TURN
        return self._priority(other) >= self._priority(text) + turn

    def _priority(self, text: Text) -> float:
        """The tokens that a text is owed, and the boost that it has before its first sentence."""
        if not self._takes_turns:
            return 0.0
        client = self._clients[self._client_of[text]]
        return client.owed + client.texts[text] + BOOST * (text in self._unbegun)


def _bounded(owed: float) -> float:
    return min(_MOST_OWED, max(-_MOST_OWED, owed))
