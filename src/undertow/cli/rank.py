"""The launcher's options, and what a rank does for it: end when it ends, and report an uncaught exception to it."""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import signal
import sys
import time
import traceback
from pathlib import Path
from types import TracebackType

ERROR_FILE = "UNDERTOW_ERROR_FILE"  # where a rank writes its exception
LAUNCHER = "UNDERTOW_LAUNCHER"  # the launcher's process id
_PR_SET_PDEATHSIG = 1


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the launcher's options, which are torchrun's."""
    group = parser.add_argument_group("several processes (torchrun's options)")
    group.add_argument(
        "--nproc-per-node", "--nproc_per_node", metavar="N", help="start N ranks on this machine; also: auto, cpu, gpu"
    )
    group.add_argument("--nnodes", default="1", metavar="N", help="how many machines take part (default 1)")
    group.add_argument(
        "--node-rank", "--node_rank", type=int, default=0, metavar="K", help="the number of this machine"
    )
    group.add_argument(
        "--master-addr", "--master_addr", default="127.0.0.1", metavar="HOST", help="machine 0's address"
    )
    group.add_argument("--master-port", "--master_port", type=int, metavar="PORT", help="a free port of machine 0")
    group.add_argument(
        "--max-restarts", "--max_restarts", type=int, default=0, metavar="N", help="start all ranks again N times"
    )
    group.add_argument("--standalone", action="store_true", help=argparse.SUPPRESS)


def begin_rank() -> None:
    """In a rank of the launcher: end when the launcher ends, however it ends."""
    launcher = os.environ.get(LAUNCHER)
    if launcher is None or os.getppid() != int(launcher):
        return
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != int(launcher):
            sys.exit(1)


def show_error(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Show an uncaught exception: on stderr, or to the launcher."""
    path = os.environ.get(ERROR_FILE)
    if path is None:
        sys.__excepthook__(kind, error, trace)
        return
    report = {
        "time": time.time(),
        "lost_peer": bool(getattr(error, "lost_peer", False)),
        "traceback": "".join(traceback.format_exception(kind, error, trace)),
    }
    Path(path).write_text(json.dumps(report))
