"""Words replaced by tiny masked and causal models made here, against a plain computation."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.errors import raises_naming

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from tests.unit.attacks import tiny  # noqa: E402

from hammingmark.attacks.infill import (  # noqa: E402
    CausalInfill,
    Gap,
    MaskedInfill,
    whole_words,
)
from hammingmark.errors import BackendError, InputError  # noqa: E402
from hammingmark.protocols import Attack, Splitter  # noqa: E402

Infill = MaskedInfill | CausalInfill
TEXT = (
    "# The bridge\n\nIn Paris the bridge was closed, and engineers waited for news. Nobody knew "
    "why boats came back.\n\n```\nboats = empty\n```"
)


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.bert(tmp_path_factory.mktemp("bert"))


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.gpt2(tmp_path_factory.mktemp("gpt2"))


@pytest.fixture(params=["masked", "causal"])
def make(request: pytest.FixtureRequest, splitter: Splitter, bert: Path, gpt2: Path) -> object:
    def made(**options: object) -> Infill:
        if request.param == "masked":
            return MaskedInfill(bert, splitter=splitter, **options)  # type: ignore[arg-type]
        return CausalInfill(gpt2, splitter=splitter, **options)  # type: ignore[arg-type]

    return made


def dice(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_lower_case_words_of_prose_change(make) -> None:  # type: ignore[no-untyped-def]
    attack = make(rate=1.0)
    assert isinstance(attack, Attack)
    (changed,) = attack.apply([TEXT], rng=dice())
    old, new = TEXT.split(" "), changed.split(" ")
    assert len(old) == len(new)
    kept = {"In", "Paris", "the", "was", "and", "for", "why"}
    for before, after in zip(old, new, strict=True):
        if before in kept:
            assert after == before
    assert changed.startswith("# The bridge\n\nIn Paris the ")
    assert changed.endswith("\n\n```\nboats = empty\n```")
    words = ["bridge", "closed,", "engineers", "waited", "news.", "knew", "boats", "came"]
    for word in words:
        place = old.index(word) if word != "bridge" else 4
        assert new[place] != word
        assert new[place].rstrip(".,").isalpha()
        assert new[place][len(new[place].rstrip(".,")) :] == word[len(word.rstrip(".,")) :]


def test_the_rate_is_the_share_of_words_replaced(make) -> None:  # type: ignore[no-untyped-def]
    sentence = "the boats came back from their winter river with morning music."  # 11 words
    for rate, count in ((0.0, 0), (0.3, 3), (0.5, 6), (1.0, 10)):
        (changed,) = make(rate=rate, temperature=1.0).apply([sentence], rng=dice(3))
        differ = sum(a != b for a, b in zip(sentence.split(), changed.split(), strict=True))
        assert differ == count


def test_randomness_comes_from_the_generator(make) -> None:  # type: ignore[no-untyped-def]
    attack = make(rate=0.5, temperature=2.0)
    first = attack.apply([TEXT, TEXT], rng=dice(1))
    assert attack.apply([TEXT, TEXT], rng=dice(1)) == first
    assert attack.apply([TEXT, TEXT], rng=dice(2)) != first


def test_the_batch_size_does_not_matter(make) -> None:  # type: ignore[no-untyped-def]
    texts = [TEXT, "Much rain fell on the little town in the early summer morning."]
    together = make(rate=0.6, batch=32).apply(texts, rng=dice(1))
    assert make(rate=0.6, batch=1).apply(texts, rng=dice(1)) == together


def test_the_masked_model_takes_the_likeliest(bert: Path, splitter: Splitter) -> None:
    model = transformers.AutoModelForMaskedLM.from_pretrained(bert).eval()
    words = transformers.AutoTokenizer.from_pretrained(bert)
    batch = words("the rain fell on the [MASK] town.", return_tensors="pt")
    place = batch["input_ids"][0].tolist().index(words.mask_token_id)
    with torch.inference_mode():
        scores = model(**batch).logits[0, place].log_softmax(-1)
    allowed = [w for w in tiny.WORDS if w != "small" and len(w) > 1]
    best = max(allowed, key=lambda word: float(scores[words.convert_tokens_to_ids(word)]))
    attack = MaskedInfill(bert, splitter=splitter)
    ((offered, *_),) = attack._propose([Gap("the rain fell on the ", "small", " town.")])
    assert offered[0] == best
    assert offered[1] == pytest.approx(float(scores[words.convert_tokens_to_ids(best)]), abs=1e-4)


def test_the_causal_model_weighs_the_whole_sentence(gpt2: Path, splitter: Splitter) -> None:
    model = transformers.AutoModelForCausalLM.from_pretrained(gpt2).eval()
    words = transformers.AutoTokenizer.from_pretrained(gpt2)

    def likelihood(text: str) -> float:
        ids = words(text, return_tensors="pt")["input_ids"]
        with torch.inference_mode():
            log_p = model(ids).logits[0, :-1].log_softmax(-1)
        return float(log_p[range(len(log_p)), ids[0, 1:]].sum())

    gap = Gap("The rain fell on the ", "small", " town.")
    count = len(tiny.WORDS)
    attack = CausalInfill(gpt2, splitter=splitter, candidates=10_000, batch=7)
    (offered,) = attack._propose([gap])
    assert {word for word, _ in offered} >= {w for w in tiny.WORDS if w != "small" and len(w) > 1}
    assert len(offered) > count
    for word, score in offered[:20]:
        assert score == pytest.approx(likelihood(gap.before + word + gap.after), abs=1e-3)
    # The proposals come in the order of the next-token probabilities, which see no further.
    few = CausalInfill(gpt2, splitter=splitter, candidates=5)._propose([gap])[0]
    assert [word for word, _ in few] == [word for word, _ in offered[:5]]


def test_the_first_word_has_nothing_before_it(gpt2: Path, splitter: Splitter) -> None:
    attack = CausalInfill(gpt2, splitter=splitter, rate=1.0)
    assert attack.apply(["boats (boats"], rng=dice()) == ["boats (boats"]
    assert attack.tally == {"same": 1}


def test_a_long_sentence_is_truncated_at_its_beginning(gpt2: Path, splitter: Splitter) -> None:
    """It has more tokens than the tokenizer's limit of 64."""
    long, near = Gap("the rain " * 50, "fell", " on boats."), Gap("the rain " * 29, "fell", " on")
    attack = CausalInfill(gpt2, splitter=splitter, candidates=4)
    assert [len(offered) for offered in attack._propose([long, near])] == [4, 4]
    (changed,) = CausalInfill(gpt2, splitter=splitter, rate=1.0).apply(
        ["the rain " * 50 + "fell on boats."], rng=dice()
    )
    assert len(changed.split()) == 103
    assert "rain" not in changed


