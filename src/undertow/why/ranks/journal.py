"""A rank's journal: its communication with other ranks, written while it runs, to be read even if it hangs or dies.

An entry is a line of JSON, and `kind` says what it is:

- start: the rank and its process. end: its program is over.
- begin, end, fail: a collective, a message, or a pass through DistributedDataParallel (`soft`: it computes, too).
- loader: a DataLoader has no more batches.
- values: checksums of the parameters that should be equal on all ranks, and the lines that wrote them since the last.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from undertow.why.places import Place

FOLDER = "UNDERTOW_WHY_RANKS"  # where the ranks' journals are
_STOP = "stop"  # the file that tells ranks to report and end
_LOOK = 0.2  # seconds between two looks for it


def line_of(place: Place | None) -> list[Any] | None:
    """Return a place as plain values: the file and line, then those of its callers."""
    return None if place is None else [[one.file, one.line] for one in place.chain()][:8]


class Journal:
    """The journal of this process's rank."""

    def __init__(self, folder: str, rank: int) -> None:
        self.folder, self.rank = Path(folder), rank
        self.process = os.getpid()
        self._file = os.open(self.folder / f"{rank}.journal", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self.add("start", rank=rank, process=self.process, world=int(os.environ.get("WORLD_SIZE", "1")))

    def add(self, kind: str, **entry: Any) -> None:
        """Write an entry; a forked copy of the process writes none."""
        if os.getpid() == self.process:
            os.write(self._file, (json.dumps({"kind": kind, **entry}) + "\n").encode())

    def report(self, **content: Any) -> None:
        """Write the rank's own findings, and end the journal."""
        new = self.folder / f"{self.rank}.report.new"
        new.write_text(json.dumps(content))
        os.replace(new, self.folder / f"{self.rank}.report")
        self.add("end")

    def stop_when_told(self, report: Callable[[FrameType | None], dict[str, Any]]) -> None:
        """When the ranks are told to stop, report from a thread and end the process: its main thread may hang.

        report: its argument is the frame that the main thread runs.
        """
        stop = self.folder / _STOP

        def wait() -> None:
            while not stop.exists():
                time.sleep(_LOOK)
            self.report(**report(sys._current_frames().get(threading.main_thread().ident or 0)))
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
            os._exit(1)

        threading.Thread(target=wait, name="undertow why", daemon=True).start()


def stop_all(folder: Path) -> None:
    """Tell the ranks of a folder to report and end."""
    (folder / _STOP).touch()


def read(folder: Path, rank: int) -> list[dict[str, Any]]:
    """Return the entries of a rank's journal."""
    try:
        lines = (folder / f"{rank}.journal").read_text().splitlines()
    except OSError:
        return []
    entries = []
    for line in lines:
        try:
            entries.append(json.loads(line))
        except ValueError:  # the rank was killed while it wrote
            break
    return entries


def report_of(folder: Path, rank: int) -> dict[str, Any]:
    """Return the report of a rank; empty if there is none."""
    try:
        return json.loads((folder / f"{rank}.report").read_text())
    except (OSError, ValueError):
        return {}
