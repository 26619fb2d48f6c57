"""The cost of detection, as ratios of times measured in the same run.

Absolute times depend on the machine; the ratio to the bare encoder, or to an empty Python process,
is comparable. Run it on an idle machine::

    python benchmarks/detection.py            # about ten minutes on two cores
    python benchmarks/detection.py --quick    # about two
    python benchmarks/detection.py --json result.json

It needs the default encoder and the corpus ``wiki100``, and downloads them if they are missing.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import hammingmark
from hammingmark.assembly.detection import detector
from hammingmark.assembly.encoders import load_encoder
from hammingmark.assembly.keys import new_key
from hammingmark.assembly.parts import load_splitter
from hammingmark.detection.detector import Detector
from hammingmark.detection.group import DetectorGroup
from hammingmark.encoders.wrappers import EncoderWrapper
from hammingmark.evaluation.datasets.corpora import load_corpus
from hammingmark.keys.key import WatermarkKey
from hammingmark.protocols import Encoder, FloatArray, Splitter
from hammingmark.records import Sentences
from hammingmark.stats.compare import compare
from hammingmark.watermarks._shared.hashing import project
from hammingmark.watermarks.bilinear import BilinearMark
from hammingmark.watermarks.hamming import HammingMark
from hammingmark.watermarks.hamming.statistics import STATISTICS

REFERENCES = 4000
SENTENCES = 10
LEAST_RATIO = 0.9
ROUND = 25  # texts; in short rounds a burst of other work affects every contender
Result = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--texts", type=int, default=1000, help="texts to judge (default 1000)")
    parser.add_argument("--quick", action="store_true", help="a tenth of the texts, fewer repeats")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures here")
    options = parser.parse_args()
    count = max(8, options.texts // 10) if options.quick else options.texts
    repeats = 3 if options.quick else 5

    encoder, splitter = load_encoder(), load_splitter()
    keys = {method: new_key(encoder, method=method) for method in ("bilinear", "hamming")}
    documents = list(islice(human_documents(splitter), count))
    encoder.encode(documents[0])
    result: Result = {"machine": machine(), "texts": len(documents), "references": REFERENCES}
    say("machine", ", ".join(f"{name} {value}" for name, value in result["machine"].items()))
    result["throughput"] = throughput(documents, encoder, splitter, keys)
    result["one_process"] = one_process(documents, encoder, splitter, keys["bilinear"])
    result["p_values"] = p_values(documents, encoder, keys, repeats=repeats)
    result["starts"] = starts(documents[0], repeats=repeats)
    result["threads"] = threads(repeats=30 * repeats)
    if options.json:
        options.json.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


def human_documents(splitter: Splitter) -> Iterator[list[str]]:
    """Runs of ten neighbouring sentences of Wikipedia articles, one per article in turn."""
    articles = [splitter.split(document.text).carrying for document in load_corpus("wiki100")]
    for start in range(0, max(map(len, articles)), SENTENCES):
        for article in articles:
            run = article[start : start + SENTENCES]
            if len(run) == SENTENCES:
                yield run


def throughput(
    documents: Sequence[list[str]],
    encoder: Encoder,
    splitter: Splitter,
    keys: Mapping[str, WatermarkKey],
) -> list[Result]:
    """Detection against the bare encoder on the same sentences.

    In each round every contender processes the same texts, in an order that rotates.
    """
    texts = [" ".join(document) for document in documents]
    ready = partial(detector, encoder=encoder, splitter=splitter, references=REFERENCES)
    judges = {f"hamming, {name}": ready(keys["hamming"], statistic=name) for name in STATISTICS}
    judges["bilinear"] = ready(keys["bilinear"])
    times: dict[str, list[float]] = {name: [] for name in ("encoder", *judges)}
    for turn, start in enumerate(range(0, len(texts), ROUND)):
        part = texts[start : start + ROUND]
        # The detector encodes each distinct sentence once.
        sentences = list(dict.fromkeys(s for text in part for s in splitter.split(text).carrying))
        arms: dict[str, Callable[[], object]] = {"encoder": partial(encoder.encode, sentences)}
        for name, judge in judges.items():
            arms[name] = partial(judge_all, judge, part)
        order = list(arms)
        for arm in order[turn % len(order) :] + order[: turn % len(order)]:
            times[arm].append(timed(arms[arm]))
    head("detection over the bare encoder, 4,000 reference keys", "of totals", "median", "lowest")
    rows = []
    for name in reversed(list(judges)):
        ratios = [
            bare / detection for bare, detection in zip(times["encoder"], times[name], strict=True)
        ]
        ratio = sum(times["encoder"]) / sum(times[name])
        figures: Result = {"ratio": ratio, "median": median(ratios), "lowest": min(ratios)}
        rows.append({"statistic": name, **figures, "rounds": ratios, "seconds": times[name]})
        verdict = "" if ratio >= LEAST_RATIO else f"   below {LEAST_RATIO}"
        line(name, f"{ratio:.3f}", f"{median(ratios):.3f}", f"{min(ratios):.3f}", end=verdict)
    speed = sum(map(len, documents)) / sum(times["encoder"])
    say("bare encoder", f"{speed:,.0f} sentences/s")
    return rows


def one_process(
    documents: Sequence[list[str]], encoder: Encoder, splitter: Splitter, key: WatermarkKey
) -> Result:
    """All texts with one detector: throughput, and shares of the time."""
    timed_splitter, timed_encoder = TimedSplitter(splitter), TimedEncoder(encoder)
    judge = detector(key, encoder=timed_encoder, splitter=timed_splitter, references=REFERENCES)
    texts = [" ".join(document) for document in documents]
    total = timed(partial(judge_all, judge, texts))
    shares = {
        "splitting": timed_splitter.seconds / total,
        "encoding": timed_encoder.seconds / total,
    }
    shares["comparing"] = 1.0 - sum(shares.values())
    head(f"{len(texts):,} texts of {SENTENCES} sentences in one process", "")
    line("texts/s", f"{len(texts) / total:.1f}")
    for name, share in shares.items():
        line(name, f"{share:.1%}")
    return {"texts_per_second": len(texts) / total, "seconds": total, "shares": shares}


def p_values(
    documents: Sequence[list[str]],
    encoder: Encoder,
    keys: Mapping[str, WatermarkKey],
    *,
    repeats: int,
) -> list[Result]:
    """The time of one text's p-value, and its share of the time with encoding."""
    computed = BilinearMark(keys["bilinear"])
    method = HammingMark(keys["hamming"])
    sentences = [sentence for document in documents for sentence in document]
    embeddings = encoder.encode(sentences[: repeats * 500])
    plans = {"1,000": (1000, 0), "4,000": (4000, 0), "16,000": (16000, 0)}
    plans["16,000, stopping"] = (16000, 100)  # Besag and Clifford's rule, as for several keys
    plans = {"bilinear": (0, 0), **plans}
    head("a p-value of one text: computed, and (margin) by K", *plans)
    rows = []
    for n in (5, 10, 50, 500):
        starts = range(0, n * max(1, min(repeats, len(embeddings) // n)), n)
        encoding = median(timed(partial(encoder.encode, sentences[i : i + n])) for i in starts)
        cells = []
        for name, (limit, stop) in plans.items():
            once: Callable[[FloatArray], object]
            if limit:
                once = partial(one_p_value, method, limit=limit, stop_after=stop)
            else:
                once = partial(one_computed, computed)
            once(embeddings[:n])  # reference keys are drawn once per process
            cost = median(timed(partial(once, embeddings[i : i + n])) for i in starts)
            share = cost / (cost + encoding)
            rows.append({"sentences": n, "references": name, "ms": 1e3 * cost, "share": share})
            cells.append(f"{1e3 * cost:.1f} ms {share:.1%}")
        line(f"{n} sentences", *cells)
    return rows


def starts(document: Sequence[str], *, repeats: int) -> Result:
    """The time of a fresh process, and its ratio to an empty Python process."""
    run = "from hammingmark.cli import main; main()"
    with tempfile.TemporaryDirectory() as folder:
        key, text = Path(folder) / "key.json", Path(folder) / "text.txt"
        text.write_text(" ".join(document), encoding="utf-8")
        python("-c", run, "keys", "new", "--out", str(key))
        commands = {
            "python -c pass": ("-c", "pass"),
            "import hammingmark": ("-c", "import hammingmark"),
            "hammingmark --help": ("-c", run, "--help"),
            "import numpy": ("-c", "import numpy"),
            "hammingmark detect, one text": ("-c", run, "detect", "--key", str(key), str(text)),
        }
        times: dict[str, list[float]] = {name: [] for name in commands}
        for _ in range(repeats):
            for name, command in commands.items():
                times[name].append(timed(partial(python, *command)))
    empty = median(times["python -c pass"])
    head(f"a fresh process, median of {repeats}", "ms", "over empty Python")
    result = {}
    for name, seconds in times.items():
        ratio = median(seconds) / empty
        result[name] = {"ms": 1e3 * median(seconds), "ratio": ratio}
        line(name, f"{1e3 * median(seconds):.0f}", f"{ratio:.1f}")
    return result


def threads(*, repeats: int) -> list[Result]:
    """Projection in small products against one product that the library runs on several threads.

    Twenty sentences, because the library computes a product for ten on one thread anyway. A pause
    before each product lets the threads fall asleep, so that waking them is measured.
    """
    rng = np.random.default_rng(1)
    embeddings = rng.standard_normal((20, 20), dtype=np.float32)
    planes = rng.standard_normal((20, 8000), dtype=np.float32)
    contenders = {
        "project(), small products": partial(project, embeddings, planes, bits=8),
        "one product": partial(np.matmul, embeddings, planes),
    }
    rows: list[Result] = []
    for state, neighbours in (("calm", 0), ("busy", os.cpu_count() or 1)):
        times: dict[str, list[float]] = {name: [] for name in contenders}
        with busy(neighbours):
            for _ in range(repeats):
                for name, work in contenders.items():
                    time.sleep(0.002)
                    times[name].append(timed(work))
        head(f"20 sentences x 1,000 keys, {state} machine", "median us", "mean us", "worst us")
        for name, seconds in times.items():
            figures = [
                1e6 * value
                for value in (median(seconds), sum(seconds) / len(seconds), max(seconds))
            ]
            rows.append({"state": state, "name": name, "median_mean_worst_us": figures})
            line(name, *(f"{value:.0f}" for value in figures))
        small, big = (sum(seconds) for seconds in times.values())
        line("one product over small products, on average", f"{big / small:.2f}")
    return rows


@contextmanager
def busy(neighbours: int) -> Iterator[None]:
    """Run other processes that leave no core idle."""
    running = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(neighbours)
    ]
    try:
        time.sleep(0.2 if running else 0.0)
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()


class TimedSplitter:
    """A splitter that measures its total time."""

    def __init__(self, inner: Splitter) -> None:
        self._inner, self.name, self.seconds = inner, inner.name, 0.0

    def split(self, text: str) -> Sentences:
        """Split and measure the time."""
        begin = time.perf_counter()
        sentences = self._inner.split(text)
        self.seconds += time.perf_counter() - begin
        return sentences

    def restarts(self, text: str, place: int) -> bool:
        """The answer of the splitter."""
        return self._inner.restarts(text, place)


class TimedEncoder(EncoderWrapper):
    """An encoder that measures its total time."""

    seconds = 0.0

    def encode(self, sentences: Sequence[str]) -> FloatArray:
        """Embed and measure the time."""
        begin = time.perf_counter()
        embeddings = self.inner.encode(sentences)
        self.seconds += time.perf_counter() - begin
        return embeddings


def judge_all(judge: Detector | DetectorGroup, texts: Sequence[str]) -> object:
    return list(judge.judge_many(texts))


def one_p_value(
    method: HammingMark, embeddings: FloatArray, *, limit: int, stop_after: int
) -> object:
    test = method.read(embeddings).test_given_topic("margin")
    return compare(test, limit=limit, stop_after=stop_after)


def one_computed(method: BilinearMark, embeddings: FloatArray) -> object:
    return compare(method.read(embeddings).test("likelihood"), limit=REFERENCES)


def timed(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def python(*arguments: str) -> None:
    subprocess.run([sys.executable, *arguments], check=True, capture_output=True)


def machine() -> Result:
    load = f"{os.getloadavg()[0]:.2f}" if hasattr(os, "getloadavg") else "?"
    return {
        "cores": os.cpu_count(),
        "load": load,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "hammingmark": hammingmark.__version__,
    }


def head(title: str, *columns: str) -> None:
    print(f"\n{title:<54}" + "".join(f"{column:>18}" for column in columns), flush=True)


def line(name: str, *cells: str, end: str = "") -> None:
    print(f"  {name:<52}" + "".join(f"{cell:>18}" for cell in cells) + end, flush=True)


def say(name: str, value: str) -> None:
    print(f"{name}: {value}", flush=True)


if __name__ == "__main__":
    main()
