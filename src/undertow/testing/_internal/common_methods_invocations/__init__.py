"""`op_db`: undertow's operators with samples of their inputs, for tests that run over all of them.

The tables are made when `op_db`, or one of the lists that are parts of it, is first asked for.
"""

from __future__ import annotations

import functools
from typing import Any

from undertow.random import randn
from undertow.testing._creation import make_tensor as make_tensor
from undertow.testing._internal.common_device_type import *  # noqa: F403
from undertow.testing._internal.common_dtype import *  # noqa: F403
from undertow.testing._internal.common_methods_invocations import (
    algebra,
    elementwise,
    layers,
    making,
    masks,
    moving,
    rest,
)
from undertow.testing._internal.common_methods_invocations.operator_facts import with_facts
from undertow.testing._internal.common_utils import GRADCHECK_NONDET_TOL as GRADCHECK_NONDET_TOL
from undertow.testing._internal.common_utils import (
    make_fullrank_matrices_with_distinct_singular_values as make_fullrank_matrices_with_distinct_singular_values,
)
from undertow.testing._internal.common_utils import slowTest as slowTest
from undertow.testing._internal.opinfo.core import *  # noqa: F403
from undertow.testing._internal.opinfo.core import BinaryUfuncInfo, ReductionOpInfo, SpectralFuncInfo, UnaryUfuncInfo
from undertow.testing._internal.opinfo.kinds import ForeachFuncInfo as ForeachFuncInfo
from undertow.testing._internal.opinfo.refs import (
    ElementwiseBinaryPythonRefInfo as ElementwiseBinaryPythonRefInfo,
)
from undertow.testing._internal.opinfo.refs import (
    ElementwiseUnaryPythonRefInfo as ElementwiseUnaryPythonRefInfo,
)
from undertow.testing._internal.opinfo.refs import PythonRefInfo as PythonRefInfo
from undertow.testing._internal.opinfo.refs import ReductionPythonRefInfo as ReductionPythonRefInfo
from undertow.testing._internal.opinfo.refs import references
from undertow.testing._utils import wrapper_set_seed as wrapper_set_seed

L, M, S, XS = 20, 10, 5, 3


def mask_not_all_zeros(shape: Any) -> Any:
    """Return a random mask that lets something through."""
    if not len(shape):
        raise AssertionError("a mask of one element cannot be random")
    while True:
        mask = randn(shape).gt(0)
        if mask.any():
            return mask


def index_variable(shape: Any, max_indices: int, device: Any = "cpu") -> Any:
    """Random indices."""
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    return making.Maker(device, making.d.int64, False).whole(max_indices, *shape)


def gather_variable(shape: Any, index_dim: int, max_indices: int, duplicate: bool = False, device: Any = "cpu") -> Any:
    """Random indices for `gather`, none of them twice along the dim unless asked for."""
    rows, columns = shape
    made = index_variable((rows, columns), max_indices, device)
    if not duplicate:
        lines = rows if index_dim else columns
        for line in range(lines):
            kept = randn(max_indices, device=device).argsort()[: columns if index_dim else rows]
            if index_dim:
                made[line] = kept
            else:
                made[:, line] = kept
    return made


def bernoulli_scalar() -> Any:
    """Return a random 0 or 1."""
    return randn(()).gt(0).to(making.d.uint8)


@functools.cache
def _all() -> list[Any]:
    made = [
        *elementwise.unary_operators(), *elementwise.binary_operators(), *elementwise.ternary_operators(),
        *elementwise.reduction_operators(), *elementwise.spectral_operators(), *moving.moving_operators(),
        *algebra.algebra_operators(), *layers.layer_operators(), *rest.rest_of_operators(),
        *masks.masked_operators(),
    ]  # fmt: skip
    return [with_facts(op) for op in made]


@functools.cache
def _references() -> list[Any]:
    return references(_all())


def _of_kind(kind: Any) -> list[Any]:
    return [op for op in (*_all(), *_references()) if isinstance(op, kind)]


def _foreach(names: str) -> list[Any]:
    return [ForeachFuncInfo(name, dtypes=making.dtypes_of("f")) for name in names.split()]


_LISTS: dict[str, Any] = {
    "op_db": _all,
    "unary_ufuncs": lambda: _of_kind(UnaryUfuncInfo),
    "binary_ufuncs": lambda: _of_kind(BinaryUfuncInfo),
    "reduction_ops": lambda: _of_kind(ReductionOpInfo),
    "spectral_funcs": lambda: _of_kind(SpectralFuncInfo),
    "shape_funcs": lambda: [op for op in _all() if op.name in ("repeat", "tile")],
    "reference_filtered_ops": lambda: [op for op in _of_kind(ReductionOpInfo) if op.ref is not None],
    "ops_and_refs": lambda: [*_all(), *_references()],
    "python_ref_db": lambda: list(_references()),
    "sparse_unary_ufuncs": lambda: [op for op in _all() if isinstance(op, UnaryUfuncInfo) and op.supports_sparse],
    "sparse_reduction_ops": lambda: [op for op in _all() if isinstance(op, ReductionOpInfo) and op.supports_sparse],
    "sparse_masked_reduction_ops": list,  # undertow's masked functions take no sparse tensors,
    "sparse_csr_unary_ufuncs": list,  # and it has no compressed layouts
    "foreach_unary_op_db": lambda: _foreach(
        "exp acos asin atan cos cosh log log10 log2 tan tanh sin sinh neg sqrt rsqrt ceil erf erfc expm1 floor log1p round "
        "frac reciprocal sigmoid trunc abs sign lgamma clone"
    ),
    "foreach_binary_op_db": lambda: _foreach("add sub mul div clamp_min clamp_max minimum maximum pow"),
    "foreach_pointwise_op_db": lambda: _foreach("addcmul addcdiv"),
    "foreach_reduce_op_db": lambda: _foreach("max norm"),
    "foreach_other_op_db": lambda: _foreach("lerp"),
}


def __getattr__(name: str) -> Any:
    if name in _LISTS:
        globals()[name] = _LISTS[name]()
        return globals()[name]
    if name.startswith("sample_inputs_"):
        wanted = name.removeprefix("sample_inputs_")
        for op in _all():
            if op.name.rpartition(".")[2] == wanted:
                return op.sample_inputs_func
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
