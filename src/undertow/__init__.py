"""undertow: PyTorch's autograd engine and hook system in Python. `import undertow as torch`."""

from math import e as e
from math import inf as inf
from math import nan as nan
from math import pi as pi

from undertow import autograd as autograd
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
from undertow import backends as backends
from undertow import cuda as cuda
from undertow import nn as nn
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
from undertow.ops.elementwise import exp as exp
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
    bernoulli as bernoulli,
    binomial as binomial,
    default_generator as default_generator,
    get_rng_state as get_rng_state,
    initial_seed as initial_seed,
    manual_seed as manual_seed,
    multinomial as multinomial,
    normal as normal,
    poisson as poisson,
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
    is_conj as is_conj,
    is_floating_point as is_floating_point,
    is_neg as is_neg,
    is_same_size as is_same_size,
    is_signed as is_signed,
    numel as numel,
)
from undertow.tensor_python import is_nonzero as is_nonzero
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

newaxis = None
__version__ = "0.1.0"
