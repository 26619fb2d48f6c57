"""What sentences may have been before somebody joined or cut them."""

from __future__ import annotations

from time import perf_counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hammingmark.attacks.boundaries import MergeSentences
from hammingmark.detection.reader import edit_hypotheses
from hammingmark.protocols import Splitter
from hammingmark.stats.edit_lattice import EditLattice


def halves(sentence: str) -> list[str]:
    return list(edit_hypotheses([sentence]).texts[1:])


@pytest.mark.parametrize(
    ("sentence", "found"),
    [
        (
            "The river rose; nobody slept that night.",
            ["The river rose.", "Nobody slept that night."],
        ),
        ("The river rose, and nobody slept well.", ["The river rose.", "Nobody slept well."]),
        ("The river rose, but nobody slept.", ["The river rose.", "But nobody slept."]),
        ("The river rose, and nobody slept.", []),  # too short to have been a sentence
        ("The river rose and nobody slept.", []),
        ("Bread, wine, and cheese.", []),  # a list, not two sentences
        ("It rose; it fell.", []),
        ("The river rose — nobody slept well.", ["The river rose.", "Nobody slept well."]),
        ("The river rose—nobody slept well.", ["The river rose.", "Nobody slept well."]),
        ("The river rose - nobody slept well.", ["The river rose.", "Nobody slept well."]),
        ("The well-known river rose that night.", []),
        ("The river rose: nobody slept well.", ["The river rose.", "Nobody slept well."]),
        ("The river rose (nobody slept well).", ["The river rose.", "Nobody slept well."]),
        ("The river (it is a wide one) rose.", []),  # brackets inside a sentence join nothing
        (
            "The old river rose all night in the town, as nobody had slept in the big house.",
            [
                "The old river rose all night in the town.",
                "As nobody had slept in the big house.",
            ],
        ),
        ("The river rose all night, as nobody had slept in the big house.", []),
        (
            "One two three; one two three four five six seven eight: one two three.",
            ["One two three; one two three four five six seven eight.", "One two three."],
        ),  # nearest to the middle
        ("", []),
    ],
)
def test_a_sentence_falls_apart_at_its_seam(sentence: str, found: list[str]) -> None:
    assert halves(sentence) == found


TEXT = "The old mill lost its roof. The river rose all night. It was late in the year."


@pytest.mark.parametrize("seed", range(6))
def test_what_was_joined_comes_back(splitter: Splitter, seed: int) -> None:
    (joined,) = MergeSentences(splitter=splitter, share=0.5).apply(
        [TEXT], rng=np.random.default_rng(seed)
    )
    sentences = splitter.split(joined).carrying
    assert len(sentences) == 2
    assert set(splitter.split(TEXT).carrying) <= set(edit_hypotheses(sentences).texts)


def test_marks_alone_are_seams_in_any_wording() -> None:
    first = "Every kiln in the lower village was cold by then."
    second = "nobody had seen a potter there for many years"
    for between in (" — ", " – ", " -- ", ": ", "; ", " (", ", ", ", and "):
        behind = ")." if between == " (" else "."
        found = edit_hypotheses([f"{first[:-1]}{between}{second}{behind}"]).texts
        assert found[1:] == (first, f"N{second[1:]}.")


@pytest.mark.parametrize("mark", [", ", "; ", " ", " (", "—", " - "])
def test_a_long_run_of_marks_takes_no_long_time(mark: str) -> None:
    began = perf_counter()
    edit_hypotheses(
        [mark * 20_000, f"a{mark}" * 20_000, "(" * 20_000, "word " * 20_000 + mark * 99]
    )
    assert perf_counter() - began < 5.0


def test_what_was_cut_comes_back_beside_its_half() -> None:
    parts = edit_hypotheses(["The river rose.", "And nobody slept.", "It was late."])
    assert parts.texts[:3] == ("The river rose.", "And nobody slept.", "It was late.")
    assert parts.texts[3:] == (
        "The river rose. And nobody slept.",
        "And nobody slept. It was late.",
    )
    assert list(zip(parts.begins, parts.ends, strict=True))[3:] == [(0, 2), (1, 3)]


@given(st.lists(st.text(max_size=80), max_size=6))
def test_any_sentences_can_be_read(sentences: list[str]) -> None:
    parts = edit_hypotheses(sentences)
    n = len(sentences)
    assert parts.sentences == n
    assert list(parts.texts[:n]) == sentences
    assert len(parts.texts) == len(parts.begins) == len(parts.ends)
    if n >= 2:
        lattice = EditLattice(parts.begins, parts.ends, sentences=n)
        assert len(list(lattice.read(iter(np.zeros((len(lattice.before), 1)))))) == n - 1
