"""Continuous batching compared with the library's own generation, on a tiny model."""

from __future__ import annotations

import copy
from typing import Literal

import numpy as np
import pytest

from hammingmark.records import DecodingStep, Sampling

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from hammingmark.backends.batching.draws import RowSampling, pick, warp  # noqa: E402
from hammingmark.backends.batching.engine import BatchEngine, Continuation  # noqa: E402

GREEDY = Sampling(temperature=0.0)
on_cuda = pytest.param(
    "cuda",
    marks=[
        pytest.mark.cuda,
        pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    ],
)


@pytest.fixture(scope="module")
def model() -> object:
    """In double precision, because products are rounded differently in a batch than alone.

    In single precision this moves a logit by 1e-6, which changes the order of tokens somewhere.
    """
    with torch.random.fork_rng():
        torch.manual_seed(1)
        config = transformers.LlamaConfig(
            vocab_size=211,
            hidden_size=48,
            intermediate_size=64,
            num_hidden_layers=3,
            num_attention_heads=6,
            num_key_value_heads=2,
            max_position_embeddings=1024,
            initializer_range=0.3,
        )
        return transformers.LlamaForCausalLM(config).double().eval()


def prompt(length: int, seed: int) -> list[int]:
    return np.random.default_rng(seed).integers(3, 211, size=length).tolist()


def alone(model: object, tokens: list[int], count: int) -> list[int]:
    """The library's own greedy generation."""
    output = model.generate(  # type: ignore[attr-defined]
        torch.tensor([tokens], device=model.device),  # type: ignore[attr-defined]
        max_new_tokens=count,
        min_new_tokens=count,
        do_sample=False,
    )
    return output[0, len(tokens) :].tolist()


def run(
    slots: BatchEngine,
    prompts: list[list[int]],
    count: int,
    seed: int = 0,
    sampling: Sampling = GREEDY,
) -> list[list[int]]:
    """Draw ``count`` tokens for each in one batch, then free the slots."""
    continuations = [Continuation(tokens, seed + i, sampling) for i, tokens in enumerate(prompts)]
    return finish(slots, slots.begin(continuations), count)


def finish(slots: BatchEngine, numbers: list[int], count: int) -> list[list[int]]:
    drawn: dict[int, list[int]] = {number: [] for number in numbers}
    while min(map(len, drawn.values())) < count:
        for number, token in slots.step().items():
            drawn[number].append(token)
    for number in numbers:
        slots.end(number)
    return [drawn[number][:count] for number in numbers]


def test_side_by_side_is_as_alone(model: object) -> None:
    slots = BatchEngine(model, slots=5, length=700)
    prompts = [prompt(length, length) for length in (1, 3, 40, 300, 560)]
    assert run(slots, prompts, 12) == [alone(model, tokens, 12) for tokens in prompts]


def test_what_is_known_already_is_not_read_again_and_changes_nothing(model: object) -> None:
    slots = BatchEngine(model, slots=4, length=200)
    start = prompt(50, 1)
    first = run(slots, [start], 20)[0]
    # The same beginning with several continuations at once, and one that diverges half-way.
    prompts = [
        start + first[:10],
        start + first[:10] + prompt(5, 2),
        start[:30] + prompt(40, 3),
        start + prompt(30, 4),
    ]
    for _ in range(2):
        assert run(slots, prompts, 10) == [alone(model, tokens, 10) for tokens in prompts]


def test_a_busy_neighbour_can_be_copied(model: object) -> None:
    slots = BatchEngine(model, slots=3, length=200)
    start = prompt(40, 7)
    (busy,) = slots.begin([Continuation(start, 0, GREEDY)])
    drawn: list[int] = []
    while len(drawn) < 5:
        drawn += [token for slot, token in slots.step().items() if slot == busy]
    (copied,) = slots.begin([Continuation(start + drawn[:3], 0, GREEDY)])
    later: list[int] = []
    while len(later) < 8:
        for slot, token in slots.step().items():
            (drawn if slot == busy else later).append(token)
    assert copied != busy
    assert drawn == alone(model, start, len(drawn))
    assert later == alone(model, start + drawn[:3], len(later))


