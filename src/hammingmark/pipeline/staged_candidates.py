"""The candidates for one sentence, drawn in stages: a promising beginning is kept.

A sentence is drawn a few words at a time. Its beginning is embedded and scored like a sentence, and
the policy (``core.stopping``) says whether to go on with it or to draw from an earlier place
again. What is accepted in the end is accepted by the same rule as ever.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hammingmark.core.stopping import Stages, told
from hammingmark.pipeline.accepted_text import Addition
from hammingmark.pipeline.sentence_candidates import Outcome, SentenceCandidates
from hammingmark.records import Candidate, Choice, Cost, Request

Path = tuple[int, ...]
"""Which try it is, at each place on its way."""

_SENTENCE = 24  # tokens of a sentence, on average


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
    """

    tokens: int
    length: int
    pieces: tuple[str, ...]
    addition: Addition | None
    begun: bool
    ended: bool
    judged: bool
    silent: bool
    trouble: str | None
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
        mean: what its sentence's score will be on average.
        tries: how often it was drawn from.
        sure: whether to go on with it at once, to the end of its sentence: it satisfies the rule
            if it is whole, or cannot be judged yet.
    """

    path: Path
    pieces: tuple[str, ...]
    length: int
    mean: float
    tries: int = 0
    sure: bool = False


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

    @property
    def under_way(self) -> list[int]:
        """Numbers of the requests that have not come back."""
        return list(self._paths)

    def wanted(self, acceptance: float, lanes: int) -> int:
        """As many as it takes, on average, to get on from here, beside those from elsewhere."""
        elsewhere = sum(path[:-1] != self._here.path for path, _, _ in self._paths.values())
        return elsewhere + min(lanes, self._ahead)

    def requests(
        self, width: int, numbers: Iterator[int], seed: Callable[..., int]
    ) -> Iterator[Request]:
        """New requests until ``width`` are under way, all from where the walk has come to.

        None that is farther ahead than one draw is likely to be: while the next one to be looked
        at is slow, others would be drawn without end.
        """
        here = self._here
        asked = {path for path, _, _ in self._paths.values()}
        number = here.tries
        while len(self._paths) < width and number < here.tries + self._ahead:
            path = (*here.path, number)
            number += 1
            if path in asked or path in self._found:
                continue
            request = self._request(here, next(numbers), seed(self.place.step, *path))
            self._paths[request.number] = (path, here, request.max_tokens)
            yield request

    def receive(self, candidate: Candidate) -> tuple[Path, str | None]:
        """Take what has come back: its path, and the sentence or beginning to embed, if any."""
        path, here, asked = self._paths.pop(candidate.number)
        whole = replace(candidate, pieces=(*here.pieces, *candidate.pieces))
        # A backend may hand over several tokens at once: the limit that was reached tells.
        length = here.length + (asked if candidate.cut else len(candidate.pieces))
        longest = min(self.left, self._config.max_sentence_tokens)
        addition = self.accepted.read(whole, cut=candidate.cut and length >= self.left)
        begun = None
        goes_on = not (candidate.finished or candidate.trouble) and length < longest
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
            trouble=candidate.trouble,
        )
        sentence = addition.sentence if addition else begun[0] if begun else ""
        if not sentence:
            return path, None
        draw.waits = True
        if addition is not None:
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
        ways = [_Beginning((), (), 0, 0.0)]
        ranked: list[tuple[float, Path]] = []
        copies: list[Path] = []
        ended: list[tuple[float, _Beginning]] = []  # whole sentences but for what follows, refused
        counts = dict.fromkeys(
            ("candidates", "drawn_tokens", "tried", "passed", "repeats", "misfits"), 0
        )
        self._walked = set()
        silent = prose = False
        outcome: Outcome | None = None
        while outcome is None:
            spent = len(self._walked) >= self.limit
            if spent and (ranked or copies or len(self._walked) >= 2 * self.limit):
                outcome = self._give_up(ranked, copies, silent=silent)
                break
            if spent and ended:
                ways.append(max(ended, key=lambda each: each[0])[1])
                ended = []
            if not spent:
                del ways[1 + min(range(len(ways)), key=lambda i: self._worth(ways[i])) :]
            here = ways[-1]
            path = (*here.path, here.tries)
            draw = self._found.get(path)
            if draw is None or draw.waits:
                self._here = here
                return None, Cost(**counts)
            here.tries += 1
            self._walked.add(path)
            counts["drawn_tokens"] += draw.tokens
            if draw.begun:
                mean = self._mean(draw) if draw.judged else here.mean
                sure = draw.ended or not draw.judged
                on = _Beginning(path, draw.pieces, draw.length, mean, sure=sure)
                if spent or not draw.judged or self._is_promising(on, here, draw):
                    ways.append(on)
                else:
                    counts["candidates"] += 1
                    counts["tried"] += draw.ended
                    ended += [(self._score(draw), on)] * draw.ended
                continue
            counts["candidates"] += 1
            addition = draw.addition
            if addition is None and draw.trouble:
                outcome = Outcome(0, None, trouble=draw.trouble)
            elif addition is None or (not addition.sentence and prose):
                silent = silent or draw.silent
                counts["misfits"] += 1
            elif not addition.sentence:
                outcome = Outcome(0, addition)
            else:
                prose = True
                if draw.repeated:
                    counts["repeats"] += 1
                    copies.append(path)
                    continue
                counts["tried"] += 1
                outcome = self._judged(path)
                if outcome.accepted:
                    counts["passed"] += 1
                else:
                    assert outcome.score is not None
                    ranked.append((outcome.score, path))
                    outcome = None
        return outcome, Cost(**counts)

    @property
    def limit(self) -> int:
        """Draws at most: as many tokens as the budget of whole sentences would take."""
        return self.budget * max(1, _SENTENCE // self._stages.tokens)

    def _request(self, here: _Beginning, number: int, seed: int) -> Request:
        head = "".join(here.pieces)
        complete = self.accepted.enough()
        place = self._place(here)
        longest = min(self.left, self._config.max_sentence_tokens) - here.length
        if place + 1 < self._stages.places and not here.sure:
            longest = min(longest, max(1, self._stages.at(place + 1) - here.length))
        return Request(
            number=number,
            prompt=self.accepted.prompt,
            written=self.accepted.written + self.accepted.spaced(head),
            seed=seed,
            max_tokens=longest,
            enough=lambda text: complete(head + text) or self._may_be_whole(head, text),
            sampling=self._sampling,
            logits=self._logits,
        )

    def _may_be_whole(self, head: str, more: str) -> bool:
        """Whether it is time to judge, before the next sentence is begun to see this one's end."""
        return bool(more.strip()) and self.accepted.may_be_whole(self.accepted.spaced(head + more))

    @property
    def _ahead(self) -> int:
        """Draws from here until one goes on or is done, on average."""
        return max(1, round(self._stages.tries(self._place(self._here), self._here.mean)))

    def _place(self, here: _Beginning) -> int:
        return min(len(here.path), self._stages.places - 1)

    def _score(self, draw: _Draw) -> float:
        """Of a sentence or of its beginning."""
        return self._choice(draw).scores[0]

    def _choice(self, draw: _Draw) -> Choice:
        """What the rule says of a sentence or of its beginning; every walk asks again."""
        if draw.choice is None:
            assert self._watermark is not None
            assert draw.embedding is not None
            draw.choice = self._watermark.choose(self.previous, draw.embedding[None])
        return draw.choice

    def _mean(self, draw: _Draw) -> float:
        """What the score of a sentence with this beginning will be on average."""
        return self._score(draw) * (1.0 if draw.ended else told(draw.length))

    def _is_promising(self, on: _Beginning, here: _Beginning, draw: _Draw) -> bool:
        """Whether to go on with what was drawn from a beginning; to its end, if that is near."""
        if draw.ended:
            return bool(on.mean >= np.float32(self._stages.threshold))
        return self._worth(on) < self._worth(here)

    def _worth(self, here: _Beginning) -> float:
        """Tokens until a sentence is accepted from here, with what was drawn in vain in mind."""
        if here.sure and here.tries == 0:
            return 0.0
        left = self._stages.cost_after(self._place(here), here.mean, here.tries)
        return left + self._stages.price(here.length)

    def _judged(self, path: Path) -> Outcome:
        draw = self._found[path]
        choice = self._choice(draw)
        return Outcome(0, draw.addition, draw.embedding, choice.accepted, choice.scores[0])

    def _give_up(
        self, ranked: list[tuple[float, Path]], copies: list[Path], *, silent: bool
    ) -> Outcome:
        """The budget is spent: keep the best sentence, or the last, or a copy, or end the text."""
        if ranked:
            last = self._config.fallback == "last"
            _, path = ranked[-1] if last else max(ranked, key=lambda each: each[0])
        elif copies:
            path = copies[0]
        else:
            return Outcome(0, None, silent=silent)
        return replace(self._judged(path), fallback=True)


def _without_end(pieces: tuple[str, ...]) -> tuple[str, ...]:
    """Pieces without white space at their end: a model begins a word with its space."""
    kept = list(pieces)
    while kept and not kept[-1].strip():
        kept.pop()
    return (*kept[:-1], kept[-1].rstrip()) if kept else ()
