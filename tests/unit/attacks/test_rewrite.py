"""Rewriting by a scripted chat model; a real one is tested in integration."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from tests.errors import raises_naming

from hammingmark.attacks.response_cleanup import clean
from hammingmark.attacks.rewrite import REWRITE_PROMPTS, Rewrite, RewritePrompt
from hammingmark.attacks.segments import Kept
from hammingmark.errors import BackendError, InputError
from hammingmark.protocols import Attack, Splitter
from hammingmark.records import Sampling
from hammingmark.testing import FakeBackend

TEXT = """# A heading

The old bridge was closed. Engineers had found {cracks} in it.

- Nobody knew why.

```
code
```

The rain fell. It fell for days."""


def chat(answer: Callable[[str], str] = lambda asked: "Said otherwise.") -> FakeBackend:
    """Answers by a function of the user's turn, the last request first."""
    return FakeBackend(
        parallel=3,
        sentences=lambda request: answer(request.prompt.messages[-1].content),
        order=lambda asked: asked[::-1],
    )


def dice(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def echo(asked: str) -> str:
    """The sentence asked for, in capitals."""
    return asked.rsplit("Sentence: ", 1)[-1].rsplit("Text:\n", 1)[-1].upper()


def test_sentences_are_rewritten_and_nothing_else(splitter: Splitter) -> None:
    backend = chat(echo)
    attack = Rewrite(backend, splitter=splitter)
    assert isinstance(attack, Attack)
    (changed,) = attack.apply([TEXT], rng=dice())
    assert changed == TEXT.replace(
        "The old bridge was closed. Engineers had found {cracks} in it.",
        "THE OLD BRIDGE WAS CLOSED. ENGINEERS HAD FOUND {CRACKS} IN IT.",
    ).replace("Nobody knew why.", "NOBODY KNEW WHY.").replace(
        "The rain fell. It fell for days.", "THE RAIN FELL. IT FELL FOR DAYS."
    )
    assert attack.tally == {"changed": 5}
    (session,) = backend.sessions
    assert session.most == backend.parallel
    assert session.closed


def test_a_document_is_all_prose_up_to_code(splitter: Splitter) -> None:
    backend = chat(echo)
    text = "The rain fell. It fell for days.\n\nThen it stopped.\n\n```\ncode\n```\n\nAll was well."
    (changed,) = Rewrite(backend, splitter=splitter, scope="document").apply([text], rng=dice())
    assert changed == text.upper().replace("CODE", "code")
    assert len(backend.drawn) == 2
    paragraphs = Rewrite(backend, splitter=splitter, scope="paragraph")
    assert paragraphs.apply([text], rng=dice()) == [changed]
    assert len(backend.drawn) == 5


def test_context_is_the_preceding_sentences(splitter: Splitter) -> None:
    backend = replace(chat(), parallel=1)
    text = "One came first. Two came next. Three came last."
    Rewrite(backend, splitter=splitter, context=1).apply([text], rng=dice())
    first, second, third = (request.prompt.messages[-1].content for request in backend.drawn)
    assert first == REWRITE_PROMPTS["v1"].sentence.format(text="One came first.")
    assert second == REWRITE_PROMPTS["v1"].in_context.format(
        context="One came first.", text="Two came next."
    )
    assert "Two came next." in third
    assert "One came first." not in third


def test_seeds_come_from_the_generator(splitter: Splitter) -> None:
    def seeds(seed: int) -> list[int]:
        backend = chat()
        Rewrite(backend, splitter=splitter).apply([TEXT, "One more."], rng=dice(seed))
        return [request.seed for request in backend.drawn]

    assert seeds(1) == seeds(1) != seeds(2)
    assert len(set(seeds(1))) == 6


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("I'm sorry, but I can't help with that.", "refused"),
        ("", "empty"),
        ("<think>Hm. What now?", "empty"),
        ("A good beginning. " * 1000, "cut"),
        ("- one\n- two", "misfit"),
        ("123 456", "misfit"),
        ("The rain fell.", "same"),
    ],
)
def test_answers_that_are_not_rewrites_are_not_used(
    answer: str, reason: str, splitter: Splitter
) -> None:
    attack = Rewrite(chat(lambda asked: answer), splitter=splitter)
    assert attack.apply(["The rain fell."], rng=dice()) == ["The rain fell."]
    assert attack.tally == {reason: 1}


