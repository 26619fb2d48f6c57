"""Attackers who know the method but not the key: recovery, removal and spoofing.

Marked texts are chains of real sentences: a candidate is drawn from the sentences of one article
until the rule accepts it. In terms of embeddings this is how texts are marked, and it is fast
enough for ten thousand of them. Seeds are fixed::

    python -m research.studies.security --quick                    # some minutes on one core
    python -m research.studies.security --json result.json         # more keys, more texts
    python -m research.studies.security --preset robust --only recovery
    python -m research.studies.security --method hamming --preset default --encoder minilm-robust

It needs the corpus ``wiki100`` and an encoder, and downloads them if they are missing. Attacks on
texts of a language model are measured in ``attacks.py`` and ``oracle.py``.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from hammingmark.assembly.encoders import load_encoder
from hammingmark.assembly.parts import load_splitter
from hammingmark.detection.detector import Detector
from hammingmark.detection.reader import SentenceReader, embed_texts
from hammingmark.detection.search import EveryKey
from hammingmark.evaluation.datasets.corpora import load_corpus
from hammingmark.keys.config import EncoderId
from hammingmark.keys.key import Secret, WatermarkKey
from hammingmark.protocols import Encoder, FloatArray, Splitter
from hammingmark.watermarks.bilinear import BilinearConfig, BilinearMark
from hammingmark.watermarks.bilinear.config import ACCEPTANCE
from hammingmark.watermarks.hamming import HammingConfig, HammingMark
from hammingmark.watermarks.hamming.config import SHARES
from hammingmark.watermarks.hamming.soft import soft_acceptance, threshold_for
from hammingmark.watermarks.hamming.theory import match_probability
from research.cryptanalysis import bilinear_factors, forgery, recovery
from research.cryptanalysis.bilinear import score_correlation
from research.cryptanalysis.bilinear_factors import FormFactors
from research.cryptanalysis.forgery import Scorer, pass_rate
from research.cryptanalysis.recovery import Guess, neighbours, strangers

LEVEL = 0.01
SENTENCES = 10  # of a text
TRIES = 16  # candidates for a sentence, for the owner and a hasty forger
PATIENT_SENTENCES = 30  # a patient forger writes more, and draws more candidates for each
PATIENT_TRIES = 128
REWORDED = 0.9  # cosine of a sentence to its other versions, in experiments on embeddings
VERSIONS = 8
FORGERY = 0.05  # a key must be rotated when more forgeries than this pass
PARTS = ["recovery", "removal", "spoof"]
PRESETS = {"bilinear": list(ACCEPTANCE), "hamming": ["paper", *SHARES]}  # the first is the default
ENCODERS = {"bilinear": "minilm-mark", "hamming": "potion"}
MEASURES = {"bilinear": ("correlation", "of first"), "hamming": ("span", "planes")}
Result = dict[str, Any]
Mark = HammingMark | BilinearMark
BEGAN = time.monotonic()
_VERB = re.compile(r"\b(is|are|was|were)\b(?! not)")


@dataclass(frozen=True)
class World:
    """Embedded real sentences: articles of the owner, and others of the attacker."""

    encoder: Encoder
    splitter: Splitter
    owner: list[FloatArray]
    attacker: list[FloatArray]
    sentences: dict[bytes, str]
    cosine: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--method", choices=list(PRESETS), default="bilinear", help="of keys")
    parser.add_argument("--encoder", help="the watermark's (default: minilm-mark, hamming potion)")
    parser.add_argument("--keys", type=int, help="independent keys (default 5; quick 2)")
    parser.add_argument("--counts", type=int, nargs="+", help="numbers of marked texts")
    parser.add_argument("--preset", help="of keys (default: default, hamming paper)")
    parser.add_argument("--softness", type=float, help="of a soft ball (default the preset's)")
    parser.add_argument("--articles", type=int, help="most articles to embed")
    parser.add_argument("--sentences", type=int, help="most sentences of an article to embed")
    parser.add_argument("--embeddings", type=Path, metavar="FILE", help="store them here (.npz)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=PARTS, action="append")
    parser.add_argument("--quick", action="store_true", help="fewer keys and texts")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures here")
    options = parser.parse_args()
    options.encoder = options.encoder or ENCODERS[options.method]
    options.preset = options.preset or PRESETS[options.method][0]
    if options.preset not in PRESETS[options.method]:
        parser.error(f"--preset of this method: {', '.join(PRESETS[options.method])}")
    parts = options.only or PARTS
    largest = [] if options.quick else [30000]
    counts = sorted(options.counts or [100, 300, 1000, 3000, 10000, *largest])
    keys = options.keys or (2 if options.quick else 5)
    judged = 100 if options.quick else 400

    world = embed_world(options)
    marks = [make_mark(world, number, options) for number in range(keys)]
    rule = marks[0].key.config.summary
    result: Result = {
        "encoder": world.encoder.name,
        "dimension": world.encoder.dimension,
        "method": options.method,
        "preset": options.preset,
        "rule": rule,
        "keys": keys,
        "seed": options.seed,
        "level": LEVEL,
        "sentences": SENTENCES,
    }
    say(
        f"{options.method}, preset {options.preset}: {rule}; {world.encoder.name}, "
        f"d={world.encoder.dimension}; {sum(map(len, world.owner)):,} sentences of the owner; "
        f"{keys} keys; texts of {SENTENCES} sentences; level {LEVEL}"
    )

    def save() -> None:
        if options.json:
            options.json.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")

    if {"recovery", "removal"} & set(parts):
        curve, learned = recover(world, marks, counts, judged=judged, seed=options.seed)
        result["recovery"] = curve
        result["rotate"] = rotation(curve)
        save()
    if "removal" in parts:
        result["removal"] = removal(world, marks, learned, texts=judged // 2, seed=options.seed)
        save()
    if "spoof" in parts:
        result["spoof"] = spoof(world, marks[0], judged, seed=options.seed)
        save()


def embed_world(options: argparse.Namespace) -> World:
    """Embed sentences of encyclopedia articles; half of the articles are the owner's."""
    encoder, splitter = load_encoder(options.encoder), load_splitter()
    articles = []
    for document in load_corpus("wiki100"):
        cut = dict.fromkeys(splitter.split(document.text).carrying)
        usable = [each for each in cut if 40 <= len(each) <= 300][: options.sentences]
        if len(usable) >= 2 * PATIENT_SENTENCES:
            articles.append(usable)
    articles = articles[: options.articles]
    progress(f"embedding {sum(map(len, articles)):,} sentences of {len(articles)} articles")
    pools = embed_texts(articles, lambda rows: stored_embeddings(rows, encoder, options.embeddings))
    order = np.random.default_rng([options.seed, 1]).permutation(len(pools))
    near = np.mean([float((pool[1:] * pool[:-1]).sum(axis=1).mean()) for pool in pools])
    return World(
        encoder,
        splitter,
        owner=[pools[i] for i in order[::2]],
        attacker=[pools[i] for i in order[1::2]],
        sentences={
            row.tobytes(): sentence
            for pool, article in zip(pools, articles, strict=True)
            for row, sentence in zip(pool, article, strict=True)
        },
        cosine=float(near),
    )


