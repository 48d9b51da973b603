"""Custom functions: a user's forward and backward as one node of the graph.

The node is the `ctx` that both methods see. Forward runs unrecorded; afterwards its outputs get the node as their
history, whatever they are: fresh tensors, inputs changed in place (`mark_dirty`), inputs handed back as they came, or
views made inside (`function_outputs.py`). What a program keeps in ctx are attributes of the node: the engine's own names
begin with an underscore.
"""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from undertow._core import TensorCore, wrap
from undertow.autograd.differentiate import grad
from undertow.autograd.function_outputs import save, wrap_outputs
from undertow.autograd.node import Edge, Node, edge_of, note_origin
from undertow.autograd.rule_node import fit
from undertow.autograd.saved import Freed, SavedTensor
from undertow.autograd.views import refresh_view
from undertow.dtypes import DTYPE_OF
from undertow.errors import freed_graph
from undertow.lazy import lazy_names
from undertow.modes import local, no_grad, special
from undertow.rules.rule import Spec


class FunctionCtx:
    """What forward can leave for backward."""

    to_save: tuple[Any, ...] | None = None
    dirty_tensors: tuple[Any, ...] | None = None
    non_differentiable: tuple[Any, ...] | None = None
    _materialize = True
    saved_for_forward: tuple[Any, ...] | None = None

    def save_for_backward(self, *tensors: Any) -> None:
        """Keeps tensors (or None) for `ctx.saved_tensors`, with version checks and saved-tensor hooks."""
        self.to_save = tensors

    def save_for_forward(self, *tensors: Any) -> None:
        """Keeps tensors for `jvp`."""
        for tensor in tensors:
            if not (isinstance(tensor, TensorCore) or tensor is None):
                raise AssertionError("save_for_forward expects all arguments to be tensors or None")
        self.saved_for_forward = tensors

    def mark_dirty(self, *args: Any) -> None:
        """Says which inputs forward changed in place; they must be returned."""
        self.dirty_tensors = args

    def mark_non_differentiable(self, *args: Any) -> None:
        """Says which outputs carry no gradient."""
        self.non_differentiable = args

    def mark_shared_storage(self, *pairs: Any) -> None:
        """Says what needs no saying any more."""
        warnings.warn(
            "mark_shared_storage is deprecated. Tensors with shared storages are automatically tracked. Note that calls "
            "to `set_()` are not tracked",
            FutureWarning,
            stacklevel=2,
        )

    def set_materialize_grads(self, value: bool) -> None:
        """Whether gradients of unused outputs reach backward as zeros (the default) or as None."""
        self.materialize_grads = value

    def _set_materialize_grads(self, value: bool) -> None:
        if not isinstance(value, bool):
            raise TypeError(
                "set_materialize_grads received an invalid combination of arguments - got "
                f"({type(value).__name__}), but expected (bool)"
            )
        self._materialize = value

    materialize_grads = property(None, _set_materialize_grads)


