"""Each rewriter does what its name says, and leaves alone what its rule does not fit."""

from __future__ import annotations

import numpy as np
import pytest
from research.training.noise import REWRITERS

from research.training import noise

SENTENCES = [
    "In 1990, the company (then quite small) moved to Paris, where it didn't stay for long.",
    "The colour of the theatre, which was built in the 19th century, is grey; it's not red.",
    '"You will not organize 12,000 people," she said -- as always -- "in two days."',
    "He stayed at home, although his friends went out to see the well-known film.",
    "However, nobody knows.",
    "Yes.",
]


def dice() -> np.random.Generator:
    return np.random.default_rng(7)


def rewrites(name: str, sentence: str, *, tries: int) -> list[str]:
    """What a rewriter makes of a sentence, again and again with the same dice."""
    rng = dice()
    return [REWRITERS[name](sentence, rng) for _ in range(tries)]


def outcomes(name: str, sentence: str) -> set[str]:
    """What a rewriter makes of a sentence, over many throws of the dice."""
    return set(rewrites(name, sentence, tries=60))


EVERY = [(name, sentence) for name in REWRITERS for sentence in SENTENCES]


def test_the_dice_decide() -> None:
    differing = [
        (name, sentence)
        for name, sentence in EVERY
        if rewrites(name, sentence, tries=5) != rewrites(name, sentence, tries=5)
    ]
    assert not differing


def test_something_is_left_and_it_is_tidy() -> None:
    wrong = [
        (name, sentence, after)
        for name, sentence in EVERY
        for after in outcomes(name, sentence)
        if len(after.split()) < min(noise.FEWEST_WORDS, len(sentence.split()))
        or after != " ".join(after.split())
    ]
    assert not wrong


@pytest.mark.parametrize("length", [4, 10, 40])
def test_deletion_takes_10_to_30_percent_and_keeps_the_order(length: int) -> None:
    words = [f"w{i}" for i in range(length)]
    for after in outcomes("delete_words", " ".join(words)):
        left = after.split()
        assert left == [word for word in words if word in set(left)]
        assert max(1, round(0.1 * length)) <= length - len(left) <= max(1, round(0.3 * length))


def test_case_noise_only_changes_case() -> None:
    after = outcomes("change_case", SENTENCES[0])
    assert {each.lower() for each in after} == {SENTENCES[0].lower()}
    assert SENTENCES[0].lower() in after
    assert len(after) == 3


def test_punctuation_noise_only_changes_marks() -> None:
    def bare(text: str) -> str:
        return "".join(character for character in text if character.isalnum())

    for sentence in SENTENCES:
        after = outcomes("change_punctuation", sentence)
        assert {bare(each) for each in after} == {bare(sentence)}
        assert after != {sentence}
    assert any(not each.endswith(".") for each in outcomes("change_punctuation", SENTENCES[3]))
    assert any("“You" in each for each in outcomes("change_punctuation", SENTENCES[2]))
    assert "12,000" in noise._no_commas(SENTENCES[2])


@pytest.mark.parametrize(
    ("short", "long"),
    [
        ("I don't know, and it's late.", "I do not know, and it is late."),
        ("They're here; we can't go.", "They are here; we cannot go."),
        ("I'm sure Ann's dog won't bite.", "I am sure Ann's dog will not bite."),
    ],
)
def test_contractions_go_both_ways(short: str, long: str) -> None:
    assert outcomes("change_contractions", short) == {long}
    assert outcomes("change_contractions", long) == {short}


@pytest.mark.parametrize(
    ("american", "british"),
    [
        ("The center of the gray harbor.", "The centre of the grey harbour."),
        ("Colored Theaters were centered here.", "Coloured Theatres were centred here."),
        ("She realized its organizational behavior.", "She realised its organisational behaviour."),
        ("A maneuver of 3 kilometers.", "A manoeuvre of 3 kilometres."),
    ],
)
def test_spelling_goes_both_ways(american: str, british: str) -> None:
    assert noise.to_british(american) == british
    assert noise.to_american(british) == american


