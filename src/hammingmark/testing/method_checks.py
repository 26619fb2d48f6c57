"""The contract of every watermarking method, as checks that fail with a message.

A method supplies its own examples: a class method ``examples`` gives configurations by name. Each
check is run on each of them, on the random texts of ``method_examples``.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from functools import partial
from itertools import islice
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hammingmark.errors import InputError
from hammingmark.keys import config as method_config
from hammingmark.keys.config import ContextConfig, MethodConfig, SentenceConfig
from hammingmark.protocols import (
    ContextRule,
    KeyRanker,
    SampleScorer,
    SentenceWatermark,
    SignificanceTest,
    TokenWatermark,
    Watermark,
)
from hammingmark.records import Choice, EditHypotheses
from hammingmark.stats.compare import TextTest, compare
from hammingmark.testing.fakes import paragraph
from hammingmark.testing.members import missing
from hammingmark.testing.method_examples import (
    VOCABULARY,
    embeddings_of_text,
    every_test,
    examples_of,
    marked,
    near,
    processed,
    score,
    sentence_mark,
    token_mark,
    under,
    unmarked,
)

LEVELS = (0.01, 0.05, 0.1, 0.2, 0.5)
REFERENCES = 99  # with 99 or 999, a level of 1 % is met exactly

Check = Callable[[type[Any], MethodConfig], None]


def method_checks(method: type[Any]) -> list[tuple[str, Callable[[], None]]]:
    """Every check on every example of a method: its name, and the function to run.

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


def _checks(config: MethodConfig) -> list[Check]:
    kind = "sentences" if isinstance(config, SentenceConfig) else "tokens"
    other = "tokens" if kind == "sentences" else "sentences"
    return [
        check
        for name, check in globals().items()
        if name.startswith("check_") and not name.startswith(f"check_{other}_")
    ]


def check_it_is_what_it_says(method: type[Any], config: MethodConfig) -> None:
    """A method implements the protocol, under its registered name."""
    watermark = under(method, config, np.random.default_rng(0))
    absent = missing(watermark, Watermark)
    assert not absent, f"it lacks {', '.join(absent)} of protocols.Watermark"
    assert watermark.name == config.method == method.Config.method, (
        "its class and its configuration have different names"
    )
    assert watermark.key.id.startswith("hm-"), "it does not keep its key"
    assert watermark.statistics, "it has no statistic"
    assert "default" in config.presets, "it has no preset called default"


def check_it_has_what_its_capabilities_declare(method: type[Any], config: MethodConfig) -> None:
    """A declared capability has all methods of its protocol, and fits the configuration."""
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
        "its capabilities and its configuration differ in what it marks"
    )
    assert bool(capabilities.context) is isinstance(config, ContextConfig), (
        "it declares a context without a ContextConfig, or the reverse"
    )
    if capabilities.sentences is None:
        for name in ("trials", "staging_threshold", "at", "read_edited", "read_part", "samples"):
            assert getattr(capabilities, name) is None, f"{name!r} is for marks in sentences"
    elif capabilities.trials is not None:
        assert capabilities.trials >= capabilities.sentences.pool, (
            "its pool is larger than its trials"
        )


def check_a_configuration_survives_json(method: type[Any], config: MethodConfig) -> None:
    """A configuration survives JSON, and unknown parameters are refused."""
    data = json.loads(json.dumps(method_config.to_json(config)))
    assert method_config.from_json(method.Config, data) == config, "JSON changes it"
    assert config.summary, "its summary is empty"
    data["parameters"]["unheard_of"] = 1
    message = _error_message(lambda: method_config.from_json(method.Config, data), InputError)
    assert message, "an unknown parameter is not refused"
    assert "unheard_of" in message, "the error does not name the parameter"


