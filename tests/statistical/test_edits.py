"""How far the mark survives what people do to a text: cutting, adding, joining, leaving the prompt.

Marked texts of about nine sentences. What is measured is the evidence, the mean of log2(1/p);
chance alone gives 1.4 bits. The texts are others in every run, and eight are few: what is asked
of them lies four standard errors below what was measured, so that a test fails by chance once in
ten thousand runs. The study asks for more of more texts.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from tests.conftest import Texts

from hammingmark.assembly.detection import detector
from hammingmark.keys.key import WatermarkKey
from hammingmark.protocols import Encoder

pytestmark = pytest.mark.slow
FOREIGN = "Meanwhile, the price of copper rose for a third week in London."


def delete_one(sentences: list[str], prompt: str) -> str:
    middle = len(sentences) // 2
    return " ".join(sentences[:middle] + sentences[middle + 1 :])


def insert_one(sentences: list[str], prompt: str) -> str:
    middle = len(sentences) // 2
    return " ".join([*sentences[:middle], FOREIGN, *sentences[middle:]])


def merge_two(sentences: list[str], prompt: str) -> str:
    middle = len(sentences) // 2
    first, second = sentences[middle - 1], sentences[middle]
    joined = first.rstrip(".!?") + ", and " + second[:1].lower() + second[1:]
    return " ".join([*sentences[: middle - 1], joined, *sentences[middle + 1 :]])


def split_one(sentences: list[str], prompt: str) -> str:
    longest = max(range(len(sentences)), key=lambda i: len(sentences[i]))
    words = sentences[longest].split()
    half = len(words) // 2
    cut = [" ".join(words[:half]) + ".", " ".join(words[half:]).capitalize()]
    return " ".join([*sentences[:longest], *cut, *sentences[longest + 1 :]])


def truncate(sentences: list[str], prompt: str) -> str:
    return " ".join(sentences[: max(2, 3 * len(sentences) // 4)])


def behind_the_prompt(sentences: list[str], prompt: str) -> str:
    return prompt + " " + " ".join(sentences)


def rewrap(sentences: list[str], prompt: str) -> str:
    words = " ".join(sentences).replace('"', "“").split()
    return "\r\n".join(" ".join(words[i : i + 9]) for i in range(0, len(words), 9))


def untouched(sentences: list[str], prompt: str) -> str:
    return " ".join(sentences)


# The share of the evidence beyond chance that is left, as measured on 103 texts of 200 tokens under
# four keys of the default preset, and its standard error for the six or so of eight texts that are
# long enough. Each edit of one sentence in ten touches one or two of nine transitions; a quarter
# cut off takes a quarter and more.
EDITS: list[tuple[Callable[[list[str], str], str], float, float]] = [
    (rewrap, 0.99, 0.03),
    (behind_the_prompt, 0.58, 0.08),  # of three sentences; the beginning is no beginning any more
    (delete_one, 0.76, 0.08),
    (insert_one, 0.72, 0.08),
    (merge_two, 0.73, 0.08),
    (split_one, 0.78, 0.08),
    (truncate, 0.78, 0.07),
]
every_edit = pytest.mark.parametrize(
    ("edit", "share", "error"), EDITS, ids=[edit.__name__ for edit, *_ in EDITS]
)
CHANCE = 1.0 / np.log(2.0)


def joined(sentences: list[str]) -> str:
    """Two sentences as one; one as it stands."""
    first, *second = sentences
    parts = [first.rstrip(".!?"), *(each[:1].lower() + each[1:] for each in second)]
    return "; ".join(parts) + ("" if second else ".")


def merge_pairs(sentences: list[str], prompt: str) -> str:
    return " ".join(joined(sentences[i : i + 2]) for i in range(0, len(sentences), 2))


def merge_later_pairs(sentences: list[str], prompt: str) -> str:
    return sentences[0] + " " + merge_pairs(sentences[1:], prompt)


def merge_two_of_three(sentences: list[str], prompt: str) -> str:
    threes = [sentences[i : i + 3] for i in range(0, len(sentences), 3)]
    return " ".join(" ".join([joined(three[:2]), *three[2:]]) for three in threes)


def evidence(
    edit: Callable[[list[str], str], str],
    texts: Texts,
    encoder: Encoder,
    key: WatermarkKey,
    *,
    edits: bool = False,
) -> float:
    edited = [
        edit(list(generation.sentences), prompt.text)
        for generation, prompt in zip(texts.marked, texts.prompts, strict=True)
        if len(generation.sentences) >= 6
    ]
    verdicts = detector(key, encoder=encoder, edits=edits).judge_many(edited)
    p = np.array([verdict.p_value for verdict in verdicts], float)
    bits = float(-np.log2(p).mean())
    how = f"{edit.__name__}{', allowed for' if edits else ''}"
    print(f"{how:>18}: {bits:5.2f} bits, {(p <= 0.05).mean():.2f} found at 5 %")
    return bits


@every_edit
def test_an_edit_costs_a_share_of_the_evidence(
    texts: Texts,
    encoder: Encoder,
    marking_key: WatermarkKey,
    edit: Callable[[list[str], str], str],
    share: float,
    error: float,
) -> None:
    whole = evidence(untouched, texts, encoder, marking_key) - CHANCE
    left = evidence(edit, texts, encoder, marking_key) - CHANCE
    assert whole > 6.0  # 15.5, and 1.5 its standard error
    assert left > (share - 4 * error) * whole


def test_who_allows_for_edits_still_finds_the_mark(
    texts: Texts, encoder: Encoder, marking_key: WatermarkKey
) -> None:
    assert evidence(untouched, texts, encoder, marking_key, edits=True) - CHANCE > 3.0  # 6.1 +- 0.6


@pytest.mark.study
@every_edit
def test_of_many_texts_an_edit_leaves_more(
    many_texts: Texts,
    encoder: Encoder,
    marking_key: WatermarkKey,
    edit: Callable[[list[str], str], str],
    share: float,
    error: float,
) -> None:
    """Four times as many texts have half the error."""
    whole = evidence(untouched, many_texts, encoder, marking_key) - CHANCE
    left = evidence(edit, many_texts, encoder, marking_key) - CHANCE
    assert whole > 4.5
    assert left > (share - 2 * error) * whole


@pytest.mark.study
def test_who_allows_for_joined_sentences_finds_them_again(
    many_texts: Texts, encoder: Encoder, marking_key: WatermarkKey
) -> None:
    ways = (merge_pairs, merge_later_pairs, merge_two_of_three)
    lost, found = (
        np.mean([evidence(way, many_texts, encoder, marking_key, edits=edits) for way in ways])
        for edits in (False, True)
    )
    whole = evidence(untouched, many_texts, encoder, marking_key)
    still = evidence(untouched, many_texts, encoder, marking_key, edits=True)
    assert found > lost + 0.4  # by 1.01 +- 0.15; pairs alone by 1.01 +- 0.27
    # Where nothing was joined it loses little: 0.6 +- 0.2 once, and -0.24 +- 0.16 on other texts.
    assert still > whole - 1.0
