"""Numbers of every registered method as they were, so that a change of code that changes one shows.

What is frozen: ids and streams of a key and of those derived from it, key files, and of every
example of every method which sentence or token it prefers, what it says of fixed texts, every
statistic with its p-value, and the verdicts of a detector. ``golden.json`` holds them. Where they
are meant to change, write them anew, and read what has changed::

    PYTHONPATH=src:. python -c "from tests.contract.test_golden import rewrite; rewrite()"

Texts, embeddings, tokens and logits are made of hashes, so that they are the same everywhere.
Three tolerances allow for other processors:

- Words, whole numbers and truth values are the same.
- Other numbers agree to 1e-6 of their size, p-values always and others down to the size of one:
  products in single precision round by 1e-7, and scores add up a few of them. An estimate that
  extrapolates a tail agrees to 1e-4.
- A p-value that counts reference keys may differ by one of them, and the number of those that were
  drawn before the test stopped by a twentieth. The keys come from the secret and are the same,
  but their scores are products of a linear algebra library: one of thousands may lie nearer to
  the text's own score than rounding.
"""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from hammingmark import registry
from hammingmark.assembly.detection import detector
from hammingmark.assembly.keys import method_of
from hammingmark.detection.detector import Detector
from hammingmark.detection.reader import ReadText
from hammingmark.keys import keyring
from hammingmark.keys.config import ContextConfig, EncoderId, SentenceConfig, TokenizerId
from hammingmark.keys.key import Secret, WatermarkKey
from hammingmark.protocols import (
    ScoredText,
    SentenceWatermark,
    TokenWatermark,
    Watermark,
)
from hammingmark.records import Evidence, Request, Verdict
from hammingmark.stats.compare import compare
from hammingmark.testing import FakeBackend, FakeEncoder, FakeSplitter, FakeTokenizer
from hammingmark.testing.fakes import ADJECTIVES, NOUNS, PREPOSITIONS, VERBS
from hammingmark.testing.method_examples import every_test, processed, token_mark

FILE = Path(__file__).with_name("golden.json")
CLOSE = 1e-6
SENTENCES, CANDIDATES = 14, 24
TOKENS = 70
DRAWS = 999
LABELS = ("2026-01-02", "customer 17", "Zürich", "Zu\N{COMBINING DIAERESIS}rich", "東京", "🌍")
STREAMS = (
    "beginning", "bilinear", "channels", "codes", "green lists", "id", "masks", "null", "planes",
    "reference", "reference codes", "reference masks", "reference signs", "signs", "sir",
    "tournament",
)  # fmt: skip
SECRET = Secret(bytes(range(32)))
ENCODER, SPLITTER, TOKENIZER = FakeEncoder(), FakeSplitter(), FakeTokenizer()


def uniform(*which: object) -> float:
    """A number inside (0, 1) that is decided by its name."""
    digest = sha256(" ".join(map(str, which)).encode()).digest()
    return (int.from_bytes(digest[:4], "little") + 0.5) / 2**32


def sentence(*which: object) -> str:
    """A sentence that is decided by its name."""

    def pick(place: int, words: Sequence[str]) -> str:
        return words[int(uniform(place, *which) * len(words))]

    return (
        f"The {pick(0, ADJECTIVES)} {pick(1, NOUNS)} {pick(2, VERBS)} the {pick(3, ADJECTIVES)} "
        f"{pick(4, NOUNS)} {pick(5, PREPOSITIONS)} the {pick(6, NOUNS)}."
    )


def examples() -> Iterator[tuple[str, str, Any, Any]]:
    """Every method and example: their names, the class, the configuration."""
    parts = (
        EncoderId.of(ENCODER),
        TokenizerId(TOKENIZER.name, TOKENIZER.fingerprint, TOKENIZER.size),
    )
    for name in sorted(registry.TABLES["methods"]):
        method = registry.find("methods", name)
        wanted: tuple[Any, ...] = parts[1:]
        if issubclass(method.Config, SentenceConfig):
            wanted = parts[:1]
        elif issubclass(method.Config, ContextConfig):
            wanted = parts[::-1]
        for example, config in method.examples(*wanted).items():
            yield name, example, method, config


def unmarked(watermark: Watermark, *, many: int = 1) -> str:
    """A text that knows no key."""
    if watermark.capabilities.sentences:
        return " ".join(sentence("plain", i) for i in range(many * SENTENCES))
    tokens = [_drawn(_logits(i), "plain", i) for i in range(many * TOKENS)]
    return "".join(TOKENIZER.pieces(tokens))