def stored_embeddings(sentences: list[str], encoder: Encoder, file: Path | None) -> FloatArray:
    """Embeddings (n, d), read from a file if an earlier run stored the same ones there."""
    digest = hashlib.sha256("\n".join([encoder.fingerprint, *sentences]).encode()).hexdigest()
    if file and file.exists():
        with np.load(file) as stored:
            if str(stored["what"]) == digest:
                return np.asarray(stored["rows"], np.float32)
    rows = encoder.encode(sentences)
    if file:
        np.savez(file, rows=rows, what=digest)
    return rows


def make_mark(world: World, number: int, options: argparse.Namespace) -> Mark:
    """The mark of a seeded key; a softened ball of the paper accepts as often as the hard one."""
    secret = Secret(hashlib.sha256(f"security {options.seed} {number}".encode()).digest())
    encoder = EncoderId.of(world.encoder)
    if options.method == "bilinear":
        form = BilinearConfig.from_preset(options.preset, encoder=encoder)
        return BilinearMark(WatermarkKey(secret, form))
    softness = None if options.preset == "paper" else options.softness
    rule = HammingConfig.from_preset(options.preset, softness=softness, encoder=encoder)
    if options.preset == "paper" and options.softness:
        natural = match_probability(np.array([world.cosine]))
        share = float(soft_acceptance(rule.bits, rule.threshold, natural, softness=0.0)[0])
        threshold = threshold_for(rule.bits, share, world.cosine, softness=options.softness)
        rule = replace(rule, threshold=threshold, softness=options.softness)
    return HammingMark(WatermarkKey(secret, rule))


