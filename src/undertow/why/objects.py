"""Read the user's objects on either engine: their package, the names of functions, graphs and saved tensors."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from functools import cache
from types import CodeType, FunctionType, MethodType
from typing import Any

from undertow._src.base.ownership import is_own_class, module_name
from undertow.why.places import Place, Places


def package_of(*values: Any) -> Any:
    """Return the package, undertow or torch, of the first object that belongs to one."""
    for value in values:
        if any(map(is_own_class, type(value).__mro__)):
            return sys.modules["undertow"]
        if any(module_name(cls).partition(".")[0] == "torch" for cls in type(value).__mro__):
            return sys.modules["torch"]  # imported, since it made the object; undertow itself never imports it
    given = ", ".join(type(value).__name__ for value in values) or "nothing"
    raise TypeError(f"why takes modules, tensors, optimizers and handles of undertow or torch, but got {given}")


def packages() -> tuple[Any, ...]:
    """Return every engine that this process uses: undertow, and torch if the program imported it."""
    undertow, torch = sys.modules["undertow"], sys.modules.get("torch")
    return (undertow,) if torch is None or torch is undertow else (undertow, torch)


@cache
def part(package: Any, name: str) -> Any:
    """Return a module of an engine by its name, which both engines share: `optim.optimizer`."""
    return importlib.import_module(f"{package.__name__}.{name}")


@cache
def _places(libraries: tuple[Any, ...]) -> Places:
    return Places(libraries)


def places() -> Places:
    """Return the finder of lines of the user's program."""
    return _places(packages())


# --- functions


def unwrapped(hook: Any) -> Any:
    """Return the user's function inside the wrappers of engines and watchers."""
    while True:
        inner = vars(hook).get("__wrapped__") if hasattr(hook, "__dict__") else None
        if inner is None and type(hook).__name__ == "WatchedHook":
            inner = hook.hook
        if inner is None:
            return hook
        hook = inner


def code_of(hook: Any) -> CodeType | None:
    """Return the code that runs when a hook is called."""
    hook = unwrapped(hook)
    while hasattr(hook, "func") and hasattr(hook, "args"):  # functools.partial
        hook = hook.func
    if isinstance(hook, MethodType):
        hook = hook.__func__
    if not isinstance(hook, FunctionType):
        hook = getattr(type(hook), "__call__", None)  # noqa: B004  the method itself is wanted
    return getattr(hook, "__code__", None)


def name_of(hook: Any) -> str:
    """Return a function's name; for a callable object, the name of its class."""
    hook = unwrapped(hook)
    while hasattr(hook, "func") and hasattr(hook, "args"):
        hook = hook.func
    return getattr(hook, "__qualname__", type(hook).__name__).rpartition("<locals>.")[2]


def defined_at(hook: Any) -> Place | None:
    """Return where a hook's function is defined."""
    code = code_of(hook)
    if code is None:
        return None
    return Place(code.co_filename, code.co_firstlineno, code.co_name, (None, None, None), None)


# --- graphs


def roots_of(value: Any) -> list[Any]:
    """Return the `grad_fn` of a tensor, or of several."""
    tensors = value if isinstance(value, (list, tuple)) else [value]
    return [tensor.grad_fn for tensor in tensors if tensor.grad_fn is not None]


def walk(roots: list[Any]) -> Iterator[Any]:
    """Yield every node that can be reached, each once, roots first."""
    seen = set(roots)
    queue = list(roots)
    for node in queue:
        yield node
        for following, _ in node.next_functions:
            if following is not None and following not in seen:
                seen.add(following)
                queue.append(following)


def path_to(roots: list[Any], wanted: Any) -> list[Any] | None:
    """Return the shortest path of nodes from a root to one for which `wanted(node)` holds; None if there is none."""
    came_from: dict[Any, Any] = dict.fromkeys(roots)
    queue = list(roots)
    for node in queue:
        if wanted(node):
            path = [node]
            while (node := came_from[node]) is not None:
                path.append(node)
            return path[::-1]
        for following, _ in node.next_functions:
            if following is not None and following not in came_from:
                came_from[following] = node
                queue.append(following)
    return None


def short_name(node: Any) -> str:
    """Return a node's name without its namespace: MulBackward0, AccumulateGrad."""
    return node.name().rpartition("::")[2]


def freed(node: Any) -> bool:
    """Whether a backward pass has freed what the node saved. Return False for a node that saved nothing."""
    try:
        for _ in saved_tensors(node, strict=True):
            pass
    except RuntimeError as error:
        return "second time" in str(error)
    return False


def saved_tensors(node: Any, strict: bool = False) -> Iterator[tuple[str, Any]]:
    """Yield (name, tensor) for what a node saved. Freed or overwritten tensors are skipped, or raise if `strict`."""
    names = [name for name in dir(node) if name.startswith("_saved_") or name == "saved_tensors"]
    for name in names:
        try:
            value = getattr(node, name)
        except (RuntimeError, AttributeError):
            if strict:
                raise
            continue
        for part in value if isinstance(value, (tuple, list)) else (value,):
            if hasattr(part, "untyped_storage") and hasattr(part, "requires_grad"):
                yield name.removeprefix("_saved_"), part


def storage_key(tensor: Any) -> int | None:
    """Return a key that is equal for tensors that share memory; None for a tensor without memory."""
    try:
        return tensor.untyped_storage().data_ptr() or None
    except (RuntimeError, NotImplementedError, AttributeError):  # sparse, meta
        return None


def norm(*tensors: Any) -> float | None:
    """Return the Euclidean norm of all tensors together; None if no tensor can be measured."""
    total, seen = 0.0, False
    for tensor in tensors:
        if tensor is None or not hasattr(tensor, "is_floating_point"):
            continue
        try:
            values = tensor.detach()
            values = values.coalesce().values() if values.is_sparse else values
            length = package_of(values).linalg.vector_norm(values).item()
        except (RuntimeError, TypeError, NotImplementedError):  # integers, quantized, meta
            continue
        total, seen = total + length * length, True
    return total**0.5 if seen else None


def version_of(tensor: Any) -> int:
    try:
        return tensor._version
    except RuntimeError:  # an inference tensor does not count
        return -1
