"""How often marked texts are found, and how often verdicts say that they would be.

    python -m research.studies.power --corpus c4 booksum cnn_dailymail --location FOLDER

Marked sentences are human ones, each but the first of a text or passage the first of 32 random
sentences that the rule accepts after the preceding one. Reworded ones have an embedding at a cosine
of √0.9 to their own, so that scores keep a correlation of 0.9. A passage of marked sentences stands
between human ones; it has the length from which a verdict on the human text says that it would
probably be found.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from hammingmark.assembly.encoders import load_encoder
from hammingmark.assembly.keys import method_of, new_key
from hammingmark.detection.detector import Detector
from hammingmark.detection.reader import ReadText, SentenceReader
from hammingmark.detection.search import EveryKey
from hammingmark.models.catalogue import DEFAULT_ENCODER
from hammingmark.records import Verdict
from hammingmark.testing import FakeEncoder, FakeSplitter
from hammingmark.watermarks.bilinear.method import BilinearMark
from research.studies.claims import Rows, chain, human_texts

TRIES = 32
KEPT = 0.9  # correlation of a score before and after rewording
AROUND = 30  # human sentences of a text with a marked passage


def judge(mark: BilinearMark, rows: Rows, level: float) -> Verdict:
    """The verdict on a text that is embedded already."""
    reader = SentenceReader(FakeSplitter(), FakeEncoder())  # not used
    detector = Detector(reader, EveryKey([mark]), level=level)
    return next(detector.judge_read([ReadText(("x",) * len(rows), rows)]))


def answer(mark: BilinearMark, pool: Rows, n: int, rng: np.random.Generator) -> Rows:
    """The embeddings of n sentences of which all but the first are marked, (n, d)."""
    first = pool[rng.integers(len(pool))]
    rest = chain(mark, first, pool, n - 1, rng, tries=TRIES)
    return np.concatenate([first[None], rest])


def reworded(rows: Rows, rng: np.random.Generator) -> Rows:
    """The embeddings of sentences after rewording, (n, d)."""
    noise = rng.standard_normal(rows.shape)
    noise -= (noise * rows).sum(axis=1, keepdims=True) * rows
    noise /= np.linalg.norm(noise, axis=1, keepdims=True)
    turned: Rows = (np.sqrt(KEPT) * rows + np.sqrt(1.0 - KEPT) * noise).astype(np.float32)
    return turned


def reached(verdict: Verdict) -> bool:
    """Whether the level was reached, for a verdict or for weak evidence."""
    return bool(verdict.watermarked or verdict.likelihood_ratio is not None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--corpus", nargs="+", default=["wiki100"])
    parser.add_argument("--location", type=Path, help="folder of the corpora")
    parser.add_argument("--encoder", default=DEFAULT_ENCODER)
    parser.add_argument("--preset", default="default")
    parser.add_argument("--texts", type=int, default=100, help="texts of each case, a key for each")
    parser.add_argument("--human", type=int, default=20, help="human texts")
    parser.add_argument("--lengths", type=int, nargs="+", default=[2, 3, 4, 5, 6, 8, 12])
    parser.add_argument("--level", type=float, default=0.01)
    options = parser.parse_args()
    encoder = load_encoder(options.encoder)
    human = human_texts(options.corpus, options.location, encoder=encoder, most=options.human)
    pool = np.concatenate(human)
    print(f"{len(human)} human texts; {options.texts} texts of each case, level {options.level:g}")
    print("| sentences | as written: stated, found | reworded: stated, found |")

    def new_mark() -> BilinearMark:
        mark = method_of(new_key(encoder, preset=options.preset))
        assert isinstance(mark, BilinearMark)
        return mark

    for n in options.lengths:
        rng = np.random.default_rng(n)
        shares = []
        for _ in range(options.texts):
            mark = new_mark()
            rows = answer(mark, pool, n, rng)
            whole = judge(mark, rows, options.level)
            after = judge(mark, reworded(rows, rng), options.level)
            shares.append(
                (whole.power_as_written, reached(whole), after.power_reworded, reached(after))
            )
        stated, found, stated_after, found_after = np.mean(np.array(shares, float), axis=0)
        print(
            f"| {n} | {stated:.2f}, {found:.2f} | {stated_after:.2f}, {found_after:.2f} |",
            flush=True,
        )
    rng = np.random.default_rng(0)
    lengths, outcomes = [], []
    for _ in range(options.texts):
        mark = new_mark()
        run = human[rng.integers(len(human))][:AROUND]
        least = judge(mark, run, options.level).detectable_passage or AROUND
        begin = int(rng.integers(len(run)))
        own = answer(mark, pool, least, rng)
        verdict = judge(mark, np.concatenate([run[:begin], own, run[begin:]]), options.level)
        lengths.append(least)
        outcomes.append(bool(verdict.watermarked or verdict.passages))
    print(
        f"passages of the stated length, {np.mean(lengths):.1f} sentences on average, between "
        f"{AROUND} human ones: {np.mean(outcomes):.2f} found"
    )


if __name__ == "__main__":
    main()
