"""The few names of PyTorch's compiled core that ordinary code reaches for."""

from __future__ import annotations

from undertow._src.base.errors import _LinAlgError as _LinAlgError
from undertow._src.base.lazy import lazy_names
from undertow._src.base.modes import is_grad_enabled as is_grad_enabled
from undertow._src.base.modes import local, set_grad_enabled
from undertow._src.overrides.torch_function import DisableTorchFunction as DisableTorchFunction
from undertow._src.overrides.torch_function import DisableTorchFunctionSubclass as DisableTorchFunctionSubclass
from undertow._src.overrides.torch_function import disabled as _disabled_torch_function_impl
from undertow._src.overrides.torch_function import dispatch_disabled as _disabled_torch_dispatch_impl
from undertow._src.random.generators import Generator as Generator
from undertow._src.tensor.core import TensorCore as TensorBase
from undertow._src.types.devices import device as device
from undertow._src.types.devices import get_default_device
from undertow._src.types.dtypes import dtype as dtype
from undertow._src.types.layouts import layout as layout
from undertow._src.types.layouts import memory_format as memory_format
from undertow._src.types.sizes import Size as Size
from undertow._tensor import _TensorMeta as _TensorMeta
from undertow.overrides import has_torch_function as _has_torch_function
from undertow.overrides import has_torch_function_unary as _has_torch_function_unary
from undertow.overrides import has_torch_function_variadic as _has_torch_function_variadic

# Names of PyTorch's compiled code, defined in other modules here.
_ELSEWHERE = {
    "undertow": "autocast_decrement_nesting autocast_increment_nesting clear_autocast_cache default_generator finfo "
    "get_autocast_cpu_dtype get_autocast_dtype get_autocast_gpu_dtype get_default_dtype get_num_interop_threads "
    "get_num_threads has_lapack has_mkl has_openmp has_spectral iinfo is_anomaly_check_nan_enabled is_anomaly_enabled "
    "is_autocast_cache_enabled is_autocast_cpu_enabled is_autocast_enabled is_inference_mode_enabled set_anomaly_enabled "
    "set_autocast_cache_enabled set_autocast_cpu_dtype set_autocast_cpu_enabled set_autocast_dtype set_autocast_enabled "
    "set_autocast_gpu_dtype set_flush_denormal set_num_interop_threads set_num_threads AcceleratorError OutOfMemoryError",
    "undertow._C._dispatch_keys": "DispatchKey DispatchKeySet",
    "undertow._C._engine": "_current_autograd_node _current_graph_task_execution_order _current_graph_task_id "
    "_get_autograd_fallback_mode _has_storage _increment_version _is_alias_of _set_autograd_fallback_mode "
    "_set_multithreading_enabled _set_view_replay_enabled _will_engine_execute_node",
    "undertow.futures": "Future",
    "undertow.jit": "CompilationUnit ScriptFunction ScriptModule",
    "undertow._src.compat.placeholders": "Event Stream Tag qscheme",
    "undertow.serialization.file_reader": "PyTorchFileReader PyTorchFileWriter",
    "undertow.storage": "UntypedStorage",
}
_homes = {name: home for home, names in _ELSEWHERE.items() for name in names.split()}
_homes |= {name: f"undertow._C.{name}" for name in (
    "_autograd", "_fft", "_functions", "_functorch", "_linalg", "_nn", "_profiler", "_special",
)}  # fmt: skip
_homes["_are_functorch_transforms_active"] = "undertow.func._vmapping:in_vmap"
_homes["_is_fwd_grad_enabled"] = "undertow.autograd.forward_ad:_is_fwd_grad_enabled"
_homes["_is_multithreading_enabled"] = "undertow.autograd.grad_mode:is_multithreading_enabled"
_homes["_is_view_replay_enabled"] = "undertow.autograd.grad_mode:is_view_replay_enabled"
_homes["_DisableTorchDispatch"] = "undertow.utils._mode_utils:no_dispatch"
_homes["_get_dispatch_stack_at"] = "undertow.utils._python_dispatch:_get_dispatch_stack_at"
_homes["_len_torch_dispatch_stack"] = "undertow.utils._python_dispatch:_len_torch_dispatch_stack"
_homes["StorageBase"] = "undertow.storage:UntypedStorage"
__getattr__, __dir__ = lazy_names(__name__, _homes)


def _set_grad_enabled(enabled: bool) -> None:
    """Whether gradients are recorded from now on."""
    set_grad_enabled(enabled)


def _log_api_usage_once(event: str) -> None:
    """Do nothing: feature use is not counted."""


# What PyTorch was built with.
_has_cuda = _has_cudnn = _has_cusparselt = _has_kleidiai = _has_magma = _has_mkldnn = _has_mps = _has_xpu = False


def _has_distributed() -> bool:
    return False


def _get_tracing_state() -> None:
    """Return the tracing state: None."""


def _is_tracing() -> bool:
    """Whether a program is being traced: never."""
    return False


_jit_can_fuse_on_cpu = _jit_can_fuse_on_gpu = _is_tracing


def _mps_is_available() -> bool:
    """Whether there is a device of this kind; programs switch it off by replacing this."""
    return False


_mps_is_in_bad_fork = _mps_is_available


def _get_default_device() -> str:
    """Where new tensors are made."""
    return str(get_default_device())


def _is_torch_function_mode_enabled() -> bool:
    """Whether a function mode is on."""
    return bool(local.modes.function_modes)


def _is_any_autocast_enabled() -> bool:
    """Whether autocast is on."""
    return local.modes.autocast is not None


def _get_privateuse1_backend_name() -> str:
    return "privateuseone"


def _get_accelerator(check: bool = False) -> device:
    """Return the device to compute on."""
    return device("cpu")


def _jit_set_profiling_mode(enabled: bool) -> bool:
    """Do nothing: scripts stay Python."""
    return True


_jit_set_profiling_executor = _jit_set_profiling_mode


def _jit_set_texpr_fuser_enabled(enabled: bool) -> None:
    """Do nothing: nothing is fused."""


_jit_override_can_fuse_on_cpu = _jit_override_can_fuse_on_gpu = _jit_set_texpr_fuser_enabled
_jit_set_nvfuser_enabled = _jit_set_texpr_fuser_enabled


__all__ = [
    "_get_accelerator", "_get_privateuse1_backend_name", "_get_tracing_state", "_jit_set_profiling_executor",
    "_jit_set_profiling_mode", "_jit_set_texpr_fuser_enabled", "_log_api_usage_once", "DisableTorchFunction",
    "DisableTorchFunctionSubclass", "Generator", "Size", "TensorBase", "_TensorMeta", "_disabled_torch_dispatch_impl",
    "_disabled_torch_function_impl", "_has_torch_function", "_has_torch_function_unary",
    "_has_torch_function_variadic", "device", "dtype", "is_grad_enabled", "layout", "memory_format",
]  # fmt: skip
