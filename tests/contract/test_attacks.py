"""What every registered attack that needs no language model promises."""

from __future__ import annotations

import pickle
from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hammingmark import registry
from hammingmark.assemble import describe_attack, load_attack, load_splitter
from hammingmark.attacks.settings import REQUIRED
from hammingmark.protocols import Attack

# These drive a model of the language; their own tests hold them to what they promise.
MODEL_DRIVEN = {"adaptive", "diverse", "dipper", "infill", "paraphrase", "rewrite", "translate"}
POOL = ["Copper rose in London.", "Nobody had asked for tea.", "It snowed in March."]
GIVEN: Mapping[str, object] = {"pool": POOL, "prompt": "Tell me more."}

PROSE = (
    "The river rose in the night, and it didn't stop. By morning it had reached the old mill! "
    "Had anyone seen it come? Nobody answered; they were asleep. Dr. Hale lit a large lamp. "
    "It was late, but the house was big and warm. They do not know what they had begun."
)
TEXTS = [
    PROSE,
    "",
    " \n\t ",
    "Word",
    "One.",
    "# Head\n\nIt rose. It fell.\n\n```py\nx = 1  # don't\n```\n\n- A list item. Two of them.",
    "```\nnever closed",
    "它来了。没有人看见!",
    "Привет, мир. Как дела?",
    "مرحبا بالعالم. كيف الحال؟",
    "หนึ่งสอง สาม",
    "\x00\ud800\u200b. a\u0301 b.",
    "a\r\nb\u2028c\x85d",
    "don’t 's '' ' I'm",
    "..." * 50,
    "👩‍👩‍👧 family. 🎉!",
    "https://example.org/a_b x@y.zz www.z.org",
    "word " * 300,
]


def _module(name: str) -> str:
    return registry.ROOMS["attacks"].get(name, "").partition(":")[0].rpartition(".")[2]


NAMES = [name for name in registry.ROOMS["attacks"] if _module(name) not in MODEL_DRIVEN]
every_attack = pytest.mark.parametrize(
    "name",
    # A lexicon is a file of the model store.
    [pytest.param(n, marks=[pytest.mark.slow] if n == "synonyms" else []) for n in NAMES],
)


def build(name: str, **more: object) -> Attack:
    _, known = describe_attack(name)
    wanted = {key: GIVEN[key] for key, each in known.items() if each.default is REQUIRED}
    return load_attack(name, splitter=load_splitter(), settings={**wanted, **more})


def attack(name: str, texts: list[str], seed: int = 0) -> list[str]:
    return build(name).apply(texts, rng=np.random.default_rng(seed))


@every_attack
def test_it_is_what_it_says(name: str) -> None:
    made = build(name)
    assert isinstance(made, Attack)
    assert made.name == name
    assert -1.0 <= made.keeps <= 1.0  # type: ignore[attr-defined]
    brief, _ = describe_attack(name)
    assert brief.endswith(".")
    assert len(brief) < 100


@every_attack
def test_as_many_texts_come_back_and_none_is_too_odd(name: str) -> None:
    for seed in range(3):
        found = attack(name, TEXTS, seed)
        assert len(found) == len(TEXTS)
        assert all(isinstance(text, str) for text in found)
    assert attack(name, []) == []


@every_attack
def test_the_seed_decides_and_nothing_else(name: str) -> None:
    once = attack(name, TEXTS, 5)
    np.random.seed(1)  # noqa: NPY002 - the global dice must not matter
    assert attack(name, TEXTS, 5) == once
    assert attack(name, list(TEXTS), 5) == once


@every_attack
def test_a_text_depends_on_its_place_and_not_on_its_mates(name: str) -> None:
    whole = attack(name, TEXTS, 9)
    others = [TEXTS[0], *["Something else altogether."] * (len(TEXTS) - 2), TEXTS[-1]]
    found = attack(name, others, 9)
    assert (found[0], found[-1]) == (whole[0], whole[-1])
    assert attack(name, TEXTS[:4], 9) == whole[:4]


@every_attack
def test_it_moves_the_dice_it_is_given(name: str) -> None:
    made, rng = build(name), np.random.default_rng(3)
    first = [made.apply([PROSE], rng=rng)[0] for _ in range(30)]
    if name not in {"prompt", "case", "contractions"}:  # these leave nothing to chance here
        assert len(set(first)) > 1


@every_attack
def test_prose_is_changed(name: str) -> None:
    assert any(attack(name, [PROSE], seed)[0] != PROSE for seed in range(20))


@every_attack
def test_code_survives(name: str) -> None:
    text = "It rose.\n\n```py\nx = 1  # don't panic, big car\n```\n\nIt fell."
    if name != "truncate":  # which cuts off whatever stands there
        for seed in range(5):
            assert "```py\nx = 1  # don't panic, big car\n```" in attack(name, [text], seed)[0]


@every_attack
def test_it_survives_pickling(name: str) -> None:
    made = build(name)
    again = pickle.loads(pickle.dumps(made))
    rng, other = np.random.default_rng(2), np.random.default_rng(2)
    assert again.apply([PROSE], rng=rng) == made.apply([PROSE], rng=other)


@every_attack
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.differing_executors])
@given(texts=st.lists(st.text(max_size=80), max_size=3), seed=st.integers(0, 2**32))
def test_it_never_raises(name: str, texts: list[str], seed: int) -> None:
    assert len(attack(name, texts, seed)) == len(texts)
