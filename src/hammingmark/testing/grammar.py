"""What the fake language model says: sentences of a small vocabulary."""

from __future__ import annotations

from random import Random

_VOCABULARY = """
river stone cloud garden winter market letter engine harbour lantern forest teacher mirror cottage
kitchen sailor orchard station window bridge painter valley wagon temple

silver quiet narrow early broken golden distant gentle hollow crooked bitter patient wooden careless
northern famous

crossed followed covered remembered carried noticed painted guarded opened answered measured
repaired warmed borrowed counted feared

near behind under beyond after before without against
"""
NOUNS, ADJECTIVES, VERBS, PREPOSITIONS = (words.split() for words in _VOCABULARY.split("\n\n"))
WORDS = ("the", *NOUNS, *ADJECTIVES, *VERBS, *PREPOSITIONS)


def paragraph(rng: Random) -> str:
    """Six to twelve sentences."""
    return " ".join(sentence(rng) for _ in range(rng.randint(6, 12)))


def sentence(rng: Random) -> str:
    """One sentence of four to twenty words."""
    phrases = [_noun_phrase(rng), rng.choice(VERBS), _noun_phrase(rng)]
    for _ in range(rng.randint(0, 2)):
        phrases += [rng.choice(PREPOSITIONS), _noun_phrase(rng)]
    return f"{' '.join(phrases).capitalize()}."


def _noun_phrase(rng: Random) -> str:
    adjectives = rng.sample(ADJECTIVES, rng.randint(0, 2))
    return " ".join(["the", *adjectives, rng.choice(NOUNS)])
