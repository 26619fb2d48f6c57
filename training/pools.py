"""Operating points without writing texts: pools of candidates, drawn once, judged under many keys.

    python -m training.pools draw --genres c4 cnn --out training/data/pools.jsonl
    python -m training.rewrites bergamot --passages training/data/pools.jsonl --out REWRITES
    python -m training.pools judge --base FOLDER --rewrites REWRITES --points 8/6/0 default

A pool is a sentence and what a model would write next, 16 times, with nothing demanded. For any
encoder and any rule, what would be accepted under a key follows from the embeddings alone, so one
file of pools serves every encoder and every point, at a thousandth of the cost of writing. Texts
are made up of transitions of different pools, which leaves out that a text has one topic.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hammingmark.assembly.backends import load_backend
from hammingmark.assembly.parts import load_splitter
from hammingmark.backends.transformers import TransformersBackend
from hammingmark.core import theory
from hammingmark.core.residual import residual_of
from hammingmark.core.statistics import (
    Margin,
    Pairs,
    Rule,
    cosines,
    natural_acceptance,
    pair_cosines,
)
from hammingmark.evaluation.metrics import found_at
from hammingmark.pipeline.natural import draw_pools
from hammingmark.protocols import Backend
from hammingmark.watermarks.hamming import HammingMark
from training.measure import load_encoder
from training.rewrites import DATA, read_passages, read_rewrites
from training.write import OPENING, TrainedEncoder, numbered_key, read_point

Floats = NDArray[np.float32]
TRANSITIONS = 9
"""Of a made-up text, about 200 tokens."""


@dataclass(frozen=True)
class Pool:
    """One sentence and its candidates, embedded, as they are and rewritten.

    Attributes:
        before: the sentence, (d,).
        after: its candidates, (c, d).
        rewritten: the same two after each rewriter, by its name.
    """

    before: Floats
    after: Floats
    rewritten: dict[str, tuple[Floats, Floats]]


@dataclass(frozen=True)
class Accepted:
    """One transition that a key accepted.

    Attributes:
        pool: where it comes from.
        candidate: which one.
        samples: candidates it took.
        natural: the chance over keys that it would be accepted.
        fallback: whether the pool was used up.
    """

    pool: int
    candidate: int
    samples: int
    natural: float
    fallback: bool


def flips(one: Floats, other: Floats) -> NDArray[np.float64]:
    """θ/π of rows: the share of bits in which they differ, over keys."""
    return 1.0 - theory.match_probability(pair_cosines(one, other))


def accept(pools: list[Pool], mark: HammingMark) -> list[Accepted]:
    """What one key takes from each pool."""
    found = []
    for number, pool in enumerate(pools):
        choice = mark.choose(pool.before, pool.after)
        similarity = cosines(np.stack([pool.before, pool.after[choice.index]]))
        natural = natural_acceptance(similarity, rule=mark.rule)
        samples = choice.index + 1 if choice.accepted else len(pool.after)
        found.append(
            Accepted(number, choice.index, samples, float(natural[0]), not choice.accepted)
        )
    return found


def describe(pools: list[Pool], rewriters: Iterable[str]) -> dict[str, object]:
    """How near candidates lie, and what rewriting flips of sentences and of their new parts."""

    def new_parts(before: Floats, after: Floats) -> Floats:
        cosine = np.clip(after.astype(np.float64) @ before, -1.0, 1.0)
        return residual_of(before, after, cosine)

    parts = [new_parts(pool.before, pool.after) for pool in pools]
    among = [(part @ part.T)[~np.eye(len(part), dtype=bool)].mean() for part in parts]
    near = np.clip(np.concatenate([pool.after @ pool.before for pool in pools]), -1.0, 1.0)
    report: dict[str, object] = {
        "pools": len(pools),
        "cosine": float(near.mean()),
        "spread": float(theory.match_probability(near).std()),
        "new_parts_among_themselves": float(np.mean(among)),
    }
    for name in rewriters:
        whole, new = [], []
        for pool, part in zip(pools, parts, strict=True):
            before, after = pool.rewritten[name]
            whole.append(flips(pool.after, after))
            new.append(flips(part, new_parts(before, after)))
        report[name] = [float(np.concatenate(each).mean()) for each in (whole, new)]
    return report


def p_values(
    pools: list[Pool],
    taken: list[Accepted],
    planes: Floats,
    others: Floats,
    rule: Rule,
    version: str | None,
    rng: np.random.Generator,
) -> list[float]:
    """Exact p-values (not given the topic) of texts made up of what one key took.

    Args:
        pools: all of them.
        taken: by the key.
        planes: the key's, (d, m).
        others: reference keys side by side, (d, k m).
        rule: m, T, s.
        version: a rewriter, or None for the texts as they were.
        rng: deals the transitions out.
    """
    order = rng.permutation(len(taken))
    every = np.concatenate([planes, others], axis=1)
    values = []
    for begin in range(0, len(order) - TRANSITIONS + 1, TRANSITIONS):
        total = 0.0
        for each in (taken[i] for i in order[begin : begin + TRANSITIONS]):
            pool = pools[each.pool]
            before, after = (pool.before, pool.after)
            if version is not None:
                before, after = pool.rewritten[version]
            pair = np.stack([before, after[each.candidate]])
            projections = (pair @ every).reshape(2, -1, rule.bits)
            pairs = Pairs(projections, cosines(pair), rule=rule)
            total = total + Margin(rule).increments(pairs)[0]
        sums = np.asarray(total)
        values.append(float((1 + (sums[1:] >= sums[0] - 1e-9).sum()) / len(sums)))
    return values


def judge(given: argparse.Namespace) -> None:
    """Cost and power at each point."""
    encoder = load_encoder(given.base, given.run, given.device)
    rows = [row["sentences"] for row in read_passages(given.pools) if len(row["sentences"]) > 4]
    tables = {path.name.partition(".")[0]: read_rewrites(path) for path in given.rewrites}
    sentences = list(dict.fromkeys(each for row in rows for each in row))
    texts = {None: sentences} | {
        name: [table.get(each, each) for each in sentences] for name, table in tables.items()
    }
    place = {sentence: i for i, sentence in enumerate(sentences)}
    made = {name: encoder.encode(each) for name, each in texts.items()}
    pools = []
    for row in rows:
        where = [place[each] for each in row]
        pools.append(
            Pool(
                made[None][where[0]],
                made[None][where[1:]],
                {name: (made[name][where[0]], made[name][where[1:]]) for name in tables},
            )
        )
    print(json.dumps(describe(pools, tables)), flush=True)
    natural = np.concatenate([pool.after @ pool.before for pool in pools]).astype(np.float64)
    named = TrainedEncoder(encoder, given.run.name if given.run else "base")
    for text in given.points:
        demand = read_point(text, natural)
        bits = demand["bits"]
        rng = np.random.default_rng(given.seed)
        samples, shares, fallbacks = [], [], []
        p: dict[str, list[float]] = {}
        for number in range(given.keys):
            mark = HammingMark(numbered_key(number, named, demand))
            planes = mark.planes.T
            others = rng.standard_normal((len(planes), bits * 999)).astype(np.float32)
            taken = accept(pools, mark)
            samples += [each.samples for each in taken]
            shares += [each.natural for each in taken]
            fallbacks += [each.fallback for each in taken]
            for version in (None, *tables):
                values = p_values(pools, taken, planes, others, mark.rule, version, rng)
                p.setdefault(version or "clean", []).extend(values)
        print(
            json.dumps(
                {
                    "point": list(demand.values()),
                    "samples": round(float(np.mean(samples)), 3),
                    "fallback": round(float(np.mean(fallbacks)), 4),
                    "bits_a_transition": round(float(-np.log2(shares).mean()), 3),
                    **{
                        name: {
                            "tpr@1%": round(found_at(values, 0.01), 3),
                            "tpr@5%": round(found_at(values, 0.05), 3),
                        }
                        for name, values in p.items()
                    },
                }
            ),
            flush=True,
        )


def draw(given: argparse.Namespace) -> None:
    """Draw the pools."""
    kind, _, model = given.backend.partition(":")
    backend: Backend
    if kind == "transformers":
        backend = TransformersBackend(model, context=1024)
    else:
        backend = load_backend(given.backend)
    rows = [
        row
        for row in read_passages(given.passages, split=given.split)
        if not given.genres or row["genre"] in given.genres
    ][: given.contexts]
    shortest, longest = given.opening
    sizes = np.random.default_rng(given.seed).integers(shortest, longest + 1, size=len(rows))
    # A passage has at least 8 sentences, so that one always follows its opening.
    openings = [" ".join(row["sentences"][:n]) for row, n in zip(rows, sizes, strict=True)]
    pools = draw_pools(
        openings,
        backend=backend,
        splitter=load_splitter(),
        count=given.candidates,
        seed=given.seed,
    )
    given.out.parent.mkdir(parents=True, exist_ok=True)
    with given.out.open("w", encoding="utf-8") as file:
        for row, size, pool in zip(rows, sizes, pools, strict=True):
            found = {
                "id": row["id"],
                "genre": row["genre"],
                "split": row["split"],
                "next": row["sentences"][size],
                "sentences": pool,
            }
            file.write(json.dumps(found, ensure_ascii=False) + "\n")


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(required=True)
    drawing = commands.add_parser("draw")
    drawing.add_argument("--backend", default="smollm2")
    drawing.add_argument("--passages", type=Path, default=DATA / "passages.jsonl")
    drawing.add_argument("--split", choices=("train", "heldout"), default="heldout")
    drawing.add_argument("--genres", nargs="*", help="by default all of the split")
    drawing.add_argument(
        "--opening",
        type=int,
        nargs=2,
        default=[OPENING, OPENING],
        metavar=("LEAST", "MOST"),
        help="sentences of a passage that the model goes on from",
    )
    drawing.add_argument("--contexts", type=int, default=400)
    drawing.add_argument("--candidates", type=int, default=16)
    drawing.add_argument("--seed", type=int, default=0)
    drawing.add_argument("--out", type=Path, default=DATA / "pools.jsonl")
    drawing.set_defaults(run_command=draw)
    judging = commands.add_parser("judge")
    judging.add_argument("--base", type=Path, required=True)
    judging.add_argument("--run", type=Path)
    judging.add_argument("--pools", type=Path, default=DATA / "pools.jsonl")
    judging.add_argument("--rewrites", type=Path, nargs="*", default=[])
    judging.add_argument("--points", nargs="*", default=["8/6/0"])
    judging.add_argument("--keys", type=int, default=20)
    judging.add_argument("--seed", type=int, default=0)
    judging.add_argument("--device", default="cpu")
    judging.set_defaults(run_command=judge)
    given = parser.parse_args()
    given.run_command(given)


if __name__ == "__main__":
    main()
