"""The command line: `undertow run script.py`, `undertow why script.py`, `undertow debug script.py`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version

from undertow.cli import debug, run, why


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command that the arguments name and return the exit code."""
    parser = argparse.ArgumentParser(
        prog="undertow", description="PyTorch's autograd and hooks, in Python. Runs programs that say `import torch`."
    )
    parser.add_argument("--version", action="version", version=f"undertow {_version()}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="run|why|debug")
    run.add_to(commands)
    why.add_to(commands)
    debug.add_to(commands)
    arguments = parser.parse_args(sys.argv[1:] if argv is None else argv)
    arguments.alone = argv is None  # the process belongs to the command
    return arguments.command(arguments)


def _version() -> str:
    try:
        return version("undertow")
    except PackageNotFoundError:  # run from a source folder
        return "(not installed)"
