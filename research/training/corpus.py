"""Passages of human prose from corpora of the model store, for training and held out.

    python -m research.training.corpus --out research/training/data/passages.jsonl

One JSON record per line: ``id``, ``genre``, ``split`` (``train`` or ``heldout``) and ``sentences``,
8 to 16 in the order of their document. Each document belongs to one split. The same seed gives the
same file.
"""

from __future__ import annotations

import argparse
import json
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import ceil
from pathlib import Path
from typing import Literal

import numpy as np

from hammingmark.assembly.parts import load_splitter
from hammingmark.evaluation.datasets.corpora import Document, find_corpus, load_corpus
from hammingmark.evaluation.datasets.prose import text_sections
from hammingmark.protocols import Splitter
from research.training.files import DATA
from research.training.passages import Novelty, passages

Split = Literal["train", "heldout"]
Reader = Callable[[str], list[str]]
"""From a document's raw text to its sections of prose."""

TRAIN = 7200
HELDOUT = 400
HELDOUT_SHARE = 0.1


@dataclass(frozen=True, slots=True)
class Genre:
    """One corpus.

    Attributes:
        name: the name of its passages.
        read: extracts sections of prose from its raw text.
        share: its share of the training passages.
        each: most passages of one document.
    """

    name: str
    read: Reader
    share: float
    each: int


# There are few books, so each gives many passages; an encyclopedia has thousands of articles.
GENRES = {
    name: Genre(name, find_corpus(name).sections, share=share, each=each)
    for name, share, each in (("wiki100", 0.17, 20), ("enwik8", 0.6, 3), ("gutenberg", 0.23, 400))
}


@dataclass(frozen=True, slots=True)
class Passage:
    """Consecutive sentences of one document."""

    id: str
    genre: str
    split: Split
    sentences: list[str]


def texts_of(documents: Iterable[Document]) -> dict[str, str]:
    """Texts by their id."""
    return {document.id: document.text for document in documents}


def held_out(titles: Iterable[str], *, seed: int) -> set[str]:
    """A tenth of the titles, at least one, chosen by hash, so independent of their order."""
    ranked = sorted(set(titles), key=lambda title: (zlib.crc32(f"{seed} {title}".encode()), title))
    return set(ranked[: ceil(HELDOUT_SHARE * len(ranked))])


def draw(
    documents: Mapping[str, str],
    *,
    genre: Genre,
    split: Split,
    most: int,
    splitter: Splitter,
    novelty: Novelty,
    rng: np.random.Generator,
) -> Iterator[Passage]:
    """Passages of documents in random order, until there are ``most``."""
    names = sorted(documents)
    count = 0
    for place in rng.permutation(len(names)):
        name = names[place]
        sections = genre.read(documents[name])
        for number, sentences in enumerate(passages(sections, splitter, most=genre.each, rng=rng)):
            if count == most:
                return
            if novelty.take(sentences):
                count += 1
                yield Passage(f"{genre.name}/{name}/{number}", genre.name, split, sentences)


