"""The coordinator in a separate process, for ranks that were started without undertow's launcher.

It runs as `python -m undertow._src.distributed.coordinator PORT SIZE` and ends when no rank is connected any more.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from undertow._src.distributed.runtime import require_jax, serve

_ESTABLISHED = "01"  # the state of a connection in /proc/net/tcp
_SOURCE = str(Path(__file__).resolve().parents[3])


def start(port: int, size: int) -> subprocess.Popen[bytes]:
    """Start a coordinator, which runs on after this process while others are connected to it."""
    require_jax()  # the coordinator's own error would not be seen
    paths = [_SOURCE, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    process = subprocess.Popen(
        [sys.executable, "-m", "undertow._src.distributed.coordinator", str(port), str(size)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
    )  # fmt: skip
    assert process.stdout is not None
    if process.stdout.readline() != b"ready\n":
        raise RuntimeError(f"no coordinator can listen on port {port}: the port is taken")
    _kept.append(process)
    return process


_kept: list[Any] = []  # its pipe stays open until this process ends


def is_connected(port: int) -> bool:
    """Whether a process is connected to this port of the machine."""
    for name in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            lines = Path(name).read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            local, state = line.split()[1], line.split()[3]
            if state == _ESTABLISHED and int(local.rpartition(":")[2], 16) == port:
                return True
    return False


def linger(port: int) -> None:
    """Wait until no process is connected to a port."""
    while is_connected(port):
        time.sleep(0.5)


def main(port: int, size: int) -> None:
    """Serve until the process that started this one has ended and all ranks have left."""
    service = serve(port, size)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.buffer.read()
    linger(port)
    del service
    os._exit(0)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
