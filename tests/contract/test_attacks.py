"""What every registered attack promises, on models that are tiny where it needs one."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.contract.attack_examples import GIVEN, NEVER_ROLLS, ROLLS

from hammingmark import registry
from hammingmark.assembly.parts import describe_attack, load_attack, load_splitter
from hammingmark.attacks.base import TextAttack
from hammingmark.protocols import Attack

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

NAMES = list(registry.TABLES["attacks"])
# Those that treat a text by itself; the others work on all texts of a batch at once.
EACH = [name for name in NAMES if issubclass(registry.find("attacks", name), TextAttack)]
TOGETHER = [name for name in NAMES if name not in EACH]


def over(names: list[str]) -> pytest.MarkDecorator:
    """A test for each name; Bergamot's models are real and take their time."""
    slow = [pytest.mark.slow]
    return pytest.mark.parametrize(
        "name", [pytest.param(n, marks=slow if n == "bergamot" else []) for n in names]
    )


every_attack = over(NAMES)
each_text = over(EACH)
all_at_once = over(TOGETHER)
Build = Callable[..., Attack]


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """An attack by its name, given what it needs; more settings take the place of the defaults."""

    @cache
    def needed(name: str) -> dict[str, object]:
        part = registry.find("attacks", name)
        for library in getattr(part, "libraries", ()):
            if find_spec(library) is None:
                pytest.skip(f"{name} needs {library}")
        give = GIVEN.get(name)
        return dict(give(tmp_path_factory.mktemp(name))) if give else {}

    made: dict[str, Attack] = {}

    def build(name: str, **more: object) -> Attack:
        what = repr([name, sorted(more.items())])
        if what not in made:  # so that a model is loaded once
            chosen = {**needed(name), **more}
            made[what] = load_attack(name, splitter=load_splitter(), parameters=chosen)
        return made[what]

    return build


def once(made: Attack, texts: list[str], seed: int = 0) -> list[str]:
    return made.apply(texts, rng=np.random.default_rng(seed))


@every_attack
def test_it_is_what_it_says(build: Build, name: str) -> None:
    made = build(name)
    assert isinstance(made, Attack)
    assert made.name == name
    assert -1.0 <= made.min_similarity <= 1.0
    brief, parameters, meanings = describe_attack(name)
    assert brief.endswith(".")
    assert len(brief) < 100
    typed = {name for name, parameter in parameters.items() if parameter.typed}
    assert typed <= meanings.keys(), "a parameter has no meaning"


@every_attack
def test_as_many_texts_come_back_and_none_is_too_odd(build: Build, name: str) -> None:
    for seed in range(3 if name in EACH and name not in NEVER_ROLLS else 1):
        found = once(build(name), TEXTS, seed)
        assert len(found) == len(TEXTS)
        assert all(isinstance(text, str) for text in found)
    assert once(build(name), []) == []


@every_attack
def test_the_seed_decides_and_nothing_else(build: Build, name: str) -> None:
    made = build(name, **ROLLS.get(name, {}))
    texts = TEXTS if name in EACH else TEXTS[:6]  # models take long over what is odd
    first = once(made, texts, 5)
    np.random.seed(1)  # noqa: NPY002 - the global dice must not matter, nor which list it is
    assert once(made, list(texts), 5) == first


@each_text
def test_a_text_depends_on_its_place_and_not_on_its_mates(build: Build, name: str) -> None:
    made = build(name, **ROLLS.get(name, {}))
    whole = once(made, TEXTS, 9)
    others = [TEXTS[0], *["Something else altogether."] * (len(TEXTS) - 2), TEXTS[-1]]
    found = once(made, others, 9)
    assert (found[0], found[-1]) == (whole[0], whole[-1])
    assert once(made, TEXTS[:4], 9) == whole[:4]


@every_attack
def test_every_text_comes_back_in_its_place(build: Build, name: str) -> None:
    texts = [f"```\nnumber = {number}\n```\n\nIt rose. It fell." for number in range(20)]
    for number, found in enumerate(once(build(name), texts)):
        assert f"```\nnumber = {number}\n```" in found


@every_attack
def test_it_moves_the_dice_it_is_given(build: Build, name: str) -> None:
    made, rng = build(name, **ROLLS.get(name, {})), np.random.default_rng(3)
    first = made.apply([PROSE], rng=rng)
    if name in NEVER_ROLLS:
        assert all(made.apply([PROSE], rng=rng) == first for _ in range(4))
    else:
        assert any(made.apply([PROSE], rng=rng) != first for _ in range(30))


@pytest.mark.parametrize("name", sorted(ROLLS))
def test_what_leaves_nothing_to_chance_does_the_same_for_all_dice(build: Build, name: str) -> None:
    assert len({once(build(name), [PROSE], seed)[0] for seed in range(10)}) == 1


@every_attack
def test_prose_is_changed(build: Build, name: str) -> None:
    assert any(once(build(name), [PROSE], seed)[0] != PROSE for seed in range(20))


CODE = "```py\nx = 1  # don't panic, big car\n```"


@over([name for name in NAMES if name != "truncate"])
def test_code_survives(build: Build, name: str) -> None:
    for seed in range(5):
        assert CODE in once(build(name), [f"It rose.\n\n{CODE}\n\nIt fell."], seed)[0]


@pytest.mark.parametrize("side", ["front", "back"])
@pytest.mark.parametrize("share", [0.0, 0.34, 0.67, 1.0])
def test_what_is_left_of_a_truncated_text_is_as_it_was(
    build: Build, side: str, share: float
) -> None:
    text = f"It rose.\n\n{CODE}\n\nIt fell. It rained."
    made = build("truncate", side=side, share=share)
    for seed in range(5):
        (found,) = once(made, [text], seed)
        assert text.startswith(found) if side == "back" else text.endswith(found)
        assert ("x = 1" in found) == (CODE in found)


@each_text
def test_it_survives_pickling(build: Build, name: str) -> None:
    made = build(name)
    again = pickle.loads(pickle.dumps(made))
    assert once(again, [PROSE], 2) == once(made, [PROSE], 2)


_odd = given(texts=st.lists(st.text(max_size=80), max_size=3), seed=st.integers(0, 2**32))
_calm = [HealthCheck.differing_executors]


@each_text
@settings(max_examples=25, deadline=None, suppress_health_check=_calm)
@_odd
def test_it_never_raises(build: Build, name: str, texts: list[str], seed: int) -> None:
    assert len(once(build(name), texts, seed)) == len(texts)


@all_at_once
@settings(max_examples=5, deadline=None, suppress_health_check=_calm)
@_odd
def test_no_model_makes_it_raise(build: Build, name: str, texts: list[str], seed: int) -> None:
    assert len(once(build(name), texts, seed)) == len(texts)
