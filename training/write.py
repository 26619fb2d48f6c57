"""Write marked texts with an encoder under training, at several operating points.

    python -m training.write --base FOLDER --run training/runs/NAME --points 8/6/0

A point is m/T/s for whole sentences, m/T/s/new for their new parts, or the name of a preset;
``8/a0.40/0.5`` asks for the T at which about 0.40 of human neighbours would be accepted. The texts
go to one file a point, with what they cost.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from hammingmark.assembly.backends import load_backend
from hammingmark.assembly.parts import load_splitter
from hammingmark.backends.transformers import TransformersBackend
from hammingmark.core.soft import threshold_for
from hammingmark.core.statistics import cosines as cosines_of
from hammingmark.evaluation.cost import account
from hammingmark.evaluation.quality import mean_repetition
from hammingmark.keys import Secret, WatermarkKey
from hammingmark.method_config import EncoderId
from hammingmark.pipeline.generate import GenerationConfig, Writer
from hammingmark.protocols import Backend, Encoder
from hammingmark.records import Generation, Prompt
from hammingmark.watermarks.hamming import HammingConfig, HammingMark
from training.encoder import SentenceEncoder
from training.measure import load_encoder
from training.rewrites import DATA, read_passages

OPENING = 3
"""Sentences of a passage that make the prompt."""


class TrainedEncoder:
    """A `SentenceEncoder` as the package wants it."""

    def __init__(self, encoder: SentenceEncoder, name: str) -> None:
        self.name = name
        self.fingerprint = hashlib.sha256(name.encode()).hexdigest()
        self._encoder = encoder
        self.dimension = int(encoder.body.config.hidden_size)

    def encode(self, sentences: Sequence[str]) -> NDArray[np.float32]:
        """Embed n sentences: (n, d)."""
        return self._encoder.encode(list(sentences))


Point = dict[str, Any]
"""Parameters of a rule."""


def numbered_key(number: int, encoder: Encoder, point: Point) -> WatermarkKey:
    """A key for experiments: anybody can make it again."""
    secret = Secret(hashlib.sha256(b"experiment %d" % number).digest())
    return WatermarkKey(secret, HammingConfig(encoder=EncoderId.of(encoder), **point))


def read_point(text: str, cosines: NDArray[np.float64]) -> Point:
    """m, T, s and what counts."""
    if "/" not in text:
        made = HammingConfig.from_preset(text, encoder=EncoderId("none", "", 1))
        return {name: getattr(made, name) for name in ("bits", "threshold", "softness", "residual")}
    bits, T, s, *new = text.split("/")
    residual = new == ["new"]
    threshold = float(T.removeprefix("a"))
    if T.startswith("a"):
        natural = np.zeros(1) if residual else cosines
        threshold = threshold_for(int(bits), threshold, natural, softness=float(s))
    return {"bits": int(bits), "threshold": threshold, "softness": float(s), "residual": residual}


def prompts(path: Path, genres: list[str], most: int) -> list[tuple[str, Prompt]]:
    """The openings of held-out passages, as many of each genre."""
    found: dict[str, list[tuple[str, Prompt]]] = {}
    for passage in read_passages(path, split="heldout"):
        genre, sentences = passage["genre"], passage["sentences"]
        if genre in genres and len(found.setdefault(genre, [])) < most // len(genres):
            opening = " ".join(sentences[:OPENING])
            found[genre].append((passage["id"], Prompt(opening)))
    return [each for rows in found.values() for each in rows]


def write(
    backend: Backend,
    encoder: Encoder,
    asked: list[tuple[str, Prompt]],
    *,
    point: Point | None,
    keys: int,
    config: GenerationConfig,
) -> list[tuple[str, int, Generation]]:
    """A generation for each prompt, the prompts dealt out over the keys."""
    generations: list[tuple[str, int, Generation]] = []
    splitter = load_splitter()
    for number in range(keys):
        part = asked[number::keys]
        mark = None
        if point is not None:
            mark = HammingMark(numbered_key(number, encoder, point))
        made = Writer(backend, splitter, encoder, mark, config)
        texts = made.write_many([prompt for _, prompt in part], seed=number)
        generations += [(name, number, text) for (name, _), text in zip(part, texts, strict=True)]
    return generations


def save(
    path: Path, generations: list[tuple[str, int, Generation]], head: dict[str, object]
) -> None:
    """One line for what was asked, then one a text."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as file:
        file.write(json.dumps(head) + "\n")
        for name, number, generation in generations:
            row = {
                "id": name,
                "key": number,
                "text": generation.text,
                "sentences": list(generation.sentences),
                "accepted": [step.accepted for step in generation.steps if step.sentence],
            }
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--base", type=Path, required=True)
    parser.add_argument("--run", type=Path, help="the additions; without it the base")
    parser.add_argument("--backend", default="smollm2", help="as for hammingmark generate")
    parser.add_argument("--device", help="of the encoder")
    parser.add_argument("--points", nargs="*", default=["8/6/0"])
    parser.add_argument("--unmarked", action="store_true")
    parser.add_argument("--passages", type=Path, default=DATA / "passages.jsonl")
    parser.add_argument("--genres", nargs="*", default=["c4", "cnn"])
    parser.add_argument("--texts", type=int, default=200)
    parser.add_argument("--keys", type=int, default=4)
    parser.add_argument("--slots", type=int)
    parser.add_argument("--width", type=int)
    parser.add_argument("--guard", type=float)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    kind, _, model = given.backend.partition(":")
    backend: Backend
    if kind == "transformers":
        backend = TransformersBackend(model, parallel=given.slots, width=given.width, context=1024)
    else:
        backend = load_backend(given.backend)
    device = given.device or ("cuda" if torch.cuda.is_available() else "cpu")
    trained = load_encoder(given.base, given.run, device)
    name = given.run.name if given.run else "base"
    encoder = TrainedEncoder(trained, name)
    asked = prompts(given.passages, given.genres, given.texts)
    config = GenerationConfig(max_tokens=200, max_sentences=14)
    if given.guard is not None:
        config = replace(config, most_repeated=given.guard)
    human: list[NDArray[np.float64]] = []
    for passage in read_passages(given.passages, split="heldout"):
        if passage["genre"] in given.genres and len(human) < 200:
            made = trained.encode(passage["sentences"])
            human.append(cosines_of(made))
    cosines = np.concatenate(human)
    points: dict[str, Point | None] = {
        text.replace("/", "-"): read_point(text, cosines) for text in given.points
    }
    if given.unmarked:
        points["unmarked"] = None
    for label, point in points.items():
        began = time.perf_counter()
        generations = write(backend, encoder, asked, point=point, keys=given.keys, config=config)
        head: dict[str, object] = {
            "encoder": name,
            "point": list(point.values()) if point else None,
            "seconds": time.perf_counter() - began,
            "texts": len(generations),
            "sentences": sum(len(generation.sentences) for _, _, generation in generations),
            "rep-4": mean_repetition([generation.text for _, _, generation in generations]),
            **account([generation for _, _, generation in generations]),
        }
        print(label, json.dumps(head), flush=True)
        save(given.out / f"{name}.{label}.jsonl", generations, head)


if __name__ == "__main__":
    main()
