"""undertow: PyTorch's autograd engine and hook system in Python. `import undertow as torch`."""

from math import e as e
from math import inf as inf
from math import nan as nan
from math import pi as pi
from typing import TYPE_CHECKING

from undertow import autograd as autograd
from undertow import return_types as return_types
from undertow import linalg as linalg
from undertow.ops.arrange import clone as clone
from undertow.ops.arrange import constant_pad_nd as constant_pad_nd
from undertow.ops.arrange import diag as diag
from undertow.ops.arrange import diag_embed as diag_embed
from undertow.ops.arrange import diagflat as diagflat
from undertow.ops.arrange import flip as flip
from undertow.ops.arrange import fliplr as fliplr
from undertow.ops.arrange import flipud as flipud
from undertow.ops.arrange import repeat_interleave as repeat_interleave
from undertow.ops.arrange import roll as roll
from undertow.ops.arrange import rot90 as rot90
from undertow.ops.arrange import tile as tile
from undertow.ops.arrange import tril as tril
from undertow.ops.arrange import tril_indices as tril_indices
from undertow.ops.arrange import triu as triu
from undertow.ops.arrange import triu_indices as triu_indices
from undertow.ops.addmm import addbmm as addbmm
from undertow.ops.addmm import addmm as addmm
from undertow.ops.addmm import addmv as addmv
from undertow.ops.addmm import addr as addr
from undertow.ops.addmm import baddbmm as baddbmm
from undertow.ops.decompositions import pinverse as pinverse
from undertow.ops.decompositions import qr as qr
from undertow.ops.decompositions import svd as svd
from undertow.ops.einsum import einsum as einsum
from undertow.ops.triangular import cholesky as cholesky
from undertow.ops.triangular import cholesky_inverse as cholesky_inverse
from undertow.ops.triangular import cholesky_solve as cholesky_solve
from undertow.ops.factor import det as det
from undertow.ops.factor import inverse as inverse
from undertow.ops.factor import logdet as logdet
from undertow.ops.factor import matrix_power as matrix_power
from undertow.ops.factor import slogdet as slogdet
from undertow.ops.triangular import triangular_solve as triangular_solve
from undertow.ops.matmul import bmm as bmm
from undertow.ops.matmul import dot as dot
from undertow.ops.matmul import ger as ger
from undertow.ops.matmul import matmul as matmul
from undertow.ops.matmul import mm as mm
from undertow.ops.matmul import mv as mv
from undertow.ops.matmul import outer as outer
from undertow.ops.matmul import vdot as vdot
from undertow.ops.norms import cdist as cdist
from undertow.ops.norms import dist as dist
from undertow.ops.norms import norm as norm
from undertow.ops.norms import renorm as renorm
from undertow.ops.products import chain_matmul as chain_matmul
from undertow.ops.products import cross as cross
from undertow.ops.products import inner as inner
from undertow.ops.products import kron as kron
from undertow.ops.products import tensordot as tensordot
from undertow.ops.products import trace as trace
from undertow.ops.products import vander as vander
from undertow.ops.reduce import all as all
from undertow.ops.reduce import amax as amax
from undertow.ops.reduce import amin as amin
from undertow.ops.reduce import aminmax as aminmax
from undertow.ops.reduce import any as any
from undertow.ops.reduce import argmax as argmax
from undertow.ops.reduce import argmin as argmin
from undertow.ops.reduce import count_nonzero as count_nonzero
from undertow.ops.reduce import logsumexp as logsumexp
from undertow.ops.reduce import max as max
from undertow.ops.reduce import mean as mean
from undertow.ops.reduce import min as min
from undertow.ops.reduce import nanmean as nanmean
from undertow.ops.reduce import nansum as nansum
from undertow.ops.reduce import prod as prod
from undertow.ops.reduce import sum as sum
from undertow.ops.scan import cummax as cummax
from undertow.ops.scan import cummin as cummin
from undertow.ops.scan import cumprod as cumprod
from undertow.ops.scan import cumsum as cumsum
from undertow.ops.scan import logcumsumexp as logcumsumexp
from undertow.ops.sort import argsort as argsort
from undertow.ops.sort import bincount as bincount
from undertow.ops.sort import bucketize as bucketize
from undertow.ops.sort import histc as histc
from undertow.ops.sort import histogram as histogram
from undertow.ops.sort import kthvalue as kthvalue
from undertow.ops.sort import median as median
from undertow.ops.sort import mode as mode
from undertow.ops.sort import msort as msort
from undertow.ops.sort import nanmedian as nanmedian
from undertow.ops.sort import searchsorted as searchsorted
from undertow.ops.sort import sort as sort
from undertow.ops.sort import topk as topk
from undertow.ops.sort import unique as unique
from undertow.ops.sort import unique_consecutive as unique_consecutive
from undertow.ops.statistics import corrcoef as corrcoef
from undertow.ops.statistics import cov as cov
from undertow.ops.statistics import cumulative_trapezoid as cumulative_trapezoid
from undertow.ops.statistics import diff as diff
from undertow.ops.statistics import nanquantile as nanquantile
from undertow.ops.statistics import quantile as quantile
from undertow.ops.statistics import std as std
from undertow.ops.statistics import std_mean as std_mean
from undertow.ops.statistics import trapezoid as trapezoid
from undertow.ops.statistics import trapz as trapz
from undertow.ops.statistics import var as var
from undertow.ops.statistics import var_mean as var_mean
from undertow.ops.decompositions import linalg_matrix_exp as matrix_exp
from undertow.ops.index import argwhere as argwhere
from undertow.ops.index import diagonal_scatter as diagonal_scatter
from undertow.ops.index import index_add as index_add
from undertow.ops.index import index_copy as index_copy
from undertow.ops.index import index_fill as index_fill
from undertow.ops.index import index_reduce as index_reduce
from undertow.ops.index import index_select as index_select
from undertow.ops.index import masked_scatter as masked_scatter
from undertow.ops.index import masked_select as masked_select
from undertow.ops.index import nonzero as nonzero
from undertow.ops.index import put as put
from undertow.ops.index import select_scatter as select_scatter
from undertow.ops.index import slice_scatter as slice_scatter
from undertow.ops.index import take as take
from undertow.ops.index import take_along_dim as take_along_dim
from undertow.ops.indexing import index_put as index_put
from undertow.ops.indexing import index_put_ as index_put_
from undertow.ops.join import block_diag as block_diag
from undertow.ops.join import cartesian_prod as cartesian_prod
from undertow.ops.join import cat as cat
from undertow.ops.join import column_stack as column_stack
from undertow.ops.join import combinations as combinations
from undertow.ops.join import concat as concat
from undertow.ops.join import concatenate as concatenate
from undertow.ops.join import dstack as dstack
from undertow.ops.join import hstack as hstack
from undertow.ops.join import meshgrid as meshgrid
from undertow.ops.join import row_stack as row_stack
from undertow.ops.join import stack as stack
from undertow.ops.join import vstack as vstack
from undertow.ops.parts import as_strided as as_strided
from undertow.ops.parts import chunk as chunk
from undertow.ops.parts import diagonal as diagonal
from undertow.ops.parts import dsplit as dsplit
from undertow.ops.parts import hsplit as hsplit
from undertow.ops.parts import narrow as narrow
from undertow.ops.parts import select as select
from undertow.ops.parts import split as split
from undertow.ops.parts import split_with_sizes as split_with_sizes
from undertow.ops.parts import tensor_split as tensor_split
from undertow.ops.parts import unbind as unbind
from undertow.ops.parts import vsplit as vsplit
from undertow.ops.scatter import gather as gather
from undertow.ops.scatter import scatter as scatter
from undertow.ops.scatter import scatter_add as scatter_add
from undertow.ops.scatter import scatter_reduce as scatter_reduce
from undertow.ops.shape import adjoint as adjoint
from undertow.ops.shape import flatten as flatten
from undertow.ops.shape import moveaxis as moveaxis
from undertow.ops.shape import movedim as movedim
from undertow.ops.shape import permute as permute
from undertow.ops.shape import ravel as ravel
from undertow.ops.shape import reshape as reshape
from undertow.ops.shape import swapaxes as swapaxes
from undertow.ops.shape import swapdims as swapdims
from undertow.ops.shape import t as t
from undertow.ops.shape import transpose as transpose
from undertow.ops.shape import unflatten as unflatten
from undertow.ops.stretch import atleast_1d as atleast_1d
from undertow.ops.stretch import atleast_2d as atleast_2d
from undertow.ops.stretch import atleast_3d as atleast_3d
from undertow.ops.stretch import broadcast_shapes as broadcast_shapes
from undertow.ops.stretch import broadcast_tensors as broadcast_tensors
from undertow.ops.stretch import broadcast_to as broadcast_to
from undertow.ops.stretch import squeeze as squeeze
from undertow.ops.stretch import unsqueeze as unsqueeze
from undertow.ops.writing import fill as fill
from undertow.ops.writing import fill_ as fill_
from undertow.ops.writing import masked_fill as masked_fill
from undertow.ops.writing import zero_ as zero_
from undertow._tensor import Tensor as Tensor
from undertow import _C as _C
from undertow import accelerator as accelerator
from undertow import backends as backends
from undertow import cuda as cuda
from undertow import nn as nn
from undertow import optim as optim
from undertow import overrides as overrides
from undertow import random as random
from undertow import types as types
from undertow import utils as utils
from undertow import version as version
from undertow.creation import (
    empty as empty,
    empty_like as empty_like,
    empty_permuted as empty_permuted,
    empty_strided as empty_strided,
    eye as eye,
    full as full,
    full_like as full_like,
    ones as ones,
    ones_like as ones_like,
    scalar_tensor as scalar_tensor,
    zeros as zeros,
    zeros_like as zeros_like,
)
from undertow.devices import device as device
from undertow.devices import get_default_device as get_default_device
from undertow.devices import set_default_device as set_default_device
from undertow.dtypes import (
    bfloat16 as bfloat16,
    bool as bool,
    can_cast as can_cast,
    cdouble as cdouble,
    cfloat as cfloat,
    chalf as chalf,
    complex32 as complex32,
    complex64 as complex64,
    complex128 as complex128,
    double as double,
    dtype as dtype,
    finfo as finfo,
    float as float,
    float16 as float16,
    float32 as float32,
    float64 as float64,
    get_default_dtype as get_default_dtype,
    half as half,
    iinfo as iinfo,
    int as int,
    int8 as int8,
    int16 as int16,
    int32 as int32,
    int64 as int64,
    long as long,
    promote_types as promote_types,
    set_default_dtype as set_default_dtype,
    short as short,
    uint8 as uint8,
    uint16 as uint16,
    uint32 as uint32,
    uint64 as uint64,
)
from undertow.from_data import (
    as_tensor as as_tensor,
    asarray as asarray,
    from_dlpack as from_dlpack,
    from_numpy as from_numpy,
    frombuffer as frombuffer,
    tensor as tensor,
)
from undertow.lazy import lazy_names
from undertow.layouts import (
    channels_last as channels_last,
    channels_last_3d as channels_last_3d,
    contiguous_format as contiguous_format,
    jagged as jagged,
    layout as layout,
    memory_format as memory_format,
    preserve_format as preserve_format,
    sparse_bsc as sparse_bsc,
    sparse_bsr as sparse_bsr,
    sparse_coo as sparse_coo,
    sparse_csc as sparse_csc,
    sparse_csr as sparse_csr,
    strided as strided,
)
from undertow.modes import enable_grad as enable_grad
from undertow.modes import inference_mode as inference_mode
from undertow.modes import is_grad_enabled as is_grad_enabled
from undertow.modes import is_inference_mode_enabled as is_inference_mode_enabled
from undertow.modes import no_grad as no_grad
from undertow.modes import set_grad_enabled as set_grad_enabled
from undertow.ops.activation import (
    celu as celu,
    celu_ as celu_,
    hardshrink as hardshrink,
    log_softmax as log_softmax,
    prelu as prelu,
    relu as relu,
    relu_ as relu_,
    selu as selu,
    selu_ as selu_,
    softmax as softmax,
    threshold as threshold,
    threshold_ as threshold_,
)
from undertow.ops.arithmetic import (
    add as add,
    div as div,
    divide as divide,
    float_power as float_power,
    floor_divide as floor_divide,
    fmod as fmod,
    mul as mul,
    multiply as multiply,
    pow as pow,
    remainder as remainder,
    rsub as rsub,
    square as square,
    square_ as square_,
    sub as sub,
    subtract as subtract,
    true_divide as true_divide,
)
from undertow.ops.clamp import (
    addcdiv as addcdiv,
    addcmul as addcmul,
    clamp as clamp,
    clamp_ as clamp_,
    clamp_max as clamp_max,
    clamp_max_ as clamp_max_,
    clamp_min as clamp_min,
    clamp_min_ as clamp_min_,
    clip as clip,
    clip_ as clip_,
    copysign as copysign,
    lerp as lerp,
    nan_to_num as nan_to_num,
    nan_to_num_ as nan_to_num_,
    xlogy as xlogy,
    xlogy_ as xlogy_,
)
from undertow.ops.conv import (
    conv1d as conv1d,
    conv2d as conv2d,
    conv3d as conv3d,
    conv_transpose1d as conv_transpose1d,
    conv_transpose2d as conv_transpose2d,
    conv_transpose3d as conv_transpose3d,
)
from undertow.ops.distance import bilinear as bilinear
from undertow.ops.distance import cosine_similarity as cosine_similarity
from undertow.ops.distance import pairwise_distance as pairwise_distance
from undertow.ops.distance import pdist as pdist
from undertow.ops.dropout import (
    alpha_dropout_ as alpha_dropout_,
    dropout_ as dropout_,
    feature_alpha_dropout_ as feature_alpha_dropout_,
    feature_dropout as feature_dropout,
    feature_dropout_ as feature_dropout_,
    native_dropout as native_dropout,
    rrelu as rrelu,
    rrelu_ as rrelu_,
    torch_alpha_dropout as alpha_dropout,
    torch_dropout as dropout,
    torch_feature_alpha_dropout as feature_alpha_dropout,
)
from undertow.ops.embedding import embedding_renorm_ as embedding_renorm_
from undertow.ops.embedding import torch_embedding as embedding
from undertow.ops.loss_class import ctc_loss as ctc_loss
from undertow.ops.norm import (
    group_norm as group_norm,
    layer_norm as layer_norm,
    native_layer_norm as native_layer_norm,
    rms_norm as rms_norm,
    torch_batch_norm as batch_norm,
    torch_instance_norm as instance_norm,
)
from undertow.ops.pool import (
    max_pool1d as max_pool1d,
    max_pool1d_with_indices as max_pool1d_with_indices,
    max_pool2d as max_pool2d,
    max_pool3d as max_pool3d,
)
from undertow.ops.pool_average import adaptive_avg_pool1d as adaptive_avg_pool1d
from undertow.ops.pool_average import adaptive_max_pool1d_with_indices as adaptive_max_pool1d
from undertow.ops.pool_average import avg_pool1d as avg_pool1d
from undertow.ops.resize import channel_shuffle as channel_shuffle
from undertow.ops.resize import native_channel_shuffle as native_channel_shuffle
from undertow.ops.resize import pixel_shuffle as pixel_shuffle
from undertow.ops.resize import pixel_unshuffle as pixel_unshuffle
from undertow.ops.compare import (
    allclose as allclose,
    bitwise_and as bitwise_and,
    bitwise_left_shift as bitwise_left_shift,
    bitwise_not as bitwise_not,
    bitwise_or as bitwise_or,
    bitwise_right_shift as bitwise_right_shift,
    bitwise_xor as bitwise_xor,
    eq as eq,
    equal as equal,
    ge as ge,
    greater as greater,
    greater_equal as greater_equal,
    gt as gt,
    isclose as isclose,
    isfinite as isfinite,
    isin as isin,
    isinf as isinf,
    isnan as isnan,
    isneginf as isneginf,
    isposinf as isposinf,
    isreal as isreal,
    le as le,
    less as less,
    less_equal as less_equal,
    logical_and as logical_and,
    logical_not as logical_not,
    logical_or as logical_or,
    logical_xor as logical_xor,
    lt as lt,
    ne as ne,
    not_equal as not_equal,
    signbit as signbit,
    where as where,
)
from undertow.ops.complex import is_conj as is_conj
from undertow.ops.complex import (
    angle as angle,
    complex as complex,
    conj as conj,
    conj_physical as conj_physical,
    conj_physical_ as conj_physical_,
    imag as imag,
    polar as polar,
    real as real,
    resolve_conj as resolve_conj,
    resolve_neg as resolve_neg,
    view_as_complex as view_as_complex,
    view_as_real as view_as_real,
)
from undertow.ops.elementwise import (
    abs as abs,
    abs_ as abs_,
    absolute as absolute,
    acos as acos,
    acos_ as acos_,
    acosh as acosh,
    acosh_ as acosh_,
    arccos as arccos,
    arccos_ as arccos_,
    arccosh as arccosh,
    arccosh_ as arccosh_,
    arcsin as arcsin,
    arcsin_ as arcsin_,
    arcsinh as arcsinh,
    arcsinh_ as arcsinh_,
    arctan as arctan,
    arctan2 as arctan2,
    arctan_ as arctan_,
    arctanh as arctanh,
    arctanh_ as arctanh_,
    asin as asin,
    asin_ as asin_,
    asinh as asinh,
    asinh_ as asinh_,
    atan as atan,
    atan2 as atan2,
    atan_ as atan_,
    atanh as atanh,
    atanh_ as atanh_,
    ceil as ceil,
    ceil_ as ceil_,
    cos as cos,
    cos_ as cos_,
    cosh as cosh,
    cosh_ as cosh_,
    deg2rad as deg2rad,
    deg2rad_ as deg2rad_,
    digamma as digamma,
    erf as erf,
    erf_ as erf_,
    erfc as erfc,
    erfc_ as erfc_,
    erfinv as erfinv,
    exp as exp,
    exp2 as exp2,
    exp2_ as exp2_,
    exp_ as exp_,
    expm1 as expm1,
    expm1_ as expm1_,
    fix as fix,
    fix_ as fix_,
    floor as floor,
    floor_ as floor_,
    fmax as fmax,
    fmin as fmin,
    frac as frac,
    frac_ as frac_,
    frexp as frexp,
    heaviside as heaviside,
    hypot as hypot,
    i0 as i0,
    i0_ as i0_,
    ldexp as ldexp,
    lgamma as lgamma,
    log as log,
    log10 as log10,
    log10_ as log10_,
    log1p as log1p,
    log1p_ as log1p_,
    log2 as log2,
    log2_ as log2_,
    log_ as log_,
    logaddexp as logaddexp,
    logaddexp2 as logaddexp2,
    logit as logit,
    logit_ as logit_,
    maximum as maximum,
    minimum as minimum,
    neg as neg,
    neg_ as neg_,
    negative as negative,
    negative_ as negative_,
    nextafter as nextafter,
    polygamma as polygamma,
    positive as positive,
    rad2deg as rad2deg,
    rad2deg_ as rad2deg_,
    reciprocal as reciprocal,
    reciprocal_ as reciprocal_,
    round as round,
    round_ as round_,
    rsqrt as rsqrt,
    rsqrt_ as rsqrt_,
    sgn as sgn,
    sigmoid as sigmoid,
    sigmoid_ as sigmoid_,
    sign as sign,
    sin as sin,
    sin_ as sin_,
    sinc as sinc,
    sinc_ as sinc_,
    sinh as sinh,
    sinh_ as sinh_,
    sqrt as sqrt,
    sqrt_ as sqrt_,
    tan as tan,
    tan_ as tan_,
    tanh as tanh,
    tanh_ as tanh_,
    trunc as trunc,
    trunc_ as trunc_,
)
from undertow.printing import get_printoptions as get_printoptions
from undertow.printing import set_printoptions as set_printoptions
from undertow.process_settings import (
    are_deterministic_algorithms_enabled as are_deterministic_algorithms_enabled,
    get_float32_matmul_precision as get_float32_matmul_precision,
    get_num_interop_threads as get_num_interop_threads,
    get_num_threads as get_num_threads,
    is_deterministic_algorithms_warn_only_enabled as is_deterministic_algorithms_warn_only_enabled,
    is_warn_always_enabled as is_warn_always_enabled,
    set_float32_matmul_precision as set_float32_matmul_precision,
    set_num_interop_threads as set_num_interop_threads,
    set_num_threads as set_num_threads,
    set_warn_always as set_warn_always,
    use_deterministic_algorithms as use_deterministic_algorithms,
)
from undertow.random import (
    Generator as Generator,
    default_generator as default_generator,
    get_rng_state as get_rng_state,
    initial_seed as initial_seed,
    manual_seed as manual_seed,
    normal as normal,
    rand as rand,
    rand_like as rand_like,
    randint as randint,
    randint_like as randint_like,
    randn as randn,
    randn_like as randn_like,
    randperm as randperm,
    seed as seed,
    set_rng_state as set_rng_state,
)
from undertow.ranges import arange as arange
from undertow.ranges import linspace as linspace
from undertow.ranges import logspace as logspace
from undertow.ranges import range as range
from undertow.sizes import Size as Size
from undertow.storage import UntypedStorage as UntypedStorage
from undertow.tensor_layout import (
    get_device as get_device,
    is_complex as is_complex,
    is_floating_point as is_floating_point,
    is_neg as is_neg,
    is_same_size as is_same_size,
    is_signed as is_signed,
    numel as numel,
    result_type as result_type,
)
from undertow.tensor_python import is_nonzero as is_nonzero
from undertow.tensor_random import bernoulli as bernoulli
from undertow.tensor_random import binomial as binomial
from undertow.tensor_random import multinomial as multinomial
from undertow.tensor_random import poisson as poisson
from undertow.tensor_types import (
    BFloat16Tensor as BFloat16Tensor,
    BoolTensor as BoolTensor,
    ByteTensor as ByteTensor,
    CharTensor as CharTensor,
    DoubleTensor as DoubleTensor,
    FloatTensor as FloatTensor,
    HalfTensor as HalfTensor,
    IntTensor as IntTensor,
    LongTensor as LongTensor,
    ShortTensor as ShortTensor,
    is_tensor as is_tensor,
    set_default_tensor_type as set_default_tensor_type,
    typename as typename,
)

# Imported when first used: each of these brings in much that most programs do without.
_LAZY = {
    "load": "undertow.serialization",
    "pretend": "undertow.pretend",
    "pretend_torch": "undertow.pretend",
    "save": "undertow.serialization",
    "serialization": "undertow.serialization",
}
__getattr__, __dir__ = lazy_names(__name__, _LAZY)
if TYPE_CHECKING:
    from undertow import serialization as serialization
    from undertow.pretend import pretend_torch as pretend_torch
    from undertow.serialization import load as load
    from undertow.serialization import save as save

newaxis = None
__version__ = "0.1.0"
