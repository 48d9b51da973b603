"""Settings of a compiler that undertow does not have: any may be set, and only `disable` is read."""

import os as _os
import sys as _sys

from undertow.utils._config_module import install_config_module as _install

suppress_errors = verbose = capture_scalar_outputs = capture_dynamic_output_shape_ops = False
error_on_recompile = fail_on_recompile_limit_hit = specialize_int = specialize_float = False
allow_unspec_int_on_nn_module = compiled_autograd = allow_rnn = trace_autograd_ops = nested_graph_breaks = False
inline_inbuilt_nn_modules = automatic_dynamic_shapes = optimize_ddp = assume_static_by_default = guard_nn_modules = True
dynamic_shapes = trace_numpy = capture_autograd_function = capture_func_transforms = enable_trace_contextlib = True
cache_size_limit = recompile_limit = 8
accumulated_cache_size_limit = accumulated_recompile_limit = 256
disable = _os.environ.get("TORCH_COMPILE_DISABLE") == "1"

_install(_sys.modules[__name__], open_ended=True)