def check_same_key_and_text_give_the_same_evidence(method: type[Any], config: MethodConfig) -> None:
    """Only the key and the text decide the evidence."""
    text = unmarked(config, 40, np.random.default_rng(1))
    first, second = (under(method, config, np.random.default_rng(2)) for _ in range(2))
    evidence, repeated = score(first, text).evidence, score(second, text.copy()).evidence
    assert evidence == repeated, "the same key and text give different evidence"
    other = score(under(method, config, np.random.default_rng(3)), text).evidence
    if first.capabilities.keyless:
        assert evidence == other, "it is keyless, but another key gives different evidence"
    else:
        assert evidence != other, "another key gives the same evidence"


def check_a_text_without_a_unit_has_empty_evidence(method: type[Any], config: MethodConfig) -> None:
    """Texts that are too short give no score: no unit, or a sentence without a neighbour."""
    rng = np.random.default_rng(6)
    watermark = under(method, config, rng)
    mark = watermark.capabilities.sentences
    needs_neighbour = mark is not None and not mark.judges_beginnings
    for n in (0, 1) if needs_neighbour else (0,):
        evidence = score(watermark, unmarked(config, 2, rng)[:n]).evidence
        assert evidence.scores == (), "an empty text has scores"
        assert not evidence.means, "an empty text has a mean"
        assert not any(evidence.sums.values()), "an empty text has a sum"


def check_evidence_and_tests_agree(method: type[Any], config: MethodConfig) -> None:
    """The evidence reports the statistics that the tests compare."""
    rng = np.random.default_rng(7)
    watermark = under(method, config, rng)
    scored = score(watermark, unmarked(config, 13, rng))
    evidence = scored.evidence
    for statistic in watermark.statistics:
        own = scored.test(statistic).increments
        assert len(own) == len(evidence.scores), f"{statistic} has other units than the evidence"
        reported = evidence.means.get(statistic, evidence.sums.get(statistic))
        assert reported is not None, f"{statistic} is not in the evidence"
        # A repeated unit counts nothing, and its increment is 0 under every key.
        counted = np.count_nonzero(scored.test(statistic).best)
        value = own.sum() / counted if statistic in evidence.means else own.sum()
        assert np.isclose(value, reported), f"{statistic} is {value}, but reported as {reported}"
    assert evidence.valid == sum(unit.valid for unit in evidence.scores)
    for unit in evidence.scores:
        limit = np.inf if evidence.max_score is None else evidence.max_score + 1e-6
        assert unit.score <= limit, "a score is above max_score"
        assert unit.valid is bool(unit.score >= np.float32(evidence.threshold)), (
            "whether a unit is valid does not follow from its score and the threshold"
        )


def check_tests_keep_their_shapes_and_bounds(method: type[Any], config: MethodConfig) -> None:
    """Increments are finite, and none exceeds ``best`` under any key."""
    rng = np.random.default_rng(8)
    for n in (2 if isinstance(config, SentenceConfig) else 8, 60, 600):  # below and above d
        watermark = under(method, config, rng)
        scored = score(watermark, unmarked(config, n, rng))
        units = len(scored.evidence.scores)
        for name, test in every_test(watermark, scored):
            for part in (test.increments, test.best, test.centre):
                assert part.shape == (units,), f"{name}: shape {part.shape} for {units} units"
                assert part.dtype == np.float64, f"{name}: {part.dtype}"
                assert np.isfinite(part).all(), f"{name}: not finite"
            assert (test.increments <= test.best + 1e-6).all(), f"{name}: above the best"
            assert test.null.description, f"{name}: its null distribution has no description"
            for block in islice(test.null.blocks(), 2):
                values = np.concatenate(list(block))
                assert values.shape[0] == units, f"{name}: {values.shape[0]} rows"
                assert np.isfinite(values).all(), f"{name}: draws are not finite"
                assert (values <= test.best[:, None] + 1e-6).all(), f"{name}: draws above the best"


