"""Record PyTorch's draws on this machine's GPU: `python -m tests.gpu.record FILE`."""

from __future__ import annotations

import json
import sys

import torch

from tests.gpu.draws import CASES, SEEDS, checksum, drawn, sample


def main(path: str) -> None:
    gpu = torch.cuda.get_device_properties(0)
    recorded = {}
    for name, case in CASES.items():
        for n in case.sizes:
            for seed in SEEDS if n < 5000 else SEEDS[1:]:
                values, offset = drawn(torch, name, seed, n)
                found = {"offset": offset, "crc": checksum(values)}
                recorded[f"{name}/{n}/{seed}"] = found if case.exact else found | {"sample": sample(values)}
    about = {"torch": torch.__version__, "gpu": gpu.name, "processors": gpu.multi_processor_count,
             "threads": gpu.max_threads_per_multi_processor}  # fmt: skip
    with open(path, "w") as file:
        json.dump({"about": about, "draws": recorded}, file, indent=0)


if __name__ == "__main__":
    main(sys.argv[1])
