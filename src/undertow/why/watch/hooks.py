"""Record hooks: every registering function is patched and wraps the hook, so that each call of it is recorded.

The registering functions of PyTorch's graph nodes cannot be patched. For these, the RemovableHandle that they make is
observed, and the source of the user's line tells the node.
"""

from __future__ import annotations

import copy
import functools
import sys
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Any

from undertow.why.source import call_at, receiver, value_of
from undertow.why.trace import HookRecord
from undertow.why.watch.firings import Firings, code_of
from undertow.why.watch.patches import Patches

if TYPE_CHECKING:
    from undertow.why.places import Place
    from undertow.why.watch.watcher import Watcher

REGISTRARS = {
    "forward-pre": "register_forward_pre_hook",
    "forward": "register_forward_hook",
    "full-backward-pre": "register_full_backward_pre_hook",
    "full-backward": "register_full_backward_hook",
    "backward": "register_backward_hook",
}
ON_EVERY_MODULE = {kind: name.replace("register_", "register_module_") for kind, name in REGISTRARS.items()}
ON_NODES = {"register_hook": "node", "register_prehook": "node-pre"}


def _name_of(hook: Any) -> str:
    """Return the name of a hook function; for a partial, that of the function in it."""
    while isinstance(hook, functools.partial):
        hook = hook.func
    return getattr(hook, "__name__", type(hook).__name__)


def _same(hook: Any) -> Any:
    """Return a key that is equal for hooks that do the same: one code with equal closure, defaults and arguments."""
    code, owner, function = code_of(hook)
    if code is None:
        return id(hook)

    def key(value: Any) -> Any:
        return value if isinstance(value, (str, int, float, bool, type(None))) else id(value)

    closed = []
    for cell in getattr(function, "__closure__", None) or ():
        try:
            closed.append(key(cell.cell_contents))
        except ValueError:  # not filled yet
            closed.append(None)
    defaults = [key(value) for value in getattr(function, "__defaults__", None) or ()]
    partial = isinstance(hook, functools.partial)
    given = [key(value) for value in (*hook.args, *hook.keywords.values())] if partial else []
    return code, id(owner), tuple(closed), tuple(defaults), tuple(given)


class WatchedHook:
    """A wrapper in the place of a user's hook, which records its calls and otherwise behaves like it."""

    def __init__(self, hook: Any, record: HookRecord, hooks: Hooks) -> None:
        self.hook = hook
        self.record = record
        self.hooks = hooks

    def __call__(self, *args: Any) -> Any:
        return self.hooks.firings.fire(self.hook, self.record, args)

    def __getattr__(self, name: str) -> Any:
        if name in ("hook", "record", "hooks"):
            raise AttributeError(name)
        return getattr(self.hook, name)  # such as __name__, which error messages show

    def __reduce__(self) -> Any:
        return _itself, (self.hook,)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return self.hooks.copied(self, memo)


def _itself(value: Any) -> Any:
    return value


