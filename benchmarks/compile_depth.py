"""How long a step takes to compile, by the depth of the model: is it linear, and what does the cache on disk save?

    python -m benchmarks.compile_depth [--layers 2,8,32] [--hooks "forward and clamp"]

The step trains the GPT of `logging_hooks`, with hooks of that file's kinds. Each row is two processes: the first starts
with an empty cache, the second with what the first left there. Times are the processor's, of the first two calls, in
seconds, and what of the first process's went into reading source, tracing, and XLA.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time


def measure(layers: int, hooks: str) -> dict[str, float]:
    """Return the times of this process."""
    from benchmarks.logging_hooks import Sizes, built
    from benchmarks.real_models import Tables, watch_the_compiler
    from undertow import compile

    tables, sizes = Tables(), Sizes(large=False)
    watch_the_compiler(tables)
    sizes.layers = layers
    step = compile(built(hooks, sizes, "cpu")[0])
    begin = time.process_time()
    for _ in range(2):
        step().item()
    return {"calls": time.process_time() - begin, **tables.seconds}


def in_a_process(layers: int, hooks: str, cache: str) -> dict[str, float]:
    """Return the times of a new process, with a folder for compiled programs."""
    command = [sys.executable, "-m", "benchmarks.compile_depth", "--one", str(layers), "--hooks", hooks]
    environment = {**os.environ, "UNDERTOW_CACHE": cache, "OMP_NUM_THREADS": "1"}
    return json.loads(subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", default="2,8,32", help="how many blocks the models have")
    parser.add_argument("--hooks", default="", help="kinds of hooks: forward, backward, item, clamp")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one is not None:
        print(json.dumps(measure(options.one, options.hooks)))
        return
    print("| layers | two calls, CPU s | reading | tracing | XLA | with the cache |\n|---|---|---|---|---|---|")
    for layers in map(int, options.layers.split(",")):
        with tempfile.TemporaryDirectory() as cache:
            first, second = (in_a_process(layers, options.hooks, cache) for _ in range(2))
        cells = [first["calls"], *(first.get(part, 0.0) for part in ("reading", "tracing", "XLA")), second["calls"]]
        print(f"| {layers} | " + " | ".join(f"{cell:.1f}" for cell in cells) + " |", flush=True)


if __name__ == "__main__":
    main()
