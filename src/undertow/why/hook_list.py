"""`why.hooks`: list every hook on a model, its parameters, a tensor and its graph, or an optimizer."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from undertow.why import objects
from undertow.why.compiled_steps import runs_of
from undertow.why.objects import defined_at, name_of, package_of, part
from undertow.why.places import Place
from undertow.why.registrations import all_seen, place_in, seen, tensor_text
from undertow.why.report import Report, Table

MODULE_MAPS = {
    "_forward_pre_hooks": "forward-pre",
    "_forward_hooks": "forward",
    "_backward_pre_hooks": "full-backward-pre",
    "_backward_hooks": "full-backward",
    "_state_dict_pre_hooks": "state-dict-pre",
    "_state_dict_hooks": "state-dict",
    "_load_state_dict_pre_hooks": "load-state-dict-pre",
    "_load_state_dict_post_hooks": "load-state-dict-post",
    "_parameters_ready_hooks": "parameters-ready",
}
GLOBAL_MAPS = {
    "_global_forward_pre_hooks": "global forward-pre",
    "_global_forward_hooks": "global forward",
    "_global_backward_pre_hooks": "global full-backward-pre",
    "_global_backward_hooks": "global full-backward",
    "_global_parameter_registration_hooks": "global parameter-registration",
    "_global_buffer_registration_hooks": "global buffer-registration",
    "_global_module_registration_hooks": "global module-registration",
}
OPTIMIZER_MAPS = {
    "_optimizer_step_pre_hooks": "step-pre",
    "_optimizer_step_post_hooks": "step-post",
    "_optimizer_state_dict_pre_hooks": "state-dict-pre",
    "_optimizer_state_dict_post_hooks": "state-dict-post",
    "_optimizer_load_state_dict_pre_hooks": "load-state-dict-pre",
    "_optimizer_load_state_dict_post_hooks": "load-state-dict-post",
}
GLOBAL_OPTIMIZER_MAPS = {
    "_global_optimizer_pre_hooks": "global step-pre",
    "_global_optimizer_post_hooks": "global step-post",
}
# Maps of flags that PyTorch keeps for the hooks of a map, under the same keys.
_FLAGS = {
    "_forward_pre_hooks": ("_forward_pre_hooks_with_kwargs",),
    "_forward_hooks": ("_forward_hooks_with_kwargs", "_forward_hooks_always_called"),
    "_global_forward_hooks": ("_global_forward_hooks_with_kwargs", "_global_forward_hooks_always_called"),
}


class HookEntry:
    """One hook in its map.

    kind: `tensor`, `forward`, `full-backward`, …; owner: the name of the hooked object; name, defined: its function;
    registered, fired: where it was registered and how often it fired, None if that was not observed.
    """

    __slots__ = ("defined", "fired", "kind", "key", "map", "name", "owner", "registered", "_flags", "_target")

    def __init__(self, package: Any, kind: str, owner: str, target: Any, hooks: Any, key: int, flags: Any = ()) -> None:
        hook = hooks[key]
        self.kind = kind
        self.owner = owner
        self.name = name_of(hook)
        self.defined: Place | None = defined_at(hook)
        self.map = hooks
        self.key = key
        self._target = target
        self._flags = flags
        known = seen(package, key)
        watched = getattr(hook, "record", None)  # the watcher's wrapper counts, too
        self.registered: Place | None = known.place if known else getattr(watched, "place", None) or place_in(key)
        self.fired: int | None = known.fired if known else None
        if self.fired is None and watched is not None and hasattr(watched, "firings"):
            self.fired = len(watched.firings)

    @property
    def hook(self) -> Any:
        """The hook function; None once it is removed."""
        return self.map.get(self.key)

    def remove(self) -> None:
        """Remove the hook."""
        for hooks in (self.map, *self._flags):
            hooks.pop(self.key, None)


class HookList(Report):
    """The hooks that were found, in the order of their owners. `remove` and `remove_all` remove them."""

    def __init__(self, entries: list[HookEntry], remarks: list[str]) -> None:
        self.entries = entries
        self._remarks = remarks

    def title(self) -> str:
        return f"{len(self.entries)} hook{'' if len(self.entries) == 1 else 's'}"

    def tables(self) -> list[Table]:
        rows: list[tuple[Any, ...]] = [
            (entry.kind, entry.owner, entry.name, entry.defined, entry.registered, entry.fired)
            for entry in self.entries
        ]
        columns = ("kind", "owner", "hook", "defined", "registered", "fired")
        return [Table(columns, rows)] if rows else []

    def notes(self) -> list[str]:
        unknown = any(entry.registered is None or entry.fired is None for entry in self.entries)
        known = (
            ["- : not known; register and run hooks inside why.ledger() or why.watch() to see it"] if unknown else []
        )
        compiled = [f"{entry.name} on {entry.owner}: {runs}" for entry in self.entries for runs in runs_of(entry.hook)]
        return known + compiled + self._remarks

    def __len__(self) -> int:
        return len(self.entries)

    def __iter__(self) -> Iterator[HookEntry]:
        return iter(self.entries)

    def remove(self, owner: Any) -> HookList:
        """Remove the hooks of an owner (its name, or the module or tensor itself) and of everything inside it.

        Return the removed hooks as a list.
        """
        if isinstance(owner, str):
            return self._without([entry for entry in self.entries if f"{entry.owner}.".startswith(f"{owner}.")])
        below = {id(owner)}
        if hasattr(owner, "modules"):
            below.update(id(part) for part in (*owner.modules(), *owner.parameters(), *owner.buffers()))
        return self._without([entry for entry in self.entries if id(entry._target) in below])

    def remove_all(self) -> HookList:
        """Remove every hook in the list, global ones included. Return the removed hooks as a list."""
        return self._without(list(self.entries))

    def _without(self, gone: list[HookEntry]) -> HookList:
        for entry in gone:
            entry.remove()
        self.entries = [entry for entry in self.entries if entry not in gone]
        return HookList(gone, [])


def hooks(*subjects: Any) -> HookList:
    """Return every hook on modules, tensors or optimizers.

    For a module, hooks on its submodules, parameters and buffers and global hooks are included; for a tensor, hooks on
    its graph.

    >>> from undertow import why
    >>> layer = torch.nn.Linear(2, 2)
    >>> handle = layer.register_forward_hook(print)
    >>> len(why.hooks(layer)), len(why.hooks(layer).remove_all()), len(why.hooks(layer))
    (1, 1, 0)
    """
    entries: list[HookEntry] = []
    remarks: list[str] = []
    everywhere: dict[str, Any] = {}
    for subject in subjects:
        package = package_of(subject)
        if hasattr(subject, "named_modules"):
            entries += of_module(package, subject)
            everywhere["modules " + package.__name__] = package
        elif hasattr(subject, "param_groups"):
            name = type(subject).__name__
            entries += _of_maps(package, OPTIMIZER_MAPS, name, subject)
            everywhere["optimizers " + package.__name__] = package
        elif hasattr(subject, "grad_fn"):
            entries += _of_tensor(package, tensor_text(subject), subject)
            entries += _of_graph(package, subject)
            if package is not sys.modules["undertow"] and subject.grad_fn is not None:
                remarks.append(
                    "PyTorch does not list the hooks on nodes of a graph; hooks on its tensors are listed if they were "
                    "registered inside why.ledger() or why.watch()"
                )
        else:
            raise TypeError(f"why.hooks takes modules, tensors and optimizers, but got {type(subject).__name__}")
    for what, package in everywhere.items():
        entries += of_everything(package) if what.startswith("modules") else _of_every_optimizer(package)
    found: dict[tuple[int, int], HookEntry] = {}
    for entry in entries:  # a tensor may be listed by itself and in the graph of another
        found.setdefault((id(entry.map), entry.key), entry)
    return HookList(list(found.values()), remarks)


def of_module(package: Any, model: Any) -> list[HookEntry]:
    """Return the hooks on a module, its submodules, parameters and buffers."""
    entries: list[HookEntry] = []
    for name, module in model.named_modules():
        entries += _of_maps(package, MODULE_MAPS, name or f"({type(module).__name__})", module)
    for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
        entries += _of_tensor(package, name, tensor)
    return entries


def of_everything(package: Any) -> list[HookEntry]:
    """Return the global hooks of modules."""
    return _of_maps(package, GLOBAL_MAPS, "every module", part(package, "nn.modules.module"))


def _of_every_optimizer(package: Any) -> list[HookEntry]:
    return _of_maps(package, GLOBAL_OPTIMIZER_MAPS, "every optimizer", part(package, "optim.optimizer"))


def _of_maps(package: Any, maps: dict[str, str], owner: str, target: Any) -> list[HookEntry]:
    entries = []
    for attribute, kind in maps.items():
        found = getattr(target, attribute, None)
        if not found:
            continue
        if attribute == "_backward_hooks" and getattr(target, "_is_full_backward_hook", True) is False:
            kind = "backward"
        flags = [getattr(target, name) for name in _FLAGS.get(attribute, ()) if hasattr(target, name)]
        entries += [HookEntry(package, kind, owner, target, found, key, flags) for key in found]
    return entries


def _of_tensor(package: Any, owner: str, tensor: Any) -> list[HookEntry]:
    maps = {"_backward_hooks": "tensor", "_post_accumulate_grad_hooks": "post-accumulate"}
    return _of_maps(package, maps, owner, tensor)


def _of_graph(package: Any, root: Any) -> list[HookEntry]:
    """Return the hooks on the nodes of a tensor's graph, on the tensors that they made, and on the leaves."""
    entries: list[HookEntry] = []
    nodes = list(objects.walk(objects.roots_of(root)))
    for node in nodes:
        name = objects.short_name(node)
        variable = getattr(node, "variable", None)
        if variable is not None:
            entries += _of_tensor(package, tensor_text(variable), variable)
        if not hasattr(node, "_hooked_outputs"):  # only undertow's nodes list their hooks
            continue
        maps = [("tensor", f"output {number} of {name}", own) for number, own in node._hooked_outputs().items()]
        if node._extras is not None:
            maps += [("node-pre", name, node._extras.pre_hooks), ("node", name, node._extras.post_hooks)]
        entries += [HookEntry(package, kind, owner, node, own, key) for kind, owner, own in maps for key in own or ()]
    in_graph = set(nodes)
    for known in all_seen(package):
        tensor = known.owner()
        if tensor is None or known.kind not in ("tensor", "multi-grad") or known.hook() is None:
            continue
        if tensor.grad_fn in in_graph:
            own = known.handle.hooks_dict_ref()
            entries.append(HookEntry(package, known.kind, tensor_text(tensor), tensor, own, known.handle.id))
    return entries
