"""Attackers who know the method: on a small encoder of words, against a real detector."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from tests.errors import raises_naming
from tests.keys import hamming_key

from hammingmark.attacks.adaptive import BoundarySeeking, DistanceSeeking, OracleGuided, score_of
from hammingmark.attacks.words import DeleteWords
from hammingmark.detection.detector import Detector
from hammingmark.detection.reader import SentenceReader
from hammingmark.detection.search import EveryKey
from hammingmark.errors import InputError
from hammingmark.keys.key import Secret
from hammingmark.protocols import Attack, Encoder, FloatArray, Splitter
from hammingmark.testing import FakeEncoder
from hammingmark.watermarks.hamming import HammingMark

VOCABULARY = """
    river mill stone lamp house winter bread copper window garden letter market sailor engine
    violin orchard bridge cloud paper silver mountain teacher harbour kettle forest ladder
"""


ENCODER = FakeEncoder(dimension=32)


def sentence(rng: np.random.Generator) -> str:
    return " ".join(rng.choice(VOCABULARY.split(), 9, replace=False)).capitalize() + "."


@pytest.fixture
def mark() -> HammingMark:
    key = hamming_key(
        secret=Secret(hashlib.sha256(b"adaptive").digest()),
        encoder=ENCODER.name,
        fingerprint=ENCODER.fingerprint,
        dimension=ENCODER.dimension,
    )
    return HammingMark(key)


@pytest.fixture
def text(mark: HammingMark) -> str:
    """Fourteen sentences of which each was accepted after the one before."""
    rng, encoder = np.random.default_rng(5), ENCODER
    chosen = [sentence(rng)]
    while len(chosen) < 14:
        candidates = [sentence(rng) for _ in range(100)]
        rows = encoder.encode([chosen[-1], *candidates])
        choice = mark.choose(rows[0], rows[1:])
        assert choice.accepted
        chosen.append(candidates[choice.index])
    return " ".join(chosen)


@pytest.fixture
def detector(mark: HammingMark, splitter: Splitter) -> Detector:
    return Detector(SentenceReader(splitter, ENCODER), EveryKey((mark,)), references=999)


def dice(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def likeness(one: Sequence[str], other: Sequence[str], encoder: Encoder) -> list[float]:
    pairs = encoder.encode(one), encoder.encode(other)
    return [float(a @ b) for a, b in zip(*pairs, strict=True)]


def drift(text: str, splitter: Splitter) -> float:
    """The mean cosine of neighbours."""
    rows = ENCODER.encode(splitter.split(text).carrying)
    return float((rows[1:] * rows[:-1]).sum(axis=1).mean())


INNER = DeleteWords(share=0.25)


@pytest.mark.parametrize("kind", [DistanceSeeking, BoundarySeeking])
def test_every_sentence_stays_within_the_bound(
    kind: type[DistanceSeeking | BoundarySeeking], text: str, splitter: Splitter
) -> None:
    attack = kind(inner=INNER, splitter=splitter, encoder=ENCODER, min_similarity=0.8, rounds=3)
    assert isinstance(attack, Attack)
    (after,) = attack.apply([text], rng=dice())
    old, new = splitter.split(text).carrying, splitter.split(after).carrying
    assert len(old) == len(new)
    found = likeness(old, new, ENCODER)
    assert min(found) >= 0.8 - 1e-6
    assert np.mean(found) < 0.95  # it did use its licence
    (free,) = replace(attack, min_similarity=-1.0).apply([text], rng=dice())
    assert min(likeness(old, splitter.split(free).carrying, ENCODER)) < 0.8


def test_a_separate_judge_decides_similarity(text: str, splitter: Splitter) -> None:
    class Strict(FakeEncoder):
        """Finds everything that is not the same altogether different."""

        def encode(self, sentences: Sequence[str]) -> FloatArray:
            self.encoded.extend(each for each in sentences if each not in self.encoded)
            return np.eye(2000, dtype=np.float32)[[self.encoded.index(each) for each in sentences]]

    judge = Strict()
    attack = BoundarySeeking(
        inner=INNER, splitter=splitter, encoder=ENCODER, judge=judge, min_similarity=0.9
    )
    assert attack.apply([text], rng=dice()) == [text]
    assert len(judge.encoded) > 50  # there was something to refuse


def test_distance_seeking_lowers_the_cosine_of_neighbours(text: str, splitter: Splitter) -> None:
    attack = DistanceSeeking(inner=INNER, splitter=splitter, encoder=ENCODER, versions=16)
    (sought,) = attack.apply([text], rng=dice())
    blind = np.mean([drift(INNER.apply([text], rng=dice(s))[0], splitter) for s in range(10)])
    assert drift(sought, splitter) < drift(text, splitter) - 0.05
    assert drift(sought, splitter) < blind - 0.05


def test_distance_seeking_considers_both_neighbours(splitter: Splitter) -> None:
    @dataclass
    class Either:
        """Offers to replace the second sentence by one like the first, or like the third."""

        name: str = "either"
        min_similarity: float = -1.0

        def apply(self, texts: Sequence[str], *, rng: np.random.Generator) -> list[str]:
            turns = iter(["River mill stone.", "Copper bread lamp.", "Violin cloud ladder."] * 9)
            return [next(turns) if each == "Garden paper silver." else each for each in texts]

    attack = DistanceSeeking(
        inner=Either(), splitter=splitter, encoder=ENCODER, versions=3, min_similarity=-1.0
    )

    def second(before: str, after: str) -> str:
        (found,) = attack.apply([f"{before} Garden paper silver. {after}"], rng=dice())
        return splitter.split(found).carrying[1]

    options = ["Garden paper silver.", "River mill stone.", "Copper bread lamp."]
    options += ["Violin cloud ladder."]
    for sides in [(a, b) for a in options[1:] for b in options[1:] if a != b]:
        rows = ENCODER.encode([*options, *sides])
        likeness = (rows[:4] @ rows[4:].T).sum(axis=1)
        assert second(*sides) == options[int(np.argmin(likeness))]
        assert second(*sides) not in sides


def test_boundary_seeking_moves_farther_with_more_versions(text: str, splitter: Splitter) -> None:
    old = splitter.split(text).carrying
    moved = []
    for versions in (1, 4, 16):
        attack = BoundarySeeking(
            inner=INNER, splitter=splitter, encoder=ENCODER, versions=versions, min_similarity=0.5
        )
        (after,) = attack.apply([text], rng=dice())
        moved.append(np.mean(likeness(old, splitter.split(after).carrying, ENCODER)))
    assert moved[0] > moved[1] + 0.02 > moved[2] + 0.03


def test_the_oracle_lowers_the_score_and_is_counted(
    text: str, splitter: Splitter, detector: Detector
) -> None:
    calls: list[str] = []

    def oracle(asked: str) -> float:
        calls.append(asked)
        return score_of(detector.judge(asked))

    attack = OracleGuided(
        inner=INNER,
        splitter=splitter,
        encoder=ENCODER,
        oracle=oracle,
        queries=60,
        min_similarity=0.75,
    )
    (after,) = attack.apply([text], rng=dice())
    assert len(calls) == attack.ledger.queries == 60
    (path,) = attack.ledger.paths
    asked, scores = zip(*path, strict=True)
    assert scores[0] == score_of(detector.judge(text)) >= 2.0  # p is at most 0.01
    assert scores[-1] == score_of(detector.judge(after)) < scores[0] - 1.0
    assert list(scores) == sorted(set(scores), reverse=True)  # every change helped
    assert asked[0] == 1
    assert list(asked) == sorted(set(asked))
    assert [score_of(detector.judge(calls[n - 1])) for n in asked] == list(scores)
    old, new = splitter.split(text).carrying, splitter.split(after).carrying
    assert min(likeness(old, new, ENCODER)) >= 0.75 - 1e-6


def test_the_attack_stops_at_the_target_score(
    text: str, splitter: Splitter, detector: Detector
) -> None:
    attack = OracleGuided(
        inner=INNER,
        splitter=splitter,
        encoder=ENCODER,
        oracle=detector.judge,
        queries=400,
        enough=1.9,
        min_similarity=0.5,
    )
    (after,) = attack.apply([text], rng=dice())
    assert attack.ledger.queries < 400
    assert attack.ledger.paths[0][-1][1] <= 1.9
    assert not detector.judge(after).watermarked


def test_a_yes_or_no_needs_ties(text: str, splitter: Splitter) -> None:
    original = splitter.split(text).carrying

    def still_marked(asked: str) -> float:
        """Says no once three sentences have gone, and nothing in between."""
        left = set(splitter.split(asked).carrying) & set(original)
        return float(len(left) > len(original) - 3)

    made = OracleGuided(
        inner=INNER,
        splitter=splitter,
        encoder=ENCODER,
        oracle=still_marked,
        versions=1,
        queries=80,
        enough=0.0,
        min_similarity=-1.0,
    )
    patient = replace(made, ties=True)
    assert made.apply([text], rng=dice()) == [text]
    (loose,) = patient.apply([text], rng=dice())
    assert still_marked(text) == 1.0
    assert still_marked(loose) == 0.0
    assert made.ledger.queries == 80
    assert patient.ledger.queries == 4  # one look, and three changes of three sentences


@dataclass
class Counting:
    """An attack that deletes words and records the sizes of its batches."""

    name: str = "counting"
    min_similarity: float = -1.0
    batches: list[int] = field(default_factory=list)

    def apply(self, texts: Sequence[str], *, rng: np.random.Generator) -> list[str]:
        self.batches.append(len(texts))
        return INNER.apply(texts, rng=rng)


def test_texts_are_attacked_in_one_batch(text: str, splitter: Splitter) -> None:
    short = " ".join(splitter.split(text).carrying[:3])
    texts = [text, "", short]
    inner = Counting()
    seeking = BoundarySeeking(inner=inner, splitter=splitter, encoder=ENCODER, versions=4)
    after = seeking.apply(texts, rng=dice())
    assert inner.batches == [4 * (14 + 3)]
    assert [len(splitter.split(each).carrying) for each in after] == [14, 0, 3]

    inner.batches.clear()
    guided = OracleGuided(
        inner=inner,
        splitter=splitter,
        encoder=ENCODER,
        oracle=lambda asked: -float(len(asked)),  # likes less what is longer, and gets no such
        versions=2,
        queries=9,
        min_similarity=-1.0,
    )
    assert guided.apply(texts, rng=dice()) == texts
    assert inner.batches[:3] == [4, 4, 4]  # two versions of a sentence of either text
    assert guided.ledger.queries == 9 + 1 + 9
    assert guided.ledger.paths == [[(1, -float(len(t)))] for t in texts]


@dataclass
class Listed:
    """An attack that returns the versions of each sentence in turn."""

    versions: dict[str, list[str]]
    name: str = "listed"
    min_similarity: float = -1.0

    def apply(self, texts: Sequence[str], *, rng: np.random.Generator) -> list[str]:
        seen: dict[str, int] = {}
        found = []
        for text in texts:
            offered = self.versions.get(text, [text])
            found.append(offered[seen.get(text, 0) % len(offered)])
            seen[text] = seen.get(text, 0) + 1
        return found


def test_the_farthest_version_is_queried_first_and_none_twice(splitter: Splitter) -> None:
    near, far = "River mill stone lamp garden.", "River copper bread violin cloud."
    versions = {"River mill stone lamp house.": [near, far, near, near]}
    asked: list[str] = []

    def oracle(text: str) -> float:
        asked.append(text)
        return 1.0

    attack = OracleGuided(
        inner=Listed(versions),
        splitter=splitter,
        encoder=ENCODER,
        oracle=oracle,
        versions=4,
        queries=50,
        min_similarity=-1.0,
    )
    text = "River mill stone lamp house. Winter bread copper window garden."
    assert attack.apply([text], rng=dice()) == [text]
    behind = " Winter bread copper window garden."
    assert asked == [text, far + behind, near + behind]
    assert attack.ledger.queries == 3


def test_without_a_slope_only_farther_versions_are_queried(splitter: Splitter) -> None:
    near, far = "River mill stone lamp garden.", "River copper bread violin cloud."
    versions = {each: [near, far] for each in ("River mill stone lamp house.", near, far)}
    asked: list[str] = []

    def always_yes(text: str) -> float:
        asked.append(text)
        return 1.0

    attack = OracleGuided(
        inner=Listed(versions),
        splitter=splitter,
        encoder=ENCODER,
        oracle=always_yes,
        versions=2,
        queries=50,
        ties=True,
        min_similarity=-1.0,
    )
    assert attack.apply(["River mill stone lamp house."], rng=dice()) == [far]
    assert asked == ["River mill stone lamp house.", far]


def test_a_version_that_no_longer_fits_is_not_queried(splitter: Splitter) -> None:
    far, dots, small = "Violin cloud ladder.", "Winter bread copper...", "garden window letter."
    versions = {"Winter bread copper.": [far, dots], "River mill stone.": [small, small]}
    asked: list[str] = []

    def oracle(text: str) -> float:
        asked.append(text)
        return 1.0 if small in text else 2.0 + (far in text)

    attack = OracleGuided(
        inner=Listed(versions),
        splitter=splitter,
        encoder=ENCODER,
        oracle=oracle,
        versions=2,
        queries=50,
        min_similarity=-1.0,
    )
    text = "Winter bread copper. River mill stone."
    assert attack.apply([text], rng=dice()) == [f"Winter bread copper. {small}"]
    # The dots fitted before a capital letter; before a small one they end no sentence.
    assert splitter.split(f"{dots} River mill stone.").carrying == [dots, "River mill stone."]
    assert len(splitter.split(f"{dots} {small}").carrying) == 1
    assert not any(dots in each for each in asked)


@pytest.mark.parametrize(
    "version",
    ["River mill stone lamp", "River mill etc.", "River mill. Stone lamp.", "# River"],
)
def test_a_version_that_merges_with_its_neighbours_is_refused(
    version: str, splitter: Splitter
) -> None:
    page = "Winter bread copper. River mill stone lamp house. Garden window letter."
    attack = BoundarySeeking(
        inner=Listed({"River mill stone lamp house.": [version]}),
        splitter=splitter,
        encoder=ENCODER,
        min_similarity=-1.0,
    )
    assert attack.apply([page], rng=dice()) == [page]
    accepted = "River mill stone and lamps."
    (changed,) = replace(attack, inner=Listed({"River mill stone lamp house.": [accepted]})).apply(
        [page], rng=dice()
    )
    assert changed == page.replace("River mill stone lamp house.", accepted)


def test_a_single_query_allows_no_change(text: str, splitter: Splitter) -> None:
    attack = OracleGuided(
        inner=INNER, splitter=splitter, encoder=ENCODER, oracle=lambda asked: 1.0, queries=1
    )
    assert attack.apply([text, text], rng=dice()) == [text, text]
    assert attack.ledger.queries == 2


def test_queries_end_without_new_versions(text: str, splitter: Splitter) -> None:
    attack = OracleGuided(
        inner=DeleteWords(share=0.0),
        splitter=splitter,
        encoder=ENCODER,
        oracle=lambda asked: 1.0,
        queries=1000,
    )
    assert attack.apply([text], rng=dice()) == [text]
    assert attack.ledger.queries == 1


@pytest.mark.parametrize("kind", [DistanceSeeking, BoundarySeeking])
def test_structure_is_kept_and_the_seed_determines_the_outcome(
    kind: type[DistanceSeeking | BoundarySeeking], splitter: Splitter
) -> None:
    page = (
        "# A heading\n\nThe river rose in the winter night. The old mill lost its stone.\n\n"
        "```\ncode stays\n```\n\nThe sailor wrote a letter home."
    )
    attack = kind(inner=INNER, splitter=splitter, encoder=ENCODER, min_similarity=0.3)
    once = attack.apply([page, "", "```\ncode\n```"], rng=dice(3))
    assert once == attack.apply([page, "", "```\ncode\n```"], rng=dice(3))
    assert "# A heading\n\n" in once[0]
    assert "```\ncode stays\n```" in once[0]
    assert once[0] != page
    assert once[1:] == ["", "```\ncode\n```"]
    assert attack.apply([page, "Something else."], rng=dice(3))[0] == once[0]


def test_invalid_settings_are_refused(splitter: Splitter) -> None:
    encoder = ENCODER
    with raises_naming(InputError, "version", 0):
        DistanceSeeking(inner=INNER, splitter=splitter, encoder=encoder, versions=0)
    with raises_naming(InputError, "round", 0):
        BoundarySeeking(inner=INNER, splitter=splitter, encoder=encoder, rounds=0)
    with raises_naming(InputError, "min_similarity", 1.5):
        BoundarySeeking(inner=INNER, splitter=splitter, encoder=encoder, min_similarity=1.5)
    with raises_naming(InputError, "queries", 0):
        OracleGuided(
            inner=INNER, splitter=splitter, encoder=encoder, oracle=lambda t: 0.0, queries=0
        )
