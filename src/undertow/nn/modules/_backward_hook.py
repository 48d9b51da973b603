"""How a module's full backward hooks see the gradients of its inputs and outputs.

A call of a hooked module runs between two identity nodes: one for the tensors among its inputs, one for those among its
outputs. In the backward pass the output node comes first. It receives grad_output, which pre-hooks may replace. The
input node receives grad_input, and the hooks run there. If no input requires gradients there is no such node, and they
run at the output node, with None for each input.

As in PyTorch, only tensors that are themselves arguments or outputs are seen. `_nested_backward_hook` also looks inside
dicts, lists and dataclasses, and at keyword arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from undertow._src.base import hooks
from undertow._src.base.modes import local, slow_path
from undertow._src.base.sites import user_stack, warn
from undertow._src.engine import backward_hooks
from undertow._src.engine.node import Node, edge_of
from undertow._src.overrides import torch_function
from undertow._src.tensor.core import TensorCore, View, tensor_class, wrap
from undertow._tensor import Tensor

if TYPE_CHECKING:
    from undertow._src.rules.array import Namespace
    from undertow.nn.modules._hook_registry import ModuleHooks

_new = object.__new__
_FIRST = [0]  # the positions when there is a single tensor

# Called at a node with the gradients it received and those it would pass on; returns what it passes on.
Observer = Callable[[Any, Sequence[Any], tuple[Any, ...]], tuple[Any, ...]]


class BackwardHookFunctionBackward(Node):
    """An identity node in the graph. What `observe` returns is passed on to the inputs."""

    __slots__ = ("_n_outputs", "shapes", "observe")
    __module__ = "torch.autograd.function"

    _n_outputs: int

    def __init__(self, edges: tuple[Any, ...], shapes: Sequence[Any], observe: Observer) -> None:
        self._edges = edges
        self._order = next(local.modes.sequence)
        self._extras = self._tensor_hooks = None
        if slow_path.anomaly:
            self._get_extras().stack = user_stack()
        self._n_outputs = len(edges)
        self.shapes = shapes  # shape and dtype of each tensor
        self.observe = observe

    def __repr__(self) -> str:
        return f"<{type(self).__module__}.{type(self).__name__} object at {id(self):#x}>"

    def _takes(self, g: object) -> bool:
        return True

    def _run(self, xp: Namespace, g: Any, needs: tuple[bool, ...] | None) -> tuple[Any, ...]:
        if self._n_outputs == 1 and g is not None:
            arrived = (g,)
            return arrived if _is_silent() else self.observe(xp, arrived, arrived)
        arrived = (g,) if self._n_outputs == 1 else g
        passed = tuple([xp.zeros(*shape) if part is None else part for part, shape in zip(arrived, self.shapes)])
        return passed if _is_silent() else self.observe(xp, arrived, passed)


def _is_silent() -> bool:
    task = local.modes.backward_pass
    return task is not None and task.silent


def through_identity(values: Sequence[Any], observe: Observer) -> tuple[Sequence[Any], list[int]] | None:
    """Pass the tensors among the values through a node; return the values and the tensors' positions.

    Return None if no gradient can arrive there.
    """
    if not local.modes.grad_enabled:
        return None
    if len(values) == 1 and isinstance(values[0], TensorCore):  # the common case, without lists
        tensor: Any = values[0]
        if not tensor.requires_grad:
            return None
        array = tensor._array
        node = BackwardHookFunctionBackward((tensor._edge or edge_of(tensor),), ((array.shape, array.dtype),), observe)
        return (_behind(node, 0, tensor),), _FIRST
    places = [place for place, value in enumerate(values) if isinstance(value, TensorCore)]
    tensors: list[Any] = [values[place] for place in places]
    edges = tuple([(tensor._edge or edge_of(tensor)) if tensor.requires_grad else None for tensor in tensors])
    if not any(edges):
        return None
    node = BackwardHookFunctionBackward(edges, [(t._array.shape, t._array.dtype) for t in tensors], observe)
    result = list(values)
    for nr, (place, tensor) in enumerate(zip(places, tensors)):
        result[place] = _behind(node, nr, tensor) if edges[nr] is not None else tensor.detach()
    return result, places


def _behind(node: Node, nr: int, tensor: Tensor) -> Tensor:
    """Return the same tensor as output `nr` of a node: an alias that may not be written to."""
    if type(tensor) in torch_function.PLAIN:
        result: Any = _new(tensor_class())
        result._array = tensor._array
        result._meta = None
        storage = result._storage = tensor._get_storage()
    else:
        result = tensor.detach()
        storage = result._get_storage()
    outer = tensor._view
    result._view = View(tensor if outer is None else outer.base, (), storage.version, "function")
    result._edge = (node, nr)
    result._requires_grad = True
    return result


class BackwardHook:
    """The full backward hooks around one call of a module."""

    __slots__ = ("module", "user_hooks", "user_pre_hooks", "grad_outputs", "n_inputs", "n_outputs", "input_places",
                 "output_places")  # fmt: skip

    def __init__(
        self, module: ModuleHooks, user_hooks: Sequence[hooks.Hook], user_pre_hooks: Sequence[hooks.Hook]
    ) -> None:
        self.module, self.user_hooks, self.user_pre_hooks = module, user_hooks, user_pre_hooks
        self.grad_outputs: tuple[Any, ...] | None = None
        self.n_inputs = self.n_outputs = 0
        self.input_places: list[int] | None = None
        self.output_places: list[int] = []

    # --- at forward

    def enter(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
        """Return the arguments to call the module with."""
        return self.setup_input_hook(args), kwargs

    def leave(self, output: object) -> Any:
        """Return the output to hand to the caller."""
        if isinstance(output, (TensorCore, tuple)):
            return self.setup_output_hook(output)
        self._warn_that_hooks_cannot_fire(f"{type(output)}")
        return output

    def setup_input_hook(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Pass the tensors among the arguments through the input node."""
        self.n_inputs = len(args)
        passed = through_identity(args, self._at_inputs)
        if passed is None:
            return args
        values, self.input_places = passed
        return tuple(values)

    def setup_output_hook(self, output: Any) -> Any:
        """Pass the tensors among the outputs through the output node."""
        single = isinstance(output, TensorCore)
        outputs = (output,) if single else output
        self.n_outputs = len(outputs)
        passed = through_identity(outputs, self._at_outputs)
        if passed is None:
            if not single and any(_holds_requiring_grad(part) for part in outputs):
                self._warn_that_hooks_cannot_fire("a tuple with its tensors inside other containers")
            return output
        values, self.output_places = passed
        if single:
            return values[0]
        return tuple(values) if type(output) is tuple else type(output)(*values)

    def _warn_that_hooks_cannot_fire(self, received: str) -> None:
        warn(
            "For backward hooks to be called, module output should be a Tensor or tuple, not "
            f"{received}. The backward hooks of {type(self.module).__name__} will not fire for this call; register them "
            "with nested=True to see the gradients inside dicts, lists and dataclasses."
        )

    # --- in the backward pass

    def _at_outputs(self, xp: Namespace, arrived: Sequence[Any], passed: tuple[Any, ...]) -> tuple[Any, ...]:
        shown = [_shown(part) for part in arrived]
        spread = _spread(shown, self.output_places, self.n_outputs)
        replaced, by = spread, None
        for hook in self.user_pre_hooks:
            answer = hooks.fire(hook, self.module, replaced)
            if answer is not None:
                _check_count(hook, answer, spread, "Backward pre hook", "grad_output")
                replaced, by = answer, hook
        self.grad_outputs = replaced
        if self.input_places is None:
            self._fire_without_inputs()
        if replaced is spread:
            return tuple(arrived)  # gradients that did not arrive stay None
        return _checked(by, xp, shown, [replaced[place] for place in self.output_places])

    def _fire_without_inputs(self) -> None:
        warn_of_missing_inputs("")
        nothing = (None,) * self.n_inputs
        for hook in self.user_hooks:
            answer = hooks.fire(hook, self.module, nothing, self.grad_outputs)
            if answer is not None and not (isinstance(answer, tuple) and all(part is None for part in answer)):
                raise RuntimeError(
                    "Backward hook for Modules where no input requires gradient may return only None, or None for "
                    f"all gradients.{hooks.defined(hook)}"
                )
        self.grad_outputs = None

    def _at_inputs(self, xp: Namespace, arrived: Sequence[Any], passed: tuple[Any, ...]) -> tuple[Any, ...]:
        if self.grad_outputs is None or not self.user_hooks:
            # The gradient did not come through the module's output (double backward), or there are no hooks.
            self.grad_outputs = None
            return passed
        assert self.input_places is not None
        shown = [_shown(part) for part in passed]
        spread = _spread(shown, self.input_places, self.n_inputs)
        replaced, by = spread, None
        for hook in self.user_hooks:
            answer = hooks.fire(hook, self.module, replaced, self.grad_outputs)
            if answer is not None:
                _check_count(hook, answer, spread, "Backward hook", "grad_input")
                replaced, by = answer, hook
        self.grad_outputs = None
        if replaced is spread:
            return passed
        return _checked(by, xp, shown, [replaced[place] for place in self.input_places])