def build(
    corpora: Sequence[tuple[Genre, Mapping[str, str], set[str]]],
    *,
    extras: Mapping[str, Mapping[str, str]],
    train: int,
    heldout: int,
    splitter: Splitter,
    seed: int,
) -> list[Passage]:
    """All passages, in random order.

    They are drawn from the extra genres first, then from held-out documents, then for training: of
    near-duplicates, one goes to the evaluation, and training never sees it.

    Args:
        corpora: genres with their documents and the names of those held out.
        extras: the documents of further genres, all held out.
        train: passages for training.
        heldout: most held-out passages of one genre.
        splitter: finds the sentences.
        seed: the same seed gives the same passages.
    """
    novelty = Novelty()
    seeds = iter(np.random.SeedSequence(seed).spawn(1 + len(extras) + 2 * len(corpora)))
    order = np.random.default_rng(next(seeds))
    selection: list[Passage] = []

    def collect(genre: Genre, documents: Mapping[str, str], split: Split, most: int) -> None:
        rng = np.random.default_rng(next(seeds))
        selection.extend(
            draw(
                documents,
                genre=genre,
                split=split,
                most=most,
                splitter=splitter,
                novelty=novelty,
                rng=rng,
            )
        )

    for name, documents in extras.items():
        extra = Genre(name, text_sections, share=0.0, each=2)
        collect(extra, documents, "heldout", heldout)
    for genre, documents, held_out_names in corpora:
        held_out_documents = {
            name: text for name, text in documents.items() if name in held_out_names
        }
        collect(genre, held_out_documents, "heldout", heldout)
    for genre, documents, held_out_names in corpora:
        training_documents = {
            name: text for name, text in documents.items() if name not in held_out_names
        }
        collect(genre, training_documents, "train", round(genre.share * train))
    return [selection[place] for place in order.permutation(len(selection))]


def load_corpora(*, seed: int) -> list[tuple[Genre, dict[str, str], set[str]]]:
    """The three corpora of the model store, pulled on first use."""
    wiki100, enwik8, books = (texts_of(load_corpus(name)) for name in GENRES)
    # One draw for both encyclopedias: they share titles, in versions of different years.
    articles = held_out([*wiki100, *enwik8], seed=seed)
    return [
        (GENRES["wiki100"], wiki100, articles),
        (GENRES["enwik8"], enwik8, articles),
        (GENRES["gutenberg"], books, held_out(books, seed=seed)),
    ]


def describe(selection: Iterable[Passage]) -> str:
    """Passages and sentences of each genre and split, as a table."""
    groups: Counter[tuple[str, str]] = Counter()
    sentences: Counter[tuple[str, str]] = Counter()
    for passage in selection:
        groups[passage.genre, passage.split] += 1
        sentences[passage.genre, passage.split] += len(passage.sentences)
    rows = [f"{'genre':14}{'split':10}{'passages':>9}{'sentences':>11}"]
    for (genre, split), count in sorted(groups.items(), key=lambda item: item[0][::-1]):
        rows.append(f"{genre:14}{split:10}{count:9,}{sentences[genre, split]:11,}")
    return "\n".join(rows)


def _named_file(argument: str) -> tuple[str, Path]:
    name, sign, file = argument.partition("=")
    if not name or not sign or not Path(file).is_file():
        raise argparse.ArgumentTypeError(f"{argument!r} is not NAME=FILE with an existing file")
    return name, Path(file)


def main(arguments: Sequence[str] | None = None) -> None:
    """Build the passages and write them."""
    parser = argparse.ArgumentParser(prog="python -m research.training.corpus", description=__doc__)
    parser.add_argument("--out", type=Path, default=DATA / "passages.jsonl")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--train", type=int, default=TRAIN, help="passages for training")
    parser.add_argument("--heldout", type=int, default=HELDOUT, help="most passages of each genre")
    parser.add_argument(
        "--extra",
        type=_named_file,
        action="append",
        default=[],
        metavar="NAME=FILE",
        help="a further genre from JSON Lines with a text field; held out, never trained on",
    )
    options = parser.parse_args(arguments)
    start = time.perf_counter()
    selection = build(
        load_corpora(seed=options.seed),
        extras={name: texts_of(load_corpus(str(file))) for name, file in options.extra},
        train=options.train,
        heldout=options.heldout,
        splitter=load_splitter(),
        seed=options.seed,
    )
    options.out.parent.mkdir(parents=True, exist_ok=True)
    with options.out.open("w", encoding="utf-8") as file:
        for passage in selection:
            file.write(json.dumps(asdict(passage), ensure_ascii=False) + "\n")
    print(describe(selection))
    print(f"{options.out}: {options.out.stat().st_size / 1e6:.1f} MB", end=", ")
    print(f"{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
