"""Evidence left after sentences are joined in pairs, by joints known to the detector or not.

    python -m research.studies.joints --texts 60 --keys 0 1 --cache FOLDER

Every family of joints of the attack ``merge-sentences``, on texts marked by the default models
under several keys, detected with and without edits. ``unseen`` and ``bare`` were held out when the
detector's rule for seams was chosen, on the texts of key 0 alone.
"""

from __future__ import annotations

from typing import get_args

import numpy as np

from hammingmark.assembly.parts import load_attack
from hammingmark.attacks.boundaries import Family
from hammingmark.evaluation.metrics import found_at
from research.studies.attacks import Bench, arguments

UNTOUCHED = "untouched"


def main() -> None:
    parser = arguments(str(__doc__).partition("\n")[0])
    parser.add_argument("--keys", type=int, nargs="+", default=[0, 1], help="their numbers (0 1)")
    parser.add_argument("--share", type=float, default=0.5, help="joined to the one before (0.5)")
    options = parser.parse_args()
    p_values: dict[str, list[list[float]]] = {}
    texts = 0
    for number in options.keys:
        options.key = number
        bench = Bench(options)
        texts += len(bench.texts)
        for family in (UNTOUCHED, *get_args(Family)):
            joined = bench.texts if family == UNTOUCHED else join(bench, family, options.share)
            rows = p_values.setdefault(family, [[], []])
            for values, edits in zip(rows, (False, True), strict=True):
                options.edits = edits
                values += bench.p_values(joined)
    print(f"{texts} texts under {len(options.keys)} keys")
    print("| joints | found at 1 % | evidence, bits | found, --edits | evidence, --edits |")
    print("|---|---|---|---|---|")
    for family, rows in p_values.items():
        cells = [f"{found_at(p, 0.01):.2f} | {-np.log2(p).mean():.2f}" for p in rows]
        print(f"| {family} | " + " | ".join(cells) + " |")


def join(bench: Bench, family: str, share: float) -> list[str]:
    """The texts with sentences joined, each with its own random generator."""
    attack = load_attack(
        "merge-sentences", splitter=bench.splitter, parameters={"share": share, "joints": family}
    )
    return [
        attack.apply([text], rng=np.random.default_rng(number))[0]
        for number, text in enumerate(bench.texts)
    ]


if __name__ == "__main__":
    main()
