"""A forger who asks the service's detector: how many texts until a forgery passes.

    python -m research.studies.detector_forger --data FOLDER --keys 5

The forger has no key, no marked text and no encoder, only human sentences and the detector's
answers. Answers, levels, rates and the memory of near-copies are the service's own. Each line of
output is a forger under one policy of detection:

- ``reader``: asks about walks through all pairs of some sentences, 64 texts in one request, reads
  the score of each pair, and joins those with the highest scores;
- ``climber``: changes one sentence of a text at a time, and keeps the change if the p-value that
  is told is not higher; after a refused near-copy begins with another text;
- ``collector``: asks about text after text, and joins those with the smallest p-values.

A forgery is a text of ten sentences, that of the collector of up to thirty. It passes if the exact
p-value of the whole text, and of whole text and passages together, is at most 1e-6. At the
service's default rates, 60 questions take a minute, and 1,000 a day.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hammingmark.assembly.detection import detector
from hammingmark.assembly.encoders import load_encoder
from hammingmark.assembly.parts import load_splitter
from hammingmark.detection.detector import Detector
from hammingmark.encoders.wrappers import CachedEncoder
from hammingmark.evaluation.datasets.corpora import load_corpus
from hammingmark.keys.config import EncoderId
from hammingmark.keys.key import Secret, WatermarkKey
from hammingmark.records import Verdict
from hammingmark.server.api_error import APIError
from hammingmark.server.clients import Client
from hammingmark.server.config import ServerConfig
from hammingmark.server.detection.disclosure import Detail, disclosed
from hammingmark.server.detection.policy import DetectionPolicy
from hammingmark.server.settings import LimitsConfig, PolicyConfig
from hammingmark.watermarks.bilinear import BilinearConfig

PASSES = 1e-6
SENTENCES = 10
JOINED = 30  # sentences of a collector's forgery at most
WALK = 100  # sentences of a reader's text
BEAM = 64
STRANGER = Client("forger", "192.0.2.1", None)


class Questions:
    """The service's detector as strangers see it, and the true verdicts.

    Args:
        judge: the detector of the service's key.
        detail: what clients are told.
        near_copies: whether near-copies of a text are refused, as by default beyond this machine.
        level: the level of the service.
    """

    def __init__(self, judge: Detector, detail: Detail, *, near_copies: bool, level: float) -> None:
        # Questions are counted here; the limits of rates would only make the forger wait.
        limits = LimitsConfig(
            texts_per_minute=1e9, texts_per_day=1e9, near_copies=5 if near_copies else 10**9
        )
        config = ServerConfig(
            open=True,
            level=level,
            policy=PolicyConfig(detection=detail, detection_level=level),
            limits=limits,
        )
        self._judge = judge
        self._level = level
        self.policy = DetectionPolicy(config)
        self.most = config.limits.texts
        self.asked = self.refused = self.requests = 0

    def ask(self, texts: Sequence[Sequence[str]]) -> list[Verdict] | None:
        """What one request is told of texts; None if it is refused."""
        joined = [" ".join(text) for text in texts]
        self.requests += 1
        try:
            self.policy.check_rate(STRANGER, joined)
            self.policy.check_copies(STRANGER, joined, {})
        except APIError:
            self.refused += 1
            return None
        self.asked += len(texts)
        detail = self.policy.detail(STRANGER)
        return [
            disclosed(verdict, detail, top=self._level)
            for verdict in self._judge.judge_many(joined)
        ]

    def told(self, text: Sequence[str]) -> float | None:
        """The p-value that a question about one text is told; infinite if none; None if refused."""
        answers = self.ask([text])
        if answers is None:
            return None
        p_values = (answers[0].p_value, answers[0].joint_p_value)
        return max(np.inf if p_value is None else p_value for p_value in p_values)

    def true(self, text: Sequence[str]) -> float:
        """The exact p-value of a text, of the whole and of whole and passages together."""
        verdict = self._judge.judge(" ".join(text))
        assert verdict.p_value is not None
        assert verdict.joint_p_value is not None
        return max(verdict.p_value, verdict.joint_p_value)


Forge = Callable[[Questions, Sequence[str], int, np.random.Generator], list[str] | None]
"""Asks questions about sentences, at most so many; the forgery that would be published, if any."""


def reader(
    questions: Questions, sentences: Sequence[str], most: int, rng: np.random.Generator
) -> list[str] | None:
    """Read the scores of all pairs of some sentences, and join the best."""
    count = min(len(sentences), 80, int(np.sqrt(most * WALK)))
    chosen = rng.choice(len(sentences), count, replace=False)
    walk = list(_all_pairs(count))
    parts = [walk[begin : begin + WALK] for begin in range(0, len(walk) - 1, WALK - 1)]
    scores = np.zeros((count, count))
    for begin in range(0, len(parts), questions.most):
        request = parts[begin : begin + questions.most]
        answers = questions.ask([[sentences[chosen[i]] for i in part] for part in request])
        if answers is None:
            return None
        for part, verdict in zip(request, answers, strict=True):
            told = verdict.evidence.scores
            if len(told) != len(part):
                return None  # no scores are told
            for (i, j), unit in zip(pairwise(part), told[1:], strict=True):
                scores[i, j] = unit.score
    return [sentences[chosen[i]] for i in _best_chain(scores)]


def _all_pairs(count: int) -> Iterator[int]:
    """A walk through all ordered pairs of different numbers below ``count``, each once."""
    left = [[j for j in range(count) if j != i] for i in range(count)]
    walk, stack = [], [0]
    while stack:  # Hierholzer's algorithm
        if left[stack[-1]]:
            stack.append(left[stack[-1]].pop())
        else:
            walk.append(stack.pop())
    return reversed(walk)


def _best_chain(scores: NDArray[np.float64]) -> tuple[int, ...]:
    """The chain with the largest sum of scores (k, k), nearly: by a beam."""
    beam: list[tuple[float, tuple[int, ...]]] = [(0.0, (i,)) for i in range(len(scores))]
    for _ in range(SENTENCES - 1):
        longer = [
            (total + float(scores[chain[-1], j]), (*chain, int(j)))
            for total, chain in beam
            for j in np.argsort(-scores[chain[-1]])[:BEAM]
            if j not in chain
        ]
        beam = sorted(longer, reverse=True)[:BEAM]
    return beam[0][1]


def climber(
    questions: Questions, sentences: Sequence[str], most: int, rng: np.random.Generator
) -> list[str] | None:
    """Change one sentence at a time, as long as the p-value that is told does not rise."""
    best: list[str] | None = None
    best_told = np.inf
    text, text_told = None, np.inf
    while questions.asked + questions.refused < most and best_told > PASSES:
        changed = list(text) if text else list(rng.choice(sentences, SENTENCES, replace=False))
        if text:
            changed[int(rng.integers(SENTENCES))] = str(rng.choice(sentences))
            if len(set(changed)) < SENTENCES:
                continue
        told = questions.told(changed)
        if told is None:
            text, text_told = None, np.inf
        elif told <= text_told and told < np.inf:
            text, text_told = changed, told
        if text and text_told < best_told:
            best, best_told = text, text_told
    return best


def collector(
    questions: Questions, sentences: Sequence[str], most: int, rng: np.random.Generator
) -> list[str] | None:
    """Join the texts with the smallest p-values of all that were asked about, each another one."""
    positives: list[tuple[float, list[str]]] = []
    while questions.asked + questions.refused < most:
        text = list(rng.choice(sentences, SENTENCES, replace=False))
        told = questions.told(text)
        if told is not None and told < np.inf:
            positives.append((told, text))
        positives.sort(key=lambda pair: pair[0])
        joined = [sentence for _, text in positives[: JOINED // SENTENCES] for sentence in text]
        # One more question would show that it passes; it is not counted.
        if len(joined) == JOINED and questions.true(joined) <= PASSES:
            return joined
        positives = positives[: JOINED // SENTENCES]
    return [sentence for _, text in positives for sentence in text] or None


FORGERS: Mapping[str, Forge] = {"reader": reader, "climber": climber, "collector": collector}


def usable_sentences(corpus: str, data: Path | None, most: int) -> list[str]:
    """Human sentences that stay what they are in a chain of others, each once."""
    splitter = load_splitter()
    usable: dict[str, None] = {}
    for document in load_corpus(corpus, location=data):
        for sentence in splitter.split(document.text).carrying:
            is_plain = sentence[:1].isupper() and sentence.endswith(".")
            if is_plain and 40 <= len(sentence) <= 200:
                usable[sentence] = None
        if len(usable) >= most:
            break
    kept: list[str] = []
    for sentence in usable:
        chain = [*kept[-1:], sentence]
        if list(splitter.split(" ".join(chain)).carrying) == chain:
            kept.append(sentence)
    return kept[:most]


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, help="folder of the corpus")
    parser.add_argument("--corpus", default="c4")
    parser.add_argument("--encoder", default="minilm-mark")
    parser.add_argument("--sentences", type=int, default=3000)
    parser.add_argument("--keys", type=int, default=5)
    parser.add_argument("--most", type=int, default=3000, help="questions of a forger at most")
    parser.add_argument("--level", type=float, default=0.01, help="of the service")
    parser.add_argument("--forgers", nargs="+", choices=FORGERS, default=list(FORGERS))
    parser.add_argument("--details", nargs="+", default=["scores", "p_value", "verdict"])
    options = parser.parse_args()
    encoder = CachedEncoder(load_encoder(options.encoder))
    sentences = usable_sentences(options.corpus, options.data, options.sentences)
    encoder.encode(sentences)
    config = BilinearConfig(encoder=EncoderId.of(encoder))
    for name in options.forgers:
        for detail in options.details:
            for near_copies in (False, True):
                results = []
                for number in range(options.keys):
                    secret = Secret(hashlib.sha256(b"detector forger %d" % number).digest())
                    judge = detector(
                        WatermarkKey(secret, config), encoder=encoder, level=options.level
                    )
                    assert isinstance(judge, Detector)
                    questions = Questions(
                        judge, detail, near_copies=near_copies, level=options.level
                    )
                    rng = np.random.default_rng(number)
                    forgery = FORGERS[name](questions, sentences, options.most, rng)
                    p_value = questions.true(forgery) if forgery else 1.0
                    results.append((p_value, questions))
                show(name, detail, near_copies, results)


def show(
    name: str, detail: str, near_copies: bool, results: Sequence[tuple[float, Questions]]
) -> None:
    """Print how far a forger came under each key, on one line."""
    p_values = [p_value for p_value, _ in results]
    report = {
        "forger": name,
        "told": detail,
        "near-copies refused": near_copies,
        "keys": len(results),
        "passes": sum(p_value <= PASSES for p_value in p_values),
        "questions, median": float(np.median([each.asked + each.refused for _, each in results])),
        "requests, median": float(np.median([each.requests for _, each in results])),
        "refused, median": float(np.median([each.refused for _, each in results])),
        "p of the best, median": float(f"{np.median(p_values):.1e}"),
    }
    print(json.dumps(report), flush=True)


if __name__ == "__main__":
    main()
