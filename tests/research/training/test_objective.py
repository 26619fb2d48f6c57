"""What the encoder is asked for."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from research.training.objective import (  # noqa: E402
    Batch,
    Common,
    Weights,
    loss,
)


def unit(rows: object) -> object:
    return torch.nn.functional.normalize(torch.as_tensor(rows, dtype=torch.float32), dim=-1)


def batch_of(group: list[int], pool: list[bool] | None = None, text: list[int] | None = None):
    return Batch(
        torch.tensor(text or list(range(len(group)))),
        torch.tensor(group),
        torch.tensor(pool or [False] * len(group)),
    )


def test_a_rewrite_pays_for_its_distance_and_more_if_it_goes_far() -> None:
    rows = unit(torch.eye(8)[:4])
    near, away = unit(rows + 0.2 * torch.eye(8)[4:]), unit(rows + 2.0 * torch.eye(8)[4:])
    batch = batch_of([0, 0, 1, 1])
    still = loss(rows, rows, batch, Weights())
    little = loss(rows, near, batch, Weights())
    much = loss(rows, away, batch, Weights())
    assert float(still["same"]) == pytest.approx(0.0, abs=1e-6)
    assert still["same"] < little["same"] < much["same"]
    assert float(little["far"]) == 0.0
    assert float(still["distance"]) == pytest.approx(0.01, abs=1e-3)
    assert float(much["distance"]) == pytest.approx((2 - 2 * 5**-0.5) ** 0.5, abs=1e-3)
    assert float(much["far"]) == pytest.approx(0.8 - 5**-0.5, abs=1e-5)


def test_the_total_is_the_weighted_sum() -> None:
    torch.manual_seed(0)
    rows, others = unit(torch.randn(6, 16)), unit(torch.randn(6, 16))
    weights = Weights(same=2.0, far=3.0, distance=6.0, apart=0.5, among=4.0, inside=7.0)
    terms = loss(rows, others, batch_of([0, 0, 0, 1, 1, 1], [False] * 3 + [True] * 3), weights)
    expected = sum(
        weight * float(terms[name])
        for name, weight in (
            ("same", 2), ("far", 3), ("distance", 6), ("apart", 0.5), ("among", 4), ("inside", 7)
        )
    )  # fmt: skip
    assert float(terms["total"]) == pytest.approx(expected, rel=1e-5)


def test_pools_and_passages_pay_for_their_own_pairs() -> None:
    rows = unit(torch.eye(8)[:4])
    near = rows.clone()
    near[1] = unit(rows[0] + rows[1])  # the first group's two sentences come close
    group = [0, 0, 1, 1]
    as_pool = loss(near, near, batch_of(group, [True, True, False, False]), Weights())
    as_passage = loss(near, near, batch_of(group), Weights())
    half = 0.5**0.5
    assert float(as_pool["among"]) == pytest.approx(half, abs=1e-5)
    assert float(as_pool["inside"]) == 0.0
    assert float(as_passage["among"]) == 0.0
    assert float(as_passage["inside"]) == pytest.approx(half / 2, abs=1e-5)


def test_pairs_that_oppose_each_other_are_not_paid_for() -> None:
    rows = unit([[1.0, 0.0], [-1.0, 0.2]])
    assert float(loss(rows, rows, batch_of([0, 0]), Weights())["inside"]) == 0.0


def test_neighbours_are_negatives_and_copies_are_not() -> None:
    rows = unit(torch.eye(8)[:4])
    near = rows.clone()
    near[1] = unit(rows[0] + 0.2 * rows[1])
    group = [0, 0, 1, 2]
    contrast = loss(near, near, batch_of(group), Weights())["apart"]
    assert contrast > loss(rows, rows, batch_of(group), Weights())["apart"] + 0.1
    copied = torch.stack([rows[0], rows[0], rows[2], rows[3]])
    same_text = loss(copied, copied, batch_of(group, text=[0, 0, 1, 2]), Weights())
    assert float(same_text["apart"]) < 1e-3
    assert float(same_text["inside"]) == 0.0


def test_what_all_texts_share_is_taken_off() -> None:
    torch.manual_seed(1)
    topics = 3.0 * torch.randn(40, 2) @ torch.eye(32)[:2]  # texts differ along two directions
    rows = unit(torch.randn(400, 32) + topics.repeat_interleave(10, dim=0) + 4.0 * torch.eye(32)[5])
    common = Common.of(rows, [10] * 40, count=2)
    cleaned = common.remove(rows)
    assert torch.allclose(cleaned.norm(dim=-1), torch.ones(400), atol=1e-5)
    assert float((cleaned @ common.directions.T).abs().max()) < 1e-5
    assert float((common.directions[:, :2] ** 2).sum()) == pytest.approx(2.0, abs=0.15)
    text = torch.arange(400) // 10
    within = (text[:, None] == text[None]) & ~torch.eye(400, dtype=torch.bool)
    assert float((rows @ rows.T)[within].mean()) > 0.4
    assert abs(float((cleaned @ cleaned.T)[within].mean())) < 0.05
