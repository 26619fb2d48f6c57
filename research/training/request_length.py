"""How many stages a request should go through: simulated searches of `generation.stages`.

    python -m research.training.request_length --sentences 2000

Sentences are drawn by the model of `generation.stopping`: the score of a prefix changes from stage
to stage as in natural text, and the draws from one prefix are a Dirichlet process, which here is a
tree in which a draw takes an earlier branch or a new one. The search continues the prefix of the
lowest expected cost, a number of stages at a time, and judges all prefixes that it passed. For each
number of stages a line has, for one sentence, the tokens, requests and embeddings, and the cost in
tokens if a request is worth some tokens and an embedding 0.3. `generation.stopping.stages_at_once`
rests on these figures.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass, field
from statistics import NormalDist

import numpy as np

from hammingmark.generation.stopping import (
    Stages,
    concentration,
    p_end,
    similarities,
)

ACCEPTED = (0.34, 0.21, 0.09)  # the presets
AT_ONCE = (1, 2, 3, 4, 6, 20)
PRICES = (0, 1, 2, 5, 8)  # of a request, in tokens
EMBEDDING = 0.3  # likewise
MEAN_LENGTH = 22  # tokens of a sentence
MOST_REQUESTS = 400


@dataclass(eq=False)
class Prefix:
    """A prefix in the tree of a sentence.

    Attributes:
        stage: its stage.
        tokens: its number of tokens.
        score: its score.
        is_over: whether it is a complete sentence.
        draws: the number of draws from it.
        children: the different outcomes of these draws.
        counts: how often each of them came.
    """

    stage: int
    tokens: int
    score: float
    is_over: bool = False
    draws: int = 0
    children: list[Prefix] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)


def main() -> None:
    """Print a line for each preset and number of stages."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sentences", type=int, default=2000)
    options = parser.parse_args()
    for accepted in ACCEPTED:
        stages = Stages(NormalDist().inv_cdf(1.0 - accepted))
        for count in AT_ONCE:
            rng = np.random.default_rng(count)
            taken = [search(stages, count, rng) for _ in range(options.sentences)]
            tokens, requests, embeddings = np.mean(taken, axis=0)
            costs = [tokens + price * requests + EMBEDDING * embeddings for price in PRICES]
            line = {
                "accepted": accepted,
                "at_once": count,
                "drawn_over_emitted": round(tokens / MEAN_LENGTH, 2),
                "requests": round(requests, 1),
                "embeddings": round(embeddings, 1),
                "cost": {
                    price: round(cost / MEAN_LENGTH, 2)
                    for price, cost in zip(PRICES, costs, strict=True)
                },
            }
            print(json.dumps(line), flush=True)


def search(stages: Stages, at_once: int, rng: np.random.Generator) -> tuple[int, int, int]:
    """Tokens, requests and embeddings until a sentence is accepted."""
    begun = [Prefix(0, 0, 0.0)]
    tokens = embeddings = 0
    for requests in range(1, MOST_REQUESTS):
        prefix = min(
            begun, key=lambda each: stages.expected_cost(each.stage, each.score, each.draws)
        )
        for _ in range(at_once):
            child, is_new = drawn(prefix, stages, rng)
            prefix.draws += 1
            tokens += child.tokens - prefix.tokens
            embeddings += is_new
            if child.is_over:
                if child.score >= stages.threshold:
                    return tokens, requests, embeddings
                break
            if is_new:
                begun.append(child)
            prefix = child
    return tokens, MOST_REQUESTS, embeddings


def drawn(prefix: Prefix, stages: Stages, rng: np.random.Generator) -> tuple[Prefix, bool]:
    """A draw from a prefix, and whether it is new."""
    n, nu = sum(prefix.counts), concentration(prefix.stage)
    if rng.random() < n / (nu + n):
        place = int(rng.choice(len(prefix.children), p=np.array(prefix.counts) / n))
        prefix.counts[place] += 1
        return prefix.children[place], False
    is_over = bool(rng.random() < p_end(stages, prefix.stage))
    if prefix.stage == 0:
        score = float(rng.standard_normal())
    else:
        c = float(rng.choice(similarities(stages, prefix.stage, is_over=is_over)))
        score = c * prefix.score + float(np.sqrt(1.0 - c * c) * rng.standard_normal())
    step = 2 if is_over else stages.tokens_at(prefix.stage + 1) - stages.tokens_at(prefix.stage)
    tokens = stages.tokens_at(prefix.stage) + step
    child = Prefix(prefix.stage + 1, tokens, score, is_over)
    prefix.children.append(child)
    prefix.counts.append(1)
    return child, True


if __name__ == "__main__":
    main()
