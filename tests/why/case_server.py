"""Runs case scripts under `why`, one engine per server process and one fork per script: the engine is imported once.

`Server(engine).run(script)` asks; `python -m tests.why.case_server ENGINE` answers, a path in, a line of JSON out.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).parents[2]


class Server:
    """One process that has imported an engine and forks for each script."""

    def __init__(self, engine: str, module: str = "tests.why.case_server") -> None:
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": f"{_ROOT / 'src'}{os.pathsep}{_ROOT}"}
        self.process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", module, engine],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, cwd=_ROOT, text=True,
        )  # fmt: skip
        atexit.register(self.close)

    def run(self, script: Path | str) -> dict[str, Any]:
        """{"findings": …, "error": the exception that ended the script, "problems": of the watcher itself}."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(f"{script}\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        return json.loads(answer) if answer.strip() else {"findings": [], "error": None, "problems": ["it died"]}

    def close(self) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


def _answer(path: str, engine: str) -> dict[str, Any]:
    from undertow.why.judge import judge
    from undertow.why.script import Run

    run = Run(path, [], engine)
    trace = run.go()
    return {
        "findings": [finding.as_data() for finding in judge(trace)],
        "error": None if run.error is None else f"{type(run.error).__name__}: {run.error}",
        "problems": trace.problems,
    }


def fork(path: str, engine: str, answer_of: Callable[[str, str], dict[str, Any]]) -> str:
    """The answer of a child process, whose own output goes nowhere."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.close(reading)
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, 1)
            os.dup2(nowhere, 2)
            try:
                answer = answer_of(path, engine)
            except BaseException as error:
                answer = {"findings": [], "error": None, "problems": [f"{type(error).__name__}: {error}"]}
            with os.fdopen(writing, "w") as file:
                file.write(json.dumps(answer))
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as file:
        answer_text = file.read()
    os.waitpid(child, 0)
    return answer_text


def _warm_up(torch: Any) -> None:
    """What an engine and its watcher prepare on first use is prepared before the forks."""
    net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU(), torch.nn.Linear(2, 1))
    optimizers = [torch.optim.SGD(net.parameters(), lr=0.1), torch.optim.Adam(net.parameters())]
    loss = torch.nn.functional.mse_loss(net(torch.randn(3, 2)), torch.zeros(3, 1))
    if torch.__name__ == "undertow":  # PyTorch's backward does not survive a fork
        loss.backward()
    for optimizer in optimizers:
        optimizer.zero_grad()
        optimizer.step()
    with tempfile.TemporaryDirectory() as folder:
        (empty := Path(folder) / "empty.py").touch()
        _answer(str(empty), torch.__name__)


def serve(engine: str, answer_of: Callable[[str, str], dict[str, Any]]) -> None:
    import undertow.why.judge
    import undertow.why.script  # noqa: F401

    _warm_up(importlib.import_module(engine))
    for line in sys.stdin:
        print(fork(line.strip(), engine, answer_of), flush=True)


if __name__ == "__main__":
    serve(sys.argv[1], _answer)
