"""What a step depends on besides its arguments: found by walking from the function to all it can reach.

Modules, optimizers, containers and objects of the user's own are looked through; what they hold is remembered. Before a
call a glance at the same places tells whether anything is another object than it was, in which case the program at hand
does not fit; after the trace it tells what the step left where.
"""

from __future__ import annotations

import inspect
import types
from operator import is_
from typing import Any

from undertow._core import TensorCore
from undertow.generators import Generator, default_generator
from undertow.nn.modules import module as modules_
from undertow.nn.modules.module import Module
from undertow.optim import optimizer as optimizers_
from undertow.optim.optimizer import Optimizer

PLAIN = (int, float, complex, str, bytes, bool, type(None))
_WITH_STATE = ("undertow.optim", "undertow.amp")  # schedulers and scalers are looked through as if they were the user's
DEPTH = 6  # how far objects of the user's own are followed

GLOBAL_HOOKS = [
    value
    for holder in (modules_, optimizers_)
    for name, value in vars(holder).items()
    if name.startswith("_global_") and hasattr(value, "values")
]


class State:
    """Everything found, in the order in which it was found."""

    def __init__(self) -> None:
        self.tensors: list[Any] = []
        self.modules: list[Module] = []
        self.optimizers: list[Optimizer] = []
        self.generators: list[Generator] = [default_generator]
        self.maps: list[tuple[dict[Any, Any], str]] = []
        self.lists: list[tuple[list[Any], str]] = []
        self.cells: list[tuple[Any, str]] = []  # closure cells
        self.globals: list[tuple[dict[str, Any], str]] = []  # names, in a module or an object
        self.seen: set[int] = set()  # ids of all that was found
        self._kept: list[Any] = []  # so that no id is used again

    def walk(self, root: Any, name: str, depth: int = 0) -> None:
        """Follows an object to what it holds."""
        if isinstance(root, PLAIN) or id(root) in self.seen:
            return
        self.seen.add(id(root))
        self._kept.append(root)
        if isinstance(root, TensorCore):
            self.tensors.append(root)
        elif isinstance(root, Module):
            self._walk_module(root, name)
        elif isinstance(root, Optimizer):
            self._walk_optimizer(root, name)
        elif isinstance(root, Generator):
            if root is not default_generator:
                self.generators.append(root)
        elif isinstance(root, types.FunctionType):
            self._walk_function(root, name, depth)
        elif isinstance(root, types.MethodType):
            self.walk(root.__self__, name, depth)
            self.walk(root.__func__, name, depth)
        elif isinstance(root, dict):
            self.maps.append((root, name))
            for key, value in list(root.items()):
                self.walk(value, f"{name}[{key!r}]" if isinstance(key, PLAIN) else name, depth)
        elif isinstance(root, list):
            self.lists.append((root, name))
            for place, value in enumerate(root):
                self.walk(value, f"{name}[{place}]", depth)
        elif isinstance(root, (tuple, set, frozenset)):
            for place, value in enumerate(root):
                self.walk(value, f"{name}[{place}]", depth)
        elif depth < DEPTH and _is_users_own(root):
            self.maps.append((vars(root), name))
            for key, value in list(vars(root).items()):
                self.walk(value, f"{name}.{key}", depth + 1)

    def _walk_module(self, root: Module, name: str) -> None:
        for inner, module in root.named_modules():
            shown = f"{name}.{inner}" if inner else name
            if id(module) in self.seen and module is not root:
                continue
            self.seen.add(id(module))
            self._kept.append(module)
            self.modules.append(module)
            self.maps.append((vars(module), shown))
            for holder in (module._parameters, module._buffers, module._modules):
                self.seen.add(id(holder))
                self.maps.append((holder, shown))
            for key, value in list(vars(module).items()):
                if "hooks" in key and isinstance(value, dict):  # which hooks there are; `firing` looks into them
                    self.seen.add(id(value))
                    self.maps.append((value, f"the {key.removeprefix('_').replace('_', ' ')} of {shown}"))
                elif key != "_modules":
                    self.walk(value, f"{shown}.{key.removeprefix('_')}" if key != "_parameters" else shown, 1)
            for holder in (module._parameters, module._buffers):
                for key, value in holder.items():
                    self.walk(value, f"{shown}.{key}")

    def _walk_optimizer(self, root: Optimizer, name: str) -> None:
        self.optimizers.append(root)
        self.globals += [(vars(root), "state"), (vars(root), "param_groups")]  # loading a state replaces them
        self.lists.append((root.param_groups, f"{name}.param_groups"))
        for group in root.param_groups:
            self.seen.add(id(group))
            self.walk(group["params"], f"{name}.params")
            for key, value in group.items():
                if key != "params":
                    self.walk(value, f"{name}.{key}")
        self.walk(root.state, f"{name}.state")
        for key, value in vars(root).items():
            if "hooks" in key and isinstance(value, dict):
                self.maps.append((value, f"the hooks of {name}"))

    def _walk_function(self, root: types.FunctionType, name: str, depth: int) -> None:
        if depth > DEPTH or (root.__module__ or "").partition(".")[0] == "undertow":
            return
        for free, cell in zip(root.__code__.co_freevars, root.__closure__ or ()):
            self.cells.append((cell, free))
            try:
                self.walk(cell.cell_contents, free, depth + 1)
            except ValueError:  # not filled yet
                continue
        for used in sorted(_names_of(root.__code__)):
            if used in root.__globals__:
                self.globals.append((root.__globals__, used))
                self.walk(root.__globals__[used], used, depth + 1)
        for value in (*(root.__defaults__ or ()), *(root.__kwdefaults__ or {}).values()):
            self.walk(value, name, depth + 1)