def test_a_seed_decides_and_company_does_not(model: object) -> None:
    one = BatchEngine(model, slots=1, length=100)
    many = BatchEngine(model, slots=4, length=100)
    prompts = [prompt(10 + i, 20 + i) for i in range(4)]
    together = run(many, prompts, 15, 5, Sampling())
    single = [run(one, [tokens], 15, 5 + i, Sampling())[0] for i, tokens in enumerate(prompts)]
    assert single == together
    assert run(one, [prompts[0]], 15, 6, Sampling())[0] != together[0]


@pytest.mark.parametrize("device", ["cpu", on_cuda])
def test_each_sequence_is_drawn_by_its_own_sampling(model: object, device: str) -> None:
    model = copy.deepcopy(model).to(device)  # type: ignore[attr-defined]
    ways = [Sampling(), GREEDY, Sampling(top_k=0, temperature=0.5), Sampling(top_p=0.4, min_p=0.1)]
    one, many = (BatchEngine(model, slots=slots, length=100) for slots in (1, 4))
    tokens = prompt(12, 30)
    continuations = [Continuation(tokens, 9, way) for way in ways]
    together = finish(many, many.begin(continuations), 12)
    assert [run(one, [tokens], 12, 9, way)[0] for way in ways] == together
    assert together[1] == alone(model, tokens, 12)
    assert len(set(map(tuple, together))) == len(ways)


class Forbid:
    """Allows only tokens above the sum of the last two, and records its inputs."""

    stage: Literal["logits", "distribution"] = "logits"
    width = 2
    condition_size = 0

    def process(self, scores: torch.Tensor, step: DecodingStep) -> torch.Tensor:
        assert step.contexts.shape == (len(scores), 2)
        assert step.tokens.shape == (1, scores.shape[1])
        least = step.contexts.sum(dim=1, keepdim=True) % 200
        return scores.masked_fill(step.tokens != least + 3, -1e9)


@pytest.mark.parametrize("device", ["cpu", on_cuda])
def test_logits_are_processed_for_those_that_ask(model: object, device: str) -> None:
    model = copy.deepcopy(model).to(device)  # type: ignore[attr-defined]
    slots = BatchEngine(model, slots=3, length=100)
    tokens = prompt(9, 31)
    rule = Forbid()
    continuations = [
        Continuation(tokens, 1, GREEDY),
        Continuation(tokens, 1, Sampling(), rule),
        Continuation(tokens[:1], 1, Sampling(top_k=0), rule),
    ]
    free, ruled, short = finish(slots, slots.begin(continuations), 10)
    assert free == alone(model, tokens, 10)

    def expected(known: list[int]) -> list[int]:
        known = list(known)
        for _ in range(10):
            last = ([-1] * 2 + known)[-2:]
            known.append(sum(last) % 200 + 3)
        return known[-10:]

    assert device == "cpu" or slots._graphs, "logits are processed inside the graph"
    assert ruled == expected(tokens)
    assert short == expected(tokens[:1])


def draw(
    logits: torch.Tensor,
    seeds: torch.Tensor,
    counts: torch.Tensor,
    sampling: RowSampling,
    *,
    kept: int,
) -> torch.Tensor:
    values, tokens = warp(logits, sampling, kept=kept)
    return pick(values, tokens, seeds, counts)


def in_rows(sampling: Sampling, count: int) -> RowSampling:
    values = (sampling.temperature, sampling.top_k, sampling.top_p, sampling.min_p)
    return RowSampling(*(torch.full((count,), value) for value in values))


@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(),
        Sampling(top_k=3),
        Sampling(top_k=0, temperature=0.7),
        Sampling(top_p=0.6),
        Sampling(min_p=0.3),
        Sampling(min_p=0.2, temperature=0.7),
    ],
)
def test_tokens_are_drawn_with_the_probabilities_asked_for(sampling: Sampling) -> None:
    logits = torch.tensor([2.0, 1.5, 1.0, 0.0, -1.0, -3.0])
    count = 60_000
    drawn = draw(
        logits.repeat(count, 1),
        torch.arange(count),
        torch.zeros(count, dtype=torch.long),
        in_rows(sampling, count),
        kept=6,
    )
    expected = torch.softmax(logits / sampling.temperature, dim=0)
    if sampling.top_k:
        expected[sampling.top_k :] = 0.0
    if sampling.top_p < 1.0:
        expected[expected.cumsum(0) - expected >= sampling.top_p] = 0.0
    expected[expected < sampling.min_p * expected.max()] = 0.0
    expected /= expected.sum()
    shares = torch.bincount(drawn, minlength=6) / count
    assert torch.allclose(shares, expected.float(), atol=0.008)


