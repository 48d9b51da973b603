"""`torch.autograd.forward_ad`: dual numbers, a tensor that carries its derivative along a direction.

Nothing is pushed forward while a function runs: a dual is an input of a level (see levels.py), and its derivative is
worked out when `unpack_dual` asks for it, from the recorded graph. So inside `dual_level` what depends on a dual is
recorded, also under `no_grad`, and shows that it is.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from undertow._core import TensorCore
from undertow.autograd.levels import Level, Pushed, input_edge, requires_grad
from undertow.autograd.node import Node
from undertow.modes import special

__all__ = ["UnpackedDualTensor", "dual_level", "enter_dual_level", "exit_dual_level", "make_dual", "unpack_dual"]


class UnpackedDualTensor(NamedTuple):
    """A value and its derivative, or None if it has none."""

    primal: Any
    tangent: Any


class _DualLevel(Level):
    """The level of a `dual_level` block: its inputs, and the direction of each."""

    __slots__ = ("duals", "known")

    def __init__(self) -> None:
        super().__init__()
        self.duals: dict[Node, tuple[Any, Any]] = {}  # by the node of the input: where gradients arrive, the tangent
        self.known: dict[Node, bool] = {}  # whether nodes met before lead to a dual

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
                ahead = [edge[0] for edge in node.edges if edge is not None and edge[0] not in seen]
                seen.update(ahead)
                stack += [node for node in ahead if self.known.get(node, True)]
            self.known |= {start: True} if found else dict.fromkeys(seen, False)
        return self.known[start]

    def tangent_of(self, tensor: Any) -> Any:
        if not requires_grad(tensor):
            return None
        node = tensor._edge[0] if tensor._edge is not None else None
        if node in self.duals:
            return self.duals[node][1]
        ancestors = _ancestors(tensor)
        reached = [pair for node, pair in self.duals.items() if node in ancestors]
        if not reached:
            return None
        pushed = Pushed(self, [tensor], [edge for edge, _ in reached])
        return self.release(pushed.along([tangent for _, tangent in reached])[0])


def _ancestors(tensor: Any) -> set[Node]:
    """Every node that a tensor's graph leads to."""
    stack = [] if tensor._edge is None else [tensor._edge[0]]
    seen = set(stack)
    while stack:
        for edge in stack.pop().edges:
            if edge is not None and edge[0] not in seen:
                seen.add(edge[0])
                stack.append(edge[0])
    return seen


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
    if found is None:
        raise RuntimeError("Dual level must be a positive number.")
    special.duals = None
    special.leave()
    found.close()
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
    found = special.duals
    if found is None:
        raise RuntimeError(
            "Trying to create a dual Tensor for forward AD but no level exists, make sure to enter_dual_level() first."
        )
    for name, value in (("primal", tensor), ("tangent", tangent)):
        if not (value.is_floating_point() or value.is_complex()):
            raise ValueError(f"Expected {name} to be floating point or complex, but got: {value.dtype}")
    if tensor.shape != tangent.shape:
        raise RuntimeError(
            "Trying to set a forward gradient that has a different size than that of the original Tensor, this is not "
            f"supported. Tensor is of size {list(tensor.shape)} while the given forward gradient is of size "
            f"{list(tangent.shape)}."
        )
    if found.tangent_of(tensor) is not None:
        raise RuntimeError(
            "Making a dual Tensor based on a Tensor that already has a forward gradient at the same level 0 is not "
            "supported."
        )
    dual = found.begin(tensor)
    found.duals[dual._edge[0]] = (input_edge(dual), tangent)
    return dual


def unpack_dual(tensor: Any, *, level: int | None = None) -> UnpackedDualTensor:
    """The value of a dual and its derivative, None for a tensor that does not depend on a dual."""
    found = special.duals
    if found is None or not isinstance(tensor, TensorCore):
        return UnpackedDualTensor(tensor, None)
    return UnpackedDualTensor(found.release(tensor), found.tangent_of(tensor))
