"""The array functions a rule may use, on NumPy: raw arrays, no recording. See vocabulary.py for the list."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy import (  # noqa: F401
    abs, add, arange, arccos, arccosh, arcsin, arcsinh, arctan, arctan2, arctanh, argsort, copysign,
    cos, cosh, divide, equal, exp, exp2, expm1, fmax, fmin, frexp, full_like, gcd, greater, greater_equal, hypot,
    isfinite, isinf, isnan, lcm, less, less_equal, log, log10, log1p, log2, logaddexp2, logical_and, logical_not,
    logical_or, logical_xor, multiply, nextafter, not_equal, ones, ones_like,
    sin, sinh, sqrt, square, subtract, take, take_along_axis, tan, tanh, tensordot, tril, triu,
    zeros, zeros_like,
)  # fmt: skip
from undertow._src.base.lazy import late_function
from undertow._src.arrays.memory import keep_freed_memory
from undertow._src.arrays.numpy.elementwise import (  # noqa: F401
    angle, ceil, complex, conj, floor, floor_divide, fmod, heaviside, imag, isneginf, isposinf, left_shift, logaddexp,
    maximum, minimum, nan_to_num, negative, power, real, remainder, right_shift, rint, round, sign, signbit, trunc,
    trunc_divide, view_as_complex, view_as_real, where,
)  # fmt: skip
from undertow._src.arrays.numpy.reduce import (  # noqa: F401
    all, any, argmax, argmin, in_rows, max, max_with_index, mean, min, min_with_index, prod,
    prod_of_others, sgn, sum, sum_of_squares,
)  # fmt: skip
from undertow._src.arrays.numpy.shape import (  # noqa: F401
    alias, as_strided, as_strided_backward, broadcast_to, cast, concatenate, contiguous, copy, diag_embed, diagonal,
    diagonal_backward, expand_dims, flip, pad, reshape, roll, rot90, select, select_backward, slice_along, slice_backward,
    squeeze, stack, sum_to_shape, swapaxes, tile, transpose, windows, windows_backward,
)  # fmt: skip

# The functions of these files are put here at their first use.
_LATE = {
    "undertow._src.arrays.numpy.attention": "attention attention_grad",
    "undertow._src.arrays.numpy.conv": "conv conv_input_grad conv_weight_grad",
    "undertow._src.arrays.numpy.distances": "pair_distances pair_distances_grad",
    "undertow._src.arrays.numpy.draws": "dirichlet_grad standard_gamma_grad",
    "undertow._src.arrays.numpy.embedding": "add_rows bag_max bag_max_grad bag_max_take embedding_grad "
    "sparse_embedding_grad sparse_gather_grad take_rows",
    "undertow._src.arrays.numpy.fft": "fft_c2c fft_c2r fft_r2c",
    "undertow._src.arrays.numpy.gamma": "digamma i0 i0e i1 i1e lgamma polygamma zeta",
    "undertow._src.arrays.numpy.igamma": "igamma igammac",
    "undertow._src.arrays.numpy.index": "gather_backward index index_backward index_copy index_fill index_put "
    "index_select index_select_backward index_summed masked_fill masked_scatter masked_select put_flat scatter_value "
    "take_flat",
    "undertow._src.arrays.numpy.linalg": "addmm by_rows cholesky cholesky_solve cofactors cross det eig eigh eye geqrf "
    "inverse least_squares lu_factor lu_parts matmul matrix_exp pinv qr slogdet solve solve_triangular svd",
    "undertow._src.arrays.numpy.loss": "class_loss class_loss_grad class_weights ctc_loss ctc_loss_grad labels "
    "put_along",
    "undertow._src.arrays.numpy.nn": "log_softmax log_softmax_grad logsumexp softmax softmax_grad",
    "undertow._src.arrays.numpy.norm": "batch_norm_grad channel_affine channel_moments group_norm group_norm_grad "
    "layer_norm layer_norm_grad rms_norm rms_norm_grad",
    "undertow._src.arrays.numpy.pool": "adaptive_avg_pool adaptive_avg_pool_grad adaptive_max_pool add_to_planes "
    "avg_pool avg_pool_grad max_pool max_pool_grad put_in_planes take_from_planes",
    "undertow._src.arrays.numpy.resize": "resize resize_adjoint",
    "undertow._src.arrays.numpy.rnn": "gru_scan gru_scan_grad lstm_scan lstm_scan_grad rnn_scan rnn_scan_grad",
    "undertow._src.arrays.numpy.rows": "channel_sums",
    "undertow._src.arrays.numpy.scan": "cummax cummin cumprod cumsum logcumsumexp recurrence",
    "undertow._src.arrays.numpy.scatter": "gather index_add scatter scatter_add scatter_reduce unique "
    "unique_consecutive",
    "undertow._src.arrays.numpy.sort": "bincount histc histogram kthvalue median mode nanmedian searchsorted sort topk",
    "undertow._src.arrays.numpy.special": "erf erfc erfcx erfinv gelu gelu_grad gelu_tanh gelu_tanh_grad log_ndtr "
    "log_sigmoid logit ndtr ndtri sigmoid silu silu_grad softplus",
    "undertow._src.arrays.numpy.windows": "fold unfold",
}
for _home, _words in _LATE.items():
    for _word in _words.split():
        globals()[_word] = late_function(__name__, _home, _word)

keep_freed_memory()

RECORDED = False  # gradients computed with this namespace are plain arrays


def dtype_of(x: Any) -> np.dtype[Any]:
    return x.dtype


def astype(x: Any, dtype: np.dtype[Any]) -> Any:
    if x.dtype.kind == "c" and dtype.kind != "c":
        x = x.real
    return x.astype(dtype, copy=False)


def constant(array: Any) -> Any:
    """Return a NumPy array as a value of this namespace."""
    return array


def as_index(x: Any) -> Any:
    """Return integers as indices, which have no gradient."""
    return x.astype(np.int64)
