"""Token-level methods on the embedded model: they mark, are found, and cost what they should."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats
from tests.errors import raises_naming
from tests.unit.server.harness import (
    Home,
    LoopThread,
    Served,
    error_of,
    mark_of,
    text_of,
)

import hammingmark
from hammingmark import registry
from hammingmark.assembly.backends import load_backend
from hammingmark.assembly.keys import method_of, new_key
from hammingmark.backends.transformers import TransformersBackend
from hammingmark.generation.generate import GenerationConfig
from hammingmark.keys.config import TokenConfig
from hammingmark.keys.key import Secret, WatermarkKey
from hammingmark.protocols import Encoder, TokenWatermark
from hammingmark.records import DecodingStep, Generation
from hammingmark.stats.compare import compare
from hammingmark.testing.method_examples import token_mark

pytest.importorskip("torch")
pytestmark = pytest.mark.slow

MODEL = "transformers:smollm2"
METHODS = [
    name
    for name in registry.names("methods")
    if issubclass(registry.find("methods", name).Config, TokenConfig)
]
PROMPTS = (
    "The old lighthouse on the cliff had been empty for years.",
    "Researchers who study the deep sea have found something that nobody expected.",
    "In the spring the council decided to close the bridge to cars.",
    "My grandmother kept her recipes in a tin box under the bed.",
)


@pytest.fixture(scope="module")
def model() -> Iterator[TransformersBackend]:
    backend = load_backend(MODEL, parallel=8)
    assert isinstance(backend, TransformersBackend)
    yield backend
    backend.close()


@pytest.fixture(scope="module")
def make(model: TransformersBackend, encoder: Encoder) -> Any:
    """Keys that are the same in every run: what is written under them is nearly the same, too."""

    def key(method: str, number: int = 1) -> WatermarkKey:
        made = new_key(encoder, method=method, tokenizer=model.load_tokenizer())
        return replace(made, secret=Secret(hashlib.sha256(b"%d" % number).digest()))

    return key


@dataclass(frozen=True)
class Written:
    """Eight texts of one key, and the key."""

    key: WatermarkKey
    texts: list[Generation]

    @property
    def long(self) -> list[str]:
        """Those that the model did not end soon; it ends one in ten within a sentence or two."""
        found = [each.text for each in self.texts if each.cost.tokens >= 45]
        assert len(found) >= 3
        return found


@pytest.fixture(scope="module", params=METHODS)
def written(request: pytest.FixtureRequest, model: Any, make: Any, encoder: Encoder) -> Written:
    key = make(request.param)
    config = GenerationConfig(max_tokens=90)
    made = hammingmark.writer(key, backend=model, encoder=encoder, config=config)
    return Written(key, made.write_many([*PROMPTS, *PROMPTS], seed=3))


@pytest.fixture(scope="module")
def detector(model: Any, encoder: Encoder) -> Any:
    return partial(hammingmark.detector, encoder=encoder, tokenizer=model.load_tokenizer())


def test_texts_are_marked_found_and_nobody_elses(
    written: Written, make: Any, detector: Any
) -> None:
    texts = written.long
    p = [each.p_value for each in detector(written.key).judge_many(texts)]
    assert stats.combine_pvalues(p, "fisher").pvalue < 1e-6, p
    method = written.key.config.method
    others = [detector(make(method, number)) for number in range(2, 12)]
    wrong = [each.p_value for other in others for each in other.judge_many(texts)]
    # Each is uniform or larger; as many as this come once in 100,000 times.
    assert sum(each <= 0.02 for each in wrong) <= stats.binom.isf(1e-5, len(wrong), 0.02)


def test_what_the_model_drew_is_what_detection_reads(written: Written, model: Any) -> None:
    """But for a token here and there that the tokenizer spells otherwise than the model did."""
    tokenizer = model.load_tokenizer()
    for text in written.texts:
        tokens = tokenizer.encode(text.text)
        assert abs(len(tokens) - text.cost.tokens) <= 3
        assert "".join(tokenizer.pieces(tokens)) == text.text


def test_a_marked_passage_is_found_in_a_longer_text(
    written: Written, articles: list[str], detector: Any
) -> None:
    marked = " ".join(written.long)
    before, after = (articles[place][:700] for place in (8, 9))
    verdict = detector(written.key).judge(f"{before} {marked} {after}")
    assert verdict.passages, verdict
    first = verdict.passages[0]
    begin, end = (len("".join(verdict.pieces[:place])) for place in (first.begin, first.end))
    inside = (len(before), len(before) + len(marked))
    shared = min(end, inside[1]) - max(begin, inside[0])
    assert shared > 0.5 * (end - begin)
    assert shared > 0.3 * len(marked)
    plain = detector(written.key).judge(f"{before} {after}")
    assert plain.p_value > 0.001


@pytest.mark.parametrize(
    ("method", "statistic", "mean", "variance"),
    [
        ("kgw", "green", 0.5, 0.25),
        ("kgw", "green_all", 0.5, None),
        ("synthid", "mean", 0.5, 0.25 / 30),
        ("sir", "similarity", 0.0, None),
    ],
)
def test_human_text_has_what_theory_says(
    method: str, statistic: str, mean: float, variance: float | None, make: Any, detector: Any,
    articles: list[str],
) -> None:  # fmt: skip
    """Under keys that it does not know: the green share, the mean g-value, the mean bias.

    Over keys, sums of one text are independent draws from its null distribution, so that their
    means have a known error; where tokens repeat it is larger than that of so many single tokens.
    """
    judge = detector(make(method))
    texts = [each[:1500] for each in articles[10:16]]
    read = [each for batch in judge.reader.batches(texts) for each in batch]
    excess, expected, p_values = [], [], []
    for number in range(60):
        mark = method_of(make(method, 100 + number))
        for each in read:
            text = mark.read(each.values)
            test = text.test(statistic)
            units = np.count_nonzero(test.best)
            excess.append(test.increments.sum() - mean * units)
            expected.append(units * variance if variance else np.nan)
            p_values.append(compare(test, limit=1).p_value)
    error = np.std(excess) / np.sqrt(len(excess))
    assert abs(np.mean(excess)) < 4 * error, (np.mean(excess), error)
    if variance:
        assert np.var(excess) == pytest.approx(np.mean(expected), rel=0.3)
    for level in (0.05, 0.3):
        share = np.mean(np.array(p_values) <= level)
        assert abs(share - level) < 4 * np.sqrt(level * (1 - level) / len(p_values)) + 0.01


def test_a_derived_key_is_found_among_many(model: Any, make: Any, detector: Any) -> None:
    master = make("kgw")
    config = GenerationConfig(max_tokens=90)
    made = hammingmark.writer(master.derive("2026-11-07"), backend=model, config=config)
    text = max(made.write_many(PROMPTS, seed=5), key=lambda each: each.cost.tokens)
    labels = [f"2026-{month:02}-{day:02}" for month in range(1, 13) for day in range(1, 29)]
    verdict = detector(master, labels=labels).judge(text.text)
    assert verdict.watermarked
    assert (verdict.label, verdict.keys) == ("2026-11-07", 336)


def test_the_cost_in_perplexity_has_the_papers_order(
    model: TransformersBackend, make: Any, articles: list[str]
) -> None:
    """What the model thinks of the next token that each method would draw, on average over keys.

    Exact for a distribution of the model: no text is sampled. SynthID changes nothing on average
    over keys; KGW and SIR favour tokens that the model would not have, and MorphMark fewer of them.
    """
    import torch

    model.open().close()
    assert model._loaded is not None
    ids = torch.tensor([model.load_tokenizer().encode(articles[3])[:161]])
    with torch.inference_mode():
        logits = model._loaded.model(ids).logits[0, 40:160].float()
    surprise = -logits.log_softmax(dim=1)
    plain = drawn_from(None, logits, ids[0], surprise, first=40)
    cost: dict[str, float] = {}
    for method in METHODS:
        # A tournament leaves few tokens under one key, so that many keys make an average.
        found = [
            drawn_from(
                token_mark(method_of(make(method, number))), logits, ids[0], surprise, first=40
            )
            for number in range(60 if method == "synthid" else 6)
        ]
        cost[method] = float(np.exp(np.mean(found) - plain))
    assert abs(cost["synthid"] - 1.0) < 0.08, cost
    assert min(cost["kgw"], cost["sir"]) > 1.15, cost
    assert cost["morphmark"] < min(cost["kgw"], cost["sir"]), cost


def drawn_from(
    mark: TokenWatermark | None, logits: Any, tokens: Any, surprise: Any, *, first: int
) -> float:
    """The mean surprise (n, V) of tokens drawn after logits (n, V), of the fifty likeliest."""
    import torch

    n = len(logits)

    def told(scores: Any, of: Any) -> Any:
        assert mark is not None
        padded = torch.cat([torch.full((mark.width,), -1), tokens])
        rows = torch.arange(first + 1, first + 1 + n)[:, None] + torch.arange(mark.width)
        rng = np.random.default_rng(int.from_bytes(mark.key.id.encode()[-4:], "big"))
        signs = np.sign(rng.standard_normal((n, mark.condition_size))).astype(np.float32)
        return mark.process(scores, DecodingStep(of, padded[rows], torch.from_numpy(signs)))

    stage = mark.stage if mark else None
    if stage == "logits":
        logits = told(logits, torch.arange(logits.shape[1])[None])
    values, likeliest = logits.topk(50, dim=1)
    if stage == "distribution":
        values = told(values, likeliest)
    shares = values.softmax(dim=1)
    assert torch.isfinite(shares).all()
    return float((shares * surprise.gather(1, likeliest)).sum(dim=1).mean())


def test_another_models_tokens_are_refused(make: Any, model: Any, tmp_path: Path) -> None:
    key = make("kgw")
    tokenizer = replace(key.config.tokenizer, fingerprint="00" * 32)
    other = replace(key, config=replace(key.config, tokenizer=tokenizer))
    with raises_naming(hammingmark.HammingMarkError, "tokenizer", key.config.tokenizer.name):
        hammingmark.writer(other, backend=model)


@pytest.fixture
def loop() -> Iterator[LoopThread]:
    made = LoopThread()
    yield made
    made.close()


def test_the_service_marks_tokens_and_says_what_they_prove(
    model: Any, make: Any, encoder: Encoder, tmp_path: Path, loop: LoopThread
) -> None:
    home = Home(tmp_path)
    served = Served(
        home.service(key=make("sir"), backend=model, encoder=encoder, audit={"file": home.audit}),
        loop,
    )
    for seed in range(8):  # the model ends some texts within a sentence or two
        answer = served.complete(prompt=PROMPTS[0], max_tokens=90, seed=seed)
        mark = mark_of(answer)
        if mark["emitted_tokens"] > 60:
            break
    assert mark["key_id"] == make("sir").id
    found = served.detect(text_of(answer))
    assert (found["unit"], found["p_value"]) == ("token", mark["p_value"])
    # The first words of a text have no context under which they could be marked.
    short = mark_of(served.complete(prompt=PROMPTS[0], max_tokens=4))
    assert (short["status"], short["key_id"], short["p_value"]) == ("unmarked", None, None)
    assert "token" in short["reason"]
    assert [row["status"] for row in home.records("end")][-1] == "unmarked"
    # The mark decides which token is the likeliest, so that there is something to choose.
    greedy = mark_of(served.complete(prompt=PROMPTS[0], max_tokens=90, temperature=0))
    assert greedy["status"] in ("marked", "partly")
    assert greedy["key_id"] == make("sir").id
    refused = served.post(
        "/v1/completions", {"prompt": "It rained.", "max_tokens": 4, "frequency_penalty": 1}
    )
    assert refused.status_code == 400
    assert error_of(refused)["param"] == "frequency_penalty"


def test_a_short_answer_of_tokens_is_refused_before_any_of_it_is_sent(
    model: Any, make: Any, encoder: Encoder, tmp_path: Path, loop: LoopThread
) -> None:
    strict = {"unmarkable": "refuse"}
    service = Home(tmp_path).service(key=make("sir"), backend=model, encoder=encoder, policy=strict)
    answer = Served(service, loop).complete(prompt=PROMPTS[0], max_tokens=4, stream=True)
    assert answer.status_code == 503
    assert error_of(answer)["code"] == "watermark_failed"