def test_a_truncated_gap_is_not_replaced(bert: Path, splitter: Splitter) -> None:
    sentence = "Rain, " * 70 + "fell on boats."
    attack = MaskedInfill(bert, splitter=splitter, rate=1.0)
    assert attack.apply([sentence], rng=dice()) == [sentence]


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        (["[PAD]", "cat", "##s", "Dog", "7", "x"], [None, "cat", None, None, None, None]),
        (["[PAD]", "Ġcat", "s", "ĠDog", "Ġ7", "ĠcafÃ©"], [None, "cat", None, None, None, None]),
        (["[PAD]", "▁cat", "s", "▁", "▁dog"], [None, "cat", None, None, "dog"]),
    ],
)
def test_whole_words(tokens: list[str], expected: list[str | None]) -> None:
    class Vocabulary:
        all_special_ids = (0,)

        def __len__(self) -> int:
            return len(tokens)

        def convert_ids_to_tokens(self, ids: range) -> list[str]:
            return [tokens[i] for i in ids]

    assert whole_words(Vocabulary()) == expected


def test_invalid_settings(make, tmp_path: Path, splitter: Splitter) -> None:  # type: ignore[no-untyped-def]
    for wrong in ({"rate": 1.5}, {"candidates": 0}, {"temperature": 0.0}):
        with pytest.raises(InputError):
            make(**wrong)
    with raises_naming(BackendError, "none"):
        MaskedInfill(tmp_path / "none", splitter=splitter).apply([TEXT], rng=dice())
