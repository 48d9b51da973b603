"""`undertow run --nproc-per-node N`: the launcher. It starts the ranks, hosts their coordinator, and ends them all.

Each rank is a process with torchrun's variables. Its output is passed on line by line, each after the rank's number. A
rank's uncaught exception goes to a file instead of stderr, so that the first one can be shown once, after everything
else.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, BinaryIO

from undertow._src.distributed import coordinator
from undertow._src.distributed.joining import HOSTED
from undertow._src.distributed.runtime import free_port, serve
from undertow.cli.rank import ERROR_FILE, LAUNCHER

_SETTLE = 1.0  # seconds after the first failure in which others may report theirs
_GRACE = 3.0  # seconds between SIGTERM and SIGKILL


@dataclass
class Rank:
    """A rank's process, and the threads that read its output."""

    number: int
    process: subprocess.Popen[bytes]
    error_file: Path
    readers: list[threading.Thread] = field(default_factory=list)

    def error(self) -> dict[str, Any]:
        """Return what the rank reported before it ended."""
        try:
            return json.loads(self.error_file.read_text())
        except (OSError, ValueError):
            return {}

    def end(self) -> str:
        """Return how the rank ended, in words."""
        code = self.process.returncode
        if code is not None and code < 0:
            return f"rank {self.number} was killed by {signal.Signals(-code).name}"
        return f"rank {self.number} exited with code {code}"


class Stopped(BaseException):
    """A signal has told the launcher to stop."""


def launch(options: argparse.Namespace, program: list[str]) -> int:
    """Start the ranks, again if they may restart, and return the exit code."""
    nodes = machines(options.nnodes)
    local = processes(options.nproc_per_node)
    if nodes > 1 and options.master_port is None:
        options.master_port = 29500
    for name in (signal.SIGTERM, signal.SIGINT):
        signal.signal(name, stop)
    for attempt in range(options.max_restarts + 1):
        code = _attempt(options, program, nodes, local, attempt)
        if code == 0 or attempt == options.max_restarts:
            return code
        print(f"undertow: starting all ranks again ({attempt + 1} of {options.max_restarts})", file=sys.stderr)
    return 1


def processes(asked: str) -> int:
    """Return the number of ranks that an option asks for."""
    if asked in ("auto", "cpu"):
        return os.cpu_count() or 1
    if asked == "gpu":
        raise SystemExit("undertow: --nproc-per-node gpu: ranks run on CPUs; say a number")
    if not asked.isdecimal() or int(asked) < 1:
        raise SystemExit(f"undertow: --nproc-per-node {asked}: say how many ranks to start, or auto")
    return int(asked)


def machines(asked: str) -> int:
    """Return the number of machines that an option asks for: `2`, or the larger number of `1:2`."""
    number = asked.rpartition(":")[2]
    if not number.isdecimal() or int(number) < 1:
        raise SystemExit(f"undertow: --nnodes {asked}: say how many machines take part")
    return int(number)


def host(port: int, size: int) -> Any:
    """Start the coordinator in this process; without JAX, end with a message."""
    try:
        return serve(port, size)
    except ModuleNotFoundError as error:
        raise SystemExit(f"undertow: {error}") from None


def stop(number: int, frame: FrameType | None) -> None:
    """Handle a signal: end the launcher."""
    raise Stopped(number)


def _attempt(options: argparse.Namespace, program: list[str], nodes: int, local: int, attempt: int) -> int:
    size = nodes * local
    port = free_port() if options.master_port is None else options.master_port + attempt
    service = host(port, size) if options.node_rank == 0 and size > 1 else None
    command = [sys.executable, "-m", "undertow", "run", *program]
    hosted = {HOSTED: f"{options.master_addr}:{port}", "TORCHELASTIC_USE_AGENT_STORE": "True"}
    ranks: list[Rank] = []
    with tempfile.TemporaryDirectory(prefix="undertow") as folder:
        try:
            for number in range(local):
                ranks.append(start(options, command, nodes, local, number, attempt, port, Path(folder), hosted))
            failed = _wait(ranks)
        except Stopped as stopped:
            number = int(stopped.args[0])
            for name in (signal.SIGTERM, signal.SIGINT):
                signal.signal(name, signal.SIG_IGN)
            end(ranks, signal.Signals(number))
            return 128 + number
        except BaseException:
            end(ranks, signal.SIGTERM)
            raise
        if failed is None and service is not None and nodes > 1:
            coordinator.linger(port)
        del service
        if failed is None:
            return 0
        _show_failure(failed)
        return 1


