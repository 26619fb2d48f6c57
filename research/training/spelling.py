"""Two ways to write the same word: British and American, short and long, digits and letters."""

from __future__ import annotations

import re

from hammingmark.attacks.word_spans import match_case

# Stems by their American ending, with what may follow them.
# fmt: off
_OR = (
    "armor", "behavior", "color", "endeavor", "favor", "flavor", "harbor", "honor", "humor",
    "labor", "neighbor", "parlor", "rumor", "splendor", "tumor", "valor", "vapor", "vigor",
)
_OR_ENDINGS = (
    "", "s", "ed", "ing", "er", "ers", "ful", "less", "able", "ably", "ly", "y", "ite", "ites",
    "al", "hood", "hoods",
)
_ER = (
    "center", "fiber", "kilometer", "liter", "maneuver", "meter", "saber", "somber", "specter",
    "theater",
)
_ER_ENDINGS = ("", "s", "ed", "ing")
_IZE = (
    "apolog", "author", "capital", "categor", "central", "character", "civil", "colon",
    "critic", "crystall", "democrat", "digit", "econom", "emphas", "equal", "familiar",
    "fertil", "final", "formal", "general", "global", "hospital", "hypothes", "ideal", "immun",
    "industrial", "initial", "legal", "liberal", "local", "maxim", "mechan", "memor", "minim",
    "mobil", "modern", "monopol", "national", "neutral", "normal", "optim", "organ", "patron",
    "penal", "personal", "polar", "popular", "privat", "public", "rational", "real", "recogn",
    "revolution", "special", "stabil", "standard", "steril", "summar", "symbol", "sympath",
    "synthes", "urban", "util", "visual",
)
_NUMBERS = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten",
    "eleven", "twelve",
)
# fmt: on
_WORDS = {
    "afterward": "afterwards",
    "aluminum": "aluminium",
    "among": "amongst",
    "analyze": "analyse",
    "analyzed": "analysed",
    "analyzing": "analysing",
    "artifact": "artefact",
    "artifacts": "artefacts",
    "canceled": "cancelled",
    "canceling": "cancelling",
    "catalog": "catalogue",
    "catalogs": "catalogues",
    "councilor": "councillor",
    "councilors": "councillors",
    "defense": "defence",
    "defenses": "defences",
    "dialog": "dialogue",
    "dialogs": "dialogues",
    "enrollment": "enrolment",
    "esthetic": "aesthetic",
    "fueled": "fuelled",
    "fulfill": "fulfil",
    "gray": "grey",
    "jewelry": "jewellery",
    "judgment": "judgement",
    "labeled": "labelled",
    "learned": "learnt",
    "marvelous": "marvellous",
    "modeled": "modelled",
    "modeling": "modelling",
    "mold": "mould",
    "molds": "moulds",
    "offense": "offence",
    "offenses": "offences",
    "pediatric": "paediatric",
    "plow": "plough",
    "plows": "ploughs",
    "pretense": "pretence",
    "program": "programme",
    "programs": "programmes",
    "signaled": "signalled",
    "signaling": "signalling",
    "skeptic": "sceptic",
    "skeptical": "sceptical",
    "skillful": "skilful",
    "spelled": "spelt",
    "sulfur": "sulphur",
    "toward": "towards",
    "traveled": "travelled",
    "traveler": "traveller",
    "travelers": "travellers",
    "traveling": "travelling",
    "while": "whilst",
}
_IZE_ENDINGS = r"(e|es|ed|ing|er|ers|ation|ations|ational|able)"

_ORDINALS = {
    "1st": "first",
    "2nd": "second",
    "3rd": "third",
    "4th": "fourth",
    "5th": "fifth",
    "6th": "sixth",
    "7th": "seventh",
    "8th": "eighth",
    "9th": "ninth",
    "10th": "tenth",
    "11th": "eleventh",
    "12th": "twelfth",
    "13th": "thirteenth",
    "14th": "fourteenth",
    "15th": "fifteenth",
    "16th": "sixteenth",
    "17th": "seventeenth",
    "18th": "eighteenth",
    "19th": "nineteenth",
    "20th": "twentieth",
    "21st": "twenty-first",
}


def to_british(sentence: str) -> str:
    """American spellings written the British way."""
    return _swap(_ize(sentence, "z", "s"), _AMERICAN)


def to_american(sentence: str) -> str:
    """British spellings written the American way."""
    return _swap(_ize(sentence, "s", "z"), _BRITISH)


def to_digits(sentence: str) -> str:
    """Small numbers as digits. "One" stays: it is a pronoun more often than a number."""
    return _swap(sentence, _DIGITS_TABLE)


def to_words(sentence: str) -> str:
    """Small numbers and ordinals as words, and a percent sign as "percent"."""
    sentence = re.sub(r"(\d) ?%", r"\1 percent", sentence)
    return _swap(sentence, _WORDS_TABLE)


def without_separators(sentence: str) -> str:
    """Thousands without their commas: "12,000" as "12000"."""
    return re.sub(r"(?<=\d),(?=\d{3}\b)", "", sentence)


def _ize(sentence: str, old: str, new: str) -> str:
    pattern = _IZE_PATTERNS[old]
    return pattern.sub(lambda found: match_case(f"{found[1]}i{new}{found[2]}", found[0]), sentence)


_IZE_PATTERNS = {
    letter: re.compile(rf"\b({'|'.join(_IZE)})i{letter}{_IZE_ENDINGS}\b", re.IGNORECASE)
    for letter in "zs"
}


def _table(pairs: dict[str, str]) -> tuple[re.Pattern[str], dict[str, str]]:
    longest_first = sorted(pairs, key=len, reverse=True)
    # No part of a longer number, such as the 5 in 1.5 or in 5-2.
    whole = rf"(?<![\w'.,-])(?:{'|'.join(map(re.escape, longest_first))})(?![\w'-]|[.,]\d)"
    return re.compile(whole, re.IGNORECASE), pairs


def _swap(sentence: str, table: tuple[re.Pattern[str], dict[str, str]]) -> str:
    pattern, pairs = table
    return pattern.sub(lambda found: match_case(pairs[found[0].lower()], found[0]), sentence)


def _inflected() -> dict[str, str]:
    """All American words of the tables, with their British spelling."""
    pairs = dict(_WORDS)
    for stem in _OR:
        pairs |= {stem + ending: f"{stem[:-2]}our{ending}" for ending in _OR_ENDINGS}
    for stem in _ER:
        root = stem.removesuffix("er")
        # "maneuver" is the one that changes in the middle as well.
        root = "manoeuv" if root == "maneuv" else root
        pairs |= {
            stem + ending: f"{root}r{'' if ending[:1] in ('e', 'i') else 'e'}{ending}"
            for ending in _ER_ENDINGS
        }
    return pairs


def _turned(pairs: dict[str, str]) -> dict[str, str]:
    return {long: short for short, long in pairs.items()}


_AMERICAN = _table(_inflected())
_BRITISH = _table(_turned(_inflected()))
_DIGITS_TABLE = _table(
    {word: str(n) for n, word in enumerate(_NUMBERS) if n > 1}
    # "First" and "second" are mostly no numbers.
    | {word: short for short, word in _ORDINALS.items() if short not in ("1st", "2nd", "3rd")}
)
_WORDS_TABLE = _table({str(n): word for n, word in enumerate(_NUMBERS)} | _ORDINALS)
