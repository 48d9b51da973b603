"""Compare undertow's draws on this machine's GPU with recorded ones of PyTorch there.

    python -m tests.gpu.record /tmp/draws.json && PYTHONPATH=src python -m tests.gpu.verify /tmp/draws.json

All are expected to be the same bits, but for gumbel_softmax, in which XLA's exponential takes part.
"""

from __future__ import annotations

import json
import sys

import undertow
from tests.gpu.draws import CASES, SEEDS, checksum, drawn, sample


def main(path: str) -> None:
    with open(path) as file:
        recorded = json.load(file)["draws"]
    same = 0
    for name, case in CASES.items():
        for n in case.sizes:
            values, offset = drawn(undertow, name, SEEDS[1], n)
            expected = recorded[f"{name}/{n}/{SEEDS[1]}"]
            if (offset, checksum(values)) == (expected["offset"], expected["crc"]):
                same += 1
                continue
            gaps = [abs(a - b) for a, b in zip(sample(values), expected.get("sample", ()), strict=False)]
            print(
                f"{name}, {n} elements: offset {offset} ({expected['offset']}), samples differ by {max(gaps, default=0)}"
            )
    print(f"{same} draws are the same bits")


if __name__ == "__main__":
    main(sys.argv[1])
