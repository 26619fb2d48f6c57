"""Green lists: the same on every device, with the right share, and counted as generated."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from tests.errors import raises_naming

from hammingmark.errors import InputError
from hammingmark.keys.config import TokenizerId
from hammingmark.keys.key import Secret, WatermarkKey
from hammingmark.stats.compare import compare
from hammingmark.watermarks._shared.green_lists import GreenConfig, GreenLists
from hammingmark.watermarks.kgw import KGW, KGWConfig

TOKENIZER = TokenizerId("test", "ab" * 32, 5000)
SCHEMES = ("sequence", "additive", "skip", "min")


def lists(scheme: str = "sequence", *, gamma: float = 0.5, seed: int = 1) -> GreenLists:
    config = GreenConfig(tokenizer=TOKENIZER, gamma=gamma, prefix_length=3, f_scheme=scheme)  # type: ignore[arg-type]
    return GreenLists([Secret(bytes([seed] * 32))], config)


def mark(number: int = 1, **given: object) -> KGW:
    config = KGWConfig(tokenizer=TOKENIZER, **given)  # type: ignore[arg-type]
    return KGW(WatermarkKey(Secret(bytes([number] * 32)), config))


def on_cuda() -> bool:
    torch = pytest.importorskip("torch")
    return bool(torch.cuda.is_available())


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize(
    "device",
    [
        "cpu",
        pytest.param(
            "cuda",
            marks=[pytest.mark.cuda, pytest.mark.skipif(not on_cuda(), reason="needs CUDA")],
        ),
    ],
)
def test_a_device_and_numpy_have_the_same_green_lists(scheme: str, device: str) -> None:
    torch = pytest.importorskip("torch")
    before = np.random.default_rng(0).integers(0, 200_000, size=(3, 40, 1))
    tokens = np.arange(0, 200_000, 37)[None]
    green = lists(scheme)
    expected = green.is_green(green.contexts(list(before)), tokens)
    there = [torch.from_numpy(each).to(device) for each in before]
    actual = green.is_green(green.contexts(there), torch.from_numpy(tokens).to(device))
    assert expected.shape == (40, tokens.shape[1])
    np.testing.assert_array_equal(actual.cpu().numpy(), expected)


def test_green_lists_are_these_on_every_machine() -> None:
    """Compared with numbers computed once with Python's integers."""

    def mixed(word: int) -> int:
        word = (word + 0x1E3779B97F4A7C15) % 2**64
        word = (word ^ word >> 30) * (2**64 - 0x40A7B892E31B1A47) % 2**64
        word = (word ^ word >> 27) * (2**64 - 0x6B2FB644ECCEEE15) % 2**64
        return word ^ word >> 31

    stream = Secret(bytes([1] * 32)).stream("green lists", 16)
    first, second = (int.from_bytes(stream[i : i + 8], "little") for i in (0, 8))
    rng = np.random.default_rng(3)
    green = lists(gamma=0.3)
    for _ in range(50):
        *before, token = (int(each) for each in rng.integers(0, 50_000, size=4))
        word = mixed(before[0] + first)
        for each in before[1:]:
            word = mixed(word + each)
        word = mixed(word + mixed(token * 0x5851F42D4C957F2D + second))
        arrays = [np.array([each]) for each in before]
        actual = green.is_green(green.contexts(arrays), np.array([token]))
        assert bool(actual[0]) is (word >> 11 < round(0.3 * 2**53))


@pytest.mark.parametrize("gamma", [0.25, 0.5])
def test_the_green_share_is_gamma_and_lists_have_nothing_in_common(gamma: float) -> None:
    before = [np.arange(300)[:, None], *(np.full((300, 1), each) for each in (5, 9))]
    tokens = np.arange(2000)[None]
    votes = [
        green.is_green(green.contexts(before), tokens)
        for green in (lists(gamma=gamma, seed=seed) for seed in (1, 2))
    ]
    spread = np.sqrt(gamma * (1 - gamma))
    assert abs(votes[0].mean() - gamma) < 4 * spread / np.sqrt(votes[0].size)
    for own, other in (
        (votes[0], votes[1]),  # under another key
        (votes[0][1:], votes[0][:-1]),  # after another context
        (votes[0][:, 1:], votes[0][:, :-1]),  # of another token
    ):
        together = (own & other).mean()
        assert abs(together - gamma**2) < 5 * gamma / np.sqrt(own.size)
    # Shares of lists, and of tokens over lists, spread as those of independent draws do.
    for axis in (0, 1):
        shares = votes[0].mean(axis=axis)
        expected = spread / np.sqrt(votes[0].shape[axis])
        assert 0.8 < shares.std() / expected < 1.2


def test_schemes_look_at_what_they_say() -> None:
    a, b, c, other = (np.array([each]) for each in (11, 47, 1234, 9))
    sequence, additive, skip, least = (lists(each).contexts for each in SCHEMES)
    assert sequence([a, b, c]) != sequence([b, a, c])
    assert additive([a, b, c]) == additive([c, a, b]) != additive([a, b, other])
    assert skip([a, b, c]) == skip([a, other, other]) != skip([other, b, c])
    words = {least([x, x, x])[0]: x for x in (a, b, c)}
    assert least([a, b, c]) == least([c, b, a]) == min(words)
    assert least([a, b, c]) == least([words[min(words)], other, other]) or least([other] * 3) < min(
        words
    )


