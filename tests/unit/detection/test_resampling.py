"""Sentences that are drawn again at detection."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import numpy as np
import pytest
from tests.errors import raises_naming

from hammingmark.assembly.detection import calibrate_key, detector
from hammingmark.detection.detector import Detector
from hammingmark.detection.group import DetectorGroup
from hammingmark.detection.reader import SentenceReader
from hammingmark.detection.resampling import SamplingReader, sample_seed, texts_before
from hammingmark.detection.search import EveryKey
from hammingmark.errors import InputError
from hammingmark.generation.generate import GenerationConfig, Writer
from hammingmark.keys.config import EncoderId
from hammingmark.keys.key import Secret, WatermarkKey
from hammingmark.protocols import Splitter
from hammingmark.records import Prompt, Request, Sampling
from hammingmark.testing import FakeBackend, FakeEncoder
from hammingmark.watermarks.pmark_offline import PMarkOfflineConfig
from hammingmark.watermarks.pmark_online import PMarkOnline, PMarkOnlineConfig

ENCODER = EncoderId.of(FakeEncoder())
TEXT = "The sailor crossed the bridge. The teacher feared the winter. The market opened."


def key_of(number: int = 0, **parameters: int) -> WatermarkKey:
    secret = Secret(hashlib.sha256(b"again %d" % number).digest())
    return WatermarkKey(secret, PMarkOnlineConfig(encoder=ENCODER, **{"N": 16, **parameters}))


def reader(
    splitter: Splitter, backend: FakeBackend, count: int = 6, **changes: object
) -> SamplingReader:
    config = replace(GenerationConfig(), **changes)  # type: ignore[arg-type]
    return SamplingReader(splitter, FakeEncoder(), backend, count, config)


def test_a_sentence_is_drawn_again_after_the_one_before(splitter: Splitter) -> None:
    text = "# Title\n\nOne sentence is here. Another follows it.\n\n## Part\n\nA third one ends it."
    assert texts_before(splitter.split(text)) == [
        "# Title\n\nOne sentence is here.",
        "# Title\n\nOne sentence is here. Another follows it.",
    ]
    assert texts_before(splitter.split("# Title")) == []
    assert texts_before(splitter.split("")) == []


def test_requests_are_those_of_generation(splitter: Splitter) -> None:
    backend = FakeBackend()
    sampling = Sampling(temperature=0.7, top_p=0.95)
    sampler = reader(splitter, backend, text_sampling=sampling, max_sentence_tokens=99)
    ((read,),) = sampler.batches([TEXT])
    assert read.samples is not None
    assert [each.shape for each in read.samples] == [(6, 64), (6, 64)]
    befores = [TEXT[:30], TEXT[:61]]
    asked = [(r.prompt.text + r.written, r.seed, r.max_tokens, r.sampling) for r in backend.drawn]
    expected = [
        (before, sample_seed(before, draw), 99, sampling) for before in befores for draw in range(6)
    ]
    assert sorted(map(str, asked)) == sorted(map(str, expected))


def test_seeds_are_those_that_are_written_down() -> None:
    digest = hashlib.sha256(b"hammingmark/sample\x00" + bytes([3, *[0] * 7]) + "Où ?".encode())
    word = int.from_bytes(digest.digest()[:4], "little")
    assert sample_seed("Où ?", 3) == word % 2**31
    assert len({sample_seed(text, draw) for text in ("a", "b") for draw in range(64)}) == 128


@pytest.mark.parametrize("text", ["", "# Title", "One here."])
def test_nothing_is_drawn_for_a_text_with_nothing_to_judge(splitter: Splitter, text: str) -> None:
    backend = FakeBackend()
    searcher = Detector(reader(splitter, backend), EveryKey([PMarkOnline(key_of())]))
    verdict = searcher.judge(text)
    assert verdict.watermarked is None
    assert not backend.drawn


def test_what_generation_passes_over_is_left_out(splitter: Splitter) -> None:
    def some(request: Request) -> str:
        copy = " The sailor crossed the bridge. Then"
        return (copy, "", " The painter warmed the kitchen. Then")[request.seed % 3]

    ((read,),) = reader(splitter, FakeBackend(sentences=some), 30).batches([TEXT])
    assert read.samples is not None
    wanted = FakeEncoder().encode(["The painter warmed the kitchen."])[0]
    for samples in read.samples:
        assert 0 < len(samples) < 30
        assert (samples == wanted).all()


def written(key: WatermarkKey, splitter: Splitter, seed: int = 1) -> tuple[str, FakeBackend]:
    backend = FakeBackend(width=4)
    config = GenerationConfig(max_sentences=16, max_tokens=10_000)
    writer = Writer(backend, splitter, FakeEncoder(), PMarkOnline(key), config)
    generation = writer.write(Prompt("It was late. The harbour slept."), seed=seed)
    steps = generation.steps
    assert [step.candidates for step in steps] == [1, *[16] * 15]  # the first is free
    assert [step.accepted for step in steps] == [None, *[True] * 15]
    return generation.text, backend


def test_a_marked_text_is_found_again_under_its_key_alone(splitter: Splitter) -> None:
    text, _ = written(key_of(1), splitter)
    verdicts = [
        detector(key_of(number), encoder=FakeEncoder(), splitter=splitter, backend=FakeBackend())
        .judge(text)
        for number in (1, 1, 2)
    ]  # fmt: skip
    assert verdicts[0] == verdicts[1]
    assert verdicts[0].watermarked is True
    assert verdicts[2].watermarked is False
    assert (verdicts[2].power_as_written or 0.0) > 0.9
    assert len(verdicts[0].evidence.scores) == 15
    both = detector(
        [key_of(2), key_of(1)], encoder=FakeEncoder(), splitter=splitter, backend=FakeBackend()
    )
    assert both.judge(text).key_id == key_of(1).id


def test_the_model_is_asked_for_where_it_is_needed_and_nowhere_else(splitter: Splitter) -> None:
    parts = {"encoder": FakeEncoder(), "splitter": splitter}
    with raises_naming(InputError, "pmark-online", "--backend"):
        detector(key_of(), **parts)  # type: ignore[arg-type]
    other = WatermarkKey(Secret(bytes(32)), PMarkOfflineConfig(encoder=ENCODER))
    with raises_naming(InputError, "pmark-offline"):
        detector(other, backend=FakeBackend(), **parts)  # type: ignore[arg-type]
    some = [key_of(1), key_of(2, N=8), key_of(3)]
    apart = detector(some, backend=FakeBackend(), **parts)  # type: ignore[arg-type]
    assert isinstance(apart, DetectorGroup)
    assert [(each.keys, each.reader.count) for each in apart.detectors] == [(2, 16), (1, 8)]
    with raises_naming(InputError, "pmark-online", "edits"):
        detector(key_of(), backend=FakeBackend(), edits=True, **parts)  # type: ignore[arg-type]
    with raises_naming(InputError, "pmark-online"):
        calibrate_key([TEXT], key=key_of(), level=0.1, provenance={}, **parts)  # type: ignore[arg-type]
    by_hand = Detector(SentenceReader(splitter, FakeEncoder()), EveryKey([PMarkOnline(key_of())]))
    with raises_naming(InputError, "pmark-online", "--backend"):
        by_hand.judge(TEXT)


def test_unmarked_texts_are_called_watermarked_no_more_often_than_promised(
    splitter: Splitter,
) -> None:
    """The model draws what it would have written: medians fit, and still the level holds."""
    rng = np.random.default_rng(3)
    found = []
    for number in range(40):
        config = GenerationConfig(max_sentences=8, max_tokens=10_000)
        plain = Writer(FakeBackend(), splitter, None, None, config)
        text = plain.write(Prompt("It was late."), seed=int(rng.integers(1 << 30))).text
        searcher = detector(
            key_of(number), encoder=FakeEncoder(), splitter=splitter, backend=FakeBackend(),
            level=0.05, references=200,
        )  # fmt: skip
        found.append(searcher.judge(text).watermarked)
    assert found.count(True) <= 7  # more once in 1,000 times
