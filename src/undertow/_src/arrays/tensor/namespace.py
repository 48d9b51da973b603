"""The array functions a rule may use, on undertow's own tensors: a backward pass run with these is itself recorded.

It has NumPy's names and arguments, each made of public ops. See vocabulary.py for the list.
"""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

import numpy as np

from undertow._src.tensor.core import wrap
from undertow._src.arrays import composed, composed_rnn
from undertow._src.ops.draws import _dirichlet_grad as dirichlet_grad  # noqa: F401
from undertow._src.ops.draws import _standard_gamma_grad as standard_gamma_grad  # noqa: F401
from undertow._src.arrays.tensor.elementwise import (  # noqa: F401
    abs, add, angle, arccos, arccosh, arcsin, arcsinh, arctan, arctan2, arctanh, ceil, complex, conj, copysign, cos,
    cosh, digamma, divide, erf, erfc, erfcx, erfinv, exp, exp2, expm1, floor, floor_divide, fmax, fmin, fmod, frexp,
    gcd, gelu, gelu_grad, heaviside, hypot, i0, i0e, i1, i1e, igamma, igammac, imag, isfinite, isinf, isnan,
    isneginf, isposinf, lcm, left_shift, lgamma, log, log10, log1p, log2, log_ndtr, log_sigmoid, log_softmax,
    log_softmax_grad, logaddexp, logaddexp2, logical_and, logical_not, logical_or, logical_xor, logit, maximum,
    minimum, multiply, nan_to_num, ndtr, ndtri, negative, nextafter, polygamma, power, real, remainder, right_shift,
    rint, round, sigmoid, sign, signbit, silu, silu_grad, sin, sinh, softmax, softmax_grad, softplus, sqrt, square,
    subtract, tan, tanh, tied, trunc, trunc_divide, view_as_complex, view_as_real, where, zeta,
)  # fmt: skip
from undertow._src.arrays.tensor.fft import fft_c2c, fft_c2r, fft_r2c  # noqa: F401
from undertow._src.arrays.tensor.linalg import (  # noqa: F401
    addmm, cholesky, cholesky_solve, cofactors, cross, det, eig, eigh, eye, geqrf, inverse, least_squares, lu_factor,
    lu_parts, matmul, matrix_exp, pinv, qr, slogdet, solve, solve_triangular, svd,
)  # fmt: skip
from undertow._src.arrays.tensor.reduce import (  # noqa: F401
    all, any, argmax, argmin, logsumexp, max, max_with_index, mean, min, min_with_index, pair_distances,
    pair_distances_grad, prod, sgn, sum, sum_of_squares,
)  # fmt: skip
from undertow._src.arrays.tensor.scan import (  # noqa: F401
    bincount, cummax, cummin, cumprod, cumsum, histc, histogram, kthvalue, logcumsumexp, median, mode, nanmedian,
    prod_of_others, recurrence, searchsorted, sort, topk, unique, unique_consecutive,
)  # fmt: skip
from undertow._src.arrays.tensor.nn import (  # noqa: F401
    adaptive_avg_pool, adaptive_avg_pool_grad, adaptive_max_pool, add_rows, add_to_planes, as_index, avg_pool,
    avg_pool_grad, bag_max, bag_max_grad, bag_max_take, channel_sums, class_loss, class_loss_grad, class_weights,
    conv, conv_input_grad, conv_weight_grad, ctc_loss, ctc_loss_grad, embedding_grad, fold, labels, max_pool,
    max_pool_grad, put_along, put_in_planes, resize, resize_adjoint, sparse_embedding_grad, sparse_gather_grad,
    take_from_planes, take_rows, unfold,
)  # fmt: skip
from undertow._src.arrays.tensor.index import (  # noqa: F401
    gather, gather_backward, index, index_add, index_backward, index_copy, index_fill, index_put, index_select,
    index_select_backward, index_summed, masked_fill, masked_scatter, masked_select, put_flat, scatter, scatter_add,
    scatter_reduce, scatter_value, take_flat,
)  # fmt: skip
from undertow._src.arrays.tensor.shape import (  # noqa: F401
    alias, as_strided, as_strided_backward, astype, broadcast_to, cast, concatenate, contiguous, copy, diag_embed, diagonal,
    diagonal_backward, expand_dims, flip, full_like, in_rows, ones, ones_like, pad, reshape, roll, rot90, select,
    select_backward, slice_along, slice_backward, squeeze, stack, sum_to_shape, swapaxes, tile, transpose, tril, triu,
    windows, windows_backward, zeros, zeros_like,
)  # fmt: skip

_here = sys.modules[__name__]
(
    attention, attention_grad, batch_norm_grad, channel_affine, channel_moments, gelu_tanh, gelu_tanh_grad, group_norm,
    group_norm_grad, layer_norm, layer_norm_grad, rms_norm, rms_norm_grad,
) = [
    partial(kernel, _here) for kernel in (
        composed.attention, composed.attention_grad, composed.batch_norm_grad, composed.channel_affine,
        composed.channel_moments, composed.gelu_tanh, composed.gelu_tanh_grad, composed.group_norm,
        composed.group_norm_grad, composed.layer_norm, composed.layer_norm_grad, composed.rms_norm,
        composed.rms_norm_grad,
    )
]  # fmt: skip

gru_scan, gru_scan_grad, lstm_scan, lstm_scan_grad, rnn_scan, rnn_scan_grad = [
    partial(kernel, _here) for kernel in (
        composed_rnn.gru_scan, composed_rnn.gru_scan_grad, composed_rnn.lstm_scan, composed_rnn.lstm_scan_grad,
        composed_rnn.rnn_scan, composed_rnn.rnn_scan_grad,
    )
]  # fmt: skip

RECORDED = True  # gradients computed with this namespace are tensors with their own history


def dtype_of(x: Any) -> np.dtype[Any]:
    return x._array.dtype


def constant(array: Any) -> Any:
    """Return a NumPy array as a value of this namespace."""
    return wrap(array)
