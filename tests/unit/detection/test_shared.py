"""Sentences that several texts share, counted once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

import pytest
from tests.errors import raises_naming

from hammingmark.assembly.detection import detector
from hammingmark.assembly.keys import new_key
from hammingmark.detection.shared import SentenceCounts, SharedOnce, SharedSentences
from hammingmark.errors import InputError
from hammingmark.keys.key import Secret
from hammingmark.records import Verdict
from hammingmark.testing import FakeEncoder, FakeSplitter, FakeTokenizer
from hammingmark.testing.fakes import sentence


def prose(seed: str, count: int) -> list[str]:
    rng = Random(seed)
    return [sentence(rng) for _ in range(count)]


HEADER, QUOTE = prose("header", 3), prose("quote", 2)
TEXTS = [
    [*HEADER, *prose("a", 4)],
    prose("b", 5),
    [*HEADER, *prose("c", 2), *QUOTE, *prose("d", 2)],
    [*QUOTE, *prose("e", 3)],
    HEADER,
]


def counted(texts: Sequence[Sequence[str]]) -> SharedSentences:
    counts = SentenceCounts()
    for text in texts:
        counts.add(text)
    return counts.shared()


def included(verdict: Verdict) -> list[str]:
    """The sentences that a verdict counts; the first has no score in some methods."""
    scores = verdict.evidence.scores
    first = len(verdict.pieces) - len(scores)
    return [p for p, s in zip(verdict.pieces[first:], scores, strict=True) if s.counted]


def test_sentences_are_counted_once_a_text_whatever_their_case_and_punctuation() -> None:
    shared = counted([["A b.", "A b.", "C!"], ["“a  B”", "D."], ["a b", "c d"], ["…", "C d?"]])
    assert shared.texts == 4
    assert len(shared) == 2
    assert shared.most == 3
    numbers = shared.find(["a B;", "C", "c D", "…"])
    assert [int(shared.counts[n]) if n >= 0 else 1 for n in numbers] == [3, 1, 2, 1]
    assert counted([["A."], ["B."]]).find(["A."]).tolist() == [-1]
    assert counted([]).most == 0


@pytest.mark.parametrize("method", ["bilinear", "hamming"])
def test_every_sentence_counts_once(method: str) -> None:
    judge = detector(
        new_key(FakeEncoder(), method=method), encoder=FakeEncoder(), splitter=FakeSplitter()
    )
    texts = [" ".join(text) for text in TEXTS]
    judged = list(SharedOnce(judge).judge_many(texts, counted(TEXTS)))
    assert [len(runs) for _, runs in judged] == [1, 0, 1, 0, 0]
    (header, in_header), (quote, in_quote) = judged[0][1][0], judged[2][1][0]
    assert (header.begin, header.end, header.fewest, header.most) == (0, 3, 3, 3)
    assert (quote.begin, quote.end, quote.fewest, quote.most) == (5, 7, 2, 2)
    first = {"bilinear": 0, "hamming": 1}[method]  # whose first sentence has no score
    assert included(in_header) == HEADER[first:]
    assert included(in_quote) == QUOTE
    own = [[s for s in text if s not in HEADER + QUOTE] for text in TEXTS]
    own[1] = own[1][first:]
    assert [included(verdict) for verdict, _ in judged] == own
    # Texts that share nothing are judged as ever, and a text of shared sentences cannot tell.
    assert judged[1][0] == judge.judge(texts[1])
    assert judged[4][0].watermarked is None
    assert judged[4][0].p_value == pytest.approx(1.0)


def test_a_passage_that_two_students_copied_is_still_found() -> None:
    """The mark that is left out of both texts is found in the run that they share."""
    key = new_key(FakeEncoder())
    judge = detector(key, encoder=FakeEncoder(), splitter=FakeSplitter())
    from hammingmark.watermarks.bilinear import BilinearMark

    mark, rng, copied = BilinearMark(key), Random("marked"), prose("before", 1)
    while len(copied) < 14:
        drawn = [sentence(rng) for _ in range(16)]
        rows = FakeEncoder().encode([copied[-1], *drawn])
        copied.append(drawn[mark.choose(rows[0], rows[1:]).index])
    texts = [[*prose("one", 4), *copied], [*copied, *prose("two", 4)]]
    joined = [" ".join(text) for text in texts]
    assert [v.watermarked for v in judge.judge_many(joined)] == [True, True]
    (first, runs), (second, none) = SharedOnce(judge).judge_many(joined, counted(texts))
    assert not first.watermarked
    assert not second.watermarked
    assert none == []
    [(run, verdict)] = runs
    assert (run.begin, run.end) == (4, 18)
    assert verdict.watermarked is True


def test_a_run_of_one_sentence_gets_no_verdict() -> None:
    """Whatever the level: here one of 0.5, at which one marked sentence would be found."""
    for number in range(12):
        key = replace(new_key(FakeEncoder()), secret=Secret(bytes([number]) * 32))
        judge = detector(key, encoder=FakeEncoder(), splitter=FakeSplitter(), level=0.5)
        texts = [[*prose("before", 3), *prose("run", 1)], [*prose("after", 4), *prose("run", 1)]]
        (_, runs), (_, none) = SharedOnce(judge).judge_many(map(" ".join, texts), counted(texts))
        assert none == []
        [(run, verdict)] = runs
        assert (run.begin, run.end) == (3, 4)
        assert verdict.watermarked is None
        assert verdict.p_value is not None
        assert verdict.passages == ()


def test_what_cannot_leave_sentences_out_is_refused() -> None:
    encoder = FakeEncoder()
    kwargs = {"encoder": encoder, "splitter": FakeSplitter()}
    with raises_naming(InputError, "semstamp"):
        SharedOnce(detector(new_key(encoder, method="semstamp"), **kwargs))
    with raises_naming(InputError):
        SharedOnce(detector(new_key(encoder), edits=True, **kwargs))
    with raises_naming(InputError, "kgw"):
        key = new_key(encoder, method="kgw", tokenizer=FakeTokenizer())
        SharedOnce(detector(key, tokenizer=FakeTokenizer()))
    with raises_naming(InputError):
        both = [new_key(encoder), new_key(encoder, method="hamming")]
        SharedOnce(detector(both, encoders=lambda name: encoder, splitter=FakeSplitter()))