def marked(watermark: Watermark) -> str:
    """A text that the watermark marked wherever it could."""
    if mark := watermark.capabilities.sentences:
        return " ".join(_accepted(mark))
    watermark = token_mark(watermark)
    tokens: list[int] = []
    while len(tokens) < TOKENS:
        context = ([-1] * watermark.width + tokens)[len(tokens) :]
        told = _condition(watermark, "".join(TOKENIZER.pieces(tokens)))
        logits = processed(watermark, _logits(len(tokens)), np.array([context]), told)
        tokens.append(_drawn(logits, "marked", len(tokens)))
    return "".join(TOKENIZER.pieces(tokens))


def _accepted(watermark: SentenceWatermark) -> list[str]:
    written = [sentence("first")]
    while len(written) < SENTENCES:
        place = len(written)
        many = max(CANDIDATES, watermark.pool)
        candidates = [sentence("candidate", place, i) for i in range(many)]
        previous, *rest = ENCODER.encode([written[-1], *candidates])
        asks = watermark.capabilities.rule_at(place)
        written.append(candidates[asks.choose(previous, np.array(rest)).index])
    return written


def _logits(step: int) -> NDArray[np.float32]:
    """Those of words after a space; nothing else can be drawn: (1, V)."""
    logits = np.full((1, TOKENIZER.size), -np.inf, np.float32)
    words = range(257, TOKENIZER.size, 2)
    logits[0, words] = [4.0 * uniform("logit", step, word) for word in words]
    return logits


def _drawn(logits: NDArray[np.float32], *which: object) -> int:
    """The token that Gumbel's trick draws."""
    noise = [-math.log(-math.log(uniform("noise", *which, i))) for i in range(TOKENIZER.size)]
    return int(np.argmax(logits[0] + np.array(noise)))


def _condition(watermark: TokenWatermark, text: str) -> NDArray[np.float32] | None:
    rule = watermark.capabilities.context
    if rule is None or not (context := rule.context(text)):
        return None
    return rule.condition(ENCODER.encode([context]))


def preferred(watermark: Watermark) -> dict[str, Any]:
    """What it says of candidates for a sentence, or makes of the logits of a token."""
    if mark := watermark.capabilities.sentences:
        many = max(8, mark.pool)
        rows = ENCODER.encode([sentence("offered", i) for i in range(many + 1)])
        choice = mark.capabilities.rule_at(3).choose(rows[0], rows[1:])
        return {
            "index": choice.index,
            "accepted": choice.accepted,
            "scores": numbers(choice.scores[:8]),
        }
    watermark = token_mark(watermark)
    context = [257 + 2 * i for i in range(watermark.width)]
    told = _condition(watermark, " ".join(sentence("before", i) for i in range(9)))
    found = processed(watermark, _logits(0), np.array([context]), told)
    return {"logits": numbers(found[0, 257 : 257 + 24 : 2])}


def judge_of(keys: Sequence[WatermarkKey], **named: Any) -> Detector:
    """A detector with fakes."""
    draws = method_of(keys[0]).capabilities.samples is not None
    backend = FakeBackend(sentences=_continued) if draws else None
    return detector(
        keys, encoder=ENCODER, tokenizer=TOKENIZER, splitter=SPLITTER, backend=backend, **named
    )


def _continued(request: Request) -> str:
    return f" {sentence('drawn', request.seed)} {sentence('next')}"


def scored(watermark: Watermark, text: ReadText) -> ScoredText:
    if scorer := watermark.capabilities.samples:
        assert text.samples is not None
        return scorer.read_sampled(text.values, text.samples)
    return watermark.read(text.values)


def numbers(values: Sequence[float] | NDArray[Any]) -> list[float | None]:
    """Numbers fit for JSON; what cannot be drawn has none."""
    found = [float(f"{float(value):.10g}") for value in values]
    return [value if math.isfinite(value) else None for value in found]


def evidence_of(evidence: Evidence) -> dict[str, Any]:
    names = sorted({name for each in evidence.scores for name in each.details})
    return {
        "unit": evidence.unit,
        "scale": evidence.max_score,
        "threshold": evidence.threshold,
        "rests_on": evidence.context_units,
        "scores": numbers([each.score for each in evidence.scores]),
        "valid": "".join(str(int(each.valid)) for each in evidence.scores),
        "counted": "".join(str(int(each.counted)) for each in evidence.scores),
        "details": {
            name: [each.details.get(name) for each in evidence.scores[:4]] for name in names
        },
        "means": dict(evidence.means),
        "sums": dict(evidence.sums),
        "z": dict(evidence.z),
    }


