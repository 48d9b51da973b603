"""`torch.autograd.forward_ad`: dual numbers, a tensor that carries its derivative along a direction.

Nothing is pushed forward while a function runs: a dual is an input of a level (see levels.py), and its derivative is
worked out when `unpack_dual` asks for it, from the recorded graph. So inside `dual_level` what depends on a dual is
recorded, also under `no_grad`; whether gradients flow to a tensor is told without that (`shows_gradients`). A custom
function is pushed forward by its own `jvp`: its outputs are duals in their own right.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from undertow import creation
from undertow._core import TensorCore
from undertow.autograd.levels import Level, LevelInput, Pushed, input_edge, requires_grad
from undertow.autograd.node import Node
from undertow.dtypes import DTYPE_OF
from undertow.modes import special

__all__ = ["UnpackedDualTensor", "dual_level", "enter_dual_level", "exit_dual_level", "make_dual", "unpack_dual"]


class UnpackedDualTensor(NamedTuple):
    """A value and its derivative, or None if it has none."""

    primal: Any
    tangent: Any


class _DualLevel(Level):
    """The level of a `dual_level` block: its inputs, and the direction of each."""

    __slots__ = ("duals", "known", "tensors")

    def __init__(self) -> None:
        super().__init__()
        self.duals: dict[Node, tuple[Any, Any]] = {}  # by the node of the input: where gradients arrive, the tangent
        self.known: dict[Node, bool] = {}  # whether nodes met before lead to a dual
        self.tensors: list[weakref.ref[Any]] = []  # the duals themselves

    def add(self, dual: Any, tangent: Any) -> None:
        """Makes an input of this level a dual."""
        self.duals[dual._edge[0]] = (input_edge(dual), tangent)
        self.tensors.append(weakref.ref(dual))
        self.known.clear()

    def shows_gradients(self, tensor: Any) -> bool:
        """Whether gradients flow to a tensor: not if it is recorded only because it depends on a dual."""
        return tensor._requires_grad and (tensor._edge is None or self.reaches_outside((tensor,)))

    def leads_to(self, tensor: Any) -> bool:
        """Whether a tensor depends on one of the duals."""
        if tensor._edge is None:
            return False
        start = tensor._edge[0]
        if start not in self.known:
            seen, stack, found = {start}, [start], False
            while stack and not found:
                node = stack.pop()
                found = node in self.duals or self.known.get(node, False)
                ahead = [edge[0] for edge in node._edges if edge is not None and edge[0] not in seen]
                seen.update(ahead)
                stack += [node for node in ahead if self.known.get(node, True)]
            self.known |= {start: True} if found else dict.fromkeys(seen, False)
        return self.known[start]

    def tangent_of(self, tensor: Any) -> Any:
        if not requires_grad(tensor):
            return None
        node = tensor._edge[0] if tensor._edge is not None else None
        if node in self.duals:
            return self.release(self.duals[node][1])
        with self.cut_behind_duals():
            ancestors = _ancestors(tensor)
            reached = [pair for node, pair in self.duals.items() if node in ancestors]
            if not reached:
                return None
            pushed = Pushed(self, [tensor], [edge for edge, _ in reached])
        return self.release(pushed.along([tangent for _, tangent in reached])[0])

    @contextmanager
    def cut_behind_duals(self) -> Iterator[None]:
        """A custom function's outputs carry their own derivative: what lies behind them is not gone through again."""
        before = [(node, node._edges) for node in self.duals]
        try:
            for node, _ in before:
                node._edges = (None,)
            yield
        finally:
            for node, edges in before:
                node._edges = edges

    def tangents_of(self, inputs: tuple[Any, ...]) -> list[Any] | None:
        """The derivatives of a custom function's inputs; None if there are none."""
        tangents = [self.tangent_of(given) if isinstance(given, TensorCore) else None for given in inputs]
        return tangents if any(tangent is not None for tangent in tangents) else None

    def push_through(
        self, function: Any, ctx: Any, inputs: tuple[Any, ...], tangents: list[Any], outputs: tuple[Any, ...]
    ) -> None:
        """A custom function inside the level: its `jvp` gives its outputs their derivatives."""
        if ctx._materialize:
            tangents = [
                creation.zeros_like(given.detach()) if tangent is None and _is_real_or_complex(given) else tangent
                for given, tangent in zip(inputs, tangents, strict=True)
            ]
        answer = function.jvp(ctx, *tangents)
        answers = answer if isinstance(answer, tuple) else (answer,)
        if len(answers) != len(outputs):
            raise RuntimeError(
                f"Function's jvp returned an invalid number of forward gradients (expected {len(outputs)} but got "
                f"{len(answers)})"
            )
        for nr, (output, tangent) in enumerate(zip(outputs, answers, strict=True)):
            if tangent is not None and not isinstance(tangent, TensorCore):
                raise RuntimeError(f"expected Variable or None (got {type(tangent).__name__}) for grad output {nr}.")
            if _is_real_or_complex(output) and output._requires_grad:
                if tangent is None:
                    raise RuntimeError(f"jvp returned None for output {nr}, which has a derivative: return a tensor.")
                _check_size(output, tangent)
                outer = output._edge if self.reaches_outside((output,)) else None
                output._edge, output._requires_grad = (LevelInput(outer, self), 0), True
                self.add(output, self.release(tangent))


