"""The casts of autocast: which functions compute in half precision, which in float32, and the cache of cast weights.

The lists are PyTorch's for the CPU. A function on none of them computes in the dtype of its arguments. While a listed
function runs, autocast is off. Calls with `out=` and in-place methods are never cast.

The cache: a weight is cast once per outermost `autocast` block. Its uses share one node of the graph, and their gradients
are summed in half precision, as in PyTorch. Only float32 leaves that require grad are cached.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from undertow._src.base.modes import local, slow_path
from undertow._src.rules.rule import Rule
from undertow._src.tensor.core import TensorCore
from undertow._src.tensor.methods.convert import converted
from undertow._src.types import dtypes
from undertow._src.types.devices import device as Device
from undertow._src.types.dtypes import DTYPE_OF, dtype, promote

Function = Callable[..., Any]

LOWER, FLOAT32, PROMOTE, PAD = "lower", "float32", "promote", "pad"

_LOWER = """
conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d linear matmul mm bmm addmm addbmm baddbmm prelu
scaled_dot_product_attention linalg_vecdot
"""
_FLOAT32 = """
avg_pool3d adaptive_avg_pool3d adaptive_max_pool3d max_pool3d fractional_max_pool2d fractional_max_pool3d max_unpool1d
max_unpool2d max_unpool3d grid_sample polar prod quantile nanquantile stft cdist trace view_as_complex
cholesky cholesky_inverse cholesky_solve inverse pinverse qr svd triangular_solve
binary_cross_entropy binary_cross_entropy_with_logits cosine_embedding_loss cross_entropy ctc_loss hinge_embedding_loss
huber_loss kl_div l1_loss margin_ranking_loss mse_loss multi_margin_loss multilabel_margin_loss nll_loss
poisson_nll_loss smooth_l1_loss soft_margin_loss triplet_margin_loss
fft_fft fft_ifft fft_fft2 fft_ifft2 fft_fftn fft_ifftn fft_rfft fft_irfft fft_rfft2 fft_irfft2 fft_rfftn fft_irfftn
fft_hfft fft_ihfft
linalg_cholesky linalg_cholesky_ex linalg_cond linalg_eig linalg_eigh linalg_eigvals linalg_eigvalsh linalg_inv
linalg_inv_ex linalg_lstsq linalg_matrix_rank linalg_qr linalg_solve linalg_svd linalg_svdvals linalg_tensorinv
linalg_tensorsolve
"""
POLICIES: dict[str, str] = {
    **dict.fromkeys(_LOWER.split(), LOWER),
    **dict.fromkeys(_FLOAT32.split(), FLOAT32),
    "pad": PAD,  # for the modes "reflect" and "replicate"
    **dict.fromkeys(["cat", "stack", "index_copy", "concat", "concatenate"], PROMOTE),
}
# The steps of a GRU use its state without a cast, so the result has the state's dtype.
_RECURRENT = frozenset(["mkldnn_rnn_layer", "rnn", "gru"])


class Autocast:
    """The value of `local.modes.autocast` while autocast is on for some type of device."""

    __slots__ = ("cache", "lower", "policies")

    def __init__(self, lower: dict[str, dtype], cache: dict[int, tuple[Any, Any]] | None = None) -> None:
        self.lower = lower  # the dtype to compute in, by type of device
        self.cache = {} if cache is None else cache  # the casts kept for reuse, by the id of what was cast
        self.policies = POLICIES

    def run(self, function: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run a listed function on arguments of the dtype that its list requires."""
        policy = POLICIES[function.__name__]
        modes = local.modes
        lower = self.lower_for((args, kwargs))
        if lower is not None and kwargs.get("out") is None and (policy is not PAD or _repeats(*args, **kwargs)):
            target = self.target(policy, lower, (args, kwargs))
            args = tuple([self.cast(value, target) for value in args])
            kwargs = {name: self.cast(value, target) for name, value in kwargs.items()}
        before, modes.autocast = modes.autocast, None
        try:
            return function(*args, **kwargs)
        finally:
            modes.autocast = before

    def for_rule(self, rule: Rule, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the cast inputs of a rule without a public function: the recurrent layers."""
        lower = self.lower_for(inputs) if rule.name in _RECURRENT else None
        if lower is None:
            return inputs
        target = DTYPE_OF[inputs[1]._array.dtype] if rule.name == "gru" else lower
        return tuple([self.cast(value, target) for value in inputs])

    def lower_for(self, values: Any) -> dtype | None:
        """Return the dtype to compute in on the device of the first tensor; None if autocast is off there."""
        first = next(_tensors(values), None)
        return None if first is None else self.lower.get(first.device.type)

    def target(self, policy: str, lower: dtype, values: Any) -> dtype:
        """Return the dtype to cast to."""
        if policy == LOWER:
            return lower
        if policy in (FLOAT32, PAD):
            return dtypes.float32
        widest = lower
        for value in _tensors(values):
            widest = promote(widest, DTYPE_OF[value._array.dtype]) if value._array.dtype.kind in "fV" else widest
        return widest

    def cast(self, value: Any, target: dtype) -> Any:
        """Return a tensor in the given dtype if it is floating point and not double; lists of tensors too."""
        if isinstance(value, TensorCore):
            kind = DTYPE_OF[value._array.dtype]
            if kind is target or not kind.is_floating_point or kind is dtypes.float64:
                return value
            return self.cast_once(value, target)
        if type(value) in (tuple, list) and any(isinstance(part, TensorCore) for part in value):
            return type(value)([self.cast(part, target) for part in value])
        return value

    def cast_once(self, tensor: Any, target: dtype) -> Any:
        leaf = tensor._requires_grad and tensor._edge is None and tensor._view is None and local.modes.grad_enabled
        if not leaf or target is dtypes.float32 or not settings.cache_enabled or tensor._array.dtype.char != "f":
            return converted(tensor, target)
        kept = self.cache.get(id(tensor))
        if kept is None or kept[0] is not tensor or kept[1].dtype is not target:
            kept = self.cache[id(tensor)] = (tensor, converted(tensor, target))
        return kept[1]


def _repeats(input: Any, pad: Any, mode: str = "constant", value: Any = None) -> bool:
    return mode in ("reflect", "replicate")


def _tensors(values: Any) -> Any:
    for value in values.values() if isinstance(values, dict) else values:
        if isinstance(value, TensorCore):
            yield value
        elif isinstance(value, (tuple, list, dict)):
            yield from _tensors(value)


# --- the settings of a thread


class Settings(threading.local):
    """A thread's settings: the dtype of autocast by type of device, whether it is on where no tensors are, the cache."""

    def __init__(self) -> None:
        self.enabled: dict[str, bool] = {}
        self.dtype: dict[str, dtype] = {}
        self.cache_enabled = True
        self.nesting = 0
        self.cache: dict[int, tuple[Any, Any]] = {}


settings = Settings()
DEFAULTS = {"cpu": dtypes.bfloat16, "xla": dtypes.bfloat16, "mkldnn": dtypes.bfloat16}
_HERE = ("cpu", "cuda", "xla")  # types of device that tensors can live on
_CASTING_DEVICES = ("cpu", "cuda", "xpu", "ipu", "hpu", "xla", "privateuseone", "mps", "mtia", "maia")


def is_autocast_available(device_type: str) -> bool:
    """Whether a type of device supports autocast."""
    return Device(device_type).type in _CASTING_DEVICES


def is_autocast_enabled(device_type: str = "cuda") -> bool:
    """Whether autocast is on for a type of device, in this thread."""
    kind = Device(device_type).type
    if kind in _HERE:
        return local.modes.autocast is not None and kind in local.modes.autocast.lower
    return settings.enabled.get(kind, False)


def set_autocast_enabled(device_type: Any, enabled: bool | None = None) -> None:
    """Turn autocast on or off for a type of device; with one argument, for CUDA."""
    if enabled is None:
        device_type, enabled = "cuda", device_type
    kind = Device(device_type).type
    if kind in _HERE:
        _switch(kind, bool(enabled))
    else:
        settings.enabled[kind] = bool(enabled)


def get_autocast_dtype(device_type: str) -> dtype:
    """Return the dtype that autocast computes in on a type of device."""
    kind = Device(device_type).type
    if kind not in _CASTING_DEVICES:
        raise RuntimeError("unsupported scalarType")
    if local.modes.autocast is not None and kind in local.modes.autocast.lower:
        return local.modes.autocast.lower[kind]
    return settings.dtype.get(kind) or DEFAULTS.get(kind, dtypes.float16)


def set_autocast_dtype(device_type: str, dtype: dtype) -> None:
    """Set the dtype that autocast computes in on a type of device."""
    kind = Device(device_type).type
    settings.dtype[kind] = dtype
    if local.modes.autocast is not None and kind in local.modes.autocast.lower:
        local.modes.autocast.lower[kind] = dtype


def _switch(kind: str, enabled: bool) -> None:
    """Turn the thread's autocast on or off for a type of device; while it is on, ops take the slow path."""
    modes = local.modes
    was = modes.autocast
    lower = {} if was is None else {other: to for other, to in was.lower.items() if other != kind}
    if enabled:
        lower[kind] = get_autocast_dtype(kind)
    modes.autocast = Autocast(lower, settings.cache) if lower else None
    if modes.autocast is not None and was is None:
        slow_path.enter()
    if modes.autocast is None and was is not None:
        slow_path.leave()


@contextmanager
def autocast_as_it_was(then: Autocast | None) -> Iterator[None]:
    """Restore an earlier autocast mode inside the block, for code that runs a second time or later."""
    modes = local.modes
    if modes.autocast is None and then is None:
        yield
        return
    before, modes.autocast = modes.autocast, None if then is None else Autocast(dict(then.lower))
    slow_path.enter()
    try:
        yield
    finally:
        modes.autocast = before
        slow_path.leave()


def is_autocast_cache_enabled() -> bool:
    """Whether the casts of weights are kept for reuse."""
    return settings.cache_enabled


def set_autocast_cache_enabled(enabled: bool) -> None:
    settings.cache_enabled = bool(enabled)


def clear_autocast_cache() -> None:
    """Clear the cache of casts."""
    settings.cache.clear()


def autocast_increment_nesting() -> int:
    """Count an entered block, and return the nesting depth."""
    settings.nesting += 1
    return settings.nesting


def autocast_decrement_nesting() -> int:
    settings.nesting -= 1
    return settings.nesting
