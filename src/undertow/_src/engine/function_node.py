"""The node of a custom function: the `ctx` that its methods see.

What a program stores in ctx are attributes of the node: the engine's own names begin with an underscore.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from undertow._src.arrays.namespaces import tensor_namespace
from undertow._src.base.errors import freed_graph
from undertow._src.base.modes import local
from undertow._src.base.sites import warn
from undertow._src.engine.accumulate import stays_tensor
from undertow._src.engine.differentiate import grad
from undertow._src.engine.node import Edge, Node, wanted_spec
from undertow._src.engine.rule_node import fit
from undertow._src.engine.saved import Freed, SavedTensor
from undertow._src.rules.rule import Spec
from undertow._src.tensor.core import TensorCore, wrap
from undertow._src.types.dtypes import DTYPE_OF

if TYPE_CHECKING:
    from undertow._src.engine.saved import SavedValue
    from undertow._src.rules.array import Namespace


class FunctionCtx:
    """What forward can leave for backward."""

    __module__ = "undertow.autograd.function"  # where PyTorch has it
    to_save: tuple[Any, ...] | None = None
    dirty_tensors: tuple[Any, ...] | None = None
    non_differentiable: tuple[Any, ...] | None = None
    _materialize = True
    _materialize_non_diff_grads = True  # whether undefined gradients of outputs reach backward as zeros
    saved_for_forward: tuple[Any, ...] | None = None

    def save_for_backward(self, *tensors: object) -> None:
        """Keep tensors (or None) for `ctx.saved_tensors`, with version checks and saved-tensor hooks."""
        self.to_save = tensors

    def save_for_forward(self, *tensors: object) -> None:
        """Keep tensors for `jvp`."""
        for tensor in tensors:
            if not (isinstance(tensor, TensorCore) or tensor is None):
                raise AssertionError(
                    "save_for_forward expects all arguments to be tensors; keep other values as attributes of ctx."
                )
        self.saved_for_forward = tensors

    def mark_dirty(self, *args: object) -> None:
        """Declare which inputs forward changed in place; they must be returned."""
        self.dirty_tensors = args

    def mark_non_differentiable(self, *args: object) -> None:
        """Declare which outputs carry no gradient."""
        self.non_differentiable = args

    def mark_shared_storage(self, *pairs: object) -> None:
        """Do nothing: shared storages are tracked automatically."""
        warn(
            "mark_shared_storage is deprecated. Tensors that share storage are tracked automatically, except "
            "through `set_()`",
            FutureWarning,
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

    __module__ = "undertow.autograd.function"  # where PyTorch has it

    _forward_cls: Any
    needs_input_grad: tuple[bool, ...] = ()
    _n_outputs = 1
    _given_away = False  # see clear_saved_tensors_on_access
    _in_jvp = False

    def __init__(self) -> None:
        self._edges: tuple[Edge | None, ...] = ()
        self._order = next(local.modes.sequence)
        self._extras = self._tensor_hooks = None
        self._kept_tensors: Any = ()
        self._n_arguments = 0
        self._tensor_places: tuple[int, ...] = ()  # positions of tensors among the arguments
        self._given_specs: tuple[Spec, ...] = ()
        self._result_specs: list[Spec] = []
        self._constant_outputs: set[int] = set()  # numbers of the outputs marked as non-differentiable

    def __dir__(self) -> list[str]:
        return list(object.__dir__(self))  # with what the custom function keeps on its ctx

    def _takes(self, g: object) -> bool:
        return True

    def _output_specs(self) -> list[Spec]:
        return self._result_specs

    def _input_specs(self, outputs: list[Spec]) -> Sequence[Spec | None]:
        return self._given_specs

    def __call__(self, *grads: object) -> None:
        raise TypeError(f"'{type(self).__name__}' object is not callable")

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """What `save_for_backward` kept; in `jvp`, what `save_for_forward` kept."""
        if self._in_jvp:
            return self.saved_for_forward or ()
        saved = self._kept_tensors
        if type(saved) is Freed:
            raise freed_graph(self._node_name(), saved.at)
        if self._given_away:
            raise RuntimeError(
                "saved_tensors can only be accessed once when clear_saved_tensors_on_access=True is set: "
                f"{self._forward_cls.__name__} released them at the first access. Keep what that returned, or leave "
                "clear_saved_tensors_on_access=False."
            )
        opened = tuple([None if part is None else part.open(self) for part in saved])
        if self._forward_cls.clear_saved_tensors_on_access:
            self._given_away, self._kept_tensors = True, ()
        return opened

    def maybe_clear_saved_tensors(self) -> None:
        """Release the saved tensors now, if the backward pass will do so anyway."""
        task = local.modes.backward_pass
        if task is not None and task.freed is not None:
            self._release(task.freed)

    @property
    def _raw_saved_tensors(self) -> tuple[Any, ...]:
        if type(self._kept_tensors) is Freed:
            raise freed_graph(self._node_name(), self._kept_tensors.at)
        return tuple([_place(self, part) for part in self._kept_tensors])

    @property
    def saved_variables(self) -> tuple[Any, ...]:
        warn("'saved_variables' is deprecated; use 'saved_tensors'", DeprecationWarning)
        return self.saved_tensors

    def apply(self, *grads: Any) -> Any:
        """Call the user's backward."""
        written = self._forward_cls._written_backward()
        return written(self, list(grads)) if self._forward_cls.boxed_grads_call else written(self, *grads)

    def apply_boxed(self, *grads: object) -> Any:
        """Call the user's backward with its list of gradients, for a backward that takes a list."""
        return self._forward_cls._written_backward()(self, *grads)

    def apply_jvp(self, *tangents: Any) -> Any:
        """Call the user's jvp, with the values saved for it in `saved_tensors`."""
        self._in_jvp = True
        try:
            return self._forward_cls.jvp(self, *tangents)
        finally:
            self._in_jvp = False

    def _run(self, xp: Namespace, g: Any, needs: tuple[bool, ...] | None) -> tuple[Any, ...]:
        grads = self._materialized(xp, [g] if self._n_outputs == 1 else g)
        modes = local.modes
        task, recording, packing = modes.backward_pass, modes.grad_enabled, modes.saved_hooks
        before = None if task is None else task.running
        if task is not None:
            task.running = self
        modes.saved_hooks = packing.copy()
        try:
            if task is not None and task.silent:
                results = self._pushed_forward(grads)
            elif self._forward_cls.boxed_grads_call:
                results = self.apply_boxed(grads)  # this very list, so that clearing it releases the gradients
            else:
                results = self.apply(*grads)
        finally:  # modes that backward switched, entered or left do not persist to later nodes
            modes.grad_enabled, modes.saved_hooks = recording, packing
            if task is not None:
                task.running = before
        return self._check_gradients(xp, results if isinstance(results, tuple) else (results,), g)

    def _materialized(self, xp: Namespace, parts: Sequence[Any]) -> list[Any]:
        """Return the gradients as tensors; zeros for undefined ones, unless the function opted out."""
        grads = []
        for nr, (part, spec) in enumerate(zip(parts, self._result_specs, strict=True)):
            if part is None and self._materialize and spec.dtype is not None:
                if self._materialize_non_diff_grads or nr not in self._constant_outputs:
                    part = xp.zeros(spec.shape, spec.dtype)
            grads.append(part if part is None or isinstance(part, TensorCore) else wrap(part))
        return grads

    def _pushed_forward(self, grads: list[Any]) -> tuple[Any, ...]:
        """Return the gradients of a function that only defines `jvp`: jvp is linear, so its gradient is its transpose.

        A silent pass computes a forward-mode derivative, see NOTE pushing forward.
        """
        tangents: list[Any] = [None] * self._n_arguments
        for place, spec in zip(self._tensor_places, self._given_specs, strict=True):
            if DTYPE_OF[spec.dtype].is_inexact:
                tangents[place] = wrap(np.zeros(spec.shape, spec.dtype))
                tangents[place]._requires_grad = True
        answer = self.apply_jvp(*tangents)
        answers = answer if isinstance(answer, tuple) else (answer,)
        pairs = [
            (out, g) for out, g in zip(answers, grads) if isinstance(out, TensorCore) and isinstance(g, TensorCore)
        ]
        pairs = [(out, g) for out, g in pairs if out._requires_grad]
        asked = [tangent for tangent in tangents if tangent is not None]
        found: Any = (None,) * len(asked)
        if pairs:
            outs, seeds = zip(*pairs, strict=True)
            found = grad(outs, asked, seeds, create_graph=local.modes.grad_enabled, allow_unused=True)
        ready = iter(found)
        return tuple([None if tangent is None else next(ready) for tangent in tangents])

    def _check_gradients(self, xp: Namespace, results: tuple[Any, ...], g: Any) -> tuple[Any, ...]:
        """Check that there is one gradient per tensor argument, in the argument's shape and dtype."""
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
            if result.is_meta and not any(part is not None and wrap(part).is_meta for part in _parts(self, g)):
                raise RuntimeError(
                    f"Function {self._node_name()} returned an invalid gradient at index {nr} - expected device cpu but "
                    f"got {result.device}"
                )
            value = result if xp.RECORDED or stays_tensor(result) else result._array
            # The node's hooks see gradients that are not required, too, unchanged.
            checked.append(value if self._edges[nr] is None else self._fit_gradient(xp, nr, value, spec))
        return tuple(checked)

    def _fit_gradient(self, xp: Namespace, nr: int, value: Any, spec: Spec) -> Any:
        sparse = isinstance(value, TensorCore) and not value._is_strided
        if stays_tensor(value) and not xp.RECORDED:
            xp = tensor_namespace()
        if not sparse and xp.dtype_of(value).kind == "c" and spec.dtype.kind != "c":
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
        return value if sparse else fit(xp, value, wanted_spec(self._edges[nr], spec))

    def _release(self, freed: Freed) -> None:
        if self._kept_tensors:
            self._kept_tensors = freed

    def __repr__(self) -> str:
        return f"<{type(self).__module__}.{type(self).__name__} object at {id(self):#x}>"


def _parts(node: FunctionNode, g: Any) -> list[Any]:
    """Return the arrays of a node's incoming gradients."""
    return [part._array if isinstance(part, TensorCore) else part for part in ([g] if node._n_outputs == 1 else g)]


def _expands_to(small: tuple[int, ...], large: tuple[int, ...]) -> bool:
    return len(small) <= len(large) and all(n in (1, m) for n, m in zip(reversed(small), reversed(large), strict=False))


def _place(node: FunctionNode, part: SavedValue) -> SavedTensor:
    return SavedTensor(node, lambda: part)