def _names_of(code: types.CodeType) -> set[str]:
    """The names that a function, and the functions written inside it, may look up among the globals."""
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= _names_of(constant)
    return names


def _is_users_own(value: Any) -> bool:
    if isinstance(value, (type, types.ModuleType, types.BuiltinFunctionType)) or not hasattr(value, "__dict__"):
        return False
    home = type(value).__module__ or ""
    return home.partition(".")[0] not in ("undertow", "numpy", "jax", "builtins") or home.startswith(_WITH_STATE)


class Snapshot:
    """What every watched place held at one moment."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.maps = [(holder, dict(holder)) for holder, _ in state.maps]
        self.lists = [(holder, list(holder)) for holder, _ in state.lists]
        self.cells = [(cell, _contents(cell)) for cell, _ in state.cells]
        self.globals = [(holder, name, holder.get(name)) for holder, name in state.globals]
        self.grads = [(tensor, tensor._meta.grad if tensor._meta is not None else None) for tensor in state.tensors]
        self.flags = [(tensor, tensor._requires_grad) for tensor in state.tensors]
        self.hooks = [(holder, dict(holder)) for holder in GLOBAL_HOOKS]
        self.leaf_hooks = [
            (tensor, _hooks_of(tensor._meta)) for tensor in state.tensors
        ]  # fmt: skip
        # For the glance before a call: live views of mappings beside what they held.
        watched = [*self.maps, *self.hooks]
        self._values = [(holder.values(), tuple(held.values())) for holder, held in watched if held]
        self._empty = [holder for holder, held in watched if not held]
        self.watches_gradients = True
        self._metas = [(tensor, _look_of(grad)) for tensor, grad in self.grads if tensor._requires_grad]
        self._frozen = [tensor for tensor in state.tensors if not tensor._requires_grad]
        self._hooked = [(tensor, held) for tensor, held in self.leaf_hooks if tensor._requires_grad]

    def holds(self) -> bool:
        """Whether every place holds what it held."""
        for values, held in self._values:
            if len(values) != len(held) or not all(map(is_, values, held)):
                if not _alike(list(values), list(held)):
                    return False
        for items, kept in self.lists:
            if len(items) != len(kept) or not all(map(is_, items, kept)):
                return False
        for cell, was in self.cells:
            if cell.cell_contents is not was and not _same(cell.cell_contents, was):
                return False
        for names, name, was in self.globals:
            if names.get(name) is not was and not _same(names.get(name), was):
                return False
        if any(self._empty):
            return False
        for tensor, look in self._metas:
            meta = tensor._meta
            if not tensor._requires_grad:
                return False
            if self.watches_gradients and (None if meta is None else _look_of(meta.grad)) != look:
                return False
        for tensor in self._frozen:
            if tensor._requires_grad:
                return False
        for tensor, held in self._hooked:
            meta = tensor._meta
            if meta is not None and (meta.hooks or meta.post_hooks or held) and _hooks_of(meta) != held:
                return False
        return True

    def difference(self) -> str:
        """What is not as it was, in words; for `explain` and for warnings."""
        names = {id(holder): name for holder, name in (*self.state.maps, *self.state.lists)}
        for holder, held in self.maps:
            for key in {**held, **holder}:
                before, now = held.get(key, _ABSENT), holder.get(key, _ABSENT)
                if before is not now and not _same(before, now):
                    return f"{names.get(id(holder), '')}: {_change(key, before, now)}"
        for items, kept in self.lists:
            if len(items) != len(kept) or not all(map(is_, items, kept)):
                return f"the list {names.get(id(items), '')} changed"
        for (cell, name), (_, was) in zip(self.state.cells, self.cells):
            if not _same(_contents(cell), was):
                return _change(name, was, _contents(cell))
        for holder, name, was in self.globals:
            if not _same(holder.get(name), was):
                return _change(name, was, holder.get(name))
        for holder, held in self.hooks:
            if dict(holder) != held:
                return "the hooks on all modules or all optimizers changed"
        for tensor, grad in self.grads:
            now = None if tensor._meta is None else tensor._meta.grad
            if self.watches_gradients and _look_of(now) != _look_of(grad):
                had = "had no gradient" if grad is None else "had a gradient"
                return f"a parameter of shape {list(tensor._array.shape)} {had} when the step was compiled, and now " + (
                    "has none" if now is None else "has one" if grad is None else "has another"
                )
        for tensor, hooks in self.leaf_hooks:
            if _hooks_of(tensor._meta) != hooks:
                return f"the hooks on a tensor of shape {list(tensor._array.shape)} changed"
        for tensor, flag in self.flags:
            if tensor._requires_grad != flag:
                return f"requires_grad of a tensor of shape {list(tensor._array.shape)} changed"
        return "something changed"

    def restore(self) -> None:
        """Puts everything back, after a trace that came to nothing."""
        for holder, held in self.maps:
            if len(holder) != len(held) or not all(map(is_, holder.values(), held.values())):
                holder.clear()
                holder.update(held)
        for into, kept in self.lists:
            into[:] = kept
        for cell, contents in self.cells:
            if contents is not _ABSENT:
                cell.cell_contents = contents
        for holder, name, value in self.globals:
            if name in holder and holder[name] is not value:
                holder[name] = value
        self.restore_gradients()

    def restore_gradients(self) -> None:
        """Puts back the gradients alone."""
        for tensor, grad in self.grads:
            if tensor._meta is not None:
                tensor._meta.grad = grad


_ABSENT = object()


def _contents(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return _ABSENT


def _look_of(grad: Any) -> Any:
    """What a program depends on in a gradient, which is another tensor in each step."""
    return None if grad is None else (grad._array.dtype, grad._requires_grad)


def _hooks_of(meta: Any) -> tuple[Any, ...]:
    if meta is None:
        return ()
    return (*(meta.hooks or {}).values(), *(meta.post_hooks or {}).values())


def _same(a: Any, b: Any) -> bool:
    """Whether two values are one object, or equal plain values."""
    return a is b or (type(a) is type(b) and isinstance(a, PLAIN) and (a == b or (a != a and b != b)))


def _alike(now: list[Any], held: list[Any]) -> bool:
    return len(now) == len(held) and all(map(_same, now, held))


def _change(key: Any, before: Any, now: Any) -> str:
    def shown(value: Any) -> str:
        if value is _ABSENT:
            return "absent"
        return repr(value) if isinstance(value, PLAIN) else f"a {type(value).__name__}"

    key = key if isinstance(key, PLAIN) else f"an entry for a {type(key).__name__}"
    return f"{key} was {shown(before)} and is {shown(now)}"


def where_defined(function: Any) -> str:
    """file:line of a function."""
    code = getattr(inspect.unwrap(getattr(function, "__func__", function)), "__code__", None)
    return "" if code is None else f"{code.co_filename}:{code.co_firstlineno}"
