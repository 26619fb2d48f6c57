"""An attacker with access to the detector: marks left by number of queries.

    python -m research.studies.oracle --texts 50 --inner synonyms marian --cache FOLDER

The texts are those of ``attacks.py`` in which the mark is detected. The attacker has the encoder,
and the versions of every sentence of ``attacks.py``. He queries one after the other, the farthest
from the original first, and keeps those that help; the answer is a p-value, or yes or no. He is
compared with a blind attacker, who takes the first version of every sentence.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence

import numpy as np

from hammingmark.assembly.detection import detector
from hammingmark.attacks.adaptive import OracleGuided, score_of
from hammingmark.attacks.runner import AttackRunner
from hammingmark.attacks.segments import Tally, change_prose
from hammingmark.detection.detector import Detector
from hammingmark.evaluation.rows import Row
from hammingmark.protocols import Attack
from hammingmark.records import Attacked
from research.studies.attacks import INNER, Bench, arguments

LEVEL = 0.01
STOPS = (1, 5, 10, 20, 40, 80, 160, 320)
ORACLES: dict[str, Callable[[Detector], Callable[[str], float]]] = {
    "p-value": lambda judge: lambda text: score_of(judge.judge(text)),
    "yes-or-no": lambda judge: lambda text: float(bool(judge.judge(text).watermarked)),
}


def main() -> None:
    parser = arguments(str(__doc__).partition("\n")[0])
    parser.add_argument("--inner", nargs="*", default=list(INNER), choices=list(INNER))
    parser.add_argument("--answers", nargs="*", default=list(ORACLES), choices=list(ORACLES))
    parser.add_argument("--versions", type=int, default=16, help="of a sentence (16)")
    parser.add_argument("--queries", type=int, default=160, help="most queries per text (160)")
    parser.add_argument(
        "--min-similarity", type=float, default=0.8, help="least similarity of a version (0.8)"
    )
    parser.add_argument("--until", type=float, default=LEVEL, help="p-value to get above (0.01)")
    options = parser.parse_args()
    bench = Bench(options)
    judge = detector(
        bench.key,
        encoder=bench.encoder,
        splitter=bench.splitter,
        level=LEVEL,
        edits=options.edits,
    )
    assert isinstance(judge, Detector)  # of one key
    verdicts = judge.judge_many(bench.texts)
    texts = [
        text for text, verdict in zip(bench.texts, verdicts, strict=True) if verdict.watermarked
    ]
    print(f"{len(texts)} of {len(bench.texts)} marks are detected at {LEVEL:.0%}", flush=True)
    stops = [stop for stop in STOPS if stop <= options.queries]
    columns = ["inner", "answers", *(f"after {stop}" for stop in stops)]
    columns += ["at the end", "at 5 %", "similarity", "words"]
    print("| " + " | ".join(columns) + " |", flush=True)
    rows = [row(bench, "none", "", run(bench, Untouched(), texts), {})]
    show(rows[0], stops)
    for inner in options.inner:
        bank = Bank(bench, inner, options.versions)
        rows.append(row(bench, inner, "none", run(bench, Blind(bank, bench), texts), {}))
        show(rows[-1], stops)
        for answers in options.answers:
            rows.append(guided(bench, judge, texts, bank, answers, options))
            show(rows[-1], stops)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")


class Bank:
    """Versions of every sentence of the bench's texts, generated as in ``attacks.py``."""

    min_similarity = -1.0

    def __init__(self, bench: Bench, inner: str, versions: int) -> None:
        self.name = inner
        self.size = versions
        originals = [s for text in bench.texts for s in bench.splitter.split(text).carrying]
        rng = np.random.default_rng(np.random.SeedSequence([0, 0]))
        requests = [sentence for sentence in originals for _ in range(versions)]
        rewrites = bench.inner(inner).apply(requests, rng=rng)
        self._versions = {s: rewrites[i * versions :][:versions] for i, s in enumerate(originals)}
        self._origin = {
            unit.text: s  # as in the normalised text
            for s, outcomes in self._versions.items()
            for version in outcomes
            for unit in bench.splitter.split(version).units
        }
        self._origin |= {s: s for s in originals}

    def apply(self, texts: Sequence[str], *, rng: np.random.Generator) -> list[str]:
        """For the k-th request for a sentence, its k-th version."""
        counts: dict[str, int] = {}
        chosen = []
        for text in texts:
            versions = self._versions[self._origin[text]] if text in self._origin else [text]
            chosen.append(versions[counts.get(text, 0) % len(versions)])
            counts[text] = counts.get(text, 0) + 1
        return chosen