class FunctionNode(FunctionCtx, Node):
    """The node of a custom function, and the ctx its methods see."""

    _forward_cls: Any
    needs_input_grad: tuple[bool, ...] = ()
    _n_outputs = 1

    def __init__(self) -> None:
        self._edges: tuple[Edge | None, ...] = ()
        self._order = next(local.modes.sequence)
        self._extras = self._tensor_hooks = None
        self._kept_tensors: Any = ()
        self._n_arguments = 0
        self._tensor_places: tuple[int, ...] = ()  # positions of tensors among the arguments
        self._given_specs: tuple[Spec, ...] = ()
        self._result_specs: list[Spec] = []

    def _takes(self, g: Any) -> bool:
        return True

    def _output_specs(self) -> list[Spec]:
        return self._result_specs

    def _input_specs(self, outputs: list[Spec]) -> Sequence[Spec | None]:
        return self._given_specs

    def __call__(self, *grads: Any) -> Any:
        raise TypeError(f"'{type(self).__name__}' object is not callable")

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """What `save_for_backward` kept."""
        saved = self._kept_tensors
        if type(saved) is Freed:
            raise freed_graph(self._node_name(), saved.at)
        return tuple([None if part is None else part.open(self) for part in saved])

    @property
    def _raw_saved_tensors(self) -> tuple[Any, ...]:
        if type(self._kept_tensors) is Freed:
            raise freed_graph(self._node_name(), self._kept_tensors.at)
        return tuple([_place(self, part) for part in self._kept_tensors])

    @property
    def saved_variables(self) -> tuple[Any, ...]:
        warnings.warn("'saved_variables' is deprecated; use 'saved_tensors'", DeprecationWarning, stacklevel=2)
        return self.saved_tensors

    def apply(self, *grads: Any) -> Any:
        """Calls the user's backward."""
        cls = self._forward_cls
        user = cls.backward
        if cls.vjp is not Function.vjp:
            if user is not Function.backward:
                raise RuntimeError(
                    "Implementing both 'backward' and 'vjp' for a custom Function is not allowed. You should only "
                    "implement one of them."
                )
            user = cls.vjp
        return user(self, *grads)

    def _run(self, xp: Any, g: Any, needs: Any) -> tuple[Any, ...]:
        parts = [g] if self._n_outputs == 1 else list(g)
        grads = []
        for part, spec in zip(parts, self._result_specs, strict=True):
            if part is None:
                if self._materialize and spec.dtype is not None:
                    part = xp.zeros(spec.shape, spec.dtype)
            grads.append(part if part is None or isinstance(part, TensorCore) else wrap(part))
        task = local.modes.backward_pass
        results = self.apply(*grads) if task is None or not task.silent else self._pushed_forward(grads)
        return self._check_gradients(xp, results if isinstance(results, tuple) else (results,))

    def _pushed_forward(self, grads: list[Any]) -> tuple[Any, ...]:
        """What backward would give if `jvp` were all there is: jvp is linear, so its own gradient turns it round.

        A pass that is silent pushes a derivative forward, see NOTE pushing forward.
        """
        tangents: list[Any] = [None] * self._n_arguments
        for place, spec in zip(self._tensor_places, self._given_specs, strict=True):
            if DTYPE_OF[spec.dtype].category >= 2:
                tangents[place] = wrap(np.zeros(spec.shape, spec.dtype))
                tangents[place]._requires_grad = True
        answer = self._forward_cls.jvp(self, *tangents)
        answers = answer if isinstance(answer, tuple) else (answer,)
        pairs = [(out, g) for out, g in zip(answers, grads) if isinstance(out, TensorCore) and isinstance(g, TensorCore)]
        pairs = [(out, g) for out, g in pairs if out._requires_grad]
        asked = [tangent for tangent in tangents if tangent is not None]
        found: Any = (None,) * len(asked)
        if pairs:
            outs, seeds = zip(*pairs, strict=True)
            found = grad(outs, asked, seeds, create_graph=local.modes.grad_enabled, allow_unused=True)
        ready = iter(found)
        return tuple([None if tangent is None else next(ready) for tangent in tangents])

    def _check_gradients(self, xp: Any, results: tuple[Any, ...]) -> tuple[Any, ...]:
        """One gradient per tensor argument, in the argument's shape and dtype."""
        name, expected = self._node_name(), self._n_arguments
        while len(results) > expected and results[-1] is None:
            results = results[:-1]
        if len(results) != expected:
            raise RuntimeError(
                f"function {name} returned an incorrect number of gradients (expected {expected}, got {len(results)})"
            )
        for place, result in enumerate(results):
            if result is not None and place not in self._tensor_places:
                raise RuntimeError(
                    f"function {name} returned a gradient different than None at position {place + 1}, but the "
                    "corresponding forward input was not a Variable"
                )
        checked: list[Any] = []
        for nr, (place, spec) in enumerate(zip(self._tensor_places, self._given_specs, strict=True)):
            result = results[place]
            if result is None:
                checked.append(None)
                continue
            if not isinstance(result, TensorCore):
                raise RuntimeError(f"expected Variable or None (got {type(result).__name__})")
            value = result if xp.RECORDED else result._array
            # What nobody asked for is shown to the node's hooks all the same, as it is.
            checked.append(value if self._edges[nr] is None else self._fit_gradient(xp, nr, value, spec))
        return tuple(checked)

    def _fit_gradient(self, xp: Any, nr: int, value: Any, spec: Spec) -> Any:
        if xp.dtype_of(value).kind == "c" and spec.dtype.kind != "c":
            raise RuntimeError(
                "Expected isFloatingType(grad.scalar_type()) || (input_is_complex == grad_is_complex) to be true, but got "
                f"false. {self._node_name()} returned a complex gradient at index {nr} for a real input: return its real "
                "part."
            )
        shape = tuple(value.shape)
        if shape != spec.shape and not _expands_to(spec.shape, shape):
            raise RuntimeError(
                f"Function {self._node_name()} returned an invalid gradient at index {nr} - got {list(shape)} but expected "
                f"shape compatible with {list(spec.shape)}"
            )
        return fit(xp, value, spec)

    def _release(self, freed: Freed) -> None:
        if self._kept_tensors:
            self._kept_tensors = freed

    def __repr__(self) -> str:
        return f"<{type(self).__module__}.{type(self).__name__} object at {id(self):#x}>"


def _expands_to(small: tuple[int, ...], large: tuple[int, ...]) -> bool:
    return len(small) <= len(large) and all(
        n in (1, m) for n, m in zip(reversed(small), reversed(large), strict=False)
    )


def _place(node: FunctionNode, part: Any) -> SavedTensor:
    return SavedTensor(node, lambda: part)


BackwardCFunction = FunctionNode  # PyTorch's name


