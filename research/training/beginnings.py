"""What the beginning of a sentence tells of the whole: the figures of ``generation/stopping.py``.

    python -m research.training.beginnings draw --backend transformers:FILE.gguf --out FILE
    python -m research.training.beginnings measure FILE

``draw`` has a model write sentences after openings of held-out passages, and other endings of their
beginnings. ``measure`` embeds them. The score of a text under a random key is its embedding's
product with a random direction, so what scores have in common is a mean cosine, and needs no key.
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


def draw(given: argparse.Namespace) -> None:
    """Sentences, and other endings of their beginnings."""
    backend = load_backend(given.backend, context=1024)
    rows = [row for row in read_passages(given.passages, split="heldout") if row["genre"] in GENRES]
    openings = [" ".join(row["sentences"][: 3 + i % 4]) for i, row in enumerate(rows)]
    texts = [AcceptedText(Prompt(each), load_splitter()) for each in openings[: given.contexts]]
    rng = np.random.default_rng(given.seed)
    found: list[Row] = []
    asked = [(i, "") for i in range(len(texts)) for _ in range(given.sentences)]
    for (i, _), candidate in zip(asked, _drawn(backend, texts, asked, rng), strict=True):
        addition = texts[i].read(candidate, truncated=False)
        if addition and addition.sentence:
            pieces = list(candidate.pieces[: addition.tokens])
            row: Row = {"context": i, "pieces": pieces, "sentence": addition.sentence, "ends": {}}
            found.append(row)
    cuts = [
        (row, place)
        for row in found
        for place in PLACES
        if len(row["pieces"]) > place
        for _ in range(given.endings)
    ]
    asked = [(row["context"], "".join(row["pieces"][:place])) for row, place in cuts]
    ends = _drawn(backend, texts, asked, rng)
    for (row, place), (i, head), candidate in zip(cuts, asked, ends, strict=True):
        whole = replace(candidate, pieces=(head, *candidate.pieces))
        addition = texts[i].read(whole, truncated=False)
        if addition and addition.sentence:
            row["ends"].setdefault(str(place), []).append(addition.sentence)
    with given.out.open("w", encoding="utf-8") as file:
        for row in found:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


def _drawn(
    backend: Backend,
    texts: list[AcceptedText],
    asked: list[tuple[int, str]],
    rng: np.random.Generator,
) -> list[Candidate]:
    """A continuation of each text and head."""
    session = backend.open()
    found: dict[int, Candidate] = {}
    try:
        for number, (i, head) in enumerate(asked):
            text, seed = texts[i], int(rng.integers(1 << 31))
            enough = _enough_after(head, text.stop_condition())
            session.submit(Request(number, text.prompt, text.spaced(head), seed, 128, enough))
        while len(found) < len(asked):
            found |= {candidate.number: candidate for candidate in session.wait()}
    finally:
        session.close()
    return [found[number] for number in range(len(asked))]


def _enough_after(head: str, enough: Callable[[str], bool]) -> Callable[[str], bool]:
    return lambda more: enough(head + more)


def measure(given: argparse.Namespace) -> None:
    """Print the tables."""
    with given.file.open(encoding="utf-8") as file:
        rows: list[Row] = [json.loads(line) for line in file]
    stages = range(PLACES[0], 52, STAGE)
    needed = {text for row in rows for text in _texts(row, stages)}
    texts = sorted(needed, key=len)
    encoded = load_encoder(given.encoder).encode(texts)
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
        told = [
            embedded[_head(r, k)] @ embedded[r["sentence"]] for r in rows if len(r["pieces"]) > k
        ]
        sixths = np.quantile(changes, (np.arange(6) + 0.5) / 6)
        print(k, sixths.round(4).tolist(), round(float(np.mean(told)), 3), len(long))
    print("h, the share that draws have in common: of first tokens after one text")
    for k in (4, 6, 8):
        groups = defaultdict(list)
        for row in rows:
            if len(row["pieces"]) > k:
                groups[row["context"]].append(embedded[_head(row, k)])
        print(k, round(alike(groups.values()), 3))
    print("and of endings after one beginning")
    for place in PLACES:
        heads, families = [], []
        for row in rows:
            if str(place) in row["ends"]:
                whole = [embedded[each] for each in (*row["ends"][str(place)], row["sentence"])]
                families.append(whole)
                heads += [embedded[_head(row, place)] @ each for each in whole]
        explained = float(np.mean(heads)) ** 2
        print(place, round((alike(families) - explained) / (1 - explained), 3))


def alike(families: Any) -> float:
    """The mean cosine of two members of a family."""
    found = []
    for family in families:
        rows = np.stack(family)
        if len(rows) > 1:
            found.append((np.sum(rows @ rows.T) - len(rows)) / (len(rows) * (len(rows) - 1)))
    return float(np.mean(found))


def _head(row: Row, tokens: int) -> str:
    return "".join(row["pieces"][:tokens]).strip()


def _texts(row: Row, stages: range) -> Iterator[str]:
    yield row["sentence"]
    for ends in row["ends"].values():
        yield from ends
    for tokens in {*stages, *PLACES, 6}:
        yield _head(row, tokens)


def main() -> None:
    """The command."""
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
    drawing.set_defaults(does=draw)
    measuring = commands.add_parser("measure")
    measuring.add_argument("file", type=Path)
    measuring.add_argument("--encoder", default="minilm-mark")
    measuring.set_defaults(does=measure)
    given = parser.parse_args()
    given.does(given)


if __name__ == "__main__":
    main()