class Blind:
    """The first version of every sentence."""

    name, min_similarity = "blind", -1.0

    def __init__(self, bank: Bank, bench: Bench) -> None:
        self._bank, self._splitter = bank, bench.splitter

    def apply(self, texts: Sequence[str], *, rng: np.random.Generator) -> list[str]:
        """Attack each text; ``rng`` is not used."""
        return [
            change_prose(
                [text],
                splitter=self._splitter,
                change=lambda pieces: self._bank.apply([p.text for p in pieces], rng=rng),
                tally=Tally(),
            )[0]
            for text in texts
        ]


class Untouched:
    """No attack."""

    name, min_similarity = "untouched", 1.0

    def apply(self, texts: Sequence[str], *, rng: np.random.Generator) -> list[str]:
        """The texts, unchanged."""
        return list(texts)


def guided(
    bench: Bench,
    judge: Detector,
    texts: list[str],
    bank: Bank,
    answers: str,
    options: argparse.Namespace,
) -> Row:
    """Run the attacker who queries the detector."""
    attack = OracleGuided(
        inner=bank,
        splitter=bench.splitter,
        encoder=bench.encoder,
        judge=bench.judge,
        versions=bank.size,
        min_similarity=options.min_similarity,
        oracle=ORACLES[answers](judge),
        queries=options.queries,
        # Just below the score of the p-value, or below yes.
        enough=np.nextafter(-np.log10(options.until), 0.0) if answers == "p-value" else 0.0,
        ties=answers == "yes-or-no",
    )
    outcomes = run(bench, attack, texts)
    threshold = 1.0 if answers == "yes-or-no" else -np.log10(LEVEL)
    remaining = {
        stop: sum(score_after(path, stop) >= threshold for path in attack.ledger.paths)
        for stop in STOPS
        if stop <= options.queries
    }
    return row(bench, bank.name, answers, outcomes, remaining)


def score_after(path: list[tuple[int, float]], queries: int) -> float:
    """The detector's score of the version kept after so many queries."""
    return [score for count, score in path if count <= queries][-1]


def run(bench: Bench, attack: Attack, texts: list[str]) -> list[Attacked]:
    """Attack all texts side by side."""
    runner = AttackRunner(attack, bench.splitter, bench.judge, batch=max(1, len(texts)))
    return list(runner.run(texts))


def row(
    bench: Bench,
    inner: str,
    answers: str,
    outcomes: Sequence[Attacked],
    remaining: dict[int, int],
) -> Row:
    """A row of figures, also at a level other than the attacker's."""
    p_values = bench.p_values([outcome.text for outcome in outcomes])
    return {
        "inner": inner,
        "answers": answers,
        "left": remaining,
        "found": sum(p <= LEVEL for p in p_values),
        "at 5 %": sum(p <= 0.05 for p in p_values),
        "similarity": float(np.mean([outcome.similarity for outcome in outcomes])),
        "words": float(np.mean([outcome.words_changed for outcome in outcomes])),
    }


def show(row: Row, stops: list[int]) -> None:
    """Print one line of the table; without queries there is no curve."""
    cells = [row["inner"], row["answers"], *(str(row["left"].get(stop, "")) for stop in stops)]
    cells += [str(row[name]) for name in ("found", "at 5 %")]
    cells += [f"{row['similarity']:.3f}", f"{row['words']:.0%}"]
    print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