class FunctionMeta(type):
    """The class of custom functions: gives each the class of its nodes."""

    def __init__(cls, name: str, bases: tuple[type, ...], body: dict[str, Any], **kwargs: Any) -> None:
        super().__init__(name, bases, body, **kwargs)
        cls._backward_cls: Any = type(
            name + "Backward", (FunctionNode,), {"_forward_cls": cls, "__module__": "torch.autograd.function"}
        )


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

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        warnings.warn(
            f"{type(self)} should not be instantiated. Methods on autograd functions are all static, so you should "
            "invoke them on the class itself. Instantiating an autograd function will raise an error in a future "
            "version of PyTorch.",
            DeprecationWarning,
            stacklevel=2,
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            "Legacy autograd function with non-static forward method is deprecated. Please use new-style autograd "
            "function with static forward method."
        )

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """Computes the result: forward(ctx, *inputs), or forward(*inputs) together with setup_context."""
        raise NotImplementedError("You must implement the forward function for custom autograd.Function.")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> Any:
        """Saves what backward needs, if forward takes no ctx."""
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """Gradients of the inputs, one per argument of forward (None for what has none)."""
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom autograd.Function to use it with "
            "backward mode AD."
        )

    vjp = backward

    @staticmethod
    def jvp(ctx: Any, *grad_inputs: Any) -> Any:
        """Forward-mode derivative."""
        raise NotImplementedError(
            "You must implement the jvp function for custom autograd.Function to use it with forward mode AD."
        )

    @staticmethod
    def vmap(info: Any, in_dims: Any, *args: Any) -> Any:
        """How the function runs on many examples at once: `(outputs, their mapped dims)`. To be overridden."""
        raise NotImplementedError("To use autograd.Function with vmap, you must either override the vmap staticmethod.")

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Runs forward and puts one node for it into the graph."""
        if special.active:
            for arg in args:
                if hasattr(arg, "_apply_function"):  # one example of a vmap, which knows what to do with all of them
                    return arg._apply_function(cls, args)
        return _apply(cls, args, kwargs)


def _apply(cls: type[Function], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    separate = cls.setup_context is not Function.setup_context
    modes = local.modes
    if modes.transforms and not separate:
        raise RuntimeError(
            "In order to use an autograd.Function with functorch transforms (vmap, grad, jvp, jacrev, ...), it must "
            f"override the setup_context staticmethod. {cls.__name__} does not: its forward takes ctx."
        )
    if kwargs or (separate and not _takes_exactly(cls.forward, len(args))):
        args = _by_position(cls.forward, args if separate else (None, *args), kwargs, separate)
        args = args if separate else args[1:]
    node = cls._backward_cls()
    places = tuple([place for place, arg in enumerate(args) if isinstance(arg, TensorCore)])
    for place in places:
        if args[place]._view is not None:
            refresh_view(args[place])
    records = modes.grad_enabled and any(args[place]._requires_grad for place in places)
    node.needs_input_grad = tuple([
        isinstance(arg, TensorCore) and (arg._requires_grad if special.duals is None else arg.requires_grad) for arg in args
    ])
    node._n_arguments, node._tensor_places = len(args), places
    node._given_specs = tuple([Spec(args[place]._array.shape, args[place]._array.dtype) for place in places])
    if records:
        node._edges = tuple([edge_of(args[place]) if args[place]._requires_grad else None for place in places])
    tangents = None if special.duals is None else special.duals.tangents_of(args)
    with no_grad():
        if separate:
            output = cls.forward(*args)
            cls.setup_context(node, args, output)
        else:
            output = cls.forward(node, *args)
    outputs = output if isinstance(output, tuple) else (output,)
    wrapped = wrap_outputs(node, args, places, outputs, records)
    if records:
        save(node, wrapped)
        if special.anomaly:
            note_origin(node)
    if tangents is not None:
        special.duals.push_through(cls, node, args, tangents, wrapped)
    return wrapped if isinstance(output, tuple) else wrapped[0]


def _by_position(forward: Any, args: tuple[Any, ...], kwargs: dict[str, Any], strict: bool) -> tuple[Any, ...]:
    """All arguments of a call in order, with defaults; none may have to be given by name (`strict`: nor be left out)."""
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


def _takes_exactly(forward: Any, count: int) -> bool:
    """Whether a function takes so many arguments, so that none is left to its default."""
    code = getattr(forward, "__code__", None)
    return code is not None and code.co_argcount == count and not code.co_kwonlyargcount


def once_differentiable(function: Callable[..., Any]) -> Callable[..., Any]:
    """Marks a backward that can't itself be differentiated: doing so raises instead of giving a wrong result."""

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
            if isinstance(output, TensorCore) and DTYPE_OF[output._array.dtype].category >= 2:
                guard = Error(function)
                output = output.detach()
                output._edge, output._requires_grad = (guard, 0), True
            guarded.append(output)
        return tuple(guarded) if isinstance(outputs, tuple) else guarded[0]

    return once


class Error(Node):
    """Stands behind a once-differentiable backward."""

    __slots__ = ("function",)

    def __init__(self, function: Callable[..., Any]) -> None:
        self._edges = ()
        self._order = next(local.modes.sequence)
        self._extras = self._tensor_hooks = None
        self.function = function

    def _run(self, xp: Any, g: Any, needs: Any) -> tuple[Any, ...]:
        raise RuntimeError(
            "trying to differentiate twice a function that was marked with @once_differentiable: "
            f"{self.function.__qualname__}"
        )


class InplaceFunction(Function):
    """A Function with an `inplace` flag."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace


__getattr__, __dir__ = lazy_names(__name__, {"NestedIOFunction": "undertow.autograd.nested_io"})
