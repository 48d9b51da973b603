"""A rank of a pool: runs functions that tests name, on undertow or on PyTorch, and returns the lines that they show.

`python worker.py ENGINE`, with torchrun's variables. Each request is a line `module:function` on stdin; the answer is a
line of JSON on stdout. Functions get `torch` and `show`, in a process group that all requests share, and what follows the
function's name after a space.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import traceback
import warnings
from datetime import timedelta
from typing import Any

REPOSITORY = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def main(engine: str) -> None:
    sys.path[:0] = [REPOSITORY, os.path.join(REPOSITORY, "src")]
    torch: Any = importlib.import_module("torch" if engine == "torch" else "undertow")
    torch.set_num_threads(1)
    answers, sys.stdout = os.fdopen(os.dup(1), "w"), sys.stderr
    os.dup2(2, 1)  # Gloo writes to stdout, too
    torch.distributed.init_process_group("gloo", timeout=timedelta(seconds=30))
    warnings.simplefilter("ignore")
    warnings.filterwarnings("error", category=RuntimeWarning)
    for request in sys.stdin:
        module, _, function = request.strip().partition(":")
        function, *more = function.split(" ", 1)
        lines: list[str] = []
        answer: dict[str, Any] = {"lines": lines}
        try:
            getattr(importlib.import_module(module), function)(
                torch, lambda *values, lines=lines: lines.append(" ".join(map(str, values))), *more
            )
        except BaseException:
            answer["error"] = traceback.format_exc()
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main(sys.argv[1])