def test_draws_of_one_row_do_not_depend_on_each_other() -> None:
    """Successive counts under one seed: the chance of drawing the same twice is as it should be."""
    logits = torch.zeros(8)
    count = 40_000
    drawn = draw(
        logits.repeat(count, 1),
        torch.full((count,), 3),
        torch.arange(count),
        in_rows(Sampling(top_k=0), count),
        kept=8,
    )
    again = (drawn[1:] == drawn[:-1]).float().mean()
    assert abs(float(again) - 1 / 8) < 0.006


def reads(slots: BatchEngine, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Records the number of rows in each reading of prompts."""
    rows: list[int] = []
    whole = slots._read_together

    def counted(unread: list[tuple[int, list[int]]]) -> None:
        rows.extend([len(unread)] if unread else [])
        whole(unread)

    monkeypatch.setattr(slots, "_read_together", counted)
    return rows


def test_prompts_of_many_are_read_together_and_what_they_share_once(
    model: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    slots = BatchEngine(model, slots=9, length=200)
    rows = reads(slots, monkeypatch)
    prompts = [prompt(60, seed) for seed in (1, 2, 3) for _ in range(3)]
    assert run(slots, prompts, 6) == [alone(model, tokens, 6) for tokens in prompts]
    assert rows == [3]


def test_a_few_tokens_are_fed_and_hold_nobody_up(
    model: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    slots = BatchEngine(model, slots=6, length=200)
    starts = [prompt(60, seed) for seed in range(5)]
    slots.begin([Continuation(tokens, 0, GREEDY) for tokens in starts])
    rows = reads(slots, monkeypatch)
    longer = starts[0] + prompt(9, 9)
    (number,) = slots.begin([Continuation(longer, 0, GREEDY)])
    drawn: list[int] = []
    while len(drawn) < 6:
        drawn += [token for slot, token in slots.step().items() if slot == number]
    assert rows == []
    assert drawn == alone(model, longer, 6)


def test_what_others_go_on_from_is_overwritten_last(model: object) -> None:
    slots = BatchEngine(model, slots=4, length=200)
    starts = [prompt(30, seed) for seed in range(4)]
    run(slots, starts, 5)
    # One is new and must not take the slot that one of the other three continues.
    prompts = [prompt(30, 99), *starts[1:]]
    numbers = slots.begin([Continuation(tokens, 0, GREEDY) for tokens in prompts])
    assert len(set(numbers)) == 4
    read = [slots._slots.read[number] for number in numbers[1:]]
    assert read == [each[:-1] for each in starts[1:]]


class Favour:
    """Uses no earlier token, and allows one token."""

    stage: Literal["logits", "distribution"] = "logits"
    width = 0
    condition_size = 0

    def process(self, scores: torch.Tensor, step: DecodingStep) -> torch.Tensor:
        assert step.contexts.shape == (len(scores), 0)
        return scores.masked_fill(step.tokens != 77, float("-inf"))


@pytest.mark.parametrize("device", ["cpu", on_cuda])
def test_a_processor_need_not_look_back(model: object, device: str) -> None:
    model = copy.deepcopy(model).to(device)  # type: ignore[attr-defined]
    slots = BatchEngine(model, slots=1, length=60)
    numbers = slots.begin([Continuation(prompt(5, 1), 1, Sampling(), Favour())])
    assert finish(slots, numbers, 6) == [[77] * 6]


class TakeRank:
    """Of the tokens that may be drawn, allows the one whose rank the request names."""

    stage: Literal["logits", "distribution"] = "distribution"
    width = 40
    condition_size = 2

    def process(self, scores: torch.Tensor, step: DecodingStep) -> torch.Tensor:
        assert step.tokens.shape == scores.shape
        assert step.contexts.shape == (len(scores), 40)
        rank = torch.arange(scores.shape[1], device=scores.device)
        # The second number is of tokens from the start of the sequence.
        active = (step.contexts >= 0).sum(dim=1) >= step.conditions[:, 1]
        ranks = torch.where(active, step.conditions[:, 0], 0.0)
        masked = scores.masked_fill(rank != ranks[:, None], float("-inf"))
        return torch.where(torch.isfinite(masked).any(dim=1, keepdim=True), masked, scores)


@pytest.mark.parametrize("device", ["cpu", on_cuda])
def test_a_distribution_is_processed_after_sampling_as_each_request_says(
    model: object, device: str
) -> None:
    model = copy.deepcopy(model).to(device)  # type: ignore[attr-defined]
    slots = BatchEngine(model, slots=4, length=100)
    tokens, rule = prompt(9, 31), TakeRank()
    few = Sampling(top_k=5)
    conditions: list[tuple[int, int] | None] = [(1, 0), (2, 12), None, (5, 0)]
    continuations = [
        Continuation(tokens, 1, few, rule, None if each is None else np.array(each, np.float32))
        for each in conditions
    ]
    numbers = slots.begin(continuations)
    drawn = finish(slots, numbers, 6)

    def ranked(known: list[int]) -> list[int]:
        ids = torch.tensor([known], device=device)
        with torch.no_grad():
            return model(input_ids=ids).logits[0, -1].topk(6).indices.tolist()  # type: ignore

    for row, (rank, least) in enumerate([(1, 0), (2, 12), (0, 0)]):
        known = list(tokens)
        for token in drawn[row]:
            place = rank if len(known) >= least else 0
            assert token == ranked(known)[place]
            known.append(token)
    # None of the five tokens that top-k leaves is the sixth, so the row is drawn unchanged.
    assert drawn[3][0] in ranked(list(tokens))[:5]


def test_contexts_follow_a_sequence_into_another_slot(model: object) -> None:
    """What was read in one slot, copied to another and gone on from there is all in view."""
    slots = BatchEngine(model, slots=3, length=100)
    start = prompt(20, 5)
    contexts: list[list[list[int]]] = []

    class Watch(Favour):
        width = 24

        def process(self, scores: torch.Tensor, step: DecodingStep) -> torch.Tensor:
            contexts.append(step.contexts.tolist())
            return scores

    rule = Watch()
    (number,) = slots.begin([Continuation(start, 1, GREEDY, rule)])
    (drawn,) = finish(slots, [number], 3)
    slots.end(number)
    for ending in ([7, 8], [9]):
        slots.begin([Continuation([*start, *drawn, *ending], 1, GREEDY, rule)])
    for _ in range(6):
        slots.step()
        busy = sorted(slots._slots.busy)
        assert len(busy) == 2
        assert contexts[-1] == [([-1] * 24 + slots._slots.read[slot])[-24:] for slot in busy]


def test_what_no_step_changes_is_packed_once(
    model: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    slots = BatchEngine(model, slots=3, length=100)
    plans: list[object] = []
    whole = slots._make_plan
    monkeypatch.setattr(slots, "_make_plan", lambda lanes: plans.append(lanes) or whole(lanes))
    (number,) = slots.begin([Continuation(prompt(5, 1), 1, GREEDY)])
    for _ in range(10):
        assert slots.begin([]) == []
        slots.step()
    assert len(plans) == 1
    slots.begin([Continuation(prompt(5, 2), 1, GREEDY)])
    slots.step()
    slots.end(number)
    slots.step()
    assert len(plans) == 3


def test_a_tiny_temperature_keeps_to_top_k() -> None:
    logits = -torch.arange(1.0, 9.0).repeat(4, 1)
    drawn = draw(
        logits,
        torch.arange(4),
        torch.zeros(4, dtype=torch.long),
        in_rows(Sampling(temperature=1e-35, top_k=3), 4),
        kept=8,
    )
    assert drawn.tolist() == [0] * 4
