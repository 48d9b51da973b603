"""Automatic differentiation: `backward`, `grad`, hooks on the graph, custom functions."""

from typing import TYPE_CHECKING

from undertow._src.base.lazy import lazy_names
from undertow._src.base.modes import enable_grad as enable_grad
from undertow._src.base.modes import inference_mode as inference_mode
from undertow._src.base.modes import no_grad as no_grad
from undertow._src.base.modes import set_grad_enabled as set_grad_enabled
from undertow._src.engine import own_references as _own_references
from undertow._src.engine.differentiate import backward as backward
from undertow._src.engine.differentiate import grad as grad
from undertow.autograd import graph as graph
from undertow.autograd.anomaly_mode import detect_anomaly as detect_anomaly
from undertow.autograd.anomaly_mode import set_detect_anomaly as set_detect_anomaly
from undertow.autograd.function import Function as Function
from undertow.autograd.gradcheck import gradcheck as gradcheck
from undertow.autograd.gradcheck import gradgradcheck as gradgradcheck
from undertow.autograd.graph import _unsafe_preserve_version_counter as _unsafe_preserve_version_counter

_own_references.find_out()

_LAZY = {name: f"undertow.autograd.{name}" for name in (
    "_functions", "forward_ad", "functional", "grad_mode", "profiler", "profiler_legacy", "profiler_util", "variable",
)}  # fmt: skip
_LAZY |= dict.fromkeys(
    "_force_original_view_tracking enforce_grad_layout_policy is_multithreading_enabled is_view_replay_enabled "
    "set_multithreading_enabled".split(),
    "undertow.autograd.grad_mode",
)
_LAZY |= dict.fromkeys("DeviceType ProfilerConfig ProfilerState".split(), "undertow._src.engine.profiling.kinds")
_LAZY["kineto_available"] = "undertow.autograd.profiler"
_LAZY["NestedIOFunction"] = "undertow._src.engine.nested_io"
_LAZY["ProfilerActivity"] = "undertow.profiler"
_LAZY |= dict.fromkeys("handle_torch_function has_torch_function is_tensor_like".split(), "undertow.overrides")
_LAZY["SavedTensor"] = "undertow._src.engine.saved"
_LAZY["Variable"] = "undertow.autograd.variable"
_LAZY |= dict.fromkeys(
    "_record_function_with_args_enter _record_function_with_args_exit".split(), "undertow.autograd.profiler"
)
_LAZY["_profiler_enabled"] = "undertow.autograd.profiler:is_recording"
_LAZY |= dict.fromkeys(
    "_calculate_shape _engine_run_backward _is_checkpoint_valid _make_grads _tensor_or_tensors_to_tuple".split(),
    "undertow._src.compat.autograd_steps",
)
__getattr__, __dir__ = lazy_names(__name__, _LAZY)
if TYPE_CHECKING:
    from undertow.autograd import functional as functional
    from undertow.autograd.variable import Variable as Variable
