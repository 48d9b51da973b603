"""`undertow why` on several ranks: start them, or join those that torchrun started, and print one report."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import FrameType
from typing import Any

from undertow._src.distributed.joining import HOSTED
from undertow._src.distributed.runtime import free_port
from undertow.cli.launch import Rank, Stopped, drain, end, host, machines, processes, start, stop
from undertow.cli.why_output import write_report
from undertow.why.judge import judge
from undertow.why.ranks.journal import FOLDER, Journal, read, stop_all
from undertow.why.ranks.monitor import Monitor
from undertow.why.ranks.report import first_failed, judge_ranks, outcome_of
from undertow.why.ranks.states import read_ranks
from undertow.why.script import Run, choose_engine
from undertow.why.show import verdict, was_judged
from undertow.why.watch.ranks import is_lost

_TICK = 0.1  # seconds between two checks of the ranks
_LAST_WORDS = 5.0  # seconds that ranks have to report when one has failed, or when they were told to stop


def launch(arguments: argparse.Namespace) -> int:
    """Start the ranks under `why` on this machine, and report."""
    engine = choose_engine(arguments.engine)
    local, nodes = processes(arguments.nproc_per_node), machines(arguments.nnodes)
    port = arguments.master_port or (free_port() if nodes == 1 else 29500)
    variables: dict[str, str] = {}
    service: Any = None
    if engine == "undertow":
        variables = {HOSTED: f"{arguments.master_addr}:{port}", "TORCHELASTIC_USE_AGENT_STORE": "True"}
        service = host(port, nodes * local) if arguments.node_rank == 0 and nodes * local > 1 else None
    command = [sys.executable, "-m", "undertow", "why", "--engine", engine, "--limit", str(arguments.limit)]
    for name in ("steps", "sample"):
        value = getattr(arguments, name)
        command += [] if value is None else [f"--{name}", str(value)]
    command += ["-m", arguments.module] if arguments.module else [arguments.script]
    command += ["--", *arguments.arguments]
    for one in (signal.SIGTERM, signal.SIGINT):
        signal.signal(one, stop)
    ranks: list[Rank] = []
    with tempfile.TemporaryDirectory(prefix="undertow") as name:
        folder = Path(name)
        try:
            for number in range(local):
                given = {**variables, FOLDER: name}
                page = ["--html", arguments.html] if arguments.html and not number else []
                whole = [*command[:6], *page, *command[6:]]
                ranks.append(start(arguments, whole, nodes, local, number, 0, port, folder, given))
            watch(folder, ranks, Monitor(folder, [rank.number for rank in ranks], arguments.patience))
        except Stopped:
            for one in (signal.SIGTERM, signal.SIGINT):
                signal.signal(one, signal.SIG_IGN)
            stop_all(folder)
            _collect(ranks, _LAST_WORDS)
        finally:
            end(ranks, signal.SIGTERM)
            drain(ranks)
        del service
        killed = {
            rank.number: signal.Signals(-rank.process.returncode).name
            for rank in ranks if (rank.process.returncode or 0) < 0 and not _has_report(folder, rank.number)
        }  # fmt: skip
        return report(arguments, folder, [rank.number for rank in ranks], killed)


def _has_report(folder: Path, number: int) -> bool:
    return (folder / f"{number}.report").exists()


def watch(folder: Path, ranks: list[Any], monitor: Monitor) -> None:
    """Wait until all ranks have ended; end them if they hang, or if one has failed."""
    while any(rank.process.poll() is None for rank in ranks):
        time.sleep(_TICK)
        over = {rank.number for rank in ranks if rank.process.poll() is not None}
        if any(rank.process.returncode for rank in ranks):
            _collect(ranks, _LAST_WORDS)
        if any(rank.process.returncode for rank in ranks) or monitor.hangs(over):
            stop_all(folder)
            _collect(ranks, _LAST_WORDS)
            return


def _collect(ranks: list[Any], seconds: float) -> None:
    until = time.monotonic() + seconds
    while any(rank.process.poll() is None for rank in ranks) and time.monotonic() < until:
        time.sleep(_TICK)


def report(arguments: argparse.Namespace, folder: Path, numbers: list[int], killed: dict[int, str]) -> int:
    """Print the report of all ranks, and return the exit status."""
    ranks = read_ranks(folder, numbers, killed)
    findings = judge_ranks(ranks)
    failed = first_failed(ranks)
    if failed is not None:
        print(f"undertow: rank {failed.number} raised:\n{failed.report['traceback']}", end="", file=sys.stderr)
    for rank in ranks:
        for problem in rank.report.get("problems", ())[:1]:
            print(f"undertow: the watcher itself failed on rank {rank.number}:\n{problem}", file=sys.stderr)
    status = max([1 if killed or failed is not None else 0, *(rank.report.get("status", 0) for rank in ranks)])
    status = 1 if any(not finding.is_note for finding in findings) else status
    write_report(arguments, outcome_of(ranks), findings, os.getcwd(), status)
    return status


# --- in a rank


def journal_of() -> Journal | None:
    """Return the journal of this process, if it is one of several ranks under `why`."""
    rank = os.environ.get("RANK")
    if rank is None or int(os.environ.get("WORLD_SIZE", "1")) < 2:
        return None
    folder = os.environ.get(FOLDER)
    if folder is None:  # torchrun, or another launcher, has started the ranks: they meet by its process
        port = os.environ.get("MASTER_PORT", "0")
        folder = os.path.join(tempfile.gettempdir(), f"undertow-why-{os.getuid()}-{os.getppid()}-{port}")
        os.makedirs(folder, mode=0o700, exist_ok=True)
    return Journal(folder, int(rank))


def begin_reporter(arguments: argparse.Namespace, journal: Journal) -> subprocess.Popen[bytes] | None:
    """In a rank that a launcher of others started: start the process that reports, if this is the first local rank."""
    if FOLDER in os.environ or os.environ.get("LOCAL_RANK", os.environ["RANK"]) != "0":
        return None
    local = int(os.environ.get("LOCAL_WORLD_SIZE", os.environ["WORLD_SIZE"]))
    options = [f"--engine={arguments.engine}", f"--format={arguments.format}", f"--patience={arguments.patience}"]
    options += [f"--{name}={value}" for name in ("json", "output") if (value := getattr(arguments, name))]
    command = [sys.executable, "-m", "undertow.cli.why_ranks", str(journal.folder), str(journal.rank), str(local)]
    return subprocess.Popen([*command, *options], start_new_session=True)


def rank_report(run: Run, frame: FrameType | None = None) -> dict[str, Any]:
    """Return what this rank reports at its end, or at the line where it was told to stop."""
    watcher, trace = run.watcher, run.trace
    assert watcher is not None
    stopped: dict[str, Any] = {}
    if frame is not None:
        place = watcher.places.of(frame)
        stopped = {"where": None if place is None else [place.file, place.line]}
        watcher.ranks.journal = None
    error: dict[str, Any] | None = None
    if run.error is not None and trace.error is not None:
        place = trace.error.place
        error = {
            "type": trace.error.type, "message": trace.error.message, "lost": is_lost(run.error), "time": time.time(),
            "file": None if place is None else place.file, "line": None if place is None else place.line,
        }  # fmt: skip
    try:
        findings = [] if error is not None and error["lost"] else judge(trace)
        names = watcher.ranks.names()
    except Exception as problem:  # the program was stopped in the middle
        watcher.record_problem(problem)
        findings, names = [], {}
    status = run.status if run.error is None else 1
    return {
        "findings": [finding.as_data() for finding in findings], "error": error, "traceback": run.error_text(),
        "verdict": verdict(trace), "judged": was_judged(trace), "problems": trace.problems, "status": status,
        "names": names, **stopped,
    }  # fmt: skip


def main() -> int:
    """Report for ranks that another launcher started: `python -m undertow.cli.why_ranks FOLDER FIRST COUNT [options]`."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("first", type=int)
    parser.add_argument("count", type=int)
    for option in ("--engine", "--format", "--json", "--output"):
        parser.add_argument(option)
    parser.add_argument("--patience", type=float)
    arguments = parser.parse_args()
    folder, numbers = Path(arguments.folder), list(range(arguments.first, arguments.first + arguments.count))
    monitor = Monitor(folder, numbers, arguments.patience)
    alone_since: float | None = None
    while True:
        time.sleep(_TICK)
        over = {number for number in numbers if _is_over(folder, number)}
        if len(over) == len(numbers):
            break
        failed = any(rank.report.get("error") for rank in read_ranks(folder, sorted(over), {}))
        missing = over and any(not _has_report(folder, number) for number in over)
        if failed or missing:
            alone_since = alone_since or time.monotonic()
        if monitor.hangs(over) or (alone_since is not None and time.monotonic() - alone_since > _LAST_WORDS):
            stop_all(folder)
            until = time.monotonic() + _LAST_WORDS
            while time.monotonic() < until and not all(_is_over(folder, number) for number in numbers):
                time.sleep(_TICK)
            break
    killed = {number: "a signal" for number in numbers if not _has_report(folder, number)}
    status = report(arguments, folder, numbers, killed)
    for file in folder.iterdir():
        file.unlink()
    folder.rmdir()
    return status


def _is_over(folder: Path, number: int) -> bool:
    """Whether a rank has reported, or its process is gone."""
    if _has_report(folder, number):
        return True
    entries = read(folder, number)
    return bool(entries) and not os.path.exists(f"/proc/{entries[0]['process']}")


if __name__ == "__main__":
    sys.exit(main())
