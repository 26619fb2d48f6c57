"""Whether a server continues an answer that is not finished, or begins a new one.

In a chat, each sentence continues the assistant's last message. vLLM, SGLang and llama.cpp do that;
hosted models refuse such a message or take it for finished, and their candidates would say the
beginning of the answer again and again. So each model of a server is asked first to go on with the
beginning of something that everybody knows. Only the next words, after a space, show that it does:
a new answer begins without a space, even one that happens to go on.

A server may answer this question well and begin other answers anew, such as a gateway to several
models. So if candidates begin anew, the question is asked again, and the model must also continue
the beginnings of its own answers to questions of ours. Candidates alone prove nothing: a client may
ask for sentences that repeat.

A model that thinks before it answers must see its reasoning in what it continues. Servers differ in
where they accept it, and some drop it. So when such a model has been seen to think, it is asked to
go on with sentences that stand in its reasoning only, and that nobody could guess.
"""

from __future__ import annotations

import asyncio
import math
import re
import time
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from weakref import WeakKeyDictionary

from hammingmark.errors import BackendError
from hammingmark.records import Message, Prompt, Reasoning
from hammingmark.text.reasoning import BEGIN, END

ANSWER_TOKENS = 8
"""The tokens in which a question must be answered."""

ASK_AGAIN = 300.0
"""Seconds after which a model that does not continue is asked again; its server may be repaired."""

_MOST_MODELS = 64
_WATCHED = 4  # candidates
_SUSPICIOUS = 3  # of them begin anew; continuations hardly ever do
_COMPARED = 5  # words
_PASSING = frozenset({401, 408, 429})  # statuses that say nothing about the question
_WORD = re.compile(r"\w+")
_SENTENCE_END = re.compile(r"[.!?。！？]")
_NEXT_SENTENCE = re.compile(r"(?<=[.!?])\s+")


@dataclass(frozen=True, slots=True)
class ContinuationWay:
    """How a server continues an answer.

    Attributes:
        is_inline: whether reasoning that came in a field is sent between tags in the text.
        is_reasoning: whether the server sends the continuation in the field of the reasoning: its
            parser has not seen that the reasoning was over.
    """

    is_inline: bool = False
    is_reasoning: bool = False


PLAIN = ContinuationWay()


@dataclass(frozen=True, slots=True)
class Question:
    """A sentence, and its parts.

    Attributes:
        begun: its beginning, which the assistant has written.
        follows: the words that follow, without white space around them.
        rest: the rest.
    """

    begun: str
    follows: str
    rest: str

    @property
    def prompt(self) -> Prompt:
        """A chat whose last message is the beginning of the sentence."""
        return Prompt(messages=(*self.control.messages, Message("assistant", self.begun)))

    @property
    def sentence(self) -> str:
        """The sentence."""
        return f"{self.begun} {self.follows}{self.rest}"

    @property
    def control(self) -> Prompt:
        """The same chat before the assistant has written anything."""
        content = f"Reply with exactly this sentence and nothing else: {self.sentence}"
        return Prompt(messages=(Message("user", content),))

    @property
    def thought(self) -> Prompt:
        """A chat whose last message is the beginning, where the sentence is in the reasoning."""
        asked = Message("user", "Think of a strange sentence, then write it down.")
        return Prompt(messages=(asked, Message("assistant", self.begun)))

    def reasoning(self, field: str) -> Reasoning:
        """The reasoning before that answer.

        Args:
            field: see `Reasoning`.
        """
        text = f"I will write exactly this sentence: {self.sentence}"
        return Reasoning(text if field else f"{BEGIN}\n{text}\n{END}\n\n", field)

    def is_continued(self, answer: str) -> bool:
        """Whether an answer goes on where the assistant stopped."""
        return answer[:1].isspace() and answer.lstrip().lower().startswith(self.follows.lower())


QUESTIONS = (
    Question("Monday, Tuesday, Wednesday,", "Thursday", ", Friday, Saturday, Sunday."),
    Question("One, two, three, four, five,", "six", ", seven, eight, nine, ten."),
    Question("To be, or not to be,", "that is", " the question."),
)
"""A model that continues any of them continues. The smallest ones do not continue all, always."""