def true_key(mark: Mark) -> Guess | FormFactors:
    return FormFactors.of(mark.key) if isinstance(mark, BilinearMark) else Guess.of(mark.key)


def write_marked(
    world: World, mark: Mark, *, texts: int, rng: np.random.Generator
) -> list[FloatArray]:
    """Compose texts by the rule of a key from the owner's sentences."""
    begin = forgery.first_by_rule(mark) if isinstance(mark, BilinearMark) else None
    return forgery.compose(
        world.owner,
        forgery.by_rule(mark),
        texts=texts,
        sentences=SENTENCES,
        tries=TRIES,
        rng=rng,
        begin=begin,
    )


def recover(
    world: World, marks: Sequence[Mark], counts: Sequence[int], *, judged: int, seed: int
) -> tuple[list[Result], list[dict[int, Scorer]]]:
    """Measure recovery of the key from marked texts, and the forgeries that it allows."""
    moments = recovery.second_moment(np.concatenate(world.attacker))
    say(f"sentences differ in about {directions(moments):.0f} directions")
    if isinstance(marks[0], HammingMark) and marks[0].config.residual:
        new = recovery.new_moment(strangers(world.attacker))
        say(f"new parts differ in about {directions(new):.0f} directions")
    rows: dict[str, list[Result]] = {}
    learned: list[dict[int, Scorer]] = []

    def write(
        choose: forgery.Choose, begin: forgery.Open | None, way: list[int], *, patient: bool
    ) -> list[FloatArray]:
        return forgery.compose(
            world.attacker,
            choose,
            texts=judged,
            sentences=PATIENT_SENTENCES if patient else SENTENCES,
            tries=PATIENT_TRIES if patient else TRIES,
            rng=np.random.default_rng([seed, *way, patient]),
            begin=begin,
        )

    def judge(
        name: str,
        choose: forgery.Choose,
        begin: forgery.Open | None,
        mark: Mark,
        way: list[int],
    ) -> Result:
        """Count the texts of a hasty and of a patient forger that pass."""
        row: Result = {"of": judged}
        for forger in ("hasty", "patient"):
            forged = write(choose, begin, way, patient=forger == "patient")
            row[forger] = round(pass_rate(forged, mark, level=LEVEL) * judged)
        rows.setdefault(name, []).append(row)
        return row

    for number, mark in enumerate(marks):
        true = true_key(mark)
        begins = isinstance(mark, BilinearMark)
        progress(f"key {number + 1}: writing {max(counts):,} marked texts")
        rng = np.random.default_rng([seed, 2, number])
        marked = write_marked(world, mark, texts=max(counts), rng=rng)
        wrong = wrong_key(true, seed, number)
        forgers: dict[str, tuple[forgery.Choose, Scorer | None]] = {
            "the key": (forgery.by_guess(true), true),
            "nothing, and takes what comes": (forgery.by_nothing, None),
            "a wrong key": (forgery.by_guess(wrong), wrong),
            "the encoder, and takes the most similar": (most_similar, None),
        }
        if begins:
            forgers["the direction before first sentences"] = (forgery.by_nothing, true)
        for way, (name, (choose, first)) in enumerate(forgers.items()):
            begin = forgery.first_by_guess(first) if begins and first else None
            judge(name, choose, begin, mark, [4, number, way])
        guesses: dict[int, Scorer] = {}
        for count in counts:
            progress(f"key {number + 1}: learning from {count:,} texts")
            rng = np.random.default_rng([seed, 5, number, count])
            guess, measured = learn(world, mark, marked[:count], moments=moments, rng=rng)
            guesses[count] = guess
            begin = forgery.first_by_guess(guess) if begins else None
            dice = [6, number, count]
            judge(str(count), forgery.by_guess(guess), begin, mark, dice).update(measured)
        learned.append(guesses)
    measures = MEASURES[marks[0].name]
    head("a forger who knows", "hasty, passes", "patient, passes", *measures)
    table = []
    for name, each in rows.items():
        of = sum(row["of"] for row in each)
        figures: Result = {"knows": name, "of": of}
        for forger in ("hasty", "patient"):
            figures[forger] = sum(row[forger] for row in each) / of
        cells = [f"{figures[forger]:.1%} of {of}" for forger in ("hasty", "patient")]
        for measure in measures:
            if measure in each[0]:
                figures[measure] = float(np.mean([row[measure] for row in each]))
        cells += [f"{figures[k]:.2f}" for k in measures if k in figures]
        line(f"{int(name):,} marked texts" if name.isdigit() else name, *cells)
        table.append(figures)
    return table, learned