def check_draws_are_the_same_each_time(method: type[Any], config: MethodConfig) -> None:
    """Only the key decides the draws of the null distribution."""
    text = unmarked(config, 7, np.random.default_rng(9))

    def draws() -> dict[str, list[NDArray[np.float64]]]:
        watermark = under(method, config, np.random.default_rng(10))
        return {
            name: [np.concatenate(list(block)) for block in islice(test.null.blocks(), 2)]
            for name, test in every_test(watermark, score(watermark, text))
        }

    first, second = draws(), draws()
    for name, blocks in first.items():
        for block, repeated in zip(blocks, second[name], strict=True):
            np.testing.assert_array_equal(block, repeated, err_msg=name)
        assert not np.array_equal(blocks[0], blocks[1]), f"{name}: two blocks hold the same draws"


def check_p_values_under_wrong_keys_are_not_smaller_than_uniform(
    method: type[Any],
    config: MethodConfig,
    *,
    keys: int = 100,
    texts: int = 3,
    references: int = REFERENCES,
) -> None:
    """Unmarked texts under independent keys are rejected at the level, and not less often.

    A statistic with few values ties often, and a tie counts against the secret key. If half of the
    ties count, p-values have a mean of one half for every statistic; a larger mean is that of a
    test that keeps its level by hardly ever rejecting.

    The tolerance is four standard errors, which chance exceeds once in 30,000 times. A keyless
    method is not checked.
    """
    rng = np.random.default_rng(11)
    if under(method, config, np.random.default_rng(11)).capabilities.keyless:
        return
    shortest, longest = (2, 9) if isinstance(config, SentenceConfig) else (6, 30)
    p_values_by_test: dict[str, list[tuple[float, float, float]]] = {}
    for _ in range(keys):
        watermark = under(method, config, rng)
        for _ in range(texts):
            n = int(rng.integers(shortest, longest, endpoint=True))
            scored = score(watermark, unmarked(config, n, rng))
            for name, test in every_test(watermark, scored):
                p_values_by_test.setdefault(name, []).append(_p_values(test, references))
    for name, values in p_values_by_test.items():
        p_values, joint, halved = np.array(values).T
        for level in LEVELS:
            slack = 4 * np.sqrt(level * (1 - level) / len(values))
            share = float((p_values <= level).mean())
            assert share <= level + slack, f"{name}: {share:.3f} of p-values below {level}"
            share = float((joint <= level).mean())
            assert share <= level + slack, f"{name}: {share:.3f} of joint p-values below {level}"
        assert (p_values <= 0.5).mean() > 0.1, f"{name}: p-values are never small"
        assert (joint <= 0.8).mean() > 0.1, f"{name}: joint p-values are never small"
        mean, slack = float(halved.mean()), 4 * np.sqrt(1 / 12 / len(values))
        assert mean <= 0.5 + slack, f"{name}: p-values have a mean of {mean:.3f}, too large"
        assert mean >= 0.5 - slack, f"{name}: p-values have a mean of {mean:.3f}, too small"


def check_marked_texts_are_detected(method: type[Any], config: MethodConfig) -> None:
    """A long marked text has a small p-value under its key, and not under another key.

    It is so long that every statistic has a p-value far below the required one.
    """
    rng = np.random.default_rng(13)
    for _ in range(3):
        watermark = under(method, config, rng)
        capabilities = watermark.capabilities
        text = marked(watermark, 200 if capabilities.tokens else 120, rng)
        scored, other = score(watermark, text), under(method, config, rng)
        # With samples, `check_sentences_that_are_accepted_count` checks this.
        if capabilities.sentences and not capabilities.samples:
            valid = all(unit.valid for unit in scored.evidence.scores)
            assert valid, "an accepted sentence is invalid"
        wrong = dict(every_test(other, score(other, text)))
        for name, test in every_test(watermark, scored):
            p = compare(test, limit=999).p_value
            assert p <= 0.002, f"{name}: a marked text has p = {p}"
            if capabilities.keyless:
                continue
            p = compare(wrong[name], limit=999).p_value
            assert p > 0.002, f"{name}: a marked text has p = {p} under another key"