class Hooks:
    """Records registrations, removals and calls of hooks."""

    def __init__(self, watcher: Watcher) -> None:
        self.watcher = watcher
        self.trace = watcher.trace
        self.by_handle: dict[int, HookRecord] = {}
        self.unwrapped: list[tuple[Any, HookRecord]] = []  # handles of hooks on nodes that are not wrapped yet
        self.firings = Firings(watcher)

    def install(self, patches: Patches) -> None:
        engine = self.watcher.engine
        for kind, registrar in REGISTRARS.items():
            patches.wrap(engine.Module, registrar, partial(self._registrar, kind=kind))
        for kind, registrar in ON_EVERY_MODULE.items():
            patches.wrap(engine.module_file, registrar, partial(self._everywhere, kind=kind))
        patches.wrap(engine.autograd.graph, "register_multi_grad_hook", self._several)
        patches.wrap(engine.handles.RemovableHandle, "__init__", self._handle_made)
        patches.wrap(engine.handles.RemovableHandle, "remove", self._removing)

    # --- registering and removing

    def _registrar(self, original: Callable[..., Any], kind: str) -> Callable[..., Any]:
        def register(module: Any, hook: Any, *args: Any, **kwargs: Any) -> Any:
            if not self.watcher.watching or kwargs.get("nested"):
                return original(module, hook, *args, **kwargs)
            return self.register(kind, module, hook, lambda watched: original(module, watched, *args, **kwargs))

        return register

    def _everywhere(self, original: Callable[..., Any], kind: str) -> Callable[..., Any]:
        def register(hook: Any, *args: Any, **kwargs: Any) -> Any:
            if not self.watcher.watching:
                return original(hook, *args, **kwargs)
            return self.register(kind, None, hook, lambda watched: original(watched, *args, **kwargs))

        return register

    def _several(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def register_multi_grad_hook(tensors: Any, fn: Any, **kwargs: Any) -> Any:
            tensors = tuple(tensors)
            if not self.watcher.watching or not tensors:
                return original(tensors, fn, **kwargs)
            return self.register("multi-grad", tensors, fn, lambda watched: original(tensors, watched, **kwargs))

        return register_multi_grad_hook

    def _handle_made(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def __init__(handle: Any, *args: Any, **kwargs: Any) -> None:
            original(handle, *args, **kwargs)
            if self.watcher.watching and hasattr(handle, "id"):
                with self.watcher.unrecorded:
                    self._on_node(handle, sys._getframe(1))

        return __init__

    def _on_node(self, handle: Any, frame: FrameType | None) -> None:
        """Record a registration that no patched function made, if it is on a node."""
        watcher = self.watcher
        hook = None
        while frame is not None and not watcher.places.is_user(frame.f_code):
            hook = hook or frame.f_locals.get("hook") or frame.f_locals.get("fn")
            frame = frame.f_back
        place = None if frame is None else watcher.places.of(frame)
        call = None if place is None else call_at(place)
        if frame is None or call is None or hook is None or call.attr not in ON_NODES:
            return
        node = value_of(call.value, frame)
        if hasattr(node, "next_functions"):
            record = self._describe(ON_NODES[call.attr], node, hook)
            record.user = True
            self.trace.hooks.append(record)
            self.by_handle[handle.id] = record
            self.unwrapped.append((handle, record))

    def settle(self) -> None:
        """Wrap the new hooks on nodes; before a backward pass begins, they are in their maps."""
        for handle, record in self.unwrapped:
            found = handle.hooks_dict_ref()
            if found is not None and handle.id in found:
                found[handle.id] = WatchedHook(found[handle.id], record, self)
        self.unwrapped.clear()

    def register(self, kind: str, owner: Any, hook: Any, go: Callable[[Any], Any]) -> Any:
        """Register a wrapped hook and record it: `go(watched)` runs the original registering function."""
        watcher = self.watcher
        record = None
        with watcher.unrecorded:
            record = self._describe(kind, owner, hook)
            self.trace.hooks.append(record)
        before, watcher.busy = watcher.busy, watcher.busy + 1
        try:
            handle = go(hook if record is None else WatchedHook(hook, record, self))
        except Exception as error:
            if record is not None:
                record.error = f"{type(error).__name__}: {error}"
            raise
        finally:
            watcher.busy = before
        if record is not None:
            for part in getattr(handle, "handles", (handle,)):
                self.by_handle[part.id] = record
        return handle

    def _describe(self, kind: str, owner: Any, hook: Any) -> HookRecord:
        watcher = self.watcher
        place = watcher.here()
        code, _, _ = code_of(hook)
        defined = None
        if code is not None and watcher.places.is_user(code):
            defined = watcher.places.of_line(code.co_filename, code.co_firstlineno, code.co_name)
        record = HookRecord(
            id=len(self.trace.hooks), time=self.trace.tick(), kind=kind, place=place,
            name=_name_of(hook), defined=defined, same=_same(hook),
            user=self._by_user(), expression=receiver(place) if place is not None else "",
        )  # fmt: skip
        if owner is None:
            record.everywhere, record.expression = True, "every module"
        elif isinstance(owner, watcher.engine.Module):
            record.module = watcher.modules.see(owner, place).id
        elif hasattr(owner, "next_functions"):
            record.node, _ = watcher.graph.take(owner, None)
        else:
            on = [self._in_graph(tensor, place) for tensor in watcher.engine.tensors_in(owner)]
            (record.tensor, record.node), *others = on
            if kind == "multi-grad":
                record.others, record.expression = tuple(others), ""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and not watcher.places.is_user(frame.f_code):
            frame = frame.f_back
        if frame is not None:
            watcher.names.note(frame)
        return record

    def _in_graph(self, tensor: Any, place: Place | None) -> tuple[int, int | None]:
        """Return the ids of a tensor and of its node."""
        node = tensor.grad_fn
        return self.watcher.see(tensor, place).id, None if node is None else self.watcher.graph.take(node, None)[0]

    def _by_user(self) -> bool:
        """Whether user code called the registering function."""
        frame = self.watcher.caller()
        return frame is not None and self.watcher.places.is_user(frame.f_code)

    def _removing(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def remove(handle: Any) -> None:
            original(handle)
            record = self.by_handle.get(getattr(handle, "id", -1))
            if record is not None and record.removed is None:
                record.removed = self.trace.tick()
                record.removed_at = self.watcher.here()

        return remove

    def copied(self, watched: WatchedHook, memo: dict[int, Any]) -> Any:
        """Wrap a hook that deepcopy copied with its module: a function stays the same, a callable object is copied."""
        hook = copy.deepcopy(watched.hook, memo)
        old = watched.record
        if hook is watched.hook:
            return WatchedHook(hook, old, self)
        record = HookRecord(
            id=len(self.trace.hooks), time=self.trace.tick(), kind=old.kind, place=old.place, name=old.name,
            defined=old.defined, same=_same(hook), expression=old.expression, copied_from=old.id,
        )  # fmt: skip
        self.trace.hooks.append(record)
        return WatchedHook(hook, record, self)
