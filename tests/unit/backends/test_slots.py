"""Continuous batching against the library's own generation, on a tiny model made here."""

from __future__ import annotations

import numpy as np
import pytest

from hammingmark.records import Sampling

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from hammingmark.backends.slots import Slots, draw  # noqa: E402

GREEDY = Sampling(temperature=0.0)


@pytest.fixture(scope="module")
def model() -> object:
    """In double precision: in company a product is rounded otherwise than alone.

    In single precision that moves a logit by 1e-6, and on some machine the second becomes first.
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
    """What the library's own greedy generation gives."""
    made = model.generate(  # type: ignore[attr-defined]
        torch.tensor([tokens]), max_new_tokens=count, min_new_tokens=count, do_sample=False
    )
    return made[0, len(tokens) :].tolist()


def run(slots: Slots, wanted: list[list[int]], count: int, seed: int = 0) -> list[list[int]]:
    """Draw ``count`` tokens for each, side by side, then free the slots."""
    numbers = slots.begin([(tokens, seed + i) for i, tokens in enumerate(wanted)])
    found: dict[int, list[int]] = {number: [] for number in numbers}
    while min(map(len, found.values())) < count:
        for number, token in slots.step().items():
            found[number].append(token)
    for number in numbers:
        slots.end(number)
    return [found[number][:count] for number in numbers]


def test_side_by_side_is_as_alone(model: object) -> None:
    slots = Slots(model, slots=5, length=700, sampling=GREEDY)
    wanted = [prompt(length, length) for length in (1, 3, 40, 300, 560)]
    assert run(slots, wanted, 12) == [alone(model, tokens, 12) for tokens in wanted]


def test_what_is_known_already_is_not_read_again_and_changes_nothing(model: object) -> None:
    slots = Slots(model, slots=4, length=200, sampling=GREEDY)
    start = prompt(50, 1)
    first = run(slots, [start], 20)[0]
    # The same beginning, continued in several ways at once, and one that parts half-way.
    wanted = [
        start + first[:10],
        start + first[:10] + prompt(5, 2),
        start[:30] + prompt(40, 3),
        start + prompt(30, 4),
    ]
    for _ in range(2):
        assert run(slots, wanted, 10) == [alone(model, tokens, 10) for tokens in wanted]


def test_a_busy_neighbour_can_be_copied(model: object) -> None:
    slots = Slots(model, slots=3, length=200, sampling=GREEDY)
    start = prompt(40, 7)
    (busy,) = slots.begin([(start, 0)])
    drawn: list[int] = []
    while len(drawn) < 5:
        drawn += [token for slot, token in slots.step().items() if slot == busy]
    (copy,) = slots.begin([(start + drawn[:3], 0)])
    later: list[int] = []
    while len(later) < 8:
        for slot, token in slots.step().items():
            (drawn if slot == busy else later).append(token)
    assert copy != busy
    assert drawn == alone(model, start, len(drawn))
    assert later == alone(model, start + drawn[:3], len(later))


def test_a_seed_decides_and_company_does_not(model: object) -> None:
    sampling = Sampling(temperature=1.0, top_k=50)
    one = Slots(model, slots=1, length=100, sampling=sampling)
    many = Slots(model, slots=4, length=100, sampling=sampling)
    wanted = [prompt(10 + i, 20 + i) for i in range(4)]
    together = run(many, wanted, 15, seed=5)
    assert [run(one, [tokens], 15, seed=5 + i)[0] for i, tokens in enumerate(wanted)] == together
    assert run(one, [wanted[0]], 15, seed=6)[0] != together[0]


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
        logits.repeat(count, 1), torch.arange(count), torch.zeros(count, dtype=torch.long), sampling
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
        Sampling(top_k=0),
    )
    again = (drawn[1:] == drawn[:-1]).float().mean()
    assert abs(float(again) - 1 / 8) < 0.006


def reads(slots: Slots, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many rows each pass over pieces of prompts has, as they are made."""
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
    slots = Slots(model, slots=9, length=200, sampling=GREEDY)
    rows = reads(slots, monkeypatch)
    wanted = [prompt(60, seed) for seed in (1, 2, 3) for _ in range(3)]
    assert run(slots, wanted, 6) == [alone(model, tokens, 6) for tokens in wanted]
    assert rows == [3]


def test_a_few_tokens_are_fed_and_hold_nobody_up(
    model: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    slots = Slots(model, slots=6, length=200, sampling=GREEDY)
    starts = [prompt(60, seed) for seed in range(5)]
    slots.begin([(tokens, 0) for tokens in starts])
    rows = reads(slots, monkeypatch)
    longer = starts[0] + prompt(9, 9)
    (number,) = slots.begin([(longer, 0)])
    drawn: list[int] = []
    while len(drawn) < 6:
        drawn += [token for slot, token in slots.step().items() if slot == number]
    assert rows == []
    assert drawn == alone(model, longer, 6)


def test_what_others_go_on_from_is_overwritten_last(model: object) -> None:
    slots = Slots(model, slots=4, length=200, sampling=GREEDY)
    starts = [prompt(30, seed) for seed in range(4)]
    run(slots, starts, 5)
    # One is new and must go somewhere: not where one of the other three lies.
    wanted = [prompt(30, 99), *starts[1:]]
    numbers = slots.begin([(tokens, 0) for tokens in wanted])
    assert len(set(numbers)) == 4
    assert [slots._read[number] for number in numbers[1:]] == [each[:-1] for each in starts[1:]]
