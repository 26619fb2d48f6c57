"""Cheap rewriters: small changes of wording, spelling and punctuation, without a model.

Each takes a sentence and a random generator and returns a sentence, the same one if its rule does
not apply. They imitate careless editing, keep nearly all of the meaning, and should hardly move an
embedding.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

from hammingmark.attacks.contractions import Contractions
from hammingmark.attacks.spelling import misspell
from hammingmark.attacks.word_spans import match_case

Rewriter = Callable[[str, np.random.Generator], str]

FEWEST_WORDS = 3
"""No rewriter leaves fewer words than this."""

_DELETED = (0.1, 0.3)
_TYPO_RATE = 0.08

_LETTERS_ONLY = re.compile(r"[^\W\d_]+")
_FINAL = re.compile(r"([.!?]+)([\"'”’)]*)$")

_LEADING = re.compile(
    r"(?P<first>(?:In|On|At|After|Before|During|Since|Until|When|While|Although|Though|Because|If|As"
    r"|By|For|From|With|Without|Under|Throughout|Despite|Following|According to|Once|Unless|Upon"
    r"|Among|Outside|Inside|Near|Around|Between) [^,;:()\"]+), (?P<main>[^;:]+?)(?P<end>[.!?])$"
)
_ADVERB = re.compile(
    r"(?P<first>However|Therefore|Moreover|Nevertheless|Furthermore|Consequently|Today|Later"
    r"|Eventually|Finally|Meanwhile|Recently|Currently|Originally|Sometimes|Instead|Thus|Initially"
    r"|Usually|Generally|Traditionally|Historically|For example|For instance|In fact|Of course"
    r"|As a result|In addition|At first), (?P<main>[^;:]+?)(?P<end>[.!?])$"
)
_TRAILING = re.compile(
    r"(?P<main>[^,;:]+), (?P<last>(?:although|though|while|because|when|if|after|before|since"
    r"|as soon as|once|unless|until) [^,;:]+?)(?P<end>[.!?])$"
)
_HANGING = re.compile(r", (?:where|but|while|although) ")
_BOUND = re.compile(r", (?:which|who|whose|whom) ")
_LONGEST_LEADING = 14
_LIST_WORDS = 10
# Words that lose their capital when they move into the sentence; names keep it.
# fmt: off
_SMALL = (
    "the", "a", "an", "he", "she", "it", "they", "we", "you", "this", "that", "these", "those",
    "his", "her", "its", "their", "our", "my", "your", "some", "many", "most", "several", "all",
    "both", "each", "every", "no", "there", "in", "on", "at", "by", "for", "from", "with",
)
# fmt: on
_NEVER_MAIN = ("and", "but", "or", "nor", "so", "which", "who")

_BRACKETED = re.compile(r"\s+\([^()]*\)")
_DASHED = re.compile(r"\s*(?:--|—| – | - )[^—()!?\"]{3,80}?(?:--|—| – | - )\s*")
_RELATIVE = re.compile(r", (?:which|who|whose|where|whom) [^,;:()\"]{3,80},")


def delete_words(sentence: str, rng: np.random.Generator) -> str:
    """Delete 10 to 30 % of the words, at least one."""
    words = sentence.split()
    count = max(1, round(rng.uniform(*_DELETED) * len(words)))
    count = min(count, len(words) - FEWEST_WORDS)
    if count < 1:
        return sentence
    deleted = set(rng.choice(len(words), size=count, replace=False).tolist())
    return " ".join(word for place, word in enumerate(words) if place not in deleted)


def change_case(sentence: str, rng: np.random.Generator) -> str:
    """Write the sentence or its first letter in lower case, or the sentence in title case."""
    return _one_of([str.lower, _small_start, _headline], sentence, rng)


def change_punctuation(sentence: str, rng: np.random.Generator) -> str:
    """Remove or replace one to three kinds of marks: the final one, commas, quotes, dashes."""
    moves = [_no_end, _other_end, _no_commas, _one_comma_less, _more_commas]
    moves += [_no_quotes, _curly_quotes, _no_semicolon, _other_dash, _no_hyphens]
    useful = [move for move in moves if move(sentence) != sentence]
    if not useful:
        return sentence
    count = min(len(useful), int(rng.integers(1, 4)))
    for place in rng.choice(len(useful), size=count, replace=False):
        sentence = useful[place](sentence)
    return sentence


def change_contractions(sentence: str, rng: np.random.Generator) -> str:
    """Expand or contract contractions."""
    attacks = [Contractions(way="expand"), Contractions(way="contract")]
    return _one_of([partial(attack.change, rng=rng) for attack in attacks], sentence, rng)


def change_spelling(sentence: str, rng: np.random.Generator) -> str:
    """Change to British or American spelling, or numbers to digits or words."""
    functions = [to_british, to_american, to_digits, to_words]
    return _one_of([*functions, without_separators], sentence, rng)


def move_clause(sentence: str, rng: np.random.Generator) -> str:
    """Move a leading clause to the end, or a final one to the front, at a comma."""
    return _one_of([_leading_last, _adverb_last, _trailing_first], sentence, rng)


def drop_aside(sentence: str, rng: np.random.Generator) -> str:
    """Delete text in brackets or between dashes, or a relative clause between commas."""
    return _one_of([_no_brackets, _no_dashes, _no_relative], sentence, rng)


def swap_words(sentence: str, rng: np.random.Generator) -> str:
    """Swap one or two pairs of neighbouring words inside the sentence."""
    words = sentence.split()
    free = [place for place in range(1, len(words) - 2) if _pair_is_free(words, place)]
    if not free:
        return sentence
    count = min(len(free), int(rng.integers(1, 3)))
    for place in rng.choice(free, size=count, replace=False):
        words[place], words[place + 1] = words[place + 1], words[place]
    return " ".join(words)


def mistype(sentence: str, rng: np.random.Generator) -> str:
    """Make typing errors in about one word of twelve, at least in one."""
    words = sentence.split()
    long = [place for place, word in enumerate(words) if len(_letters(word)) >= 4]
    if not long:
        return sentence
    count = min(len(long), max(1, int(rng.binomial(len(words), _TYPO_RATE))))
    for place in rng.choice(long, size=count, replace=False):
        letters = _letters(words[place])
        words[place] = words[place].replace(letters[1:], misspell(letters[1:], rng), 1)
    return " ".join(words)


REWRITERS: Mapping[str, Rewriter] = {
    "delete_words": delete_words,
    "change_case": change_case,
    "change_punctuation": change_punctuation,
    "change_contractions": change_contractions,
    "change_spelling": change_spelling,
    "move_clause": move_clause,
    "drop_aside": drop_aside,
    "swap_words": swap_words,
    "mistype": mistype,
}


def rewrite(
    sentence: str,
    rng: np.random.Generator,
    *,
    names: Sequence[str] = tuple(REWRITERS),
    most: int = 3,
) -> str:
    """Apply one to ``most`` of the named rewriters that change the sentence, in random order.

    Args:
        sentence: the sentence.
        rng: the random generator.
        names: keys of ``REWRITERS``.
        most: most rewriters to apply.
    """
    count = int(rng.integers(1, most + 1))
    changed = 0
    for place in rng.permutation(len(names)):
        if changed == count:
            break
        result = REWRITERS[names[place]](sentence, rng)
        if result != sentence:
            sentence, changed = result, changed + 1
    return sentence


def _one_of(
    functions: Sequence[Callable[[str], str]], sentence: str, rng: np.random.Generator
) -> str:
    """The result of a random function that changes the sentence, or the sentence."""
    changed = [result for function in functions if (result := function(sentence)) != sentence]
    return changed[int(rng.integers(len(changed)))] if changed else sentence


def _letters(word: str) -> str:
    return max(_LETTERS_ONLY.findall(word), key=len, default="")


def _enough(text: str, sentence: str) -> str:
    """The new text, or the sentence if the text is too short."""
    return text if len(text.split()) >= FEWEST_WORDS else sentence


# Case.


def _small_start(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:]


def _headline(sentence: str) -> str:
    return " ".join(word[:1].upper() + word[1:] for word in sentence.split())


# Punctuation.


def _no_end(sentence: str) -> str:
    return _FINAL.sub(r"\2", sentence)


def _other_end(sentence: str) -> str:
    return _FINAL.sub(lambda end: ("..." if end[1] == "." else ".") + end[2], sentence)


def _no_commas(sentence: str) -> str:
    return re.sub(r",(?!\d)", "", sentence)


def _one_comma_less(sentence: str) -> str:
    return re.sub(r",(?!\d)", "", sentence, count=1)


def _more_commas(sentence: str) -> str:
    return re.sub(r"(?<=\w) (and|but|or|which|because|while) ", r", \1 ", sentence, count=1)


def _no_quotes(sentence: str) -> str:
    return re.sub(r"[\"“”]|(?<!\w)['‘]|['’](?!\w)", "", sentence)


def _curly_quotes(sentence: str) -> str:
    opened = re.sub(r"(^|[\s(])\"", r"\1“", sentence)
    return opened.replace('"', "”").replace("'", "’")


def _no_semicolon(sentence: str) -> str:
    return sentence.replace(";", ",")


def _other_dash(sentence: str) -> str:
    return re.sub(r"\s*(?:--|—|–(?!\d))\s*", ", ", sentence).strip(", ")


def _no_hyphens(sentence: str) -> str:
    return re.sub(r"(?<=[a-z])-(?=[a-z])", " ", sentence)


# The order of clauses.


def _leading_last(sentence: str) -> str:
    match = _LEADING.match(sentence)
    if not match or len(match["first"].split()) > _LONGEST_LEADING or _ADVERB.match(sentence):
        return sentence
    if not _can_stand_first(match["main"]):
        return sentence
    # Insert before a dependent clause: "He moved to Rome in 1689, where he died."
    head, tail = _split_hanging(match["main"])
    return f"{_capital(head)} {_small_start(match['first'])}{tail}{match['end']}"


def _adverb_last(sentence: str) -> str:
    match = _ADVERB.match(sentence)
    if not match or not _can_stand_first(match["main"]):
        return sentence
    return f"{_capital(match['main'])}, {_small_start(match['first'])}{match['end']}"


def _trailing_first(sentence: str) -> str:
    match = _TRAILING.match(sentence)
    if not match or len(match["main"].split()) < FEWEST_WORDS:
        return sentence
    main = match["main"]
    if main.split()[0].lower() in _SMALL:
        main = _small_start(main)
    return f"{_capital(match['last'])}, {main}{match['end']}"


def _can_stand_first(main: str) -> bool:
    """Whether it is an independent clause, not the next item of a list.

    An early comma usually belongs to a list. A clause with "which" or "who" must stay beside the
    word that it refers to.
    """
    words = main.split()
    if len(words) < FEWEST_WORDS or words[0].lower() in _NEVER_MAIN or _BOUND.search(main):
        return False
    head, tail = _split_hanging(main)
    before = head.partition(",")[0]
    return len(before.split()) >= _LIST_WORDS or (before == head and bool(tail)) or before == main


def _split_hanging(main: str) -> tuple[str, str]:
    match = _HANGING.search(main)
    return (main[: match.start()], main[match.start() :]) if match else (main, "")


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


# Asides.


def _no_brackets(sentence: str) -> str:
    return _enough(_BRACKETED.sub("", sentence).strip(), sentence)


def _no_dashes(sentence: str) -> str:
    return _enough(_DASHED.sub(" ", sentence).strip(), sentence)


def _no_relative(sentence: str) -> str:
    return _enough(_RELATIVE.sub("", sentence), sentence)


# Words and letters.


def _pair_is_free(words: Sequence[str], place: int) -> bool:
    first, second = words[place], words[place + 1]
    return first.isalpha() and second.isalpha() and first != second


# British and American spelling, digits and words.

# Stems by their American ending, with the endings that may follow.
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
_SPELLINGS = """
    afterward afterwards; aluminum aluminium; among amongst; analyze analyse; analyzed
    analysed; analyzing analysing; artifact artefact; artifacts artefacts; canceled
    cancelled; canceling cancelling; catalog catalogue; catalogs catalogues; councilor
    councillor; councilors councillors; defense defence; defenses defences; dialog dialogue;
    dialogs dialogues; enrollment enrolment; esthetic aesthetic; fueled fuelled; fulfill
    fulfil; gray grey; jewelry jewellery; judgment judgement; labeled labelled; learned
    learnt; marvelous marvellous; modeled modelled; modeling modelling; mold mould; molds
    moulds; offense offence; offenses offences; pediatric paediatric; plow plough; plows
    ploughs; pretense pretence; program programme; programs programmes; signaled signalled;
    signaling signalling; skeptic sceptic; skeptical sceptical; skillful skilful; spelled
    spelt; sulfur sulphur; toward towards; traveled travelled; traveler traveller; travelers
    travellers; traveling travelling; while whilst
"""
_WORDS = dict(pair.split() for pair in _SPELLINGS.split(";"))
_IZE_ENDINGS = r"(e|es|ed|ing|er|ers|ation|ations|ational|able)"

_ORDINAL_NAMES = """
    1st first; 2nd second; 3rd third; 4th fourth; 5th fifth; 6th sixth; 7th seventh; 8th
    eighth; 9th ninth; 10th tenth; 11th eleventh; 12th twelfth; 13th thirteenth; 14th
    fourteenth; 15th fifteenth; 16th sixteenth; 17th seventeenth; 18th eighteenth; 19th
    nineteenth; 20th twentieth; 21st twenty-first
"""
_ORDINALS = dict(pair.split() for pair in _ORDINAL_NAMES.split(";"))


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
    return pattern.sub(lambda match: match_case(f"{match[1]}i{new}{match[2]}", match[0]), sentence)


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
    return pattern.sub(lambda match: match_case(pairs[match[0].lower()], match[0]), sentence)


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
