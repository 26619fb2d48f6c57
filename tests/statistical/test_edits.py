"""How far the mark survives what people do to a text: cutting, adding, joining, leaving the prompt.

Thirty marked texts of about ten sentences. What is measured is the evidence, the mean of
log2(1/p); chance alone gives 1.4 bits.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from tests.conftest import Texts

from hammingmark.assemble import detector
from hammingmark.keys import WatermarkKey
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


# The least share of the evidence beyond chance that must be left. Each edit of one sentence in ten
# touches one or two of nine transitions; a quarter cut off takes a quarter and more.
EDITS: list[tuple[Callable[[list[str], str], str], float]] = [
    (rewrap, 0.9),
    (behind_the_prompt, 0.65),
    (delete_one, 0.55),
    (insert_one, 0.3),  # two transitions of low similarity, where a lucky wrong key gains most
    (merge_two, 0.5),
    (split_one, 0.4),
    (truncate, 0.3),
]


def merge_pairs(sentences: list[str], prompt: str) -> str:
    pairs = [sentences[i : i + 2] for i in range(0, len(sentences), 2)]
    return " ".join(
        "; ".join([pair[0].rstrip(".!?"), *(s[:1].lower() + s[1:] for s in pair[1:])])
        + ("." if len(pair) == 1 else "")
        for pair in pairs
    )


def evidence(
    edit: Callable[[list[str], str], str],
    texts: Texts,
    encoder: Encoder,
    key: WatermarkKey,
    *,
    edits: bool = False,
) -> float:
    edited = [
        edit(list(draft.sentences), prompt.text)
        for draft, prompt in zip(texts.marked, texts.prompts, strict=True)
        if len(draft.sentences) >= 6
    ]
    verdicts = detector(key, encoder=encoder, edits=edits).judge_many(edited)
    p = np.array([verdict.p_value for verdict in verdicts], float)
    bits = float(-np.log2(p).mean())
    how = f"{edit.__name__}{', allowed for' if edits else ''}"
    print(f"{how:>18}: {bits:5.2f} bits, {(p <= 0.05).mean():.2f} found at 5 %")
    return bits


@pytest.mark.parametrize(("edit", "least"), EDITS, ids=[edit.__name__ for edit, _ in EDITS])
def test_an_edit_costs_a_share_of_the_evidence(
    texts: Texts,
    encoder: Encoder,
    marking_key: WatermarkKey,
    edit: Callable[[list[str], str], str],
    least: float,
) -> None:
    chance = 1.0 / np.log(2.0)
    whole = evidence(untouched, texts, encoder, marking_key) - chance
    left = evidence(edit, texts, encoder, marking_key) - chance
    assert whole > 3.0
    assert left > least * whole


def test_who_allows_for_joined_sentences_finds_them_again(
    texts: Texts, encoder: Encoder, marking_key: WatermarkKey
) -> None:
    lost = evidence(merge_pairs, texts, encoder, marking_key)
    found = evidence(merge_pairs, texts, encoder, marking_key, edits=True)
    whole = evidence(untouched, texts, encoder, marking_key)
    still = evidence(untouched, texts, encoder, marking_key, edits=True)
    assert found > lost + 0.4
    assert still > whole - 0.7  # and loses little where nothing was joined
