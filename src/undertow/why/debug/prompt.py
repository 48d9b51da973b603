"""The commands at a stop of a debugged backward pass. They come from a list, then from standard input."""

from __future__ import annotations

import code
import sys
from collections.abc import Callable, Iterable
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Any

from undertow.why.debug import picture
from undertow.why.debug.stops import KINDS, Stop

if TYPE_CHECKING:
    from undertow.why.debug.debugger import debug

PROMPT = "(debug) "
_SHORT = {
    "s": "step", "n": "next", "l": "leaf", "c": "continue", "p": "print", "b": "stop", "d": "delete", "w": "where",
    "h": "help", "?": "help", "q": "quit", "py": "python",
}  # fmt: skip


class Quit(BaseException):
    """The user ends the program."""


class Prompt:
    """Reads and runs commands until one lets the pass go on."""

    def __init__(self, debugger: debug, commands: Iterable[str]) -> None:
        self.debugger = debugger
        self.waiting = list(commands)
        self.last = "step"
        self.names: dict[str, Any] = {}

    def read(self, prompt: str = PROMPT) -> str | None:
        """Return the next line; None at the end of the input. A line that was not typed at a terminal is printed."""
        if self.waiting:
            line = self.waiting.pop(0)
            self.debugger.show(prompt + line)
            return line
        if sys.stdin is None or sys.stdin.closed:
            return None
        if sys.stdin.isatty():
            try:
                return input(prompt)
            except EOFError:
                return None
        line = sys.stdin.readline()
        if not line:
            return None
        self.debugger.show(prompt + line.rstrip("\n"))
        return line

    def ask(self, names: dict[str, Any]) -> None:
        """Run commands until the pass goes on. names: the variables that expressions may use."""
        self.names = names
        while True:
            try:
                line = self.read()
            except KeyboardInterrupt:
                self.debugger.show("")
                continue
            if line is None:
                self.debugger.show("no more commands: the program runs on")
                self.debugger.leave()
                return
            word, _, rest = (line.strip() or self.last).partition(" ")
            name = _SHORT.get(word, word)
            command: Callable[[str], bool] | None = getattr(self, f"do_{name}", None)
            if command is None:
                self.debugger.show(f"there is no command {word!r}; help lists them")
                continue
            self.last = name if name in ("step", "next", "leaf") else self.last
            if command(rest.strip()):
                return

    # --- going on. Commands that do return True.

    def do_step(self, rest: str) -> bool:
        """Run this node and stop at the next one."""
        return self.debugger.go_on("step")

    def do_next(self, rest: str) -> bool:
        """Run on to the next line of the forward pass."""
        return self.debugger.go_on("next")

    def do_leaf(self, rest: str) -> bool:
        """Run on to the next leaf, whose gradient is about to be added to `.grad`."""
        return self.debugger.go_on("leaf")

    def do_continue(self, rest: str) -> bool:
        """Run on to the next stop."""
        return self.debugger.go_on("")

    def do_quit(self, rest: str) -> bool:
        """End the program."""
        raise Quit

    # --- looking

    def do_print(self, rest: str) -> bool:
        """Print an expression of the program; `grad`, `grads`, `out`, `node`, `leaf` are there, too."""
        try:
            with redirect_stdout(self.debugger.show.out):
                self.debugger.show(repr(eval(rest, self.names)))
        except Exception as error:
            self.debugger.show([("bad", f"{type(error).__name__}: {error}")])
        return False

    def do_python(self, rest: str) -> bool:
        """Start a Python prompt with the same names; `exit()` or the end of the input returns here."""
        console = code.InteractiveConsole(self.names)

        def read(prompt: str = "") -> str:
            line = self.read(prompt)
            if line is None or line.strip() in ("exit()", "quit()", "exit", "quit"):
                raise EOFError
            return line.rstrip("\n")

        console.raw_input = read  # type: ignore[method-assign]
        console.write = lambda data: self.debugger.show(*data.rstrip("\n").splitlines())  # type: ignore[method-assign]
        with redirect_stdout(self.debugger.show.out):
            console.interact(banner="Python: exit() returns to the pass", exitmsg="")
        return False

    def do_where(self, rest: str) -> bool:
        """Show the lines that led to this node in the forward pass, and the modules."""
        self.debugger.show_stack()
        return False

    def do_list(self, rest: str) -> bool:
        """Show the source around the node's line."""
        site = self.debugger.origins.site(self.debugger.node)
        self.debugger.show(*(["its line is unknown"] if site is None else picture.source(site, 4)))
        return False

    # --- stops

    def do_stop(self, rest: str) -> bool:
        """Add a stop (`stop nan`, `stop module encoder`); without one, list them."""
        if rest:
            try:
                self.debugger.add(Stop(rest))
            except ValueError as error:
                self.debugger.show(str(error))
                return False
        lines = [f"{number}. {stop.text}" for number, stop in enumerate(self.debugger.stops, 1)]
        self.debugger.show(*(lines or ["there are no stops"]))
        return False

    def do_delete(self, rest: str) -> bool:
        """Delete a stop by its number."""
        if not rest.isdigit() or not 0 < int(rest) <= len(self.debugger.stops):
            self.debugger.show(f"there is no stop {rest or 'without a number'}")
        else:
            del self.debugger.stops[int(rest) - 1]
        return False

    def do_help(self, rest: str) -> bool:
        """List the commands and the kinds of stops."""
        short = {name: key for key, name in _SHORT.items()}
        for name in [name for name in dir(self) if name.startswith("do_")]:
            command = name.removeprefix("do_")
            text = (getattr(self, name).__doc__ or "").strip()
            self.debugger.show(f"  {short.get(command, ''):>2}  {command:9} {text}")
        self.debugger.show("stops")
        self.debugger.show(*[f"      {kind:9} {text}" for kind, text in KINDS.items()])
        return False
