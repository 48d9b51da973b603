"""`undertow run`: runs a program as Python would, with `import torch` meaning undertow."""

from __future__ import annotations

import argparse
import builtins
import io
import os
import runpy
import sys
from importlib.machinery import SourceFileLoader
from types import ModuleType, TracebackType
from typing import Any

from undertow import pretend
from undertow._src.base.lazy import whole_module
from undertow.cli import rank
from undertow.pretend import pretend_torch

_CANNOT_OPEN = 2  # Python's own exit code for this


def add_to(commands: Any) -> None:
    """Add the command to a parser."""
    parser = commands.add_parser(
        "run",
        help="run a PyTorch program on undertow",
        description="Runs a program as `python` would, with `import torch` meaning undertow.",
        usage="undertow run [-h] [--nproc-per-node N ...] (script.py | -m module) [argument ...]",
    )
    rank.add_options(parser)
    parser.add_argument(
        "-m",
        dest="module",
        nargs=argparse.REMAINDER,
        metavar="module",
        help="run a module by its name, and its arguments",
    )
    parser.add_argument("script", nargs=argparse.REMAINDER, help="the program and its arguments")
    parser.set_defaults(command=lambda arguments: _run(parser, arguments))


def _run(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> int:
    if arguments.nproc_per_node is not None and (arguments.module or arguments.script):
        return whole_module("undertow.cli.launch").launch(
            arguments, ["-m", *arguments.module] if arguments.module else arguments.script
        )
    return run(parser, arguments.module, arguments.script)


def run(parser: argparse.ArgumentParser, module: list[str] | None, script: list[str]) -> int:
    """Run a program, or a module by its name, with its arguments; return the exit status."""
    if not module and not script:
        parser.error("say which program to run")
    rank.begin_rank()
    sys.argv = module or script
    path = sys.argv[0]
    if module:
        _begin(os.getcwd())
        runpy.run_module(path, run_name="__main__", alter_sys=True)
    elif path.endswith((".zip", ".pyz")):
        _begin(path)
        runpy.run_path(path, run_name="__main__")
    else:
        folder = os.path.isdir(path)
        file_name = os.path.abspath(os.path.join(path, "__main__.py") if folder else path)
        try:
            with io.open_code(file_name) as file:
                source = file.read()
        except OSError as error:
            print(f"undertow: {cannot_open(path, error)}", file=sys.stderr)
            return _CANNOT_OPEN
        _begin(os.path.dirname(file_name if folder else os.path.realpath(path)))
        _run_as_main(file_name, source)
    return 0


def cannot_open(path: str, error: OSError) -> str:
    """Return Python's message for a program that it can't open."""
    if os.path.isdir(path):
        return f"can't find '__main__' module in {path!r}"
    return f"can't open file {path!r}: [Errno {error.errno}] {error.strerror}"


def _begin(folder: str) -> None:
    """Set up the process as if Python itself started a program in this folder."""
    if not sys.flags.safe_path:
        sys.path[0] = folder
    pretend_torch()
    paths = [pretend.FOR_CHILDREN, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(paths))  # processes that the program starts pretend, too
    sys.excepthook = _ProgramTraceback(sys.modules["__main__"])


def _run_as_main(path: str, source: bytes) -> None:
    """Run a program's source as the module `__main__`, which stays there until the process ends."""
    main = ModuleType("__main__")
    main.__dict__.update(
        __file__=path, __cached__=None, __builtins__=builtins, __loader__=SourceFileLoader("__main__", path)
    )
    sys.modules["__main__"] = main
    exec(compile(source, path, "exec", dont_inherit=True), main.__dict__)


class _ProgramTraceback:
    """Prints an exception as if Python had run the program itself, without undertow's frames."""

    def __init__(self, ours: ModuleType) -> None:
        self.ours = ours.__dict__  # undertow's command line, which is also called __main__

    def __call__(self, kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
        while traceback is not None and not self._is_of_the_program(traceback.tb_frame.f_globals):
            traceback = traceback.tb_next
        last = traceback
        while last is not None and last.tb_next is not None:
            if last.tb_next.tb_frame.f_globals.get("__name__") == pretend.__name__:
                last.tb_next = None  # the frame that only raises for a missing name
            else:
                last = last.tb_next
        rank.show_error(kind, error.with_traceback(traceback), traceback)

    def _is_of_the_program(self, names: dict[str, Any]) -> bool:
        return names.get("__name__") == "__main__" and names is not self.ours
