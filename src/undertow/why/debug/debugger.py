"""`why.debug`: stop backward passes of undertow's engine, show each node, and ask what to do."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from types import FrameType
from typing import Any

from undertow._src.base.modes import slow_path
from undertow._src.base.ownership import is_own_module
from undertow._src.engine.engine import run_with_hooks
from undertow._src.engine.node import AccumulateGrad
from undertow.autograd.anomaly_mode import set_detect_anomaly
from undertow.nn.modules.module import Module
from undertow.why.debug import picture
from undertow.why.debug.origins import Origins
from undertow.why.debug.prompt import Prompt
from undertow.why.debug.stops import Stop
from undertow.why.places import Places, variables
from undertow.why.watch.patches import Patches


class debug:
    """Stop in backward passes from here on, or inside a `with` block, and ask for commands.

    stops: what to stop at (see `stops.KINDS`), one text or several; by default the start of a pass. Errors always stop.
    commands: run before those from standard input. script: the file for line numbers without a file; by default any file
    of the program. out: where to print, by default standard output. See docs/debug.md.
    """

    def __init__(
        self, stops: str | Iterable[str] = "start", commands: Iterable[str] = (), script: str | None = None,
        out: Any = None,
    ) -> None:  # fmt: skip
        self.stops = [Stop(text) for text in ([stops] if isinstance(stops, str) else stops)]
        self.origins = Origins(Places((sys.modules["undertow"],), script))
        for stop in self.stops:
            if stop.kind == "line" and not stop.file and (missing := stop.missing(self.origins)):
                raise ValueError(missing)
        self.show = picture.Printer(sys.stdout if out is None else out)
        self.prompt = Prompt(self, commands)
        self.node: Any = None  # the node at which the pass stops
        self.passes = 0
        self.stopped = 0
        self._going = ""  # the command that goes on: "step", "next", "leaf", or "" up to a stop
        self._from: Any = None  # the line where "next" began
        self._pass: Any = None
        self._count = 0  # nodes of the pass so far
        self._busy = False  # a command runs: backward passes that it starts do not stop
        self._patches = Patches()
        self._open = True
        self.origins.install(self._patches, Module)
        self._anomaly = set_detect_anomaly(True, check_nan=False)
        slow_path.stepper = self._step

    def __enter__(self) -> debug:
        return self

    def __exit__(self, kind: type | None, *exception: object) -> None:
        missing = self.close()
        if missing and kind is None:
            raise ValueError("; ".join(missing))

    def close(self) -> list[str]:
        """End debugging. Return an error for each stop whose name was nowhere; print a message if nothing was stopped."""
        if not self._open:
            return []
        self.leave()
        missing = self._missing() if self.passes else []
        torch = sys.modules.get("torch")
        if not self.passes and torch is not None and not is_own_module(torch):
            self.show("no backward pass ran on undertow; the installed PyTorch's are not stopped: use `undertow debug`")
        elif not self.stopped:
            self.show(f"{self.passes} backward pass{'' if self.passes == 1 else 'es'}, and no stop was reached")
        return missing

    def add(self, stop: Stop) -> None:
        """Add a stop. Raise ValueError if there is no such line, module or parameter."""
        if (stop.kind == "line" or stop.kind in self.origins.known) and (missing := stop.missing(self.origins)):
            raise ValueError(missing)
        self.stops.append(stop)

    def _missing(self) -> list[str]:
        return [missing for stop in self.stops if (missing := stop.missing(self.origins))]

    def leave(self) -> None:
        """Let the program run on as if it were not debugged."""
        if self._open:
            self._open = False
            slow_path.stepper = None
            self._anomaly.__exit__()
            self._patches.undo()

    def go_on(self, how: str) -> bool:
        """Let the pass go on: "step", "next", "leaf", or "" up to a stop."""
        self._going = how
        self._from = self.origins.site(self.node) if self.node is not None else None
        return True

    # --- the engine's side

    def _step(self, task: Any, node: Any, g: Any) -> tuple[Any, ...] | None:
        """Run one node of a pass for the engine, and stop before or after it."""
        if self._busy or task.silent:
            return run_with_hooks(task, node, g)
        first = task is not self._pass
        if first:
            self._begin(task)
        self._count += 1
        came = g if node._n_outputs == 1 else list(g)
        stop = self._wanted(node, first)
        if stop:
            self._stop(task, node, came, None, stop)
        try:
            results = run_with_hooks(task, node, g)  # the references to `g` from here make an accumulator copy it
        except Exception as error:
            if self._open:
                self._stop(task, node, came, None, f"raised {type(error).__name__}: {str(error).splitlines()[0]}")
            raise
        if self._open:
            self._ran(task, node, came, results, bool(stop))
        return results

    def _begin(self, task: Any) -> None:
        self._pass, self._count = task, 0
        self.passes += 1
        self.origins.find_names(sys._getframe(2))
        for stop in self.stops:
            stop.begins()
            if self.passes == 1 and stop.kind in self.origins.known and (missing := stop.missing(self.origins)):
                self.show([("bad", f"stop {stop.text}: so far {missing}")])

    def _wanted(self, node: Any, first: bool) -> str:
        """Return why to stop before a node; empty if the pass goes on."""
        # Every stop is asked, because stops keep state between nodes.
        reached = [stop.text for stop in self.stops if stop.reached(node, self.origins, first)]
        if reached:
            return ", ".join(reached)
        leaf = type(node) is AccumulateGrad
        if self._going == "step" or (self._going == "leaf" and leaf):
            return self._going
        if self._going == "next" and not leaf:
            site = self.origins.site(node)
            return "next" if str(site) != str(self._from) else ""
        return ""

    def _ran(self, task: Any, node: Any, came: Any, results: Any, shown: bool) -> None:
        """Show the gradients that a node returned, if the node was shown; stop if it made NaN."""
        gave = list(zip(node._edges, results or ()))
        if shown:
            self.show(*self._given(gave))
            if type(node) is AccumulateGrad:
                self.show([("label", "  .grad "), *picture.gradient(node.variable.grad)])
        if any(stop.kind == "nan" for stop in self.stops):
            arrived = [came] if node._n_outputs == 1 else came
            born = not all(picture.is_finite(part) for _, part in gave)
            if born and all(map(picture.is_finite, arrived)):
                self._stop(task, node, came, gave, "nan")

    # --- a stop

    def _stop(self, task: Any, node: Any, came: Any, gave: Any, why: str) -> None:
        self.node = node
        self.stopped += 1
        self.show(*self._picture(node, came, gave, why))
        self._busy = True
        try:
            self.prompt.ask(self._variables(task, node, came, gave))
        finally:
            self._busy = False
            self.node = None

    def _variables(self, task: Any, node: Any, came: Any, gave: Any) -> dict[str, Any]:
        """Return the program's variables where it called backward, and those of the stop."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and not self.origins.places.is_user(frame.f_code):
            frame = frame.f_back
        found = {} if frame is None else {**frame.f_globals, **variables(frame)}
        arrived = [came] if node._n_outputs == 1 else came
        grads = tuple([task.tensor(part) for part in arrived])
        found |= {"node": node, "grads": grads, "grad": grads[0], "leaf": getattr(node, "variable", None)}
        return found | {"out": None if gave is None else tuple([task.tensor(part) for _, part in gave])}

    def _picture(self, node: Any, came: Any, gave: Any, why: str) -> list[picture.Line]:
        origins, site = self.origins, self.origins.site(node)
        name = node._node_name().rpartition("::")[2]
        lines: list[picture.Line] = [
            [],
            [("head", name), ("dim", f"  node {self._count} of backward pass {self.passes}  stopped at: {why}")],
        ]
        modules = origins.modules(node)
        where = f"  in {modules[-1]}" if modules else ""
        if type(node) is AccumulateGrad:
            had = "none yet" if node.variable.grad is None else "adds to what is there"
            lines.append(
                [("label", f"  leaf {origins.name(node.variable) or 'without a name'}"), ("", f"  .grad: {had}")]
            )
        else:
            lines.append([("place", f"  {picture.place(site)}"), ("dim", where)])
            lines += [] if site is None else picture.source(site)
        arrived = [came] if node._n_outputs == 1 else came
        lines += [[("label", "  in   "), *picture.gradient(part)] for part in arrived]
        hooks = [] if gave is not None else origins.hooks(node)
        for number, hook in enumerate(hooks, 1):
            at = "" if hook.site is None else f", registered at {picture.place(hook.site)}"
            lead = "  hooks " if number == 1 else "        "
            lines.append([("label", lead), ("", f"{number}. {hook.kind} hook {hook.name}{at}")])
        return lines + ([] if gave is None else self._given(gave))

    def _given(self, gave: list[tuple[Any, Any]]) -> list[picture.Line]:
        """Return a line for each gradient that a node returned, with the node it goes to."""
        lines: list[picture.Line] = []
        for edge, part in gave:
            if edge is not None:
                lines.append([("label", "  out  "), *picture.gradient(part), ("dim", f"  → {self._named(edge[0])}")])
        return lines

    def _named(self, node: Any) -> str:
        if type(node) is AccumulateGrad:
            return self.origins.name(node.variable) or "a leaf"
        return f"{node._node_name().rpartition('::')[2]}, {picture.place(self.origins.site(node))}"

    def show_stack(self) -> None:
        """Show the lines and modules that led to the node."""
        stack = [site for site in self.origins.stack(self.node) if self.origins.places.is_user_file(site.filename)]
        for site in stack:
            self.show([("place", f"  {picture.place(site)}"), ("dim", f"  in {site.function}")])
            self.show([("", f"    {site.source}")])
        modules = self.origins.modules(self.node)
        if modules:
            self.show([("label", "  modules "), ("", " → ".join(modules))])
        if not stack:
            self.show("no line made this node: a leaf was there before the forward pass")
