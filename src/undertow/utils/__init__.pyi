# Written by `make tables` from the modules themselves: do not edit.
from typing import Any
from undertow.utils import _contextlib as _contextlib, _device as _device, _foreach_utils as _foreach_utils, _mode_utils as _mode_utils, _python_dispatch as _python_dispatch, _pytree as _pytree, benchmark as benchmark, checkpoint as checkpoint, collect_env as collect_env, data as data, deterministic as deterministic, dlpack as dlpack, flop_counter as flop_counter, hooks as hooks, module_tracker as module_tracker, weak as weak
from undertow.utils._swap import set_module as set_module, swap_tensors as swap_tensors
model_zoo: Any
__all__: list[str]
