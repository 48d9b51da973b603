"""Methods of tensors that few programs call: deprecated ones, and ones about devices and layouts that undertow lacks."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NoReturn

from undertow._src.base.sites import warn
from undertow._src.engine.apply import apply
from undertow._src.engine.arguments import check_tensor, spread_ints
from undertow._src.engine.views import steps_of
from undertow._src.ops.complex import _neg_view as _neg_view
from undertow._src.ops.complex import conj, conj_physical
from undertow._src.ops.public import public
from undertow._src.ops.reduce import all as all_of
from undertow._src.ops.reduce import any as any_of
from undertow._src.rules import shape as rules
from undertow._src.rules.rule import twin
from undertow._src.tensor.core import TensorCore, wrap
from undertow._src.tensor.methods.python import replace_elements
from undertow._src.tensor.typed_storage import class_of_old

# --- deprecated


_resized = twin(rules.view, "ResizeBackward", view=True)


def _resized_to(self: Any, size: tuple[int, ...], name: str) -> Any:
    warn(f"non-inplace {name} is deprecated")
    have = self._array.shape
    if math.prod(size) != math.prod(have):
        raise RuntimeError(
            f"requested resize to {'x'.join(map(str, size))} ({math.prod(size)} elements in total), but the tensor "
            f"is of {'x'.join(map(str, have))} ({math.prod(have)} elements). autograd's resize can only change the "
            "shape: as many elements must come out as go in."
        )
    return apply(_resized, self, size=size)


@public
def resize(self: Any, *sizes: Any) -> Any:
    """Return a view in a different shape; `view` and `reshape` say it better."""
    return _resized_to(self, spread_ints(sizes, "resize", "sizes"), "resize")


@public
def resize_as(self: Any, tensor: Any) -> Any:
    """Return a view in the shape of a second tensor."""
    check_tensor(tensor, "resize_as", "tensor")
    return _resized_to(self, tensor._array.shape, "resize_as")


def reinforce(self: Any, reward: Any) -> NoReturn:
    """Refuse the call: PyTorch removed the method."""
    raise RuntimeError(
        "reinforce() was removed.\nUse torch.distributions instead: draw the action from a distribution, such as "
        "Categorical(probs), and call backward() on -log_prob(action) * reward."
    )


# --- Python functions of elements


@public
def map2_(self: Any, x: Any, y: Any, callable: Callable[[Any, Any, Any], Any]) -> Any:
    """Replace each element by a Python function of it and of two other tensors' elements; slow."""
    return replace_elements(self, "map2_", callable, x, y)


# --- storage and devices


@public
def storage_type(self: Any) -> Any:
    """Return the legacy class for storages of the tensor's dtype."""
    return class_of_old(self)


@public
def const_data_ptr(self: Any) -> int:
    """Return the address of the first element, for reading."""
    return self.data_ptr()


@public
def record_stream(self: Any, s: Any) -> None:
    """Do nothing: no stream of an accelerator uses a tensor's storage here."""
    raise RuntimeError("unknown parameter type")


@public
def module_load(self: Any, other: Any, assign: bool = False) -> Any:
    """Return the tensor that `load_state_dict` swaps in, from a parameter and the value saved for it."""
    if not isinstance(other, TensorCore):
        raise AssertionError("other must be a Tensor")
    if assign:
        return other.detach()
    return self.copy_(other).detach()


# --- sparse tensors


def _of_sparse_only(name: str, kind: str) -> Any:
    def method(self: Any) -> NoReturn:
        raise RuntimeError(f"{name} expected sparse {kind}tensor layout but got Strided")

    method.__name__ = method.__qualname__ = name
    method.__doc__ = "Of sparse tensors only."
    return public(method)


coalesce, is_coalesced = _of_sparse_only("coalesce", "coordinate "), _of_sparse_only("is_coalesced", "coordinate ")
indices, values = _of_sparse_only("indices", "coordinate "), _of_sparse_only("values", "")


def _of_sparse_alone(name: str) -> Any:
    def method(self: Any) -> NoReturn:
        raise NotImplementedError(f"Could not run 'aten::{name}' with arguments from the 'CPU' backend.")

    method.__name__ = method.__qualname__ = name
    method.__doc__ = "Of sparse tensors only."
    return public(method)


_indices, _values, _nnz, _dimI, _dimV = map(_of_sparse_alone, ("_indices", "_values", "_nnz", "_dimI", "_dimV"))


# --- protocols of Python 2


@public
def __long__(self: Any) -> int:
    """Return the only element as an int."""
    return int(self)


@public
def __nonzero__(self: Any) -> bool:
    """Whether the only element is not zero."""
    return bool(self)


# --- PyTorch's private functions of tensors


def _check_bools(self: Any) -> None:
    if self._array.dtype.kind != "b":
        raise RuntimeError("self.scalar_type() == at::kBool INTERNAL ASSERT FAILED: a tensor of bools was expected")


@public
def _is_all_true(self: Any) -> Any:
    """Whether every element of a tensor of bools is true."""
    _check_bools(self)
    return all_of(self)


@public
def _is_any_true(self: Any) -> Any:
    """Whether any element of a tensor of bools is true."""
    _check_bools(self)
    return any_of(self)


@public
def _is_zerotensor(self: Any) -> bool:
    """Whether a tensor stands for zeros without storing them; none does here."""
    return False


@public
def _conj(self: Any) -> Any:
    """Return the conjugate of complex numbers."""
    if self._array.dtype.kind != "c":
        raise RuntimeError(
            "isComplexType(typeMetaToScalarType(dtype())) INTERNAL ASSERT FAILED: complex numbers expected"
        )
    return conj(self)


@public
def _conj_physical(self: Any) -> Any:
    """Return the conjugate in a new buffer."""
    return conj_physical(self)


@public
def _lazy_clone(self: Any) -> Any:
    """Return a copy; PyTorch would make it at the first write."""
    return wrap(self._array.copy()) if not self.requires_grad else self.clone()


# --- views and storages, for PyTorch's own tools


def _view_func(self: Any, new_base: Any, symint_visitor_fn: Any = None, tensor_visitor_fn: Any = None) -> Any:
    """Return the same view of a different base; None if its layout differs, or this is no view."""
    view = self._view
    if view is None:
        return None
    base = view.base
    if new_base.shape != base.shape or new_base.stride() != base.stride() or new_base.dtype is not base.dtype:
        return None
    return _view_func_unsafe(self, new_base)


def _view_func_unsafe(self: Any, new_base: Any, symint_visitor_fn: Any = None, tensor_visitor_fn: Any = None) -> Any:
    """Return the same view of a different base, without checking its layout."""
    result = new_base
    for rule, statics, _, place in steps_of(self._view):
        result = apply(rule, result, **statics)
        if rule.outputs != 1:
            result = result[place]
    return result


def _rev_view_func_unsafe(self: Any, new_view: Any) -> NoReturn:
    """Return the inverse of a view, which no view here has."""
    raise RuntimeError("No _rev_view_func() found")


def _use_count(self: Any) -> int:
    """Return how many of PyTorch's core tensors this one has: one."""
    return 1


_cdata = property(id)
