"""PMark with and without its model, against a naive implementation of its definition."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from random import Random

import numpy as np
import pytest
from scipy.stats.mstats import hdmedian
from tests.errors import raises_naming
from tests.unit.watermarks.test_bilinear import topical

from hammingmark.errors import InputError
from hammingmark.generation.generate import PAPER, GenerationConfig, Writer
from hammingmark.keys.config import EncoderId
from hammingmark.keys.key import Secret, WatermarkKey
from hammingmark.protocols import FloatArray, Splitter
from hammingmark.records import Generation, Prompt, Request
from hammingmark.stats.compare import compare
from hammingmark.testing import FakeBackend, FakeEncoder
from hammingmark.testing.fakes import paragraph
from hammingmark.watermarks._shared.channels import ChannelConfig
from hammingmark.watermarks.pmark_offline import PMarkOffline, PMarkOfflineConfig, odds_of_best
from hammingmark.watermarks.pmark_online import PMarkOnline, PMarkOnlineConfig, odds_of_halved

D = 32
HASH = EncoderId("hash", "ab" * 32, D)


def secret_of(number: int) -> Secret:
    return Secret(hashlib.sha256(b"pmark %d" % number).digest())


def offline(number: int = 0, *, encoder: EncoderId = HASH, **parameters: object) -> PMarkOffline:
    config = PMarkOfflineConfig(encoder=encoder, **parameters)  # type: ignore[arg-type]
    return PMarkOffline(WatermarkKey(secret_of(number), config))


def online(number: int = 0, *, encoder: EncoderId = HASH, **parameters: object) -> PMarkOnline:
    config = PMarkOnlineConfig(encoder=encoder, **parameters)  # type: ignore[arg-type]
    return PMarkOnline(WatermarkKey(secret_of(number), config))


def signs_of(secret: Secret, place: int, b: int) -> list[int]:
    """The bits of a byte of the secret for a sentence number, the lowest first."""
    (byte,) = secret.stream("signs", 1, index=place)
    return [byte >> channel & 1 for channel in range(b)]


@pytest.mark.parametrize("make", [offline, online])
def test_a_mark_for_one_sentence_has_capabilities_of_its_own(
    make: Callable[[], PMarkOffline | PMarkOnline],
) -> None:
    mark = make()
    assert mark.capabilities is mark.capabilities, "the record is built once"
    view = mark.at(3)
    assert view.capabilities.sentences is view
    assert mark.capabilities.sentences is mark


def counted(distance: float, sign: int) -> tuple[float, bool]:
    """The published soft count of one channel with K = 250 and a tolerance of 0.001; the hard."""
    near = distance >= -0.001 if sign else distance <= 0.001
    soft = 1.0 if near else math.exp(-250 * abs(distance))
    return soft, distance >= 0 if sign else distance < 0


def written_by_hand(
    mark: PMarkOffline | PMarkOnline, rows: FloatArray, medians: np.ndarray, first: int
) -> tuple[list[float], list[list[bool]]]:
    """The mean soft count of every sentence, and its channels on their required side."""
    b = mark.config.b
    directions = mark.channels.directions.astype(np.float64)
    softs, rights = [], []
    for i, row in enumerate(rows):
        signs = signs_of(mark.key.secret, first + i, b)
        pairs = []
        for j in range(b):
            value = float(np.float32(sum(directions[j] * row)))
            pairs.append(counted(value - medians[i][j], signs[j]))
        softs.append(sum(soft for soft, _ in pairs) / b)
        rights.append([hard for _, hard in pairs])
    return softs, rights


@pytest.mark.parametrize("make", [offline, online])
def test_directions_are_at_right_angles_and_of_length_one(make: type) -> None:
    mark, other = make(1, b=8), make(2, b=8)
    rows = mark.channels.directions.astype(np.float64)
    np.testing.assert_allclose(rows @ rows.T, np.eye(8), atol=1e-6)
    normals = mark.key.secret.normals("channels", 8 * D).reshape(8, D)
    q, r = np.linalg.qr(normals.T.astype(np.float64))
    np.testing.assert_allclose(rows, (q * np.sign(np.diag(r))).T, atol=1e-6)
    assert not np.allclose(rows, other.channels.directions)


def test_published_directions_are_those_of_the_authors_code_up_to_their_sign() -> None:
    mark, other = (offline(number, constants="published") for number in (1, 2))
    rows = mark.channels.directions
    np.testing.assert_array_equal(rows, other.channels.directions)
    q, _ = np.linalg.qr(np.random.default_rng(42).standard_normal((D, 4)))
    np.testing.assert_allclose(np.abs((q * rows.T).sum(axis=0)), 1.0, atol=1e-6)
    text = topical(20, np.random.default_rng(1))
    assert mark.read(text).evidence != other.read(text).evidence  # the signs are the key's


def test_signs_are_fair_and_differ_by_place_and_key() -> None:
    mark = offline(1)
    signs = np.array([mark.channels.signs(place) for place in range(2000)])
    assert signs[:50].tolist() == [
        [bit == 1 for bit in signs_of(mark.key.secret, place, 4)] for place in range(50)
    ]
    # Four standard errors, of each channel's mean and of each pair of channels.
    assert np.abs(signs.mean(axis=0) - 0.5).max() < 4 * 0.5 / math.sqrt(2000)
    correlations = np.corrcoef(signs.T)[np.triu_indices(4, 1)]
    assert np.abs(correlations).max() < 4 / math.sqrt(2000)
    others = np.array([offline(2).channels.signs(place) for place in range(2000)])
    assert abs((signs == others).mean() - 0.5) < 4 * 0.5 / math.sqrt(8000)


def test_offline_counts_are_those_of_the_definition() -> None:
    mark, rows = offline(), topical(40, np.random.default_rng(1), topic=0.3)
    softs, rights = written_by_hand(mark, rows, np.zeros((40, 4)), 0)
    evidence = mark.read(rows).evidence
    assert [unit.score for unit in evidence.scores] == [sum(right) for right in rights]
    assert [unit.valid for unit in evidence.scores] == [all(right) for right in rights]
    assert evidence.means["soft"] == pytest.approx(np.mean(softs))
    assert evidence.means["hard"] == pytest.approx(np.mean(rights))
    assert evidence.z["soft"] == pytest.approx((np.mean(softs) - 0.5) / math.sqrt(0.25 / (40 * 4)))
    np.testing.assert_allclose(mark.read(rows).test("soft").increments, softs)


def test_online_counts_are_those_of_the_definition() -> None:
    rng = np.random.default_rng(2)
    mark, rows = online(N=16), topical(20, rng, topic=0.3)
    samples = [topical(size, rng, topic=0.3) for size in rng.integers(2, 17, 19)]
    medians = np.array([
        [float(hdmedian((each @ v).astype(np.float64))) for v in mark.channels.directions]
        for each in samples
    ])  # fmt: skip
    softs, rights = written_by_hand(mark, rows[1:], medians, 1)
    text = mark.read_sampled(rows, samples)
    assert [unit.score for unit in text.evidence.scores] == [
        (*right, False).index(False) for right in rights
    ]
    np.testing.assert_allclose(text.test("soft").increments, softs, atol=1e-4)
    np.testing.assert_allclose(text.test("hard").increments, np.mean(rights, axis=1))


def test_offline_keeps_the_first_candidate_with_most_channels_right() -> None:
    rng = np.random.default_rng(3)
    mark = offline()
    for place in range(60):
        candidates = topical(12, rng, topic=0.3)
        signs = signs_of(mark.key.secret, place, 4)
        matches = [
            sum((float(v @ e) >= 0) == bool(s)
                for v, s in zip(mark.channels.directions, signs, strict=True))
            for e in candidates
        ]  # fmt: skip
        choice = mark.at(place).choose(None, candidates)
        assert choice.index == matches.index(max(matches))
        assert choice.accepted is (max(matches) == 4)
        assert list(choice.scores) == matches


def test_online_keeps_the_first_that_every_channel_leaves() -> None:
    rng = np.random.default_rng(4)
    mark = online(N=16)
    left_alone = 0
    for place in range(1, 60):
        candidates = topical(int(rng.integers(2, 17)), rng, topic=0.3)
        F = np.array([[float(v @ e) for v in mark.channels.directions] for e in candidates])
        left = list(range(len(candidates)))
        for channel, sign in enumerate(signs_of(mark.key.secret, place, 4)):
            values = [F[i, channel] for i in left]
            median = float(hdmedian(np.array(values))) if len(values) > 1 else values[0]
            kept = [i for i in left if (F[i, channel] >= median) == bool(sign)]
            left_alone += not kept
            left = kept or left
        choice = mark.at(place).choose(candidates[0], candidates)
        assert (choice.index, choice.accepted) == (left[0], True)
    assert left_alone, "a test in which no channel empties the set says less"


def test_the_first_sentence_is_free_online() -> None:
    mark, rows = online(), topical(9, np.random.default_rng(5))
    assert mark.at(0).choose(rows[0], rows).index == 0
    assert mark.choose(None, rows).accepted


def test_online_says_that_the_model_is_needed() -> None:
    mark, rows = online(), topical(5, np.random.default_rng(6))
    with raises_naming(InputError, "pmark-online", "--backend"):
        mark.read(rows)
    with raises_naming(InputError, 4, 5):
        mark.read_sampled(rows, [rows] * 5)


def test_without_any_sample_the_median_is_the_prior_one() -> None:
    rows = topical(9, np.random.default_rng(7), topic=0.3)
    empty = np.empty((0, D), np.float32)
    without = online(3).read_sampled(rows, [empty] * 8).test("soft").increments
    np.testing.assert_array_equal(without, offline(3).read(rows).test("soft").increments[1:])


@pytest.mark.parametrize("make", [offline, online])
@pytest.mark.parametrize(
    "wrong", [{"b": 0}, {"b": 9}, {"N": 1}, {"N": 5000}, {"K": 0.0}, {"K": math.inf},
              {"K": math.nan}, {"tolerance": -0.1}, {"tolerance": 1.0}]
)  # fmt: skip
def test_what_cannot_be_is_refused(make: type, wrong: dict[str, object]) -> None:
    with pytest.raises(InputError):
        make(**wrong)


def test_more_channels_than_dimensions_are_refused() -> None:
    with raises_naming(InputError, 3, 4):
        offline(encoder=EncoderId("hash", "ab" * 32, 3))


PROMPT = Prompt("It was late. The harbour slept.")


def with_headings(request: Request) -> str:
    """Every third candidate begins with a heading, which carries no mark."""
    rng = Random(request.seed)
    heading = "\n\n# The harbour at night\n\n" if rng.random() < 1 / 3 else " "
    return heading + paragraph(rng)


def written(
    mark: PMarkOffline | PMarkOnline, splitter: Splitter, config: GenerationConfig | None = None
) -> Generation:
    backend = FakeBackend(width=4, sentences=with_headings)
    limits = config or GenerationConfig(max_sentences=24, max_tokens=10_000)
    return Writer(backend, splitter, FakeEncoder(), mark, limits).write(PROMPT, seed=1)


def test_generation_and_detection_number_sentences_alike(splitter: Splitter) -> None:
    """Headings between them do not matter."""
    mark = offline(5, encoder=EncoderId.of(FakeEncoder()), N=16, b=3)
    generation = written(mark, splitter)
    units = splitter.split(generation.text).units
    assert sum(not unit.carries for unit in units) >= 3
    assert tuple(unit.text for unit in units if unit.carries) == generation.sentences
    evidence = mark.read(FakeEncoder().encode(generation.sentences)).evidence
    assert [step.score for step in generation.steps] == [unit.score for unit in evidence.scores]
    assert [step.accepted for step in generation.steps] == [unit.valid for unit in evidence.scores]
    assert all(step.candidates == 16 for step in generation.steps)


def test_a_text_without_its_beginning_shows_no_mark(splitter: Splitter) -> None:
    mark = offline(5, encoder=EncoderId.of(FakeEncoder()), N=16, b=3)
    rows = FakeEncoder().encode(written(mark, splitter).sentences)
    for statistic in mark.statistics:
        assert compare(mark.read(rows).test(statistic), limit=999).p_value <= 0.002
        assert compare(mark.read(rows[:12]).test(statistic), limit=999).p_value <= 0.01
        p_values = [
            compare(mark.read(rows[cut:]).test(statistic), limit=999).p_value for cut in (1, 2, 3)
        ]
        assert min(p_values) > 0.01


def test_the_best_of_a_pool_is_kept_whatever_the_fallback(splitter: Splitter) -> None:
    """This holds under the paper's procedure too, which keeps the last refused candidate."""
    mark = offline(6, encoder=EncoderId.of(FakeEncoder()), N=8, b=6)
    texts = [
        written(mark, splitter, GenerationConfig(max_sentences=8, fallback=fallback)).text
        for fallback in ("best", "last")
    ]
    assert texts[0] == texts[1]
    assert PAPER.fallback == "last"


