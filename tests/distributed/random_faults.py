"""Random faults of ranks: what the survivors get, how soon, and whether a process aborts or hangs.

`python -m tests.distributed.random_faults [--count 100] [--seed 0] [--ranks 3]`. Ranks are forked from one process that has
imported JAX. Each fault happens at a random step of a program that goes through collectives, messages, objects and
DistributedDataParallel. A survivor must end with a Python exception that names the rank, and the line where it waited.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

FAULTS = ("kill", "kill any time", "terminate", "raise", "leave", "absent", "other op", "other shape", "coordinator")
TIMEOUT = 2.0  # seconds, of the group, where a rank is absent
WAIT_FOR_EACH_OTHER = ("absent", "other op", "other shape")  # with messages between them, even in different collectives
BOUND = dict.fromkeys(WAIT_FOR_EACH_OTHER, TIMEOUT + 2.0)  # seconds until all survivors have their exception
_STEPS = 12
_PATIENCE = 25.0  # seconds after which a rank hangs


def _step(torch: Any, kind: int, model: Any) -> None:
    dist = torch.distributed
    rank, size = dist.get_rank(), dist.get_world_size()
    if kind == 0:
        dist.all_reduce(torch.ones(3))
    elif kind == 1:
        dist.all_reduce(torch.ones(300_000), async_op=True).wait()
    elif kind == 2:
        dist.all_gather_object([None] * size, {"rank": rank})
    elif kind == 3:
        works = [dist.isend(torch.ones(2), (rank + 1) % size), dist.irecv(torch.zeros(2), (rank - 1) % size)]
        for work in works:
            work.wait()
    elif kind == 4:
        dist.barrier()
    else:
        model(torch.randn(4, 8)).pow(2).mean().backward()


def _rank(fault: str, victim: int, step: int, seed: int, folder: Path, coordinator: int) -> None:
    import undertow as torch

    dist = torch.distributed
    order = random.Random(seed)
    kinds = [order.randrange(6) for _ in range(_STEPS)]
    delay = order.random() * 0.2
    rank = int(os.environ["RANK"])
    happened = folder / "happened"
    try:
        dist.init_process_group("gloo", timeout=timedelta(seconds=TIMEOUT if fault in WAIT_FOR_EACH_OTHER else 60))
        model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 8))
        for number, kind in enumerate(kinds):
            if number == step and rank == victim:
                happened.write_text(str(time.time()))
                _happen(torch, fault, delay, coordinator)
            _step(torch, kind, model)
            if number >= step:
                time.sleep(0.01)
        for _ in range(200):  # a fault that came late is met here
            dist.barrier()
            time.sleep(0.01)
    except BaseException as error:
        (folder / f"{rank}.error").write_text(f"{time.time()}\n{type(error).__name__}: {error}")
        raise


def _happen(torch: Any, fault: str, delay: float, coordinator: int) -> None:
    own = os.getpid()
    if fault == "kill":
        os.kill(own, signal.SIGKILL)
    elif fault == "kill any time":
        threading.Timer(delay, os.kill, (own, signal.SIGKILL)).start()
    elif fault == "terminate":
        os.kill(own, signal.SIGTERM)
    elif fault == "raise":
        raise ValueError("this rank says no")
    elif fault == "leave":
        sys.exit(0)
    elif fault == "absent":
        time.sleep(_PATIENCE)
    elif fault == "other op":
        torch.distributed.broadcast(torch.ones(5), 0)
    elif fault == "other shape":
        torch.distributed.all_reduce(torch.ones(7))
    else:
        os.kill(coordinator, signal.SIGKILL)


def _forked(body: Any, silent: bool = True) -> int:
    child = os.fork()
    if child:
        return child
    if silent:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
    try:
        body()
        sys.exit(0)
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 0
    except BaseException:
        sys.last_value = sys.exc_info()[1]  # as Python does before it finalizes
        code = 1
    import atexit

    atexit._run_exitfuncs()
    os._exit(code)


def _serve(port: int, size: int) -> None:
    from undertow._src.distributed.runtime import serve

    service = serve(port, size)
    time.sleep(_PATIENCE * 2)
    del service


def run_fault(fault: str, seed: int, size: int) -> dict[str, Any]:
    """Cause one fault; return how each rank ended, what survivors were told, and the seconds until the last of them was."""
    from undertow._src.distributed.joining import HOSTED
    from undertow._src.distributed.runtime import free_port

    choice = random.Random(seed)
    victim, step, port = choice.randrange(size), choice.randrange(_STEPS), free_port()
    os.environ.update({"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(size)})
    os.environ[HOSTED] = f"127.0.0.1:{port}"
    folder = Path(tempfile.mkdtemp())  # no context manager: ranks, which are forks, would end it
    coordinator = _forked(lambda: _serve(port, size))
    children = {}
    for rank in range(size):
        os.environ["RANK"] = os.environ["LOCAL_RANK"] = str(rank)
        children[rank] = _forked(lambda: _rank(fault, victim, step, seed, folder, coordinator))
    codes: dict[int, int] = {}
    end = time.monotonic() + _PATIENCE
    while len(codes) < size and time.monotonic() < end:
        for rank, child in children.items():
            if rank not in codes:
                ended, status = os.waitpid(child, os.WNOHANG)
                if ended:
                    codes[rank] = os.waitstatus_to_exitcode(status)
        if set(range(size)) - {victim} <= codes.keys() and fault == "absent":
            break
        time.sleep(0.02)
    hung = [rank for rank in children if rank not in codes and not (fault == "absent" and rank == victim)]
    for rank, child in children.items():
        if rank not in codes:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    os.kill(coordinator, signal.SIGKILL)
    os.waitpid(coordinator, 0)
    begun = float(happened.read_text()) if (happened := folder / "happened").exists() else None
    told = {
        rank: file.read_text().split("\n", 1)
        for rank in range(size) if rank != victim and (file := folder / f"{rank}.error").exists()
    }  # fmt: skip
    shutil.rmtree(folder)
    seconds = max((float(at) - begun for at, _ in told.values()), default=0.0) if begun is not None else 0.0
    return {
        "fault": fault, "victim": victim, "step": step, "seed": seed, "codes": codes, "hung": hung, "seconds": seconds,
        "has begun": begun is not None,
        "untold": [rank for rank in range(size) if rank not in (victim, *told)],
        "unnamed": [
            rank for rank, (_, text) in told.items()
            if begun is not None and f"rank {victim}" not in text and "coordinator" not in text
        ],
        "told": {rank: text for rank, (_, text) in told.items()},
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--ranks", type=int, default=3)
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    import jax  # noqa: F401

    import undertow.distributed  # noqa: F401

    counts: Counter[str] = Counter()
    slowest: dict[str, float] = {}
    for number in range(options.count):
        fault = FAULTS[number % len(FAULTS)]
        found = run_fault(fault, options.seed + number, options.ranks)
        counts["faults"] += 1
        aborted = [rank for rank, code in found["codes"].items() if code in (-signal.SIGABRT, -signal.SIGSEGV)]
        counts["not begun"] += not found["has begun"]  # the ranks did not join in time, and say so
        late = found["seconds"] > BOUND.get(fault, 3.0)
        for name, bad in (("aborted", aborted), ("hung", found["hung"]), ("untold", found["untold"]),
                          ("unnamed", found["unnamed"]), ("late", late)):  # fmt: skip
            counts[name] += bool(bad)
        slowest[fault] = max(slowest.get(fault, 0.0), found["seconds"])
        if options.verbose or aborted or found["hung"] or found["untold"] or found["unnamed"] or late:
            print(found, flush=True)
    print(dict(counts))
    print("slowest exception, seconds after the fault:", {name: round(value, 2) for name, value in slowest.items()})
    sys.exit(bool(counts["aborted"] or counts["hung"]))


if __name__ == "__main__":
    main()