def outcomes_of(watermark: Watermark, text: ScoredText) -> dict[str, Any]:
    """Of each statistic: the value, what it is compared with, and the p-values."""
    found = {}
    for name, test in every_test(watermark, text):
        outcome = compare(test, limit=DRAWS)
        first = np.concatenate(list(next(iter(test.null.blocks()))))
        found[name] = {
            "value": float(test.increments.sum()),
            "best": float(test.best.sum()),
            "centre": float(test.centre.sum()),
            "is_ratio": test.is_ratio,
            "null": test.null.description,
            "first_draws": numbers(first.sum(axis=0)[:6]),
            "references": outcome.references,
            "p_value": outcome.p_value,
            "attainable": outcome.attainable,
            "power": outcome.power(0.01).mean,
            "tail_estimate": outcome.tail_estimate,
            "passages": [[each.begin, each.end, each.p_value] for each in outcome.windows[:3]],
        }
    return found


def verdict_of(verdict: Verdict) -> dict[str, Any]:
    return {
        "watermarked": verdict.watermarked,
        "references": verdict.references,
        "p_value": verdict.p_value,
        "level": verdict.level,
        "statistic": verdict.statistic,
        "pieces": len(verdict.pieces),
        "units": len(verdict.evidence.scores),
        "valid": verdict.evidence.valid,
        "repeated": verdict.evidence.repeated,
        "key_id": verdict.key_id,
        "label": verdict.label,
        "keys": verdict.keys,
        "null": verdict.null,
        "attainable": verdict.attainable,
        "power": verdict.power,
        "power_as_written": verdict.power_as_written,
        "power_reworded": verdict.power_reworded,
        "weak": verdict.likelihood_ratio is not None,
        "tail_estimate": verdict.tail_estimate,
        "threshold": verdict.threshold,
        "edits": verdict.edits,
        "passages": [
            [each.begin, each.end, each.p_value, each.key_id, each.label]
            for each in verdict.passages
        ],
    }


def file_of(key: WatermarkKey) -> dict[str, Any]:
    """What the file of a key holds, but for times."""
    with tempfile.TemporaryDirectory() as folder:
        keyring.save(key, Path(folder) / "key.json")
        held: dict[str, Any] = json.loads((Path(folder) / "key.json").read_text("utf-8"))
    return {name: value for name, value in held.items() if name not in ("created", "retired")}


def compute_keys() -> dict[str, Any]:
    """What a secret decides, whatever its method."""
    name, _, _, config = next(examples())
    made = datetime(2026, 1, 2, tzinfo=timezone.utc)
    key = WatermarkKey(SECRET, config, "of tests", created=made)
    master = replace(key, note="", retired=made, successor="hm-0123456789ab")
    derived = [key.derive(label) for label in LABELS]
    return {
        "method": name,
        "id": key.id,
        "file": file_of(key),
        "retired_file": file_of(master),
        "derived_file": file_of(derived[0]),
        "derived": [
            {"label": each.label, "id": each.id, "secret": each.secret.reveal().hex()}
            for each in (*derived, derived[0].derive("again"))
        ],
        "streams": {
            label: {
                "bytes": SECRET.stream(label, 16).hex(),
                "indexed": SECRET.stream(label, 16, index=(3 << 32) | 5).hex(),
                "uniforms": numbers(SECRET.uniforms(label, 3)),
                "normals": numbers(SECRET.normals(label, 3)),
            }
            for label in STREAMS
        },
    }


def compute_method(method: Any, config: Any) -> dict[str, Any]:
    """What a method says in one configuration."""
    key = WatermarkKey(SECRET, config)
    watermark: Watermark = method(key)
    own, plain = marked(watermark), unmarked(watermark)
    after = unmarked(watermark, many=2)[len(plain) :]
    texts = {
        "marked": own,
        "unmarked": plain,
        "inside": f"{plain} {own.lstrip()} {after.lstrip()}",
        "short": " ".join(own.split()[:11]),
    }
    judge = judge_of([key])
    derived = key.derive(LABELS[1])
    searched = [key.derive(f"label {number}") for number in range(9)] + [key]
    verdicts = {name: verdict_of(judge.judge(text)) for name, text in texts.items()}
    verdicts["derived"] = verdict_of(judge_of([derived]).judge(own))
    verdicts["ten keys"] = verdict_of(judge_of(searched).judge(own))
    if watermark.capabilities.read_edited:
        verdicts["edits"] = verdict_of(judge_of([key], edits=True).judge(own))
    read = {name: scored(watermark, _read(judge, texts[name])) for name in ("marked", "unmarked")}
    return {
        "key": file_of(key),
        "summary": config.summary,
        "statistics": list(watermark.statistics),
        "preferred": preferred(watermark),
        "marked_text": own,
        "read": {
            name: {"evidence": evidence_of(each.evidence), "tests": outcomes_of(watermark, each)}
            for name, each in read.items()
        },
        "verdicts": verdicts,
    }


