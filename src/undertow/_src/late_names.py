"""The names of `undertow` that are imported when they are first used, for type checkers: see `lazy_table.py`."""

from undertow import (
    _C as _C, accelerator as accelerator, amp as amp, backends as backends, cpu as cpu, cuda as cuda, distributions as
    distributions, fft as fft, func as func, linalg as linalg, optim as optim, overrides as overrides, random as
    random, return_types as return_types, serialization as serialization, special as special, testing as testing,
    types as types, utils as utils, version as version, why as why,
)  # fmt: skip
from undertow.amp import autocast as autocast, GradScaler as GradScaler
from undertow.func import vmap as vmap
from undertow.ops.activation import (
    celu as celu, celu_ as celu_, hardshrink as hardshrink, log_softmax as log_softmax, prelu as prelu, relu as relu,
    relu_ as relu_, selu as selu, selu_ as selu_, softmax as softmax, threshold as threshold,
    threshold_ as threshold_,
)  # fmt: skip
from undertow.ops.addmm import (
    addbmm as addbmm, addmm as addmm, addmv as addmv, addmv_ as addmv_, addr as addr, baddbmm as baddbmm,
)  # fmt: skip
from undertow.ops.arithmetic import (
    add as add, div as div, divide as divide, float_power as float_power, floor_divide as floor_divide, fmod as fmod,
    mul as mul, multiply as multiply, pow as pow, remainder as remainder, rsub as rsub, square as square,
    square_ as square_, sub as sub, subtract as subtract, true_divide as true_divide,
)  # fmt: skip
from undertow.ops.arrange import (
    clone as clone, constant_pad_nd as constant_pad_nd, diag as diag, diag_embed as diag_embed, diagflat as diagflat,
    flip as flip, fliplr as fliplr, flipud as flipud, repeat_interleave as repeat_interleave, roll as roll,
    rot90 as rot90, tile as tile, tril as tril, tril_indices as tril_indices, triu as triu,
    triu_indices as triu_indices,
)  # fmt: skip
from undertow.ops.clamp import (
    addcdiv as addcdiv, addcmul as addcmul, clamp as clamp, clamp_ as clamp_, clamp_max as clamp_max,
    clamp_max_ as clamp_max_, clamp_min as clamp_min, clamp_min_ as clamp_min_, clip as clip, clip_ as clip_,
    copysign as copysign, lerp as lerp, nan_to_num as nan_to_num, nan_to_num_ as nan_to_num_, xlogy as xlogy,
    xlogy_ as xlogy_,
)  # fmt: skip
from undertow.ops.compare import (
    allclose as allclose, bitwise_and as bitwise_and, bitwise_left_shift as bitwise_left_shift,
    bitwise_not as bitwise_not, bitwise_or as bitwise_or, bitwise_right_shift as bitwise_right_shift,
    bitwise_xor as bitwise_xor, eq as eq, equal as equal, ge as ge, greater as greater,
    greater_equal as greater_equal, gt as gt, isclose as isclose, isfinite as isfinite, isin as isin, isinf as isinf,
    isnan as isnan, isneginf as isneginf, isposinf as isposinf, isreal as isreal, le as le, less as less,
    less_equal as less_equal, logical_and as logical_and, logical_not as logical_not, logical_or as logical_or,
    logical_xor as logical_xor, lt as lt, ne as ne, not_equal as not_equal, signbit as signbit, where as where,
)  # fmt: skip
from undertow.ops.complex import (
    angle as angle, complex as complex, conj as conj, conj_physical as conj_physical,
    conj_physical_ as conj_physical_, imag as imag, is_conj as is_conj, is_neg as is_neg, polar as polar, real as real,
    resolve_conj as resolve_conj, resolve_neg as resolve_neg, view_as_complex as view_as_complex,
    view_as_real as view_as_real,
)  # fmt: skip
from undertow.ops.conv import (
    conv1d as conv1d, conv2d as conv2d, conv3d as conv3d, conv_transpose1d as conv_transpose1d,
    conv_transpose2d as conv_transpose2d, conv_transpose3d as conv_transpose3d,
)  # fmt: skip
from undertow.ops.decompositions import linalg_matrix_exp as matrix_exp, pinverse as pinverse, qr as qr, svd as svd
from undertow.ops.distance import (
    bilinear as bilinear, cosine_similarity as cosine_similarity, pairwise_distance as pairwise_distance,
    pdist as pdist,
)  # fmt: skip
from undertow.ops.dropout import (
    torch_alpha_dropout as alpha_dropout, alpha_dropout_ as alpha_dropout_, torch_dropout as dropout,
    dropout_ as dropout_, torch_feature_alpha_dropout as feature_alpha_dropout,
    feature_alpha_dropout_ as feature_alpha_dropout_, feature_dropout as feature_dropout,
    feature_dropout_ as feature_dropout_, native_dropout as native_dropout, rrelu as rrelu, rrelu_ as rrelu_,
)  # fmt: skip
from undertow.ops.einsum import einsum as einsum
from undertow.ops.elementwise import (
    abs as abs, abs_ as abs_, absolute as absolute, acos as acos, acos_ as acos_, acosh as acosh, acosh_ as acosh_,
    arccos as arccos, arccos_ as arccos_, arccosh as arccosh, arccosh_ as arccosh_, arcsin as arcsin, arcsin_ as
    arcsin_, arcsinh as arcsinh, arcsinh_ as arcsinh_, arctan as arctan, arctan2 as arctan2, arctan_ as arctan_,
    arctanh as arctanh, arctanh_ as arctanh_, asin as asin, asin_ as asin_, asinh as asinh, asinh_ as asinh_, atan as
    atan, atan2 as atan2, atan_ as atan_, atanh as atanh, atanh_ as atanh_, ceil as ceil, ceil_ as ceil_, cos as cos,
    cos_ as cos_, cosh as cosh, cosh_ as cosh_, deg2rad as deg2rad, deg2rad_ as deg2rad_, digamma as digamma, erf as
    erf, erf_ as erf_, erfc as erfc, erfc_ as erfc_, erfinv as erfinv, exp as exp, exp2 as exp2, exp2_ as exp2_, exp_
    as exp_, expm1 as expm1, expm1_ as expm1_, fix as fix, fix_ as fix_, floor as floor, floor_ as floor_, fmax as
    fmax, fmin as fmin, frac as frac, frac_ as frac_, frexp as frexp, gcd as gcd, gcd_ as gcd_, heaviside as
    heaviside, hypot as hypot, i0 as i0, i0_ as i0_, igamma as igamma, igammac as igammac, lcm as lcm,
    lcm_ as lcm_, ldexp as ldexp, ldexp_ as ldexp_,
    lgamma as lgamma, log as log, log10 as log10, log10_ as log10_, log1p as log1p, log1p_ as log1p_, log2 as log2,
    log2_ as log2_, log_ as log_, logaddexp as logaddexp, logaddexp2 as logaddexp2, logit as logit, logit_ as logit_,
    maximum as maximum, minimum as minimum, mvlgamma as mvlgamma, neg as neg, neg_ as neg_, negative as negative,
    negative_ as negative_, nextafter as nextafter, polygamma as polygamma, positive as positive, rad2deg as rad2deg,
    rad2deg_ as rad2deg_, reciprocal as reciprocal, reciprocal_ as reciprocal_, round as round, round_ as round_,
    rsqrt as rsqrt, rsqrt_ as rsqrt_, sgn as sgn, sigmoid as sigmoid, sigmoid_ as sigmoid_, sign as sign, sin as sin,
    sin_ as sin_, sinc as sinc, sinc_ as sinc_, sinh as sinh, sinh_ as sinh_, sqrt as sqrt, sqrt_ as sqrt_, tan as
    tan, tan_ as tan_, tanh as tanh, tanh_ as tanh_, trunc as trunc, trunc_ as trunc_,
)  # fmt: skip
from undertow.ops.embedding import torch_embedding as embedding, embedding_renorm_ as embedding_renorm_
from undertow.ops.factor import (
    det as det, inverse as inverse, logdet as logdet, matrix_power as matrix_power, slogdet as slogdet,
)  # fmt: skip
from undertow.ops.index import (
    diagonal_scatter as diagonal_scatter, index_add as index_add, index_copy as index_copy, index_fill as index_fill,
    index_reduce as index_reduce, index_select as index_select, put as put, select_scatter as select_scatter,
    slice_scatter as slice_scatter, take as take, take_along_dim as take_along_dim,
)  # fmt: skip
from undertow.ops.indexing import index_put as index_put, index_put_ as index_put_
from undertow.ops.join import (
    block_diag as block_diag, cartesian_prod as cartesian_prod, cat as cat, column_stack as column_stack,
    combinations as combinations, concat as concat, concatenate as concatenate, dstack as dstack, hstack as hstack,
    meshgrid as meshgrid, row_stack as row_stack, stack as stack, vstack as vstack,
)  # fmt: skip
from undertow.ops.loss_class import ctc_loss as ctc_loss
from undertow.ops.masks import (
    argwhere as argwhere, masked_scatter as masked_scatter, masked_select as masked_select, nonzero as nonzero,
)  # fmt: skip
from undertow.ops.matmul import (
    bmm as bmm, dot as dot, ger as ger, matmul as matmul, mm as mm, mv as mv, outer as outer, vdot as vdot,
)  # fmt: skip
from undertow.ops.norm import (
    torch_batch_norm as batch_norm, group_norm as group_norm, torch_instance_norm as instance_norm,
    layer_norm as layer_norm, native_layer_norm as native_layer_norm, rms_norm as rms_norm,
)  # fmt: skip
from undertow.ops.norms import cdist as cdist, dist as dist, norm as norm, renorm as renorm
from undertow.ops.parts import (
    as_strided as as_strided, as_strided_ as as_strided_, chunk as chunk, diagonal as diagonal, dsplit as dsplit,
    hsplit as hsplit, narrow as narrow, select as select, split as split, split_with_sizes as split_with_sizes,
    tensor_split as tensor_split, unbind as unbind, vsplit as vsplit,
)  # fmt: skip
from undertow.ops.pool import (
    max_pool1d as max_pool1d, max_pool1d_with_indices as max_pool1d_with_indices, max_pool2d as max_pool2d,
    max_pool3d as max_pool3d,
)  # fmt: skip
from undertow.ops.pool_average import (
    adaptive_avg_pool1d as adaptive_avg_pool1d, adaptive_max_pool1d_with_indices as adaptive_max_pool1d,
    avg_pool1d as avg_pool1d,
)  # fmt: skip
from undertow.ops.products import (
    chain_matmul as chain_matmul, cross as cross, inner as inner, kron as kron, tensordot as tensordot,
    trace as trace, vander as vander,
)  # fmt: skip
from undertow.ops.reduce import (
    all as all, amax as amax, amin as amin, aminmax as aminmax, any as any, argmax as argmax, argmin as argmin,
    count_nonzero as count_nonzero, logsumexp as logsumexp, max as max, mean as mean, min as min, nanmean as nanmean,
    nansum as nansum, prod as prod, sum as sum,
)  # fmt: skip
from undertow.ops.resize import (
    channel_shuffle as channel_shuffle, native_channel_shuffle as native_channel_shuffle,
    pixel_shuffle as pixel_shuffle, pixel_unshuffle as pixel_unshuffle,
)  # fmt: skip
from undertow.ops.scan import (
    cummax as cummax, cummin as cummin, cumprod as cumprod, cumsum as cumsum, logcumsumexp as logcumsumexp,
)  # fmt: skip
from undertow.ops.scatter import (
    gather as gather, scatter as scatter, scatter_add as scatter_add, scatter_reduce as scatter_reduce,
)  # fmt: skip
from undertow.ops.shape import (
    adjoint as adjoint, flatten as flatten, moveaxis as moveaxis, movedim as movedim, permute as permute,
    ravel as ravel, reshape as reshape, swapaxes as swapaxes, swapdims as swapdims, t as t, transpose as transpose,
    unflatten as unflatten,
)  # fmt: skip
from undertow.ops.sort import (
    argsort as argsort, bincount as bincount, bucketize as bucketize, histc as histc, histogram as histogram,
    kthvalue as kthvalue, median as median, mode as mode, msort as msort, nanmedian as nanmedian,
    searchsorted as searchsorted, sort as sort, topk as topk, unique as unique,
    unique_consecutive as unique_consecutive,
)  # fmt: skip
from undertow.ops.statistics import (
    corrcoef as corrcoef, cov as cov, cumulative_trapezoid as cumulative_trapezoid, diff as diff,
    nanquantile as nanquantile, quantile as quantile, std as std, std_mean as std_mean, trapezoid as trapezoid,
    trapz as trapz, var as var, var_mean as var_mean,
)  # fmt: skip
from undertow.ops.stretch import (
    atleast_1d as atleast_1d, atleast_2d as atleast_2d, atleast_3d as atleast_3d,
    broadcast_shapes as broadcast_shapes, broadcast_tensors as broadcast_tensors, broadcast_to as broadcast_to,
    squeeze as squeeze, unsqueeze as unsqueeze,
)  # fmt: skip
from undertow.ops.triangular import (
    cholesky as cholesky, cholesky_inverse as cholesky_inverse, cholesky_solve as cholesky_solve,
    triangular_solve as triangular_solve,
)  # fmt: skip
from undertow.ops.writing import (
    fill as fill, fill_ as fill_, masked_fill as masked_fill, resize_as_ as resize_as_, zero_ as zero_,
)  # fmt: skip
from undertow.pretend import pretend_torch as pretend_torch
from undertow._src.compat.process_settings import (
    are_deterministic_algorithms_enabled as are_deterministic_algorithms_enabled,
    get_float32_matmul_precision as get_float32_matmul_precision, get_num_interop_threads as get_num_interop_threads,
    get_num_threads as get_num_threads,
    is_deterministic_algorithms_warn_only_enabled as is_deterministic_algorithms_warn_only_enabled,
    is_warn_always_enabled as is_warn_always_enabled, set_float32_matmul_precision as set_float32_matmul_precision,
    set_num_interop_threads as set_num_interop_threads, set_num_threads as set_num_threads,
    set_warn_always as set_warn_always, use_deterministic_algorithms as use_deterministic_algorithms,
)  # fmt: skip
from undertow.random import (
    default_generator as default_generator, Generator as Generator, get_rng_state as get_rng_state,
    initial_seed as initial_seed, manual_seed as manual_seed, normal as normal, rand as rand, rand_like as rand_like,
    randint as randint, randint_like as randint_like, randn as randn, randn_like as randn_like, randperm as randperm,
    seed as seed, set_rng_state as set_rng_state,
)  # fmt: skip
from undertow._src.tensor.ranges import arange as arange, linspace as linspace, logspace as logspace, range as range
from undertow.serialization import load as load, save as save
from undertow._src.tensor.methods.random import (
    bernoulli as bernoulli, binomial as binomial, multinomial as multinomial, poisson as poisson,
)  # fmt: skip
from undertow._src.tensor.tensor_types import (
    BFloat16Tensor as BFloat16Tensor, BoolTensor as BoolTensor, ByteTensor as ByteTensor, CharTensor as CharTensor,
    DoubleTensor as DoubleTensor, FloatTensor as FloatTensor, HalfTensor as HalfTensor, IntTensor as IntTensor,
    is_tensor as is_tensor, LongTensor as LongTensor, set_default_tensor_type as set_default_tensor_type,
    ShortTensor as ShortTensor, typename as typename,
)  # fmt: skip
