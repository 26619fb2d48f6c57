"""Many keys: which of them a text is tested under, and what that costs."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.errors import raises_naming
from tests.keys import hamming_key

from hammingmark.assembly.detection import MOST_TESTED, DetectorSpec, detector
from hammingmark.assembly.keys import new_key
from hammingmark.detection.detector import Detector
from hammingmark.detection.group import DetectorGroup
from hammingmark.detection.reader import SentenceReader
from hammingmark.detection.search import EveryKey, RankedKeys
from hammingmark.errors import InputError
from hammingmark.keys.key import Secret
from hammingmark.keys.keyring import save
from hammingmark.testing import FakeBackend, FakeEncoder, FakeSplitter
from hammingmark.watermarks.hamming import HammingMark

LABELS = [f"day {number}" for number in range(60)]


def ranked(make: SimpleNamespace, master: HammingMark, **options: object) -> Detector:
    ready = make.detector(master)
    keys = [master.key.derive(label) for label in LABELS]
    return Detector(ready.reader, RankedKeys(master, keys), **options)  # type: ignore[arg-type]


def test_the_label_is_named_and_the_search_is_paid_for(make: SimpleNamespace) -> None:
    master = make.watermark(1)
    for number in (0, 17, 59):
        marked = make.marked(master.like(master.key.derive(LABELS[number])), 24, seed=number)
        verdict = ranked(make, master).judge(make.text(marked))
        assert verdict.watermarked is True
        assert verdict.label == LABELS[number]
        assert verdict.key_id == master.key.derive(LABELS[number]).id
        assert verdict.keys == 60
        assert verdict.references == 24_000  # 4 K / level
        assert verdict.p_value == pytest.approx(60 / 24_001)


def test_what_is_ranked_first_is_what_testing_every_key_would_find(make: SimpleNamespace) -> None:
    master = make.watermark(2)
    keys = [master.key.derive(label) for label in LABELS]
    reader = make.detector(master).reader
    every = Detector(reader, EveryKey([master.like(key) for key in keys]), topic="free")
    few = Detector(reader, RankedKeys(master, keys), topic="free")
    for seed in range(6):
        text = make.text(make.plain(12, seed=seed))
        assert few.judge(text).p_value == every.judge(text).p_value


def test_a_passage_has_a_candidate_of_its_own(make: SimpleNamespace) -> None:
    master = make.watermark(3)
    day = master.like(master.key.derive(LABELS[7]))
    inside = make.plain(50, seed=1) + make.marked(day, 24, seed=2) + make.plain(50, seed=3)
    verdict = ranked(make, master).judge(make.text(inside))
    assert verdict.label == LABELS[7]
    assert verdict.passages
    assert verdict.passages[0].begin == pytest.approx(50, abs=3)
    assert verdict.passages[0].end == pytest.approx(74, abs=3)


def test_unmarked_texts_keep_the_level_however_many_keys_are_searched(
    make: SimpleNamespace,
) -> None:
    """Over masters, at 5 %; four standard errors."""
    texts = [make.text(make.plain(12, seed=seed)) for seed in range(4)]
    found = [
        verdict.watermarked is True
        for number in range(25)
        for verdict in ranked(make, make.watermark(number), level=0.05).judge_many(texts)
    ]
    assert np.mean(found) <= 0.05 + 4 * np.sqrt(0.05 * 0.95 / len(found))


def test_texts_too_short_to_test_do_not_stop_a_search(make: SimpleNamespace) -> None:
    verdicts = list(ranked(make, make.watermark(4)).judge_many(["", "One here.", "One. Two."]))
    assert [verdict.p_value is None for verdict in verdicts] == [True, True, False]


def test_a_passage_is_named_by_its_own_key_wherever_it_stands(make: SimpleNamespace) -> None:
    """Also where the whole text looks better under another of the keys that are tested."""
    marks = [make.watermark(number) for number in range(40, 46)]
    for number in range(4):
        inside = make.marked(marks[number], 24, seed=number)
        text = make.text(make.plain(60, seed=5) + inside + make.plain(60, seed=6))
        verdict = make.detector(*marks).judge(text)
        assert verdict.passages
        assert {passage.key_id for passage in verdict.passages} == {marks[number].key.id}
        assert verdict.key_id == marks[number].key.id


def test_a_key_that_likes_the_topic_does_not_hide_the_one_that_marked() -> None:
    """Sentences at a cosine of about a half, whole sentences compared, the test given the topic."""
    rng = np.random.default_rng(3)
    ranked_first = 0
    for _ in range(6):
        master = HammingMark(hamming_key(Secret(rng.bytes(32)), dimension=96))
        keys = [master.key.derive(str(number)) for number in range(100)]
        mark = master.like(keys[50])
        topic = rng.standard_normal(96) / np.sqrt(96)
        rows: list[np.ndarray] = []
        while len(rows) < 24:
            noise = rng.standard_normal((16, 96)) / np.sqrt(96) + topic
            some = (noise / np.linalg.norm(noise, axis=1, keepdims=True)).astype(np.float32)
            rows.append(some[mark.choose(rows[-1] if rows else None, some).index])
        ranked_first += 50 in master.rank(keys, [np.stack(rows)], statistic="margin")[0]
    assert ranked_first >= 4


def test_a_threshold_is_not_searched_over_keys(make: SimpleNamespace) -> None:
    with raises_naming(InputError, "threshold"):
        make.detector(make.watermark(1), make.watermark(2), threshold=0.5)


def test_labels_are_a_list_and_one_spelling_is_one_label() -> None:
    encoder = FakeEncoder()
    key = new_key(encoder)
    assert detector(key, labels=["a", " a", "a "], encoder=encoder).keys == 1
    with raises_naming(InputError, "labels", "[label]"):
        detector(key, labels="2026", encoder=encoder)


def test_few_keys_are_tested_and_many_are_ranked() -> None:
    encoder, splitter = FakeEncoder(), FakeSplitter()
    keys = [new_key(encoder) for _ in range(MOST_TESTED + 1)]
    parts = {"encoder": encoder, "splitter": splitter}
    assert isinstance(detector(keys[:-1], **parts).search, EveryKey)  # type: ignore[arg-type]
    assert isinstance(detector(keys, **parts).search, RankedKeys)  # type: ignore[arg-type]
    mixed = [*keys, new_key(encoder, preset="robust")]
    group = detector(mixed, **parts)  # type: ignore[arg-type]
    assert isinstance(group, DetectorGroup)
    assert [type(each.search) for each in group.detectors] == [RankedKeys, EveryKey]
    assert group.detectors[0].reader is group.detectors[1].reader
    assert group.keys == len(mixed)
    one = detector(keys[0], labels=["a", "b", "a"], **parts)  # type: ignore[arg-type]
    assert one.keys == 2
    with pytest.raises(InputError):
        detector(keys, labels=["a"], **parts)  # type: ignore[arg-type]
    with raises_naming(InputError, "label"):
        detector(keys[0], labels=[], **parts)  # type: ignore[arg-type]


def test_an_option_of_one_method_is_refused_for_keys_of_several() -> None:
    encoder = FakeEncoder()
    keys = [new_key(encoder, method=method) for method in ("bilinear", "hamming")]
    assert detector(keys, encoder=encoder).keys == 2
    options: list[dict[str, Any]] = [
        {"statistic": "margin"},
        {"topic": "free"},
        {"threshold": 0.5},
        {"options": {"histories": ()}},
        {"backend": FakeBackend()},
    ]
    for option in options:
        with pytest.raises(InputError):
            detector(keys, encoder=encoder, **option)


def test_a_fixed_threshold_is_for_one_key() -> None:
    encoder = FakeEncoder()
    keys = [new_key(encoder, method="hamming", bits=bits) for bits in (8, 10)]
    assert isinstance(detector(keys, encoder=encoder), DetectorGroup)
    with pytest.raises(InputError):
        detector(keys, encoder=encoder, threshold=0.5)


def test_a_worker_builds_its_own_detector(tmp_path: Path) -> None:
    """In a process of its own, from the path of the key and no secret."""
    encoder = FakeEncoder()
    key = new_key(encoder, splitter="sentencex")
    save(key, tmp_path / "key.json")
    spec = DetectorSpec((str(tmp_path / "key.json"),), {"level": 0.05, "references": 500})
    sent = pickle.dumps(spec)
    assert key.secret.reveal() not in sent
    script = (
        "import pickle, sys\n"
        "from hammingmark.assembly import readers\n"
        "from hammingmark.testing import FakeEncoder\n"
        "readers.load_encoder = lambda name: FakeEncoder()\n"
        "made = pickle.loads(sys.stdin.buffer.read()).build()\n"
        "print(made.judge('One here. Two there. Three more.').p_value, made.level)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], input=sent, capture_output=True, check=True
    )
    here = detector(key, encoder=encoder, level=0.05, references=500)
    p_value = here.judge("One here. Two there. Three more.").p_value
    assert done.stdout.decode().split() == [str(p_value), "0.05"]


def test_the_reader_reads_each_sentence_once() -> None:
    encoder = FakeEncoder()
    reader = SentenceReader(FakeSplitter(), encoder)
    (batch,) = reader.batches(["One. Two.", "Two. One. Two."])
    assert [text.pieces for text in batch] == [("One.", "Two."), ("Two.", "One.", "Two.")]
    np.testing.assert_array_equal(batch[1].values[1], batch[0].values[0])
    assert sum(len(each) if isinstance(each, list) else 1 for each in encoder.encoded) == 2


def test_searching_many_keys_does_not_keep_what_they_expand_to(make: SimpleNamespace) -> None:
    master = make.watermark(1)
    search = ranked(make, master)
    list(search.judge_many([make.text(make.plain(12, seed=seed)) for seed in range(3)]))
    assert isinstance(search.search, RankedKeys)
    assert not any(key._expanded for key in search.search.keys)