def warn_of_missing_inputs(but: str) -> None:
    warn(
        "Full backward hook is firing when gradients are computed with respect to module outputs, as no inputs require "
        f"gradients{but}."
    )


def _holds_requiring_grad(value: object) -> bool:
    """Whether a list or dict holds a tensor that requires gradients."""
    if isinstance(value, dict):
        value = list(value.values())
    if not isinstance(value, (list, tuple)):
        return False
    return any(part.requires_grad if isinstance(part, TensorCore) else _holds_requiring_grad(part) for part in value)


def _shown(value: object) -> Any:
    """Return a gradient as hooks see it."""
    return value if value is None or isinstance(value, TensorCore) else wrap(value)


def _spread(shown: list[Any], places: list[int], count: int) -> tuple[Any, ...]:
    """Return the gradients at the positions of their tensors among all values, None elsewhere."""
    if len(shown) == count:
        return tuple(shown)
    full: list[Any] = [None] * count
    for place, grad in zip(places, shown):
        full[place] = grad
    return tuple(full)


def _check_count(hook: hooks.Hook, answer: Any, spread: tuple[Any, ...], kind: str, what: str) -> None:
    if len(answer) != len(spread):
        raise RuntimeError(
            f"{kind} returned an invalid number of {what}, got {len(answer)}, but expected {len(spread)}. Return a tuple "
            f"with one gradient, or None, for each {what.removeprefix('grad_')}.{hooks.defined(hook)}"
        )


def _checked(by: hooks.Hook | None, xp: Namespace, shown: list[Any], answered: list[Any]) -> tuple[Any, ...]:
    """Return the gradients that a hook returned, each checked to be None or of the same dtype and shape."""
    result = []
    for before, after in zip(shown, answered):
        if after is not None and after is not before:
            backward_hooks.check_gradient(_hook, before, after, by)
        result.append(after if after is None or xp.RECORDED else after._array)
    return tuple(result)


def _hook() -> None:
    """Stand for a module's hooks in errors about what they returned."""


_hook.__name__ = "hook"
