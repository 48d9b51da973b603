"""Where the nodes of a graph come from: the line, the module and the hooks of each, and the names of leaves."""

from __future__ import annotations

import weakref
from bisect import bisect_right
from collections.abc import Callable
from types import FrameType
from typing import Any, NamedTuple

from undertow._src.base.modes import local
from undertow._src.base.sites import Site
from undertow._src.engine.node import AccumulateGrad
from undertow._src.tensor.core import TensorCore
from undertow.why.objects import name_of
from undertow.why.places import Places, variables
from undertow.why.watch.patches import Patches

_KEPT = 100_000  # module calls; older ones are forgotten


class Hook(NamedTuple):
    """One hook that fires at a node."""

    kind: str
    name: str
    site: Site | None  # where it was registered


class _Call:
    """One run of a module: the first number of its nodes, and the first number after it."""

    __slots__ = ("begin", "end", "module", "parent")

    def __init__(self, module: Any, parent: _Call | None) -> None:
        self.begin = _next_number()
        self.end = -1
        self.module = weakref.ref(module)
        self.parent = parent


class Origins:
    """What is known of nodes, from the stack that anomaly mode keeps and from the module calls recorded here."""

    def __init__(self, places: Places) -> None:
        self.places = places
        self.calls: list[_Call] = []  # in the order in which they ended
        self.roots: list[weakref.ref[Any]] = []  # modules that were called by no other module
        self._running: _Call | None = None
        self._names: dict[int, str] = {}
        self.known: dict[str, set[str]] = {"module": set(), "parameter": set()}  # names that exist, by their kind

    def install(self, patches: Patches, module: type) -> None:
        """Record the calls of modules from now on."""
        patches.wrap(module, "__call__", self._called)

    def _called(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def __call__(module: Any, *args: Any, **kwargs: Any) -> Any:
            outer = self._running
            if outer is None and all(known() is not module for known in self.roots):
                self.roots.append(weakref.ref(module))
            call = self._running = _Call(module, outer)
            try:
                return original(module, *args, **kwargs)
            finally:
                self._running, call.end = outer, _next_number()
                self.calls.append(call)
                if len(self.calls) > _KEPT:
                    del self.calls[: _KEPT // 2]

        return __call__

    # --- lines

    def stack(self, node: Any) -> list[Site]:
        """Return the lines that led to the node in the forward pass, outermost first."""
        extras = node._extras
        return [] if extras is None or not extras.stack or type(node) is AccumulateGrad else extras.stack

    def site(self, node: Any) -> Site | None:
        """Return the innermost line of the user's program that made the node; of a library where there is none."""
        stack = self.stack(node)
        own = [site for site in stack if self.places.is_user_file(site.filename)] or stack
        return own[-1] if own else None

    # --- names

    def find_names(self, frame: FrameType | None) -> None:
        """Name modules and parameters by the variables of the program, as seen from a frame."""
        names: dict[int, str] = {}
        while frame is not None:
            if self.places.is_user(frame.f_code):
                for scope in (variables(frame), frame.f_globals):
                    for name, value in scope.items():
                        if not name.startswith("__"):
                            names.setdefault(id(value), name)
                            if isinstance(value, TensorCore) and value.is_leaf:
                                self.known["parameter"].add(name)
            frame = frame.f_back
        self._names = names
        inside: dict[int, str] = {}
        for root in [root for known in self.roots if (root := known()) is not None]:
            prefix = names.get(id(root), "")
            for kind, parts in (("module", root.named_modules()), ("parameter", root.named_parameters())):
                for path, part in parts:
                    whole = _joined(prefix, path) or type(root).__name__
                    inside.setdefault(id(part), whole)
                    self.known[kind].add(whole)
        self._names = names | inside

    def name(self, value: Any) -> str:
        """Return the program's name for a tensor or a module; empty if it is not known."""
        return self._names.get(id(value), "")

    def modules(self, node: Any) -> list[str]:
        """Return the names of the modules in whose calls a node was made, outermost first."""
        if type(node) is AccumulateGrad:
            return []
        return [self.name(module) or type(module).__name__ for module in self._around(node._order)]

    def _around(self, number: int) -> list[Any]:
        """Return the modules that were running when a node got its number, outermost first."""
        first = bisect_right(self.calls, number, key=lambda call: call.end)  # they are in the order of their ends
        call = self.calls[first] if first < len(self.calls) else None
        found = []
        while call is not None:
            module = call.module()
            if call.begin <= number and module is not None:
                found.append(module)
            call = call.parent
        return found[::-1]

    # --- hooks

    def hooks(self, node: Any) -> list[Hook]:
        """Return the hooks that fire at a node, in their order."""
        leaf = type(node) is AccumulateGrad
        meta: Any = node.variable._meta if leaf else None
        extras = node._extras
        maps: list[tuple[str, Any]] = []
        if leaf:
            maps.append(("tensor", meta.hooks))
        else:
            maps += [("tensor", own) for own in node._hooked_outputs().values()]
        maps.append(("node pre", None if extras is None else extras.pre_hooks))
        around = getattr(getattr(node, "observe", None), "__self__", None)
        if around is not None:
            at_outputs = node.observe.__name__ == "_at_outputs"
            if at_outputs:
                maps.append(("module backward pre", dict(enumerate(around.user_pre_hooks))))
            if not at_outputs or around.input_places is None:  # without inputs that require gradients
                maps.append(("module backward", dict(enumerate(around.user_hooks))))
        if leaf:
            maps.append(("post-accumulate", meta.post_hooks))
        maps.append(("node", None if extras is None else extras.post_hooks))
        return [
            Hook(kind, name_of(hook), getattr(key, "site", None))
            for kind, own in maps
            for key, hook in (own or {}).items()
        ]


def _next_number() -> int:
    """Return the number that the next node of this thread will get, without taking it."""
    return int(repr(local.modes.sequence)[len("count(") : -1])


def _joined(prefix: str, path: str) -> str:
    """Return `net.layers[0].weight` for `net` and `layers.0.weight`."""
    for part in path.split(".") if path else ():
        prefix += f"[{part}]" if part.isdigit() and prefix else f".{part}" if prefix else part
    return prefix
