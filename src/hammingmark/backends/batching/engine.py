"""Continuous batching for a transformers model: slots, each with a sequence of its own.

Every step feeds one token to each busy slot and draws the next. A slot that is freed keeps its
cache, so that a sequence with the same beginning copies it instead of reading the beginning again.
On CUDA a step replays a recorded graph over the first 16, 32, 64 ... slots, as many as are needed;
its cost does not depend on how many of these are busy.
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
_CHUNK_COST = 4  # steps: the time in which a chunk of a prompt is read
_STRETCH = 256  # attention spans are rounded up to multiples of this
_FEWEST_KEPT = 64  # likeliest tokens that are considered even if top-k is smaller
_MOST_GRAPHS = 64
_PLAIN = Sampling()


@dataclass(frozen=True, slots=True)
class Continuation:
    """A sequence to be continued.

    Attributes:
        tokens: its beginning, at least one token.
        seed: of the draws.
        sampling: how tokens are drawn.
        logits: the processor of its logits.
        condition: what the processor must know about this sequence, (s,).
    """

    tokens: Sequence[int]
    seed: int
    sampling: Sampling = _PLAIN
    logits: LogitsProcessor | None = None
    condition: Any = None


class BatchEngine:
    """A batch of sequences that are continued together, each with its own sampling.

    Args:
        model: a causal language model of transformers.
        slots: their number.
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
        self._beginnings: list[list[int]] = [[] for _ in range(slots)]
        self._continuations = [_IDLE] * slots
        self._drawn = [0] * slots
        self._all = torch.arange(slots, device=self._device)
        self._every_token = torch.arange(self._vocabulary, device=self._device)[None]
        # The tokens of each slot by their places; idle slots write to the last place.
        self._read = torch.zeros(slots, length + 1, dtype=torch.long, device=self._device)
        self._plan: _Plan | None = None  # valid until a slot is begun or ended
        self._recordable = True
        self._graphs: dict[_GraphKey, tuple[Any, _Inputs, torch.Tensor]] = {}

    @property
    def free(self) -> int:
        """How many slots are not in use."""
        return len(self._slots) - len(self._slots.busy)

    def begin(self, continuations: Sequence[Continuation]) -> list[int]:
        """Continue sequences in free slots; return the slot of each."""
        if not continuations:
            return []
        self._plan = None
        slots: dict[int, int] = {}
        waiting = [(number, list(each.tokens)) for number, each in enumerate(continuations)]
        while waiting:
            prefixes = [self._slots.longest(tokens[:-1]) for _, tokens in waiting]
            # Unknown tokens are read in chunks, unless feeding them one by one takes less of the
            # slots' time: reading delays every busy slot by some steps, feeding only the slot fed.
            unknown = sum(len(tokens) - 1 for _, tokens in waiting)
            unknown -= sum(known for _, known in prefixes)
            reading = unknown > _CHUNK_COST * (len(self._slots.busy) + len(waiting))
            postponed: list[tuple[int, list[int]]] = []
            unread: list[tuple[int, list[int]]] = []
            for place, (number, tokens) in enumerate(waiting):
                source, known = self._slots.longest(tokens[:-1])
                # If it shares more with a sequence about to be read, it waits and copies that.
                if any(common(self._beginnings[slot], tokens[:-1]) > known for slot, _ in unread):
                    postponed.append((number, tokens))
                    continue
                slot = self._slots.vacant(source, later={each for each, _ in prefixes[place + 1 :]})
                if known and slot != source:
                    self._cache.copy(source, slot, known)
                    self._read[slot, :known] = self._read[source, :known]
                self._slots.take(slot, tokens[:known])
                self._beginnings[slot] = tokens
                self._to_feed[slot] = tokens[known:]
                if reading and len(tokens) > known + 1:
                    unread.append((slot, tokens[known:-1]))
                    self._to_feed[slot] = tokens[-1:]
                self._continuations[slot] = continuations[number]
                self._drawn[slot] = 0
                slots[number] = slot
            self._read_together(unread)
            waiting = postponed
        return [slots[number] for number in range(len(continuations))]

    def end(self, slot: int) -> None:
        """Free a slot; its cache remains until another sequence takes the slot."""
        self._slots.leave(slot)
        self._plan = None

    def step(self) -> dict[int, int]:
        """Draw one token for every busy slot; return the tokens by slot.

        A slot whose beginning is still being fed has none.
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
        tokens: dict[int, int] = {}
        for slot, token in zip(lanes, drawn.tolist(), strict=True):
            if slot not in self._slots.busy:
                continue
            self._slots.add(slot, [self._to_feed[slot].pop(0)])
            if not self._to_feed[slot]:
                self._to_feed[slot].append(token)
                self._drawn[slot] += 1
                tokens[slot] = token
        return tokens

    def room(self, slot: int) -> int:
        """How many tokens a slot can still take."""
        return self._length - len(self._slots.read[slot]) - len(self._to_feed[slot])

    @without_gradients
    def logits(self, sequences: Sequence[Sequence[int]], *, last: int) -> torch.Tensor:
        """Logits after each of the ``last`` tokens of sequences in idle slots: (rows, last, V).

        The tokens before are read together and the last are fed one by one, as in drawing.
        """
        self._read_together([(slot, list(each[:-last])) for slot, each in enumerate(sequences)])
        rows = self._all[: len(sequences)]
        logits = []
        for place in range(-last, 0):
            fed = torch.tensor([each[place] for each in sequences], device=self._device)
            places = torch.tensor([len(each) + place for each in sequences], device=self._device)
            self._cache.rows, self._cache.positions = rows, places[:, None]
            self._cache.leading, self._cache.span = True, int(places.max()) + 1
            logits.append(self._call(fed[:, None], places[:, None]))
        return torch.stack(logits, dim=1)

    @without_gradients
    def _read_together(self, unread: Sequence[tuple[int, list[int]]]) -> None:
        """Read tokens into slots without drawing, one chunk of each slot at a time."""
        waiting = list(unread)
        while waiting:
            group = waiting[:_ROWS]
            longest = min(_CHUNK, max(len(tokens) for _, tokens in group))
            begins = [len(self._slots.read[slot]) for slot, _ in group]
            fed = torch.zeros(len(group), longest, dtype=torch.long)
            # The padding of shorter chunks is written where idle slots write.
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
        """The inputs of a step for these slots; idle slots are fed token 0."""
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
        """The inputs that stay the same from step to step until a slot is begun or ended."""
        rows = [self._continuations[slot] if slot in self._slots.busy else _IDLE for slot in lanes]
        processors = tuple(dict.fromkeys(row.logits for row in rows if row.logits))
        # A temperature of 0 means the likeliest token.
        top_k = [row.sampling.top_k if row.sampling.temperature > 0.0 else 1 for row in rows]
        most = self._vocabulary if 0 in top_k else max(top_k)
        parts = [
            [row.sampling.temperature or 1.0 for row in rows],
            [row.sampling.top_p for row in rows],
            [row.sampling.min_p for row in rows],
        ]
        return _Plan(
            seeds=[row.seed for row in rows],
            top_k=top_k,
            processed=[1 + processors.index(row.logits) if row.logits else 0 for row in rows],
            parts=torch.tensor(parts, dtype=torch.float32),
            conditions=_conditions(rows, processors).to(self._device),
            kept=min(self._vocabulary, max(_FEWEST_KEPT, 1 << (most - 1).bit_length())),
            processors=processors,
            uses_top_p=min(parts[1]) < 1.0,
            uses_min_p=max(parts[2]) > 0.0,
        )

    @without_gradients
    def _forward(
        self, inputs: _Inputs, rows: torch.Tensor, span: int, *, leading: bool
    ) -> torch.Tensor:
        """Feed one token to each row and draw the next: (rows,)."""
        tokens, places, seeds, counts, top_k, _ = inputs.tokens
        self._cache.rows = rows
        self._cache.positions = places[:, None]
        self._cache.leading = leading
        self._cache.span = span
        self._read[rows, places] = tokens
        logits = self._call(tokens[:, None], places[:, None])
        logits = self._process("logits", logits, self._every_token, inputs, rows)
        plan = inputs.plan
        temperature, top_p, min_p = plan.parts
        sampling = RowSampling(
            temperature,
            top_k,
            top_p if plan.uses_top_p else None,
            min_p if plan.uses_min_p else None,
        )
        values, likeliest = warp(logits, sampling, kept=plan.kept)
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
        """Apply the logits processors of a stage to scores (rows, k), each to its own rows."""
        _, places, _, _, _, processed = inputs.tokens
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
        """The last ``width`` tokens of each row, with the one that is fed; -1 before the first."""
        columns = places[:, None] + torch.arange(1 - width, 1, device=self._device)
        contexts = self._read[rows[:, None], columns.clamp(min=0)]
        return contexts.masked_fill(columns < 0, -1)

    def _call(self, tokens: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """Feed tokens (rows, q) to the rows to which the cache is set: logits (rows, V)."""
        output = self._model(
            input_ids=tokens,
            # Idle rows are at the place after the last, for which the model may have no position.
            position_ids=positions.clamp(max=self._length - 1),
            attention_mask=attention_masks(self._model, positions, self._cache.span),
            past_key_values=self._cache,
            use_cache=True,
            logits_to_keep=1,
        )
        logits: torch.Tensor = output.logits[:, -1].float()
        return logits

    def _replay(self, inputs: _Inputs, span: int) -> torch.Tensor:
        """A step on CUDA, by a graph that is recorded once for each shape of a step.

        A model that cannot be recorded, such as one that routes tokens to experts, is called.
        """
        rows = self._all[: inputs.tokens.shape[1]]
        key = (span, inputs.shape)
        if self._recordable and key not in self._graphs:
            while len(self._graphs) >= _MOST_GRAPHS:
                del self._graphs[next(iter(self._graphs))]
            try:
                self._record(key, inputs, rows)
            except RuntimeError:
                self._recordable = False
                torch.cuda.synchronize()
        if not self._recordable:
            return self._forward(inputs.to(self._device), rows, span, leading=True)
        graph, static, drawn = self._graphs[key]
        static.tokens.copy_(inputs.tokens)
        static.plan.parts.copy_(inputs.plan.parts)
        static.plan.conditions.copy_(inputs.plan.conditions)
        graph.replay()
        return drawn

    def _record(self, key: _GraphKey, inputs: _Inputs, rows: torch.Tensor) -> None:
        """Record a step as a graph and keep its inputs, whose addresses the graph holds."""
        span = key[0]
        static = inputs.to(self._device)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        # Only the place of idle slots: the steps that warm up must not write into a sequence.
        static.tokens[1].fill_(self._length)
        with torch.cuda.stream(side):
            for _ in range(2):
                self._forward(static, rows, span, leading=True)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            drawn = self._forward(static, rows, span, leading=True)
        self._graphs[key] = (graph, static, drawn)


_IDLE = Continuation((), 0)
_Shape = tuple[int, int, bool, bool, tuple[LogitsProcessor, ...]]
_GraphKey = tuple[int, _Shape]
"""The span, and the shape of a step."""


@dataclass(frozen=True, slots=True)
class _Plan:
    """The inputs of steps that no step changes.

    Attributes:
        seeds: of each row.
        top_k: likewise.
        processed: the number of each row's logits processor, or 0.
        parts: temperature, top-p and min-p, float32, (3, rows).
        conditions: of each row's processor, float32, (rows, s).
        kept: how many of the likeliest tokens are considered.
        processors: of the logits, numbered from 1.
        uses_top_p: whether any row uses top-p.
        uses_min_p: likewise.
    """

    seeds: list[int]
    top_k: list[int]
    processed: list[int]
    parts: torch.Tensor
    conditions: torch.Tensor
    kept: int
    processors: tuple[LogitsProcessor, ...]
    uses_top_p: bool
    uses_min_p: bool


@dataclass(frozen=True, slots=True)
class _Inputs:
    """The inputs of one step.

    Attributes:
        tokens: token, place, seed, count, top-k and number of the processor: long, (6, rows).
        plan: the others.
    """

    tokens: torch.Tensor
    plan: _Plan

    @property
    def shape(self) -> _Shape:
        """What a recorded step depends on, besides its span."""
        plan = self.plan
        return len(plan.seeds), plan.kept, plan.uses_top_p, plan.uses_min_p, plan.processors

    def to(self, device: torch.device) -> _Inputs:
        """A copy on a device."""
        parts, conditions = self.plan.parts.to(device), self.plan.conditions.clone()
        return _Inputs(
            self.tokens.to(device), replace(self.plan, parts=parts, conditions=conditions)
        )


def _conditions(
    rows: Sequence[Continuation], processors: Sequence[LogitsProcessor]
) -> torch.Tensor:
    """The condition of each row's processor: (rows, s), s the largest condition size."""
    size = max((processor.condition_size for processor in processors), default=0)
    conditions = torch.zeros(len(rows), size)
    for number, row in enumerate(rows):
        if row.condition is not None:
            condition = torch.as_tensor(row.condition)
            conditions[number, : len(condition)] = condition
    return conditions
