"""Pools of ranks that tests share: starting a world costs seconds, a program in it milliseconds."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

WORKER = Path(__file__).parent / "worker.py"
PATIENCE = 60.0  # seconds that a program may take


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("", 0))
        return probe.getsockname()[1]


class Pool:
    """Ranks that run the programs of tests."""

    def __init__(self, engine: str, size: int) -> None:
        self.engine = engine
        shared = {
            **os.environ, "WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()),
            "OMP_NUM_THREADS": "1", "LOCAL_WORLD_SIZE": str(size),
        }  # fmt: skip
        self.ranks = [
            subprocess.Popen(
                [sys.executable, str(WORKER), engine],
                env={**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)},
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            )
            for rank in range(size)
        ]  # fmt: skip

    def run(self, program: str) -> list[list[str]]:
        """Run a program on all ranks and return each one's lines."""
        answers: list[Any] = [None] * len(self.ranks)

        def ask(number: int, process: subprocess.Popen[str]) -> None:
            assert process.stdin is not None and process.stdout is not None
            process.stdin.write(program + "\n")
            process.stdin.flush()
            answers[number] = process.stdout.readline()

        threads = [threading.Thread(target=ask, args=item, daemon=True) for item in enumerate(self.ranks)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
        if not all(answers):
            self.close()
            ended = [rank for rank, answer in enumerate(answers) if not answer]
            raise AssertionError(f"{program} on {self.engine}: no answer from ranks {ended} in {PATIENCE:g} s")
        found = [json.loads(answer) for answer in answers]
        errors = [f"rank {rank}: {answer['error']}" for rank, answer in enumerate(found) if "error" in answer]
        if errors:
            self.close()
            raise AssertionError(f"{program} on {self.engine}:\n" + "\n".join(errors))
        return [answer["lines"] for answer in found]

    @property
    def is_open(self) -> bool:
        return all(process.poll() is None for process in self.ranks)

    def close(self) -> None:
        for process in self.ranks:
            process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    with contextlib.suppress(OSError):
                        stream.close()


_pools: dict[tuple[str, int], Pool] = {}


def pool(engine: str, size: int = 2) -> Pool:
    """Return the pool of an engine, which is started when it is first needed."""
    found = _pools.get((engine, size))
    if found is None or not found.is_open:
        found = _pools[engine, size] = Pool(engine, size)
    return found


def close_all() -> None:
    while _pools:
        _pools.popitem()[1].close()
