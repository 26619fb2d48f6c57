"""What generation accepts, detection counts: on every processor, with any number of threads.

``OPENBLAS_CORETYPE`` lets one machine use the kernels of another. Each runs in a process of its
own, because the linear algebra library reads the variable when it is loaded.
"""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys

import numpy as np
import pytest

from hammingmark.keys.config import EncoderId
from hammingmark.keys.key import Secret, WatermarkKey
from hammingmark.watermarks._shared.hashing import project_in_order
from hammingmark.watermarks._shared.similarity import cosines
from hammingmark.watermarks.hamming import HammingMark

KERNELS = ("Haswell", "Zen", "Sandybridge", "Prescott", "SkylakeX")
DIMENSION = 384


def unit(rows: np.ndarray) -> np.ndarray:
    return (rows / np.linalg.norm(rows, axis=-1, keepdims=True)).astype(np.float32)


def digest_of_scores() -> str:
    """Score transitions alone, among candidates and within texts; a digest of all scores.

    Raises:
        AssertionError: a transition's score depends on what is computed beside it.
    """
    rng = np.random.default_rng(0)
    digest = hashlib.sha256()
    for config in HammingMark.examples(EncoderId("test", "ab" * 32, DIMENSION)).values():
        for _ in range(5):
            mark = HammingMark(WatermarkKey(Secret(rng.bytes(32)), config))
            text = unit(rng.standard_normal((40, DIMENSION)) + 0.5)
            candidates = unit(rng.standard_normal((16, DIMENSION)) + 0.5)
            scores = mark.choose(text[-1], candidates).scores
            for i, candidate in enumerate(candidates):
                alone = mark.choose(text[-1], candidate[None])
                for length in (1, 7, 40):
                    whole = np.vstack([text[-length:], candidate])
                    last = mark.read(whole).evidence.scores[-1]
                    assert last.score == scores[i] == alone.scores[0]
                    assert last.valid is alone.accepted
                own = mark.read(whole).test("edge_vote").increments
                assert bool(own[-1]) is alone.accepted
            digest.update(np.array(scores).tobytes())
    return digest.hexdigest()


def run_as(kernel: str, threads: int) -> subprocess.CompletedProcess[str]:
    script = (
        "from tests.contract.test_every_processor import digest_of_scores\n"
        "print(digest_of_scores())"
    )
    variables = {"OPENBLAS_CORETYPE": kernel, "OPENBLAS_NUM_THREADS": str(threads)}
    return subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_score_does_not_depend_on_what_is_computed_with_it() -> None:
    told = {}
    for kernel in KERNELS:
        # Two threads share out a product in another order; one kernel without them suffices.
        for threads in (1, 2) if kernel == KERNELS[0] else (2,):
            done = run_as(kernel, threads)
            if done.returncode == -signal.SIGILL:  # this processor lacks the instructions
                continue
            assert done.returncode == 0, f"{kernel}, {threads} threads: {done.stderr[-2000:]}"
            told[kernel, threads] = done.stdout
    assert len(told) >= 2
    assert len(set(told.values())) == 1, f"kernels disagree: {told}"


@pytest.mark.parametrize("order", ["C", "F"])
def test_nor_on_how_embeddings_lie_in_memory(order: str) -> None:
    rng = np.random.default_rng(1)
    rows = unit(rng.standard_normal((300, DIMENSION)))  # more than are projected at a time
    planes = rng.standard_normal((8, DIMENSION)).astype(np.float32)
    whole = project_in_order(rows, planes)
    turned = np.asarray(rows, order=order)  # type: ignore[call-overload]
    np.testing.assert_array_equal(project_in_order(turned, planes), whole)
    np.testing.assert_array_equal(cosines(turned), cosines(rows))
    for i in (0, 17, 255, 256, 299):
        np.testing.assert_array_equal(project_in_order(turned[i : i + 1], planes), whole[i : i + 1])
    np.testing.assert_allclose(whole[:, 0], rows @ planes.T, atol=1e-5)
