"""Runs case scripts under `why` on two ranks, both forked from a process that has imported the engine.

`Server(engine, "tests.why.rank_server").run(script)` asks; see `case_server`.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.why.case_server import fork

_STILL = 1.0  # seconds without progress after which ranks hang


class _Process:
    """A forked process, as `subprocess` shows one."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.returncode: int | None = None

    def poll(self) -> int | None:
        if self.returncode is None:
            ended, status = os.waitpid(self.number, os.WNOHANG)
            if ended:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode


class _Rank:
    def __init__(self, number: int, process: _Process) -> None:
        self.number, self.process = number, process


def _rank(path: str, engine: str) -> None:
    """Run a script in a rank, to its end."""
    from undertow.cli.why_ranks import journal_of, rank_report
    from undertow.why.script import Run

    run = Run(path, [], engine, journal=(journal := journal_of()), alone=True)
    assert journal is not None
    journal.stop_when_told(lambda frame: rank_report(run, frame))
    run.go()
    journal.report(**rank_report(run))
    os._exit(1 if run.error is not None else 0)


def _answer(path: str, engine: str) -> dict[str, Any]:
    from undertow._src.distributed.joining import HOSTED
    from undertow._src.distributed.runtime import free_port, serve
    from undertow.cli.why_ranks import watch
    from undertow.why.ranks.journal import FOLDER
    from undertow.why.ranks.monitor import Monitor
    from undertow.why.ranks.report import judge_ranks
    from undertow.why.ranks.states import read_ranks

    port, ranks = free_port(), []
    shared = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    with tempfile.TemporaryDirectory() as name:
        os.environ.update(shared, **{FOLDER: name}, **({HOSTED: f"127.0.0.1:{port}"} if engine == "undertow" else {}))
        for number in range(2):
            child = os.fork()
            if not child:
                os.environ.update(RANK=str(number), LOCAL_RANK=str(number))
                try:
                    _rank(path, engine)
                finally:
                    os._exit(1)
            ranks.append(_Rank(number, _Process(child)))
        service = serve(port, 2) if engine == "undertow" else None  # after the forks: it has threads
        watch(Path(name), ranks, Monitor(Path(name), [0, 1], 30.0, _STILL))
        for rank in ranks:
            if rank.process.poll() is None:
                os.kill(rank.process.number, signal.SIGKILL)
        found = read_ranks(Path(name), [0, 1], {})
        del service
    return {
        "findings": [finding.as_data() for finding in judge_ranks(found)],
        "error": next((rank.report["traceback"] for rank in found if rank.report.get("traceback")), None),
        "problems": [problem for rank in found for problem in rank.report.get("problems", ())],
    }


def main(engine: str) -> None:
    importlib.import_module(engine)
    importlib.import_module("undertow.cli.why_ranks")
    if engine == "undertow":
        with suppress(ImportError):
            importlib.import_module("jax")
    for line in sys.stdin:
        print(fork(line.strip(), engine, _answer), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