def _read(judge: Detector, text: str) -> ReadText:
    ((read,),) = judge.reader.batches([text])
    return read


def compute() -> dict[str, Any]:
    """All numbers as they are now."""
    found: dict[str, Any] = {"keys": compute_keys(), "methods": {}}
    for name, example, method, config in examples():
        found["methods"].setdefault(name, {})[example] = compute_method(method, config)
    return found


def rewrite() -> None:
    """Freeze all numbers as they are now."""
    FILE.write_text(_lines(_plain(compute())) + "\n", "utf-8")


def _plain(data: Any) -> Any:
    """As it comes out of a file."""
    return json.loads(json.dumps(data, allow_nan=False))


def _lines(data: Any, indent: str = "") -> str:
    """JSON with a line for each value, and lists on one."""
    if not isinstance(data, dict) or not data:
        return json.dumps(data, ensure_ascii=False)
    rows = [
        f"{indent} {json.dumps(name, ensure_ascii=False)}: {_lines(value, indent + ' ')}"
        for name, value in data.items()
    ]
    return "{\n" + ",\n".join(rows) + f"\n{indent}}}"


@cache
def golden() -> dict[str, Any]:
    data: dict[str, Any] = json.loads(FILE.read_text("utf-8"))
    return data


def differences(now: Any, then: Any, *, at: str = "", one: float = 0.0) -> Iterator[str]:
    """Where something is not as it was.

    Args:
        now: what there is.
        then: what there was.
        at: where this is.
        one: how much a p-value changes by one reference key; 0 where it counts none.
    """
    if isinstance(now, dict) and isinstance(then, dict):
        if now.keys() != then.keys():
            yield f"{at}: {sorted(now.keys() ^ then.keys())} are in one alone"
        if "reference keys" in then.get("null", ""):
            one = 1.01 * then.get("keys", 1) / then["references"]
        for name in now.keys() & then.keys():
            yield from differences(now[name], then[name], at=f"{at}/{name}", one=one)
    elif isinstance(now, list) and isinstance(then, list):
        if len(now) != len(then):
            yield f"{at}: {len(now)} values, were {len(then)}"
        for place, pair in enumerate(zip(now, then, strict=False)):
            yield from differences(*pair, at=f"{at}/{place}", one=one)
    elif isinstance(now, (int, float)) and (isinstance(then, float) or at.endswith("/references")):
        if not abs(now - then) <= _allowed(then, at=at, one=one):
            yield f"{at}: {now!r}, was {then!r}"
    elif now != then or type(now) is not type(then):
        yield f"{at}: {now!r}, was {then!r}"


def _allowed(then: float, *, at: str, one: float) -> float:
    """How far a number may be from what it was."""
    if at.endswith("/references"):
        return 0.05 * then
    if at.endswith("/tail_estimate"):
        return 100 * CLOSE * abs(then)  # it is extrapolated
    if at.endswith(("/p_value", "/attainable")) or "/passages/" in at:
        return max(CLOSE * abs(then), one)  # it may be very small
    return CLOSE * max(1.0, abs(then))


CASES = [
    pytest.param(name, example, method, config, id=f"{name}-{example}")
    for name, example, method, config in examples()
]


def test_ids_files_and_streams_of_a_key_are_as_they_were() -> None:
    assert not list(differences(_plain(compute_keys()), golden()["keys"]))


@pytest.mark.parametrize(("name", "example", "method", "config"), CASES)
def test_a_method_says_what_it_said(name: str, example: str, method: Any, config: Any) -> None:
    now = _plain(compute_method(method, config))
    assert not list(differences(now, golden()["methods"][name][example]))


def test_nothing_that_was_frozen_is_gone() -> None:
    there = {name: sorted(some) for name, some in golden()["methods"].items()}
    now: dict[str, list[str]] = {}
    for name, example, *_ in examples():
        now[name] = sorted([*now.get(name, []), example])
    assert now == there