def learn(
    world: World,
    mark: Mark,
    marked: Sequence[FloatArray],
    *,
    moments: np.ndarray,
    rng: np.random.Generator,
) -> tuple[Scorer, Result]:
    """The best estimate of a key from marked texts, and its accuracy."""
    if isinstance(mark, BilinearMark):
        rule = mark.config
        form = bilinear_factors.learn(marked, rank=rule.rank, threshold=rule.threshold, rng=rng)
        correlations = score_correlation(form, FormFactors.of(mark.key), world.attacker, rng=rng)
        return form, dict(zip(MEASURES["bilinear"], correlations, strict=True))
    near, far = neighbours(marked), strangers(marked)
    m, fresh, true = mark.config.bits, mark.config.residual, Guess.of(mark.key)
    span = recovery.estimate_span(near, far, m, residual=fresh)
    guess = recovery.learn(near, far, m, residual=fresh, rng=rng)
    return guess, {
        "span": recovery.span_overlap(span.planes, true.planes, moments=moments),
        "planes": plane_cosine(guess.planes, true.planes, moments=moments),
    }


def wrong_key(true: Guess | FormFactors, seed: int, number: int) -> Guess | FormFactors:
    rng = np.random.default_rng([seed, 3, number])

    def other(array: FloatArray) -> FloatArray:
        return rng.standard_normal(array.shape).astype(np.float32)

    if isinstance(true, Guess):
        return replace(true, planes=other(true.planes))
    return FormFactors(other(true.before), other(true.after), other(true.beginning))


def most_similar(before: FloatArray, candidates: FloatArray) -> int:
    return int(np.argmax(candidates @ before))


def directions(moments: np.ndarray) -> float:
    """The effective number of directions: the participation ratio."""
    return float(np.trace(moments) ** 2 / np.square(moments).sum())


def plane_cosine(planes: FloatArray, true: FloatArray, *, moments: np.ndarray) -> float:
    """Mean correlation of each true plane's projections with those of the best estimated plane."""
    values, vectors = np.linalg.eigh(moments)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    first, second = (np.asarray(p @ root) for p in (planes, true))
    first /= np.linalg.norm(first, axis=1, keepdims=True)
    second /= np.linalg.norm(second, axis=1, keepdims=True)
    return float(np.abs(first @ second.T).max(axis=0).mean())


def rotation(curve: Sequence[Result]) -> Result:
    """The numbers of texts between which forgeries begin to pass too often."""
    result: Result = {"share": FORGERY}
    for forger in ("hasty", "patient"):
        counted = [(int(row["knows"]), row[forger]) for row in curve if row["knows"].isdigit()]
        after = min((count for count, rate in counted if rate > FORGERY), default=None)
        before = max((c for c, _ in counted if after is None or c < after), default=0)
        result[forger] = {"not_after": before, "after": after}
        limit = "any number tried" if after is None else f"{after:,}"
        say(f"more than {FORGERY:.0%} pass, {forger}: not after {before:,} texts, after {limit}")
    return result


def removal(
    world: World,
    marks: Sequence[Mark],
    learned: Sequence[dict[int, Scorer]],
    *,
    texts: int,
    seed: int,
) -> list[Result]:
    """Count the sentences to reword until the mark is not detected."""
    needed: dict[str, list[int | None]] = {}
    for number, mark in enumerate(marks):
        progress(f"key {number + 1}: removing marks")
        rng = np.random.default_rng([seed, 10, number])
        written = write_marked(world, mark, texts=texts, rng=rng)
        everything = np.concatenate(world.owner)
        true = true_key(mark)
        if isinstance(true, Guess):
            # Use soft scores also for a hard ball: a sign gives no direction to follow.
            true = replace(true, softness=true.softness or 0.3)
        ways: dict[str, Scorer | None] = {
            "blind": None,
            "a wrong key": wrong_key(true, seed, number),
        }
        ways |= {str(count): guess for count, guess in learned[number].items()}
        ways["the key"] = true
        for text in written:
            if forgery.p_value(text, mark) > LEVEL:
                continue
            versions = reword(text, everything, rng)
            for name, guess in ways.items():
                path = forgery.removal_path(text, versions, guess=guess, rng=rng)
                changes = forgery.changes_needed(path, mark, level=LEVEL)
                needed.setdefault(name, []).append(changes)
    say(f"\n{len(needed['blind'])} of {texts * len(marks)} marked texts are found")
    head(
        f"sentences to reword (cosine {REWORDED}, best of {VERSIONS}) until not found",
        "median",
        "in 3 or fewer",
        "never",
    )
    table = []
    for name, each in needed.items():
        median = float(np.median([SENTENCES + 1 if n is None else n for n in each]))
        quick = float(np.mean([n is not None and n <= 3 for n in each]))
        never = float(np.mean([n is None for n in each]))
        table.append(
            {"knows": name, "texts": len(each), "median": median, "in_3": quick, "never": never}
        )
        title = f"{int(name):,} marked texts" if name.isdigit() else name
        typical = f"{median:g} of {SENTENCES}" if median <= SENTENCES else f"more than {SENTENCES}"
        line(title, typical, f"{quick:.1%}", f"{never:.1%}")
    return table