@pytest.mark.parametrize("scheme", SCHEMES)
def test_what_is_favoured_is_what_is_counted(scheme: str) -> None:
    torch = pytest.importorskip("torch")
    from hammingmark.records import DecodingStep

    own = mark(prefix_length=3, f_scheme=scheme, gamma=0.4)
    tokens = np.random.default_rng(5).integers(0, 5, size=120)
    grams = np.lib.stride_tricks.sliding_window_view(tokens, 4)
    step = DecodingStep(
        torch.arange(5000)[None], torch.from_numpy(grams[:, :3].copy()), torch.zeros(117, 0)
    )
    bonus = own.process(torch.zeros(117, 5000), step).numpy()
    assert set(np.unique(bonus)) == {0.0, 2.0}
    favoured = bonus[np.arange(117), grams[:, -1]] > 0
    text = own.read(tokens)
    np.testing.assert_array_equal(text.test("green_all").increments > 0, favoured)
    counted = text.counted
    scores = text.evidence.scores
    np.testing.assert_array_equal([unit.valid for unit in scores], favoured)
    np.testing.assert_array_equal([unit.counted for unit in scores], counted)
    assert text.evidence.valid == (favoured & counted).sum()
    assert text.evidence.repeated == 117 - counted.sum()
    assert 0 < counted.sum() < 117


def test_nothing_is_favoured_where_the_context_is_not_complete() -> None:
    torch = pytest.importorskip("torch")
    from hammingmark.records import DecodingStep

    contexts = torch.tensor([[-1, -1, 3], [-1, 2, 3], [1, 2, 3]])
    step = DecodingStep(torch.arange(5000)[None], contexts, torch.zeros(3, 0))
    bonus = mark(prefix_length=3).process(torch.zeros(3, 5000), step)
    assert bonus[:2].abs().max() == 0
    assert 0.45 < float((bonus[2] > 0).float().mean()) < 0.55


def test_statistics_are_those_of_the_definition() -> None:
    own, gamma = mark(gamma=0.25), 0.25
    tokens = np.random.default_rng(6).integers(0, 12, size=200)
    text = own.read(tokens)
    votes = text.test("green_all").increments
    pairs = list(zip(tokens[:-1].tolist(), tokens[1:].tolist(), strict=True))
    firsts = [pairs.index(pair) == place for place, pair in enumerate(pairs)]
    np.testing.assert_array_equal(text.counted, firsts)
    for name, counted_votes in (("green", votes[firsts]), ("green_all", votes)):
        n, h = len(counted_votes), counted_votes.sum()
        assert text.evidence.means[name] == h / n
        assert text.evidence.z[name] == pytest.approx(
            (h - gamma * n) / np.sqrt(n * gamma * (1 - gamma))
        )
    n, h = sum(firsts), votes[firsts].sum()
    comparison = compare(text.test("green"), limit=1)
    assert comparison.p_value == pytest.approx(stats.binom.sf(h - 1, n, gamma), rel=1e-9)
    deep = replace(text.test("green"), increments=text.counted.astype(float))
    assert compare(deep, limit=1).p_value == pytest.approx(gamma**n, rel=1e-6)


def test_repeated_pairs_are_counted_together_and_the_binomial_would_be_wrong() -> None:
    """Over keys, the number of green tokens with repeats has a larger variance than a binomial."""
    tokens = np.random.default_rng(8).integers(0, 4, size=150)
    p_values, counts = [], []
    for number in range(600):
        text = KGW(
            WatermarkKey(Secret(number.to_bytes(32, "big")), KGWConfig(tokenizer=TOKENIZER))
        ).read(tokens)
        p_values.append(compare(text.test("green_all"), limit=1).p_value)
        counts.append(text.test("green_all").increments.sum())
    naive = stats.binom.sf(np.array(counts) - 1, 149, 0.5)
    assert np.mean(naive <= 0.01) > 0.1
    for level in (0.01, 0.05, 0.2):
        assert np.mean(np.array(p_values) <= level) <= level + 4 * np.sqrt(level / 600)
    assert np.mean(np.array(p_values) <= 0.2) > 0.1


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_right_key_is_found_among_many(scheme: str) -> None:
    config = KGWConfig(tokenizer=TOKENIZER, prefix_length=2, f_scheme=scheme)  # type: ignore[arg-type]
    keys = [WatermarkKey(Secret(number.to_bytes(32, "big")), config) for number in range(600)]
    own = KGW(keys[417])
    rng = np.random.default_rng(9)
    tokens = [1, 2]
    while len(tokens) < 120:
        drawn = rng.integers(0, 5000, size=40)
        grams = [np.full(40, each) for each in tokens[-2:]]
        green = own._lists.is_green(own._lists.contexts(grams), drawn)
        tokens.append(int(drawn[np.argmax(green)]))
    marked = np.array(tokens)
    mixed = np.concatenate([rng.integers(0, 5000, size=150), marked[:60]])
    for statistic in own.statistics:
        ranked = own.rank(keys, [marked, mixed, marked[:1]], statistic=statistic)
        assert ranked[0][0] == 417
        assert 417 in ranked[1]
        assert ranked[2]
    votes = GreenLists([key.secret for key in keys[:5]], config).votes(
        np.lib.stride_tricks.sliding_window_view(mixed, 3), keys=5
    )
    for row, key in enumerate(keys[:5]):
        alone = KGW(key).read(mixed)
        np.testing.assert_array_equal(votes[0][row], alone.test("green_all").increments)
        np.testing.assert_array_equal(votes[1][row], alone.counted)


@pytest.mark.parametrize(
    "given",
    [
        {"gamma": 0.0},
        {"gamma": 1.0},
        {"prefix_length": 0},
        {"delta": 0.0},
        {"delta": float("inf")},
    ],
)
def test_a_configuration_that_cannot_be_is_refused(given: dict[str, object]) -> None:
    with raises_naming(InputError, *given):
        KGWConfig(tokenizer=TOKENIZER, **given)  # type: ignore[arg-type]