THOUGHTS = (
    Question("The green lamp stands beside the", "violin", " in the kitchen."),
    Question("My uncle keeps seven", "goats", " behind the library."),
    Question("On Tuesday the baker sold her", "ladder", " to the judge."),
)
"""Sentences for the reasoning of models that think. A model that continues any of them has seen it.
"""

OPEN_QUESTIONS = (
    "Why is the sky blue?",
    "How is bread made?",
    "Where do birds spend the winter?",
)
"""A model whose candidates begin anew must continue its own answers to most of these."""

Ask = Callable[[str, Prompt, Reasoning | None, ContinuationWay], Awaitable[tuple[str, str]]]
"""Asks a model: its name, the prompt, the reasoning before the answer that is to be continued, and
how that is sent. Gives at most `ANSWER_TOKENS` of text, and of reasoning."""


@dataclass(slots=True)
class _Model:
    """What is known of one model, without reasoning or with reasoning in one place.

    Attributes:
        way: how it continues; None if it does not.
        is_known: whether that is known.
        asked: when it was asked, by the monotonic clock.
        is_suspected: whether candidates began anew, and it has not continued its own answers since.
        suspected: when that was last noticed.
        watched: of its latest continuations, whether each began anew.
    """

    way: ContinuationWay | None = None
    is_known: bool = False
    asked: float = -math.inf
    is_suspected: bool = False
    suspected: float = -math.inf
    watched: deque[bool] = field(default_factory=lambda: deque(maxlen=_WATCHED))


_Place = tuple[str, str | None]
"""A model, and the field of the reasoning before its answers; None without reasoning."""


class Continuation:
    """Whether each model of one server continues answers, by asking once.

    Args:
        ask: asks the server.
        known: the answer for all models, if it is known; nothing is asked then.
    """

    def __init__(self, ask: Ask, *, known: bool | None = None) -> None:
        self._ask = ask
        self._known = known
        self._models: OrderedDict[_Place, _Model] = OrderedDict()
        self._locks: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[_Place, asyncio.Lock]] = (
            WeakKeyDictionary()
        )

    async def is_supported(self, model: str) -> bool:
        """Whether a model continues answers, those after reasoning as well if it is known to think.

        Raises:
            BackendError: the server does not answer, or refuses every question.
        """
        if await self.way(model, None) is None:
            return False
        fields = [field for name, field in self._models if name == model and field is not None]
        return all([await self._way(model, field) for field in fields])

    def is_known(self, model: str) -> bool:
        """Whether a model is known to continue answers; asks nobody."""
        if self._known is not None:
            return self._known
        state = self._models.get((model, None))
        return state is not None and state.is_known and state.way is not None

    async def way(self, model: str, reasoning: Reasoning | None) -> ContinuationWay | None:
        """How a model continues answers; None if it does not. Asks the server if it is not known.

        Args:
            model: its name.
            reasoning: what it thought before the answer.

        Raises:
            BackendError: the server does not answer, or refuses every question.
        """
        return await self._way(model, reasoning.field if reasoning else None)

    async def _way(self, model: str, field: str | None) -> ContinuationWay | None:
        if self._known is not None:
            return PLAIN if self._known else None
        place = (model, field)
        locks = self._locks.setdefault(asyncio.get_running_loop(), {})
        async with locks.setdefault(place, asyncio.Lock()):
            state = self._state(place)
            is_old = time.monotonic() - state.asked > ASK_AGAIN
            if not state.is_known or (state.way is None and is_old):
                state.way = await self._find_out(model, field)
                if state.way and state.is_suspected:
                    is_restarting = await self._restarts_own_answers(model)
                    state.way = None if is_restarting else state.way
                state.is_suspected &= state.way is None
                state.asked, state.is_known = time.monotonic(), True
                state.watched.clear()
            return state.way

    def observe(self, model: str, begun: str, candidate: str) -> None:
        """Take note of a candidate; if it begins anew, or several do, the model is asked again.

        A small model that repeats itself does so, too, and is asked only now and then.

        Args:
            model: its name.
            begun: what the assistant had written.
            candidate: what the model wrote after it.
        """
        state = self._state((model, None))
        is_restart = self.is_restart(model, begun, candidate)
        state.watched.append(begins_anew(begun, candidate) or lacks_space(begun, candidate))
        is_suspicious = is_restart or sum(state.watched) >= _SUSPICIOUS
        if state.way and is_suspicious and self._may_suspect(state):
            state.is_known, state.is_suspected, state.suspected = False, True, time.monotonic()

    def is_restart(self, model: str, begun: str, candidate: str) -> bool:
        """Whether a candidate must wait until the model has been asked again (`way`).

        Args:
            model: its name.
            begun: what the assistant had written.
            candidate: what the model wrote after it.
        """
        state = self._state((model, None))
        if self._known is not None or not (state.is_suspected or self._may_suspect(state)):
            return False
        return lacks_space(begun, candidate) and begins_anew(begun, candidate, whole=True)

    def _may_suspect(self, state: _Model) -> bool:
        return time.monotonic() - state.suspected > ASK_AGAIN

    async def _find_out(self, model: str, field: str | None) -> ContinuationWay | None:
        if field is None:
            return await self._find_plain(model)
        ways = [PLAIN, ContinuationWay(is_inline=True)] if field else [PLAIN]
        for way in ways:
            for thought in THOUGHTS:
                try:
                    answer = await self._ask(model, thought.thought, thought.reasoning(field), way)
                except BackendError as error:
                    if not _is_refusal(error):
                        raise
                    break
                if accepted_way := _way_of(thought, answer, way):
                    return accepted_way
        return None

    async def _find_plain(self, model: str) -> ContinuationWay | None:
        for question in QUESTIONS:
            try:
                answer = await self._ask(model, question.prompt, None, PLAIN)
            except BackendError as error:
                if not _is_refusal(error):
                    raise
                # Raises if the server refuses everything.
                await self._ask(model, question.control, None, PLAIN)
                return None
            if way := _way_of(question, answer, PLAIN):
                return way
        return None

    async def _restarts_own_answers(self, model: str) -> bool:
        """Whether a model begins most answers anew that it has begun itself."""
        count = 0
        for number, question in enumerate(OPEN_QUESTIONS):
            turn = Message("user", question)
            begun, _ = await self._ask(model, Prompt(messages=(turn,)), None, PLAIN)
            begun = begun.rstrip()
            if begun:
                chat = Prompt(messages=(turn, Message("assistant", begun)))
                answer, _ = await self._ask(model, chat, None, PLAIN)
                # No sentence need have ended, so a capital without a space is a new beginning.
                count += begins_anew(begun, answer) or answer[:1].isupper()
            if 2 * count > len(OPEN_QUESTIONS) or number + 1 - count > len(OPEN_QUESTIONS) // 2:
                break
        return 2 * count > len(OPEN_QUESTIONS)

    def _state(self, place: _Place) -> _Model:
        state = self._models.setdefault(place, _Model())
        self._models.move_to_end(place)
        while len(self._models) > _MOST_MODELS:
            self._models.popitem(last=False)
        return state