def test_defaults_are_the_papers() -> None:
    config = ChannelConfig(encoder=HASH)
    assert (config.b, config.N, config.K, config.tolerance) == (4, 64, 250.0, 0.001)


@pytest.mark.parametrize(("b", "N"), [(2, 3), (4, 16), (4, 64)])
def test_the_odds_of_the_best_are_those_of_simulated_pools(b: int, N: int) -> None:
    rng, pools = np.random.default_rng(1), 20_000
    natural = np.array([math.comb(b, k) for k in range(b + 1)]) / 2.0**b
    best = rng.binomial(b, 0.5, (pools, N)).max(axis=1)
    shares = np.bincount(best, minlength=b + 1) / pools
    expected = natural * odds_of_best(b, N)
    assert expected.sum() == pytest.approx(1.0)
    errors = np.sqrt(expected * (1.0 - expected) / pools)
    assert (np.abs(shares - expected) <= 4.0 * errors + 1e-9).all()


def test_the_odds_of_the_halved_are_those_of_simulated_medians() -> None:
    """Under the code that was required, over all sentences: P(right) on the first channel."""
    rng, N, trials = np.random.default_rng(2), 16, 4000
    odds = odds_of_halved(rng.standard_normal((trials, 3)), N)
    np.testing.assert_allclose(odds.mean(axis=1), 1.0, rtol=1e-6)  # over codes
    x = rng.standard_normal(trials)
    medians = [np.median(rng.standard_normal((trials, N)), axis=1) for _ in range(2)]
    alike = (x > medians[0]) == (x > medians[1])
    one = odds_of_halved((x - medians[1])[:, None], N)  # (u, 2): lower, upper side
    p_right = np.where(x > medians[1], one[:, 1], one[:, 0]) / 2.0
    assert abs(alike.mean() - p_right.mean()) < 0.03
