"""Custom functions: a user's forward and backward as one node of the graph.

The node is the `ctx` that both methods get (`function_node.py`). Forward runs without recording. Afterwards the node
becomes the `grad_fn` of its outputs: new tensors, inputs changed in place (`mark_dirty`), inputs returned unchanged, or
views made inside (`function_outputs.py`).
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, NoReturn

from undertow._src.base.lazy import lazy_names
from undertow._src.base.modes import local, no_grad, slow_path
from undertow._src.base.sites import warn
from undertow._src.engine.function_node import FunctionCtx as FunctionCtx
from undertow._src.engine.function_node import FunctionNode
from undertow._src.engine.function_outputs import save, spec_of, wrap_outputs
from undertow._src.engine.node import Node, edge_of, note_origin
from undertow._src.engine.views import refresh_view
from undertow._src.tensor.core import TensorCore
from undertow._src.types.dtypes import DTYPE_OF

if TYPE_CHECKING:
    from undertow._src.rules.array import Namespace

# PyTorch's names
BackwardCFunction = FunctionNode
_ContextMethodMixin = FunctionCtx

_unchanged = nullcontext()


class FunctionMeta(type):
    """The class of custom functions: gives each the class of its nodes."""

    def __init__(cls, name: str, bases: tuple[type, ...], body: dict[str, Any], **kwargs: object) -> None:
        super().__init__(name, bases, body, **kwargs)
        cls._backward_cls: type[FunctionNode] = type(
            name + "Backward", (FunctionNode,), {"_forward_cls": cls, "__module__": "torch.autograd.function"}
        )

    def _written_backward(cls: Any) -> Callable[..., Any]:
        """Return the method that a class defines: `backward`, or `vjp`, its other name."""
        if cls.vjp is Function.vjp:
            return cls.backward
        if cls.backward is not Function.backward:
            raise RuntimeError(
                "Implementing both 'backward' and 'vjp' for a custom Function is not allowed: they are two names "
                "of one method."
            )
        return cls.vjp


class Function(metaclass=FunctionMeta):
    """Base of custom functions: write static `forward` and `backward`, call `apply`.

    >>> class Double(torch.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         return x * 2
    ...     @staticmethod
    ...     def backward(ctx, grad):
    ...         return grad * 2
    >>> x = torch.tensor(3., requires_grad=True)
    >>> Double.apply(x)
    tensor(6., grad_fn=<DoubleBackward>)
    """

    generate_vmap_rule = False
    boxed_grads_call = False  # backward(ctx, grads): one list, which backward may clear as it uses the gradients
    clear_saved_tensors_on_access = False  # ctx.saved_tensors can be read once, and releases the tensors

    def __init__(self, *args: object, **kwargs: object) -> None:
        warn(
            f"{type(self)} should not be instantiated. Its methods are static: call apply() of the class.",
            DeprecationWarning,
        )

    def __call__(self, *args: object, **kwargs: object) -> NoReturn:
        raise RuntimeError(
            "Legacy autograd function with non-static forward method is deprecated. Make forward and backward "
            "static methods, and call apply()."
        )

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """Compute the result: forward(ctx, *inputs), or forward(*inputs) together with setup_context."""
        raise NotImplementedError("You must implement the forward function for custom autograd.Function.")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> Any:
        """Save what backward needs, if forward takes no ctx."""
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """Return the gradients of the inputs, one per argument of forward (None where there is none)."""
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom autograd.Function, or it cannot be used "
            "in a backward pass."
        )

    vjp = backward

    @staticmethod
    def jvp(ctx: Any, *grad_inputs: Any) -> Any:
        """Return the tangents of the outputs, given those of the inputs."""
        raise NotImplementedError(
            "You must implement the jvp function for custom autograd.Function to use it in forward mode."
        )

    @staticmethod
    def vmap(info: Any, in_dims: Any, *args: Any) -> Any:
        """Run the function on many examples at once; return `(outputs, their mapped dims)`. To be overridden."""
        raise NotImplementedError("To use autograd.Function with vmap, you must either override the vmap staticmethod.")

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Run forward and add one node for it to the graph."""
        if slow_path.count:
            for arg in (*args, *kwargs.values()):
                if hasattr(arg, "_apply_function"):  # an example of a vmap runs the function on all examples
                    return arg._apply_function(cls, _in_order(cls, args, kwargs))
            profiler: Any = sys.modules.get("undertow.autograd.profiler")
            if profiler is not None and profiler.is_watching():
                with profiler.call_of(cls.__name__):
                    return _apply(cls, args, kwargs)
        return _apply(cls, args, kwargs)


def _apply(cls: type[Function], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    separate = cls.setup_context is not Function.setup_context
    modes = local.modes
    if modes.transforms and not separate:
        raise RuntimeError(
            "In order to use an autograd.Function with functorch transforms (vmap, grad, ...), "
            f"it must override the setup_context staticmethod. {cls.__name__} does not: its forward takes ctx."
        )
    for name in ("boxed_grads_call", "clear_saved_tensors_on_access"):
        if not isinstance(flag := getattr(cls, name), bool):
            raise RuntimeError(f"{name} must be a bool, got {type(flag).__name__}")
    args = _in_order(cls, args, kwargs)
    node = cls._backward_cls()
    places = tuple([place for place, arg in enumerate(args) if isinstance(arg, TensorCore)])
    for place in places:
        view = args[place]._view
        if view is not None and (modes.grad_enabled or view.origin is None):  # refresh_view may raise after a write
            refresh_view(args[place])
    records = modes.grad_enabled and any(args[place]._requires_grad for place in places)
    node.needs_input_grad = tuple(
        [
            isinstance(arg, TensorCore) and (arg._requires_grad if slow_path.duals is None else arg.requires_grad)
            for arg in args
        ]
    )
    node._n_arguments, node._tensor_places = len(args), places
    node._given_specs = tuple([spec_of(args[place]) for place in places])
    if records:
        node._edges = tuple([edge_of(args[place]) if args[place]._requires_grad else None for place in places])
    tangents = None if slow_path.duals is None else slow_path.duals.tangents_of(args)
    with _unchanged if slow_path.duals is None else slow_path.duals.inside_function():
        with no_grad():
            if separate:
                output = cls.forward(*args)
                cls.setup_context(node, args, output)
            else:
                output = cls.forward(node, *args)
        outputs = output if isinstance(output, tuple) else (output,)
        written, constant = node.dirty_tensors or (), node.non_differentiable or ()
        wrapped = wrap_outputs(node, args, places, outputs, records)
    if records:
        save(node, wrapped)
        if slow_path.anomaly:
            note_origin(node)
    if tangents is not None:
        slow_path.duals.push_through(node, args, tangents, outputs, wrapped, written, constant)
    return wrapped if isinstance(output, tuple) else wrapped[0]


def _is_setup_context_defined(fn: Callable[..., Any]) -> bool:
    """Whether a function's class defines its own `setup_context`."""
    return fn is not Function.setup_context


def custom_function_call(autograd_function: type[Function], *args: Any, **kwargs: Any) -> Any:
    """Call `apply` of a custom function."""
    return autograd_function.apply(*args, **kwargs)


def _in_order(cls: type[Function], args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """Return the arguments of a call by position; if forward takes no ctx, with defaults for omitted ones."""
    separate = cls.setup_context is not Function.setup_context
    if not (kwargs or (separate and not _takes_exactly(cls.forward, len(args)))):
        return args
    bound = _by_position(cls.forward, args if separate else (None, *args), kwargs, separate)
    return bound if separate else bound[1:]


def _by_position(
    forward: Callable[..., object], args: tuple[Any, ...], kwargs: dict[str, Any], strict: bool
) -> tuple[Any, ...]:
    """Return all arguments of a call in order, with defaults.

    Raise for a keyword-only argument that is passed; with `strict`, for any keyword-only argument.
    """
    try:
        bound = inspect.signature(forward).bind(*args, **kwargs)
    except TypeError as error:
        told = str(error)
        if not strict and ("unexpected keyword" in told or "multiple values" in told):
            told = "forward() got " + told.removeprefix("got ")
        raise TypeError(told) from None
    bound.apply_defaults()
    for name in bound.kwargs:
        if strict or name in kwargs:
            raise TypeError(f"forward() got an unexpected keyword argument {name!r}")
    return bound.args


def _takes_exactly(forward: Callable[..., object], count: int) -> bool:
    """Whether a function takes exactly this number of arguments, so that no default applies."""
    code = getattr(forward, "__code__", None)
    return code is not None and code.co_argcount == count and not code.co_kwonlyargcount


def once_differentiable(function: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a backward that can't itself be differentiated: differentiating it raises, instead of being wrong."""

    @functools.wraps(function)
    def once(ctx: Any, *grads: Any) -> Any:
        with no_grad():
            outputs = function(ctx, *grads)
        if not local.modes.grad_enabled:
            return outputs
        if not any(isinstance(g, TensorCore) and g._requires_grad for g in grads):
            return outputs
        several = outputs if isinstance(outputs, tuple) else (outputs,)
        guarded = []
        for output in several:
            if isinstance(output, TensorCore) and DTYPE_OF[output._array.dtype].is_inexact:
                guard = Error(function)
                output = output.detach()
                output._edge, output._requires_grad = (guard, 0), True
            guarded.append(output)
        return tuple(guarded) if isinstance(outputs, tuple) else guarded[0]

    return once


class Error(Node):
    """The node of a once-differentiable backward, which refuses a second derivative."""

    __slots__ = ("function",)

    def __init__(self, function: Callable[..., Any]) -> None:
        self._edges = ()
        self._order = next(local.modes.sequence)
        self._extras = self._tensor_hooks = None
        self.function = function

    def _run(self, xp: Namespace, g: Any, needs: tuple[bool, ...] | None) -> tuple[Any, ...]:
        raise RuntimeError(
            "trying to differentiate twice a function that was marked with @once_differentiable: "
            f"{self.function.__qualname__}"
        )


_SingleLevelFunction = Function  # in PyTorch, the base class for one level of transforms


class InplaceFunction(Function):
    """A Function with an `inplace` flag."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace


__getattr__, __dir__ = lazy_names(
    __name__,
    dict.fromkeys(
        "NestedIOFunction _HookMixin _iter_None_tensors _iter_filter _iter_tensors _iter_tensors_permissive "
        "_jit_unwrap_structured _map_tensor_data _nested_map _unflatten".split(),
        "undertow._src.engine.nested_io",
    ),
)
