"""Files of passages and of rewrites."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TypedDict, cast

DATA = Path(__file__).parent / "data"


class Passage(TypedDict, total=False):
    """A line of a file of passages, of pools, or of generated texts."""

    id: str
    genre: str
    split: str
    sentences: list[str]
    next: str
    text: str
    key: int


def read_passages(path: Path, *, split: str | None = None) -> Iterator[Passage]:
    """The passages of a file, compressed or not: all, or those of one split."""
    open_file = gzip.open if path.suffix == ".gz" else open
    with open_file(path, "rt", encoding="utf-8") as file:
        for line in file:
            row = {"split": "heldout", "genre": "written", **json.loads(line)}
            if "id" not in row:  # the first line of generated texts, with the run's parameters
                continue
            passage = cast(Passage, row)
            if split is None or passage["split"] == split:
                yield passage


def first_passages(
    path: Path, *, split: str, most: int, genres: Collection[str] | None = None
) -> list[Passage]:
    """The first passages of each genre of a split, in the order of the file.

    Args:
        path: the file of the passages.
        split: ``train`` or ``heldout``.
        most: passages of one genre.
        genres: by default all.
    """
    counts: Counter[str] = Counter()
    passages = []
    for passage in read_passages(path, split=split):
        genre = passage["genre"]
        if (genres is None or genre in genres) and counts[genre] < most:
            counts[genre] += 1
            passages.append(passage)
    return passages


def read_rewrites(path: Path) -> dict[str, str]:
    """The rewrite of each sentence of a file."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        rows = (json.loads(line) for line in file)
        return {row["sentence"]: row["rewrite"] for row in rows}


def write_rewrites(path: Path, rewrites: dict[str, str]) -> None:
    """Write the rewrite of each sentence to a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".part")  # an interrupted run keeps the last whole file
    with gzip.open(partial, "wt", encoding="utf-8", compresslevel=6) as file:
        for sentence, rewrite in rewrites.items():
            row = {"sentence": sentence, "rewrite": rewrite}
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
    partial.replace(path)