def _way_of(
    question: Question, answer: tuple[str, str], way: ContinuationWay
) -> ContinuationWay | None:
    """How an answer continues a question that was sent in some way; None if it does not."""
    text, reasoning = answer
    if question.is_continued(text):
        return way
    return replace(way, is_reasoning=True) if question.is_continued(reasoning) else None


def _is_refusal(error: BackendError) -> bool:
    """Whether a server refuses a question; other errors say nothing about the question."""
    status = error.status or 0
    return 400 <= status < 500 and status not in _PASSING


def begins_anew(begun: str, candidate: str, *, whole: bool = False) -> bool:
    """Whether a candidate begins like the answer that it should continue.

    Args:
        begun: the answer so far.
        candidate: what the model wrote after it.
        whole: whether all words of the first sentence are compared, not five at most. One word
            alone says nothing.
    """
    if whole:
        first: list[str] = []
        for sentence in _NEXT_SENTENCE.split(begun.strip()):
            first += _WORD.findall(sentence.lower()) if len(first) < 2 else []
    else:
        first = _WORD.findall(_SENTENCE_END.split(begun.strip(), maxsplit=1)[0].lower())[:_COMPARED]
    return len(first) > 1 and _WORD.findall(candidate.lower())[: len(first)] == first


def lacks_space(begun: str, candidate: str) -> bool:
    """Whether a candidate begins a sentence without the space that separates it from the last one.

    Scripts without capitals, such as Chinese, need no space.
    """
    return begun[-1:] in frozenset(".!?") and candidate[:1].isupper()
