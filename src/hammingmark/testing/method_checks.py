"""What every watermarking method keeps to, as functions that fail with a sentence.

A method supplies its own examples: a class method ``examples`` gives configurations by name. Each
check is run on each of them, on texts that are made here: random embeddings at some similarity for
a method that marks sentences, random tokens for one that marks tokens, and these under contexts
that wander for one that follows them.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hammingmark.errors import InputError
from hammingmark.keys import config as method_config
from hammingmark.keys.config import (
    ContextConfig,
    EncoderId,
    MethodConfig,
    SentenceConfig,
    TokenizerId,
)
from hammingmark.keys.key import Secret, WatermarkKey
from hammingmark.protocols import (
    ContextRule,
    KeyRanker,
    SampleScorer,
    ScoredText,
    SentenceWatermark,
    SignificanceTest,
    TokenWatermark,
    Watermark,
)
from hammingmark.records import Choice, DecodingStep, EditHypotheses
from hammingmark.stats.compare import TextTest, compare
from hammingmark.testing.fakes import paragraph
from hammingmark.testing.members import missing
from hammingmark.text.context_tokens import with_contexts

DIMENSION = 48
VOCABULARY = 400
LEVELS = (0.01, 0.05, 0.1, 0.2, 0.5)
CONTEXT = 4  # tokens after which a context is another
REFERENCES = 99  # with 99 or 999, a level of 1 % is met exactly

Check = Callable[[type[Any], MethodConfig], None]


def method_checks(method: type[Any]) -> list[tuple[str, Callable[[], None]]]:
    """Every check on every example of a method: what it is called, and the function to run.

    With pytest::

        @pytest.mark.parametrize(("name", "check"), method_checks(MyMethod))
        def test_contract(name, check):
            check()
    """
    return [
        (f"{check.__name__.removeprefix('check_')}[{name}]", partial(check, method, config))
        for name, config in examples_of(method).items()
        for check in _checks(config)
    ]


def examples_of(method: type[Any]) -> dict[str, MethodConfig]:
    """The configurations that a method supplies, for parts that do not exist."""
    encoder = EncoderId("test", "ab" * 32, DIMENSION)
    tokenizer = TokenizerId("test", "ab" * 32, VOCABULARY)
    if issubclass(method.Config, SentenceConfig):
        return dict(method.examples(encoder))
    if issubclass(method.Config, ContextConfig):
        return dict(method.examples(tokenizer, encoder))
    return dict(method.examples(tokenizer))


def _checks(config: MethodConfig) -> list[Check]:
    kind = "sentences" if isinstance(config, SentenceConfig) else "tokens"
    other = "tokens" if kind == "sentences" else "sentences"
    return [
        each
        for name, each in globals().items()
        if name.startswith("check_") and not name.startswith(f"check_{other}_")
    ]


def under(method: type[Any], config: MethodConfig, rng: np.random.Generator) -> Watermark:
    """The method under a new key."""
    watermark: Watermark = method(WatermarkKey(Secret(rng.bytes(32)), config))
    return watermark


def sentence_mark(watermark: Watermark) -> SentenceWatermark:
    """The method as one that marks sentences."""
    mark = watermark.capabilities.sentences
    assert mark is not None, "its capabilities do not declare that it marks sentences"
    return mark


def token_mark(watermark: Watermark) -> TokenWatermark:
    """The method as one that marks tokens."""
    mark = watermark.capabilities.tokens
    assert mark is not None, "its capabilities do not declare that it marks tokens"
    return mark


def unmarked(config: MethodConfig, n: int, rng: np.random.Generator) -> NDArray[Any]:
    """A text of n pieces that knows no key."""
    if isinstance(config, SentenceConfig):
        return _wander(n, rng)
    # Some texts say the same again and again.
    tokens = rng.integers(VOCABULARY if rng.uniform() < 0.7 else 4, size=n)
    return in_contexts(tokens, rng) if isinstance(config, ContextConfig) else tokens


def in_contexts(tokens: NDArray[np.int64], rng: np.random.Generator) -> NDArray[Any]:
    """Tokens with contexts that wander; the first two have none."""
    which = (np.arange(len(tokens)) - 2) // CONTEXT
    return with_contexts(tokens, _wander(len(tokens), rng), np.maximum(which, -1))


def _wander(n: int, rng: np.random.Generator) -> NDArray[np.float32]:
    """Unit rows (n, d), each at the same similarity to the one before."""
    rho = float(rng.uniform(-0.2, 0.9))
    rows = [_near(np.zeros(DIMENSION), 0.0, 1, rng)[0]]
    while len(rows) < n:
        rows.append(_near(rows[-1], rho, 1, rng)[0])
    return np.array(rows[:n], np.float32).reshape(n, DIMENSION)


def marked(watermark: Watermark, n: int, rng: np.random.Generator) -> NDArray[Any]:
    """A text of n pieces that the watermark marked wherever it could."""
    if watermark.capabilities.sentences:
        return _accepted(watermark.capabilities.sentences, n, rng)
    mark, rule = token_mark(watermark), watermark.capabilities.context
    around = in_contexts(np.zeros(n, np.int64), rng) if rule else None
    tokens: list[int] = []
    while len(tokens) < n:
        context = ([-1] * mark.width + tokens)[len(tokens) :]
        logits = rng.standard_normal((1, VOCABULARY)).astype(np.float32)
        told = None
        if rule and around is not None:
            row = around["context"][len(tokens)]
            told = rule.condition(row[None]) if row.any() else None
        scores = processed(mark, logits, np.array([context]), told)[0]
        shares = np.exp(scores - scores.max(), dtype=np.float64)
        tokens.append(int(rng.choice(VOCABULARY, p=shares / shares.sum())))
    if around is None:
        return np.array(tokens)
    around["token"] = np.array(tokens)
    return around


def processed(
    watermark: TokenWatermark,
    logits: NDArray[np.float32],
    contexts: NDArray[np.int64],
    conditions: NDArray[np.float32] | None = None,
) -> NDArray[np.float32]:
    """What a method makes of the logits of all tokens: (B, V) and (B, width) to (B, V).

    One that works on the distribution is handed them sorted, as when a token is drawn. One that is
    told something is told ``conditions`` (B, s), or zeros.
    """
    import torch

    order = np.argsort(-logits, axis=1, kind="stable")
    sorts = watermark.stage == "distribution"
    tokens = order if sorts else np.arange(logits.shape[1])[None]
    scores = np.take_along_axis(logits, order, axis=1) if sorts else logits
    told = (
        np.zeros((len(logits), watermark.condition_size), np.float32)
        if conditions is None
        else conditions
    )
    step = DecodingStep(
        torch.from_numpy(tokens),
        torch.from_numpy(contexts.reshape(len(logits), watermark.width)),
        torch.from_numpy(told),
    )
    found: NDArray[np.float32] = watermark.process(torch.from_numpy(scores), step).numpy()
    assert found.shape == scores.shape, "logits come back in another shape"
    if sorts:
        unsorted = np.empty_like(found)
        np.put_along_axis(unsorted, order, found, axis=1)
        return unsorted
    return found


def _accepted(
    watermark: SentenceWatermark, n: int, rng: np.random.Generator
) -> NDArray[np.float32]:
    """The embeddings (n, d) of sentences of which each was accepted after the one before.

    A sentence that next to nothing may follow is taken back.
    """
    rows: list[NDArray[np.float32]] = []
    refused = 0
    for _ in range(100 * n):
        if len(rows) == n:
            return np.array(rows, np.float32)
        previous = rows[-1] if rows else None
        centre = np.zeros(DIMENSION) if previous is None else previous
        candidates = _near(centre, 0.5, 16 * watermark.pool, rng)
        choice = watermark.capabilities.rule_at(len(rows)).choose(previous, candidates)
        refused = 0 if choice.accepted else refused + 1
        if choice.accepted:
            rows.append(candidates[choice.index])
        elif rows and refused % 20 == 0:
            rows.pop()
    raise AssertionError("hardly any candidate is accepted, and no text is marked")


def score(watermark: Watermark, text: NDArray[Any]) -> ScoredText:
    """A text, scored; with samples near the sentence before, where the method asks for them.

    They are the same whenever the text is, as those of a model are at detection.
    """
    scorer = watermark.capabilities.samples
    if scorer is None:
        return watermark.read(text)
    rng = np.random.default_rng(21)
    samples = [_near(before, 0.5, scorer.samples, rng) for before in text[:-1]]
    return scorer.read_sampled(text, samples)


def every_test(watermark: Watermark, text: ScoredText) -> Iterator[tuple[str, SignificanceTest]]:
    """Every test that a method offers for a text."""
    for statistic in watermark.statistics:
        yield statistic, text.test(statistic)
        if text.test_given_topic is not None:
            yield f"{statistic} given the topic", text.test_given_topic(statistic)


def check_it_is_what_it_says(method: type[Any], config: MethodConfig) -> None:
    """It implements the protocol, under its registered name."""
    watermark = under(method, config, np.random.default_rng(0))
    absent = missing(watermark, Watermark)
    assert not absent, f"it lacks {', '.join(absent)} of protocols.Watermark"
    assert watermark.name == config.method == method.Config.method, "it has two names"
    assert watermark.key.id.startswith("hm-"), "it does not keep its key"
    assert watermark.statistics, "it has no statistic"
    assert "default" in config.presets, "it has no preset called default"


def check_it_has_what_its_capabilities_declare(method: type[Any], config: MethodConfig) -> None:
    """A capability comes with all its methods, and with those that it needs."""
    capabilities = under(method, config, np.random.default_rng(0)).capabilities
    for name, protocol in (
        ("sentences", SentenceWatermark),
        ("tokens", TokenWatermark),
        ("samples", SampleScorer),
        ("ranking", KeyRanker),
        ("context", ContextRule),
    ):
        part = getattr(capabilities, name)
        absent = [] if part is None else missing(part, protocol)
        assert not absent, f"its capability {name!r} lacks {', '.join(absent)}"
    declared = [bool(capabilities.sentences), bool(capabilities.tokens)]
    by_sentence = isinstance(config, SentenceConfig)
    assert declared == [by_sentence, not by_sentence], (
        "what its capabilities declare that it marks is not what its configuration says"
    )
    assert bool(capabilities.context) is isinstance(config, ContextConfig), (
        "a context is declared without a ContextConfig, or the other way round"
    )
    if capabilities.sentences is None:
        for name in ("trials", "staging_threshold", "at", "read_edited", "samples"):
            assert getattr(capabilities, name) is None, f"{name!r} is for marks in sentences"
    elif capabilities.trials is not None:
        assert capabilities.trials >= capabilities.sentences.pool, "it judges more than its trials"


def check_a_configuration_survives_json(method: type[Any], config: MethodConfig) -> None:
    """It is the same after a file, and refuses what it does not know."""
    data = json.loads(json.dumps(method_config.to_json(config)))
    assert method_config.from_json(method.Config, data) == config, "JSON changes it"
    assert config.summary, "it has no words for its rule"
    data["parameters"]["unheard_of"] = 1
    refusal = _refusal(lambda: method_config.from_json(method.Config, data), InputError)
    assert refusal, "a parameter that it does not know is not refused"
    assert "unheard_of" in refusal, "the error does not name the parameter"


def check_same_key_and_text_give_the_same_evidence(method: type[Any], config: MethodConfig) -> None:
    """The key decides, and nothing else does."""
    text = unmarked(config, 40, np.random.default_rng(1))
    first, again = (under(method, config, np.random.default_rng(2)) for _ in range(2))
    one, other = score(first, text).evidence, score(again, text.copy()).evidence
    assert one == other, "the same key and text give other evidence"
    another = score(under(method, config, np.random.default_rng(3)), text).evidence
    if first.capabilities.keyless:
        assert one == another, "it is keyless, and another key gives other evidence"
    else:
        assert one != another, "another key gives the same evidence"


def check_a_text_without_a_unit_has_empty_evidence(method: type[Any], config: MethodConfig) -> None:
    """Nothing is made up for it: no text at all, or a sentence without a neighbour."""
    rng = np.random.default_rng(6)
    watermark = under(method, config, rng)
    mark = watermark.capabilities.sentences
    alone = mark is not None and not mark.judges_beginnings
    for n in (0, 1) if alone else (0,):
        evidence = score(watermark, unmarked(config, 2, rng)[:n]).evidence
        assert evidence.scores == (), "an empty text has scores"
        assert not evidence.means, "an empty text has a mean"
        assert not any(evidence.sums.values()), "an empty text has a sum"


def check_evidence_and_tests_tell_one_story(method: type[Any], config: MethodConfig) -> None:
    """What is reported is what decides."""
    rng = np.random.default_rng(7)
    watermark = under(method, config, rng)
    read = score(watermark, unmarked(config, 13, rng))
    evidence = read.evidence
    for statistic in watermark.statistics:
        own = read.test(statistic).increments
        assert len(own) == len(evidence.scores), f"{statistic} has other units than the evidence"
        shown = evidence.means.get(statistic, evidence.sums.get(statistic))
        assert shown is not None, f"{statistic} is not in the evidence"
        # A unit that came before counts nothing, and no key could give it anything.
        counted = np.count_nonzero(read.test(statistic).best)
        value = own.sum() / counted if statistic in evidence.means else own.sum()
        assert np.isclose(value, shown), f"{statistic} is reported as {shown} and is {value}"
    assert evidence.valid == sum(each.valid for each in evidence.scores)
    for each in evidence.scores:
        most = np.inf if evidence.max_score is None else evidence.max_score + 1e-6
        assert each.score <= most, "a score is above the scale"
        assert each.valid is bool(each.score >= np.float32(evidence.threshold)), (
            "a unit is valid by another rule than its score and the threshold"
        )


def check_tests_keep_their_shapes_and_their_ceiling(
    method: type[Any], config: MethodConfig
) -> None:
    """Increments are finite, and no key does better than the best."""
    rng = np.random.default_rng(8)
    for n in (2 if isinstance(config, SentenceConfig) else 8, 60, 600):  # below and above d
        watermark = under(method, config, rng)
        read = score(watermark, unmarked(config, n, rng))
        units = len(read.evidence.scores)
        for name, test in every_test(watermark, read):
            for part in (test.increments, test.best, test.centre):
                assert part.shape == (units,), f"{name}: shape {part.shape} for {units} units"
                assert part.dtype == np.float64, f"{name}: {part.dtype}"
                assert np.isfinite(part).all(), f"{name}: not finite"
            assert (test.increments <= test.best + 1e-6).all(), f"{name}: above the best"
            assert test.null.description, f"{name}: no words for its null distribution"
            for block in islice(test.null.blocks(), 2):
                values = np.concatenate(list(block))
                assert values.shape[0] == units, f"{name}: {values.shape[0]} rows"
                assert np.isfinite(values).all(), f"{name}: draws are not finite"
                assert (values <= test.best[:, None] + 1e-6).all(), f"{name}: draws above the best"


def check_draws_are_the_same_each_time(method: type[Any], config: MethodConfig) -> None:
    """The null distribution is decided by the key."""
    text = unmarked(config, 7, np.random.default_rng(9))

    def draws() -> dict[str, list[NDArray[np.float64]]]:
        watermark = under(method, config, np.random.default_rng(10))
        return {
            name: [np.concatenate(list(block)) for block in islice(test.null.blocks(), 2)]
            for name, test in every_test(watermark, score(watermark, text))
        }

    first, again = draws(), draws()
    for name, blocks in first.items():
        for left, right in zip(blocks, again[name], strict=True):
            np.testing.assert_array_equal(left, right, err_msg=name)
        assert not np.array_equal(blocks[0], blocks[1]), f"{name}: each block holds other draws"


def check_p_values_under_wrong_keys_are_not_smaller_than_uniform(
    method: type[Any],
    config: MethodConfig,
    *,
    keys: int = 100,
    texts: int = 3,
    references: int = REFERENCES,
) -> None:
    """Short unmarked texts under keys that they do not know; and no test is idle.

    A statistic with few values ties often, and a tie counts against the secret key. Where half of
    the ties count, p-values have a mean of a half, whatever the statistic: a larger mean is that
    of a test which keeps its level by hardly ever rejecting.

    Four standard errors: chance alone exceeds them once in 30,000 times.

    Without a secret there is no wrong key.
    """
    rng = np.random.default_rng(11)
    if under(method, config, np.random.default_rng(11)).capabilities.keyless:
        return
    shortest, longest = (2, 9) if isinstance(config, SentenceConfig) else (6, 30)
    found: dict[str, list[tuple[float, float]]] = {}
    for _ in range(keys):
        watermark = under(method, config, rng)
        for _ in range(texts):
            n = int(rng.integers(shortest, longest, endpoint=True))
            read = score(watermark, unmarked(config, n, rng))
            for name, test in every_test(watermark, read):
                found.setdefault(name, []).append(_p_values(test, references))
    for name, values in found.items():
        p_values, halved = np.array(values).T
        for level in LEVELS:
            slack = 4 * np.sqrt(level * (1 - level) / len(values))
            share = float((p_values <= level).mean())
            assert share <= level + slack, f"{name}: {share:.3f} of p-values below {level}"
        assert (p_values <= 0.5).mean() > 0.1, f"{name}: p-values are never small"
        mean, slack = float(halved.mean()), 4 * np.sqrt(1 / 12 / len(values))
        assert mean <= 0.5 + slack, f"{name}: p-values have a mean of {mean:.3f} and are idle"
        assert mean >= 0.5 - slack, f"{name}: p-values have a mean of {mean:.3f} and are too small"


def check_marked_texts_are_told_apart(method: type[Any], config: MethodConfig) -> None:
    """A long marked text has a small p-value under its key, and under no other if it has one.

    So long that every statistic of a method has a p-value far below what is asked.
    """
    rng = np.random.default_rng(13)
    for _ in range(3):
        watermark = under(method, config, rng)
        capabilities = watermark.capabilities
        text = marked(watermark, 200 if capabilities.tokens else 120, rng)
        read, other = score(watermark, text), under(method, config, rng)
        # Where samples are drawn anew, `check_sentences_that_are_accepted_count` looks at this.
        if capabilities.sentences and not capabilities.samples:
            assert all(each.valid for each in read.evidence.scores), "what was accepted is invalid"
        wrong = dict(every_test(other, score(other, text)))
        for name, test in every_test(watermark, read):
            p = compare(test, limit=999).p_value
            assert p <= 0.002, f"{name}: a marked text has p = {p}"
            if capabilities.keyless:
                continue
            p = compare(wrong[name], limit=999).p_value
            assert p > 0.002, f"{name}: a marked text has p = {p} under another key"


def check_nothing_shows_the_secret(method: type[Any], config: MethodConfig) -> None:
    """Neither what is printed nor what is pickled."""
    rng = np.random.default_rng(14)
    watermark = under(method, config, rng)
    raw = watermark.key.secret.reveal()
    read = score(watermark, unmarked(config, 9, rng))
    holders = (watermark, read, *(test for _, test in every_test(watermark, read)))
    for part in (*holders, read.evidence):
        for text in (repr(part), str(part), f"{part}"):
            for shown in (raw.hex(), repr(raw)[2:-1], str(int.from_bytes(raw, "big"))):
                assert shown not in text, f"{type(part).__name__} shows the secret"
    for part in holders:
        refusal = _refusal(partial(pickle.dumps, part), TypeError)
        assert refusal, f"{type(part).__name__} can be pickled with its secret"
        assert "key's file" in refusal, "the error does not say what to do instead"


def check_sentences_that_are_accepted_count(method: type[Any], config: MethodConfig) -> None:
    """What generation accepts, detection counts, and nothing else."""
    rng = np.random.default_rng(4)
    seen = set()
    kept = False
    for number in range(150):
        watermark = sentence_mark(under(method, config, rng))
        scorer = watermark.capabilities.samples
        before = unmarked(config, 3, rng)
        candidates = _near(before[-1], (0.0, 0.5, 0.95)[number % 3], 3, rng)
        asks = watermark.capabilities.rule_at(3)
        choice = asks.choose(before[-1], candidates)
        assert len(choice.scores) == len(candidates), "it does not score each candidate"
        if scorer is not None:
            kept = True  # one of a pool, and nothing is refused
            _check_in_its_own_pool(scorer, before, candidates, choice)
            continue
        for i, candidate in enumerate(candidates):
            alone = asks.choose(before[-1], candidate[None])
            last = watermark.read(np.vstack([before, candidate])).evidence.scores[-1]
            assert last.valid or not alone.accepted, "what is accepted does not count"
            if not getattr(config, "margin", 0.0):
                assert last.valid is alone.accepted, "generation and detection differ"
            assert last.score == alone.scores[0], "generation and detection score differently"
            assert last.score == choice.scores[i], "a score depends on the other candidates"
            if watermark.pool == 1 and i == choice.index:
                assert alone.accepted is choice.accepted, "acceptance depends on the others"
            if watermark.pool == 1 and i < choice.index and choice.accepted:
                assert not alone.accepted, "the first accepted candidate must be chosen"
        if not choice.accepted:
            best = max(choice.scores)
            assert choice.scores[choice.index] == best, "the best of those refused must be chosen"
        seen.add(choice.accepted)
    assert kept or seen == {True, False}, "the rule accepts all, or none"


def _check_in_its_own_pool(
    scorer: SampleScorer,
    before: NDArray[np.float32],
    candidates: NDArray[np.float32],
    choice: Choice,
) -> None:
    """Were the model to draw the very candidates again, detection would score as generation did.

    What is accepted is then valid, and some candidate is not: they are compared with each other.
    """
    pools = [_near(row, 0.5, scorer.samples, np.random.default_rng(22)) for row in before[:-1]]
    assert choice.accepted, "it keeps none of a pool"
    valid = []
    for candidate, told in zip(candidates, choice.scores, strict=True):
        text = np.vstack([before, candidate])
        last = scorer.read_sampled(text, [*pools, candidates]).evidence.scores[-1]
        assert last.score == told, "generation and detection score differently"
        valid.append(last.valid)
    assert valid[choice.index], "what is accepted does not count"
    assert not all(valid), "every candidate counts, whichever is kept"


def check_sentences_at_the_beginning(method: type[Any], config: MethodConfig) -> None:
    """Nothing is asked of a first sentence, or it is judged and counts as any other."""
    rng = np.random.default_rng(5)
    seen = set()
    for _ in range(40):
        watermark = sentence_mark(under(method, config, rng))
        candidates = unmarked(config, 4, rng)
        choice = watermark.choose(None, candidates)
        assert len(choice.scores) == 4, "it does not score each candidate"
        if not watermark.judges_beginnings:
            assert choice.accepted, "the first sentence is refused"
            assert choice.index == 0, "the first candidate for the first sentence is not taken"
            continue
        for score, candidate in zip(choice.scores, candidates, strict=True):
            alone = watermark.choose(None, candidate[None])
            seen.add(alone.accepted)
            first = watermark.read(np.vstack([candidate, candidates])).evidence.scores[0]
            assert first.score == alone.scores[0] == score, "a first sentence has two scores"
            assert first.valid is alone.accepted, "generation and detection differ"
    assert seen in (set(), {True, False}), "the rule accepts all beginnings, or none"


def check_tokens_are_processed_row_by_row(method: type[Any], config: MethodConfig) -> None:
    """The logits of a text do not depend on the texts beside it."""
    rng = np.random.default_rng(15)
    watermark = token_mark(under(method, config, rng))
    rule = watermark.capabilities.context
    logits = rng.standard_normal((5, VOCABULARY)).astype(np.float32)
    contexts = rng.integers(VOCABULARY, size=(5, watermark.width))
    contexts[0] = -1
    told = None
    if rule:
        told = rule.condition(_wander(5, rng))
        assert told.shape == (5, watermark.condition_size), "it tells of contexts in another shape"
        told[0] = 0.0
        untouched = processed(watermark, logits, contexts)
        np.testing.assert_array_equal(untouched, logits, "it marks what has no context")
    together = processed(watermark, logits, contexts, told)
    for row in range(5):
        here = slice(row, row + 1)
        alone = processed(
            watermark, logits[here], contexts[here], None if told is None else told[here]
        )
        np.testing.assert_allclose(
            alone[0], together[row], atol=1e-5, err_msg="a text's logits depend on its neighbours"
        )


def check_sentences_whose_beginnings_foretell_their_score(
    method: type[Any], config: MethodConfig
) -> None:
    """Scores are standard normal over keys, and the threshold decides: for drawing in stages.

    Four standard errors of the mean and of the mean square.
    """
    rng = np.random.default_rng(16)
    pair, scores = unmarked(config, 2, rng), []
    for _ in range(1000):
        watermark = sentence_mark(under(method, config, rng))
        threshold = watermark.capabilities.staging_threshold
        if threshold is None:
            return
        choice = watermark.choose(pair[0], pair[1:])
        assert choice.accepted is bool(choice.scores[0] >= np.float32(threshold)), (
            "another threshold decides than that of its capabilities"
        )
        scores.append(choice.scores[0])
    mean, square = np.mean(scores), np.mean(np.square(scores))
    assert abs(mean) < 4 / np.sqrt(1000), f"scores have a mean of {mean:.3f} over keys"
    assert abs(square - 1) < 4 * np.sqrt(2 / 1000), f"scores have a mean square of {square:.3f}"


def check_sentences_that_were_edited(method: type[Any], config: MethodConfig) -> None:
    """A text read with what its sentences may have been is the same text, and carries its mark."""
    rng = np.random.default_rng(17)
    watermark = under(method, config, rng)
    read_edited = watermark.capabilities.read_edited
    if read_edited is None:
        return
    n, statistic = 40, watermark.statistics[0]
    text = marked(watermark, n, rng)
    # Of every two neighbours, what they would be as one.
    begins, ends = (*range(n), *range(n - 1)), (*range(1, n + 1), *range(2, n + 1))
    edits = EditHypotheses(tuple(map(str, range(2 * n - 1))), begins, ends, sentences=n)
    scored = read_edited(np.vstack([text, _wander(n - 1, rng)]), edits)
    assert scored.evidence == watermark.read(text).evidence, "edits change the evidence"
    test = scored.test(statistic)
    assert test.increments.shape == test.best.shape == test.centre.shape, (
        "its parts differ in shape"
    )
    # One unit may add more than its share of the best, where those before added less of theirs.
    assert (test.increments.cumsum() <= test.best.cumsum() + 1e-6).all(), (
        "a reading is above the best"
    )
    p = compare(test, limit=999).p_value
    assert p <= 0.002, f"a marked text that nobody edited has p = {p}"


def check_the_key_of_a_text_is_ranked_first(method: type[Any], config: MethodConfig) -> None:
    """Among other keys; and the method under another key is what its class makes of that key."""
    rng = np.random.default_rng(18)
    watermark = under(method, config, rng)
    ranker = watermark.capabilities.ranking
    if ranker is None:
        return
    statistic = watermark.statistics[0]
    keys = [under(method, config, rng).key for _ in range(12)]
    owner = ranker.like(keys[7])
    assert owner.key == keys[7], "the method under another key keeps the first"
    texts = [marked(owner, 60, rng), unmarked(config, 60, rng)]
    ranked = ranker.rank(keys, texts, statistic=statistic)
    assert len(ranked) == len(texts), "it does not rank keys for each text"
    assert 7 in ranked[0], "the key of a marked text is not among those to test"
    for numbers in ranked:
        assert set(numbers) <= set(range(12)), "it names a key that there is not"
    alone = method(keys[7])
    assert score(owner, texts[0]).evidence == score(alone, texts[0]).evidence, (
        "the method under another key gives other evidence than its class"
    )


def check_tokens_have_the_context_of_the_text_before(
    method: type[Any], config: MethodConfig
) -> None:
    """Generation asks after each token, detection for all at once: the contexts are the same."""
    rule = under(method, config, np.random.default_rng(19)).capabilities.context
    if rule is None:
        return
    text = paragraph(Random(19))
    places = range(0, len(text), 3)
    contexts, which = rule.contexts(text, places)
    assert len(set(which.tolist()) - {-1}) > 1, "a long text has hardly any context"
    for place, number in zip(places, which, strict=True):
        context = rule.context(text[:place])
        assert context == ("" if number < 0 else contexts[number]), "a token has two contexts"
    for place in places[: len(places) // 2]:
        changes = rule.context_changes(text[:place])
        for more in (text[place : place + 2], text[place : place + 40]):
            differs = rule.context(text[:place] + more) != rule.context(text[:place])
            assert changes(more) is differs, "it does not say when the context is another"


def _p_values(test: SignificanceTest, references: int) -> tuple[float, float]:
    """The p-value, and what it is where half of the ties count."""
    p = compare(test, limit=references).p_value
    # Above every tie, which rounding may blur by half of this.
    higher = TextTest(test.increments + 2e-6, test.best, test.centre, test.null)
    return p, (p + compare(higher, limit=references).p_value) / 2


def _refusal(work: Callable[[], object], kind: type[Exception]) -> str:
    """The words with which something is refused; none if it is not."""
    try:
        work()
    except kind as error:
        return str(error)
    return ""


def _near(
    centre: NDArray[Any], rho: float, count: int, rng: np.random.Generator
) -> NDArray[np.float32]:
    """Unit rows (count, d) at cosine about ``rho`` to a centre (d,)."""
    noise = rng.standard_normal((count, DIMENSION))
    noise /= np.linalg.norm(noise, axis=1, keepdims=True)
    rows = rho * centre + np.sqrt(1 - rho**2) * noise
    units: NDArray[np.float32] = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return units.astype(np.float32)
