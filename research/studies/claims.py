"""How to claim that a text or a passage of it is marked so that both hold at one level together.

    python -m research.studies.claims --corpus c4 cnn_dailymail --location FOLDER

Marked sentences are human ones, each the first of at most 16 random sentences that the rule accepts
after the preceding one; human ones are runs of one text. Printed is the share of texts in which a
mark is claimed, of the whole or of a passage, by four rules: two tests at the level each (which
together exceed it), two tests at half the level each, the smaller of both p-values compared with
that of the draws (`hammingmark.stats.joint`), and the likelihood ratio of the mixture from which
the draws come.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hammingmark.assembly.encoders import load_encoder
from hammingmark.assembly.keys import method_of, new_key
from hammingmark.assembly.parts import load_splitter
from hammingmark.evaluation.datasets.corpora import load_corpus
from hammingmark.models.catalogue import DEFAULT_ENCODER
from hammingmark.protocols import Encoder
from hammingmark.stats.joint import tails
from hammingmark.stats.passages import scan_along
from hammingmark.watermarks.bilinear.importance import ImportanceNull
from hammingmark.watermarks.bilinear.method import BilinearMark

Rows = NDArray[np.float32]
CASES = [(0, 10), (0, 40), (4, 0), (10, 0), (20, 0), (5, 30), (8, 30), (10, 30)]
"""Marked sentences, in the middle of so many human ones."""
RULES = ("two tests", "half the level each", "joint", "mixture")
TRIES = 16


def chain(
    mark: BilinearMark,
    previous: Rows | None,
    pool: Rows,
    n: int,
    rng: np.random.Generator,
    *,
    tries: int = TRIES,
) -> Rows:
    """The embeddings of n marked sentences, (n, d)."""
    chosen: list[Rows] = []
    for _ in range(n):
        candidates = pool[rng.integers(len(pool), size=tries)]
        chosen.append(candidates[mark.choose(previous, candidates).index])
        previous = chosen[-1]
    return np.array(chosen).reshape(n, pool.shape[1])


def human_texts(
    corpora: Sequence[str], location: Path | None, *, encoder: Encoder, most: int
) -> list[Rows]:
    """The embeddings of the first 40 sentences of long texts, (40, d) each, of all corpora.

    Args:
        corpora: their names.
        location: the folder of their files.
        encoder: gives the embeddings.
        most: the number of texts.
    """
    splitter = load_splitter()
    documents = [
        splitter.split(document.text).carrying
        for corpus in corpora
        for document in load_corpus(corpus, location=location)
    ]
    long_ones = [sentences[:40] for sentences in documents if len(sentences) >= 40]
    if not long_ones:
        raise SystemExit("no text has 40 sentences")
    return [encoder.encode(sentences) for sentences in long_ones[:most]]


def claims(mark: BilinearMark, text: Rows, level: float) -> list[bool]:
    """Whether each rule claims a mark, of the whole or of a passage."""
    test = mark.read(text).test("likelihood")
    null, own = test.null, test.increments
    assert isinstance(null, ImportanceNull)
    whole = null.p_value(own)
    (section,) = null._sections
    _, best = scan_along([own[:, None]], np.zeros(len(own)))
    window = section.window_p_value(own, float(best[0]))
    weights = np.append(section.weights(own[:, None]), section.weights(section.drawn_increments))
    mixture = float(tails(-np.log(weights), weights)[0]) / len(weights)
    smaller = min(whole, window)
    return [
        smaller <= level,
        2.0 * smaller <= level,
        null.joint_p_value(own) <= level,
        mixture <= level,
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--corpus", nargs="+", default=["wiki100"])
    parser.add_argument("--location", type=Path, help="folder of the corpora")
    parser.add_argument("--encoder", default=DEFAULT_ENCODER)
    parser.add_argument("--preset", default="default")
    parser.add_argument("--texts", type=int, default=300, help="texts of each case, a key for each")
    parser.add_argument("--human", type=int, default=40, help="human texts of each corpus")
    parser.add_argument("--cases", type=int, nargs=2, action="append", metavar=("MARKED", "HUMAN"))
    parser.add_argument("--level", type=float, default=0.01)
    options = parser.parse_args()
    encoder = load_encoder(options.encoder)
    human = human_texts(options.corpus, options.location, encoder=encoder, most=options.human)
    pool = np.concatenate(human)
    print(f"{len(human)} human texts; {options.texts} texts of each case, level {options.level:g}")
    print("| marked, human | " + " | ".join(RULES) + " |")
    for marked, around in options.cases or CASES:
        rng = np.random.default_rng(1000 * marked + around)
        found = []
        for _ in range(options.texts):
            mark = method_of(new_key(encoder, preset=options.preset))
            assert isinstance(mark, BilinearMark)
            run = human[rng.integers(len(human))][:around]
            before, after = run[: around // 2], run[around // 2 :]
            own = chain(mark, before[-1] if len(before) else None, pool, marked, rng)
            found.append(claims(mark, np.concatenate([before, own, after]), options.level))
        shares = " | ".join(f"{share:.3f}" for share in np.mean(found, axis=0))
        print(f"| {marked}, {around} | {shares} |", flush=True)


if __name__ == "__main__":
    main()