@pytest.mark.parametrize(
    "answer",
    [
        "Rain came down.",
        "  Rain came down.\n",
        '"Rain came down."',
        "“Rain came down.”",
        "**Rain came down.**",
        "Here is the rewritten sentence: Rain came down.",
        "Sure! Here's one way to say it:\n\nRain came down.",
        "Certainly.\n\nRain came down.",
        "Rewritten sentence: Rain came down.",
        "**Rewritten sentence:** Rain came down.",
        "Sentence: Rain came down.",
        "```\nRain came down.\n```",
        "<think>\nA synonym for fell?\n</think>\n\nRain came down.",
        "Rain came down.\n\nNote: I kept the meaning.",
        "Rain came down.\n\nLet me know if you want another one!",
    ],
)
def test_cleaning(answer: str) -> None:
    assert clean(answer, original="The rain fell.", whole=False) == "Rain came down."
    assert clean(answer, original="The rain fell.", whole=True) == "Rain came down."


def test_features_of_the_original_are_kept() -> None:
    for text in (
        '"Go," he said, "and stay."',
        "Here is the plan: we wait.",
        "I'm sorry to hear it.",
        "Sure, he said.",
        'He said "no" and "yes"',
    ):
        assert clean(text, original=text, whole=False) == text
    assert clean('"Go now"', original='"Leave"', whole=False) == '"Go now"'
    assert clean("Sorry, no.", original="The rain fell.", whole=False) == Kept("refused")
    offered = "He offered another option: leave."
    assert clean(offered, original="He said they could go.", whole=False) == offered
    for several in (
        "Here are two rewritten versions of the sentence, with other words and a different "
        "sentence structure, which keep its meaning:\n\n1. Rain came down.\n2. It rained.",
        "Certainly! Here are some versions:\n- Rain came down.\n- It rained.",
        "Rain came down. Another possible way to rewrite the sentence: It rained.",
    ):
        assert clean(several, original="The rain fell.", whole=False) == "Rain came down."
    two = "First part.\n\nSecond part."
    assert clean(two, original="Old text.", whole=True) == two
    assert clean(two, original="Old text.", whole=False) == "First part."


def test_a_prompt_is_a_name_or_an_object(splitter: Splitter) -> None:
    own = RewritePrompt(system="s", sentence="{text}!", in_context="{context} {text}", passage="")
    backend = chat()
    attack = Rewrite(backend, splitter=splitter, prompt=own, temperature=0.5, top_k=9)
    attack.apply(["The rain fell."], rng=dice())
    (request,) = backend.drawn
    assert [(m.role, m.content) for m in request.prompt.messages] == [
        ("system", "s"),
        ("user", "The rain fell.!"),
    ]
    assert not request.stop_condition("anything")
    wanted = Sampling(temperature=0.5, top_k=9, top_p=0.95)
    assert {request.sampling for request in backend.drawn} == {wanted}
    with raises_naming(InputError, "v0", "v1"):
        Rewrite(backend, splitter=splitter, prompt="v0")
    with raises_naming(InputError, "context"):
        Rewrite(backend, splitter=splitter, scope="document", context=1)


def test_versions_do_not_change() -> None:
    """Results name the version; another wording needs another one."""
    import hashlib
    import json
    from dataclasses import asdict

    content = json.dumps(asdict(REWRITE_PROMPTS["v1"]), sort_keys=True).encode()
    assert hashlib.sha256(content).hexdigest()[:16] == "438fb2d8993010d8"


def test_a_prompt_that_does_not_fit_is_an_error(splitter: Splitter) -> None:
    backend = FakeBackend(context=3)
    with raises_naming(BackendError, 3):
        Rewrite(backend, splitter=splitter).apply([TEXT], rng=dice())
    assert [session.closed for session in backend.sessions] == [True]


def test_a_failing_model_is_an_error_and_closes_the_session(splitter: Splitter) -> None:
    backend = FakeBackend(fail_after=1)
    with pytest.raises(BackendError):
        Rewrite(backend, splitter=splitter).apply([TEXT], rng=dice())
    assert [session.closed for session in backend.sessions] == [True]
