"""Running a script as `__main__`, unchanged, while it is watched."""

from __future__ import annotations

import builtins
import importlib
import importlib.util
import os
import sys
import traceback
from importlib.machinery import SourceFileLoader
from types import ModuleType
from typing import Any

from undertow.pretend import pretend_torch
from undertow.why.trace import Trace
from undertow.why.watch.watcher import DEFAULT_LIMIT, Watcher


def choose_engine(name: str) -> str:
    """`auto` is real PyTorch where it is installed, undertow otherwise."""
    if name != "auto":
        return name
    return "torch" if importlib.util.find_spec("torch") is not None else "undertow"


class Run:
    """One watched run of a script: its trace, its global variables, and how it ended."""

    def __init__(self, path: str, arguments: list[str] | None = None, engine: str = "auto", limit: int = DEFAULT_LIMIT):
        self.path = os.path.abspath(path)
        self.arguments = arguments or []
        self.engine = choose_engine(engine)
        self.limit = limit
        self.error: BaseException | None = None
        self.status = 0  # what the script asked for with sys.exit
        self.names: dict[str, Any] = {}
        self.trace = Trace()

    def go(self) -> Trace:
        """Runs the script to its end. An exception of its own is kept in `error`; SystemExit in `status`."""
        with open(self.path, "rb") as file:
            code = compile(file.read(), self.path, "exec", dont_inherit=True)
        if self.engine == "undertow":
            with pretend_torch():
                return self._watched(code, importlib.import_module("torch"))
        return self._watched(code, importlib.import_module("torch"))

    def _watched(self, code: Any, torch: Any) -> Trace:
        main = ModuleType("__main__")
        main.__dict__.update(
            __file__=self.path, __builtins__=builtins, __loader__=SourceFileLoader("__main__", self.path)
        )
        before = sys.modules["__main__"], sys.argv, list(sys.path)
        sys.modules["__main__"] = main
        sys.argv = [self.path, *self.arguments]
        sys.path.insert(0, os.path.dirname(self.path))
        watcher = Watcher(torch, script=self.path, limit=self.limit)
        self.trace = watcher.trace
        self.names = main.__dict__
        try:
            with watcher:
                exec(code, main.__dict__)
        except SystemExit as leaving:
            self.status = leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
            watcher.trace.error = None
        except Exception as error:
            self.error = error
        finally:
            watcher.names.globals(main.__dict__)
            sys.modules["__main__"], sys.argv, sys.path[:] = before
        return self.trace

    def print_error(self) -> None:
        """The script's exception, as Python itself would have shown it: frames before the script's are left out."""
        if self.error is None:
            return
        trace = self.error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename != self.path:
            trace = trace.tb_next
        traceback.print_exception(type(self.error), self.error, trace)
