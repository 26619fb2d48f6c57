"""How often one key calls unmarked texts watermarked that have something in common.

    python -m research.studies.many_texts --data FOLDER

Prints a line for each case: the rate of false positives over keys, and that of the worst key.

- ``unrelated``: the beginnings of texts of one genre;
- ``header``: the same texts behind three sentences of another text;
- ``header, counted once``: the same, where shared sentences are left out of each text and judged
  once (``detect --shared-once``);
- ``topic``: as many texts of another genre, those whose mean embeddings are nearest to each other;
- ``..., a key for each text``: the same texts, each under a key of its own.

The folder has the corpora as JSONL (``evaluation/datasets``).
"""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from hammingmark.assembly.encoders import load_encoder
from hammingmark.assembly.parts import load_splitter
from hammingmark.detection.reader import embed_texts
from hammingmark.detection.shared import SentenceCounts
from hammingmark.evaluation.datasets.corpora import load_corpus
from hammingmark.keys.config import EncoderId
from hammingmark.keys.key import Secret, WatermarkKey
from hammingmark.protocols import Encoder, FloatArray, ScoredText
from hammingmark.watermarks.bilinear import BilinearConfig, BilinearMark

LEVELS = (0.01, 0.05)
HEADER = 3  # sentences
Read = Callable[[BilinearMark, int], ScoredText]
"""Scores the text of a number under a key."""


def rates(
    name: str,
    read: Read,
    marks: Sequence[BilinearMark],
    *,
    texts: int,
    own_keys: bool = False,
) -> None:
    """Print the rates of false positives of each key over the texts.

    Args:
        name: of the case.
        read: scores a text under a key.
        marks: one for each key.
        texts: the number of texts.
        own_keys: whether each text has a key derived from the key.
    """
    p_values = np.empty((len(marks), texts))
    for row, mark in enumerate(marks):
        for number in range(texts):
            under = BilinearMark(mark.key.derive(str(number))) if own_keys else mark
            test = read(under, number).test("likelihood")
            assert test.null.computed
            p_values[row, number] = test.null.computed.p_value(test.increments)
    report: dict[str, object] = {"case": name, "texts": texts, "keys": len(marks)}
    for level in LEVELS:
        shares = (p_values <= level).mean(axis=1)
        noise = np.sqrt(level * (1.0 - level) / texts)
        report[f"{level:.0%}"] = {
            "rate": round(float(shares.mean()), 4),
            "over counting": round(float(shares.std() / noise), 2),
            "keys above twice the level": round(float((shares > 2 * level).mean()), 3),
            "worst": round(float(shares.max()), 3),
        }
    print(json.dumps(report), flush=True)


def nearest(texts: Sequence[FloatArray], count: int) -> list[int]:
    """The texts whose mean embeddings are nearest to each other: those around the densest one."""
    means = np.stack([text.mean(axis=0) for text in texts])
    means /= np.linalg.norm(means, axis=1, keepdims=True)
    cosines = means @ means.T
    best = np.sort(cosines, axis=1)[:, -count:].mean(axis=1).argmax()
    return [int(number) for number in np.argsort(-cosines[best])[:count]]


def embedded(
    corpus: str, encoder: Encoder, *, data: Path, most: int, length: int
) -> tuple[list[list[str]], list[FloatArray]]:
    """The first sentences of the first texts of a corpus that are long enough, and embeddings."""
    splitter = load_splitter()
    texts: list[list[str]] = []
    for document in load_corpus(corpus, location=data):
        sentences = splitter.split(document.text).carrying[:length]
        if len(sentences) == length:
            texts.append(sentences)
        if len(texts) == most:
            break
    return texts, embed_texts(texts, encoder.encode)


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--encoder", default="minilm-mark")
    parser.add_argument("--corpus", default="c4", help="of unrelated texts")
    parser.add_argument("--topical", default="booksum", help="of texts on one topic")
    parser.add_argument("--texts", type=int, default=60)
    parser.add_argument("--among", type=int, default=500, help="texts to choose the topic from")
    parser.add_argument("--sentences", type=int, default=10, help="of each text")
    parser.add_argument("--keys", type=int, default=120)
    options = parser.parse_args()
    encoder = load_encoder(options.encoder)
    config = BilinearConfig(encoder=EncoderId.of(encoder))
    marks = [
        BilinearMark(WatermarkKey(Secret(hashlib.sha256(b"many %d" % n).digest()), config))
        for n in range(options.keys)
    ]
    texts, rows = embedded(
        options.corpus,
        encoder,
        data=options.data,
        most=options.texts + 1,
        length=options.sentences,
    )
    count = len(texts) - 1
    rates("unrelated", lambda mark, n: mark.read(rows[n]), marks, texts=count)
    header, header_rows = texts[-1][:HEADER], rows[-1][:HEADER]
    headed = [np.concatenate([header_rows, row]) for row in rows[:-1]]
    rates("header", lambda mark, n: mark.read(headed[n]), marks, texts=count)
    counts = SentenceCounts()
    for text in texts[:-1]:
        counts.add([*header, *text])
    shared = counts.shared()
    # The last entry is the header itself, in the first text.
    own = [shared.find([*header, *text]) < 0 for text in texts[:-1]]
    parts = [*zip(headed, own, strict=True), (headed[0], ~own[0])]
    rates(
        "header, counted once",
        lambda mark, n: mark.read_part(*parts[n]),
        marks,
        texts=len(parts),
    )
    rates(
        "header, a key for each text",
        lambda mark, n: mark.read(headed[n]),
        marks,
        texts=count,
        own_keys=True,
    )
    _, others = embedded(
        options.topical, encoder, data=options.data, most=options.among, length=options.sentences
    )
    topic = [others[n] for n in nearest(others, options.texts)]
    rates("topic", lambda mark, n: mark.read(topic[n]), marks, texts=len(topic))
    rates(
        "topic, a key for each text",
        lambda mark, n: mark.read(topic[n]),
        marks,
        texts=len(topic),
        own_keys=True,
    )


if __name__ == "__main__":
    main()