def check_nothing_shows_the_secret(method: type[Any], config: MethodConfig) -> None:
    """The secret appears in no representation, and no object can be pickled with it."""
    rng = np.random.default_rng(14)
    watermark = under(method, config, rng)
    raw = watermark.key.secret.reveal()
    scored = score(watermark, unmarked(config, 9, rng))
    holders = (watermark, scored, *(test for _, test in every_test(watermark, scored)))
    for part in (*holders, scored.evidence):
        for text in (repr(part), str(part), f"{part}"):
            for form in (raw.hex(), repr(raw)[2:-1], str(int.from_bytes(raw, "big"))):
                assert form not in text, f"{type(part).__name__} shows the secret"
    for part in holders:
        message = _error_message(partial(pickle.dumps, part), TypeError)
        assert message, f"{type(part).__name__} can be pickled with its secret"
        assert "key's file" in message, "the error does not say what to do instead"


def check_sentences_that_are_accepted_count(method: type[Any], config: MethodConfig) -> None:
    """Detection counts exactly the sentences that generation accepts."""
    rng = np.random.default_rng(4)
    outcomes = set()
    pooled = False
    for number in range(150):
        watermark = sentence_mark(under(method, config, rng))
        scorer = watermark.capabilities.samples
        before = unmarked(config, 3, rng)
        candidates = near(before[-1], (0.0, 0.5, 0.95)[number % 3], 3, rng)
        rule = watermark.capabilities.rule_at(3)
        choice = rule.choose(before[-1], candidates)
        assert len(choice.scores) == len(candidates), "it does not score each candidate"
        if scorer is not None:
            pooled = True  # one of a pool is kept, and none refused
            _check_in_its_own_pool(scorer, before, candidates, choice)
            continue
        for i, candidate in enumerate(candidates):
            alone = rule.choose(before[-1], candidate[None])
            last = watermark.read(np.vstack([before, candidate])).evidence.scores[-1]
            assert last.valid or not alone.accepted, "an accepted sentence does not count"
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
            assert choice.scores[choice.index] == best, "the best refused candidate must be chosen"
        outcomes.add(choice.accepted)
    assert pooled or outcomes == {True, False}, "the rule accepts all candidates, or none"


def _check_in_its_own_pool(
    scorer: SampleScorer,
    before: NDArray[np.float32],
    candidates: NDArray[np.float32],
    choice: Choice,
) -> None:
    """With the candidates themselves as samples, detection scores as generation did.

    The accepted candidate is then valid, and some others are not, because they are compared with
    each other.
    """
    pools = [near(row, 0.5, scorer.samples, np.random.default_rng(22)) for row in before[:-1]]
    assert choice.accepted, "it accepts no candidate of a pool"
    valid = []
    for candidate, chosen_score in zip(candidates, choice.scores, strict=True):
        text = np.vstack([before, candidate])
        last = scorer.read_sampled(text, [*pools, candidates]).evidence.scores[-1]
        assert last.score == chosen_score, "generation and detection score differently"
        valid.append(last.valid)
    assert valid[choice.index], "the accepted candidate does not count"
    assert not all(valid), "every candidate counts"


def check_sentences_at_the_beginning(method: type[Any], config: MethodConfig) -> None:
    """A first sentence is either free, or judged and counted like any other."""
    rng = np.random.default_rng(5)
    outcomes = set()
    for _ in range(40):
        watermark = sentence_mark(under(method, config, rng))
        candidates = unmarked(config, 4, rng)
        choice = watermark.choose(None, candidates)
        assert len(choice.scores) == 4, "it does not score each candidate"
        if not watermark.judges_beginnings:
            assert choice.accepted, "the first sentence is refused"
            assert choice.index == 0, "the first sentence is not the first candidate"
            continue
        for candidate_score, candidate in zip(choice.scores, candidates, strict=True):
            alone = watermark.choose(None, candidate[None])
            outcomes.add(alone.accepted)
            first = watermark.read(np.vstack([candidate, candidates])).evidence.scores[0]
            assert first.score == alone.scores[0] == candidate_score, (
                "a first sentence has two scores"
            )
            assert first.valid is alone.accepted, "generation and detection differ"
    assert outcomes in (set(), {True, False}), "the rule accepts all first sentences, or none"


