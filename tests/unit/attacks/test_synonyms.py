"""Synonyms, from a small lexicon made here and, opting in, from WordNet itself."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.errors import raises_naming
from tests.unit.attacks import lexicon

from hammingmark.assembly.environment import model_store
from hammingmark.assembly.parts import load_splitter
from hammingmark.attacks.lexicon import Lexicon
from hammingmark.attacks.synonyms import Synonyms
from hammingmark.errors import InputError
from hammingmark.text.words import split_words


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return lexicon.write(tmp_path_factory.mktemp("lexicon"))


def all_of(folder: Path, text: str, *, seed: int = 0, **settings: float) -> str:
    attack = Synonyms(lexicon=folder, share=1.0, **settings)  # type: ignore[arg-type]
    return attack.apply([text], rng=np.random.default_rng(seed))[0]


@pytest.mark.parametrize(
    ("text", "new"),
    [
        ("the big cars", "the large automobiles"),
        ("a bigger car", "a larger automobile"),
        ("a car and an automobile", "an automobile and a car"),
        ("it was a car", "it was an automobile"),
        ("they started late", "they began late"),
        ("it had started late", "it had begun late"),
        ("she carries it", "she transports it"),
        ("Big cars are big", "Large automobiles are large"),
    ],
)
def test_forms_articles_and_capitals_are_kept(folder: Path, text: str, new: str) -> None:
    assert all_of(folder, text) == new


@pytest.mark.parametrize(
    "text",
    [
        "the light is on",  # noun or adjective
        "they carried out the plan",  # a phrase
        "the start was late",  # mostly a verb, and no verb behind an article
        "it runs on oil",  # its first sense is rare, and the particle belongs to it
        "Big is a name here",  # a capital, and nowhere small
        "they installed it",  # "instal" is no other word
        "he died",  # "go" is left alone
        "the quick fox",  # unknown words
        "BIG CARS",
        "它来了 Привет",
        "",
    ],
)
def test_doubtful_words_are_not_replaced(folder: Path, text: str) -> None:
    assert all_of(folder, text) == text


def test_more_senses_and_less_certainty_reach_more_words(folder: Path) -> None:
    assert all_of(folder, "they run fast") == "they run fast"
    assert all_of(folder, "it runs fast", sure=0.1) == "it jogs fast"
    found = {all_of(folder, "it runs fast", sure=0.1, senses=2, seed=seed) for seed in range(30)}
    assert found == {"it jogs fast", "it operates fast"}


def test_the_share_is_of_all_words_as_far_as_they_can_be_replaced(folder: Path) -> None:
    text = "the big car " * 20
    attack = Synonyms(lexicon=folder, share=0.25)
    counts = []
    for seed in range(100):
        new = attack.apply([text], rng=np.random.default_rng(seed))[0]
        counts.append(sum(a != b for a, b in zip(split_words(text), split_words(new), strict=True)))
    assert np.mean(counts) == 15.0


def test_readings_know_their_forms(folder: Path) -> None:
    known = Lexicon.read(folder)
    (reading,) = known.readings("began")
    assert (reading.lemma, reading.part, reading.slots) == ("begin", "verb", {"past"})
    (reading,) = known.readings("carried")
    assert reading.slots == {"past", "participle"}
    assert [each.part for each in known.readings("starts")] == ["verb", "noun"]
    assert known.readings("quince") == []
    assert known.form("big", "adj", "superlative") == "biggest"
    assert known.form("car", "noun", "past") is None
    assert Lexicon.read(folder) is known


def test_a_folder_without_a_lexicon_is_refused(tmp_path: Path) -> None:
    with raises_naming(InputError, tmp_path, "models pull wordnet"):
        all_of(tmp_path, "a car")
    with raises_naming(InputError, "senses", 0):
        Synonyms(lexicon=tmp_path, senses=0)
    with raises_naming(InputError, "sure", 2):
        Synonyms(lexicon=tmp_path, sure=2.0)


@pytest.mark.slow
def test_wordnet_reaches_some_words_of_real_prose(articles: list[str]) -> None:
    attack = Synonyms(lexicon=model_store().ensure("wordnet"), share=1.0)
    texts = [" ".join(load_splitter().split(text).carrying[:20]) for text in articles[:20]]
    changed = total = 0
    for old, new in zip(texts, attack.apply(texts, rng=np.random.default_rng(0)), strict=True):
        assert len(split_words(old)) == len(split_words(new))
        changed += sum(a != b for a, b in zip(split_words(old), split_words(new), strict=True))
        total += len(split_words(old))
    print(f"{changed / total:.3f} of the words have a synonym that can be put in their place")
    assert 0.02 < changed / total < 0.2
    new = attack.apply(["They purchased a big house."], rng=np.random.default_rng(0))[0]
    assert new == "They bought a large house."
