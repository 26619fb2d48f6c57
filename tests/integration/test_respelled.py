"""A marked text in other letters has the verdict of the original."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from hammingmark.assembly.detection import detector
from hammingmark.assembly.keys import new_key
from hammingmark.assembly.marking import writer
from hammingmark.attacks.spelling import Homoglyphs
from hammingmark.generation.config import GenerationConfig
from hammingmark.testing import FakeBackend, FakeEncoder


def in_block(capital: int, small: int) -> Callable[[str], str]:
    """Writes letters as those of a block, from the places of its A and its a."""
    places = {"A": capital, "a": small}
    table = {ord(first) + i: chr(place + i) for first, place in places.items() for i in range(26)}
    return lambda text: text.translate(table)


def homoglyphs(text: str) -> str:
    return Homoglyphs(share=1.0, alphabet="both").apply([text], rng=np.random.default_rng(3))[0]


BOLD, FULL_WIDTH = in_block(0x1D400, 0x1D41A), in_block(0xFF21, 0xFF41)
SPELLINGS: dict[str, Callable[[str], str]] = {
    "look-alikes": homoglyphs,
    "bold": BOLD,
    "full width": lambda text: FULL_WIDTH(text).replace(".", "．").replace(" ", "\u3000"),
    "mixed": lambda text: BOLD(text[:99]) + homoglyphs(text[99:300]) + FULL_WIDTH(text[300:]),
}


@pytest.mark.parametrize("method", ["bilinear", "hamming"])
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_respelled_text_has_the_same_p_value(method: str, spelling: str) -> None:
    key = new_key(FakeEncoder(), method=method)
    config = GenerationConfig(max_tokens=200)
    made = writer(key, backend=FakeBackend(), encoder=FakeEncoder(), config=config)
    text = made.write("It was late.", seed=1).text
    judge = detector(key, encoder=FakeEncoder())
    original, respelled = judge.judge(text), judge.judge(SPELLINGS[spelling](text))
    assert original.watermarked
    assert respelled == original
    assert SPELLINGS[spelling](text) != text
