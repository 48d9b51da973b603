"""Run an unchanged script as `__main__` while the watcher records it."""

from __future__ import annotations

import builtins
import importlib
import importlib.util
import os
import sys
import threading
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import SourceFileLoader
from types import ModuleType
from typing import Any

from undertow.pretend import pretend_torch
from undertow.why.page.recorder import Recorder
from undertow.why.ranks.journal import Journal
from undertow.why.trace import Trace
from undertow.why.watch.watcher import DEFAULT_LIMIT, EnoughSteps, Watcher

INTERRUPTED = 130  # the exit status after Ctrl-C


def choose_engine(name: str) -> str:
    """Return the engine's name; `auto` is PyTorch where it is installed, and undertow otherwise."""
    if name != "auto":
        return name
    return "torch" if importlib.util.find_spec("torch") is not None else "undertow"


class _NoModule(Exception):
    """The module to run does not exist."""


class Run:
    """One watched run of a script, or of a module by its name: its trace, its global variables, and how it ended.

    alone: the script is all that this process runs, so its threads are joined at its end as Python does at exit.
    steps: end the program after this number of optimizer steps. sample: watch this number in full, and then little.
    journal: of this process's rank, if it is one of several.
    """

    def __init__(
        self, path: str, arguments: list[str] | None = None, engine: str = "auto", limit: int = DEFAULT_LIMIT,
        recorder: Recorder | None = None, module: bool = False, alone: bool = False, steps: int | None = None,
        sample: int | None = None, journal: Journal | None = None,
    ) -> None:  # fmt: skip
        self.module = path if module else None
        self.typed = path
        self.path = path if module else os.path.abspath(path)
        self.folder = os.getcwd() if module else os.path.dirname(os.path.realpath(path))
        if not module and os.path.isdir(path):
            self.path, self.folder = os.path.join(self.path, "__main__.py"), self.path
        self.alone = alone
        self.arguments = arguments or []
        self.engine = choose_engine(engine)
        self.limit = limit
        self.recorder = recorder
        self.steps, self.sample = steps, sample
        self.journal = journal
        self.watcher: Watcher | None = None
        self.was_ended = False  # after the number of `steps`
        self.error: BaseException | None = None
        self.status = 0  # the exit status, from sys.exit
        self.names: dict[str, Any] = {}
        self.trace = Trace()
        self._engines: tuple[str, ...] = ()
        self._excepthook = sys.excepthook
        self._last_words: Any = None  # the message of sys.exit("message")
        self._printed = journal is not None  # the report of all ranks shows the error of the first

    def go(self) -> Trace:
        """Run the script to its end. Keep its exception in `error`, and the status of SystemExit in `status`.

        A missing file raises OSError, a missing module ImportError.
        """
        code = None
        if self.module is None:
            with open(self.path, "rb") as file:
                code = compile(file.read(), self.path, "exec", dont_inherit=True)
        if self.engine == "undertow":
            with pretend_torch():
                return self._watched(code, importlib.import_module("torch"))
        return self._watched(code, importlib.import_module("torch"))

    def _watched(self, code: Any, torch: Any) -> Trace:
        main = ModuleType("__main__")
        main.__dict__.update(
            __file__=self.path,
            __cached__=None,
            __builtins__=builtins,
            __loader__=SourceFileLoader("__main__", self.path),
        )
        before = sys.modules["__main__"], sys.argv, list(sys.path)
        sys.argv = [self.typed, *self.arguments]
        if not sys.flags.safe_path:
            sys.path[:1] = [self.folder]
        watcher = Watcher(torch, self.path, self.limit, self.recorder, self.steps, self.sample, self.journal)
        self.watcher = watcher
        self.trace = watcher.trace
        self.names = main.__dict__
        watcher.places.outermost = sys._getframe()
        self._engines = os.path.dirname(str(torch.__file__)) + os.sep, _UNDERTOW
        try:
            with warnings_at_user_lines(watcher), watcher:
                if self.module is not None:
                    code = self._found(self.module, main, watcher)
                sys.modules["__main__"] = main
                self._execute(code, main)
        except _NoModule as missing:
            raise ImportError(str(missing), name=self.module) from None
        except BaseException as error:
            self._ended_by(error)
            if self.error is None:
                watcher.trace.error = None
            if isinstance(error, KeyboardInterrupt):  # findings are based on what was recorded so far
                watcher.trace.complete = False
        finally:
            watcher.names.modules()
            watcher.names.globals(main.__dict__)
            sys.modules["__main__"], sys.argv, sys.path[:] = before
            watcher.places.outermost = None
        return self.trace

    def _execute(self, code: Any, main: ModuleType) -> None:
        try:
            exec(code, main.__dict__)
        except BaseException as error:
            if self.alone:
                self._ended_by(error)
                self.print_error()
            raise
        finally:
            if self.alone:
                threading._shutdown()  # type: ignore[attr-defined]  # Python calls it at exit to join threads

    def _ended_by(self, error: BaseException) -> None:
        """Record how the program ended."""
        if isinstance(error, SystemExit):
            self.status = error.code if isinstance(error.code, int) else int(error.code is not None)
            self._last_words = None if isinstance(error.code, int) else error.code
        elif isinstance(error, KeyboardInterrupt):
            self.status = INTERRUPTED
        elif isinstance(error, EnoughSteps):
            self.was_ended = True
        else:
            self.error = error

    def _found(self, name: str, main: ModuleType, watcher: Watcher) -> Any:
        """Return the code of a module to run by name, as `python -m` does; its parent packages are imported."""
        try:
            spec = importlib.util.find_spec(name)
            if spec is not None and spec.submodule_search_locations is not None:
                spec = importlib.util.find_spec(f"{name}.__main__")
        except ModuleNotFoundError as error:
            if error.name is None or not f"{name}.".startswith(f"{error.name}."):
                raise
            spec = None
        code = (
            None if spec is None or spec.loader is None else getattr(spec.loader, "get_code", lambda _: None)(spec.name)
        )
        if spec is None or code is None:
            raise _NoModule(f"No module named {name}")
        self.path = watcher.trace.script = watcher.places.script = sys.argv[0] = str(spec.origin)
        main.__dict__.update(__file__=spec.origin, __spec__=spec, __package__=spec.parent, __loader__=spec.loader)
        return code

    def print_error(self) -> None:
        """Print, once, the script's exception without the watcher's and engine's frames, or its exit message."""
        printed, self._printed = self._printed, True
        if printed:
            return
        if self._last_words is not None:
            print(self._last_words, file=sys.stderr)
        if self.error is None:
            return
        own = sys.excepthook is not self._excepthook and not getattr(sys.excepthook, "__module__", "").startswith(
            "torch."
        )
        if own:  # the program's; PyTorch installs one that only adds the rank
            sys.excepthook(type(self.error), self.error, self.error.__traceback__)
            return
        print(self.error_text(), end="", file=sys.stderr)

    def error_text(self) -> str:
        """Return the traceback of the script's exception, without the watcher's and engine's frames."""
        if self.error is None:
            return ""
        shown: traceback.TracebackException | None = traceback.TracebackException.from_exception(self.error)
        error = shown
        while shown is not None:
            frames = [frame for frame in shown.stack if not frame.filename.startswith((*self._engines, "<string>"))]
            shown.stack = traceback.StackSummary.from_list(frames)
            shown = shown.__cause__ or shown.__context__
        assert error is not None
        return "".join(error.format())


@contextmanager
def warnings_at_user_lines(watcher: Watcher) -> Iterator[None]:
    """Make warnings inside the block name the user's line instead of one in the watcher or undertow."""
    before = warnings.showwarning

    def showwarning(
        message: Any, category: Any, filename: str, lineno: int, file: Any = None, line: Any = None
    ) -> None:
        if filename.startswith(_UNDERTOW):
            place = watcher.here()
            if place is not None:
                filename, lineno = place.file, place.line
        before(message, category, filename, lineno, file, line)

    warnings.showwarning = showwarning
    try:
        yield
    finally:
        if warnings.showwarning is showwarning:
            warnings.showwarning = before


_UNDERTOW = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
