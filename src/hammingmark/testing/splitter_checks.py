"""The contract of every splitter, as checks that fail with a message."""

from __future__ import annotations

import pickle
from collections.abc import Callable

from hammingmark.protocols import Splitter
from hammingmark.testing.members import missing

PROSE = (
    "The river rose in the night. By morning it had reached the mill! Had anyone seen it come? "
    "Nobody answered. Dr. Hale lit a lamp and wrote 3.5 feet in the book."
)
DOCUMENT = """# The flood

The river rose in the night.  By morning it had
reached the mill!

- Nobody slept.
- [x] The lamp was lit.

| depth | hour |
|-------|------|
| 3.5   | six  |

```python
print("Not a sentence. Not this one either.")
```

> He said it would fall. It did not.

https://example.org/flood

***

42. 43. 44."""
TEXTS = [
    "",
    " \n\t ",
    "One.",
    PROSE,
    DOCUMENT,
    DOCUMENT.replace("\n", "\r\n"),
    "它来了。没有人看见!",
    "He said “no”. “Why?” she asked. ‘Go.’",
    "\x00\ud800\u200b. a\u0301 b.",
]


def splitter_checks() -> list[Callable[[Splitter], None]]:
    """The checks, each named after its requirement.

    >>> from hammingmark.testing import FakeSplitter, splitter_checks
    >>> for check in splitter_checks():
    ...     check(FakeSplitter())
    """
    return [check for name, check in globals().items() if name.startswith("check_")]


def check_it_is_a_splitter(splitter: Splitter) -> None:
    """A splitter has every member of the protocol."""
    absent = missing(splitter, Splitter)
    assert not absent, f"it lacks {', '.join(absent)} of protocols.Splitter"
    assert splitter.name, "it has no name"


def check_a_normalised_text_splits_into_the_same_units(splitter: Splitter) -> None:
    """So that generation and detection see the same sentences."""
    for text in TEXTS:
        split = splitter.split(text)
        assert splitter.split(text).units == split.units, f"{text!r} splits in two ways"
        units = splitter.split(split.text).units
        assert units == split.units, f"{text!r} normalised splits into {units}, not {split.units}"


def check_white_space_stands_in_gaps(splitter: Splitter) -> None:
    """A unit has no white space around it, and its gap consists only of white space."""
    for text in TEXTS:
        for unit in splitter.split(text).units:
            assert unit.text, f"{text!r} has an empty unit"
            assert unit.text == unit.text.strip(), f"white space around {unit.text!r}"
            assert not unit.gap.strip(), f"more than white space in the gap {unit.gap!r}"


def check_prose_gives_its_sentences_in_order(splitter: Splitter) -> None:
    """The four plain English sentences at the beginning are found."""
    sentences = splitter.split(PROSE).carrying[:4]
    assert sentences == [
        "The river rose in the night.",
        "By morning it had reached the mill!",
        "Had anyone seen it come?",
        "Nobody answered.",
    ], f"the first sentences are {sentences}"


def check_the_beginning_of_a_text_splits_as_in_the_whole(splitter: Splitter) -> None:
    """A text is written sentence by sentence, and detected as a whole."""
    whole = splitter.split(PROSE).carrying
    for count in range(1, len(whole)):
        sentences = splitter.split(" ".join(whole[:count])).carrying
        assert sentences == whole[:count], f"the first {count} sentences split into {sentences}"


def check_it_splits_alike_from_where_it_restarts(splitter: Splitter) -> None:
    """If the beginning of a text may be dropped, the rest splits as in the whole text."""
    for text in (PROSE, DOCUMENT):
        text, place = splitter.split(text).text, 0
        units = splitter.split(text).units
        for count, unit in enumerate(units[:-3], start=1):
            place += len(unit.text)
            for suffix in ("", " Then it rained."):
                if splitter.restarts(text, place):
                    rest = splitter.split(text[place:] + suffix).units
                    whole = splitter.split(text + suffix).units[count:]
                    assert rest == whole, f"it splits differently after {text[:place]!r}"
            place += len(unit.gap)


def check_it_survives_pickling(splitter: Splitter) -> None:
    """Texts are detected in several processes."""
    unpickled = pickle.loads(pickle.dumps(splitter))
    assert unpickled.split(PROSE) == splitter.split(PROSE), "it splits differently after pickling"
