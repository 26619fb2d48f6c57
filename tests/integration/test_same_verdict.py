"""The library, the command and the service give the same verdict on the same text and keys.

Encoder, splitter and tokenizer are fakes that an installed package offers by name, so that each
door finds them by itself. All three compute a verdict by the same operations and write it by the
same function, so that numbers are equal to the last digit.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from tests.command import run_here
from tests.schemas import assert_valid
from tests.unit.server.harness import Home, LoopThread, Served

import hammingmark
from hammingmark.assembly.keys import method_of
from hammingmark.generation.config import GenerationConfig
from hammingmark.keys.key import Secret, WatermarkKey
from hammingmark.records import Passage, Verdict
from hammingmark.serialization import verdict_to_dict
from hammingmark.testing import FakeBackend, FakeTokenizer
from hammingmark.testing.fakes import WORDS, paragraph

ENTRY_POINTS = """
[hammingmark.encoders]
fake = hammingmark.testing:FakeEncoder
[hammingmark.splitters]
fake = hammingmark.testing:FakeSplitter
[hammingmark.tokenizers]
fake = hammingmark.testing:FakeTokenizer
"""

KEYS: dict[str, dict[str, Any]] = {
    "default": {"method": "bilinear"},
    "form-2": {"method": "bilinear"},
    "form-3": {"method": "bilinear"},
    "bits-1": {"method": "hamming"},
    "bits-2": {"method": "hamming"},
    "code": {"method": "random-code"},
    "green-1": {"method": "kgw"},
    "green-2": {"method": "kgw"},
    "cosine": {"method": "continuous", "gamma": 0.001, "threshold": -0.99},  # any text reaches it
}
KEYLESS = {"cosine"}
LABELS = tuple(f"customer {number}" for number in range(12))

FOUND, NOT_FOUND, CANNOT_TELL = True, False, None


@dataclass(frozen=True)
class Case:
    """What is judged, and the verdict.

    Attributes:
        text: the name of the text.
        keys: names of keys; none for the whole ring.
        watermarked: the verdict.
        key: the key that it names, where it must.
        labels: search the keys derived by these.
        options: of all doors alike.
    """

    text: str
    keys: tuple[str, ...]
    watermarked: bool | None
    key: str | None = None
    labels: tuple[str, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)


CASES = {
    "one key": Case("form", ("default",), FOUND, "default"),
    "one key of another method": Case("bits", ("bits-1",), FOUND, "bits-1"),
    "one key that marks tokens": Case("green", ("green-1",), FOUND, "green-1"),
    "another key": Case("form", ("form-2",), NOT_FOUND),
    "no mark": Case("plain", ("default",), NOT_FOUND),
    "no mark, tokens": Case("plain", ("green-1",), NOT_FOUND),
    "two sentences": Case("two sentences", ("default",), CANNOT_TELL),
    "one sentence": Case("one sentence", ("default",), CANNOT_TELL),
    "one token": Case("one token", ("green-1",), CANNOT_TELL),
    "nothing": Case("nothing", ("default",), CANNOT_TELL),
    "a passage": Case("form inside", ("default",), NOT_FOUND, "default"),
    "a passage, tokens": Case("green inside", ("green-1",), NOT_FOUND, "green-1"),
    "several keys": Case("form", ("form-2", "default", "form-3"), FOUND, "default"),
    "several keys that mark tokens": Case("green", ("green-2", "green-1"), FOUND, "green-1"),
    "several keys, no mark": Case("plain", ("bits-1", "bits-2"), NOT_FOUND),
    "several keys, one sentence": Case("one sentence", ("bits-1", "bits-2"), CANNOT_TELL),
    "several keys, a passage": Case("form inside", ("form-2", "default"), NOT_FOUND, "default"),
    "labels": Case("derived", ("default",), FOUND, labels=LABELS),
    "a key named twice": Case("form", ("default", "default"), FOUND, "default"),
    "edits": Case("bits", ("bits-1", "bits-2"), FOUND, "bits-1", options={"edits": True}),
    "another level": Case("form", ("default",), FOUND, "default", options={"level": 0.001}),
}

OF_SEVERAL_METHODS = {
    "sentences": Case("form", ("default", "bits-1"), FOUND, "default"),
    "sentences, the other way round": Case("bits", ("default", "bits-1"), FOUND, "bits-1"),
    "sentences and tokens": Case("green", ("default", "bits-1", "green-1"), FOUND, "green-1"),
    "no mark": Case("plain", ("default", "bits-1", "green-1"), NOT_FOUND),
    "two sentences": Case("two sentences", ("default", "bits-1"), CANNOT_TELL),
    "one sentence": Case("one sentence", ("default", "bits-1"), CANNOT_TELL),
    "nothing": Case("nothing", ("default", "bits-1", "green-1"), CANNOT_TELL),
    "a passage": Case("form inside", ("bits-1", "default"), NOT_FOUND, "default"),
    "edits": Case("bits", ("default", "bits-1"), FOUND, "bits-1", options={"edits": True}),
}

WHOLE_RING = Case("bits", (), FOUND, "bits-1")
WHOLE_RING_UNMARKED = Case("plain", (), NOT_FOUND)


@dataclass(frozen=True)
class Doors:
    """A folder with a keyring, and the three ways to judge a text under its keys."""

    folder: Path
    served: Served
    keys: dict[str, WatermarkKey]
    texts: dict[str, str]

    def library(self, case: Case) -> dict[str, Any]:
        text, names = self.texts[case.text], list(case.keys or KEYS)
        if case.labels:
            made = hammingmark.detector(names, labels=case.labels, **case.options)
            return as_json(made.judge(text))
        return as_json(hammingmark.detect(text, key=names, **case.options))

    def command(self, case: Case) -> dict[str, Any]:
        (self.folder / "text.txt").write_text(self.texts[case.text], "utf-8")
        (self.folder / "labels.txt").write_text("\n".join(case.labels), "utf-8")
        words = ["detect", "text.txt", "--json"]
        option = "--master" if case.labels else "--key"
        words += [word for name in case.keys for word in (option, name)]
        words += ["--labels", "labels.txt"] if case.labels else []
        words += [] if case.keys else ["--all-keys"]
        for name, value in case.options.items():
            words += [f"--{name}"] if value is True else [f"--{name}", str(value)]
        done = run_here(*words, folder=self.folder)
        assert done.returncode == 0, done.stderr.decode()
        excluded = [] if case.keys else [self.keys[name].id for name in KEYLESS]
        told = done.stderr.decode().splitlines()
        assert len(told) == len(excluded)
        assert all(map(str.__contains__, told, excluded))
        data: dict[str, Any] = json.loads(done.stdout)
        assert data.pop("source") == "text.txt"
        return data

    def service(self, case: Case, *, pieces: bool = True) -> dict[str, Any]:
        asked: dict[str, Any] = dict(case.options)
        asked |= {"keys": list(case.keys)} if case.keys else {}
        asked |= {"labels": list(case.labels)} if case.labels else {}
        asked |= {} if pieces else {"pieces": False}
        return self.served.detect(self.texts[case.text], **asked)


def as_json(verdict: Verdict) -> dict[str, Any]:
    """A verdict of the library as JSON gives it back; the form tells all of it."""
    data: dict[str, Any] = json.loads(json.dumps(verdict_to_dict(verdict), allow_nan=False))
    evidence = verdict.evidence
    before = len(verdict.pieces) - len(evidence.scores)
    inside = {i for passage in verdict.passages for i in range(passage.begin, passage.end)}
    same = ("watermarked", "reason", "p_value", "level", "statistic", "edits", "null", "references",
            "power", "tail_estimate", "keys", "key_id", "label", "method")  # fmt: skip
    assert {name: data[name] for name in same} == {name: getattr(verdict, name) for name in same}
    assert data["attainable_p_value"] == verdict.attainable
    assert data["decision_threshold"] == verdict.threshold
    assert (data["unit"], data["unit_threshold"]) == (evidence.unit, evidence.threshold)
    assert (data["max_score"], data["repeated"]) == (evidence.max_score, evidence.repeated)
    assert data["statistics"] == dict(evidence.statistics)
    assert data["z"] == evidence.z.get(verdict.statistic)
    assert [passage_of(each) for each in data["passages"]] == list(verdict.passages)
    assert data["piece_count"] == len(verdict.pieces) == len(data["pieces"])
    for number, piece in enumerate(data["pieces"]):
        assert piece["text"] == verdict.pieces[number]
        assert piece["in_passage"] == (number in inside)
        if number < before:
            assert (piece["score"], piece["valid"], piece["counted"]) == (None, None, False)
            assert piece["details"] == {}
            continue
        unit = evidence.scores[number - before]
        assert (piece["score"], piece["valid"], piece["counted"], piece["details"]) == (
            unit.score, unit.valid, unit.counted, dict(unit.details)
        )  # fmt: skip
    return data


def passage_of(data: dict[str, Any]) -> Passage:
    names = ("begin", "end", "p_value", "key_id", "label")
    return Passage(**{name: data[name] for name in names})


@pytest.fixture(scope="module")
def doors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doors]:
    folder = tmp_path_factory.mktemp("doors")
    info = folder / "site" / "fakes-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: fakes\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    home, loop = Home(folder), LoopThread()
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder / "site"))
        patch.setenv("HAMMINGMARK_KEYRING", str(home.keyring.folder))
        keys = {name: key_of(number, **told) for number, (name, told) in enumerate(KEYS.items())}
        for name, key in keys.items():
            home.keyring.add(key, name=name)
        served = Served(home.service(), loop)
        yield Doors(folder, served, keys, texts_under(keys))
        served.close()
    loop.close()


def key_of(number: int, **told: Any) -> WatermarkKey:
    """A key that is the same in every run."""
    made = hammingmark.new_key("fake", splitter="fake", tokenizer="fake", **told)
    return replace(made, secret=Secret(bytes([number + 1]) * 32))


def texts_under(keys: dict[str, WatermarkKey]) -> dict[str, str]:
    form, green = written(keys["default"]), green_text(keys["green-1"])
    short, long = ([" ".join(some) for some in around(count)] for count in (2, 40))
    return {
        "form": form,
        "bits": written(keys["bits-1"]),
        "derived": written(keys["default"].derive(LABELS[7])),
        "green": green,
        "plain": paragraph(Random(1)),
        "form inside": f"{short[0]} {form} {short[1]}",
        "green inside": f"{long[0]} {green} {long[1]}",
        "two sentences": ". ".join(form.split(". ")[:2]) + ".",
        "one sentence": "It was late.",
        "one token": "the",
        "nothing": "",
    }


def around(count: int) -> list[list[str]]:
    """Paragraphs that know no key, as many before as after."""
    some = [paragraph(Random(seed)) for seed in range(2 * count)]
    return [some[:count], some[count:]]


def written(key: WatermarkKey) -> str:
    config = GenerationConfig(max_tokens=160)
    return hammingmark.writer(key, backend=FakeBackend(), config=config).write("Go.", seed=1).text


def green_text(key: WatermarkKey, count: int = 45) -> str:
    """Words of which most are on the green list of the one before."""
    mark, tokenizer, rng = method_of(key), FakeTokenizer(), Random(1)
    text = "the"
    for _ in range(count):
        for word in rng.sample(WORDS, 3):
            tokens = np.array(tokenizer.encode(f"{text} {word}"))
            if mark.read(tokens).evidence.scores[-1].valid:
                break
        text += f" {word}"
    return text


def assert_as_expected(found: dict[str, Any], case: Case, doors: Doors) -> None:
    """The verdict is the one that the case is about, so that no comparison is idle."""
    assert found["watermarked"] is case.watermarked, found["reason"]
    if case.key:
        assert found["key_id"] == doors.keys[case.key].id
    assert bool(found["passages"]) is (case.watermarked is FOUND or "inside" in case.text)


EVERY = {
    **CASES,
    **{f"several methods, {name}": case for name, case in OF_SEVERAL_METHODS.items()},
    "the whole ring": WHOLE_RING,
    "the whole ring, no mark": WHOLE_RING_UNMARKED,
}


@pytest.mark.parametrize("case", EVERY.values(), ids=EVERY)
def test_the_three_doors_give_the_same_verdict(doors: Doors, case: Case) -> None:
    library, command, service = doors.library(case), doors.command(case), doors.service(case)
    assert_as_expected(library, case, doors)
    assert library == command == service
    assert_valid(library, "verdict-1")
    count = len(case.labels) or len(set(case.keys)) or len(KEYS.keys() - KEYLESS)
    assert library["keys"] == count
    excluded = set() if case.keys else {doors.keys[name].id for name in KEYLESS}
    assert {key["key_id"] for key in library["excluded_keys"]} == excluded
    offsets = [passage["begin_character"] for passage in library["passages"]]
    assert (None not in offsets) if library["piece"] == "token" else set(offsets) <= {None}


def test_the_service_can_leave_out_the_pieces(doors: Doors) -> None:
    for case in CASES.values():
        whole = doors.service(case)
        assert doors.service(case, pieces=False) == {**whole, "pieces": []}


def test_the_verdict_names_the_method_of_the_key(doors: Doors) -> None:
    for case in CASES.values():
        told = doors.service(case)
        found = [key for key in doors.keys.values() if key.id == told["key_id"]]
        if found:
            assert told["method"] == found[0].config.method
