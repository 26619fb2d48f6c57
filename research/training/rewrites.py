"""Sentences to rewrites of them, by one rewriter at a time, kept in one file each.

    python -m research.training.rewrites reworded --models FILE.gguf --split train --most 8000

What is there already is not made again. A file holds one JSON object a line: the sentence and
its rewrite, in the order of the passages.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypedDict, cast

import numpy as np

from hammingmark.assembly.backends import load_backend
from hammingmark.assembly.environment import model_store
from hammingmark.assembly.parts import load_splitter
from hammingmark.attacks.decoding import Decoding
from hammingmark.attacks.rewrite import Rewrite
from hammingmark.attacks.seq2seq import Seq2Seq
from hammingmark.attacks.synonyms import Synonyms
from hammingmark.attacks.translate import BergamotRoundTrip
from hammingmark.backends.transformers import TransformersBackend
from research.training.asked import ChatModel, reworded, translated
from research.training.noise import rewrite as add_noise

Dice = np.random.Generator
Rewriter = Callable[[list[str], Dice], list[str]]
DATA = Path("research/training/data")


class Passage(TypedDict, total=False):
    """A line of a file of passages, or of written texts."""

    id: str
    genre: str
    split: str
    sentences: list[str]
    next: str
    text: str
    key: int


def read_passages(path: Path, *, split: str | None = None) -> Iterator[Passage]:
    """The passages of a file, which may be compressed, all or those of one split."""
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8") as file:
        for line in file:
            row = {"split": "heldout", "genre": "written", **json.loads(line)}
            if "id" not in row:  # the first line of written texts says what was asked
                continue
            passage = cast(Passage, row)
            if split is None or passage["split"] == split:
                yield passage


def read_rewrites(path: Path) -> dict[str, str]:
    """From each sentence to its rewrite."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        rows = (json.loads(line) for line in file)
        return {row["sentence"]: row["rewrite"] for row in rows}


