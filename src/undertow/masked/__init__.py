"""`torch.masked`: reductions and normalizations of the elements that a mask lets through."""

from undertow.masked._ops import _canonical_dim as _canonical_dim
from undertow.masked._ops import _combine_input_and_mask as _combine_input_and_mask
from undertow.masked._ops import _input_mask as _input_mask
from undertow.masked._ops import _output_mask as _output_mask
from undertow.masked._ops import _reduction_identity as _reduction_identity
from undertow.masked._ops import _where as _where
from undertow.masked._ops import amax as amax
from undertow.masked._ops import amin as amin
from undertow.masked._ops import argmax as argmax
from undertow.masked._ops import argmin as argmin
from undertow.masked._ops import cumprod as cumprod
from undertow.masked._ops import cumsum as cumsum
from undertow.masked._ops import log_softmax as log_softmax
from undertow.masked._ops import logaddexp as logaddexp
from undertow.masked._ops import logsumexp as logsumexp
from undertow.masked._ops import mean as mean
from undertow.masked._ops import median as median
from undertow.masked._ops import norm as norm
from undertow.masked._ops import normalize as normalize
from undertow.masked._ops import prod as prod
from undertow.masked._ops import softmax as softmax
from undertow.masked._ops import softmin as softmin
from undertow.masked._ops import std as std
from undertow.masked._ops import sum as sum
from undertow.masked._ops import var as var

__all__ = [
    "amax", "amin", "argmax", "argmin", "cumprod", "cumsum", "log_softmax", "logaddexp", "logsumexp", "mean", "median",
    "norm", "normalize", "prod", "softmax", "softmin", "std", "sum", "var",
]  # fmt: skip
