"""Which dtypes a tensor given as `out=` may have, and the error for a different one: functions differ in both."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from undertow._src.engine.views import refuse_overlap_of
from undertow._src.tensor.core import TensorCore
from undertow._src.types.dtypes import dtype

# In the texts below: the result's dtype and the given one, under PyTorch's two kinds of names for them.
_SAME = "Expected out tensor to have dtype {result_c}, but got {given_c} instead"
_CASTABLE = "result type {result} can't be cast to the desired output type {given}"
_FOUND = "Found dtype {given} but expected {result}"
_SCALAR = "expected scalar type {result} but found {given}"
_SCAN = "expected scalar_type {result} but found {given}"
_PRODUCT = "result dtype {given} does not match input dtype {result}"
_SELECTED = "{name}(): self and result must have the same scalar type"
_POSITIONS = "{name}: Expected out tensor to have scalar type {result} but got scalar type{given}"
_CONTRACTED = (
    "tensordot: Expected the output tensor to have dtype {result}, but got an output tensor with dtype {given}"
)
_MATCHING = (
    "Expected the dtype for input and out to match, but got {result} for input's dtype and {given} for out's dtype."
)
_TRUTH = "{name} only supports bool tensor for result, got: {given}"
_QUANTILE = "quantile() out tensor must be same dtype as the input tensor"
_COUNTS = (
    "torch.histogram: input tensor and hist tensor should have the same dtype, but got input {result_c} and hist "
    "{given_c}"
)
_MATRIX_NORM = "linalg.matrix_norm expected out tensor dtype {result} but got: {given}"
_PLACES = "torch.searchsorted(): output tensor's dtype is wrong, it can only be int32 or int64, as out_int32 says"
_ANYTHING = "cast as it may"
_SAFELY = ": Expected result to be safely castable from {result} dtype, but got result with dtype {given}"
_PART = "Expected object of scalar type {result} but got scalar type {given} for argument 'out'"

# Functions that require the result's own dtype, with their own texts.
_OWN_WORDS = {
    **dict.fromkeys(
        "abs neg sign round floor ceil trunc frac sgn clamp clamp_min clamp_max gelu softplus hardshrink softshrink "
        "conj_physical bitwise_not".split(),
        _FOUND,
    ),
    **dict.fromkeys(["softmax", "log_softmax", "avg_pool2d", "avg_pool3d", "unbind_copy"], _SAME),
    **dict.fromkeys(["linalg_solve_triangular", "log_sigmoid", "native_batch_norm"], _SCALAR),
    **dict.fromkeys(["cummax", "cummin", "logcumsumexp"], _SCAN),
    **dict.fromkeys(["matmul", "dot", "vdot"], _PRODUCT),
    **dict.fromkeys(["masked_select", "index_select"], _SELECTED),
    **dict.fromkeys(["nonzero", "nonzero_static"], _POSITIONS),
    **dict.fromkeys(["amax", "amin"], _MATCHING),
    **dict.fromkeys(["any", "all"], _TRUTH),
    **dict.fromkeys(["complex", "polar"], _PART),
    **dict.fromkeys(["histc", "histogram"], _COUNTS),
    **dict.fromkeys(["searchsorted", "bucketize"], _PLACES),
    "where": "Expected out type to be {result} but got {given}",
    "nan_to_num": "nan_to_num: dtype of out: {given} should be same as input: {result}",
    "float_power": "the output given to float_power has dtype {given} but the operation's result requires dtype {result}",
    **{name: name + " does not support non-boolean outputs." for name in ("signbit", "isposinf", "isneginf")},
    "frexp": "torch.frexp() expects mantissa to have dtype {result_c} but got {given_c}",
    "heaviside": "heaviside is not yet implemented for tensors with different dtypes.",
    "take": (
        "take(): self and out expected to have the same dtype, but got self.dtype = {result} and out.dtype = {given}"
    ),
    "kthvalue": "output values must be of same type as input",
    "mv": "addmv input tensors must have the same dtype, but got {given}, {result}, and {result}",
    "tensordot": _CONTRACTED,
    "linalg_multi_dot": "multi_dot(): expected out tensor to have dtype {result_c} but got {given_c}",
    "addbmm": "self and mat2 must have the same dtype, but got {given} and {result}",
    "svd": "torch.svd: Expected out tensor to have dtype {result} but got {given} instead",
    "linalg_vecdot": "linalg.vecdot: Expected out of dtype{result} but found {given}",
    "mode": "expected scalar type '{result}' but got '{given}' for values output",
    "quantile": _QUANTILE,
    "narrow_copy": "Expected self.dtype() == output.dtype() to be true, but got false.",
    "ormqr": ("torch.ormqr: Expected input and result to have the same dtype, not {result} and {given}"),
    "linalg_matrix_norm": _MATRIX_NORM,
    "linalg_norm": _MATRIX_NORM.replace("matrix_norm", "norm"),
}

# Functions that cast their result, as elementwise ones do, with their own texts where it can't be cast.
_CASTING = {
    **dict.fromkeys("kron diff nanmean sum prod addr std var nansum special_ndtr".split(), _CASTABLE),
    **{name: name + _SAFELY for name in ("cholesky", "cholesky_solve", "cholesky_inverse")},
    **{name: name.replace("_", ".", 1) + _SAFELY for name in ("linalg_pinv", "linalg_cond")},
    "linalg_tensorsolve": "tensorsolve" + _SAFELY,
    "linalg_matrix_rank": "torch.linalg.matrix_rank" + _SAFELY,
    "linalg_householder_product": "torch.linalg.householder_product" + _SAFELY,
    "geqrf": "torch.geqrf" + _SAFELY.replace("result to", "a to").replace("got result", "got a"),
    "linalg_eigvals": "torch.linalg.eigvals"
    + _SAFELY.replace("result to", "eigenvalues to").replace("got result", "got eigenvalues"),
    "linalg_lstsq": "torch.linalg.lstsq"
    + _SAFELY.replace("result to", "solution to").replace("got result", "got solution"),
    **dict.fromkeys(["cumsum", "cumprod", "split_copy"], _ANYTHING),
    "cat": "torch.cat(): input types can't be cast to the desired output type {given}",
    "stack": "torch.cat(): input types can't be cast to the desired output type {given}",
    "mean": "mean.dtype_out(): input types can't be cast to the desired output type {given}",
    "logsumexp": "logsumexp(): Expected floating point type for result tensor, but got: {given}",
    "max": "Expected canCast( typeMetaToScalarType(self.dtype()), typeMetaToScalarType(out.dtype())) to be true",
    "min": "Expected canCast( typeMetaToScalarType(self.dtype()), typeMetaToScalarType(out.dtype())) to be true",
}

# Functions that require the result's own dtype, with a different text for one it can't even be cast to.
_CASTABLE_FIRST = {
    **dict.fromkeys(["linalg_matrix_power", "matrix_power"], "matrix_power" + _SAFELY),
    "diag_embed": "diag: " + _CASTABLE,
}

# Functions whose last step copies the result into `out`: recorded, if the result is.
_COPIED_LAST = frozenset(
    "linalg_matrix_norm linalg_norm linalg_cond linalg_tensorsolve special_ndtr quantile tensordot".split()
)

# Functions without a derivative in this form: PyTorch lets them pass, and the backward pass raises.
_UNDIFFERENTIATED = frozenset(
    "floor_divide heaviside softmax log_softmax conj_physical linalg_eigvals histogram diagonal_copy alias_copy slice_copy "
    "detach_copy expand_copy select_copy unfold_copy view_copy permute_copy squeeze_copy transpose_copy unsqueeze_copy "
    "t_copy view_as_real_copy view_as_complex_copy as_strided_copy slice_scatter diag_embed".split()
)

# The inner step that is named when one of the tensors requires a gradient.
_STEP_INSIDE = {
    "kron": "mul", "linalg_matrix_power": "matmul", "matrix_power": "matmul", "linalg_multi_dot": "mm",
    "nanmean": "nansum", "diff": "sub", "norm": "linalg_vector_norm", "frobenius_norm": "norm",
    "linalg_solve_ex": "_linalg_solve_ex", "svd": "_linalg_svd", "log_sigmoid": "log_sigmoid_forward",
    "linalg_vecdot": "sum", "float_power": "pow", "matmul of matrices": "matmul",
}  # fmt: skip

# Functions that check the dtype before they check whether a gradient is required.
_DTYPE_FIRST = frozenset(["linalg_multi_dot", "float_power"])


# Functions that read an input while they write: `out` may be that input, but not overlap it partly.
_READ_ALONG = frozenset(
    "cumsum cumprod logcumsumexp scatter scatter_add scatter_reduce index_add index_copy index_reduce linalg_vector_norm "
    "max min median nanmedian mode addmm sort topk renorm conj_physical".split()
)
# Functions that read an input anywhere while they write: `out` may not share its storage.
_READ_ANYWHERE = frozenset("cat stack gather index_select take masked_select kthvalue linalg_cross addr".split())


def refuse_shared(name: str, out: object, inputs: Sequence[Any]) -> None:
    """Refuse an `out` whose storage a function would read after writing to it."""
    if not (name in _READ_ALONG or name in _READ_ANYWHERE):
        return
    for place, given in enumerate(inputs):
        if isinstance(given, TensorCore):
            apart = name in _READ_ANYWHERE or (place > 1 and name.startswith(("scatter", "index_")))
            refuse_overlap_of(out, given, apart)


def manner_of(name: str) -> str:
    """Return how a function with `out=` treats gradients, by name; mostly it refuses tensors that require them."""
    if name in _COPIED_LAST:
        return "copied"
    if name in _UNDIFFERENTIATED:
        return "undifferentiated"
    return "dtype first" if name in _DTYPE_FIRST else "refused"


def step_inside(name: str) -> str:
    """Return the name under which a function refuses tensors that require a gradient."""
    return _STEP_INSIDE.get(name, name)


def refuse_dtype(name: str, result: dtype, given: dtype, casts: bool) -> None:
    """Raise if a result can't go into a tensor of the given dtype; `casts`: the function is an elementwise one."""
    if result is given:
        return
    words = _OWN_WORDS.get(name)
    if name in _CASTABLE_FIRST and result.category > given.category:
        words = _CASTABLE_FIRST[name]
    if words is None:
        words = _CASTING.get(name, _CASTABLE if casts else "")
        if words is _ANYTHING or (words and result.category <= given.category):
            return
    described = (words or _SAME).format(
        name=name, result=result.scalar_name, given=given.scalar_name, result_c=result.c_name,
        given_c=given.c_name,
    )  # fmt: skip
    raise (TypeError if described.startswith("torch.cat()") else RuntimeError)(described)
