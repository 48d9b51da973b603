"""`undertow debug`: run a PyTorch program on undertow and stop in its backward passes."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

from undertow.cli import run
from undertow.why.debug.debugger import debug
from undertow.why.debug.prompt import Quit
from undertow.why.debug.stops import KINDS


def add_to(commands: Any) -> None:
    """Add the command to a parser."""
    kinds = "\n".join(f"  {kind:10} {text}" for kind, text in KINDS.items())
    parser = commands.add_parser(
        "debug",
        help="run a PyTorch program on undertow and go through its backward passes in steps",
        description="Runs a program on undertow and stops in its backward passes. The command help lists the others.",
        usage="undertow debug [-h] [--stop STOP]... [--command COMMAND]... (script.py | -m module) [argument ...]",
        epilog=f"stops:\n{kinds}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--stop", action="append", metavar="STOP", help="what to stop at; without one, each pass's start"
    )
    parser.add_argument(
        "--command", dest="typed", action="append", default=[], metavar="COMMAND",
        help="a command for the first prompt; the next ones come from further options, then from standard input",
    )  # fmt: skip
    parser.add_argument("-m", dest="module", nargs=argparse.REMAINDER, metavar="module", help="a module, its arguments")
    parser.add_argument("script", nargs=argparse.REMAINDER, help="the program and its arguments")
    parser.set_defaults(command=lambda arguments: _debug(parser, arguments))


def _debug(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> int:
    script = None if arguments.module or not arguments.script else os.path.abspath(arguments.script[0])
    try:
        debugger = debug(arguments.stop or "start", arguments.typed, script)
    except ValueError as error:
        parser.error(str(error))
    status = 1
    try:
        status = run.run(parser, arguments.module, arguments.script)
    except Quit:
        print("undertow: the program was ended", file=sys.stderr)
    finally:
        missing = debugger.close()
        for text in missing:
            print(f"undertow debug: error: {text}", file=sys.stderr)
    return 2 if missing else status