def check_tokens_are_processed_row_by_row(method: type[Any], config: MethodConfig) -> None:
    """The logits of a text do not depend on the other texts."""
    rng = np.random.default_rng(15)
    watermark = token_mark(under(method, config, rng))
    rule = watermark.capabilities.context
    logits = rng.standard_normal((5, VOCABULARY)).astype(np.float32)
    contexts = rng.integers(VOCABULARY, size=(5, watermark.width))
    contexts[0] = -1
    conditions = None
    if rule:
        conditions = rule.condition(embeddings_of_text(5, rng))
        assert conditions.shape == (5, watermark.condition_size), (
            "its conditions have another shape than condition_size says"
        )
        conditions[0] = 0.0
        unchanged = processed(watermark, logits, contexts)
        np.testing.assert_array_equal(unchanged, logits, "it marks tokens without a context")
    batch = processed(watermark, logits, contexts, conditions)
    for row in range(5):
        part = slice(row, row + 1)
        alone = processed(
            watermark,
            logits[part],
            contexts[part],
            None if conditions is None else conditions[part],
        )
        np.testing.assert_allclose(
            alone[0], batch[row], atol=1e-5, err_msg="a text's logits depend on the other texts"
        )


def check_sentences_that_are_drawn_in_stages(method: type[Any], config: MethodConfig) -> None:
    """Staging needs scores that are standard normal over keys, and one threshold.

    The tolerance is four standard errors of the mean and of the mean square.
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
            "choose accepts by another threshold than its capabilities declare"
        )
        scores.append(choice.scores[0])
    mean, square = np.mean(scores), np.mean(np.square(scores))
    assert abs(mean) < 4 / np.sqrt(1000), f"scores have a mean of {mean:.3f} over keys, not 0"
    assert abs(square - 1) < 4 * np.sqrt(2 / 1000), (
        f"scores have a mean square of {square:.3f}, not 1"
    )


def check_sentences_that_were_edited(method: type[Any], config: MethodConfig) -> None:
    """A possibly edited text has the evidence of the text as it stands, and is still detected."""
    rng = np.random.default_rng(17)
    watermark = under(method, config, rng)
    read_edited = watermark.capabilities.read_edited
    if read_edited is None:
        return
    n, statistic = 40, watermark.statistics[0]
    text = marked(watermark, n, rng)
    # The joins of neighbouring sentences are parts as well.
    begins, ends = (*range(n), *range(n - 1)), (*range(1, n + 1), *range(2, n + 1))
    edits = EditHypotheses(tuple(map(str, range(2 * n - 1))), begins, ends, sentences=n)
    scored = read_edited(np.vstack([text, embeddings_of_text(n - 1, rng)]), edits)
    assert scored.evidence == watermark.read(text).evidence, "edit hypotheses change the evidence"
    test = scored.test(statistic)
    assert test.increments.shape == test.best.shape == test.centre.shape, (
        "the arrays of its test differ in shape"
    )
    # One unit may exceed its own bound if the earlier units remained below theirs.
    assert (test.increments.cumsum() <= test.best.cumsum() + 1e-6).all(), "increments exceed bounds"
    p = compare(test, limit=999).p_value
    assert p <= 0.002, f"an unedited marked text has p = {p}"


def check_sentences_of_which_some_count(method: type[Any], config: MethodConfig) -> None:
    """Sentences that do not count change nothing, and all of them are the whole text."""
    rng = np.random.default_rng(19)
    watermark = under(method, config, rng)
    read_part = watermark.capabilities.read_part
    if read_part is None:
        return
    n = 30
    text = marked(watermark, n, rng)
    whole, all_of_it = watermark.read(text), read_part(text, np.ones(n, np.bool_))
    assert all_of_it.evidence == whole.evidence, "all sentences are not the whole text"
    included = np.arange(n) % 3 > 0
    part = read_part(text, included)
    units = included[n - len(part.evidence.scores) :]
    assert [unit.counted for unit in part.evidence.scores] == units.tolist(), (
        "its evidence counts others"
    )
    for statistic in watermark.statistics:
        test = part.test(statistic)
        for name in ("increments", "best", "centre"):
            assert not getattr(test, name)[~units].any(), f"{name} of others are not 0"
        drawn = np.concatenate(list(next(iter(test.null.blocks()))))
        assert not drawn[~units].any(), "increments of others are not 0 under the null"
        assert test.increments[units].any(), "no increment counts"
    for statistic in watermark.statistics:
        nothing = read_part(text, np.zeros(n, np.bool_)).test(statistic)
        p = compare(nothing, limit=REFERENCES).p_value
        assert p > 1.0 - 1e-9, f"where nothing counts, p = {p}"


def check_the_key_of_a_text_is_ranked_first(method: type[Any], config: MethodConfig) -> None:
    """The key of a text ranks first among other keys, and ``like`` equals a new method."""
    rng = np.random.default_rng(18)
    watermark = under(method, config, rng)
    ranker = watermark.capabilities.ranking
    if ranker is None:
        return
    statistic = watermark.statistics[0]
    keys = [under(method, config, rng).key for _ in range(12)]
    owner = ranker.like(keys[7])
    assert owner.key == keys[7], "the method under another key keeps the first key"
    texts = [marked(owner, 60, rng), unmarked(config, 60, rng)]
    ranked = ranker.rank(keys, texts, statistic=statistic)
    assert len(ranked) == len(texts), "it does not rank the keys for each text"
    assert 7 in ranked[0], "the key of a marked text is not among the ranked keys"
    for numbers in ranked:
        assert set(numbers) <= set(range(12)), "it ranks a key that does not exist"
    alone = method(keys[7])
    assert score(owner, texts[0]).evidence == score(alone, texts[0]).evidence, (
        "the method under another key gives other evidence than a new method"
    )


def check_tokens_have_the_context_of_the_text_before(
    method: type[Any], config: MethodConfig
) -> None:
    """Generation, token by token, and detection, all at once, find the same contexts."""
    rule = under(method, config, np.random.default_rng(19)).capabilities.context
    if rule is None:
        return
    text = paragraph(Random(19))
    places = range(0, len(text), 3)
    contexts, numbers = rule.contexts(text, places)
    assert len(set(numbers.tolist()) - {-1}) > 1, "a long text has hardly any context"
    for place, number in zip(places, numbers, strict=True):
        context = rule.context(text[:place])
        assert context == ("" if number < 0 else contexts[number]), "a token has two contexts"
    for place in places[: len(places) // 2]:
        changes = rule.context_changes(text[:place])
        for continuation in (text[place : place + 2], text[place : place + 40]):
            differs = rule.context(text[:place] + continuation) != rule.context(text[:place])
            assert changes(continuation) is differs, "it does not say when the context changes"


def _p_values(test: SignificanceTest, references: int) -> tuple[float, float, float]:
    """The p-value, the joint one, and the p-value if half of the ties count."""
    comparison = compare(test, limit=references)
    p = comparison.p_value
    # Above every tie, which rounding may move by half of this.
    higher = TextTest(test.increments + 2e-6, test.best, test.centre, test.null)
    return p, comparison.joint, (p + compare(higher, limit=references).p_value) / 2


def _error_message(action: Callable[[], object], error_type: type[Exception]) -> str:
    """The message of an error of this type; empty if the action raises none."""
    try:
        action()
    except error_type as error:
        return str(error)
    return ""
