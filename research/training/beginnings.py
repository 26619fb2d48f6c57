"""How well beginnings predict sentences: the figures of ``generation/stopping.py``.

    python -m research.training.beginnings draw --backend transformers:FILE.gguf --out FILE
    python -m research.training.beginnings measure FILE

``draw`` has a model write sentences after openings of held-out passages, and alternative endings of
their beginnings. ``measure`` embeds them. The score of a text under a random key is the product of
its embedding with a random direction, so the correlation of scores is a mean cosine: no key is
needed.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from hammingmark.assembly.backends import load_backend
from hammingmark.assembly.encoders import load_encoder
from hammingmark.assembly.parts import load_splitter
from hammingmark.generation.text import AcceptedText
from hammingmark.protocols import Backend
from hammingmark.records import Candidate, Prompt, Request
from research.training.files import DATA, read_passages

STAGE = 3
PLACES = (4, 8, 12, 16, 22, 28)
GENRES = ("c4", "cnn", "booksum")
Row = dict[str, Any]


def draw(options: argparse.Namespace) -> None:
    """Draw sentences, and alternative endings of their beginnings."""
    backend = load_backend(options.backend, context=1024)
    rows = [
        row for row in read_passages(options.passages, split="heldout") if row["genre"] in GENRES
    ]
    openings = [" ".join(row["sentences"][: 3 + i % 4]) for i, row in enumerate(rows)]
    texts = [AcceptedText(Prompt(each), load_splitter()) for each in openings[: options.contexts]]
    rng = np.random.default_rng(options.seed)
    sentences: list[Row] = []
    requests = [(i, "") for i in range(len(texts)) for _ in range(options.sentences)]
    for (i, _), candidate in zip(
        requests, _draw_candidates(backend, texts, requests, rng), strict=True
    ):
        addition = texts[i].read(candidate, truncated=False)
        if addition and addition.sentence:
            pieces = list(candidate.pieces[: addition.tokens])
            row: Row = {"context": i, "pieces": pieces, "sentence": addition.sentence, "ends": {}}
            sentences.append(row)
    cuts = [
        (row, place)
        for row in sentences
        for place in PLACES
        if len(row["pieces"]) > place
        for _ in range(options.endings)
    ]
    requests = [(row["context"], "".join(row["pieces"][:place])) for row, place in cuts]
    endings = _draw_candidates(backend, texts, requests, rng)
    for (row, place), (i, head), candidate in zip(cuts, requests, endings, strict=True):
        whole = replace(candidate, pieces=(head, *candidate.pieces))
        addition = texts[i].read(whole, truncated=False)
        if addition and addition.sentence:
            row["ends"].setdefault(str(place), []).append(addition.sentence)
    with options.out.open("w", encoding="utf-8") as file:
        for row in sentences:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


def _draw_candidates(
    backend: Backend,
    texts: list[AcceptedText],
    requests: list[tuple[int, str]],
    rng: np.random.Generator,
) -> list[Candidate]:
    """A continuation of each text and head."""
    session = backend.open()
    candidates: dict[int, Candidate] = {}
    try:
        for number, (i, head) in enumerate(requests):
            text, seed = texts[i], int(rng.integers(1 << 31))
            stop_condition = _stop_after(head, text.stop_condition())
            session.submit(
                Request(number, text.prompt, text.add_space(head), seed, 128, stop_condition)
            )
        while len(candidates) < len(requests):
            candidates |= {candidate.number: candidate for candidate in session.wait()}
    finally:
        session.close()
    return [candidates[number] for number in range(len(requests))]


def _stop_after(head: str, stop_condition: Callable[[str], bool]) -> Callable[[str], bool]:
    return lambda more: stop_condition(head + more)


def measure(options: argparse.Namespace) -> None:
    """Print the tables."""
    with options.file.open(encoding="utf-8") as file:
        rows: list[Row] = [json.loads(line) for line in file]
    stages = range(PLACES[0], 52, STAGE)
    strings = {text for row in rows for text in _texts(row, stages)}
    texts = sorted(strings, key=len)
    encoded = load_encoder(options.encoder).encode(texts)
    embedded = dict(zip(texts, encoded, strict=True))
    lengths = np.array([len(row["pieces"]) for row in rows])
    print(f"{len(rows)} sentences of {lengths.mean():.1f} tokens")
    print(
        "longer than:", {k: round(float((lengths > k).mean()), 3) for k in (4, 8, 14, 22, 33, 50)}
    )
    print(f"tokens, and {STAGE} more: 2 (1 - c) in sixths; correlation with the whole; sentences")
    for k in stages[:-1]:
        long = [row for row in rows if len(row["pieces"]) > k + STAGE]
        if len(long) < 30:
            break
        changes = [2 * (1 - embedded[_head(r, k)] @ embedded[_head(r, k + STAGE)]) for r in long]
        correlations = [
            embedded[_head(r, k)] @ embedded[r["sentence"]] for r in rows if len(r["pieces"]) > k
        ]
        sixths = np.quantile(changes, (np.arange(6) + 0.5) / 6)
        print(k, sixths.round(4).tolist(), round(float(np.mean(correlations)), 3), len(long))
    print("h, the share that draws have in common: of first tokens after one text")
    for k in (4, 6, 8):
        groups = defaultdict(list)
        for row in rows:
            if len(row["pieces"]) > k:
                groups[row["context"]].append(embedded[_head(row, k)])
        print(k, round(mean_cosine(groups.values()), 3))
    print("and of endings after one beginning")
    for place in PLACES:
        heads, families = [], []
        for row in rows:
            if str(place) in row["ends"]:
                whole = [embedded[each] for each in (*row["ends"][str(place)], row["sentence"])]
                families.append(whole)
                heads += [embedded[_head(row, place)] @ each for each in whole]
        explained = float(np.mean(heads)) ** 2
        print(place, round((mean_cosine(families) - explained) / (1 - explained), 3))


def mean_cosine(families: Any) -> float:
    """The mean cosine of two members of a family."""
    means = []
    for family in families:
        embeddings = np.stack(family)
        if len(embeddings) > 1:
            means.append(
                (np.sum(embeddings @ embeddings.T) - len(embeddings))
                / (len(embeddings) * (len(embeddings) - 1))
            )
    return float(np.mean(means))


def _head(row: Row, tokens: int) -> str:
    return "".join(row["pieces"][:tokens]).strip()


def _texts(row: Row, stages: range) -> Iterator[str]:
    yield row["sentence"]
    for ends in row["ends"].values():
        yield from ends
    for tokens in {*stages, *PLACES, 6}:
        yield _head(row, tokens)


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True)
    drawing = commands.add_parser("draw")
    drawing.add_argument("--backend", default="smollm2")
    drawing.add_argument("--passages", type=Path, default=DATA / "passages.jsonl")
    drawing.add_argument("--contexts", type=int, default=240)
    drawing.add_argument("--sentences", type=int, default=4, help="for each opening")
    drawing.add_argument("--endings", type=int, default=3, help="for each beginning")
    drawing.add_argument("--seed", type=int, default=0)
    drawing.add_argument("--out", type=Path, default=DATA / "beginnings.jsonl")
    drawing.set_defaults(run=draw)
    measuring = commands.add_parser("measure")
    measuring.add_argument("file", type=Path)
    measuring.add_argument("--encoder", default="minilm-mark")
    measuring.set_defaults(run=measure)
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