def _ancestors(tensor: Any) -> set[Node]:
    """Every node that a tensor's graph leads to."""
    stack = [] if tensor._edge is None else [tensor._edge[0]]
    seen = set(stack)
    while stack:
        for edge in stack.pop()._edges:
            if edge is not None and edge[0] not in seen:
                seen.add(edge[0])
                stack.append(edge[0])
    return seen


def _is_real_or_complex(value: Any) -> bool:
    return isinstance(value, TensorCore) and DTYPE_OF[value._array.dtype].category >= 2


def enter_dual_level() -> int:
    """Begins a level; `exit_dual_level` ends it. They do not nest, as they do not in PyTorch."""
    if special.duals is not None:
        raise RuntimeError("Nested forward mode AD is not supported at the moment")
    special.duals = _DualLevel()
    special.enter()
    return 0


def exit_dual_level(*, level: int | None = None) -> None:
    """Ends the level: its duals are plain tensors from now on."""
    found = special.duals
    if level not in (None, 0):
        raise RuntimeError(
            "Trying to exit a forward AD level that was not the last one that was created. This is not supported."
        )
    if found is None:
        raise RuntimeError("Dual level must be a positive number.")
    special.duals = None
    special.leave()
    found.close()
    for reference in found.tensors:
        dual = reference()
        if dual is not None and dual._edge is not None and dual._edge[0] in found.duals:
            dual._edge = dual._edge[0]._edges[0]
            dual._requires_grad = dual._edge is not None
    found.duals.clear()
    found.known.clear()


class dual_level:
    """Inside, `make_dual` makes duals.

    >>> import undertow.autograd.forward_ad as fwAD
    >>> with fwAD.dual_level():
    ...     x = fwAD.make_dual(torch.tensor(3.0), torch.tensor(1.0))
    ...     fwAD.unpack_dual(x**2).tangent
    tensor(6.)
    """

    def __enter__(self) -> int:
        return enter_dual_level()

    def __exit__(self, *exc: Any) -> None:
        exit_dual_level()


def make_dual(tensor: Any, tangent: Any, *, level: int | None = None) -> Any:
    """A tensor that carries `tangent` as its derivative."""
    if level not in (None, 0):
        raise RuntimeError("Invalid level given to _make_dual")
    found = special.duals
    if found is None:
        raise RuntimeError(
            "Trying to create a dual Tensor for forward AD but no level exists, make sure to enter_dual_level() first."
        )
    for name, value in (("primal", tensor), ("tangent", tangent)):
        if not (value.is_floating_point() or value.is_complex()):
            raise ValueError(f"Expected {name} to be floating point or complex, but got: {value.dtype}")
    _check_size(tensor, tangent)
    if found.tangent_of(tensor) is not None:
        raise RuntimeError(
            "Making a dual Tensor based on a Tensor that already has a forward gradient at the same level 0 is not "
            "supported."
        )
    dual = found.begin(tensor)
    found.add(dual, tangent)
    return dual


def _check_size(tensor: Any, tangent: Any) -> None:
    if tensor.shape != tangent.shape:
        raise RuntimeError(
            "Trying to set a forward gradient that has a different size than that of the original Tensor, this is not "
            f"supported. Tensor is of size {list(tensor.shape)} while the given forward gradient is of size "
            f"{list(tangent.shape)}."
        )


def unpack_dual(tensor: Any, *, level: int | None = None) -> UnpackedDualTensor:
    """The value of a dual and its derivative, None for a tensor that does not depend on a dual."""
    if not isinstance(tensor, TensorCore):
        raise TypeError(f"_unpack_dual(): argument 'dual' (position 1) must be Tensor, not {type(tensor).__name__}")
    found = special.duals
    if found is None:
        return UnpackedDualTensor(tensor, None)
    return UnpackedDualTensor(found.release(tensor), found.tangent_of(tensor))


class _set_fwd_grad_enabled:
    """Inside the block with False, nothing carries a derivative forward."""

    def __init__(self, mode: bool) -> None:
        self.before, self.level = _enabled[0], special.duals
        _enabled[0] = mode
        if not mode:
            special.duals = None

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exc: Any) -> None:
        _enabled[0], special.duals = self.before, self.level


_enabled = [True]


def is_forward_enabled() -> bool:
    """What `_set_fwd_grad_enabled` said last."""
    return _enabled[0]
