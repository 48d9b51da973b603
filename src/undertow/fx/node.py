"""`Node`: one placeholder, call, attribute or output of a graph, linked to its neighbours and its users."""

from __future__ import annotations

import builtins
import functools
import operator
import sys
import types
from collections.abc import Callable
from typing import Any

from undertow.fx.immutable_collections import immutable_dict, immutable_list

__all__ = ["Argument", "Node", "Target", "has_side_effect", "map_aggregate", "map_arg"]

Target = Callable[..., Any] | str
Argument = Any

OPERATIONS = ("placeholder", "call_method", "call_module", "call_function", "get_attr", "output", "root")

# Functions with side effects: their calls are not dead when the result is unused.
_side_effects: set[Callable[..., Any]] = set()

_KEPT = ("_assert", "_assert_async", "setitem")
_RANDOM = "bernoulli multinomial normal poisson rand rand_like randint randint_like randn randn_like randperm".split()

_BUILT_IN_NN = (
    "avg_pool2d avg_pool3d elu_ gelu hardtanh_ leaky_relu_ linear logsigmoid one_hot scaled_dot_product_attention softplus "
    "softshrink"
).split()
_WRITTEN_IN_PYTHON = (
    "celu ctc_loss group_norm layer_norm max_pool1d max_pool1d_with_indices max_pool2d max_pool3d rms_norm rrelu selu "
    "threshold"
).split()
_IN_FUNCTIONAL = (
    "atleast_1d atleast_2d atleast_3d block_diag broadcast_shapes broadcast_tensors cartesian_prod cdist chain_matmul "
    "einsum lu meshgrid norm split stft tensordot unique unique_consecutive unravel_index"
).split()


