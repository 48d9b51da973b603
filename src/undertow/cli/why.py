"""`undertow why`: runs a program unchanged, watches its backward passes and hooks, and says what is wrong with them."""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import sys
import traceback
from typing import Any

from undertow.why.judge import judge
from undertow.why.page.data import page_data
from undertow.why.page.html import write_page
from undertow.why.page.recorder import Recorder
from undertow.why.script import Run
from undertow.why.show import show
from undertow.why.watch.watcher import DEFAULT_LIMIT

_TAKES_A_VALUE = ("--engine", "--limit", "--html")
_CANNOT_OPEN = 2  # Python's own exit code for this


def add_to(commands: Any) -> None:
    """Adds the command to a parser."""
    parser = commands.add_parser(
        "why",
        help="run a PyTorch program and say why its gradients and hooks do what they do",
        description="Runs a program and reports lost gradients, silent hooks, freed graphs and their kin, each with the "
        "line that causes it. Exit status: 0 healthy, 1 with findings.",
        usage="undertow why [-h] (script.py | -m module) [argument ...] [--engine ENGINE] [--json[=FILE]]\n"
        "                    [--html FILE] [--limit N]",
        epilog="Options may stand anywhere; what follows -- belongs to the program.",
    )
    parser.add_argument(
        "--engine", choices=("undertow", "torch", "auto"), default="auto",
        help="what runs the program; auto: real PyTorch if it is installed (default)",
    )  # fmt: skip
    parser.add_argument(
        "--json", nargs="?", const="-", metavar="FILE", help="findings as JSON, last on stdout, or in a file: --json=FILE"
    )
    parser.add_argument("--html", metavar="FILE", help="write a page: the graph, hooks, gradients over steps, findings")
    parser.add_argument(
        "--limit", type=int, default=DEFAULT_LIMIT, metavar="N",
        help=f"stop watching after N operations (default {DEFAULT_LIMIT})",
    )  # fmt: skip
    parser.add_argument("-m", dest="module", metavar="module", help="the program as a module, by its name")
    parser.add_argument("script", nargs="?", help="the program, then its own arguments")
    parse = parser.parse_known_args

    def parse_known_args(args: Any = None, namespace: Any = None) -> Any:
        ours, theirs = split(sys.argv[1:] if args is None else args)
        namespace, rest = parse(ours, namespace)
        namespace.arguments = theirs
        if not namespace.script and not namespace.module:
            parser.error("say which program to run")
        return namespace, rest

    parser.parse_known_args = parse_known_args
    parser.set_defaults(command=_why)


def split(arguments: list[str]) -> tuple[list[str], list[str]]:
    """(our options and the script, the program's own arguments)."""
    ours: list[str] = []
    theirs: list[str] = []
    script = False
    waiting = list(arguments)
    while waiting:
        argument = waiting.pop(0)
        if argument == "--":
            theirs += waiting
            break
        if argument == "--json":
            ours.append("--json=-")
        elif argument.startswith(("--json=", *(f"{name}=" for name in _TAKES_A_VALUE))):
            ours.append(argument)
        elif argument in _TAKES_A_VALUE:
            ours += [argument, *waiting[:1]]
            waiting = waiting[1:]
        elif script:
            theirs.append(argument)
        elif argument == "-m":
            ours += [argument, *waiting[:1]]
            waiting, script = waiting[1:], True
        else:
            ours.append(argument)
            script = not argument.startswith("-")
    return ours, theirs


def _why(arguments: argparse.Namespace) -> int:
    recorder = Recorder() if arguments.html else None
    target = os.path.abspath(arguments.html or "")  # the program may go to another folder
    if recorder is not None and not os.path.isdir(os.path.dirname(target)):
        print(f"undertow: there is no folder for {arguments.html!r}", file=sys.stderr)
        return _CANNOT_OPEN
    if arguments.engine == "torch" and importlib.util.find_spec("torch") is None:
        print("undertow: --engine torch needs PyTorch, which is not installed: pip install torch", file=sys.stderr)
        return _CANNOT_OPEN
    name, by_name = arguments.module or arguments.script, bool(arguments.module)
    run = Run(name, arguments.arguments, arguments.engine, arguments.limit, recorder, by_name)
    try:
        trace = run.go()
    except ImportError as error:
        if not by_name or error.name != name:
            raise
        print(f"undertow: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        if error.filename != run.path:
            raise
        print(f"undertow: can't open file {arguments.script!r}: {error.strerror}", file=sys.stderr)
        return _CANNOT_OPEN
    except SyntaxError as error:
        if error.filename != run.path:
            raise
        traceback.print_exception(error, limit=0)
        return 1
    run.print_error()
    sys.stdout.flush()
    findings = judge(trace)
    data = json.dumps([finding.as_data() for finding in findings], indent=2)
    if arguments.json == "-":
        print(data)
    else:
        if findings or (trace.complete and trace.ops):
            show(findings)
        elif trace.ops:
            print(f"No finding in the first {len(trace.ops)} operations; what came after them was not watched.")
        else:
            print("No finding: the program computed nothing with tensors.")
        if arguments.json:
            with open(arguments.json, "w", encoding="utf-8") as file:
                file.write(data + "\n")
    if recorder is not None:
        write_page(target, page_data(trace, findings, recorder, engine=run.engine))
        print(f"undertow: the page is in {arguments.html}", file=sys.stderr)
    if not trace.complete:
        print(f"undertow: watching ended early, after {len(trace.ops)} operations (--limit)", file=sys.stderr)
    for problem in trace.problems[:1]:
        print(f"undertow: the watcher itself failed at something:\n{problem}", file=sys.stderr)
    return 1 if findings or run.error is not None else run.status