def reword(text: FloatArray, everything: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Versions of each sentence at a fixed cosine, in the direction of other real sentences."""
    towards = everything[rng.integers(len(everything), size=(len(text), VERSIONS))].copy()
    towards -= (towards * text[:, None]).sum(axis=-1, keepdims=True) * text[:, None]
    towards /= np.linalg.norm(towards, axis=-1, keepdims=True)
    mixed = REWORDED * text[:, None] + np.sqrt(1.0 - REWORDED**2) * towards
    return np.asarray(mixed, np.float32)


def spoof(world: World, mark: Mark, count: int, *, seed: int) -> Result:
    """Foreign content under another's mark: added sentences, and an inserted "not"."""
    progress("spoofing")
    detector = make_detector(world, mark)
    texts = marked_texts(world, mark, count, seed=seed)
    rng = np.random.default_rng([seed, 13])
    own = list(world.sentences.values())
    head(f"{len(texts)} marked texts, all found before", "found", "or a passage")
    result: Result = {"of": len(texts), "added": []}
    for added in (0, 5, 10, 20, 40):
        foreign = [" ".join(own[i] for i in rng.integers(len(own), size=added)) for _ in texts]
        verdicts = list(
            detector.judge_many(f"{a} {b}" for a, b in zip(texts, foreign, strict=True))
        )
        whole = float(np.mean([bool(v.watermarked) for v in verdicts]))
        either = float(np.mean([bool(v.watermarked or v.passages) for v in verdicts]))
        result["added"].append({"sentences": added, "found": whole, "or_passage": either})
        line(f"and {added} sentences of somebody else behind them", f"{whole:.1%}", f"{either:.1%}")
    negated = [_VERB.sub(r"\1 not", text) for text in texts]
    changed = sum(len(_VERB.findall(text)) for text in texts) / (SENTENCES * len(texts))
    found = float(np.mean([bool(v.watermarked) for v in detector.judge_many(negated)]))
    result["negated"] = {"places_per_sentence": changed, "found": found}
    line(f'with "not" after is, are, was, were ({changed:.2f} a sentence)', f"{found:.1%}")
    return result


def make_detector(world: World, mark: Mark) -> Detector:
    return Detector(SentenceReader(world.splitter, world.encoder), EveryKey((mark,)), level=LEVEL)


def marked_texts(world: World, mark: Mark, count: int, *, seed: int) -> list[str]:
    """Texts of real sentences in a marked order, all of which are detected."""
    rng = np.random.default_rng([seed, 11])
    written = write_marked(world, mark, texts=3 * count, rng=rng)
    texts = [" ".join(world.sentences[row.tobytes()] for row in text) for text in written]
    whole = [t for t in texts if len(world.splitter.split(t).carrying) == SENTENCES]
    verdicts = make_detector(world, mark).judge_many(whole)
    return [t for t, verdict in zip(whole, verdicts, strict=True) if verdict.watermarked][:count]


def head(title: str, *columns: str) -> None:
    print(f"\n{title:<62}" + "".join(f"{column:>18}" for column in columns), flush=True)


def line(name: str, *cells: str) -> None:
    print(f"  {name:<60}" + "".join(f"{cell:>18}" for cell in cells), flush=True)


def say(message: str) -> None:
    print(message, flush=True)


def progress(message: str) -> None:
    print(f"[{time.monotonic() - BEGAN:5.0f} s] {message}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
