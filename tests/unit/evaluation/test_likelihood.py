"""The likelihood of a text under a model of the transformers library."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from hammingmark.evaluation import quality
from hammingmark.evaluation.quality import PretrainedLikelihood

torch = pytest.importorskip("torch")


class NextLetter:
    """A model that expects the next letter of the alphabet with logit 1, all others with 0."""

    def __call__(self, ids: object) -> SimpleNamespace:
        return SimpleNamespace(logits=torch.eye(26).roll(1, dims=1)[ids])


def letters(text: str) -> SimpleNamespace:
    return SimpleNamespace(input_ids=[ord(each) - ord("a") for each in text if each.isalpha()])


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> PretrainedLikelihood:
    loaded = SimpleNamespace(torch=torch, tokenizer=letters, model=NextLetter(), device="cpu")
    monkeypatch.setattr(quality, "load", lambda *args, **options: loaded)
    return PretrainedLikelihood("folder/alphabet", max_tokens=6)


def expected(hits: int, misses: int) -> object:
    total = torch.log(torch.tensor(25.0 + torch.e))
    return pytest.approx(float(hits * (total - 1.0) + misses * total), abs=1e-4)


def test_a_text_is_read_after_its_prompt(model: PretrainedLikelihood) -> None:
    assert model.name == "transformers:alphabet"
    assert model.negative_log_likelihood("cd", prompt="ab") == (expected(2, 0), 2)
    assert model.negative_log_likelihood("xd", prompt="ab") == (expected(0, 2), 2)


def test_without_a_prompt_the_first_token_is_not_counted(model: PretrainedLikelihood) -> None:
    assert model.negative_log_likelihood("abd", prompt="") == (expected(1, 1), 2)
    assert model.negative_log_likelihood("a", prompt="") == (0.0, 0)


def test_what_the_model_cannot_see_is_not_counted(model: PretrainedLikelihood) -> None:
    assert model.negative_log_likelihood("defgh", prompt="abc") == (expected(3, 0), 3)
    assert model.negative_log_likelihood("gh", prompt="abcdef") == (0.0, 0)
