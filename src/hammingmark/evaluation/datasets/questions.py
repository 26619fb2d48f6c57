"""Questions whose answers are known, to see whether a mark changes what a model answers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from hammingmark.evaluation.datasets.corpora import Document

_CAPITALS: Mapping[str, str] = {
    "France": "Paris", "Spain": "Madrid", "Italy": "Rome", "Germany": "Berlin",
    "Portugal": "Lisbon", "Greece": "Athens", "Austria": "Vienna", "Poland": "Warsaw",
    "Hungary": "Budapest", "Norway": "Oslo", "Sweden": "Stockholm", "Finland": "Helsinki",
    "Denmark": "Copenhagen", "Ireland": "Dublin", "Belgium": "Brussels", "Turkey": "Ankara",
    "Egypt": "Cairo", "Kenya": "Nairobi", "Japan": "Tokyo", "China": "Beijing",
    "Thailand": "Bangkok", "Vietnam": "Hanoi", "India": "New Delhi", "Iran": "Tehran",
    "Iraq": "Baghdad", "Cuba": "Havana", "Peru": "Lima", "Chile": "Santiago",
    "Canada": "Ottawa", "Australia": "Canberra", "Mongolia": "Ulaanbaatar", "Nepal": "Kathmandu",
}  # fmt: skip
_SYMBOLS: Mapping[str, str] = {
    "hydrogen": "H", "helium": "He", "carbon": "C", "nitrogen": "N", "oxygen": "O",
    "sodium": "Na", "magnesium": "Mg", "aluminium": "Al", "silicon": "Si", "sulfur": "S",
    "chlorine": "Cl", "potassium": "K", "calcium": "Ca", "iron": "Fe", "copper": "Cu",
    "zinc": "Zn", "silver": "Ag", "tin": "Sn", "gold": "Au", "mercury": "Hg", "lead": "Pb",
}  # fmt: skip
_YEAR = re.compile(r"\b1[5-9]\d\d\b|\b20[0-2]\d\b")
_FIGURE = re.compile(r"-?\d+(?:,\d{3})*")
_NAMES = ("Anna", "Ben", "Clara", "David", "Emma", "Felix", "Grace", "Henry")
_THINGS = ("pencils", "apples", "tickets", "bottles", "cards", "coins")

BRIEF = "Answer with one word or number only."
ONE_SENTENCE = "Answer in one sentence."
EXPLAINED = (
    "Explain how you find the answer in three or four sentences, and give it in the last one."
)
FORMS = (BRIEF, ONE_SENTENCE, EXPLAINED, "")
"""How long an answer is asked for; every kind of question comes in each form."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question and its answer.

    Attributes:
        id: unique in its set.
        kind: ``yes/no``, ``choice``, ``arithmetic``, ``fact`` or ``extraction``.
        text: the question, with the form of the answer.
        expected: the answer.
        options: what a wrong answer may be, if there are few; empty if it is any number or name.
    """

    id: str
    kind: str
    text: str
    expected: str
    options: tuple[str, ...] = ()

    def answer_in(self, text: str) -> str:
        """What a text answers: an option, a number, or a name; empty if it has none.

        Of several options and years the first counts, after an explanation the last; of several
        numbers the last, which is the result of those before it. A sentence without yes or no says
        no if it is negated.
        """
        which = -1 if self.is_explained else 0
        if self.options:
            places = {
                option: matches[which].start()
                for option in self.options
                if (matches := list(re.finditer(rf"\b{re.escape(option)}\b", text, self._flags)))
            }
            if self.kind == "yes/no" and not places and text.strip():
                conclusion = re.split(r"(?<=[.!?])\s+", text.strip())[which]
                return "No" if re.search(r"not\b|n't\b", conclusion) else "Yes"
            choose = max if self.is_explained else min
            return choose(places, key=lambda option: places[option], default="")
        if self.kind == "extraction":
            years = _YEAR.findall(text)
            return years[which] if years else ""
        figures = _FIGURE.findall(text)
        return figures[-1].replace(",", "") if figures else ""

    def is_right(self, text: str) -> bool:
        """Whether a text gives the expected answer."""
        return self.answer_in(text) == self.expected

    @property
    def is_explained(self) -> bool:
        """Whether the answer is asked for after its explanation."""
        return self.text.endswith(EXPLAINED)

    @property
    def _flags(self) -> int:
        return 0 if self.expected in _SYMBOLS.values() else re.IGNORECASE


def known_questions(
    count: int, documents: Iterable[Document], *, rng: np.random.Generator
) -> list[Question]:
    """Questions of all kinds and forms, about equally many of each.

    Args:
        count: the number of questions.
        documents: of which a passage with one year each is read.
        rng: chooses numbers, options and passages.
    """
    kinds: Mapping[str, Callable[[], tuple[str, str, tuple[str, ...]]]] = {
        "yes/no": lambda: _yes_or_no(rng),
        "choice": lambda: _choice(rng),
        "arithmetic": lambda: _arithmetic(rng),
        "fact": lambda: _fact(rng),
        "extraction": lambda: next(extractions),
    }
    extractions = _extractions(documents, rng)
    questions: list[Question] = []
    seen: set[str] = set()
    names = list(kinds)
    while len(questions) < count:
        place = len(questions)
        kind, form = names[place % len(names)], FORMS[place // len(names) % len(FORMS)]
        text, expected, options = kinds[kind]()
        text = f"{text} {form}".strip()
        if text in seen:
            continue
        seen.add(text)
        questions.append(Question(f"{kind} {place}", kind, text, expected, options))
    return questions


def _yes_or_no(rng: np.random.Generator) -> tuple[str, str, tuple[str, ...]]:
    options, is_true = ("Yes", "No"), bool(rng.random() < 0.5)
    countries = list(_CAPITALS)
    if rng.random() < 0.5:
        country, other = rng.choice(countries, 2, replace=False).tolist()
        city = _CAPITALS[country if is_true else other]
        return f"Is {city} the capital of {country}?", options[not is_true], options
    divisor = int(rng.integers(3, 10))
    number = divisor * int(rng.integers(5, 20)) + (0 if is_true else int(rng.integers(1, divisor)))
    return f"Is {number} divisible by {divisor}?", options[not is_true], options


def _choice(rng: np.random.Generator) -> tuple[str, str, tuple[str, ...]]:
    country, *others = rng.choice(list(_CAPITALS), 3, replace=False).tolist()
    cities = [_CAPITALS[name] for name in (country, *others)]
    shown = rng.permutation(cities).tolist()
    text = f"Which of these cities is the capital of {country}: {', '.join(shown)}?"
    return text, cities[0], tuple(cities)


def _arithmetic(rng: np.random.Generator) -> tuple[str, str, tuple[str, ...]]:
    a, b = (int(number) for number in rng.integers(12, 99, 2))
    c = int(rng.integers(3, 10))
    name, thing = str(rng.choice(_NAMES)), str(rng.choice(_THINGS))
    problems = (
        (f"What is {a} + {b}?", a + b),
        (f"What is {a + b} - {b}?", a),
        (f"What is {a} times {c}?", a * c),
        (f"{name} has {a} {thing}, buys {b} more and gives {c} away. How many are left?",
         a + b - c),
        (f"A box holds {a} {thing}. How many {thing} are in {c} boxes?", a * c),
    )  # fmt: skip
    text, result = problems[int(rng.integers(len(problems)))]
    return text, str(result), ()


def _fact(rng: np.random.Generator) -> tuple[str, str, tuple[str, ...]]:
    if rng.random() < 0.5:
        country = str(rng.choice(list(_CAPITALS)))
        return f"What is the capital of {country}?", _CAPITALS[country], (*_CAPITALS.values(),)
    element = str(rng.choice(list(_SYMBOLS)))
    text = f"What is the chemical symbol of {element}?"
    return text, _SYMBOLS[element], tuple(_SYMBOLS.values())


def _extractions(
    documents: Iterable[Document], rng: np.random.Generator
) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Passages of two or three sentences in which one year occurs, and a question about it."""
    passages = []
    for document in documents:
        for match in re.finditer(r"[A-Z][^.\n]{40,250}\. [A-Z][^.\n]{40,250}\.", document.text):
            years = _YEAR.findall(match.group())
            if len(years) == 1 and len(_FIGURE.findall(match.group())) == 1:
                passages.append((match.group(), years[0]))
    for place in rng.permutation(len(passages)):
        passage, year = passages[place]
        yield f"{passage}\n\nWhich year does this passage name?", year, ()
    raise ValueError("the documents have too few passages that name one year")
