"""Whether a text is English."""

from __future__ import annotations

import pytest

from hammingmark.text.words import is_english

FOREIGN = {
    "German": "Der Hund lief über die Straße und sah die Katze, die auf dem Dach saß. Er war sehr "
    "alt, aber er wollte sie noch immer gern fangen, wenn er konnte.",
    "French": "Le chien a traversé la rue et il a vu le chat qui était assis sur le toit. Il était "
    "très vieux, mais il voulait toujours l'attraper quand il pouvait.",
    "Dutch": "De hond liep over de straat en zag de kat die op het dak zat. Hij was heel oud, maar "
    "hij wilde haar nog steeds vangen als hij kon, want hij had de tijd of niet.",
    "Norwegian": "Hunden løp over gaten og så katten som satt på taket. Den var veldig gammel, men "
    "ville fortsatt fange den når den kunne, for den hadde god tid i dag.",
    "Russian": "Собака перебежала дорогу и увидела кошку, которая сидела на крыше. Она была очень "
    "старой, но всё ещё хотела поймать её, когда могла это сделать.",
    "Chinese": "狗跑过马路，看见猫坐在屋顶上。它很老了，但它还是想抓住它。" * 5,
}


@pytest.mark.parametrize("language", FOREIGN)
def test_other_languages_are_told_apart(language: str) -> None:
    assert is_english(FOREIGN[language] * 3) is False


@pytest.mark.parametrize("language", ["German", "French", "Dutch"])
def test_a_few_sentences_suffice_for_other_languages(language: str) -> None:
    assert 30 <= len(FOREIGN[language].split()) < 60
    assert is_english(FOREIGN[language]) is False


@pytest.mark.parametrize("times", [2, 4])
def test_english_is_english(times: int) -> None:
    text = "The dog ran over the road and saw the cat on the roof. It was old, but it tried again."
    assert is_english(text * times) is True


TERSE = (
    "We propose HammingMark, a novel sentence-level watermark. Experiments on three datasets show "
    "strong robustness against paraphrase attacks. Ablation studies confirm each component."
)


@pytest.mark.parametrize("text", ["", "Hello there.", "狗。", "1 2 3 " * 100, TERSE])
def test_little_text_tells_nothing(text: str) -> None:
    assert is_english(text) is None
