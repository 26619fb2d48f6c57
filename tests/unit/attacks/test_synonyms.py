"""Synonyms, from a small lexicon made here and, opting in, from WordNet itself."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from hammingmark.assemble import load_splitter, model_store
from hammingmark.attacks.lexicon import FORMS, SENSES, Lexicon
from hammingmark.attacks.synonyms import Synonyms
from hammingmark.core.words import words_of
from hammingmark.errors import InputError

# lemma, part of speech (1 noun, 2 verb, 3 adjective), synset, number of the sense, uses
_WORDS = [
    ("big", 3, "01", 1, 100),
    ("large", 3, "01", 1, 90),
    ("car", 1, "02", 1, 70),
    ("automobile", 1, "02", 1, 15),
    ("machine", 1, "02", 3, 1),  # met too seldom
    ("start", 2, "03", 1, 150),
    ("begin", 2, "03", 1, 300),
    ("start", 1, "04", 1, 20),
    ("beginning", 1, "04", 1, 30),
    ("run", 2, "05", 1, 20),
    ("jog", 2, "05", 1, 5),
    ("run", 2, "06", 2, 80),  # its first sense has a fifth of its uses
    ("operate", 2, "06", 1, 9),
    ("light", 1, "07", 1, 50),
    ("light", 3, "08", 1, 50),  # as often the one as the other
    ("lamp", 1, "07", 1, 50),
    ("carry", 2, "09", 1, 60),
    ("transport", 2, "09", 1, 10),
    ("carry_out", 2, "10", 1, 60),
    ("install", 2, "11", 1, 20),
    ("instal", 2, "11", 1, 9),
    ("die", 2, "12", 1, 40),
    ("go", 2, "12", 3, 9),
]
_FORMS = """\
big,adj,bigger,biggest
large,adj,larger,largest
car,noun,cars
automobile,noun,automobiles
machine,noun,machines
start,verb,started,,starting,starts
start,noun,starts
begin,verb,began,begun,beginning,begins
beginning,noun,beginnings
run,verb,ran,run,running,runs
jog,verb,jogged,,jogging,jogs
operate,verb,operated,,operating,operates
light,noun,lights
light,adj,lighter,lightest
lamp,noun,lamps
carry,verb,carried,,carrying,carries
transport,verb,transported,,transporting,transports
install,verb,installed,,installing,installs
instal,verb,installed,,installing,instals
die,verb,died,,dying,dies
go,verb,went,gone,going,goes
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("lexicon")
    lines = [
        f"{lemma}%{part}:00:00:: {synset} {number} {met}\n"
        for lemma, part, synset, number, met in _WORDS
    ]
    (made / SENSES).write_text("".join(lines), "utf-8")
    with gzip.open(made / FORMS, "wt", encoding="utf-8") as file:
        file.write(_FORMS)
    return made


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
def test_what_is_in_doubt_stays(folder: Path, text: str) -> None:
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
        counts.append(sum(a != b for a, b in zip(words_of(text), words_of(new), strict=True)))
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
    with pytest.raises(InputError, match="models pull wordnet"):
        all_of(tmp_path, "a car")
    with pytest.raises(InputError, match="senses"):
        Synonyms(lexicon=tmp_path, senses=0)
    with pytest.raises(InputError, match="sure"):
        Synonyms(lexicon=tmp_path, sure=2.0)


@pytest.mark.slow
def test_wordnet_reaches_some_words_of_real_prose(articles: list[str]) -> None:
    attack = Synonyms(lexicon=model_store().ensure("wordnet"), share=1.0)
    texts = [" ".join(load_splitter().split(text).carrying[:20]) for text in articles[:20]]
    changed = total = 0
    for old, new in zip(texts, attack.apply(texts, rng=np.random.default_rng(0)), strict=True):
        assert len(words_of(old)) == len(words_of(new))
        changed += sum(a != b for a, b in zip(words_of(old), words_of(new), strict=True))
        total += len(words_of(old))
    print(f"{changed / total:.3f} of the words have a synonym that can be put in their place")
    assert 0.02 < changed / total < 0.2
    new = attack.apply(["They purchased a big house."], rng=np.random.default_rng(0))[0]
    assert new == "They bought a large house."
