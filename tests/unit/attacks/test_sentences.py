"""Deleting, inserting, repeating, moving, joining and splitting sentences."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.errors import raises_naming

from hammingmark.attacks.base import TextAttack
from hammingmark.attacks.boundaries import JOINTS, Family, MergeSentences, SplitSentences
from hammingmark.attacks.document import CopyPaste, LeftPrompt, Truncate
from hammingmark.attacks.sentences import (
    DeleteSentences,
    DuplicateSentences,
    InsertSentences,
    ShuffleSentences,
)
from hammingmark.errors import InputError
from hammingmark.text.sentencex import SentencexSplitter
from hammingmark.text.words import split_words

SPLITTER = SentencexSplitter()
SENTENCES = [
    f"The {word} house stood on the hill." for word in ("red", "blue", "old", "new", "big", "odd")
]
TEXT = " ".join(SENTENCES)
POOL = ("Copper rose in London.", "Nobody had asked for tea.", "It snowed in March.")
DOCUMENT = """# The flood

The river rose in the night. It was late; nobody had slept. By morning it had reached the mill.

- The lamp was lit.
- Nobody slept, but the dog was calm.

```python
print("Not a sentence. Not this one either.")
```

| depth | hour |

> It fell at noon. The mill stood."""
KEPT = [unit.text for unit in SPLITTER.split(DOCUMENT).units if not unit.carries]

IN_PLACE: list[TextAttack] = [
    DeleteSentences(splitter=SPLITTER, share=0.5),
    InsertSentences(splitter=SPLITTER, pool=POOL, share=0.5),
    DuplicateSentences(splitter=SPLITTER, share=0.5),
    ShuffleSentences(splitter=SPLITTER),
    MergeSentences(splitter=SPLITTER, share=0.5),
    SplitSentences(splitter=SPLITTER, share=1.0),
]


def once(attack: TextAttack, text: str, seed: int = 0) -> str:
    return attack.apply([text], rng=np.random.default_rng(seed))[0]


def sentences(text: str) -> list[str]:
    return SPLITTER.split(text).carrying


@pytest.mark.parametrize("attack", IN_PLACE, ids=lambda attack: attack.name)
@pytest.mark.parametrize("seed", range(5))
def test_code_headings_and_tables_stay_in_place(attack: TextAttack, seed: int) -> None:
    new = once(attack, DOCUMENT, seed)
    assert [unit.text for unit in SPLITTER.split(new).units if not unit.carries] == KEPT


@pytest.mark.parametrize("share", [0.0, 0.2, 0.5, 1.0])
def test_the_share_is_kept_on_average(share: float) -> None:
    kinds = {
        -1: DeleteSentences(splitter=SPLITTER, share=share),
        1: InsertSentences(splitter=SPLITTER, share=share, pool=POOL),
        2: DuplicateSentences(splitter=SPLITTER, share=share),
    }
    for sign, attack in kinds.items():
        counts = [len(sentences(once(attack, TEXT, seed))) - 6 for seed in range(100)]
        assert np.mean(counts) * np.sign(sign) == pytest.approx(6 * share, abs=4 * 0.5 / 10)


def test_remaining_sentences_keep_their_order() -> None:
    for seed in range(10):
        left = sentences(once(DeleteSentences(splitter=SPLITTER, share=0.5), TEXT, seed))
        rest = iter(SENTENCES)
        assert all(sentence in rest for sentence in left)


def test_a_paragraph_that_loses_its_end_still_ends() -> None:
    text = "One is here.\n\nTwo is here."
    for seed in range(10):
        new = once(DeleteSentences(splitter=SPLITTER, share=0.5), text, seed)
        assert new in ("One is here.", "Two is here.")
    long = "One is here. Two is here.\n\nThree is here."
    found = {once(DeleteSentences(splitter=SPLITTER, share=0.34), long, s) for s in range(60)}
    assert "One is here.\n\nThree is here." in found


def test_foreign_sentences_come_from_the_pool_each_once_before_any_twice() -> None:
    new = sentences(once(InsertSentences(splitter=SPLITTER, share=0.5, pool=POOL), TEXT))
    assert sorted(each for each in new if each in POOL) == sorted(POOL)
    assert [each for each in new if each not in POOL] == SENTENCES


def test_duplicates_follow_their_originals() -> None:
    new = sentences(once(DuplicateSentences(splitter=SPLITTER, share=1.0), TEXT))
    assert new == [sentence for sentence in SENTENCES for _ in range(2)]


def test_a_full_shuffle_leaves_no_sentence_in_its_place() -> None:
    for seed in range(20):
        new = sentences(once(ShuffleSentences(splitter=SPLITTER), TEXT, seed))
        assert sorted(new) == sorted(SENTENCES)
        assert all(a != b for a, b in zip(new, SENTENCES, strict=True))


@pytest.mark.parametrize("share", [0.15, 0.5])
def test_a_partial_shuffle_moves_its_share(share: float) -> None:
    attack = ShuffleSentences(splitter=SPLITTER, share=share)
    moved = [
        sum(a != b for a, b in zip(sentences(once(attack, TEXT, seed)), SENTENCES, strict=True))
        for seed in range(300)
    ]
    assert np.mean(moved) == pytest.approx(6 * share, abs=4 * 1.0 / 300**0.5)


def test_sentences_are_joined_and_names_keep_their_capitals() -> None:
    attack = MergeSentences(splitter=SPLITTER, share=0.5)
    found = {once(attack, "The sun rose. It was warm.", seed) for seed in range(30)}
    assert found == {"The sun rose, and it was warm.", "The sun rose; it was warm."}
    name = {once(attack, "The sun rose. Paris woke up.", seed) for seed in range(30)}
    assert name == {"The sun rose, and Paris woke up.", "The sun rose; Paris woke up."}
    elsewhere = "The dogs barked. Dogs do that."
    assert once(attack, elsewhere).endswith("dogs do that.")
    quoted = 'The sun rose. "Good," she said.'
    assert once(attack, quoted)[-17:] == '"Good," she said.'


@pytest.mark.parametrize(
    ("family", "found"),
    [
        ("known", {", and it was warm.", "; it was warm."}),
        (
            "marked",
            {
                " — it was warm.",
                " - it was warm.",
                ": it was warm.",
                " (it was warm).",
                ", because it was warm.",
                ", since it was warm.",
                ", as it was warm.",
                ", which means that it was warm.",
            },
        ),
        (
            "unseen",
            {
                ", which is why it was warm.",
                ", meaning that it was warm.",
                ", given that it was warm.",
                ", after which it was warm.",
                " – that is, it was warm.",
                " ... it was warm.",
            },
        ),
        (
            "bare",
            {
                " and it was warm.",
                " because it was warm.",
                " since it was warm.",
                " while it was warm.",
                " which is why it was warm.",
            },
        ),
    ],
)
def test_a_family_of_joints_is_used_as_a_whole(family: Family, found: set[str]) -> None:
    attack = MergeSentences(splitter=SPLITTER, share=0.5, joints=family)
    joined = {once(attack, "The sun rose. It was warm.", seed) for seed in range(80)}
    assert joined == {f"The sun rose{end}" for end in found}
    assert all(len(sentences(each)) == 1 for each in joined)
    called = once(attack, "The sun rose. It was warm!")
    assert called.endswith(("it was warm!", "it was warm!)."))


def test_no_joint_is_of_two_families() -> None:
    joints = [joint for family in JOINTS.values() for joint in family]
    assert len(joints) == len(set(joints))
    assert set(JOINTS) == set(get_args(Family))


@pytest.mark.parametrize(
    "text", ["Really? It was warm.", "It rose...\n\nIt was warm.", "One is here.\n\nTwo is here."]
)
def test_only_plain_neighbours_of_a_paragraph_are_joined(text: str) -> None:
    assert once(MergeSentences(splitter=SPLITTER, share=1.0), text) == text


def test_no_sentence_is_joined_twice() -> None:
    for seed in range(20):
        new = sentences(once(MergeSentences(splitter=SPLITTER, share=1.0), TEXT, seed))
        assert 3 <= len(new) <= 4
        assert all(each.count("house") <= 2 for each in new)


@pytest.mark.parametrize(
    ("text", "new"),
    [
        ("It rained all day; we stayed at home.", "It rained all day. We stayed at home."),
        ("It rained all day, and we stayed in.", "It rained all day. And we stayed in."),
        ("It rained, and how.", "It rained, and how."),  # too short a half
        ("We bought apples, pears and plums.", "We bought apples, pears and plums."),
        ("Nothing here can be cut.", "Nothing here can be cut."),
    ],
)
def test_sentences_are_split_at_seams(text: str, new: str) -> None:
    assert once(SplitSentences(splitter=SPLITTER, share=1.0), text) == new


def test_anywhere_is_the_middle() -> None:
    attack = SplitSentences(splitter=SPLITTER, share=1.0, anywhere=True)
    assert once(attack, "Nothing here can be cut at all.") == "Nothing here can. Be cut at all."
    assert once(attack, "Too short.") == "Too short."


@pytest.mark.parametrize("side", ["front", "back"])
def test_a_text_is_cut_off_at_a_sentence(side: str) -> None:
    attack = Truncate(splitter=SPLITTER, share=0.5, side=side)  # type: ignore[arg-type]
    assert sentences(once(attack, TEXT)) == (SENTENCES[3:] if side == "front" else SENTENCES[:3])
    assert once(Truncate(splitter=SPLITTER, share=0.0), TEXT) == TEXT
    assert once(Truncate(splitter=SPLITTER, share=1.0), TEXT) == ""


def test_text_after_the_cut_is_removed_too() -> None:
    new = once(Truncate(splitter=SPLITTER, share=0.5), DOCUMENT)
    assert new.startswith("# The flood")
    assert "print(" not in new
    new = once(Truncate(splitter=SPLITTER, share=0.5, side="front"), DOCUMENT)
    assert "# The flood" not in new
    assert new.endswith("The mill stood.")


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_a_quoted_text_is_a_share_of_the_words(share: float) -> None:
    attack = CopyPaste(pool=POOL, share=share)
    totals = []
    for seed in range(300):
        new = once(attack, TEXT, seed)
        assert TEXT in new.split("\n\n")
        totals.append(len(split_words(new)))
    assert np.mean(totals) * share == pytest.approx(len(split_words(TEXT)), rel=0.05)


def test_a_run_of_human_sentences_is_taken() -> None:
    new = once(CopyPaste(pool=POOL, share=0.7), TEXT)
    human = [each for each in sentences(new) if each in POOL]
    start = POOL.index(human[0])
    assert human == [POOL[(start + k) % 3] for k in range(len(human))]
    assert once(CopyPaste(pool=POOL, share=1.0), TEXT) == TEXT


def test_the_prompt_stands_in_front() -> None:
    assert once(LeftPrompt(prompt="Tell me."), "It is so.") == "Tell me. It is so."
    assert once(LeftPrompt(prompt="Q", gap="\n\n"), "A") == "Q\n\nA"


def test_invalid_settings_are_refused() -> None:
    with pytest.raises(InputError):
        InsertSentences(splitter=SPLITTER, pool=())
    with pytest.raises(InputError):
        CopyPaste(pool=("...",))
    with raises_naming(InputError, "share", 0):
        CopyPaste(pool=POOL, share=0.0)
    with pytest.raises(InputError):
        LeftPrompt(prompt=" ")
    for kind in (DeleteSentences, DuplicateSentences, ShuffleSentences, MergeSentences, Truncate):
        with raises_naming(InputError, "share", 1.5):
            kind(splitter=SPLITTER, share=1.5)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from([*SENTENCES, "## Head", "```\nx = 1\n```"]), max_size=8))
def test_a_share_of_nothing_changes_nothing(blocks: list[str]) -> None:
    text = "\n\n".join(blocks)
    for attack in (
        DeleteSentences(splitter=SPLITTER, share=0.0),
        InsertSentences(splitter=SPLITTER, pool=POOL, share=0.0),
        DuplicateSentences(splitter=SPLITTER, share=0.0),
        ShuffleSentences(splitter=SPLITTER, share=0.0),
        MergeSentences(splitter=SPLITTER, share=0.0),
        SplitSentences(splitter=SPLITTER, share=0.0),
        Truncate(splitter=SPLITTER, share=0.0),
    ):
        assert once(attack, text) == SPLITTER.split(text).text
