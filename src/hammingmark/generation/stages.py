"""The candidates for one sentence, drawn in stages: a promising beginning is kept.

A sentence is drawn a few words at a time. Its beginning is embedded and scored like a sentence, and
the policy (``generation.stopping``) says what it will take to get from there to a sentence that is
accepted. The next draw is always from the beginning from which that is least. What is accepted in
the end is accepted by the same rule as ever.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hammingmark.errors import Failure
from hammingmark.generation.candidates import Outcome, SentenceCandidates
from hammingmark.generation.config import SENTENCE_TOKENS
from hammingmark.generation.stopping import Stages
from hammingmark.generation.text import Addition
from hammingmark.records import Candidate, Choice, Cost, Request

Path = tuple[int, ...]
"""Which try it is, at each place on its way."""

_AHEAD = 8  # draws from one beginning at once
_ALONE = 8  # lanes of a text that has the model to itself
_COPY = 100.0  # by which a sentence that was said before comes behind all others


@dataclass(slots=True)
class _Draw:
    """What was drawn from a beginning, and came back.

    Attributes:
        tokens: drawn.
        length: tokens of the sentence so far.
        pieces: of the sentence so far.
        addition: what it adds, if it is whole and fits.
        begun: whether it is the beginning of a sentence, or of what stands before one.
        ended: whether it is a whole sentence, if only another follows.
        judged: whether there is anything to judge in it.
        silent: whether nothing was said.
        failure: why the model could not go on.
        back: characters before the sentence that are the beginning of a string to stop at.
    """

    tokens: int
    length: int
    pieces: tuple[str, ...]
    addition: Addition | None
    begun: bool
    ended: bool
    judged: bool
    silent: bool
    failure: Failure | None
    back: int
    repeated: bool = False
    waits: bool = False
    embedding: NDArray[np.float32] | None = None
    choice: Choice | None = None


@dataclass(slots=True)
class _Beginning:
    """A place to draw from.

    Attributes:
        path: by which it is known.
        pieces: what it begins with.
        length: tokens of it.
        score: of what it is so far.
        place: the last of the policy's places that it has reached.
        draws: how often it was drawn from.
        sure: whether to go on with it at once: it satisfies the rule if it is whole, or cannot be
            judged yet.
        whole: whether only what follows it is left to be seen.
        worth: tokens until a sentence is accepted from here.
    """

    path: Path
    pieces: tuple[str, ...]
    length: int
    score: float
    place: int = 0
    draws: int = 0
    sure: bool = False
    whole: bool = False
    worth: float = 0.0


class StagedCandidates(SentenceCandidates):
    """One sentence in the making, drawn in stages.

    Args:
        stages: where beginnings are judged, and what they are worth.
        given: as for `SentenceCandidates`.
    """

    def __init__(self, *given: Any, stages: Stages, **named: Any) -> None:
        super().__init__(*given, **named)
        self._stages = stages
        self._paths: dict[int, tuple[Path, _Beginning, int]] = {}  # and limit, of those under way
        self._found: dict[Path, _Draw] = {}
        self._walked: set[Path] = set()
        self._here = _Beginning((), (), 0, 0.0)
        self._beginnings = [self._here]
        self._texts: set[str] = set()  # of all beginnings
        self._last: _Beginning | None = None  # that is brought to its end
        self._value(self._here)
        self._ranked: list[tuple[float, Path]] = []  # whole sentences, refused
        self._ended: list[tuple[float, _Beginning]] = []  # the same but for what follows
        self._copies: list[Path] = []
        self._counts = dict.fromkeys(
            ("candidates", "drawn_tokens", "tried", "passed", "repeats", "misfits"), 0
        )
        self._silent: _Draw | None = None
        self._prose = False

    @property
    def under_way(self) -> list[int]:
        """Numbers of the requests that have not come back."""
        return list(self._paths)

    def wanted(self, acceptance: float, lanes: int) -> int:
        """The draws that are likely to be looked at next, beside others that are under way.

        Of a text that shares the model with many others, one at a time: a spare draw takes as
        long as one of another text that is needed.
        """
        likely = {path for path, _ in self._likely()}
        elsewhere = sum(path not in likely for path, _, _ in self._paths.values())
        return elsewhere + min(lanes if lanes >= _ALONE else 1, len(likely))

    def requests(
        self, width: int, numbers: Iterator[int], seed: Callable[..., int]
    ) -> Iterator[Request]:
        """New requests until ``width`` are under way.

        None that is farther ahead than one draw is likely to be: while the next one to be looked
        at is slow, others would be drawn without end.
        """
        asked = {path for path, _, _ in self._paths.values()}
        for path, here in self._likely():
            if len(self._paths) >= width:
                return
            if path in asked or path in self._found:
                continue
            request = self._request(here, next(numbers), seed(self.place.step, *path))
            self._paths[request.number] = (path, here, request.max_tokens)
            yield request

    def receive(self, candidate: Candidate) -> tuple[Path, str | None]:
        """Take what has come back: its path, and the sentence or beginning to embed, if any."""
        path, here, asked = self._paths.pop(candidate.number)
        # A string to stop at may have begun in the beginning from which this was drawn.
        whole, back = self._cut(replace(candidate, pieces=(*here.pieces, *candidate.pieces)))
        # A backend may hand over several tokens at once: the limit that was reached tells.
        length = here.length + (asked if candidate.cut else len(candidate.pieces))
        longest = min(self.left, self._config.max_sentence_tokens)
        addition = self.accepted.read(whole, cut=whole.cut and length >= self.left)
        begun = None
        goes_on = not (whole.finished or whole.failure) and length < longest
        if goes_on and (addition is None or not addition.sentence):
            begun = self.accepted.begun(whole.text)
            addition = None if begun is not None else addition
        self._found[path] = draw = _Draw(
            len(candidate.pieces),
            length,
            whole.pieces if begun is None else _without_end(whole.pieces),
            addition,
            begun=begun is not None,
            ended=begun is not None and begun[1],
            judged=addition is not None or (begun is not None and bool(begun[0])),
            silent=not whole.text.strip(),
            failure=whole.failure,
            back=back,
        )
        sentence = addition.sentence if addition else begun[0] if begun else ""
        if not sentence:
            return path, None
        draw.waits = True
        if addition is not None or draw.ended:
            draw.repeated = self.accepted.repeats(sentence) > self._config.most_repeated
        return path, sentence

    def place_embedding(self, path: Any, embedding: NDArray[np.float32]) -> None:
        """Tell the embedding (d,) of what a path led to."""
        self._found[path].embedding = embedding
        self._found[path].waits = False

    def abandon(self) -> list[int]:
        """Numbers of all requests under way, no longer waited for."""
        numbers = list(self._paths)
        self._paths.clear()
        return numbers

    def spare(self, judged: int) -> tuple[int, int]:
        """What came back and was never looked at, and its tokens."""
        unused = [draw.tokens for path, draw in self._found.items() if path not in self._walked]
        return len(unused), sum(unused)

    def guess(self) -> Outcome | None:
        """Nothing is begun on a guess."""
        return None

    def decide(self) -> tuple[Outcome | None, Cost]:
        """What the draws lead to, in the order of the policy, and what it took.

        The outcome is None if more are needed; `requests` then goes on from where the policy is.
        """
        outcome: Outcome | None = None
        while outcome is None:
            if (chosen := self._next()) is None:
                outcome = self._give_up()
                break
            self._here = chosen
            path = (*chosen.path, chosen.draws)
            draw = self._found.get(path)
            if draw is None or draw.waits:
                break
            chosen.draws += 1
            self._walked.add(path)
            self._counts["drawn_tokens"] += draw.tokens
            if draw.begun:
                self._go_on(chosen, path, draw)
            else:
                self._counts["candidates"] += 1
                outcome = self._read(path, draw)
            self._value(chosen)
        return outcome, Cost(**self._counts)

    def _next(self) -> _Beginning | None:
        """Where to draw from: where it takes least until a sentence is accepted.

        Once the budget is spent, the best sentence so far is brought to its end, or else the
        beginning that came last. None if all is done that can be.
        """
        if len(self._walked) < self.limit:
            return min(self._beginnings, key=lambda each: each.worth)
        if len(self._walked) >= 2 * self.limit:
            return None
        if self._last is not None and self._last.draws == 0:
            return self._last
        best = max(self._ranked, default=(-_COPY / 2.0 if self._copies else -np.inf, ()))
        nearly = max(self._ended, key=lambda each: each[0], default=None)
        if nearly is not None and nearly[0] > best[0]:
            self._ended.remove(nearly)
            self._last = nearly[1]
        elif self._ranked or self._copies:
            return None
        else:
            self._last = self._beginnings[-1]
        return self._last

    def _go_on(self, here: _Beginning, path: Path, draw: _Draw) -> None:
        """Take up a beginning, or a sentence that is whole if only another follows."""
        on = _Beginning(path, draw.pieces, draw.length, here.score, self._stages.place(draw.length))
        if not draw.judged:
            on.sure = True
        else:
            on.score = self._score(draw)
            on.whole = draw.ended
            on.sure = draw.ended and self._choice(draw).accepted
        text = "".join(on.pieces)
        if text in self._texts:
            return  # the same again
        self._texts.add(text)
        if on.whole and (draw.repeated or not on.sure):
            self._counts["candidates"] += 1
            self._counts["repeats" if draw.repeated else "tried"] += 1
            self._ended.append((on.score - _COPY * draw.repeated, on))
            return
        self._value(on)
        self._beginnings.append(on)

    def _read(self, path: Path, draw: _Draw) -> Outcome | None:
        """What a draw leads to that has come to its end: an outcome, or None if it is refused."""
        addition = draw.addition
        if addition is None and draw.failure:
            return Outcome(0, None, failure=draw.failure)
        if addition is None or (not addition.sentence and self._prose):
            self._silent = self._silent or (draw if draw.silent else None)
            self._counts["misfits"] += 1
            return None
        if not addition.sentence:
            return Outcome(0, addition)
        self._prose = True
        if draw.repeated:
            self._counts["repeats"] += 1
            self._copies.append(path)
            return None
        self._counts["tried"] += 1
        outcome = self._judged(path)
        if outcome.accepted:
            self._counts["passed"] += 1
            return outcome
        assert outcome.score is not None
        self._ranked.append((outcome.score, path))
        return None

    @property
    def limit(self) -> int:
        """Draws at most: as many tokens as the budget of whole sentences would take."""
        return max(1, self.budget * SENTENCE_TOKENS // self._stages.tokens)

    def _request(self, here: _Beginning, number: int, seed: int) -> Request:
        head = "".join(here.pieces)
        complete = self.accepted.enough()
        longest = min(self.left, self._config.max_sentence_tokens) - here.length
        if here.place + 1 < self._stages.places and not here.whole:
            longest = min(longest, max(1, self._stages.at(here.place + 1) - here.length))
        return Request(
            number=number,
            prompt=self.accepted.prompt,
            written=self.accepted.continued + self.accepted.spaced(head),
            seed=seed,
            max_tokens=longest,
            enough=self._or_stop(
                lambda text: complete(head + text) or self._may_be_whole(head, text), head
            ),
            sampling=self._sampling,
            logits=self._logits,
        )

    def _may_be_whole(self, head: str, more: str) -> bool:
        """Whether it is time to judge, before the next sentence is begun to see this one's end."""
        return bool(more.strip()) and self.accepted.may_be_whole(self.accepted.spaced(head + more))

    def _likely(self) -> Iterator[tuple[Path, _Beginning]]:
        """The draws that may be looked at next: from here, and from the next best beginning.

        From each as many as it takes, on average, until one is gone on with or accepted.
        """
        others = (each for each in self._beginnings if each is not self._here)
        for here in (self._here, min(others, key=lambda each: each.worth, default=None)):
            if here is None:
                continue
            chance = self._stages.gets_on(here.place, here.score, here.draws)
            ahead = 1 if here.sure and here.draws == 0 else math.ceil(1.0 / max(1e-3, chance))
            for number in range(here.draws, here.draws + min(ahead, _AHEAD)):
                yield (*here.path, number), here

    def _score(self, draw: _Draw) -> float:
        """Of a sentence or of its beginning."""
        return self._choice(draw).scores[0]

    def _choice(self, draw: _Draw) -> Choice:
        """What the rule says of a sentence or of its beginning."""
        if draw.choice is None:
            assert self._watermark is not None
            assert draw.embedding is not None
            draw.choice = self._watermark.choose(self.previous, draw.embedding[None])
        return draw.choice

    def _value(self, here: _Beginning) -> None:
        """Say what a beginning is worth, after all that was drawn from it."""
        if here.sure and here.draws == 0:
            here.worth = 0.0
            return
        here.worth = self._stages.cost(here.place, here.score, here.draws)

    def _judged(self, path: Path) -> Outcome:
        draw = self._found[path]
        choice = self._choice(draw)
        return Outcome(0, draw.addition, draw.embedding, choice.accepted, choice.scores[0])

    def _give_up(self) -> Outcome:
        """The budget is spent: keep the best sentence, or the last, or a copy, or end the text."""
        if self._ranked:
            last = self._config.fallback == "last"
            _, path = self._ranked[-1] if last else max(self._ranked)
        elif self._copies:
            path = self._copies[0]
        else:
            back = self._silent.back if self._silent else 0
            return Outcome(0, None, silent=self._silent is not None, back=back)
        return self._judged(path)


def _without_end(pieces: tuple[str, ...]) -> tuple[str, ...]:
    """Pieces without white space at their end: a model begins a word with its space."""
    kept = list(pieces)
    while kept and not kept[-1].strip():
        kept.pop()
    return (*kept[:-1], kept[-1].rstrip()) if kept else ()
