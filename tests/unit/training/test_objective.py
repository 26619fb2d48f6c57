"""What the encoder is asked for."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from training.objective import Weights, angle, loss, new_part  # noqa: E402


def unit(rows: object) -> object:
    return torch.nn.functional.normalize(torch.as_tensor(rows, dtype=torch.float32), dim=-1)


def test_an_angle_is_a_share_of_bits() -> None:
    one = unit([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0]])
    other = unit([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])
    assert torch.allclose(angle(one, other), torch.tensor([0.0, 0.5, 1.0]), atol=1e-3)


def test_its_slope_is_finite_where_two_sentences_are_one() -> None:
    one = unit([[1.0, 0.0]]).requires_grad_()
    angle(one, unit([[1.0, 0.0]])).sum().backward()
    assert torch.isfinite(one.grad).all()


def test_each_term_is_least_where_it_should_be() -> None:
    torch.manual_seed(0)
    passage = torch.tensor([0, 0, 0, 1, 1, 1])
    rows = unit(torch.randn(6, 32))
    far = unit(rows + 0.5 * torch.randn(6, 32))
    close = loss(rows, rows, passage, Weights())
    assert close["same"] < 1e-3 < loss(rows, far, passage, Weights())["same"]
    # Neighbours that agree exactly as asked have no miss.
    agree = 1.0 - float(angle(rows[:1], rows[1:2])[0])
    pair = torch.stack([rows[0], rows[1]])
    asked = loss(pair, pair, torch.tensor([0, 0]), Weights(agree=agree))
    assert float(asked["next"]) < 1e-6
    other = loss(pair, pair, torch.tensor([0, 0]), Weights(agree=agree + 0.1))
    assert float(other["next"]) == pytest.approx(0.01, rel=0.05)


def test_a_common_direction_is_paid_for() -> None:
    torch.manual_seed(1)
    passage = torch.tensor([0, 0, 1, 1])
    rows = torch.randn(4, 64)
    shared = unit(rows + 8.0)
    assert loss(shared, shared, passage, Weights())["strangers"] > 0.9
    assert abs(float(loss(unit(rows), unit(rows), passage, Weights())["strangers"])) < 0.4


def test_neighbours_are_no_negatives() -> None:
    """A neighbour may lie as near as the rewrite without adding to the contrast."""
    base = unit(torch.eye(8)[:4])
    near = base.clone()
    near[1] = unit(base[0] + 0.2 * base[1])
    together = torch.tensor([0, 0, 1, 2])
    parted = torch.tensor([0, 3, 1, 2])
    one = loss(near, near, together, Weights())["apart"]
    assert one < loss(near, near, parted, Weights())["apart"]


def test_the_new_part_forgets_the_sentence_before() -> None:
    torch.manual_seed(2)
    before, extra = unit(torch.randn(5, 32)), unit(torch.randn(5, 32))
    part = new_part(before, unit(0.7 * before + extra))
    assert float((part * before).sum(dim=-1).abs().max()) < 1e-5
    assert torch.allclose(part, new_part(before, unit(0.1 * before + extra)), atol=1e-4)


def test_a_rewrite_that_moves_only_along_the_sentence_before_keeps_its_new_part() -> None:
    torch.manual_seed(3)
    first, second = unit(torch.randn(2, 32))
    rows = torch.stack([first, second])
    moved = torch.stack([first, unit(second + 0.5 * first)])
    terms = loss(rows, moved, torch.tensor([0, 0]), Weights(fresh=1.0))
    assert float(terms["same"]) > 0.03 > 1e-3 > float(terms["fresh"])


def test_a_ceiling_asks_nothing_of_sentences_that_agree_little() -> None:
    rows = unit(torch.eye(8)[:3])
    near = unit(rows + 0.5)
    weights = Weights(agree=0.55, ceiling=1.0)
    together = torch.tensor([0, 0, 0])
    assert float(loss(rows, rows, together, weights)["next"]) == 0.0
    assert float(loss(near, near, together, weights)["next"]) > 0.1