def has_side_effect(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Declare that calls of a function must be kept even if their result is unused; return the function."""
    _side_effects.add(fn)
    return fn


def map_aggregate(a: Any, fn: Callable[[Any], Any]) -> Any:
    """Return nested tuples, lists, dicts and slices with `fn` applied to their leaves."""
    if isinstance(a, tuple):
        items = [map_aggregate(item, fn) for item in a]
        return type(a)(*items) if hasattr(a, "_fields") else tuple(items)
    if isinstance(a, list):
        return immutable_list([map_aggregate(item, fn) for item in a])
    if isinstance(a, dict):
        return immutable_dict({key: map_aggregate(value, fn) for key, value in a.items()})
    if isinstance(a, slice):
        return slice(*(map_aggregate(part, fn) for part in (a.start, a.stop, a.step)))
    return fn(a)


def map_arg(a: Any, fn: Callable[[Node], Any]) -> Any:
    """Apply `map_aggregate` to the nodes only."""
    if not callable(fn):
        raise AssertionError("torch.fx.map_arg(a, fn): fn must be a callable")
    return map_aggregate(a, lambda leaf: fn(leaf) if isinstance(leaf, Node) else leaf)


@functools.cache
def _names_of_functions() -> dict[int, str]:
    """Return the names that PyTorch's graphs print for undertow's functions, by identity."""
    package = sys.modules["undertow"]
    names: dict[int, str] = {}
    for part in ("nn.functional", "", "nn.init"):
        space = operator.attrgetter(part)(package) if part else package
        for name in dir(space):
            value = getattr(space, name, None) if not name.startswith("__") else None
            if not isinstance(value, (types.FunctionType, types.BuiltinFunctionType)):
                continue
            home = f"torch.{part}." if part else "torch."
            if part == "nn.functional" and name in _BUILT_IN_NN:
                home = "torch._C._nn."
            elif part == "nn.functional" and getattr(package, name, None) is value and name not in _WRITTEN_IN_PYTHON:
                continue  # in PyTorch, too, both names are one function
            elif not part and name in _IN_FUNCTIONAL:
                home = "torch.functional."
            names.setdefault(id(value), home + name)
    for part, home in (("linalg", "_C._linalg.linalg_"), ("fft", "_C._fft.fft_"), ("special", "_C._special.special_")):
        space = getattr(package, part)
        for name in dir(space):
            value = getattr(space, name, None)
            if callable(value) and not isinstance(value, type) and not name.startswith("_"):
                names.setdefault(id(value), f"torch.{home}{name}")
    return names


def qualified_name(func: Any) -> str:
    """Return a function's module and name; for undertow's functions, those of PyTorch."""
    name = getattr(func, "__name__", None) or type(func).__name__
    if getattr(builtins, name, None) is func:
        return name
    known = _names_of_functions().get(id(func))
    if known is not None:
        return known
    module = getattr(func, "__module__", None) or type(func).__module__
    if module == "undertow" or module.startswith("undertow."):
        module = "torch" + module.removeprefix("undertow")
    if str(type(func).__name__) in ("OpOverload", "OpOverloadPacket"):
        return f"torch.ops.{func}"
    return f"{module}.{getattr(func, '__qualname__', name) if isinstance(func, type) else name}"


def shown_target(target: Any) -> str:
    """Return a target as a graph prints it."""
    if isinstance(target, str):
        return target
    name = qualified_name(target)
    if "." not in name:
        return f"builtins.{name}"
    return name.replace("_operator.", "operator.", 1) if name.startswith("_operator.") else name


class Node:
    """One step of a program. `op` is its kind:

    placeholder    an input; `target` its name, `args` its default
    get_attr       an attribute of the module; `target` its path
    call_function  `target(*args, **kwargs)`
    call_module    the submodule of path `target`, called
    call_method    the method of name `target` of `args[0]`, called with the rest
    output         what the program returns, `args[0]`

    Arguments are nested containers of nodes and constants. `users` maps the nodes that use this one's value to None.
    """

    def __init__(
        self, graph: Any, name: str, op: str, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any],
        return_type: Any = None,
    ) -> None:  # fmt: skip
        if op == "call_function":
            if not callable(target):
                raise ValueError(
                    f"Node [graph = {graph}, name = '{name}'] target {target} has type {_type_name(target)} "
                    "but a Callable is expected"
                )
        elif not isinstance(target, str):
            raise AssertionError(f"Expected target to be str, got {type(target)}")
        if op not in OPERATIONS:
            raise AssertionError(f"op {op!r} is not in _legal_ops")
        self.graph, self.name, self.op, self.target = graph, name, op, target
        self.type = return_type
        self.users: dict[Node, None] = {}
        self.meta: dict[str, Any] = {}
        self._input_nodes: dict[Node, None] = {}
        self._args: tuple[Any, ...] = ()
        self._kwargs: dict[str, Any] = {}
        self._prev = self._next = self
        self._erased = False
        self._repr_fn: Callable[[Node], str] | None = None
        self._set_arguments(args, kwargs)

    # --- neighbours

    @property
    def next(self) -> Node:
        """The node after this one."""
        return self._next

    @property
    def prev(self) -> Node:
        """The node before this one."""
        return self._prev

    def prepend(self, x: Node) -> None:
        """Move `x` to just before this node."""
        if self.graph is not x.graph:
            raise AssertionError("Attempting to move a Node into a different Graph")
        if self is x:
            return
        x._remove_from_list()
        before = self._prev
        before._next, x._prev = x, before
        x._next, self._prev = self, x

    def append(self, x: Node) -> None:
        """Move `x` to just after this node."""
        self._next.prepend(x)

    def _remove_from_list(self) -> None:
        self._prev._next, self._next._prev = self._next, self._prev

    def __lt__(self, other: Node) -> bool:
        return self._place() < other._place()

    def _place(self) -> int:
        return next(i for i, node in enumerate(self.graph.nodes) if node is self)

    # --- arguments

    @property
    def args(self) -> tuple[Any, ...]:
        """The positional arguments; assign a new tuple to change them."""
        return self._args

    @args.setter
    def args(self, a: tuple[Any, ...]) -> None:
        self._set_arguments(a, self._kwargs)

    @property
    def kwargs(self) -> dict[str, Any]:
        """The keyword arguments; assign a new dict to change them."""
        return self._kwargs

    @kwargs.setter
    def kwargs(self, k: dict[str, Any]) -> None:
        self._set_arguments(self._args, k)

    @property
    def all_input_nodes(self) -> list[Node]:
        """The nodes among the arguments, each once."""
        return list(self._input_nodes)

    def _set_arguments(self, args: Any, kwargs: Any) -> None:
        for old in self._input_nodes:
            old.users.pop(self, None)
        self._input_nodes = {}

        def use(node: Node) -> Node:
            self._input_nodes.setdefault(node)
            node.users.setdefault(self)
            return node

        self._args, self._kwargs = map_arg(tuple(args), use), map_arg(dict(kwargs), use)

    def update_arg(self, idx: int, arg: Argument) -> None:
        """Replace one positional argument."""
        args = list(self.args)
        args[idx] = arg
        self.args = tuple(args)

    def insert_arg(self, idx: int, arg: Argument) -> None:
        """Insert a positional argument."""
        if not 0 <= idx <= len(self.args):
            raise AssertionError("insert_args index must be between 0 and len(self.args)")
        self.args = (*self.args[:idx], arg, *self.args[idx:])

    def update_kwarg(self, key: str, arg: Argument) -> None:
        """Replace one keyword argument."""
        self.kwargs = {**self.kwargs, key: arg}

    def replace_input_with(self, old_input: Node, new_input: Node) -> None:
        """Replace one node by another among the arguments."""

        def swap(node: Node) -> Node:
            return new_input if node is old_input else node

        self._set_arguments(map_arg(self._args, swap), map_arg(self._kwargs, swap))

    def replace_all_uses_with(
        self, replace_with: Node, delete_user_cb: Callable[[Node], bool] | None = None, *, propagate_meta: bool = False
    ) -> list[Node]:
        """Replace this node by another in all its users that the callback accepts; return the changed users."""
        if propagate_meta:
            if replace_with.meta:
                raise AssertionError("Called node.replace_all_uses_with(replace_with, propagate_meta=True), but "
                                     "replace_with already has .meta keys")  # fmt: skip
            replace_with.meta.update(self.meta)
        changed = [user for user in self.users if delete_user_cb is None or delete_user_cb(user)]
        for user in changed:
            user.replace_input_with(self, replace_with)
        return changed

    # --- text

    def is_impure(self, impure_random: bool = True) -> bool:
        """Whether the node must be kept even if it is unused."""
        if self.op in ("placeholder", "output"):
            return True
        if self.op == "call_function":
            name = getattr(self.target, "__name__", "")
            return self.target in _side_effects or name in _KEPT or (impure_random and name in _RANDOM)
        if self.op == "call_module":
            module = self.graph.owning_module
            found = module.get_submodule(self.target) if module is not None else None
            return getattr(found, "_is_impure", False)
        return False

    @property
    def stack_trace(self) -> str | None:
        """The stack where the step was recorded, if the tracer stores it."""
        return self.meta.get("stack_trace")

    @stack_trace.setter
    def stack_trace(self, trace: str | None) -> None:
        self.meta["stack_trace"] = trace

    def _rename(self, candidate: str) -> None:
        if candidate != self.name:
            self.name = self.graph._names.create(candidate)

    def __repr__(self) -> str:
        return self._repr_fn(self) if self._repr_fn else self.name

    def format_node(
        self, placeholder_names: list[str] | None = None, maybe_return_typename: list[str] | None = None, *,
        include_tensor_metadata: bool = False,
    ) -> str | None:  # fmt: skip
        """Return one line that describes the node."""
        head = f"%{self.name} : {_type_word(self.type)}[num_users={len(self.users)}]"
        if self.op == "placeholder":
            if placeholder_names is not None:
                placeholder_names.append(f"{self.target} : {_type_word(self.type)}" if self.type else str(self.target))
            default = f"(default={self.args[0]})" if self.args else ""
            return f"{head} = placeholder[target={self.target}]{default}"
        if self.op == "get_attr":
            return f"{head} = get_attr[target={self.target}]"
        if self.op == "output":
            if self.type and maybe_return_typename is not None:
                maybe_return_typename[0] = f" -> {_type_word(self.type).strip()}"
            return f"return {self.args[0]}"
        arguments = f"(args = {_shown(self.args)}, kwargs = {_shown(self.kwargs)})"
        return f"{head} = {self.op}[target={shown_target(self.target)}]{arguments}"


def _type_name(value: Any) -> str:
    return type(value).__name__


def _type_word(kind: Any) -> str:
    if kind is None:
        return ""
    if isinstance(kind, type) and not isinstance(kind, types.GenericAlias):
        home = kind.__module__
        home = "torch" + home.removeprefix("undertow") if home.partition(".")[0] == "undertow" else home
        home = "torch" if kind.__name__ == "Tensor" and home.startswith("torch") else home
        return f"{kind.__name__} " if home == "builtins" else f"{home}.{kind.__name__} "
    return f"{kind} ".replace("undertow._tensor.Tensor", "torch.Tensor").replace("undertow.", "torch.")


def _shown(value: Any) -> str:
    """Return arguments as graphs print them: nodes with a %, strings without quotes."""
    if isinstance(value, Node):
        return f"%{value.name}"
    if isinstance(value, tuple):
        return f"({', '.join(map(_shown, value))}{',' if len(value) == 1 else ''})"
    if isinstance(value, list):
        return f"[{', '.join(map(_shown, value))}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_shown(item)}" for key, item in value.items()) + "}"
    return str(value)
