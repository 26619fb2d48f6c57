"""How well written texts are found, as they are and after every sentence was rewritten.

    python -m training.evaluate --base FOLDER --run training/runs/NAME TEXTS --rewrites FILES

Human passages of the same length set the thresholds, key by key; the exact p-value needs none.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hammingmark.core import theory
from hammingmark.core.compare import compare
from hammingmark.core.statistics import STATISTICS, natural_acceptance
from hammingmark.evaluation.metrics import auroc, bootstrap, found_at, threshold_at
from hammingmark.evaluation.quality import mean_repetition
from hammingmark.pipeline.embedding import embed_texts
from hammingmark.records import TopicName
from hammingmark.watermarks.hamming import HammingMark
from training.measure import load_encoder
from training.rewrites import DATA, read_passages, read_rewrites
from training.write import TrainedEncoder, numbered_key

Embeddings = NDArray[np.float32]
TOPICS: tuple[TopicName, ...] = ("given", "free")


def scores(mark: HammingMark, texts: list[Embeddings]) -> dict[str, list[float]]:
    """Every statistic of every text, as its mean over the transitions."""
    found: dict[str, list[float]] = {name: [] for name in STATISTICS}
    for text in texts:
        evidence = mark.read(text).evidence
        for name in STATISTICS:
            found[name].append(evidence.mean(name))
    return found


def p_values(mark: HammingMark, texts: list[Embeddings], topic: TopicName) -> list[float]:
    """The exact p-values of the margin statistic."""
    read = [mark.read(text) for text in texts]
    tests = [
        each.test_given_topic("margin") if topic == "given" else each.test("margin")
        for each in read
    ]
    return [compare(test, limit=1999).p_value for test in tests]


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("texts", type=Path)
    parser.add_argument("--base", type=Path, required=True)
    parser.add_argument("--run", type=Path)
    parser.add_argument("--passages", type=Path, default=DATA / "passages.jsonl")
    parser.add_argument("--genres", nargs="*", default=["c4", "cnn"])
    parser.add_argument("--rewrites", type=Path, nargs="*", default=[])
    parser.add_argument("--unmarked", type=Path, help="unmarked texts of the same model")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rounds", type=int, default=400)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    encoder = load_encoder(given.base, given.run, given.device)
    named = TrainedEncoder(encoder, given.run.name if given.run else "base")
    with given.texts.open(encoding="utf-8") as file:
        head = json.loads(file.readline())
    rows = list(read_passages(given.texts))
    rows = [row for row in rows if len(row["sentences"]) >= 2]
    tables = {path.name.partition(".")[0]: read_rewrites(path) for path in given.rewrites}
    versions: dict[str, list[list[str]]] = {"clean": [row["sentences"] for row in rows]}
    for name, table in tables.items():
        versions[name] = [[table.get(s, s) for s in text] for text in versions["clean"]]
    length = int(np.median([len(text) for text in versions["clean"]]))
    human = [
        passage["sentences"][:length]
        for passage in read_passages(given.passages, split="heldout")
        if passage["genre"] in given.genres
    ]
    plain = []
    if given.unmarked:
        plain = [
            row["sentences"] for row in read_passages(given.unmarked) if len(row["sentences"]) >= 2
        ]
    made = {name: embed_texts(texts, encoder.encode) for name, texts in versions.items()}
    negatives = embed_texts(human, encoder.encode)
    others = embed_texts(plain, encoder.encode) if plain else []
    keys = np.array([row["key"] for row in rows])
    names = ("bits", "threshold", "softness", "residual")
    point = dict(zip(names, head["point"], strict=True))
    margins: dict[str, dict[str, list[float]]] = {}
    pooled: dict[str, dict[str, list[float]]] = {}
    exact: dict[str, list[float]] = {}
    false: dict[str, list[float]] = {}
    model_scores: dict[str, list[float]] = {name: [] for name in STATISTICS}
    human_scores: dict[str, list[float]] = {name: [] for name in STATISTICS}
    limits = []
    for number in np.unique(keys):
        mark = HammingMark(numbered_key(int(number), named, point))
        low = scores(mark, negatives)
        for name in STATISTICS:
            human_scores[name] += low[name]
        bars = {name: threshold_at(low[name], 0.01) for name in STATISTICS}
        if others:
            for name, values in scores(mark, others).items():
                model_scores[name] += values
        for version, texts in made.items():
            chosen = [texts[i] for i in np.flatnonzero(keys == number)]
            for name, values in scores(mark, chosen).items():
                over = [float(value > bars[name]) for value in values]
                margins.setdefault(version, {}).setdefault(name, []).extend(over)
                pooled.setdefault(version, {}).setdefault(name, []).extend(values)
            for topic in TOPICS:
                found = p_values(mark, chosen, topic)
                exact.setdefault(f"{version}/{topic}", []).extend(found)
        for topic in TOPICS:
            some = negatives[int(number) :: len(np.unique(keys))]
            false.setdefault(topic, []).extend(p_values(mark, some, topic))
        for i in np.flatnonzero(keys == number):
            cosines = [
                each.details["cosine"] for each in mark.read(made["clean"][i]).evidence.scores
            ]
            natural = natural_acceptance(np.array(cosines), rule=mark.rule)
            limits.append(theory.evidence_limit(natural))
    rng = np.random.default_rng(0)
    report: dict[str, object] = {
        **head,
        "length": length,
        "rep-4": mean_repetition([row["text"] for row in rows]),
        "bits_at_most": float(np.mean(limits)),
        "human_p": {topic: [found_at(p, 0.01), found_at(p, 0.05)] for topic, p in false.items()},
    }
    for version in made:
        cell: dict[str, object] = {}
        for name in STATISTICS:
            found = margins[version][name]
            low_end, high_end = bootstrap(
                lambda x: float(np.mean(x)), found, rng=rng, rounds=given.rounds
            )
            area = auroc(pooled[version][name], human_scores[name])
            figures: dict[str, object] = {
                "tpr@1%": round(float(np.mean(found)), 3),
                "interval": [round(low_end, 3), round(high_end, 3)],
                "auroc": round(area, 4),
            }
            cell[name] = figures
            if others:
                area = auroc(pooled[version][name], model_scores[name])
                figures["auroc_model"] = round(area, 4)
        for topic in TOPICS:
            p = np.array(exact[f"{version}/{topic}"])
            cell[f"exact/{topic}"] = {
                "tpr@1%": round(found_at(p, 0.01), 3),
                "tpr@5%": round(found_at(p, 0.05), 3),
                "bits": round(float(np.log2(1 / p).mean()), 2),
            }
        report[version] = cell
    text = json.dumps(report)
    print(text)
    if given.out:
        given.out.parent.mkdir(parents=True, exist_ok=True)
        given.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