def write_rewrites(path: Path, rewrites: dict[str, str]) -> None:
    """The same, to a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(path.name + ".part")  # a run that breaks off leaves the last whole file
    with gzip.open(beside, "wt", encoding="utf-8", compresslevel=6) as file:
        for sentence, rewrite in rewrites.items():
            row = {"sentence": sentence, "rewrite": rewrite}
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
    beside.replace(path)


def marian(
    *, temperature: float | None, folder: Path | None, device: str | None, top_k: int = 0
) -> Rewriter:
    """English to French and back, the likeliest or drawn."""
    root = folder or model_store().ensure("opus-mt")
    dtype = "float16" if device == "cuda" else None
    batch = 2048 if device == "cuda" else 16
    models = [
        Seq2Seq(root / way, device=device, dtype=dtype, batch=batch, longest=128)
        for way in ("en-fr", "fr-en")
    ]
    decoding = Decoding(temperature=temperature, top_k=top_k, growth=1.5)

    def translate(sentences: list[str], rng: Dice) -> list[str]:
        for model in models:
            sentences = [best for best, *_ in model.write(sentences, decoding=decoding, rng=rng)]
        return sentences

    return translate


def bergamot() -> Rewriter:
    """English to Portuguese and back."""
    attack = BergamotRoundTrip(splitter=load_splitter())
    return lambda sentences, rng: attack.apply(sentences, rng=rng)


def synonyms() -> Rewriter:
    """As many words as WordNet knows others for, up to half."""
    attack = Synonyms(lexicon=model_store().ensure("wordnet"), share=0.5, sure=0.2, senses=2)
    return lambda sentences, rng: attack.apply(sentences, rng=rng)


def noise() -> Rewriter:
    """One to three careless changes."""
    return lambda sentences, rng: [add_noise(sentence, rng) for sentence in sentences]


def instructed(backend: str) -> Rewriter:
    """Rewriting by a language model that is told to."""
    kind, _, model = backend.partition(":")
    if kind == "transformers":
        attack = Rewrite(TransformersBackend(model, context=512), splitter=load_splitter())
    else:
        attack = Rewrite(load_backend(backend), splitter=load_splitter())
    return lambda sentences, rng: attack.apply(sentences, rng=rng)


def asked(kind: str, *, model: Path | None, device: str | None) -> Rewriter:
    """Rewriting by a chat model of transformers, with requests of our own."""
    if model is None:
        raise SystemExit("Name the chat model with --models FILE.")
    chat = ChatModel(model, device=device)
    rewrite = {"reworded": reworded, "translated": translated}[kind]
    return lambda sentences, rng: rewrite(chat, sentences, rng)


def build(name: str, *, folder: Path | None, device: str | None) -> Rewriter:
    """A rewriter by its name."""
    if name in ("reworded", "translated"):
        return asked(name, model=folder, device=device)
    if name == "marian":
        return marian(temperature=None, folder=folder, device=device)
    if name == "marian-mild":
        return marian(temperature=0.7, top_k=10, folder=folder, device=device)
    if name == "marian-sampled":
        return marian(temperature=1.0, folder=folder, device=device)
    if name == "bergamot":
        return bergamot()
    if name == "synonyms":
        return synonyms()
    if name.startswith("noise"):
        return noise()
    return instructed(name)


def rewrite_all(
    rewriter: Rewriter, sentences: Sequence[str], *, rng: Dice, batch: int, seconds: float
) -> Iterator[tuple[str, str]]:
    """Sentence after sentence with its rewrite; none is begun after so many seconds."""
    end = time.monotonic() + seconds
    for begin in range(0, len(sentences), batch):
        if time.monotonic() > end:
            break
        part = list(sentences[begin : begin + batch])
        yield from zip(part, rewriter(part, rng), strict=True)
        done = min(begin + batch, len(sentences))
        print(f"\r{done} of {len(sentences)}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "rewriter",
        help="marian, marian-mild, marian-sampled, bergamot, synonyms, noise, reworded, "
        "translated, or a backend",
    )
    parser.add_argument("--passages", type=Path, nargs="+", default=[DATA / "passages.jsonl"])
    parser.add_argument("--split", choices=("train", "heldout"))
    parser.add_argument("--genres", nargs="*")
    parser.add_argument("--most", type=int, help="sentences at most, of each genre of each file")
    parser.add_argument("--models", type=Path, help="the translation models, or the chat model")
    parser.add_argument("--device")
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin none later")
    parser.add_argument(
        "--share", type=int, nargs=2, default=(0, 1), metavar=("I", "N"),
        help="every N-th sentence from the I-th on; files of shares can be joined by cat",
    )  # fmt: skip
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    out = given.out or DATA / "rewrites" / f"{given.rewriter}.jsonl.gz"
    known = read_rewrites(out) if out.exists() else {}
    first, step = given.share
    wanted: dict[str, None] = {}
    for path in given.passages:
        counts: dict[str, int] = {}
        for passage in read_passages(path, split=given.split):
            genre, sentences = passage["genre"], passage["sentences"]
            if given.genres and genre not in given.genres:
                continue
            if given.most and counts.get(genre, 0) >= given.most:
                continue
            counts[genre] = counts.get(genre, 0) + len(sentences)
            wanted.update(dict.fromkeys(sentences))
    todo = [each for each in list(wanted)[first::step] if each not in known]
    rewriter = build(given.rewriter, folder=given.models, device=given.device)
    rng = np.random.default_rng([given.seed, first, len(known)])
    for count, (sentence, changed) in enumerate(
        rewrite_all(rewriter, todo, rng=rng, batch=given.batch, seconds=given.seconds)
    ):
        known[sentence] = changed
        if (count + 1) % max(given.batch, 5000) == 0:
            write_rewrites(out, known)  # nothing is lost if the run breaks off
    write_rewrites(out, known)
    print(f"{out}: {len(known)} rewrites")


if __name__ == "__main__":
    main()
