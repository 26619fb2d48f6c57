"""How far the edges of a marked passage are from where they are shown."""

from __future__ import annotations

import numpy as np
import pytest

from hammingmark.assembly.keys import method_of, new_key
from hammingmark.records import Evidence, Passage, Verdict
from hammingmark.reports.text import _EDGE, is_near_edge
from hammingmark.stats.passages import best_windows
from hammingmark.testing import FakeEncoder
from hammingmark.watermarks.bilinear.method import BilinearMark

TEXTS = 2000
UNMARKED, MARKED = 12, 16  # sentences on either side, and in the passage
ACCEPTED = 0.85  # share of the sentences of a passage that satisfy the rule


def shown(
    rng: np.random.Generator, mark: BilinearMark, *, before: int, marked: int, after: int
) -> Passage:
    """The best passage of a text as it is shown: with the sentence before it."""
    scores = rng.standard_normal(before + marked + after)
    accepted = rng.random(marked) < ACCEPTED
    for i in range(before, before + marked):
        while (scores[i] >= mark.config.threshold) != accepted[i - before]:
            scores[i] = rng.standard_normal()
    begin, end, _ = best_windows(mark.increments.of(scores[:, None])[:, 0])[0]
    return Passage(max(0, begin - context_of(mark)), end, 0.001)


def context_of(mark: BilinearMark) -> int:
    """How many sentences before a window belong to it, since its scores depend on them."""
    evidence = mark.read(FakeEncoder().encode(["One.", "Two."])).evidence
    assert evidence.context_units is not None
    return evidence.context_units


def test_an_edge_is_seldom_further_off_than_is_said() -> None:
    mark = default_mark()
    rng = np.random.default_rng(3)
    passages = [
        shown(rng, mark, before=UNMARKED, marked=MARKED, after=UNMARKED) for _ in range(TEXTS)
    ]
    off = np.abs([(each.begin - UNMARKED, each.end - (UNMARKED + MARKED)) for each in passages])
    for most in range(6):
        print(f"\nat most {most} sentences off: {(off <= most).mean():.1%}", end="")
    # 0.87 of the edges; both limits are more than four standard errors away.
    assert (off <= _EDGE["sentence"]).mean() > 0.84
    assert (off <= 1).mean() < 0.84  # so that a sharp edge would promise too much


@pytest.mark.parametrize(
    ("before", "after"), [(UNMARKED, UNMARKED), (1, 0), (2, 0), (3, 0), (0, 1), (1, 1), (2, 2)]
)
def test_few_passages_claim_an_unmarked_sentence_for_certain(before: int, after: int) -> None:
    """At the ends of a text as well, where an edge can only lie further inside."""
    mark = default_mark()
    rng = np.random.default_rng(5)
    places = range(before, before + MARKED)
    claimed, inside = [], []
    for _ in range(TEXTS):
        passage = shown(rng, mark, before=before, marked=MARKED, after=after)
        judged = verdict(before + MARKED + after, passage)
        others = [i for i in range(passage.begin, passage.end) if i not in places]
        inside.append(bool(others))
        claimed.append(any(not is_near_edge(judged, passage, i) for i in others))
    print(
        f"\n{before} unmarked before, {after} after: in {np.mean(inside):.1%} of the passages, "
        f"for certain in {np.mean(claimed):.1%}",
        end="",
    )
    assert np.mean(inside) > 0.1  # so that the margin matters
    assert np.mean(claimed) < (0.13 if before == UNMARKED else 0.01)


def default_mark() -> BilinearMark:
    mark = method_of(new_key(FakeEncoder()))
    assert isinstance(mark, BilinearMark)
    return mark


def verdict(count: int, passage: Passage) -> Verdict:
    return Verdict(
        watermarked=True,
        p_value=0.001,
        reason="",
        level=0.01,
        statistic="likelihood",
        evidence=Evidence("sentence", (), None, 0.8),
        pieces=("One.",) * count,
        key_id=None,
        passages=(passage,),
    )
