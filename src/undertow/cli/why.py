"""`undertow why`: runs a program unchanged, observes its backward passes and hooks, and reports what is wrong."""

from __future__ import annotations

import argparse
import ast
import importlib.util
import os
import sys
import traceback
from difflib import get_close_matches
from typing import Any

from undertow._src.base.lazy import whole_module
from undertow.cli import rank
from undertow.cli.run import cannot_open
from undertow.cli.why_output import write_report
from undertow.why.formats import FORMATS
from undertow.why.judge import judge
from undertow.why.page.data import page_data
from undertow.why.page.html import write_page
from undertow.why.page.recorder import Recorder
from undertow.why.ranks.monitor import DEFAULT_PATIENCE
from undertow.why.script import INTERRUPTED, Run
from undertow.why.show import outcome
from undertow.why.source import Source, source
from undertow.why.watch.watcher import DEFAULT_LIMIT

_RANKS = (
    "--nproc-per-node", "--nproc_per_node", "--nnodes", "--node-rank", "--node_rank", "--master-addr", "--master_addr",
    "--master-port", "--master_port", "--max-restarts", "--max_restarts", "--patience",
)  # fmt: skip
_TAKES_A_VALUE = ("--engine", "--format", "--output", "--steps", "--sample", "--limit", "--html", *_RANKS)
_OPTIONS = ("--json", *_TAKES_A_VALUE)
_DERIVING = frozenset(
    "absl clize cyclopts defopt fire jsonargparse plac pydantic_settings simple_parsing transformers typer tyro".split()
)
_CANNOT_OPEN = 2  # Python's own exit code for this


def add_to(commands: Any) -> None:
    """Add the command to a parser."""
    parser = commands.add_parser(
        "why",
        allow_abbrev=False,
        help="run a PyTorch program and say why its gradients and hooks do what they do",
        description="Runs a program and reports lost gradients, silent hooks, freed graphs and their kin, each with the "
        "line that causes it. Exit status: 0 healthy or with notes only, 1 with findings.",
        usage="undertow why [-h] [--engine ENGINE] [--json [FILE.json]] [--format FORMAT] [--output FILE]\n"
        "                    [--html FILE] [--steps N] [--sample N] [--limit N] [--nproc-per-node N ...]\n"
        "                    (script.py | -m module) [argument ...]",
        epilog="These options may also follow the program, unless it has one of the same name itself. What follows -- "
        "belongs to the program.",
    )
    parser.add_argument(
        "--engine", choices=("undertow", "torch", "auto"), default="auto",
        help="what runs the program; auto: real PyTorch if it is installed (default)",
    )  # fmt: skip
    parser.add_argument(
        "--json", nargs="?", const="-", metavar="FILE.json", help="findings as JSON, last on stdout, or in a file"
    )
    parser.add_argument(
        "--format", choices=FORMATS, default="text", help="how to write the findings; github: workflow annotations"
    )
    parser.add_argument("--output", metavar="FILE", help="write them to a file instead of stdout")
    parser.add_argument("--html", metavar="FILE", help="write a page: the graph, hooks, gradients over steps, findings")
    parser.add_argument("--steps", type=_positive, metavar="N", help="end the program after N steps of an optimizer")
    parser.add_argument(
        "--sample", type=_positive, metavar="N",
        help="for long runs: watch N steps in full, then only gradients for NaN, at nearly no cost",
    )  # fmt: skip
    parser.add_argument(
        "--limit", type=int, default=DEFAULT_LIMIT, metavar="N",
        help=f"stop watching after N operations (default {DEFAULT_LIMIT})",
    )  # fmt: skip
    rank.add_options(parser)
    parser.add_argument(
        "--patience", type=float, default=DEFAULT_PATIENCE, metavar="SECONDS",
        help=f"on ranks: how long one may wait for another that is elsewhere (default {DEFAULT_PATIENCE:g})",
    )  # fmt: skip
    parser.add_argument("-m", dest="module", metavar="module", help="the program as a module, by its name")
    parser.add_argument("script", nargs="?", help="the program, then its own arguments")
    parse = parser.parse_known_args

    def parse_known_args(args: Any = None, namespace: Any = None) -> Any:
        ours, theirs = split(sys.argv[1:] if args is None else args)
        namespace, rest = parse(ours, namespace)
        namespace.arguments = theirs
        if rest:
            close = get_close_matches(rest[0], _OPTIONS, 1)
            parser.error(f"there is no option {rest[0]}" + (f"; is {close[0]} meant?" if close else ""))
        if not namespace.script and not namespace.module:
            parser.error("say which program to run")
        return namespace, rest

    parser.parse_known_args = parse_known_args
    parser.set_defaults(command=_why)


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of steps: say 1 or more")
    return int(text)