@pytest.mark.parametrize(
    "sentence", ["A literal reading of Colorado.", "Wise men rise.", "A humorous size prize."]
)
def test_words_that_look_like_it_are_spelled_one_way(sentence: str) -> None:
    assert noise.to_british(sentence) == sentence
    assert noise.to_american(sentence) == sentence


def test_numbers_change_their_dress_but_not_their_value() -> None:
    assert noise.to_digits("Two of twelve men, one of them old.") == "2 of 12 men, one of them old."
    assert noise.to_words("5 men, 1.5 m, 5-2, 5,000 and the 19th.") == (
        "five men, 1.5 m, 5-2, 5,000 and the nineteenth."
    )
    assert noise.to_words("It rose by 30% in May.") == "It rose by 30 percent in May."
    assert noise.without_separators("1,234,567 of 2,000, or 1,5") == "1234567 of 2000, or 1,5"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("In 1990, the firm moved to Paris.", "The firm moved to Paris in 1990."),
        (
            "After the war, he went to Rome, where he died.",
            "He went to Rome after the war, where he died.",
        ),
        ("However, nobody knows why.", "Nobody knows why, however."),
        ("For example, birds can fly.", "Birds can fly, for example."),
        ("The man left, because it rained.", "Because it rained, the man left."),
        ("Ann left early, although it rained.", "Although it rained, Ann left early."),
    ],
)
def test_a_clause_moves_when_a_comma_marks_it(before: str, after: str) -> None:
    assert outcomes("move_clause", before) == {after}


@pytest.mark.parametrize(
    "sentence",
    [
        "In Paris, London, and Rome, people dance.",
        "With the help of the union, the old bank and the new bank, Estonia did its work.",
        "In one of his letters, he wrote to a firm in London, which sent him a reply.",
        "In 1990 the firm moved to Paris.",
        "In the end, but not before, it rained.",
        "The man, because it rained, left.",
        "In short, no.",
    ],
)
def test_a_comma_that_marks_no_leading_clause_moves_nothing(sentence: str) -> None:
    assert outcomes("move_clause", sentence) == {sentence}


def test_asides_are_left_out() -> None:
    assert outcomes("drop_aside", "The firm (a small one), which I knew, moved.") == {
        "The firm, which I knew, moved.",
        "The firm (a small one) moved.",
    }
    assert outcomes("drop_aside", "The old firm -- a small one -- moved away.") == {
        "The old firm moved away."
    }
    for sentence in ['He sang "(Only) You" again.', '"BEAU—TY!" he said—and left us.']:
        assert outcomes("drop_aside", sentence) == {sentence}
    assert outcomes("drop_aside", "(All of it is in brackets.)") == {"(All of it is in brackets.)"}


def test_swaps_keep_every_word_and_both_ends() -> None:
    sentence = "The quick brown fox jumps over one lazy dog."
    for after in outcomes("swap_words", sentence):
        assert after != sentence
        assert sorted(after.split()) == sorted(sentence.split())
        assert after.startswith("The ")
        assert after.endswith(" dog.")


def test_typos_hit_a_few_long_words_by_one_letter() -> None:
    sentence = "The quick brown foxes jumped over those lazy dogs again and again."
    for after in outcomes("mistype", sentence):
        pairs = list(zip(sentence.split(), after.split(), strict=True))
        hit = [(one, other) for one, other in pairs if one != other]
        assert 1 <= len(hit) <= 6
        for one, other in hit:
            assert len(one) >= 4
            assert one[0] == other[0]
            assert abs(len(one) - len(other)) <= 1
    assert outcomes("mistype", "It is so big.") == {"It is so big."}


def test_rewrite_changes_a_sentence_and_obeys_the_names() -> None:
    rng = dice()
    for sentence in SENTENCES[:4]:
        assert all(noise.rewrite(sentence, rng) != sentence for _ in range(20))
    only_case = {noise.rewrite(SENTENCES[0], rng, names=["change_case"]) for _ in range(20)}
    assert {each.lower() for each in only_case} == {SENTENCES[0].lower()}
    same = "Nothing here that the rule could change."
    assert noise.rewrite(same, rng, names=["drop_aside", "move_clause"]) == same
