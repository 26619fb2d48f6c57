"""Text to verdict, on an encoder that hashes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from tests.errors import raises_naming

from hammingmark.assembly.detection import detector
from hammingmark.assembly.keys import new_key
from hammingmark.detection.detector import Detector
from hammingmark.detection.reader import ReadText, TokenReader
from hammingmark.detection.search import EveryKey
from hammingmark.detection.thresholds import fit_calibration
from hammingmark.errors import CalibrationError, InputError
from hammingmark.keys.config import TokenizerId
from hammingmark.keys.key import Secret, WatermarkKey
from hammingmark.records import Verdict
from hammingmark.stats.calibration import Calibration
from hammingmark.testing.fakes import FakeEncoder, FakeSplitter, FakeTokenizer
from hammingmark.watermarks.hamming.statistics import STATISTICS
from hammingmark.watermarks.kgw import KGW, KGWConfig


def judge_rows(detector: Detector, sentences: list[str], rows: np.ndarray) -> Verdict:
    return next(detector.judge_read([ReadText(tuple(sentences), rows)]))


@pytest.mark.parametrize("statistic", STATISTICS)
def test_a_marked_text_is_found_under_its_key_alone(make: SimpleNamespace, statistic: str) -> None:
    mark = make.watermark(1)
    sentences = make.marked(mark, 20, seed=1)
    verdict = make.detector(mark, statistic=statistic).judge(make.text(sentences))
    assert verdict.watermarked is True
    assert verdict.p_value is not None
    assert verdict.p_value <= 0.01
    assert verdict.pieces == tuple(sentences)
    assert verdict.key_id == mark.key.id
    assert verdict.statistic == statistic
    assert verdict.references == 4000
    assert verdict.evidence.means["edge_vote"] == 1.0
    assert "is at most the level" in verdict.reason
    other = make.detector(make.watermark(2), statistic=statistic).judge(make.text(sentences))
    assert other.watermarked is False
    assert "is above the level" in other.reason


def test_unmarked_texts_are_called_watermarked_no_more_often_than_promised(
    make: SimpleNamespace,
) -> None:
    detector = make.detector(make.watermark(3), level=0.05)
    verdicts = [detector.judge(make.text(make.plain(15, seed=s))) for s in range(40)]
    assert sum(verdict.watermarked is True for verdict in verdicts) <= 7
    assert all(verdict.watermarked is not None for verdict in verdicts)


@pytest.mark.parametrize(
    ("text", "held"), [("", "no sentence"), ("# Title", "no sentence"), ("One here.", "one")]
)
def test_without_two_sentences_there_is_no_verdict(
    make: SimpleNamespace, text: str, held: str
) -> None:
    verdict = make.detector(make.watermark(0), make.watermark(1)).judge(text)
    assert verdict.watermarked is None
    assert verdict.p_value is None
    assert verdict.key_id is None
    assert verdict.evidence.scores == ()
    assert held in verdict.reason
    assert verdict.keys == 2


# The soft statistic is continuous: however short the text, some key gives it an extreme value.
@pytest.mark.parametrize("statistic", [each for each in STATISTICS if each != "soft"])
def test_too_few_transitions_cannot_tell_and_say_so(make: SimpleNamespace, statistic: str) -> None:
    pair = np.zeros((2, 32), np.float32)
    pair[0, 0], pair[1, :2] = 1.0, (0.6, 0.8)  # most keys match such neighbours anyway
    detector = make.detector(make.watermark(0), statistic=statistic, topic="free")
    verdict = judge_rows(detector, ["One.", "Two."], pair)
    assert verdict.watermarked is None
    assert verdict.p_value is not None
    assert verdict.p_value > 0.01
    assert verdict.reason.startswith("Too short to tell")


def test_where_no_key_could_reach_the_level_the_reason_names_what_it_could(
    make: SimpleNamespace,
) -> None:
    detector = make.detector(make.watermark(0), statistic="edge_vote", topic="free")
    verdict = detector.judge(make.text(make.plain(2, seed=0)))
    assert verdict.attainable > 0.01
    assert "with 1 transition of" in verdict.reason
    assert f"no mark gives p below {verdict.attainable:.2g}" in verdict.reason


def judge_tokens(text: str, **parameters: object) -> Verdict:
    tokenizer = FakeTokenizer()
    wanted = TokenizerId(tokenizer.name, tokenizer.fingerprint, tokenizer.size)
    config = KGWConfig(tokenizer=wanted, **parameters)  # type: ignore[arg-type]
    key = WatermarkKey(Secret(bytes(32)), config)
    return Detector(TokenReader(tokenizer), EveryKey([KGW(key)])).judge(text)


def test_tokens_that_cannot_be_scored_are_not_called_sentences() -> None:
    for text, prefix, held in (("a", 1, "1 token"), ("abc", 4, "3 tokens")):
        verdict = judge_tokens(text, prefix_length=prefix)
        assert verdict.p_value is None
        assert held in verdict.reason
        assert "sentence" not in verdict.reason
    assert "no token" in judge_tokens("").reason


def test_a_long_text_of_the_same_tokens_is_not_called_short() -> None:
    verdict = judge_tokens("a" * 3001)
    assert verdict.watermarked is None
    assert all(datum in verdict.reason for datum in ("1 token ", "2,999", "0.5"))
    short = judge_tokens("abc")
    assert all(datum in short.reason for datum in ("2 tokens", "0.25"))
    assert "short" not in verdict.reason + short.reason.lower()


def test_a_fixed_threshold_decides_instead_of_the_p_value(make: SimpleNamespace) -> None:
    mark = make.watermark(4)
    text = make.text(make.plain(12, seed=4))
    share = make.detector(mark).judge(text).evidence.means["global_bits"]
    assert share is not None
    lower = make.detector(mark, statistic="global_bits", threshold=share - 0.01).judge(text)
    equal = make.detector(mark, statistic="global_bits", threshold=share).judge(text)
    assert lower.watermarked is True
    assert equal.watermarked is False, "a threshold must be exceeded"
    assert lower.threshold == share - 0.01
    assert "is above the threshold" in lower.reason
    assert "not above" in equal.reason
    assert lower.p_value == equal.p_value


def test_a_threshold_is_of_the_mean_where_the_statistic_is_a_sum(make: SimpleNamespace) -> None:
    mark = make.watermark(4)
    text = make.text(make.plain(12, seed=4))
    verdict = make.detector(mark, statistic="likelihood", threshold=0.0).judge(text)
    mean = verdict.evidence.sums["likelihood"] / len(verdict.evidence.scores)
    assert f"mean likelihood per transition = {mean:.3f}" in verdict.reason


def test_a_calibration_keeps_its_rate_and_finds_the_mark(make: SimpleNamespace) -> None:
    mark = make.watermark(5)
    detector = make.detector(mark)
    calibration = fit_calibration(
        [make.text(make.plain(13, seed=s)) for s in range(100)],
        reader=detector.reader,
        watermark=mark,
        statistic="global_bits",
        level=0.1,
        provenance={"texts": "plain"},
    )
    assert calibration.key_id == mark.key.id
    assert calibration.fingerprint == detector.reader.encoder.fingerprint
    judging = make.detector(mark, statistic="global_bits", level=0.1, calibration=calibration)
    fresh = [judging.judge(make.text(make.plain(13, seed=1000 + s))) for s in range(80)]
    assert sum(verdict.watermarked is True for verdict in fresh) <= 20
    found = judging.judge(make.text(make.marked(mark, 13, seed=5)))
    assert found.watermarked is True
    assert found.threshold == calibration.threshold(12)


def test_too_few_texts_cannot_be_calibrated(make: SimpleNamespace) -> None:
    detector = make.detector()
    with raises_naming(CalibrationError, 99, "1 of 2"):
        fit_calibration(
            ["One. Two. Three.", ""],
            reader=detector.reader,
            watermark=make.watermark(0),
            statistic="margin",
            level=0.01,
            provenance={},
        )


def test_of_several_keys_the_right_one_is_named_and_the_search_is_paid_for(
    make: SimpleNamespace,
) -> None:
    marks = [make.watermark(seed) for seed in range(10, 14)]
    text = make.text(make.marked(marks[2], 20, seed=6))
    alone = make.detector(marks[2], references=4000).judge(text)
    several = make.detector(*marks).judge(text)
    assert several.key_id == marks[2].key.id
    assert several.keys == 4
    assert several.watermarked is True
    assert alone.p_value == 1 / 4001
    assert several.p_value == pytest.approx(4 / 4001)
    assert several.references == 4000
    assert several.attainable == pytest.approx(4 / 4001)
    strict = make.detector(*marks, level=0.001).judge(text)
    assert strict.references == 16_000  # 4 K/level: enough to reach the level four times over
    assert strict.p_value == pytest.approx(4 / 16_001)


def test_a_search_without_success_has_a_p_value_of_at_most_one(make: SimpleNamespace) -> None:
    marks = [make.watermark(seed) for seed in range(20, 26)]
    verdict = make.detector(*marks).judge(make.text(make.plain(12, seed=7)))
    alone = [make.detector(mark).judge(make.text(make.plain(12, seed=7))) for mark in marks]
    best = min(alone, key=lambda each: each.p_value or 1.0)
    assert verdict.key_id == best.key_id
    assert verdict.p_value == pytest.approx(min(1.0, 6 * (best.p_value or 1.0)), rel=0.35)
    assert verdict.watermarked is not True


@pytest.mark.parametrize(
    ("level", "keys"),
    [
        (0.01, 1),
        (0.001, 1),
        (0.0001, 1),
    ],
)
def test_a_long_unmarked_text_is_never_called_too_short(
    make: SimpleNamespace, level: float, keys: int
) -> None:
    marks = [make.watermark(seed) for seed in range(40, 40 + keys)]
    verdict = make.detector(*marks, level=level).judge(make.text(make.plain(100, seed=40)))
    assert verdict.watermarked is False
    assert verdict.attainable <= level
    assert verdict.power is not None
    assert verdict.power > 0.5


@pytest.mark.parametrize("statistic", STATISTICS)
def test_a_marked_passage_is_found_where_it_is(make: SimpleNamespace, statistic: str) -> None:
    mark = make.watermark(8)
    around = make.plain(60, seed=8)
    sentences = [*around[:30], *make.marked(mark, 25, seed=8), *around[30:]]
    verdict = make.detector(mark, statistic=statistic).judge(make.text(sentences))
    assert len(verdict.pieces) == 85
    best = verdict.passages[0]
    assert abs(best.begin - 30) <= 3
    assert abs(best.end - 55) <= 3
    assert best.p_value <= 0.01
    assert all(passage.p_value <= 0.01 for passage in verdict.passages)


def test_unmarked_text_has_no_passages(make: SimpleNamespace) -> None:
    verdict = make.detector(make.watermark(9)).judge(make.text(make.plain(60, seed=9)))
    assert verdict.passages == ()


def test_one_sentence_said_again_and_again_is_not_watermarked(make: SimpleNamespace) -> None:
    text = make.text(["All work and no play makes Jack a dull boy."] * 30)
    verdicts = [make.detector(make.watermark(seed)).judge(text) for seed in range(12)]
    assert all(len(verdict.pieces) == 30 for verdict in verdicts)
    assert not any(verdict.watermarked for verdict in verdicts)
    assert {verdict.p_value for verdict in verdicts} == {1.0}


def test_many_texts_keep_their_order_and_each_sentence_is_embedded_once(
    make: SimpleNamespace,
) -> None:
    detector = make.detector(references=1)
    shared = "A sentence that occurs everywhere."
    texts = [make.text([shared, *make.plain(2, seed=s), shared]) for s in range(20)]
    texts.insert(7, "")
    verdicts = list(detector.judge_many(texts))
    assert [verdict.pieces for verdict in verdicts] == [
        tuple(detector.reader.splitter.split(text).carrying) for text in texts
    ]
    assert len(detector.reader.encoder.asked) == 1
    asked = detector.reader.encoder.asked[0]
    assert len(asked) == len(set(asked)) == 41
    assert verdicts[3] == make.detector(references=1).judge(texts[3])


def test_texts_are_taken_from_a_generator_as_needed(make: SimpleNamespace) -> None:
    taken = 0

    def endless() -> Iterator[str]:
        nonlocal taken
        while True:
            taken += 1
            yield f"Only one sentence, number {taken}."

    verdicts = make.detector().judge_many(endless())
    assert taken == 0
    assert next(verdicts).pieces == ("Only one sentence, number 1.",)
    assert 1 <= taken <= 5000
    before = taken
    assert [next(verdicts).pieces for _ in range(before)][-1] == (
        f"Only one sentence, number {before + 1}.",
    )


def test_no_texts_give_no_verdicts(make: SimpleNamespace) -> None:
    assert list(make.detector().judge_many([])) == []


@pytest.mark.parametrize("texts", ["abc", b"abc", [None], [3], ["One.", b"Two."]])
def test_what_is_no_text_is_not_judged(make: SimpleNamespace, texts: object) -> None:
    with raises_naming(InputError, "text"):
        list(make.detector().judge_many(texts))


@pytest.mark.parametrize(
    "options",
    [
        {"topic": "nope"},
        {"statistic": "nope"},
        {"threshold": float("nan")},
        {"threshold": float("inf")},
    ],
)
def test_options_are_checked_before_any_text(
    make: SimpleNamespace, options: dict[str, object]
) -> None:
    with raises_naming(InputError, *options, *options.values()):
        make.detector(**options)


def test_known_embeddings_give_the_same_verdict(make: SimpleNamespace) -> None:
    detector = make.detector(make.watermark(1))
    sentences = make.plain(9, seed=1)
    embedded = make.encoder().encode(sentences)
    assert judge_rows(detector, sentences, embedded) == detector.judge(make.text(sentences))


@pytest.mark.parametrize("level", [0.0, 1.0, -0.1, 1.5, float("nan")])
def test_a_level_lies_between_zero_and_one(make: SimpleNamespace, level: float) -> None:
    with raises_naming(InputError, "level", level):
        make.detector(level=level)


@pytest.mark.parametrize("references", [0, -5])
def test_at_least_one_reference_key_is_needed(make: SimpleNamespace, references: int) -> None:
    with raises_naming(InputError, "reference"):
        make.detector(references=references)


def test_at_least_one_key_is_needed() -> None:
    with raises_naming(InputError, "key"):
        EveryKey([])


def test_a_calibration_and_a_threshold_contradict(make: SimpleNamespace) -> None:
    calibration = Calibration("margin", 0.01, key_id="hm-0", fingerprint="ab" * 32)
    with raises_naming(InputError, "calibration", "threshold"):
        make.detector(calibration=calibration, threshold=0.0)


def test_a_level_goes_as_deep_as_the_null_distribution_allows(make: SimpleNamespace) -> None:
    """Where it is computed, to any depth; where keys are counted, to what they can show."""
    key = new_key(FakeEncoder(), method="bilinear")
    deep = detector([key], encoder=FakeEncoder(), splitter=FakeSplitter(), level=1e-9)
    verdict = deep.judge(make.text(make.plain(60, seed=3)))
    assert verdict.level == 1e-9
    assert verdict.power_as_written is not None
    assert (verdict.watermarked is False) is (verdict.power_as_written >= 0.5)
    with raises_naming(InputError, "1e-09", "4,000,000,000"):
        make.detector(level=1e-9).judge(make.text(make.plain(6, seed=3)))
    with raises_naming(InputError, "1e-300"):
        make.detector(level=1e-305)


def test_what_reaches_the_level_in_a_short_text_is_weak_evidence(make: SimpleNamespace) -> None:
    """The p-value of a text is what it was; only what is made of it depends on the power."""
    key = new_key(FakeEncoder(), method="bilinear")
    verdicts = []
    for seed in range(300):
        own = replace(key, secret=Secret(seed.to_bytes(32, "big")))
        judging = detector([own], encoder=FakeEncoder(), splitter=FakeSplitter(), level=0.02)
        verdicts.append(judging.judge(make.text(make.plain(2, seed=seed))))
    reached = [each for each in verdicts if _joint(each) <= 0.02]
    weak = [each for each in reached if (each.power_as_written or 0.0) < 0.5]
    assert weak
    for verdict in weak:
        assert (verdict.watermarked, verdict.passages) == (None, ())
        assert verdict.likelihood_ratio is not None
        assert 1.0 <= verdict.likelihood_ratio <= 1.5 / 0.21**2, "of two sentences at most"
        assert "too short for a verdict" in verdict.reason
    for verdict in verdicts:
        assert (verdict.likelihood_ratio is not None) is (verdict in weak)
        assert verdict.watermarked is not True or (verdict.power_as_written or 0.0) >= 0.5


def _joint(verdict: Verdict) -> float:
    """The p-value of all that a verdict claims."""
    assert verdict.joint_p_value is not None
    return verdict.joint_p_value


def test_few_reference_keys_still_allow_the_level_asked_for(make: SimpleNamespace) -> None:
    mark = make.watermark(30)
    verdict = make.detector(mark, references=1, level=0.001).judge(
        make.text(make.marked(mark, 25, seed=30))
    )
    assert verdict.p_value is not None
    assert verdict.p_value <= 0.001
    assert verdict.watermarked is True


def test_embeddings_that_all_agree_give_finite_numbers(make: SimpleNamespace) -> None:
    row = np.ones((1, 32), np.float32) / np.sqrt(np.float32(32))
    verdict = judge_rows(make.detector(), ["a"] * 5, np.repeat(row, 5, axis=0))
    assert verdict.p_value == 1.0
    assert np.isfinite(verdict.evidence.sums["margin"])
    assert np.isfinite(verdict.evidence.sums["likelihood"])


def joined(sentences: list[str]) -> list[str]:
    """Neighbours made one by a semicolon, in pairs."""
    firsts, seconds = sentences[::2], sentences[1::2]
    return [f"{a[:-1]}; {b[0].lower()}{b[1:]}" for a, b in zip(firsts, seconds, strict=True)]


def test_joined_sentences_are_found_again_by_who_allows_for_edits(make: SimpleNamespace) -> None:
    mark = make.watermark(1)
    text = make.text(joined(make.marked(mark, 20, seed=2)))
    plain = make.detector(mark).judge(text)
    edited = make.detector(mark, edits=True).judge(text)
    assert plain.watermarked is not True
    assert edited.watermarked is True
    assert edited.pieces == plain.pieces  # the verdict shows the text as it stands
    assert edited.evidence == plain.evidence
    assert edited.edits
    assert not plain.edits
    assert "allowing for edits" in str(edited)
    assert "allowing for edits" not in str(plain)
    assert make.detector(make.watermark(2), edits=True).judge(text).watermarked is not True


def test_who_allows_for_edits_finds_what_stands_as_it_was(make: SimpleNamespace) -> None:
    mark = make.watermark(1)
    sentences = make.marked(mark, 20, seed=1)
    detector = make.detector(mark, make.watermark(5), edits=True)
    assert detector.judge(make.text(sentences)).watermarked is True
    put_in = [s for each in sentences for s in (each, f"Nothing {len(each)} of that sort.")][:-1]
    assert detector.judge(make.text(put_in[:4] + sentences[2:])).watermarked is True
    assert detector.judge("One here.").p_value is None
    assert len(list(detector.judge_many([make.text(sentences), "", "A b c. D e f."]))) == 3


def test_unmarked_texts_keep_the_level_whatever_they_may_have_been(make: SimpleNamespace) -> None:
    detector = make.detector(make.watermark(3), level=0.05, edits=True, references=999)
    texts = [make.text(joined(make.plain(16, seed=s))) for s in range(60)]
    assert sum(v.watermarked is True for v in detector.judge_many(texts)) <= 8


def test_edits_want_a_likelihood_ratio_and_no_threshold(make: SimpleNamespace) -> None:
    with raises_naming(InputError, "margin", "likelihood"):
        make.detector(edits=True, statistic="edge_vote").judge("It rained. It snowed.")
    with raises_naming(InputError, "threshold", "edits"):
        make.detector(edits=True, threshold=0.5)


def test_a_long_edited_text_in_chunks_gives_the_same(
    make: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = make.text(joined(make.plain(40, seed=9)))
    detector = make.detector(make.watermark(1), edits=True, references=999)
    whole = detector.judge(text)
    monkeypatch.setattr("hammingmark.watermarks.hamming.scored_text._STEPS", 7)
    monkeypatch.setattr("hammingmark.watermarks.hamming.scored_text._CHUNK", 3)
    again = detector.judge(text)
    assert again.p_value == whole.p_value
    assert again.power == pytest.approx(whole.power)