def split(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Return (undertow's options and the script, the program's arguments).

    After the program's name, an option of undertow belongs to the program if its source defines one of that name.
    """
    ours: list[str] = []
    theirs: list[str] = []
    program: str | None = None
    waiting = list(arguments)
    while waiting:
        argument = waiting.pop(0)
        name = argument.partition("=")[0]
        if argument == "--" and program is not None:
            theirs += waiting
            break
        if argument.startswith("--") and name in _OPTIONS and (program is None or not _has_option(program, name)):
            ours.append(argument)
            if argument == "--json":
                ours[-1] = f"--json={waiting.pop(0) if waiting and waiting[0].endswith('.json') else '-'}"
            elif argument in _TAKES_A_VALUE:
                ours += [waiting.pop(0)] if waiting else []
        elif program is not None:
            theirs.append(argument)
        elif argument == "-m":
            program = _file_of(waiting[0]) if waiting else None
            ours += [argument, *waiting[:1]]
            waiting = waiting[1:]
        else:
            ours.append(argument)
            program = None if argument.startswith("-") else argument
    return ours, theirs


def _file_of(module: str) -> str:
    """Return the file of a module run with `-m`, if it is in the current folder."""
    path = os.path.join(*module.split("."))
    return os.path.join(path, "__main__.py") if os.path.isdir(path) else f"{path}.py"


def _has_option(program: str, name: str) -> bool:
    """Whether a program, or a neighbouring file that it imports, defines a command line option of this name.

    The option is a string in the source, or a library derives it from a parameter or a field.
    """
    file = source(os.path.abspath(program))
    files = [file, *map(source, file.imported)]
    if any(f"{quote}{name}{quote}" in "".join(part.lines) for part in files for quote in "'\""):
        return True
    return any(map(_derives_options, files)) and any(name[2:] in _named(part) for part in files)


def _derives_options(file: Source) -> bool:
    """Whether a file imports a library that derives command line options from functions, dataclasses or names."""
    modules: list[str | None] = []
    for node in ast.walk(file.tree):
        if isinstance(node, ast.Import):
            modules += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            modules.append(node.module)
    return any((module or "").partition(".")[0] in _DERIVING for module in modules)


def _named(file: Source) -> set[str]:
    """Return every parameter, annotated field and string of a file."""
    found: set[str] = set()
    for node in ast.walk(file.tree):
        if isinstance(node, ast.arg):
            found.add(node.arg)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found.add(node.target.id)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.add(node.value)
    return found


def _refusal(arguments: argparse.Namespace) -> str:
    """Return why a program cannot be started; empty if it can."""
    for option in (arguments.html, arguments.json, arguments.output):
        if option and not os.path.isdir(os.path.dirname(os.path.abspath(option))):
            return f"there is no folder for {option!r}"
    if arguments.engine == "torch" and importlib.util.find_spec("torch") is None:
        return "--engine torch needs PyTorch, which is not installed: pip install torch"
    if (arguments.script or "").endswith(".json"):
        return f"{arguments.script!r} is no program; to write the findings there: --json={arguments.script} script.py"
    return ""


def _why(arguments: argparse.Namespace) -> int:
    refusal = _refusal(arguments)
    if refusal:
        print(f"undertow: {refusal}", file=sys.stderr)
        return _CANNOT_OPEN
    if arguments.nproc_per_node is not None:
        return whole_module("undertow.cli.why_ranks").launch(arguments)
    several = int(os.environ.get("WORLD_SIZE") or 1) > 1 and "RANK" in os.environ
    ranks = whole_module("undertow.cli.why_ranks") if several else None
    journal = None if ranks is None else ranks.journal_of()
    reporter = None if ranks is None else ranks.begin_reporter(arguments, journal)
    rank.begin_rank()
    recorder = Recorder() if arguments.html else None
    # The program may change the folder.
    folder = os.getcwd()
    page, data, output = [os.path.abspath(name or "") for name in (arguments.html, arguments.json, arguments.output)]
    name, by_name = arguments.module or arguments.script, bool(arguments.module)
    run = Run(
        name, arguments.arguments, arguments.engine, arguments.limit, recorder, by_name, arguments.alone,
        arguments.steps, arguments.sample, journal,
    )  # fmt: skip
    process = os.getpid()
    if ranks is not None and journal is not None:
        journal.stop_when_told(lambda frame: ranks.rank_report(run, frame))
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
        print(f"undertow: {cannot_open(arguments.script, error)}", file=sys.stderr)
        return _CANNOT_OPEN
    except SyntaxError as error:
        if error.filename != run.path:
            raise
        traceback.print_exception(error, limit=0)
        return 1
    run.print_error()
    ended = run.status if run.error is None else 1
    if os.getpid() != process:
        return ended  # a forked copy of the process: the original one reports
    if ranks is not None and journal is not None:
        told = ranks.rank_report(run)
        journal.report(**told)
        if recorder is not None:
            write_page(page, page_data(trace, judge(trace), recorder, engine=run.engine))
        return max(ended, 0 if reporter is None else reporter.wait())
    findings = judge(trace)
    status = 1 if any(not finding.is_note for finding in findings) else ended
    if recorder is not None:
        write_page(page, page_data(trace, findings, recorder, engine=run.engine))
    write_report(arguments, outcome(trace), findings, folder, status, data, output)
    if recorder is not None:
        print(f"undertow: the page is in {arguments.html}", file=sys.stderr)
    if run.was_ended:
        print(f"undertow: the program was ended after step {arguments.steps} (--steps)", file=sys.stderr)
    elif not trace.complete and trace.later is None:
        why = "Ctrl-C" if run.status == INTERRUPTED and len(trace.ops) < arguments.limit else "--limit"
        print(f"undertow: watching ended early, after {len(trace.ops)} operations ({why})", file=sys.stderr)
    for problem in trace.problems[:1]:
        print(f"undertow: the watcher itself failed at something:\n{problem}", file=sys.stderr)
    return status
