"""Continuous batching for a transformers model: slots, each with a sequence of its own.

Every step feeds one token to each busy slot and draws the next. A slot that is freed keeps what
it has read, so that a sequence with the same beginning copies it instead of reading it again.
On CUDA a step is one replay of a recorded graph over the first 16, 32, 64 ... slots, as many as
are needed, which costs the same however many of them are busy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from hammingmark.backends.batching.cache import SlotCache, attention_masks, without_gradients
from hammingmark.backends.batching.draws import RowSampling, pick, warp
from hammingmark.backends.batching.slots import SlotTable, common, tier
from hammingmark.protocols import LogitsProcessor
from hammingmark.records import DecodingStep, Sampling

_CHUNK = 512  # tokens of a prompt read at once
_ROWS = 32  # prompts read at once
_READING = 4  # steps in whose time a piece of a prompt is read
_STRETCH = 256  # attention spans are rounded up to multiples of this
_FEWEST_KEPT = 64  # likeliest tokens that are looked at, where top-k asks for fewer
_MOST_GRAPHS = 64
_PLAIN = Sampling()


@dataclass(frozen=True, slots=True)
class Continuation:
    """A sequence to be continued.

    Attributes:
        tokens: what it begins with, at least one.
        seed: decides the draws.
        sampling: how tokens are drawn.
        logits: what is done to the logits before.
        condition: what that is told about this sequence, (s,).
    """

    tokens: Sequence[int]
    seed: int
    sampling: Sampling = _PLAIN
    logits: LogitsProcessor | None = None
    condition: Any = None


class BatchEngine:
    """Sequences that are continued side by side, each with its own sampling.

    Args:
        model: a causal language model of transformers.
        slots: how many.
        length: tokens of the longest sequence.
    """

    def __init__(self, model: Any, *, slots: int, length: int) -> None:
        self._model = model
        self._device = model.device
        config = model.config.get_text_config()
        self._vocabulary = int(config.vocab_size)
        self._cache = SlotCache(slots, length, config.num_hidden_layers)
        self._length = length
        self._slots = SlotTable(slots)
        self._to_feed: list[list[int]] = [[] for _ in range(slots)]
        self._wanted: list[list[int]] = [[] for _ in range(slots)]
        self._held = [_IDLE] * slots
        self._drawn = [0] * slots
        self._all = torch.arange(slots, device=self._device)
        self._every_token = torch.arange(self._vocabulary, device=self._device)[None]
        # The tokens of each slot by their places; idle slots write into the last place.
        self._read = torch.zeros(slots, length + 1, dtype=torch.long, device=self._device)
        self._plan: _Plan | None = None  # until a slot is begun or ended
        self._recordable = True
        self._graphs: dict[_Recorded, tuple[Any, _Inputs, torch.Tensor]] = {}

    @property
    def free(self) -> int:
        """How many slots are not in use."""
        return len(self._slots) - len(self._slots.busy)

    def begin(self, wanted: Sequence[Continuation]) -> list[int]:
        """Continue sequences in free slots; the number of each one's slot."""
        if not wanted:
            return []
        self._plan = None
        slots: dict[int, int] = {}
        waiting = [(number, list(each.tokens)) for number, each in enumerate(wanted)]
        while waiting:
            found = [self._slots.longest(tokens[:-1]) for _, tokens in waiting]
            # What is not known is read in one go, unless it takes less of the slots' time to feed
            # it: reading holds up every busy slot for some steps, feeding only those that are fed.
            unknown = sum(len(each[1]) - 1 for each in waiting) - sum(known for _, known in found)
            reading = unknown > _READING * (len(self._slots.busy) + len(waiting))
            postponed: list[tuple[int, list[int]]] = []
            unread: list[tuple[int, list[int]]] = []
            for place, (number, tokens) in enumerate(waiting):
                source, known = self._slots.longest(tokens[:-1])
                # What begins like one that is about to be read can go on from it afterwards.
                if any(common(self._wanted[slot], tokens[:-1]) > known for slot, _ in unread):
                    postponed.append((number, tokens))
                    continue
                slot = self._slots.vacant(source, later={each for each, _ in found[place + 1 :]})
                if known and slot != source:
                    self._cache.copy(source, slot, known)
                    self._read[slot, :known] = self._read[source, :known]
                self._slots.take(slot, tokens[:known])
                self._wanted[slot] = tokens
                self._to_feed[slot] = tokens[known:]
                if reading and len(tokens) > known + 1:
                    unread.append((slot, tokens[known:-1]))
                    self._to_feed[slot] = tokens[-1:]
                self._held[slot] = wanted[number]
                self._drawn[slot] = 0
                slots[number] = slot
            self._read_together(unread)
            waiting = postponed
        return [slots[number] for number in range(len(wanted))]

    def end(self, slot: int) -> None:
        """Free a slot; what it has read is kept until another sequence takes it."""
        self._slots.leave(slot)
        self._plan = None

    def step(self) -> dict[int, int]:
        """One token more for every busy slot: what was drawn, by slot.

        A slot that is still being fed gives nothing.
        """
        rows = sorted(self._slots.busy)
        cuda = self._device.type == "cuda"
        lanes = list(range(min(len(self._slots), tier(rows[-1])))) if cuda else rows
        furthest = max(len(self._slots.read[slot]) for slot in rows) + 1
        span = min(self._length, -(-furthest // _STRETCH) * _STRETCH)
        inputs = self._inputs(lanes)
        if cuda:
            drawn = self._replay(inputs, span)
        else:
            leading = len(rows) == len(self._slots)
            drawn = self._forward(inputs, torch.tensor(rows), span, leading=leading)
        answers = drawn.tolist()
        found: dict[int, int] = {}
        for slot, answer in zip(lanes, answers, strict=True):
            if slot not in self._slots.busy:
                continue
            self._slots.add(slot, [self._to_feed[slot].pop(0)])
            if not self._to_feed[slot]:
                self._to_feed[slot].append(answer)
                self._drawn[slot] += 1
                found[slot] = answer
        return found

    def room(self, slot: int) -> int:
        """How many tokens a slot can still take."""
        return self._length - len(self._slots.read[slot]) - len(self._to_feed[slot])

    @without_gradients
    def logits(self, sequences: Sequence[Sequence[int]], *, last: int) -> torch.Tensor:
        """The logits after each of the ``last`` tokens of idle slots' sequences: (rows, last, V).

        All but those are read together, and those fed one by one: as when candidates are drawn.
        """
        self._read_together([(slot, list(each[:-last])) for slot, each in enumerate(sequences)])
        rows = self._all[: len(sequences)]
        found = []
        for place in range(-last, 0):
            fed = torch.tensor([each[place] for each in sequences], device=self._device)
            places = torch.tensor([len(each) + place for each in sequences], device=self._device)
            self._cache.rows, self._cache.positions = rows, places[:, None]
            self._cache.leading, self._cache.span = True, int(places.max()) + 1
            found.append(self._call(fed[:, None], places[:, None]))
        return torch.stack(found, dim=1)

    @without_gradients
    def _read_together(self, unread: Sequence[tuple[int, list[int]]]) -> None:
        """Read pieces of prompts without drawing anything, a chunk of each at a time."""
        waiting = list(unread)
        while waiting:
            group = waiting[:_ROWS]
            longest = min(_CHUNK, max(len(tokens) for _, tokens in group))
            begins = [len(self._slots.read[slot]) for slot, _ in group]
            fed = torch.zeros(len(group), longest, dtype=torch.long)
            # What a shorter piece lacks is written where idle slots write.
            places = torch.full_like(fed, self._length)
            for row, (begin, (_, tokens)) in enumerate(zip(begins, group, strict=True)):
                size = min(longest, len(tokens))
                fed[row, :size] = torch.tensor(tokens[:size])
                places[row, :size] = torch.arange(begin, begin + size)
            span = max(begins) + longest
            positions = places.to(self._device)
            fed = fed.to(self._device)
            self._cache.rows = torch.tensor([slot for slot, _ in group], device=self._device)
            self._read[self._cache.rows[:, None], positions] = fed
            self._cache.positions = positions
            self._cache.leading = False
            self._cache.span = min(span, self._length)
            self._call(fed, positions)
            rest = []
            for slot, tokens in group:
                self._slots.add(slot, tokens[:longest])
                if tokens[longest:]:
                    rest.append((slot, tokens[longest:]))
            waiting = rest + waiting[_ROWS:]

    def _inputs(self, lanes: Sequence[int]) -> _Inputs:
        """What a step needs to know of these slots; idle ones are fed anything."""
        if self._plan is None:
            self._plan = self._make_plan(lanes)
        plan = self._plan
        fed, places = [], []
        for slot in lanes:
            is_busy = slot in self._slots.busy
            fed.append(self._to_feed[slot][0] if is_busy else 0)
            places.append(len(self._slots.read[slot]) if is_busy else self._length)
        counts = [self._drawn[slot] for slot in lanes]
        rows = [fed, places, plan.seeds, counts, plan.top_k, plan.processed]
        return _Inputs(torch.tensor(rows, dtype=torch.long), plan)

    def _make_plan(self, lanes: Sequence[int]) -> _Plan:
        """What stays the same from step to step until a slot is begun or ended."""
        held = [self._held[slot] if slot in self._slots.busy else _IDLE for slot in lanes]
        processors = tuple(dict.fromkeys(each.logits for each in held if each.logits))
        # The likeliest token alone is what a temperature of 0 means.
        top_k = [each.sampling.top_k if each.sampling.temperature > 0.0 else 1 for each in held]
        most = self._vocabulary if 0 in top_k else max(top_k)
        parts = [
            [each.sampling.temperature or 1.0 for each in held],
            [each.sampling.top_p for each in held],
            [each.sampling.min_p for each in held],
        ]
        return _Plan(
            seeds=[each.seed for each in held],
            top_k=top_k,
            processed=[1 + processors.index(each.logits) if each.logits else 0 for each in held],
            parts=torch.tensor(parts, dtype=torch.float32),
            conditions=_conditions(held, processors).to(self._device),
            kept=min(self._vocabulary, max(_FEWEST_KEPT, 1 << (most - 1).bit_length())),
            processors=processors,
            asks_top_p=min(parts[1]) < 1.0,
            asks_min_p=max(parts[2]) > 0.0,
        )

    @without_gradients
    def _forward(
        self, inputs: _Inputs, rows: torch.Tensor, span: int, *, leading: bool
    ) -> torch.Tensor:
        """Feed one token to each row and draw the next: (rows,)."""
        tokens, places, seeds, counts, top_k, _ = inputs.whole
        self._cache.rows = rows
        self._cache.positions = places[:, None]
        self._cache.leading = leading
        self._cache.span = span
        self._read[rows, places] = tokens
        logits = self._call(tokens[:, None], places[:, None])
        logits = self._process("logits", logits, self._every_token, inputs, rows)
        plan = inputs.plan
        temperature, top_p, min_p = plan.parts
        rule = RowSampling(
            temperature,
            top_k,
            top_p if plan.asks_top_p else None,
            min_p if plan.asks_min_p else None,
        )
        values, likeliest = warp(logits, rule, kept=plan.kept)
        values = self._process("distribution", values, likeliest, inputs, rows)
        return pick(values, likeliest, seeds, counts)

    def _process(
        self,
        stage: str,
        scores: torch.Tensor,
        tokens: torch.Tensor,
        inputs: _Inputs,
        rows: torch.Tensor,
    ) -> torch.Tensor:
        """What the watermarks of a stage make of scores (rows, k), each of its own rows."""
        _, places, _, _, _, processed = inputs.whole
        plan = inputs.plan
        for number, processor in enumerate(plan.processors, start=1):
            if processor.stage != stage:
                continue
            contexts = self._contexts(rows, places, processor.width)
            conditions = plan.conditions[:, : processor.condition_size]
            changed = processor.process(scores, DecodingStep(tokens, contexts, conditions))
            scores = torch.where((processed == number)[:, None], changed, scores)
        return scores

    def _contexts(self, rows: torch.Tensor, places: torch.Tensor, width: int) -> torch.Tensor:
        """The last ``width`` tokens of each row, the one that is fed included; -1 before them."""
        wanted = places[:, None] + torch.arange(1 - width, 1, device=self._device)
        known = self._read[rows[:, None], wanted.clamp(min=0)]
        return known.masked_fill(wanted < 0, -1)

    def _call(self, tokens: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """Feed tokens (rows, q) to the rows that the cache is set to: logits (rows, V)."""
        outcome = self._model(
            input_ids=tokens,
            # Idle rows stand behind the last place, where a model may have no position.
            position_ids=positions.clamp(max=self._length - 1),
            attention_mask=attention_masks(self._model, positions, self._cache.span),
            past_key_values=self._cache,
            use_cache=True,
            logits_to_keep=1,
        )
        logits: torch.Tensor = outcome.logits[:, -1].float()
        return logits

    def _replay(self, inputs: _Inputs, span: int) -> torch.Tensor:
        """The same on CUDA, by a graph recorded once for each shape of a step.

        A model that cannot be recorded, such as one that sends tokens to experts, is called.
        """
        rows = self._all[: inputs.whole.shape[1]]
        known = (span, inputs.shape)
        if self._recordable and known not in self._graphs:
            while len(self._graphs) >= _MOST_GRAPHS:
                del self._graphs[next(iter(self._graphs))]
            try:
                self._record(known, inputs, rows)
            except RuntimeError:
                self._recordable = False
                torch.cuda.synchronize()
        if not self._recordable:
            return self._forward(inputs.to(self._device), rows, span, leading=True)
        graph, static, drawn = self._graphs[known]
        static.whole.copy_(inputs.whole)
        static.plan.parts.copy_(inputs.plan.parts)
        static.plan.conditions.copy_(inputs.plan.conditions)
        graph.replay()
        return drawn

    def _record(self, known: _Recorded, inputs: _Inputs, rows: torch.Tensor) -> None:
        """Record a step; a graph remembers addresses, so what it reads is kept."""
        span = known[0]
        static = inputs.to(self._device)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        # Idle places only: a step that is run to warm up must not write into a sequence.
        static.whole[1].fill_(self._length)
        with torch.cuda.stream(side):
            for _ in range(2):
                self._forward(static, rows, span, leading=True)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            drawn = self._forward(static, rows, span, leading=True)
        self._graphs[known] = (graph, static, drawn)


_IDLE = Continuation((), 0)
_Shape = tuple[int, int, bool, bool, tuple[LogitsProcessor, ...]]
_Recorded = tuple[int, _Shape]
"""By what a graph is known: the span, and what a step does."""


@dataclass(frozen=True, slots=True)
class _Plan:
    """What a step is told of its rows that no step changes.

    Attributes:
        seeds: of each row.
        top_k: likewise.
        processed: the number of each row's processor of logits, or 0.
        parts: temperature, top-p and min-p, float32, (3, rows).
        conditions: what each row's processor is told, float32, (rows, s).
        kept: how many of the likeliest tokens are looked at.
        processors: of the logits, numbered from 1.
        asks_top_p: whether any row asks for top-p.
        asks_min_p: likewise.
    """

    seeds: list[int]
    top_k: list[int]
    processed: list[int]
    parts: torch.Tensor
    conditions: torch.Tensor
    kept: int
    processors: tuple[LogitsProcessor, ...]
    asks_top_p: bool
    asks_min_p: bool


@dataclass(frozen=True, slots=True)
class _Inputs:
    """What one step is told of its rows.

    Attributes:
        whole: token, place, seed, count, top-k and number of the processor: long, (6, rows).
        plan: the rest.
    """

    whole: torch.Tensor
    plan: _Plan

    @property
    def shape(self) -> _Shape:
        """By what a recorded step is known again, beside its span."""
        plan = self.plan
        return len(plan.seeds), plan.kept, plan.asks_top_p, plan.asks_min_p, plan.processors

    def to(self, device: torch.device) -> _Inputs:
        """The same on a device."""
        parts, conditions = self.plan.parts.to(device), self.plan.conditions.clone()
        return _Inputs(
            self.whole.to(device), replace(self.plan, parts=parts, conditions=conditions)
        )


def _conditions(
    held: Sequence[Continuation], processors: Sequence[LogitsProcessor]
) -> torch.Tensor:
    """What each row's processor is told: (rows, s), s the most that any wants to know."""
    size = max((each.condition_size for each in processors), default=0)
    found = torch.zeros(len(held), size)
    for row, each in enumerate(held):
        if each.condition is not None:
            told = torch.as_tensor(each.condition)
            found[row, : len(told)] = told
    return found