def start(
    options: argparse.Namespace, command: list[str], nodes: int, local: int, number: int, attempt: int, port: int,
    folder: Path, variables: dict[str, str],
) -> Rank:  # fmt: skip
    """Start a rank, with torchrun's variables and these."""
    rank = options.node_rank * local + number
    error_file = folder / f"rank{rank}.json"
    environment = {
        **os.environ,
        "RANK": str(rank), "LOCAL_RANK": str(number), "WORLD_SIZE": str(nodes * local),
        "LOCAL_WORLD_SIZE": str(local), "GROUP_RANK": str(options.node_rank), "GROUP_WORLD_SIZE": str(nodes),
        "ROLE_RANK": str(rank), "ROLE_WORLD_SIZE": str(nodes * local), "ROLE_NAME": "default",
        "MASTER_ADDR": options.master_addr, "MASTER_PORT": str(port), "TORCHELASTIC_RUN_ID": "none",
        "TORCHELASTIC_RESTART_COUNT": str(attempt), "TORCHELASTIC_MAX_RESTARTS": str(options.max_restarts),
        ERROR_FILE: str(error_file), LAUNCHER: str(os.getpid()), "PYTHONUNBUFFERED": "1",
        **variables,
    }  # fmt: skip
    if local > 1:
        environment.setdefault("OMP_NUM_THREADS", "1")
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    started = Rank(rank, process, error_file)
    for stream, target in ((process.stdout, sys.stdout), (process.stderr, sys.stderr)):
        reader = threading.Thread(target=_prefix, args=(stream, target, rank), daemon=True)
        reader.start()
        started.readers.append(reader)
    return started


_writing = threading.Lock()


def _prefix(stream: BinaryIO, target: Any, rank: int) -> None:
    """Pass on a rank's output, each line after the rank's number."""
    for line in stream:
        text = line.decode(errors="replace")
        with _writing:
            target.write(f"[rank{rank}]: {text}" if text.endswith("\n") else f"[rank{rank}]: {text}\n")
            target.flush()


def _wait(ranks: list[Rank]) -> Rank | None:
    """Wait until all ranks ended well, or one failed; then end the others. Return the rank that failed first."""
    exits: dict[int, float] = {}
    while len(exits) < len(ranks):
        _collect(ranks, exits, None)
        failed = [rank for rank in ranks if rank.process.returncode]
        if failed:
            until = time.monotonic() + _SETTLE
            while len(exits) < len(ranks) and time.monotonic() < until:
                _collect(ranks, exits, 0.05)
            before = [rank for rank in ranks if rank.process.returncode]
            end([rank for rank in ranks if rank.process.returncode is None], signal.SIGTERM)
            drain(ranks)
            return min(before, key=lambda rank: _order(rank, exits))
    drain(ranks)
    return None


def _order(rank: Rank, exits: dict[int, float]) -> tuple[bool, float]:
    """Order failures: a rank that only lost its peers comes after those that failed themselves."""
    error = rank.error()
    return (bool(error.get("lost_peer")), error.get("time", exits[rank.number]))


def _collect(ranks: list[Rank], exits: dict[int, float], pause: float | None) -> None:
    """Wait for a rank to end, or for a pause, and note the ranks that have."""
    if pause is None:
        waiting = [rank for rank in ranks if rank.number not in exits]
        if waiting and not any(rank.process.poll() is not None for rank in waiting):
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
    else:
        time.sleep(pause)
    for rank in ranks:
        if rank.number not in exits and rank.process.poll() is not None:
            exits[rank.number] = time.time()


def end(ranks: list[Rank], how: signal.Signals) -> None:
    """End ranks: with a signal first, with SIGKILL if they stay."""
    for rank in ranks:
        if rank.process.poll() is None:
            rank.process.send_signal(how)
    end = time.monotonic() + _GRACE
    for rank in ranks:
        try:
            rank.process.wait(max(0.0, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            rank.process.kill()
            rank.process.wait()


def drain(ranks: list[Rank]) -> None:
    """Pass on the rest of the ranks' output; a process that a rank has started may hold its pipe open."""
    for rank in ranks:
        for reader in rank.readers:
            reader.join(1.0)


def _show_failure(rank: Rank) -> None:
    text = rank.error().get("traceback")
    with _writing:
        sys.stdout.flush()
        print(f"undertow: {rank.end()}; all ranks were ended" + (":" if text else "."), file=sys.stderr)
        if text:
            print(text.rstrip("\n"), file=sys.stderr)
