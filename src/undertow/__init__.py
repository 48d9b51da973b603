"""undertow: PyTorch's autograd engine and hook system in Python. `import undertow as torch`."""

import sys as _sys
from math import e as e, inf as inf, nan as nan, pi as pi

# Imported first: Tensor is composed of the parts below and of autograd's methods, which must be imported in this order.
from undertow import autograd as autograd
from undertow._src.base.lazy_table import HOMES as _HOMES, MODULES as _MODULES, RENAMED as _RENAMED
from undertow._tensor import Tensor as Tensor

from undertow import nn as nn
from undertow._src.tensor.creation import (
    empty as empty, empty_like as empty_like, empty_permuted as empty_permuted, empty_strided as empty_strided,
    eye as eye, full as full, full_like as full_like, ones as ones, ones_like as ones_like,
    scalar_tensor as scalar_tensor, zeros as zeros, zeros_like as zeros_like,
)  # fmt: skip
from undertow._src.types.devices import (
    device as device, get_default_device as get_default_device, set_default_device as set_default_device,
)  # fmt: skip
from undertow._src.types.dtypes import (
    bfloat16 as bfloat16, bool as bool, can_cast as can_cast, cdouble as cdouble, cfloat as cfloat, chalf as chalf,
    complex128 as complex128, complex32 as complex32, complex64 as complex64, double as double, dtype as dtype,
    finfo as finfo, float as float, float8_e4m3fn as float8_e4m3fn, float8_e4m3fnuz as float8_e4m3fnuz,
    float8_e5m2 as float8_e5m2, float8_e5m2fnuz as float8_e5m2fnuz, float8_e8m0fnu as float8_e8m0fnu,
    float16 as float16, float32 as float32, float64 as float64,
    get_default_dtype as get_default_dtype, half as half, iinfo as iinfo, int as int, int16 as int16, int32 as int32,
    int64 as int64, int8 as int8, long as long, promote_types as promote_types,
    qint32 as qint32, qint8 as qint8, quint8 as quint8,
    set_default_dtype as set_default_dtype, short as short, uint16 as uint16, uint32 as uint32, uint64 as uint64,
    uint8 as uint8,
)  # fmt: skip
from undertow._src.tensor.from_data import (
    as_tensor as as_tensor, asarray as asarray, from_dlpack as from_dlpack, from_numpy as from_numpy,
    frombuffer as frombuffer, tensor as tensor,
)  # fmt: skip
from undertow._src.types.layouts import (
    channels_last as channels_last, channels_last_3d as channels_last_3d, contiguous_format as contiguous_format,
    legacy_contiguous_format as legacy_contiguous_format,
    jagged as jagged, layout as layout, memory_format as memory_format, preserve_format as preserve_format,
    sparse_bsc as sparse_bsc, sparse_bsr as sparse_bsr, sparse_coo as sparse_coo, sparse_csc as sparse_csc,
    sparse_csr as sparse_csr, strided as strided,
)  # fmt: skip
from undertow._src.base.lazy import TableFinder as _TableFinder, lazy_names as _lazy_names
from undertow._src.base.modes import (
    enable_grad as enable_grad, inference_mode as inference_mode,
    is_anomaly_check_nan_enabled as is_anomaly_check_nan_enabled, is_anomaly_enabled as is_anomaly_enabled,
    is_grad_enabled as is_grad_enabled, is_inference_mode_enabled as is_inference_mode_enabled, no_grad as no_grad,
    set_grad_enabled as set_grad_enabled,
)  # fmt: skip
from undertow._src.tensor.printing import get_printoptions as get_printoptions, set_printoptions as set_printoptions
from undertow._src.types.sizes import Size as Size
from undertow.storage import UntypedStorage as UntypedStorage, is_storage as is_storage
from undertow._src.tensor.methods.copy import detach as detach, detach_ as detach_
from undertow._src.tensor.methods.layout import (
    is_distributed as is_distributed, is_inference as is_inference,
    get_device as get_device, is_complex as is_complex, is_floating_point as is_floating_point,
    is_same_size as is_same_size, is_signed as is_signed, numel as numel, result_type as result_type,
)  # fmt: skip
from undertow._src.tensor.methods.python import is_nonzero as is_nonzero

# Imported on first use: each of these imports much that most programs do not need.
_LAZY = {name: home for home, names in _HOMES.items() for name in names.split()} | _RENAMED
_LAZY |= {name: f"undertow.{name}" for name in _MODULES}
__getattr__, __dir__ = _lazy_names(__name__, _LAZY)

_sys.meta_path.append(_TableFinder)
newaxis = None
__version__ = "0.1.0"
