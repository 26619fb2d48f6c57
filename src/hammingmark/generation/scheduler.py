"""Whose text is written next: by turns between clients, in order of arrival within each."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from itertools import count
from typing import Generic, TypeVar

Text = TypeVar("Text", bound=Hashable)

_TURN = 4  # sentences; a model reads a prompt again when its text goes on after others


@dataclass(slots=True)
class _Client(Generic[Text]):
    """Who has texts written.

    Attributes:
        waiting: its texts that wait, with their numbers, in the order in which they came.
        places: how many others are being written.
        since: when it last got a place, gave one up, or began to wait.
    """

    waiting: list[tuple[int, Text]] = field(default_factory=list)
    places: int = 0
    since: int = 0


class FairScheduler(Generic[Text]):
    """Places for texts, shared between clients.

    A place that becomes free goes to the client that holds fewest, of several to the one that has
    waited longest. A text gives its place up only at the end of a sentence, and only to another
    client: at once to one that holds fewer by two or more, and after a turn of some sentences to
    one that holds fewer by one. So nobody who waits is passed over for ever, and where nobody else
    waits, a text is written to its end.

    Args:
        places: how many texts are written at once.
    """

    def __init__(self, places: int) -> None:
        self._places = places
        self._texts: dict[Text, tuple[Hashable, int]] = {}  # and their numbers, as they came
        self._clients: dict[Hashable, _Client[Text]] = {}
        self._written: dict[Text, int] = {}  # sentences of those in hand, in their present turn
        self._numbers = count()
        self._clock = count(1)

    def __len__(self) -> int:
        return len(self._texts)

    def __contains__(self, text: Text) -> bool:
        return text in self._texts

    @property
    def running(self) -> list[Text]:
        """The texts that have places."""
        return list(self._written)

    def add(self, texts: Iterable[Text], *, client: Hashable) -> None:
        """Take texts in; each has a place at once, or waits for its turn."""
        for text in texts:
            number = next(self._numbers)
            self._texts[text] = (client, number)
            own = self._clients.setdefault(client, _Client())
            if not own.waiting:
                own.since = next(self._clock)
            own.waiting.append((number, text))
        self._share_out()

    def remove(self, text: Text) -> None:
        """Forget a text that has ended or is given up."""
        client = self._client(text)
        name, number = self._texts.pop(text)
        if self._written.pop(text, None) is None:
            del client.waiting[bisect_left(client.waiting, (number,))]
        else:
            client.places -= 1
        if not (client.places or client.waiting):
            del self._clients[name]
        self._share_out()

    def end_sentences(self, text: Text, number: int) -> None:
        """Take note that a text has got on; it gives up its place if that is another's turn."""
        if text not in self._written:
            return
        self._written[text] += number
        client = self._client(text)
        fewest = min((each.places for each in self._waiting()), default=client.places)
        turn_is_over = self._written[text] >= _TURN
        if fewest + 1 < client.places or (fewest < client.places and turn_is_over):
            del self._written[text]
            client.places -= 1
            client.since = next(self._clock)
            insort(client.waiting, (self._texts[text][1], text))
            self._share_out()

    def _share_out(self) -> None:
        """Give away the places that are free."""
        while len(self._written) < self._places and (waiting := self._waiting()):
            client = min(waiting, key=lambda each: (each.places, each.since))
            _, text = client.waiting.pop(0)
            self._written[text] = 0
            client.places += 1
            client.since = next(self._clock)

    def _waiting(self) -> list[_Client[Text]]:
        """The clients of whom a text waits."""
        return [client for client in self._clients.values() if client.waiting]

    def _client(self, text: Text) -> _Client[Text]:
        return self._clients[self._texts[text][0]]
