"""The array functions a rule may use, on JAX: eagerly on its arrays, and inside a trace. See vocabulary.py for the list.

Importing this turns on JAX's 64-bit types, without which float64 and int64 would silently become 32-bit. Python numbers
are weakly typed there: a float32 array times 2.0 stays float32.
"""

from __future__ import annotations

import sys
from functools import partial

import jax
from jax.numpy import (  # noqa: F401
    abs, add, arange, arccos, arccosh, arcsin, arcsinh, arctan, arctan2, arctanh, argsort, conj, copysign, cos, cosh,
    divide, equal, exp, exp2, expm1, fmax, fmin, frexp, full_like, gcd, greater, greater_equal, hypot, isfinite, isinf,
    isnan, lcm, less, less_equal, log, log10, log1p, log2, logaddexp2, logical_and, logical_not, logical_or, logical_xor,
    maximum, minimum, multiply, nextafter, not_equal, ones_like, sin, sinh, sqrt, square, subtract, take,
    take_along_axis, tan, tanh, tensordot, tril, triu, zeros_like,
)  # fmt: skip

from undertow._src.arrays import composed
from undertow._src.arrays.jax import attention as jax_attention
from undertow._src.arrays.jax.conv import channel_sums, conv, conv_input_grad, conv_weight_grad, fold, unfold  # noqa: F401
from undertow._src.arrays.jax.elementwise import (  # noqa: F401
    angle, ceil, complex, floor, floor_divide, fmod, gelu, gelu_grad, heaviside, imag, isneginf, isposinf,
    left_shift, log_sigmoid, log_softmax, log_softmax_grad, logaddexp, logit, logsumexp, nan_to_num, negative, power,
    real, remainder, right_shift, rint, round, sigmoid, sign, signbit, silu, silu_grad, softmax, softmax_grad, softplus,
    trunc, trunc_divide, view_as_complex, view_as_real, where,
)  # fmt: skip
from undertow._src.arrays.jax.index import (  # noqa: F401
    add_rows, bag_max, bag_max_grad, bag_max_take, embedding_grad, gather, gather_backward, index, index_add,
    index_backward, index_copy, index_fill, index_put, index_select, index_select_backward, index_summed, masked_fill,
    masked_scatter, masked_select, put_along, put_flat, scatter, scatter_add, scatter_reduce, scatter_value,
    sparse_embedding_grad, sparse_gather_grad, take_flat, take_rows,
)  # fmt: skip
from undertow._src.arrays.jax.fft import fft_c2c, fft_c2r, fft_r2c  # noqa: F401
from undertow._src.arrays.jax.linalg import (  # noqa: F401
    addmm, cholesky, cholesky_solve, cofactors, cross, det, eig, eigh, eye, geqrf, inverse, least_squares, lu_factor,
    lu_parts, matmul, matrix_exp, pinv, qr, slogdet, solve, solve_triangular, svd,
)  # fmt: skip
from undertow._src.arrays.jax.loss import (  # noqa: F401
    class_loss, class_loss_grad, class_weights, ctc_loss, ctc_loss_grad, labels,
)  # fmt: skip
from undertow._src.arrays.jax import norm as jax_norm
from undertow._src.arrays.jax.norm import batch_norm_grad  # noqa: F401
from undertow._src.arrays.jax.pool import (  # noqa: F401
    adaptive_avg_pool, adaptive_avg_pool_grad, adaptive_max_pool, add_to_planes, avg_pool, avg_pool_grad, max_pool,
    max_pool_grad, put_in_planes, take_from_planes,
)  # fmt: skip
from undertow._src.arrays.jax.reduce import (  # noqa: F401
    all, any, argmax, argmin, max, max_with_index, mean, min, min_with_index, pair_distances,
    pair_distances_grad, prod, prod_of_others, sgn, sum, sum_of_squares,
)  # fmt: skip
from undertow._src.arrays.jax.resize import resize, resize_adjoint  # noqa: F401
from undertow._src.arrays.jax.rnn import (  # noqa: F401
    gru_scan, gru_scan_grad, lstm_scan, lstm_scan_grad, rnn_scan, rnn_scan_grad,
)  # fmt: skip
from undertow._src.arrays.jax.scan import (  # noqa: F401
    bincount, cummax, cummin, cumprod, cumsum, histc, histogram, kthvalue, logcumsumexp, median, mode, nanmedian,
    recurrence, searchsorted, sort, topk, unique, unique_consecutive,
)  # fmt: skip
from undertow._src.arrays.jax.shape import (  # noqa: F401
    alias, as_index, as_strided, as_strided_backward, astype, broadcast_to, cast, concatenate, constant, contiguous, copy,
    diag_embed, diagonal, diagonal_backward, dtype_of, expand_dims, flip, in_rows, ones, pad, reshape, roll, rot90, select,
    select_backward, slice_along, slice_backward, squeeze, stack, sum_to_shape, swapaxes, tile, transpose, windows,
    windows_backward, zeros,
)  # fmt: skip
from undertow._src.arrays.jax.special import (  # noqa: F401
    digamma, dirichlet_grad, erf, erfc, erfcx, erfinv, i0, i0e, i1, i1e, igamma, igammac, lgamma, log_ndtr, ndtr, ndtri,
    polygamma, standard_gamma_grad, zeta,
)  # fmt: skip

jax.config.update("jax_enable_x64", True)
# On the CPU small programs run in the calling thread: handing one to a different thread and back takes longer than
# running it. Large ones may still be running when a call returns.
jax.config.update("jax_cpu_enable_async_dispatch", False)

RECORDED = False  # gradients computed with this namespace are plain arrays

_here = sys.modules[__name__]
(
    attention, attention_grad, channel_affine, channel_moments, gelu_tanh, gelu_tanh_grad, group_norm, group_norm_grad,
    layer_norm, layer_norm_grad, rms_norm, rms_norm_grad,
) = [
    partial(kernel, _here) for kernel in (
        jax_attention.attention, jax_attention.attention_grad, composed.channel_affine, jax_norm.channel_moments,
        composed.gelu_tanh, composed.gelu_tanh_grad, jax_norm.group_norm, jax_norm.group_norm_grad, composed.layer_norm,
        composed.layer_norm_grad, composed.rms_norm, composed.rms_norm_grad,
    )
]  # fmt: skip
