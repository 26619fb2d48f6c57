"""What every registered splitter promises."""

from __future__ import annotations

import pickle

import pytest

from hammingmark import registry
from hammingmark.protocols import Splitter
from hammingmark.sentences.normalise import normalise

every_splitter = pytest.mark.parametrize("name", registry.names("splitters"))

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


def build(name: str) -> Splitter:
    splitter: Splitter = registry.find("splitters", name)(language="en")
    return splitter


@every_splitter
def test_it_is_what_it_says(name: str) -> None:
    splitter = build(name)
    assert isinstance(splitter, Splitter)
    assert splitter.name == name


@every_splitter
@pytest.mark.parametrize("text", TEXTS)
def test_the_units_make_the_normalised_text_and_split_alike_again(name: str, text: str) -> None:
    splitter = build(name)
    split = splitter.split(text)
    assert split.text == normalise(text)
    assert splitter.split(split.text) == split
    assert splitter.split(text) == split


@every_splitter
def test_prose_gives_its_sentences_in_order(name: str) -> None:
    assert build(name).split(PROSE).carrying[:4] == [
        "The river rose in the night.",
        "By morning it had reached the mill!",
        "Had anyone seen it come?",
        "Nobody answered.",
    ]


@every_splitter
def test_only_prose_carries(name: str) -> None:
    split = build(name).split(DOCUMENT)
    assert split.carrying == [
        "The river rose in the night.",
        "By morning it had reached the mill!",
        "Nobody slept.",
        "The lamp was lit.",
        "He said it would fall.",
        "It did not.",
    ]
    silent = [unit.text for unit in split.units if not unit.carries]
    assert any("print(" in text for text in silent)
    assert any(text.startswith("# ") for text in silent)
    assert any(text.startswith("| 3.5") for text in silent)
    assert "https://example.org/flood" in silent


@every_splitter
def test_the_beginning_of_a_text_splits_as_it_does_in_the_whole(name: str) -> None:
    splitter = build(name)
    whole = splitter.split(PROSE).carrying
    for count in range(1, len(whole)):
        assert splitter.split(" ".join(whole[:count])).carrying == whole[:count]


@every_splitter
def test_it_survives_pickling(name: str) -> None:
    splitter = build(name)
    assert pickle.loads(pickle.dumps(splitter)).split(PROSE) == splitter.split(PROSE)
